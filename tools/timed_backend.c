/* Forwards everything and counts; see timed_backend.h. */
#include "tools/timed_backend.h"

static struct timed_backend* of(struct backend* backend) { return (struct timed_backend*)(void*)backend; }

static struct cache* open_cache(struct backend* b, int capacity, enum dtype type, struct error* error) {
	struct backend* const inner = of(b)->inner;
	return inner->cache_open(inner, capacity, type, error);
}

/* Share of the weights that the pass reads: what its span leaves out is skipped, and so is a head not asked
 * for. */
static double share_of(const struct timed_backend* t, const struct pass* pass) {
	struct mask skip = pass->skip ? *pass->skip : (struct mask){.word = {0}};
	double attention, mlp, head;
	for (int s = 0; s < 2 * t->shares.blocks; s++)
		if (s < pass->first || s >= pass->last)
			mask_set(&skip, s, true);
	cost_sub_layers(&t->shares, pass->low_head, &attention, &mlp, &head);
	const struct variant variant = {.skip = &skip, .low = pass->low, .low_head = pass->low_head};
	return cost_share(&t->shares, variant) - (pass->head ? 0 : head);
}

static bool run(struct backend* b, const struct pass* pass, struct error* error) {
	struct timed_backend* const t = of(b);
	t->now += share_of(t, pass) * (1 + t->slope * (pass->n - 1));
	return t->inner->run(t->inner, pass, error);
}

static int threads(const struct backend* b) { return b ? 1 : 0; }

double timed_backend_clock(void* user) { return ((struct timed_backend*)user)->now; }

void timed_backend_install(struct timed_backend* t, struct engine* engine, double slope) {
	*t = (struct timed_backend){
	    .backend = *engine->backend, .inner = engine->backend, .engine = engine, .slope = slope};
	t->backend.cache_open = open_cache;
	t->backend.run = run;
	t->backend.draft = NULL;
	t->backend.threads = threads;
	engine_forget_costs(engine);
	t->shares = engine->cost;
	engine->backend = &t->backend;
}

void timed_backend_remove(struct timed_backend* t) {
	t->engine->backend = t->inner;
	engine_forget_costs(t->engine);
}
