/* Each call goes to the store's driver. */
#include "streams/memory/sql.h"

#include "streams/memory/store_internal.h"

bool sql_execute(struct store* s, const char* sql, const char* doing, struct error* e) {
	return s->driver->execute(s, sql, doing, e);
}
bool sql_begin(struct store* s, const char* doing, struct error* e) { return s->driver->begin(s, doing, e); }
bool sql_end(struct store* s, bool good, const char* doing, struct error* e) {
	return s->driver->end(s, good, doing, e);
}
struct sql_query* sql_prepare(struct store* s, const char* sql, const char* doing, struct error* e) {
	return s->driver->prepare(s, sql, doing, e);
}
void sql_bind_all(struct sql_query* q, const struct sql_value* value, int n) {
	q->store->driver->reset(q);
	for (int i = 0; i < n; i++)
		q->store->driver->bind(q, i + 1, &value[i]);
}
enum sql_step sql_step(struct sql_query* q, struct error* e) { return q->store->driver->step(q, e); }
int64_t sql_int(struct sql_query* q, int column) { return q->store->driver->get_int(q, column); }
double sql_real(struct sql_query* q, int column) { return q->store->driver->get_real(q, column); }
const char* sql_text(struct sql_query* q, int column) { return q->store->driver->get_text(q, column); }
const void* sql_blob(struct sql_query* q, int column, size_t* size) {
	return q->store->driver->get_blob(q, column, size);
}
void sql_finish(struct sql_query* q) {
	if (q)
		q->store->driver->finish(q);
}

bool sql_run(struct sql_query* q, int* changes, struct error* e) {
	const bool good = sql_step(q, e) != SQL_FAILED;
	if (good && changes)
		*changes = q->store->driver->changes(q);
	sql_finish(q);
	return good;
}

int64_t sql_number(struct store* s, const char* sql, const char* doing, struct error* e) {
	struct sql_query* q = sql_prepare(s, sql, doing, e);
	if (!q)
		return -1;
	int64_t value = -1;
	const enum sql_step step = sql_step(q, e);
	if (step == SQL_ROW)
		value = sql_int(q, 0);
	else if (step == SQL_DONE)
		error_set(e, "%s: nothing found while %s", s->path, doing);
	sql_finish(q);
	return value;
}
