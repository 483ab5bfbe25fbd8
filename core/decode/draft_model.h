/* Another off-the-shelf model that drafts (--draft-model): opened with the engine, as an engine of its own;
 * each session has a cache there, which follows the text. The rounds are the planner's as any drafter's. */
#ifndef SWIFTLET_CORE_DECODE_DRAFT_MODEL_H
#define SWIFTLET_CORE_DECODE_DRAFT_MODEL_H

#include "core/decode/engine.h"

struct session;

/* Cost of its pass of n rows, in plain steps. */
double draft_model_cost(const struct engine*, int rows);
/* Such a pass took so long. */
void draft_model_see(struct engine*, int rows, double seconds);

/* Opens a session's cache there, where the drafter takes part. */
bool draft_model_join(struct session*, struct error*);
/* A request's text begins: what the cache has of it stays. */
void draft_model_begin(struct session*);
/* The draft model reads the prompt before any round of its own, where what may still be emitted can make up
 * for that: its next pass, or false; after it was run, as one of so many rows, for so many seconds of this
 * session's. */
bool draft_model_reads(struct session*, struct pass*);
void draft_model_take(struct session*, const struct pass*, int rows, double seconds);
/* A round begins; what its passes cost in it by now, for the planner, where it has made one or none. */
void draft_model_round(struct session*);
void draft_model_price(struct session*, bool passed);
/* Another owner's requests come; the cache's memory is wanted. */
void draft_model_forget(struct session*, int owner);
void draft_model_release(struct session*);

#endif
