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

enum sql_step { SQL_FAILED, SQL_ROW, SQL_DONE };

struct sql_driver {
	void (*close)(struct store*);
	void (*set_patience)(struct store*, int milliseconds);
	bool (*execute)(struct store*, const char* sql, const char* doing, struct error*); /* no parameters */
	/* A transaction that writes; end rolls back when what came before had failed (`good` false). */
	bool (*begin)(struct store*, const char* doing, struct error*);
	bool (*end)(struct store*, bool good, const char* doing, struct error*);
	struct sql_query* (*prepare)(struct store*, const char* sql, const char* doing, struct error*); /* NULL */
	void (*bind_int)(struct sql_query*, int index, int64_t);
	void (*bind_real)(struct sql_query*, int index, double);
	void (*bind_text)(struct sql_query*, int index, const char*); /* NULL binds NULL */
	void (*bind_blob)(struct sql_query*, int index, const void*, size_t);
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
void sql_bind_int(struct sql_query*, int index, int64_t);
void sql_bind_real(struct sql_query*, int index, double);
void sql_bind_text(struct sql_query*, int index, const char*);
void sql_bind_blob(struct sql_query*, int index, const void*, size_t);
enum sql_step sql_step(struct sql_query*, struct error*);
int64_t sql_int(struct sql_query*, int column);
double sql_real(struct sql_query*, int column);
const char* sql_text(struct sql_query*, int column);
const void* sql_blob(struct sql_query*, int column, size_t* size);
void sql_reset(struct sql_query*);
void sql_finish(struct sql_query*); /* NULL is nothing */
/* Runs a statement that gives no rows and finishes it. *changes (may be NULL): rows written. */
bool sql_run(struct sql_query*, int* changes, struct error*);
/* The first column of the first row as a number; -1 with the error set. */
int64_t sql_number(struct store*, const char* sql, const char* doing, struct error*);

#endif
