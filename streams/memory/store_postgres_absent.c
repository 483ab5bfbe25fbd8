/* Where the program was built without libpq: what is said to who asks for PostgreSQL. */
#include <string.h>

#include "streams/memory/store_outbox.h"
#include "streams/memory/store_postgres.h"

bool postgres_is(const char* path) {
	return strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "postgres://", 11) == 0;
}

static void* refuse(struct error* e) {
	error_set(e,
	          "this swiftlet was built without PostgreSQL (libpq was not found then): --store takes a file");
	return NULL;
}

struct store* postgres_open(const char* path, enum store_mode mode, struct error* e) {
	(void)path, (void)mode;
	return refuse(e);
}

/* So there never is an outbox that the others are called with. */
struct outbox* outbox_open(struct store* near, const char* path, struct error* e) {
	(void)near, (void)path;
	return refuse(e);
}
void outbox_close(struct outbox* o) { (void)o; }
void outbox_state(struct outbox* o, struct store_state* out) { (void)o, (void)out; }
bool outbox_put(struct outbox* o, const struct store_job* job, struct error* e) {
	(void)o, (void)job;
	return refuse(e) != NULL;
}
