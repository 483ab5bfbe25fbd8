/* The public entry points that open a session; the rest of swiftlet.h stands with what it does. */
#include "core/methods/standalone.h"
#include "optimizer/optimizer.h"
#include "optimizer/random_mask.h"

/* --method random: drawn once, by the seed. */
static struct mask drawn_mask(int blocks, int size, uint64_t seed) {
	const struct quantized_set none = {.head = false};
	const int dims = 2 * (blocks - 2);
	struct vector v;
	random_mask(&(struct gp_random){seed}, dims, size, &v);
	return mask_of(&v, &none, dims);
}

static bool open_rounds(struct session* s, const struct swiftlet_options* options, struct error* error) {
	const struct engine* engine = session_engine(s);
	if (!method_open(s, error))
		return false;
	if (method_of(options)->mask == MASK_RANDOM) {
		const struct mask mask = drawn_mask(engine->model->weights.shape.n_blocks,
		                                    method_mask_size(options, engine), options->seed);
		session_set_mask(s, &mask);
	}
	return !options_plan(options) || optimizer_open(s, error);
}

struct session* swiftlet_session_open(struct engine* engine, const struct swiftlet_options* options,
                                      char* message, size_t size) {
	struct error error = {""};
	struct session* s = session_open(engine, options, &error);
	if (s && !open_rounds(s, options, &error)) {
		swiftlet_session_close(s);
		s = NULL;
	}
	if (!s)
		give_message(message, size, &error);
	return s;
}
