/* The mask bank: masks, and the task that each was learned on.
 *
 * An entry is a mask with its record (matchness, acceptance, tokens served) and the task label of the texts
 * it served, which is empty for texts without one. The bank is plain data of one model: no files, no threads,
 * no clock but a count of uses. */
#ifndef SWIFTLET_STREAMS_MEMORY_BANK_H
#define SWIFTLET_STREAMS_MEMORY_BANK_H

#include "kernels/backend.h"

enum { BANK_CAPACITY = 64, BANK_PER_TASK = 6, BANK_TASK = 128 };

enum { BANK_SUMS = 11 };
struct bank_record { /* sums, so that those of two processes can be added */
	union {
		struct {
			int64_t matches, rows;         /* matchness = matches / rows */
			int64_t accepted, draft_steps; /* alpha = accepted / draft_steps */
			int64_t trials;                /* drafts verified up to the first wrong one, itself included */
			int64_t rounds, round_tokens;  /* M = round_tokens / rounds */
			int64_t tokens, instances;     /* served with this mask */
			int64_t steps;                 /* proposals scored while it was the best */
			int64_t held;                  /* tokens served since the task was new */
		};
		int64_t sum[BANK_SUMS]; /* the same as a list */
	};
};

struct bank_entry {
	int64_t id;           /* the bank's own number, never 0, never reused */
	char task[BANK_TASK]; /* "" when none was given */
	struct mask mask;
	double skip_ratio;
	struct bank_record record;
	struct bank_record unsaved; /* the part of the record that is not stored yet */
	bool converged;             /* its search has ended, and the mask is kept */
	int64_t last_used;          /* on the bank's count of instances */
	int64_t touched;            /* order of uses; 0: not since it was restored */
	bool changed;               /* since it was last stored */
};

struct bank {
	int capacity, n;
	int64_t clock, touches, next_id;
	int64_t evictions;
	struct bank_entry entry[]; /* (capacity), of which the first n are used, in no order */
};

/* NULL on no memory. capacity in 1..BANK_CAPACITY. */
struct bank* bank_open(int capacity);
void bank_close(struct bank*);

/* The best known entry of the task (NULL or "": of texts without a label): the converged one, else the last
 * used, else the one that served most. NULL: none. */
struct bank_entry* bank_find(struct bank*, const char* task);
/* The entry that served most tokens, whatever its task; NULL if the bank is empty. */
struct bank_entry* bank_most_used(struct bank*);
/* The entry of this task and mask. It is made if missing; then the least useful entry is evicted if the bank
 * is full, or this task's if it has BANK_PER_TASK. Never NULL. The pointer is valid until the next call. */
struct bank_entry* bank_entry(struct bank*, const char* task, const struct mask*);
/* Adds to an entry's record, and to the unsaved part. */
void bank_add(struct bank_entry*, const struct bank_record*);
/* Adds an entry from the store. If it is here already, its record becomes the stored one
 * plus what is unsaved here. False when the bank is full of more useful entries. */
bool bank_restore(struct bank*, const struct bank_entry*);
void bank_remove(struct bank*, int64_t id);
/* Counts a new instance, which ages entries that are not used. */
void bank_tick(struct bank*);

#endif
