/* The driver of the store's statements on PostgreSQL. Values go as text, but for blobs; results come as text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/memory/store_postgres_internal.h"

enum { MOST = 32 /* parameters, and columns, of a statement */ };
enum { INT8 = 20, FLOAT8 = 701, TEXT = 25, BYTEA = 17 };

struct query {
	struct sql_query base;
	char* sql;
	int n;
	Oid type[MOST];
	const char* value[MOST];
	int length[MOST], format[MOST];
	char number[MOST][32];
	PGresult* result; /* NULL: not run yet */
	int row;
	unsigned char* blob[MOST]; /* of the row at hand */
};

static struct query* of(struct sql_query* q) { return (struct query*)q; }

static void close_connection(struct store* s) {
	if (!s->postgres)
		return;
	PQfinish(s->postgres->connection);
	free(s->postgres->address);
	free(s->postgres);
}

static void set_patience(struct store* s, int milliseconds) { s->postgres->patience = milliseconds; }

static bool execute(struct store* s, const char* sql, const char* doing, struct error* e) {
	PGresult* result = postgres_exchange(s, sql, NULL, doing, e);
	PQclear(result);
	return result != NULL;
}

/* ---- transactions ------------------------------------------------------------------------- */

/* Notes a stamped write with what it writes. False: it is there already, or the statement failed. */
static bool note_stamp(struct store* s, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	char sql[320];
	snprintf(sql, sizeof sql,
	         "INSERT INTO writer(id, number) VALUES('%s', %lld) ON CONFLICT(id) DO UPDATE SET"
	         " number = excluded.number, seen = now() WHERE writer.number < excluded.number RETURNING number",
	         p->writer, (long long)p->number);
	PGresult* result = postgres_exchange(s, sql, NULL, doing, e);
	p->has_it = result && PQntuples(result) == 0;
	const bool fresh = result && !p->has_it;
	PQclear(result);
	if (p->has_it)
		error_set(e, "%s: this was stored already", s->path);
	return fresh;
}

static bool begin(struct store* s, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	if (!postgres_connect(s, e) || !execute(s, "BEGIN", doing, e))
		return false;
	if (p->mode == STORE_READ) {
		execute(s, "ROLLBACK", doing, e);
		return error_set(e, "%s is opened for reading", s->path);
	}
	p->in_transaction = true;
	if (p->number == 0 || note_stamp(s, doing, e))
		return true;
	const struct error why = *e;
	s->driver->end(s, false, doing, e);
	*e = why;
	return false;
}

static bool end(struct store* s, bool good, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	p->in_transaction = false;
	if (good && execute(s, "NOTIFY swiftlet; COMMIT", doing, e))
		return true;
	struct error unsaid;
	if (p->connection)
		execute(s, "ROLLBACK", doing, &unsaid);
	return false;
}

/* ---- statements --------------------------------------------------------------------------- */

static struct sql_query* prepare(struct store* s, const char* sql, const char* doing, struct error* e) {
	if (!s->postgres->in_transaction && !postgres_connect(s, e))
		return NULL;
	struct query* q = calloc(1, sizeof *q);
	if (!q || !(q->sql = strdup(sql))) {
		free(q);
		error_set(e, "out of memory");
		return NULL;
	}
	q->base = (struct sql_query){s, doing};
	for (char* at = q->sql; (at = strchr(at, '?')); at++)
		*at = '$';
	return &q->base;
}

static void bind(struct sql_query* base, int index, const struct sql_value* v) {
	static const Oid type[] = {[SQL_INT] = INT8, [SQL_REAL] = FLOAT8, [SQL_TEXT] = TEXT, [SQL_BLOB] = BYTEA};
	struct query* q = of(base);
	const int i = index - 1;
	char* number = q->number[i];
	if (v->kind == SQL_INT)
		snprintf(number, sizeof q->number[i], "%lld", (long long)v->number);
	else if (v->kind == SQL_REAL)
		snprintf(number, sizeof q->number[i], "%.17g", v->real);
	q->type[i] = type[v->kind];
	q->value[i] = v->kind == SQL_INT || v->kind == SQL_REAL ? number : v->data;
	q->length[i] = (int)v->size;
	q->format[i] = v->kind == SQL_BLOB;
	q->n = index > q->n ? index : q->n;
}

static void forget_blobs(struct query* q) {
	for (int i = 0; i < MOST; i++) {
		PQfreemem(q->blob[i]);
		q->blob[i] = NULL;
	}
}

static enum sql_step step(struct sql_query* base, struct error* e) {
	struct query* q = of(base);
	const struct postgres_values v = {q->n, q->type, q->value, q->length, q->format};
	forget_blobs(q);
	if (!q->result) {
		q->result = postgres_exchange(base->store, q->sql, &v, base->doing, e);
		q->row = -1;
	}
	if (!q->result)
		return SQL_FAILED;
	return ++q->row < PQntuples(q->result) ? SQL_ROW : SQL_DONE;
}

static struct sql_value column(struct sql_query* base, int i) {
	struct query* q = of(base);
	struct sql_value v = {.kind = SQL_TEXT};
	if (PQgetisnull(q->result, q->row, i))
		return v;
	const char* text = PQgetvalue(q->result, q->row, i);
	const Oid type = PQftype(q->result, i);
	if (type == BYTEA) {
		PQfreemem(q->blob[i]);
		v.data = q->blob[i] = PQunescapeBytea((const unsigned char*)text, &v.size);
		v.kind = SQL_BLOB;
		return v;
	}
	v.kind = type == INT8 ? SQL_INT : type == FLOAT8 ? SQL_REAL : SQL_TEXT;
	v.number = strtoll(text, NULL, 10);
	v.real = strtod(text, NULL);
	v.data = text;
	return v;
}

static void finish(struct sql_query* base) {
	PQclear(of(base)->result);
	forget_blobs(of(base));
	free(of(base)->sql);
	free(base);
}

const struct sql_driver postgres_driver = {.close = close_connection,
                                           .set_patience = set_patience,
                                           .execute = execute,
                                           .begin = begin,
                                           .end = end,
                                           .prepare = prepare,
                                           .bind = bind,
                                           .step = step,
                                           .column = column,
                                           .finish = finish};
