/* The `recycle` drafter's own door. */
#ifndef SWIFTLET_CORE_DRAFT_RECYCLE_H
#define SWIFTLET_CORE_DRAFT_RECYCLE_H

/* Forgets every successor: they were another owner's texts. */
void recycle_clear(void* state);

#endif
