/* Homes: the searches of a session, of which kinds of text share one while it suits them.
 *
 * One home is the present one, and its search is the session's; the others are kept aside until a kind that
 * lives there is served again. Who moves, and when, is the memory's to say (streams/memory/memory.h). */
#ifndef SWIFTLET_STREAMS_MEMORY_HOMES_H
#define SWIFTLET_STREAMS_MEMORY_HOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizer/search.h"
#include "streams/memory/bank.h"
#include "swiftlet.h"

enum { HOMES = 9, HOMES_RESIDENTS = BANK_CAPACITY, HOMES_TRIED = 64, RESIDENT_TRIALS = 32 };

struct home {
	int64_t id;            /* the kind that began it, or negative; 0: a free place */
	struct search* search; /* NULL: of the present one, whose search is the session's, and of a free place */
	int observed;          /* observations of it that are stored */
	int64_t held;          /* tokens served since it was opened or reopened */
	int64_t used;
};

/* A kind, where its search is, and what it has drafted there lately. */
struct resident {
	int64_t kind, home;
	double accepted, trials;
	int64_t doubted;  /* tokens served in all when it fell while it rested, 0: never */
	double fell_from; /* the acceptance that it rested with before it fell twice, 0 once that is past */
};

struct homes {
	swiftlet_session* session;
	struct home home[HOMES];
	struct home* present; /* NULL before the first move */
	struct resident resident[HOMES_RESIDENTS];
	int64_t n_residents;
	int64_t uses, founded; /* founded: homes not named after a kind */
	struct {               /* a ring: masks of other homes that were scored in this one too */
		int64_t home;
		struct mask mask;
	} tried[HOMES_TRIED];
	int64_t n_tried;
};

void homes_open(struct homes*, swiftlet_session*);
void homes_close(struct homes*); /* the session keeps the search it has */

enum homes_move {
	HOMES_STAYED, /* it is the present one, or there is no memory for another search */
	HOMES_MOVED,
	HOMES_NEW /* moved, and nothing has been observed there: the first home takes the session's own search */
};
/* Goes on with the search of this home; one longest unused makes way for a new one. */
enum homes_move homes_move(struct homes*, int64_t id);
int64_t homes_held(const struct homes*); /* of the present one */
/* An id for a home that no kind has given its number. */
int64_t homes_new_id(struct homes*);

/* NULL: the kind lives nowhere yet. */
struct resident* homes_resident(struct homes*, int64_t kind);
struct resident* homes_settle(struct homes*, int64_t kind, int64_t home);
/* Whether another kind lives there too. */
bool homes_is_shared(const struct homes*, const struct resident*);
/* Adds a round's trials; whether the kind drafts worse than with a good mask: clearly, or, once the search
 * has had its time, at all. */
bool resident_is_ill_at_ease(struct resident*, int accepted, int trials, bool had_time);

/* Whether the mask was scored in the present home already; note that it will be. */
bool homes_was_tried(const struct homes*, const struct mask*);
void homes_note_tried(struct homes*, const struct mask*);

#endif
