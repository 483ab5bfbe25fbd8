/* Forwards everything and counts; see timed_backend.h. */
#include "tools/timed_backend.h"

static struct timed_backend* of(struct backend* backend) { return (struct timed_backend*)(void*)backend; }

static struct cache* open_cache(struct backend* b, int capacity, enum dtype type, struct error* error) {
	struct backend* const inner = of(b)->inner;
	return inner->cache_open(inner, capacity, type, error);
}

static bool run(struct backend* b, const struct pass* pass, struct error* error) {
	struct timed_backend* const t = of(b);
	const struct variant variant = {.skip = pass->skip, .low = pass->low, .low_head = pass->low_head};
	const double share = cost_share(&t->shares, variant);
	t->now += share * (1 + t->slope * (pass->n - 1));
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
