/* What the store keeps as figures: what passes cost on a device, how often drafters are right there on a kind
 * of text, and what its sub-layers do to it. It is where a later process begins; what it sees itself soon
 * weighs more. */
#ifndef SWIFTLET_STREAMS_MEMORY_EXPERIENCE_H
#define SWIFTLET_STREAMS_MEMORY_EXPERIENCE_H

#include "core/decode/engine.h"
#include "core/draft/chances.h"
#include "optimizer/influence.h"
#include "streams/memory/store.h"

/* Backend, threads and processor: what costs depend on beside the model. */
void experience_device(char device[STORE_DEVICE], const struct engine*);

/* Fills costs that were not measured here. What cannot be read is left out. */
void experience_load_costs(struct store*, const struct store_model*, const char* device, struct cost_model*);
/* Adds the estimates that were measured since `passes` (of the cost model; set to now) to the store. */
bool experience_save_costs(struct store*, const struct store_model*, const char* device,
                           const struct cost_model*, int64_t* passes, struct error*);

void experience_load_chances(struct store*, const struct store_model*, struct store_place, struct chances*);
/* Adds what was seen since the last time; kept for the next where it cannot be stored. */
bool experience_save_chances(struct store*, const struct store_model*, struct store_place, struct chances*,
                             struct error*);

/* On texts of this label, or of this kind without one. False when there is none (the message is then empty),
 * or on an error. */
bool experience_load_influence(struct store*, const struct store_model*, const char* task, int64_t kind,
                               struct influence*, struct error*);
bool experience_save_influence(struct store*, const struct store_model*, const char* task, int64_t kind,
                               const struct influence*, struct error*);

#endif
