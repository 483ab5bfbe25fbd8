/* Between a server and a database elsewhere: a thread of its own, which tells the database what was written
 * here and brings what others wrote.
 *
 * `local` is a store in memory that holds what the database held when it was last read, and what was written
 * here since. A write is run on it at once and waits in a bounded queue for the database; what does not fit
 * is refused, and its caller, who keeps sums, brings it again. While the database is away or refuses (full,
 * read-only) the first of the queue is tried again, ever more rarely, at most every 5 s; each write is stored
 * once, though the answer to its commit may be lost. When others have written, `local` is filled anew. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_OUTBOX_H
#define SWIFTLET_STREAMS_MEMORY_STORE_OUTBOX_H

#include "streams/memory/store_internal.h"

/* local->remote becomes the database. One that cannot be reached is waited for; one that is not to be used,
 * or a path that is no address, is an error. */
struct outbox* outbox_open(struct store* local, const char* path, struct error*);
/* Waits up to 10 s until all is stored, and says on standard error what is not. NULL is nothing. */
void outbox_close(struct outbox*);
void outbox_state(struct outbox*, struct store_state*);
/* Copies a write to the queue. With near's lock held. */
bool outbox_put(struct outbox*, const struct store_job*, struct error*);

#endif
