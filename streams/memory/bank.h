/* The mask bank: masks, and the workload each was learned on.
 *
 * An entry is a mask with its record (matchness, acceptance, tokens served), the task label it was
 * learned under if one was given, and a signature of the prompts it served: the mean hidden state at
 * the middle of the prefill, projected to BANK_SIGNATURE numbers by fixed random signs (which keeps
 * angles: Johnson and Lindenstrauss 1984; states that fit are kept as they are). Hidden states of any
 * two texts point much the same way, so signatures are compared by cosine after their common mean is
 * taken off. The bank is plain data of one model: no files, no threads, no clock but a count of uses. */
#pragma once

#include "kernels/backend.h"

enum { BANK_CAPACITY = 64, BANK_PER_CLUSTER = 6, BANK_SIGNATURE = 256, BANK_TASK = 128 };

struct bank_signature {
	float value[BANK_SIGNATURE]; /* the sum over prompts; zero: unknown */
	double prompts;              /* summed */
};

enum { BANK_SUMS = 13 };
struct bank_record { /* sums, so that those of two processes can be added */
	union {
		struct {
			int64_t matches, rows;         /* matchness = matches / rows */
			int64_t accepted, draft_steps; /* alpha = accepted / draft_steps */
			int64_t trials; /* of the change test (streams/memory/drift.h); an accepted token is a success */
			int64_t rounds, round_tokens; /* M = round_tokens / rounds */
			int64_t tokens, instances;    /* served with this mask */
			int64_t steps;                /* proposals scored while it was the best */
			int64_t held; /* tokens served since its workload cluster was new, or since the last drift */
			/* microseconds of decoding, and what plain decoding of the same tokens would have taken: the
			 * speed-up with it is plain_micros / micros */
			int64_t micros, plain_micros;
		};
		int64_t sum[BANK_SUMS]; /* the same as a list */
	};
};

struct bank_entry {
	int64_t id; /* the bank's own number, never 0, never reused */
	int64_t
	    cluster; /* > 0; entries of one workload cluster share it: one label, or one cluster of signatures */
	char task[BANK_TASK]; /* "" when none was given */
	struct mask mask;
	double skip_ratio;
	struct bank_record record;
	struct bank_record unsaved; /* the part of the record that is not stored yet */
	struct bank_signature signature, unsaved_signature;
	bool converged;    /* its search has ended; the mask is kept until it drifts */
	int64_t last_used; /* on the bank's count of instances */
	int64_t touched;   /* order of uses; 0: not since it was restored */
	bool changed;      /* since it was last stored */
};

struct bank {
	int capacity, n;
	struct bank_signature common;
	int64_t clock, touches, next_id;
	int64_t next_cluster; /* begins at a random number, so that two processes that share a store use different
	                         ones */
	int64_t evictions;
	struct bank_entry entry[]; /* (capacity), of which the first n are used, in no order */
};

/* NULL on no memory. capacity in 1..BANK_CAPACITY. */
struct bank* bank_open(int capacity);
void bank_close(struct bank*);

/* Projects a mean hidden state (dim) to the signature of one prompt. A state that is not finite, or NULL,
 * gives an empty one. */
void bank_signature(struct bank_signature*, const float* state, int dim);

void bank_signature_add(struct bank_signature* to, const struct bank_signature* from);

/* The entry learned on this workload cluster, or NULL: the converged one, else the last used. If both sides
 * have a label, it decides alone. Otherwise the signature must agree (BANK_AGREES) with the cluster's
 * prompts, and agree better than with any other's. */
#define BANK_AGREES 0.5
struct bank_entry* bank_find(struct bank*, const char* task, const struct bank_signature*);
/* The entry of this task and mask (without a label: of this cluster; 0 any, -1 a new one). It is made if
 * missing; then the least useful entry is evicted if the bank is full, or this cluster's if it has
 * BANK_PER_CLUSTER. Entries of one mask are the same if they share the label, or without one the cluster.
 * Never NULL. The pointer is valid until the next call. */
struct bank_entry* bank_entry(struct bank*, const char* task, int64_t cluster, const struct mask*);
/* The cluster of an entry of this task and mask (NULL: unknown), or the label's, or a new one. */
int64_t bank_cluster(struct bank*, const char* task, const struct mask*);
/* Adds to an entry's record and signature (which may be NULL), and to the unsaved part. */
void bank_add(struct bank*, struct bank_entry*, const struct bank_record*, const struct bank_signature*);
/* Adds an entry from the store; cluster 0: unknown. If it is here already, its record becomes the stored one
 * plus what is unsaved here. False when the bank is full of more useful entries. */
bool bank_restore(struct bank*, const struct bank_entry*);
void bank_remove(struct bank*, int64_t id);
/* Counts a new instance, which ages entries that are not used. */
void bank_tick(struct bank*);
