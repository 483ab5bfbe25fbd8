/* A low-bit copy that is made while its model already works.
 *
 * Threads find the copy's file or make it, in the time between requests: while the model's passes follow one
 * another they rest, since they share its cores and its memory's bandwidth. Whoever wants the copy sooner may
 * take part, and then they work beside him: at a lower priority than the model's threads they would not. The
 * copy joins when it is ready: nothing else of it may be looked at before. It is kept in its file after that.
 */
#ifndef SWIFTLET_CORE_MODEL_LOW_MAKER_H
#define SWIFTLET_CORE_MODEL_LOW_MAKER_H

#include "core/model/low_copy.h"

struct low_maker;

/* Begins with a copy that was planned and has bytes; copy and model must outlive the maker. threads: 0: one
 * for each CPU that the process may use. NULL with the error set when threads cannot be made. */
struct low_maker* low_maker_open(struct low_copy*, const struct model*, int threads, struct error*);
/* Ends the threads, whether the copy is ready or not, once they have finished a write to its file. */
void low_maker_close(struct low_maker*);

/* READY: drafts may run with the copy. DONE: so they may, and it is in its file, or copy.warning says why
 * not: nothing of it changes any more. */
enum low_progress { LOW_MAKING, LOW_READY, LOW_DONE, LOW_FAILED };
/* Allocates nothing and takes no lock, nor does low_maker_help. */
enum low_progress low_maker_progress(const struct low_maker*);
/* The share that is made. */
double low_maker_share(const struct low_maker*);
/* The model runs a pass now: the threads rest until none has for a second. */
void low_maker_rest(struct low_maker*);
/* Takes part for about so many seconds, less when there is nothing to do; the threads do not rest meanwhile.
 * From one thread at a time. */
void low_maker_help(struct low_maker*, double seconds);

#endif
