/* Attention of a slice. A part is a bundle of rows of one sequence and key/value head. If the texts are long
 * and the parts do not divide evenly among the threads, the threads share each of those that are left over,
 * step by step. A part that one thread has alone reads whole rows of values and waits for nobody.
 *
 * A row sees the committed tokens under its base and its own ancestors, in order of position. It never
 * touches other rows of the cache or of the pass. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* The factor of q·k at this position. */
static float scale_at(const struct model_shape* s, int block, int position) {
	if (s->attention_growth == 0.0f || (s->growth_unrotated && !block_set_has(&s->unrotated, block)))
		return s->attention_scale;
	position += s->growth_unrotated;
	return s->attention_scale *
	       (1.0f + s->attention_growth * logf(1.0f + (float)(position / s->growth_context)));
}

/* The first position that a row at this one sees. */
static int seen_from(const struct model_shape* s, int window, int position) {
	if (window == 0)
		return 0;
	return s->window_in_chunks  ? position - position % window
	       : position >= window ? position + 1 - window
	                            : 0;
}

struct attend_job {
	struct cpu_backend* b;
	int block, window, bundles;
	int first;                    /* the parts before were done */
	struct attention_share share; /* parts 0: each bundle is one thread's */
};

static struct attention_row row_of(const struct attend_job* job, int i, int h) {
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const struct slice_row* row = &b->row[i];
	const struct cpu_cache* c = row->cache;
	const int group = s->heads / block_kv_heads(s, job->block);
	const float* sinks = floats(&b->block[job->block].sinks);
	const bool listed = row->pages && job->window == 0;
	return (struct attention_row){
	    .page = listed ? c->listed : (const unsigned char* const*)paged_bytes(&c->paged, 0),
	    .key = keys_at(c, job->block, h),
	    .value = values_at(c, job->block, h),
	    .slot_bytes = c->place[job->block].slot_bytes,
	    .type = c->paged.head.type,
	    .base = listed ? row->seen - row->n_ancestors : row->base,
	    .n_ancestors = row->n_ancestors,
	    .ancestor = row->ancestor,
	    .from = seen_from(s, job->window, row->position),
	    .head_dim = block_head_dim(s, job->block),
	    .group = group,
	    .scale = scale_at(s, job->block, row->position),
	    .softcap = s->attention_softcap,
	    .sinks = sinks ? sinks + h * group : NULL,
	    .mass = row->looked && job->window == 0 ? row->looked + (size_t)h * (size_t)look_pages(b) : NULL,
	};
}

/* The bundles of a head follow one another, so that its keys and values stay in the processor's cache. */
static void attend_part(void* user, int number, int thread) {
	const struct attend_job* job = user;
	struct attention_share share = job->share;
	const int part = job->first + (share.parts ? number / share.parts : number);
	share.part = share.parts ? number % share.parts : 0;
	struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int h = part / job->bundles, first = b->bundle[part % job->bundles];
	const int n = b->bundle[part % job->bundles + 1] - first;
	const int group = s->heads / block_kv_heads(s, job->block);
	const size_t head_dim = (size_t)block_head_dim(s, job->block);
	struct attention_row rows[MOST_ATTENTION_ROWS];
	for (int i = 0; i < n; i++)
		rows[i] = row_of(job, first + i, h);
	const size_t row_stride = (size_t)s->heads * head_dim;
	const size_t at = (size_t)first * row_stride + (size_t)h * (size_t)group * head_dim;
	const size_t scores = (size_t)attention_queries(s) * score_positions(b);
	b->kernels->attention(b->mixed + at, b->q + at, row_stride, rows, n,
	                      b->scores + (size_t)(share.parts ? part : thread) * scores,
	                      share.parts ? &share : NULL);
}

/* Cuts the rows [first, end) of one sequence into bundles, as even as possible, enough for all threads. */
static int cut_bundles(struct cpu_backend* b, int kv_heads, int n_bundles, int first, int end, int slice) {
	const int n = end - first, most = attention_rows(b->head.weights->shape.heads / kv_heads);
	const int turns = (b->threads + kv_heads - 1) / kv_heads;
	const int share = (turns * n + slice - 1) / slice; /* of the threads that a head keeps busy */
	int count = (n + most - 1) / most;
	count = (count + share - 1) / share * share;
	count = count < n ? count : n;
	for (int i = 0; i < count; i++)
		b->bundle[n_bundles + i] = first + n * i / count;
	return n_bundles + count;
}

static int make_bundles(struct cpu_backend* b, int kv_heads, int n) {
	int n_bundles = 0;
	for (int first = 0, end = 0; first < n; first = end) {
		while (end < n && b->row[end].cache == b->row[first].cache &&
		       b->row[end].base == b->row[first].base && b->row[end].pages == b->row[first].pages)
			end++;
		n_bundles = cut_bundles(b, kv_heads, n_bundles, first, end, n);
	}
	b->bundle[n_bundles] = n;
	return n_bundles;
}

/* The number of positions that each row sees, and the places of those that drafts read by a page list. */
static void find_pages(struct cpu_backend* b, int block, int window, int n) {
	for (int i = 0, base = 0; i < n; i++) {
		struct slice_row* row = &b->row[i];
		row->seen = row->position + 1;
		if (window > 0)
			row->seen -= seen_from(&b->head.weights->shape, window, row->position);
		else if (row->pages) {
			if (i == 0 || row->cache != row[-1].cache || row->base != row[-1].base ||
			    row->pages != row[-1].pages)
				looked_pages(row, block, &base);
			row->seen = base + row->n_ancestors;
		}
	}
}

/* True if some threads would be idle for long. */
static bool worth_sharing(const struct cpu_backend* b, int n, int parts) {
	enum { LONG = 512 }; /* positions: from there on a step takes longer than a meeting of the threads */
	int most = 0;
	for (int i = 0; i < n; i++)
		most = b->row[i].seen > most ? b->row[i].seen : most;
	return most >= LONG && parts <= attention_turns(b) && parts % b->threads != 0;
}

void attend(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const int kv_heads = block_kv_heads(s, block);
	struct attend_job job = {
	    .b = b,
	    .block = block,
	    .window = block_set_has(&s->sliding, block) ? s->sliding_window : 0,
	    .bundles = make_bundles(b, kv_heads, n),
	};
	find_pages(b, block, job.window, n);
	const int parts = job.bundles * kv_heads;
	double cost = 0;
	for (int i = 0; i < n; i++)
		cost += (double)b->row[i].seen * (double)b->row[i].cache->place[block].slot_bytes * 2 * s->heads;
	const int alone = worth_sharing(b, n, parts) ? parts / b->threads * b->threads : parts;
	if (alone > 0)
		spread(b, alone, cost * alone / parts, attend_part, &job);
	job.first = alone;
	for (int step = 0; alone < parts && step < ATTENTION_STEPS; step++) {
		job.share.step = (enum attention_step)step;
		job.share.parts = step == ATTENTION_MIX ? (block_head_dim(s, block) + 31) / 32 : 4 * b->threads;
		spread(b, (parts - alone) * job.share.parts, cost * (parts - alone) / parts, attend_part, &job);
	}
	if (job.window == 0)
		looked_add(b, block, n);
}
