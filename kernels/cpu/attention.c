/* Attention of a slice. A part is a bundle of rows of one sequence and key/value head, whose text is taken in
 * chunks. If the texts are long and the parts do not divide evenly among the threads, the threads share the
 * chunks of those that are left over.
 *
 * A row sees the committed tokens under its base and its own ancestors, in order of position. It never
 * touches other rows of the cache or of the pass. */
#include "kernels/cpu/cpu.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* Chunks whose sums are kept at once where threads share a part. */
enum { SPAN = 32 };

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
	int first; /* the parts before were done */
	int span;  /* of shared parts: chunks that were joined before */
	int runs;  /* that a span is cut into */
};

/* The block in which the cache of a row's keys has those of this one. */
static int keys_block(const struct cpu_backend* b, const struct slice_row* row, int block) {
	const struct model_shape* s = &b->head.weights->shape;
	return s->keys_outside
	           ? last_keys(&row->keys->paged.head.backend->weights->shape, block_set_has(&s->sliding, block))
	           : block;
}

static struct attention_row row_of(const struct attend_job* job, int i, int h) {
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const struct slice_row* row = &b->row[i];
	const struct cpu_cache* c = row->keys;
	const int from = keys_block(b, row, job->block);
	const int group = s->heads / block_kv_heads(s, job->block);
	const float* sinks = floats(&b->block[job->block].sinks);
	const bool listed = row->pages && job->window == 0;
	return (struct attention_row){
	    .page = listed ? c->listed : (const unsigned char* const*)paged_bytes(&c->paged, 0),
	    .key = keys_at(c, from, h),
	    .value = values_at(c, from, h),
	    .slot_bytes = c->place[from].slot_bytes,
	    .type = c->paged.head.type,
	    .base = listed ? row->seen - row->n_ancestors : row->base,
	    .n_ancestors = row->n_ancestors,
	    .ancestor = row->ancestor,
	    .from = seen_from(s, job->window, row->at),
	    .head_dim = block_head_dim(s, job->block),
	    .group = group,
	    .scale = scale_at(s, job->block, row->at),
	    .softcap = s->attention_softcap,
	    .sinks = sinks ? sinks + h * group : NULL,
	    .mass = row->looked && job->window == 0 ? row->looked + (size_t)h * (size_t)look_pages(b) : NULL,
	};
}

struct attention_bundle attention_bundle_of(const struct attention_row* row, int n) {
	int same = row->n_ancestors, in_place = 0;
	for (int i = 1; i < n; i++) {
		const int limit = row[i].n_ancestors < same ? row[i].n_ancestors : same;
		for (same = 0; same < limit && row[i].ancestor[same] == row->ancestor[same];)
			same++;
	}
	while (in_place < row->n_ancestors && row->ancestor[in_place] == row->base + in_place)
		in_place++;
	return (struct attention_bundle){.row = row, .n = n, .same = same, .in_place = in_place};
}

/* ---- a part's sums -------------------------------------------------------------------------- */

/* Rows of a key/value head, and the chunks [first, end) that any of them sees. */
struct attended {
	struct attention_row row[MOST_ATTENTION_ROWS];
	struct attention_bundle bundle;
	const float* q;
	float* out;
	size_t row_stride;
	int n, queries, head_dim;
	int first, end;
	int kept; /* chunks whose sums are kept at once */
};

/* The bundles of a head follow one another, so that its keys and values stay in the processor's cache. */
static void find_part(const struct attend_job* job, int part, struct attended* a) {
	struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int h = part / job->bundles, first = b->bundle[part % job->bundles];
	const int group = s->heads / block_kv_heads(s, job->block);
	a->n = b->bundle[part % job->bundles + 1] - first;
	a->queries = a->n * group;
	a->head_dim = block_head_dim(s, job->block);
	a->row_stride = (size_t)s->heads * (size_t)a->head_dim;
	a->first = INT_MAX;
	a->end = 0;
	a->kept = job->runs > 0 ? SPAN : 1;
	for (int i = 0; i < a->n; i++) {
		const struct attention_row row = row_of(job, first + i, h);
		const int end = (row.base + row.n_ancestors + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
		a->row[i] = row;
		a->first = row.from / ATTENTION_CHUNK < a->first ? row.from / ATTENTION_CHUNK : a->first;
		a->end = end > a->end ? end : a->end;
	}
	a->bundle = attention_bundle_of(a->row, a->n);
	const size_t at = (size_t)first * a->row_stride + (size_t)h * (size_t)(group * a->head_dim);
	a->q = b->q + at;
	a->out = b->mixed + at;
}

/* Chunks of a text, at most. */
static size_t most_chunks(const struct cpu_backend* b) {
	return ((size_t)b->context + MAX_ROWS) / ATTENTION_CHUNK + 1;
}

static size_t most_queries(const struct cpu_backend* b) {
	return (size_t)attention_queries(&b->head.weights->shape);
}

/* Scores, the largest ones and mass of all chunks, and the sums: those of a span's chunks, and of all. */
size_t attention_floats(const struct cpu_backend* b) {
	const struct model_shape* s = &b->head.weights->shape;
	const size_t head_dim = (size_t)larger_of(s->head_dim, s->full_head_dim);
	return most_queries(b) *
	       (CHUNK_SCORES + most_chunks(b) * (1 + CHUNK_PAGES) + 1 + (SPAN + 1) * (1 + head_dim));
}

/* Memory of the thread, or of the shared part, with this number. */
static float* scores_of(const struct cpu_backend* b, int number) {
	return b->attended + (size_t)number * attention_floats(b);
}

/* The sums over all chunks so far. */
static struct attention_sums whole_sums(const struct cpu_backend* b, int number) {
	float* at = scores_of(b, number) + most_queries(b) * (CHUNK_SCORES + most_chunks(b) * (1 + CHUNK_PAGES));
	return (struct attention_sums){
	    .most = at, .total = at + most_queries(b), .mixed = at + most_queries(b) * (2 + SPAN)};
}

/* The sums of a part's chunk, the i-th from its first on. */
static struct attention_sums chunk_sums(const struct cpu_backend* b, const struct attended* a, int number,
                                        int i) {
	const size_t queries = most_queries(b), chunk = (size_t)i, slot = (size_t)(i % a->kept);
	float* most = scores_of(b, number) + queries * CHUNK_SCORES;
	const struct attention_sums whole = whole_sums(b, number);
	return (struct attention_sums){
	    .most = most + queries * chunk,
	    .mass = most + queries * (most_chunks(b) + chunk * CHUNK_PAGES),
	    .total = whole.total + queries * (1 + slot),
	    .mixed = whole.mixed + queries * (size_t)a->head_dim * (1 + slot),
	};
}

/* A sink takes part as one score more, which gives nothing. */
static void begin_sums(const struct attended* a, struct attention_sums sums) {
	const float* sinks = a->row->sinks;
	for (int i = 0; i < a->queries; i++) {
		sums.most[i] = sinks ? sinks[i % a->row->group] : -FLT_MAX;
		sums.total[i] = sinks ? 1 : 0;
	}
	memset(sums.mixed, 0, (size_t)(a->queries * a->head_dim) * sizeof *sums.mixed);
}

/* The row's mass by page, of which each query has its share. */
static void end_mass(const struct cpu_backend* b, const struct attended* a, int row, int number) {
	const struct attention_row* r = &a->row[row];
	const struct attention_sums whole = whole_sums(b, number);
	const int pages = (r->base + r->n_ancestors + LIST_POSITIONS - 1) / LIST_POSITIONS;
	memset(r->mass, 0, (size_t)pages * sizeof *r->mass);
	for (int page = 0; page < pages; page += CHUNK_PAGES) {
		const struct attention_sums sums = chunk_sums(b, a, number, page / CHUNK_PAGES);
		for (int i = row * r->group; i < (row + 1) * r->group; i++) {
			const float share = expf(sums.most[i] - whole.most[i]) / whole.total[i];
			for (int p = 0; p < CHUNK_PAGES && page + p < pages; p++)
				r->mass[page + p] += share * sums.mass[i * CHUNK_PAGES + p];
		}
	}
}

static void end_sums(const struct cpu_backend* b, const struct attended* a, int number) {
	const struct attention_sums sums = whole_sums(b, number);
	const int group = a->row->group;
	for (int i = 0; i < a->queries; i++) {
		const float* mixed = sums.mixed + (size_t)i * (size_t)a->head_dim;
		float* out = a->out + (size_t)(i / group) * a->row_stride + (size_t)(i % group * a->head_dim);
		const float share = 1.0f / sums.total[i];
		for (int d = 0; d < a->head_dim; d++)
			out[d] = mixed[d] * share;
	}
	for (int i = 0; i < a->n; i++)
		if (a->row[i].mass)
			end_mass(b, a, i, number);
}

/* ---- one thread's part ---------------------------------------------------------------------- */

static void add_chunk(struct cpu_backend* b, const struct attended* a, int i, int number, int thread) {
	b->kernels->attention(chunk_sums(b, a, number, i), a->q, a->row_stride, &a->bundle, a->first + i,
	                      scores_of(b, thread));
}

static void join_chunk(struct cpu_backend* b, const struct attended* a, int i, int number) {
	b->kernels->attention_join(whole_sums(b, number), chunk_sums(b, a, number, i), a->queries, a->head_dim);
}

static void attend_part(void* user, int part, int thread) {
	const struct attend_job* job = user;
	struct attended a;
	find_part(job, part, &a);
	begin_sums(&a, whole_sums(job->b, thread));
	for (int i = 0; i < a.end - a.first; i++) {
		add_chunk(job->b, &a, i, thread, thread);
		join_chunk(job->b, &a, i, thread);
	}
	end_sums(job->b, &a, thread);
}

/* ---- a part that the threads share ---------------------------------------------------------- */

/* A run of a span's chunks */
static void attend_run(void* user, int number, int thread) {
	const struct attend_job* job = user;
	const int part = number / job->runs, run = number % job->runs;
	struct attended a;
	find_part(job, job->first + part, &a);
	const int left = a.end - a.first - job->span, count = left < 0 ? 0 : left < SPAN ? left : SPAN;
	for (int i = count * run / job->runs; i < count * (run + 1) / job->runs; i++)
		add_chunk(job->b, &a, job->span + i, part, thread);
}

static void join_span(void* user, int part, int thread) {
	(void)thread;
	const struct attend_job* job = user;
	struct attended a;
	find_part(job, job->first + part, &a);
	if (job->span == 0)
		begin_sums(&a, whole_sums(job->b, part));
	const int chunks = a.end - a.first, end = chunks < job->span + SPAN ? chunks : job->span + SPAN;
	for (int i = job->span; i < end; i++)
		join_chunk(job->b, &a, i, part);
	if (end == chunks && job->span < chunks)
		end_sums(job->b, &a, part);
}

/* ---- parts ---------------------------------------------------------------------------------- */

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
		row->seen = row->base + row->n_ancestors;
		if (window > 0)
			row->seen -= seen_from(&b->head.weights->shape, window, row->at);
		else if (row->pages) {
			if (i == 0 || row->cache != row[-1].cache || row->base != row[-1].base ||
			    row->pages != row[-1].pages)
				looked_pages(row, block, &base);
			row->seen = base + row->n_ancestors;
		}
	}
}

/* The positions that the row which sees most of them sees. */
static int most_seen(const struct cpu_backend* b, int n) {
	int most = 0;
	for (int i = 0; i < n; i++)
		most = b->row[i].seen > most ? b->row[i].seen : most;
	return most;
}

/* Threads that would be idle for long share the parts that do not divide evenly among them. */
static void share_parts(struct attend_job* job, int parts, int seen, double cost) {
	struct cpu_backend* b = job->b;
	/* windows of a part's rows begin one after another, and are cut on both sides */
	const int chunks = (seen + MOST_ATTENTION_ROWS) / ATTENTION_CHUNK + 2;
	job->runs = 4 * b->threads;
	for (job->span = 0; job->span < chunks; job->span += SPAN) {
		spread(b, parts * job->runs, cost, attend_run, job);
		spread(b, parts, cost / ATTENTION_CHUNK, join_span, job);
	}
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
	const int parts = job.bundles * kv_heads, seen = most_seen(b, n);
	double cost = 0;
	for (int i = 0; i < n; i++)
		cost += (double)b->row[i].seen *
		        (double)b->row[i].keys->place[keys_block(b, &b->row[i], block)].slot_bytes * 2 * s->heads;
	const int left_over = seen < 2 * ATTENTION_CHUNK ? 0 : parts % b->threads;
	job.first = parts - left_over;
	if (job.first > 0)
		spread(b, job.first, cost * job.first / parts, attend_part, &job);
	if (left_over > 0)
		share_parts(&job, left_over, seen, cost * left_over / parts);
	if (job.window == 0)
		looked_add(b, block, n);
}
