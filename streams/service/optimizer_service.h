/* The layer-set optimizer as a service: searches for models that run elsewhere.
 *
 * A client opens a search for a model of L blocks, asks for masks to try, reports how many of a window's
 * tokens the masked model predicted, and takes the best. One lock, a bounded number of searches: of
 * each owner, whose longest unused makes room for another of his and never for another's. Requests and
 * answers are JSON; every function fills `out` or the error. A search is there for its owner alone; for 0 and
 * below all are: -N is the owner N as an admin. */
#ifndef SWIFTLET_STREAMS_SERVICE_OPTIMIZER_SERVICE_H
#define SWIFTLET_STREAMS_SERVICE_OPTIMIZER_SERVICE_H

#include "streams/service/api_json.h"
#include "streams/text.h"

enum { SERVICE_SEARCHES = 64 };

struct optimizer_service;
struct optimizer_service* optimizer_service_open(int owners);
void optimizer_service_close(struct optimizer_service*);

enum optimizer_request {
	OPTIMIZER_LIST, /* -> {"data": [{"id", "model", "blocks", "steps"}]} */
	/* {"blocks": L, "model"?, "skip_ratio"? 0.45, "seed"? 0, "window"? 32, "bayes_interval"? 25, "max_steps"?
	 * 1000, "patience"? 300, "max_matchness"? 0.95, "confirm"? 1, "acquisition"? "ucb"|"ei", "kernel"?
	 * "matern52"|"hamming", "kappa"? 2.5, "start"? {"attention", "mlp"}, "preset"? "default"|"paper"}
	 * -> {"id", …}. The preset alone heeds acquisition, kernel and kappa. */
	OPTIMIZER_CREATE,
	/* {"window"?: number of the client's window, "size"?} -> {"step", "kind", "attention", "mlp", "needed",
	 * "window", "size"}, or {"done": true, "state"} when the search has ended. The body may be NULL. */
	OPTIMIZER_PROPOSE,
	/* {"attention", "mlp", "matches", "rows", "window"?} -> {"state", "steps", "best": {…}} */
	OPTIMIZER_OBSERVE,
	OPTIMIZER_BEST, /* -> {"attention", "mlp", "matchness", "steps", "state", "skip_ratio"} */
	OPTIMIZER_DELETE
};
/* id: where the request is about one. */
bool optimizer_answer(struct optimizer_service*, enum optimizer_request, int owner, const char* id,
                      const cJSON* body, struct text* out, struct api_error*);

#endif
