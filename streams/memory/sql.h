/* The small language in which the store's statements are written, over SQLite and PostgreSQL.
 *
 * A statement is SQL that both understand, with parameters ?1, ?2, …; it is prepared, bound, stepped row by
 * row and finished. What is bound stays the caller's and must live until the first step. `doing` is what a
 * message says was being done. What returns bool returns false with the error set. */
#ifndef SWIFTLET_STREAMS_MEMORY_SQL_H
#define SWIFTLET_STREAMS_MEMORY_SQL_H

#include "kernels/backend.h"

struct store;

struct sql_query { /* a driver's own follows it */
	struct store* store;
	const char* doing;
};

struct sql_value { /* of a parameter */
	enum { SQL_INT, SQL_REAL, SQL_TEXT, SQL_BLOB } kind;
	int64_t number;
	double real;
	const void* data; /* NULL is NULL */
	size_t size;      /* of a blob */
};

enum sql_step { SQL_FAILED, SQL_ROW, SQL_DONE };

struct sql_driver {
	void (*close)(struct store*);
	void (*set_patience)(struct store*, int milliseconds);
	bool (*execute)(struct store*, const char* sql, const char* doing, struct error*); /* no parameters */
	/* A transaction that writes; end rolls back when what came before had failed (`good` false). */
	bool (*begin)(struct store*, const char* doing, struct error*);
	bool (*end)(struct store*, bool good, const char* doing, struct error*);
	struct sql_query* (*prepare)(struct store*, const char* sql, const char* doing, struct error*); /* NULL */
	void (*bind)(struct sql_query*, int index, const struct sql_value*);
	enum sql_step (*step)(struct sql_query*, struct error*);
	int64_t (*get_int)(struct sql_query*, int column);
	double (*get_real)(struct sql_query*, int column);
	/* Both live until the next step; NULL for NULL. */
	const char* (*get_text)(struct sql_query*, int column);
	const void* (*get_blob)(struct sql_query*, int column, size_t* size);
	int (*changes)(struct sql_query*); /* rows that the statement wrote, once it is done */
	void (*reset)(struct sql_query*);  /* to be bound and stepped again */
	void (*finish)(struct sql_query*);
};

extern const struct sql_driver postgres_driver; /* where the program was built with libpq */

bool sql_execute(struct store*, const char* sql, const char* doing, struct error*);
bool sql_begin(struct store*, const char* doing, struct error*);
bool sql_end(struct store*, bool good, const char* doing, struct error*);
struct sql_query* sql_prepare(struct store*, const char* sql, const char* doing, struct error*);
static inline struct sql_value sql_of_int(int64_t v) {
	return (struct sql_value){.kind = SQL_INT, .number = v};
}
static inline struct sql_value sql_of_real(double v) {
	return (struct sql_value){.kind = SQL_REAL, .real = v};
}
static inline struct sql_value sql_of_text(const char* v) {
	return (struct sql_value){.kind = SQL_TEXT, .data = v};
}
static inline struct sql_value sql_of_blob(const void* v, size_t size) {
	return (struct sql_value){.kind = SQL_BLOB, .data = v, .size = size};
}
/* All parameters from ?1 on; a statement that was stepped begins anew. */
void sql_bind_all(struct sql_query*, const struct sql_value*, int n);
#define sql_bind(query, ...)                                                                                 \
	sql_bind_all(query, (const struct sql_value[]){__VA_ARGS__},                                             \
	             sizeof((const struct sql_value[]){__VA_ARGS__}) / sizeof(struct sql_value))
enum sql_step sql_step(struct sql_query*, struct error*);
int64_t sql_int(struct sql_query*, int column);
double sql_real(struct sql_query*, int column);
const char* sql_text(struct sql_query*, int column);
const void* sql_blob(struct sql_query*, int column, size_t* size);
void sql_finish(struct sql_query*); /* NULL is nothing */
/* Runs a statement that gives no rows and finishes it. *changes (may be NULL): rows written. */
bool sql_run(struct sql_query*, int* changes, struct error*);
/* The first column of the first row as a number; -1 with the error set. */
int64_t sql_number(struct store*, const char* sql, const char* doing, struct error*);

#endif
