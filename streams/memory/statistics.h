/* Persisted statistics: the costs of passes on a device, and the influence of sub-layers on a workload
 * cluster. A later process starts from them; its own measurements soon weigh more. (Acceptance by drafter is
 * not kept: estimates that started from it came within .009 of a cold start.) */
#ifndef SWIFTLET_STREAMS_MEMORY_STATISTICS_H
#define SWIFTLET_STREAMS_MEMORY_STATISTICS_H

#include "core/decode/engine.h"
#include "optimizer/influence.h"
#include "streams/memory/store.h"

/* Backend, threads and processor: what costs depend on beside the model. */
void statistics_device(char device[STORE_DEVICE], const struct engine*);

/* Fills costs that were not measured here. What cannot be read is left out. */
void statistics_load_costs(struct store*, const struct store_model*, const char* device, struct cost_model*);
/* Adds the estimates that were measured since `passes` (of the cost model; set to now) to the store. */
bool statistics_save_costs(struct store*, const struct store_model*, const char* device,
                           const struct cost_model*, int64_t* passes, struct error*);

/* On texts of this label, or of this cluster without one. False when there is none (the message is then
 * empty), or on an error. */
bool statistics_load_influence(struct store*, const struct store_model*, const char* task, int64_t cluster,
                               struct influence*, struct error*);
bool statistics_save_influence(struct store*, const struct store_model*, const char* task, int64_t cluster,
                               const struct influence*, struct error*);

#endif
