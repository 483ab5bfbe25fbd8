/* A bounded queue of candidates, the likeliest first: what trees grow from. A binary heap in a fixed array.
 */
#ifndef SWIFTLET_CORE_DRAFT_QUEUE_H
#define SWIFTLET_CORE_DRAFT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_CAPACITY = 1024 };

struct queued {
	float chance; /* that verification accepts the whole path to it */
	int16_t depth, rank;
	int32_t id; /* the caller's */
};

struct queue {
	int n;
	struct queued entry[QUEUE_CAPACITY];
};

/* At equal chance the shallower comes first, then the better ranked, then the lower id, so that a parent
 * always precedes its children (a child's chance is its parent's times at most 1). False, and nothing is
 * done, when full. */
bool queue_push(struct queue*, struct queued);
/* Takes the first; the queue holds one at least. */
struct queued queue_pop(struct queue*);

#endif
