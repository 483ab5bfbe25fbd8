#include "tests/optimizer/support_fake.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FAKE_BLOCKS = 24, FAKE_VOCAB = 300, FAKE_HEAD_DIM = 16, FAKE_BLOCK_BYTES = 4 * 100 * 100 * 4 };

int32_t fake_truth(int position) { return (int32_t)(((uint32_t)position * 2654435761u >> 7) % FAKE_VOCAB); }

uint64_t fake_random(struct fake* fake) {
	uint64_t z = fake->random += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static struct fake* of(struct backend* backend) { return (struct fake*)(void*)backend; }

/* A model with sub-layers left out, or up to an exit. */
static bool is_draft(const struct pass* pass) { return pass->skip || pass->last < 2 * FAKE_BLOCKS; }

static void answer(struct fake* fake, const struct pass* pass, int i, int position) {
	struct result* out = &pass->out[i];
	const int32_t truth = fake_truth(position + 1);
	float probability = 1;
	const bool right = !is_draft(pass) || fake->right(fake, position + 1, &probability);
	out->token = right ? truth : (truth + 1) % FAKE_VOCAB;
	if (!(pass->want[i] & WANT_TOP))
		return;
	out->max_probability = probability;
	for (int k = 0; k < out->top; k++) {
		out->top_token[k] = (out->token + 7 * k) % FAKE_VOCAB;
		out->top_probability[k] = k == 0 ? probability : (1 - probability) / 20;
	}
}

/* The share of a full pass's time: c for any mask, except one that leaves out the end, as an exit does. */
static double share(const struct fake* fake, const struct pass* pass) {
	const double span = (double)(pass->last - pass->first) / (2 * FAKE_BLOCKS);
	if (!pass->skip)
		return span;
	if (mask_has(pass->skip, 2 * FAKE_BLOCKS - 1))
		return 1 - (double)mask_count(pass->skip) / (2 * FAKE_BLOCKS);
	return span * (pass->quantized ? fake->quantized_c : fake->c);
}

void fake_set_attention(struct fake* fake, double ratio, double slope) {
	fake->attention = ratio;
	fake->attention_slope = slope;
	struct model_shape* shape = &fake->model.weights.shape;
	shape->heads = shape->kv_heads = 1;
	shape->head_dim = FAKE_HEAD_DIM;
}

double fake_attention(const struct fake* fake, int tokens, int rows) {
	const double bytes = 2 * FAKE_HEAD_DIM * (fake->cache.type == DTYPE_F32 ? 4 : 2) * (double)tokens;
	return fake->attention * bytes / FAKE_BLOCK_BYTES * (1 + fake->attention_slope * (rows - 1));
}

static bool run(struct backend* backend, const struct pass* pass, struct error* error) {
	struct fake* fake = of(backend);
	struct cache* cache = pass->segment->cache;
	(void)error;
	const int first = cache->pending;
	fake->quantized = pass->quantized != NULL;
	for (int i = 0; pass->tap >= 0 && i < pass->n * fake->model.weights.shape.dim; i++)
		pass->tap_out[i] = 1;
	for (int i = 0; pass->states && i < 2 * FAKE_BLOCKS * fake->model.weights.shape.dim; i++)
		pass->states[i] = 1;
	for (int i = 0, segment = 0, end = pass->segment->n; i < pass->n; i++) {
		while (i >= end)
			end += pass->segment[++segment].n;
		const int row = pass_appends(pass) ? first + i : pass->row[i];
		const int parent = pass->parent ? pass->parent[i] : first + i - 1;
		if (pass_appends(pass))
			fake->depth[row] = parent < 0 ? 0 : fake->depth[parent] + 1;
		if (pass->want && pass->want[i])
			answer(fake, pass, i, pass->segment[segment].base + fake->depth[row]);
	}
	if (pass->kind == PASS_PREFILL)
		cache->committed += pass->n;
	else if (pass_appends(pass))
		cache->pending += pass->n;
	const double rows = 1 + fake->slope * (pass->n - 1);
	const double jitter = 1 + fake->noise * ((double)(fake_random(fake) % 2001) / 1000 - 1);
	const double work = share(fake, pass) * rows * jitter;
	const bool slow = fake->period > 0 && fmod(fake->now, fake->period) >= fake->period / 2;
	const double speed = slow ? fake->swing : 1;
	const double attention =
	    share(fake, pass) * fake_attention(fake, pass->segment->base, pass->n) * jitter * speed;
	const double weights = fake->memory ? fmax(share(fake, pass) * jitter * speed, work) : work * speed;
	const double seconds = weights + attention;
	backend->attention_share = seconds > 0 ? attention / seconds : 0;
	fake->work += seconds / speed;
	fake->now += seconds;
	if (!is_draft(pass))
		fake->full++;
	else if (pass->want && pass->want[0] & WANT_TOP && pass->n_segments == 1)
		fake->drafts++;
	else
		fake->scored++;
	return true;
}

static void commit(struct cache* cache, const int32_t* path, int n) {
	struct fake* fake = of(cache->backend);
	const double seconds = cache->pending > 1 && path ? fake->again * n : 0;
	assert(n <= cache->pending);
	fake->work += seconds;
	fake->now += seconds;
	cache->committed += n;
	cache->pending = 0;
}

static void discard(struct cache* cache) { cache->pending = 0; }

static void truncate_cache(struct cache* cache, int committed) {
	cache->committed = committed;
	cache->pending = 0;
}

static struct cache* cache_open(struct backend* backend, int capacity, enum dtype type, struct error* error) {
	(void)error;
	of(backend)->cache = (struct cache){.backend = backend, .capacity = capacity, .type = type};
	return &of(backend)->cache;
}

static void cache_close(struct cache* cache) { (void)cache; }

static int threads(const struct backend* backend) { return backend ? 1 : 0; }

static double fake_clock(void* user) { return ((struct fake*)user)->now; }

void fake_open(struct fake* fake, bool (*right)(struct fake*, int, float*), double c, double slope) {
	memset(fake, 0, sizeof *fake);
	fake->right = right;
	fake->c = c;
	fake->slope = slope;
	fake->backend = (struct backend){.name = "fake",
	                                 .prefill_is_exact = true,
	                                 .cache_open = cache_open,
	                                 .cache_close = cache_close,
	                                 .run = run,
	                                 .commit = commit,
	                                 .discard = discard,
	                                 .truncate = truncate_cache,
	                                 .threads = threads};
	const struct tensor weight = {.type = DTYPE_F32, .rows = 100, .cols = 100};
	for (int b = 0; b < FAKE_BLOCKS; b++)
		fake->block[b] =
		    (struct block_weights){.wq = weight, .wo = weight, .w_gate = weight, .w_down = weight};
	fake->model.weights = (struct weight_table){
	    .shape = {.n_blocks = FAKE_BLOCKS, .dim = 100, .vocab = FAKE_VOCAB, .context = 1 << 20},
	    .block = fake->block};
	fake->model.tokenizer = tokenizer_bytes(FAKE_VOCAB);
	fake->model.parameters = 1e9;
	fake->backend.weights = &fake->model.weights;
	fake->engine.model = &fake->model;
	fake->engine.backend = &fake->backend;
	cost_open(&fake->engine.cost, &fake->model.weights, 0);
}

void fake_plan_draft_weights(struct fake* fake) {
	struct draft_weights* quantized = &fake->engine.draft_weights.table;
	const struct tensor small = {.type = DTYPE_F32, .rows = 25, .cols = 100};
	*quantized = (struct draft_weights){.format = {.bits = 4},
	                                    .stored = &fake->model.weights,
	                                    .block = fake->quantized_block,
	                                    .output = &fake->quantized_head,
	                                    .bytes = 1};
	for (int b = 0; b < FAKE_BLOCKS; b++)
		fake->quantized_block[b] =
		    (struct block_weights){.wq = small, .wo = small, .w_gate = small, .w_down = small};
	for (int s = 0; s < 2 * FAKE_BLOCKS; s++)
		mask_set(&quantized->sub_layers, s, true);
}

void fake_join_draft_weights(struct fake* fake, double quantized_c) {
	fake->quantized_c = quantized_c;
	fake->engine.draft_weights_ready = true;
	cost_use_draft_weights(&fake->engine.cost, &fake->engine.draft_weights.table);
}

void fake_close(struct fake* fake) { tokenizer_free(fake->model.tokenizer); }

struct session* fake_session(struct fake* fake, struct swiftlet_options* options) {
	char message[256] = "";
	options->clock = fake_clock;
	options->clock_user = fake;
	if (options->cache.context == 0)
		options->cache.context = 20000;
	struct session* session = swiftlet_session_open(&fake->engine, options, message, sizeof message);
	if (!session)
		printf("%s\n", message);
	return session;
}

bool fake_always_wrong(struct fake* fake, int position, float* probability) {
	(void)fake, (void)position;
	*probability = 0.99f;
	return false;
}

bool fake_always_right(struct fake* fake, int position, float* probability) {
	return !fake_always_wrong(fake, position, probability);
}
