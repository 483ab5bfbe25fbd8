/* Forwards everything and counts; see timed_backend.h. */
#include "tools/lab/timed_backend.h"

#include <math.h>
#include <string.h>

static struct timed_part* of(struct backend* backend) { return (struct timed_part*)(void*)backend; }

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

/* An adapter is an attention sub-layer before the model's own head. */
static double adapter_share(const struct timed_backend* t, const struct pass* pass) {
	double attention, mlp, head;
	cost_sub_layers(&t->shares, false, &attention, &mlp, &head);
	return attention + (pass->head ? head : 0);
}

static bool run(struct backend* b, const struct pass* pass, struct error* error) {
	struct timed_part* const part = of(b);
	struct timed_backend* const t = part->clock;
	const double share = part == &t->model ? share_of(t, pass) : adapter_share(t, pass);
	t->now += share * prices_verify(&t->prices, pass->n);
	return part->inner->run(part->inner, pass, error);
}

static int threads(const struct backend* b) { return b ? 1 : 0; }

static double now(void* user) { return ((struct timed_backend*)user)->now; }

static void stand_in(struct timed_backend* t, struct timed_part* part, struct backend** backend) {
	if (!*backend)
		return;
	*part = (struct timed_part){.backend = **backend, .inner = *backend, .clock = t};
	part->backend.cache_open = open_cache;
	part->backend.run = run;
	part->backend.draft = NULL;
	part->backend.threads = threads;
	*backend = &part->backend;
}

const char timed_backend_option_help[] =
    "time nothing: a full pass of n rows costs v(n) plain steps, others by the\nshare of the weights that "
    "they read; slope=S or v2=V,v4=V…, or a file from\nbench decode --rows --json (the clock)";

bool timed_backend_by_option(struct timed_backend* t, struct engine* engine, struct swiftlet_options* options,
                             const char* text, struct error* error) {
	struct price_list prices;
	if (!text)
		return true;
	if (!prices_read(&prices, text, error))
		return false;
	if (strchr(text, '=') && !isnan(prices.draft))
		return error_set(error, "--prices: c is not stated here: a draft pass costs the share of the weights "
		                        "that it reads");
	*t = (struct timed_backend){.engine = engine, .prices = prices};
	engine_forget_costs(engine);
	t->shares = engine->cost;
	stand_in(t, &t->model, &engine->backend);
	stand_in(t, &t->adapter, &engine->side);
	options->clock = now;
	options->clock_user = t;
	return true;
}

void timed_backend_remove(struct timed_backend* t) {
	if (!t->engine)
		return;
	t->engine->backend = t->model.inner;
	t->engine->side = t->adapter.inner;
	engine_forget_costs(t->engine);
}
