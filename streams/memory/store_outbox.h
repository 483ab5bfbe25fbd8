/* Connects a server to a remote database: a thread sends local writes there and reads other processes'
 * writes.
 *
 * `local` is a store in memory. It holds the database as it was last read and the local writes since. A write
 * runs on it at once and then waits in a bounded queue for the database. A write that does not fit is
 * refused; its caller keeps sums and tries again. While the database is away or refuses writes (full,
 * read-only), the first write of the queue is retried with growing pauses, at most 5 s. Each write is stored
 * once, even when the answer to its commit is lost. When other processes have written, `local` is filled
 * anew. */
#pragma once

#include "streams/memory/store_internal.h"

/* local->remote becomes the database. The outbox waits for one that cannot be reached. An unsuitable
 * database, or a path that is not an address, is an error. */
struct outbox* outbox_open(struct store* local, const char* path, struct error*);
/* Waits up to 10 s until all is stored, and logs what is not. NULL is allowed. */
void outbox_close(struct outbox*);
void outbox_state(struct outbox*, struct store_state*);
/* Copies a write to the queue. Call with local's lock held. */
bool outbox_put(struct outbox*, const struct store_job*, struct error*);
