/* A model over several processes: rank 0 opens an engine and broadcasts the model and the options; the others
 * open the same and repeat every call (kernels/ranks.h). */
#include <stdio.h>
#include <string.h>

#include "core/decode/engine.h"
#include "kernels/ranks.h"

struct opening {
	char path[sizeof((struct model*)0)->path]; /* "": there will be no more */
	char isa[16];
	int32_t threads, context;
};

bool engine_lead(struct engine* engine, const struct backend_options* how, struct error* error) {
	struct process_group* const group = how->group;
	struct opening opening = {.threads = how->threads, .context = how->context};
	memcpy(opening.path, engine->model->path, sizeof opening.path);
	snprintf(opening.isa, sizeof opening.isa, "%s", how->isa);
	if (!ranks_lead(engine->backend, group, error))
		return false;
	group->broadcast(group, &opening, sizeof opening);
	return true;
}

void engine_dismiss(struct process_group* group) {
	struct opening none = {.path = ""};
	group->broadcast(group, &none, sizeof none);
}

static bool follow_engine(struct process_group* group, const struct opening* opening, struct error* error) {
	const struct backend_options how = {
	    .threads = opening->threads, .isa = opening->isa, .context = opening->context, .group = group};
	struct model* model = model_open(opening->path, NULL, error);
	if (!model)
		return false;
	struct backend* backend = cpu_open(&model->weights, &how, error);
	if (backend) {
		ranks_follow(backend, group);
		backend->close(backend);
	}
	model_close(model);
	return backend != NULL;
}

bool engine_follow(struct process_group* group, struct error* error) {
	struct opening opening;
	for (;;) {
		group->broadcast(group, &opening, sizeof opening);
		opening.path[sizeof opening.path - 1] = opening.isa[sizeof opening.isa - 1] = 0;
		if (!opening.path[0])
			return true;
		if (!follow_engine(group, &opening, error))
			return false;
	}
}
