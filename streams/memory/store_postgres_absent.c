/* Replaces the PostgreSQL driver in a build without libpq. Asking for PostgreSQL is an error. */
#include "streams/memory/store_postgres.h"

struct store* postgres_prepare(const char* path, enum store_mode mode, struct error* e) {
	(void)path, (void)mode;
	error_set(e,
	          "this swiftlet was built without PostgreSQL, because libpq was not found: give --store a file");
	return NULL;
}

/* No such store is ever made, so these are never called with one. */
bool postgres_connect(struct store* s, struct error* e) {
	(void)s, (void)e;
	return false;
}
bool postgres_news(struct postgres* p, int wake, int milliseconds) {
	(void)p, (void)wake, (void)milliseconds;
	return false;
}
