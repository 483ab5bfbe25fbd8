/* Statements, whichever database they go to; store_internal.h says what they are. */
#include <stdio.h>

#include "streams/memory/store_internal.h"

struct sql_query* sql_open(struct store* s, const char* sql, const char* doing, struct error* e,
                           const struct sql_value* value, int n) {
	struct sql_query* q = s->driver->prepare(s, sql, doing, e);
	for (int i = 0; q && i < n; i++)
		s->driver->bind(q, i + 1, &value[i]);
	return q;
}

enum sql_step sql_step(struct sql_query* q, struct error* e) { return q->store->driver->step(q, e); }
int64_t sql_int(struct sql_query* q, int column) { return q->store->driver->column(q, column).number; }
double sql_real(struct sql_query* q, int column) { return q->store->driver->column(q, column).real; }

void sql_copy_text(struct sql_query* q, int column, char* to, size_t size) {
	const struct sql_value v = q->store->driver->column(q, column);
	snprintf(to, size, "%s", v.kind == SQL_TEXT && v.data ? (const char*)v.data : "");
}

void sql_finish(struct sql_query* q) {
	if (q)
		q->store->driver->finish(q);
}

bool sql_run(struct store* s, const char* sql, const char* doing, struct error* e,
             const struct sql_value* value, int n) {
	struct sql_query* q = sql_open(s, sql, doing, e, value, n);
	const bool good = q && sql_step(q, e) != SQL_FAILED;
	sql_finish(q);
	return good;
}

int64_t sql_number(struct store* s, const char* sql, const char* doing, struct error* e,
                   const struct sql_value* value, int n) {
	struct sql_query* q = sql_open(s, sql, doing, e, value, n);
	const enum sql_step step = q ? sql_step(q, e) : SQL_FAILED;
	const int64_t number = step == SQL_ROW ? sql_int(q, 0) : -1;
	if (step == SQL_DONE)
		error_set(e, "%s: nothing found while %s", s->path, doing);
	sql_finish(q);
	return number;
}

/* ---- schemas ------------------------------------------------------------------------------ */

bool store_check_schema(const struct store* s, int64_t version, int oldest, struct error* e) {
	if (version > STORE_SCHEMA)
		return error_set(e,
		                 "%s has schema version %lld, newer than this program's %d: use a newer swiftlet "
		                 "(left as it is)",
		                 s->path, (long long)version, STORE_SCHEMA);
	return version == 0 || version >= oldest ||
	       error_set(e, "%s has schema version %lld, older than any that this program reads (left as it is)",
	                 s->path, (long long)version);
}

void store_tell_upgrade(const struct store* s, int64_t version, int figures_since) {
	if (version > 0 && version < figures_since)
		fprintf(stderr,
		        "swiftlet: %s had schema version %lld: its masks are kept, what was measured beside "
		        "them is measured anew\n",
		        s->path, (long long)version);
}
