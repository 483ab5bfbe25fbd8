/* The end of a pass: final norm, output head, and what each row is wanted for.
 *
 * Only rows that are wanted go through the head, a few at a time, so that the logits held at once stay
 * within some MiB whatever the vocabulary. */
#include "kernels/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/sample.h"

/* From the stored or the quantized head; screened; a draft's guess; a draft's, of some tokens alone; of the
 * nearest groups of tokens. */
enum head_way { WHOLE_HEAD, SCREENED_HEAD, GUESSED_HEAD, LISTED_HEAD, GROUPED_HEAD, HEAD_WAYS };

struct head_job {
	struct cpu_backend* b;
	const struct pass* pass;
	const int* row; /* (n) rows of the slice */
	int r0;         /* the slice's first row in the pass */
	bool bounded;   /* by what rows are allowed */
	atomic_int bad; /* a row of the slice with a logit that is not finite, or -1 */
};

static void head_row(void* user, int i, int thread) {
	struct head_job* job = user;
	struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const size_t vocab = (size_t)s->vocab;
	float* logits = b->logits + (size_t)i * vocab;
	if (b->output_bias)
		for (size_t v = 0; v < vocab; v++)
			logits[v] += b->output_bias[v];
	if (s->logit_scale != 1.0f)
		for (size_t v = 0; v < vocab; v++)
			logits[v] *= s->logit_scale;
	if (s->logit_softcap > 0)
		b->kernels->softcap(logits, s->logit_softcap, s->vocab);
	const int row = job->row[i];
	struct result* out = &job->pass->out[job->r0 + row];
	const uint8_t want = job->pass->want[job->r0 + row];
	float max, sum;
	if (!b->kernels->sum_exp(logits, s->vocab, &max, &sum)) {
		atomic_store(&job->bad, row);
		return;
	}
	int32_t path[MAX_ROWS];
	const struct slice_row* of = &b->row[row];
	struct penalised_row penalised = {.penalties = of->penalties, .path = path};
	if (penalised.penalties)
		penalised.n =
		    paged_generated(&of->cache->paged, of->index, penalised.penalties->prompt - of->later, path);
	result_from_softmax(out, want, logits, s->vocab, max, sum, of->sampler,
	                    penalised.penalties ? &penalised : NULL, job->bounded ? of->allowed : NULL,
	                    (uint64_t)(of->position + of->later) + 1, b->scratch + (size_t)thread * 2 * vocab);
	if (want & WANT_LOGITS)
		memcpy(out->logits, logits, vocab * sizeof *logits);
}

static void open_head_row(const struct cpu_backend* b, const struct pass* pass, int row, float* in) {
	const int dim = b->head.weights->shape.dim;
	const float* x = b->x + (size_t)row * (size_t)dim;
	if (pass->bare_head)
		memcpy(in, x, (size_t)dim * sizeof *in);
	else
		norm_rows(b, in, x, b->output_norm, b->output_norm_bias, dim, 1);
}

/* The slice's rows `row` (n <= head_rows) */
static bool some_results(struct cpu_backend* b, const struct pass* pass, const int* row, int r0, int n,
                         enum head_way way, struct error* error) {
	const struct weight_table* w = b->head.weights;
	const struct model_shape* s = &w->shape;
	for (int i = 0; i < n; i++)
		open_head_row(b, pass, row[i], b->normed + (size_t)i * (size_t)s->dim);
	const struct product product = {.out = b->logits,
	                                .stride = (size_t)s->vocab,
	                                .w = pass->quantized_head ? b->draft_weights->output : &w->output};
	if (way == GUESSED_HEAD)
		guessed_logits(b, row, n);
	else if (way == SCREENED_HEAD)
		screened_logits(b, row, n);
	else if (way == GROUPED_HEAD)
		grouped_logits(b, n);
	else if (way == WHOLE_HEAD || !listed_logits(b, row, n, &product))
		multiply(b, b->normed, s->dim, n, &product, 1);
	struct head_job job = {
	    .b = b, .pass = pass, .row = row, .r0 = r0, .bounded = way != GUESSED_HEAD && way != LISTED_HEAD};
	atomic_init(&job.bad, -1);
	spread(b, n, (double)n * s->vocab * 8, head_row, &job);
	const int bad = atomic_load(&job.bad);
	if (bad >= 0)
		return error_set(error,
		                 "the model gave logits that are not finite numbers at position %d: its weights "
		                 "are damaged or overflow the cache's type %s",
		                 b->row[bad].position, dtype_name(b->row[bad].cache->paged.head.type));
	return true;
}

static enum head_way way_of(struct cpu_backend* b, const struct pass* pass, int row, uint8_t want) {
	if (tensor_present(&b->head.weights->centroids))
		return GROUPED_HEAD;
	const bool listed = want & WANT_GUESS && b->row[row].allowed && !b->group;
	if (pass->quantized_head || !b->screened.memory)
		return listed ? LISTED_HEAD : WHOLE_HEAD;
	return want & WANT_GUESS ? GUESSED_HEAD : screened_serves(b, row, want) ? SCREENED_HEAD : WHOLE_HEAD;
}

bool head_results(struct cpu_backend* b, const struct pass* pass, int r0, int n, struct error* error) {
	int wanted[HEAD_WAYS][MAX_ROWS], count[HEAD_WAYS] = {0};
	for (int i = 0; i < n; i++) {
		const uint8_t want = pass->want[r0 + i];
		if (want == WANT_NOTHING)
			continue;
		const enum head_way way = way_of(b, pass, i, want);
		wanted[way][count[way]++] = i;
	}
	if (count[SCREENED_HEAD] > 0 && !screened_pays(b, count[SCREENED_HEAD])) {
		memcpy(&wanted[WHOLE_HEAD][count[WHOLE_HEAD]], wanted[SCREENED_HEAD],
		       (size_t)count[SCREENED_HEAD] * sizeof wanted[0][0]);
		count[WHOLE_HEAD] += count[SCREENED_HEAD];
		count[SCREENED_HEAD] = 0;
	}
	for (int way = 0; way < HEAD_WAYS; way++)
		for (int first = 0; first < count[way]; first += b->head_rows) {
			const int left = count[way] - first, rows = left < b->head_rows ? left : b->head_rows;
			if (!some_results(b, pass, wanted[way] + first, r0, rows, (enum head_way)way, error))
				return false;
		}
	return true;
}
