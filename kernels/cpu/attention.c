/* Attention of a slice: one part a row and key/value head.
 *
 * A row sees the committed tokens under its base and its own ancestors, in order of position; what else
 * is in the cache, or in the pass, it never touches. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* What multiplies q·k at this position. */
static float scale_at(const struct model_shape* s, int position) {
	if (s->attention_growth == 0.0f)
		return s->attention_scale;
	return s->attention_scale *
	       (1.0f + s->attention_growth * logf(1.0f + (float)(position / s->growth_context)));
}

struct attend_job {
	struct cpu_backend* b;
	int block, window;
};

static void attend_part(void* user, int part, int thread) {
	const struct attend_job* job = user;
	struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int i = part / s->kv_heads, h = part % s->kv_heads, group = s->heads / s->kv_heads;
	const struct slice_row* row = &b->row[i];
	const struct cpu_cache* c = row->cache;
	const struct attention_row a = {
	    .page = c->bytes,
	    .key = keys_at(c, job->block, h),
	    .value = values_at(c, job->block, h),
	    .slot_bytes = c->slot_bytes,
	    .type = c->head.type,
	    .base = row->base,
	    .n_ancestors = row->n_ancestors,
	    .ancestor = row->ancestor,
	    .from = job->window > 0 && row->position >= job->window ? row->position + 1 - job->window : 0,
	    .head_dim = s->head_dim,
	    .group = group,
	    .scale = scale_at(s, row->position),
	    .softcap = s->attention_softcap,
	    .sinks = b->block[job->block].sinks ? b->block[job->block].sinks + h * group : NULL,
	};
	const size_t at = ((size_t)i * (size_t)s->heads + (size_t)h * (size_t)group) * (size_t)s->head_dim;
	const size_t scores = (size_t)group * score_positions(b);
	b->kernels->attention(b->mixed + at, b->q + at, &a, b->scores + (size_t)thread * scores);
}

void attend(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	struct attend_job job = {
	    .b = b, .block = block, .window = block_set_has(&s->sliding, block) ? s->sliding_window : 0};
	double cost = 0;
	for (int i = 0; i < n; i++)
		cost += (double)(b->row[i].position + 1) * (double)b->row[i].cache->slot_bytes * 2 * s->heads;
	spread(b, n * s->kv_heads, cost, attend_part, &job);
}
