/* Persisted statistics: the costs of passes on a device. A later process starts from them; its own
 * measurements soon weigh more. (Acceptance by drafter is not kept: estimates that started from it came
 * within .009 of a cold start.) */
#pragma once

#include "core/decode/engine.h"
#include "streams/memory/store.h"

/* The part of a cost's key beside the model: backend, threads and processor. */
void statistics_device(char device[STORE_DEVICE], const struct engine*);

/* Fills in costs that were not measured here. Rows that cannot be read are left out. */
void statistics_load_costs(struct store*, const struct store_model*, const char* device, struct cost_model*);
/* Adds estimates measured since `passes` (of the cost model; updated) to the store. */
bool statistics_save_costs(struct store*, const struct store_model*, const char* device,
                           const struct cost_model*, int64_t* passes, struct error*);
