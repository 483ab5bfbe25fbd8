/* One pool of POSIX threads, which sleep when idle and spin only within a pass.
 *
 * Jobs are cut into `parts` handed out by an atomic counter. The thread that computes a part never changes
 * its result. Between pool_open and pool_close nothing is allocated, and only waking threads up takes a lock.
 */
#pragma once

#include <stdint.h>

struct pool;
struct pool* pool_open(int threads); /* 0: cores_available; NULL when threads cannot be made */
void pool_close(struct pool*);
int pool_threads(const struct pool*);
/* Workers spin from here (begin) until end, so that the runs between them start at once. */
void pool_begin(struct pool*);
void pool_end(struct pool*);
/* Calls work(user, part, thread) for part in [0, parts), returns when all are done. */
void pool_run(struct pool*, int parts, void (*work)(void* user, int part, int thread), void* user);
