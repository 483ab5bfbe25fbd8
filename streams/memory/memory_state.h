/* What the memory's files share: memory.c (the memory of a model: bank, store, doors from outside),
 * memory_watch.c (a session's texts, one after another), memory_carry.c (what a session's texts have shown,
 * to and from the store). */
#ifndef SWIFTLET_STREAMS_MEMORY_MEMORY_STATE_H
#define SWIFTLET_STREAMS_MEMORY_MEMORY_STATE_H

#include <pthread.h>

#include "optimizer/optimizer.h"
#include "streams/memory/experience.h"
#include "streams/memory/memory.h"

/* ---- searches.c --------------------------------------------------------------------------- */

/* The searches of the kinds of text that are not served now, of all sessions together, each with the
 * influence of its kind.
 *
 * A session has one search, its present one. When it turns to another kind of text its search is kept here,
 * and whichever session turns to that kind next goes on with it; the one longest unused makes way for
 * another. A search has a thread and grows to some twenty megabytes: what all take is bounded by the sessions
 * and these places, not by sessions times kinds. */
enum { SEARCHES = 8 };

struct kind_search {
	int64_t kind;          /* 0: a free place; before a session's first move */
	struct search* search; /* NULL: a free place; of a session's present one, which is the session's own */
	struct influence influence;
	int64_t used;
};

struct searches {
	struct kind_search aside[SEARCHES];
	int64_t uses;
};

void searches_close(struct searches*);

enum searches_move {
	SEARCHES_STAYED, /* it is the present one, or there is no memory for another search */
	SEARCHES_MOVED,
	SEARCHES_NEW /* moved, and nothing has been observed there: the first kind takes the session's own search
	              */
};
/* The session's search, where it is of a kind, is kept with it; the session has a new one, of no kind yet. */
void searches_part(struct searches*, swiftlet_session*, struct kind_search* present);
/* The session, which has a search, goes on with the one of this kind; `present` tells of the one it has. */
enum searches_move searches_move(struct searches*, swiftlet_session*, struct kind_search* present,
                                 int64_t kind);

/* ---- the memory --------------------------------------------------------------------------- */

/* Whether a mask's acceptance is good enough to rest on it early. */
static inline bool memory_drafts_well(const struct bank_record* r) {
	return r->trials > 0 && (double)r->accepted >= 0.93 * (double)r->trials;
}

struct memory {
	pthread_mutex_t lock; /* of the bank, the searches, the counts and what is unsaved */
	struct store_model model;
	int dim;
	struct bank* bank;
	struct memory*
	    common;          /* NULL: this is it, whose are the store, the searches, the costs and the listener */
	struct memory* next; /* another owner's */
	int owner;
	struct chances* chances; /* of its sessions that have turned to others' texts; NULL: none */
	struct searches searches;
	struct store* store;
	struct memory_counts counts;
	int unflushed;      /* instances since the last flush */
	int64_t generation; /* the store's, when the bank was last told of it */
	char device[STORE_DEVICE];
	int64_t cost_passes; /* whose costs are stored */
	void (*on_event)(void*, int, enum memory_event, const char*);
	void* on_user;
};

struct memory_watch {
	struct memory* memory;
	swiftlet_session* session;
	struct search* search; /* NULL: no search, nothing to remember but what is drafted with */
	int number;
	char task[BANK_TASK];
	bool placed; /* the instance's kind is known */
	bool has_entry;
	struct mask mask; /* of the entry that is being served */
	char entry_task[BANK_TASK];
	int64_t entry_kind;
	struct bank_signature signature;
	struct bank_record record; /* of this instance, since the entry's last update */
	struct drift drift;
	int64_t round_seen;                 /* session_last_round's count */
	int steps_seen;                     /* search_steps */
	struct kind_search present;         /* of the session's search */
	struct influence unsaved_influence; /* of this kind, for the store */
	int64_t unsaved_kind;
	char unsaved_task[BANK_TASK];
};

/* Of all owners together. */
static inline struct memory* memory_common(struct memory* m) { return m->common ? m->common : m; }

/* memory.c */
/* What other replicas have stored since, with the lock held or before others can see the memory. */
void memory_take_news(struct memory*);

/* memory_carry.c */
/* What was measured of influence goes to the store; what cannot be stored is kept for the next time, and
 * false returned with the error set. */
bool carry_store(struct memory_watch*, struct error*);
/* What the text told of influence waits for the store, with its kind. */
void carry_influence(struct memory_watch*);
/* Goes on with the search of this kind. True when it is a new one, which begins with what earlier runs
 * measured on texts of this label, or of this kind; or of that kind of the common memory, where it is not 0.
 */
bool carry_search(struct memory_watch*, int64_t kind, int64_t common_kind);
/* The search, and what it knows, is put aside with its kind; the session has another that knows nothing. */
void carry_away(struct memory_watch*);
/* A new search for the kind at hand, which knows nothing but the text at hand. */
void carry_anew(struct memory_watch*);

#endif
