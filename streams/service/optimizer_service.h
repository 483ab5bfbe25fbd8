/* The layer-set optimizer as a service: searches for models that run elsewhere.
 *
 * A client opens a search for a model of L blocks, asks for masks to try, reports how many of a window's
 * tokens the masked model predicted, and takes the best. One lock, a bounded number of searches: of
 * each owner, whose longest unused makes room for another of his and never for another's. A search is there
 * for its owner alone; for admins, and where the server has no keys, all are.
 *
 *   GET /v1/swiftlet/optimizer -> {"data": [{"id", "model", "blocks", "steps"}]}
 *   POST /v1/swiftlet/optimizer {"blocks": L, "model"?, "skip_ratio"? 0.45, "seed"? 0, "window"? 32,
 *     "bayes_interval"? 25, "max_steps"? 1000, "patience"? 300, "max_matchness"? 0.95, "confirm"? 1,
 *     "acquisition"? "ucb"|"ei", "kernel"? "matern52"|"hamming", "kappa"? 2.5, "start"? {"attention", "mlp"},
 *     "preset"? "default"|"paper"} -> {"id", …}. The preset alone heeds acquisition, kernel and kappa.
 *   POST …/ID/propose {"window"?: number of the client's window, "size"?} -> {"step", "kind", "attention",
 *     "mlp", "needed", "window", "size"}, or {"done": true, "state"} when the search has ended. It can do
 *     without a body.
 *   POST …/ID/observe {"attention", "mlp", "matches", "rows", "window"?} -> {"state", "steps",
 *     "best": {…}}. A "distance", which clients used to tell, is heeded no more.
 *   GET …/ID, …/ID/best -> {"attention", "mlp", "matchness", "steps", "state", "skip_ratio"}
 *   DELETE …/ID */
#ifndef SWIFTLET_STREAMS_SERVICE_OPTIMIZER_SERVICE_H
#define SWIFTLET_STREAMS_SERVICE_OPTIMIZER_SERVICE_H

#include <stdbool.h>

struct optimizer_service;
struct optimizer_service* optimizer_service_open(int owners); /* NULL on no memory */
void optimizer_service_close(struct optimizer_service*);

struct call;
bool answer_optimizer(struct call*); /* all of these */

#endif
