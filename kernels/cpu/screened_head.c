#include "kernels/cpu/screened_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/coarse_row.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul.h"
#include "kernels/huge_pages.h"
#include "kernels/interleaved.h"
#include "kernels/noise.h"
#include "kernels/sample.h"

enum {
	LANES = 16,
	SCANNED = 64,        /* scores of a block, which are looked at together */
	PARTS = 16,          /* of a row's survivors */
	FETCHED_BEFORE = 4,  /* survivors */
	LONGEST_REST = 1024, /* rows without, where it did not pay */
	TRIED_AGAIN = 256    /* among passes of several rows that were refused for their rows' cost */
};
_Static_assert((int)SCANNED == (int)NOISE_BLOCK, "a block's noise is made at once");
static const float least_slack = 1e-24f;
/* Above this nothing is screened, because sums might overflow. */
static const double most_product = 1e30;

/* ---- the coarse copy --------------------------------------------------------------------------- */

static bool type_serves(enum dtype type) {
	return dtype_is_float(type) || type == DTYPE_Q8_0 || type == DTYPE_Q6_K;
}

static double rounding_share(int64_t cols) { return 1.01 * (double)(cols + 64) * 0x1p-24; }

/* A row's blocks and norms, by the processor's fastest function. */
struct coarse_rounding {
	void (*widen)(enum dtype, const void* row, float* x, int64_t cols);
	void (*round)(struct block_q4_0* out, float* x, int64_t cols, float squares[2]);
};

static void plain_round(struct block_q4_0* out, float* x, int64_t cols, float squares[2]) {
	coarse_row(out, x, cols, squares);
}

static struct coarse_rounding rounding_here(void) {
#if defined(__x86_64__)
	if (avx2_supported())
		return (struct coarse_rounding){avx2_decode, avx2_coarse_row};
#endif
	return (struct coarse_rounding){dtype_to_float, plain_round};
}

/* Computed from a sum of squares in floats, and rounded up. */
static double norm_above(float squares, int64_t cols) {
	return sqrt((double)squares * (1 + 2 * rounding_share(cols))) + 1e-18;
}

/* A row of the copy, and its norms. scratch: (2·cols) floats. False when a weight is not finite. */
static bool make_row(struct cpu_backend* b, const struct coarse_rounding* by, int64_t r, float* scratch) {
	struct screened_head* c = &b->screened;
	const struct tensor* w = &b->head.weights->output;
	const size_t block = sizeof(struct block_q4_0), blocks = (size_t)w->cols / 32;
	const double e = rounding_share(w->cols);
	struct block_q4_0* rounded = (void*)(scratch + w->cols);
	unsigned char* group =
	    (unsigned char*)c->memory + (size_t)(r / INTERLEAVED_ROWS * INTERLEAVED_ROWS) * blocks * block;
	const int lane = (int)(r % INTERLEAVED_ROWS);
	float squares[2];
	by->widen(w->type, (const unsigned char*)w->data + (size_t)r * dtype_row_bytes(w->type, w->cols), scratch,
	          w->cols);
	by->round(rounded, scratch, w->cols, squares);
	for (size_t i = 0; i < blocks; i++, group += INTERLEAVED_ROWS * block) {
		memcpy(group + lane * 2, rounded[i].d, 2);
		interleave(group + INTERLEAVED_ROWS * 2, rounded[i].q, lane, sizeof rounded[i].q);
	}
	const double norm = norm_above(squares[0], w->cols), left = norm_above(squares[1], w->cols);
	c->slack[r] = (float)(((1 + e) * left + 2 * e * norm) * 1.0001);
	c->norm[r] = (float)(norm * 1.0001);
	return norm < most_product && left < most_product; /* not a number is not */
}

struct making {
	struct cpu_backend* b;
	struct coarse_rounding by;
	atomic_bool bad;
};

static void make_part(void* user, int part, int thread) {
	struct making* making = user;
	struct cpu_backend* b = making->b;
	float* scratch = b->scratch + (size_t)thread * 2 * (size_t)b->head.weights->shape.vocab;
	const int64_t begin = (int64_t)part * INTERLEAVED_ROWS;
	for (int64_t r = begin; r < begin + INTERLEAVED_ROWS; r++)
		if (!make_row(b, &making->by, r, scratch))
			atomic_store(&making->bad, true);
}

static bool can_serve(const struct cpu_backend* b) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct tensor* w = &b->head.weights->output;
	return !b->group && type_serves(w->type) && w->cols % 32 == 0 && w->cols <= w->rows &&
	       w->rows >= INTERLEAVED_ROWS && s->logit_scale == 1.0f && s->logit_softcap == 0 && !b->output_bias;
}

static int64_t blocks_of(const struct screened_head* c) { return (c->coarse.rows + SCANNED - 1) / SCANNED; }

static void* take_memory(struct screened_head* c, size_t count, size_t size) {
	void* at = c->memory ? (unsigned char*)c->memory + c->bytes : NULL;
	c->bytes += (count * size + 63) / 64 * 64;
	return at;
}

static void lay_out(const struct cpu_backend* b, struct screened_head* c) {
	const struct tensor* w = &b->head.weights->output;
	const size_t head_rows = (size_t)b->head_rows;
	c->bytes = 0;
	c->most_survivors = (int)(w->rows / 8) + SCANNED;
	c->coarse = (struct tensor){.type = DTYPE_Q4_0,
	                            .interleaved = true,
	                            .rows = w->rows / INTERLEAVED_ROWS * INTERLEAVED_ROWS,
	                            .cols = w->cols};
	const size_t rows = (size_t)c->coarse.rows;
	c->coarse.data = take_memory(c, rows, dtype_row_bytes(DTYPE_Q4_0, w->cols));
	c->slack = take_memory(c, rows, sizeof(float));
	c->norm = take_memory(c, rows, sizeof(float));
	c->most_slack = take_memory(c, (size_t)blocks_of(c), sizeof(float));
	c->most_norm = take_memory(c, (size_t)blocks_of(c), sizeof(float));
	c->input = take_memory(c, head_rows, reference_prepared_bytes(w->type, (int)w->cols));
	c->survivor = take_memory(c, head_rows * (size_t)c->most_survivors, sizeof(int32_t));
}

static float larger(float a, float b) { return a > b ? a : b; }

static void find_largest(struct screened_head* c) {
	for (int64_t b = 0; b < blocks_of(c); b++) {
		c->most_slack[b] = c->most_norm[b] = 0;
		for (int64_t r = b * SCANNED; r < (b + 1) * SCANNED && r < c->coarse.rows; r++) {
			c->most_slack[b] = larger(c->slack[r], c->most_slack[b]);
			c->most_norm[b] = larger(c->norm[r], c->most_norm[b]);
		}
		c->largest = larger(c->most_norm[b], c->largest);
	}
}

void screened_open(struct cpu_backend* b) {
	struct screened_head* c = &b->screened;
	if (!can_serve(b))
		return;
	lay_out(b, c);
	c->memory = alloc_huge_pages(c->bytes);
	if (!c->memory)
		return;
	lay_out(b, c);
	struct making making = {.b = b, .by = rounding_here()};
	atomic_init(&making.bad, false);
	pool_run(b->pool, (int)(c->coarse.rows / INTERLEAVED_ROWS), make_part, &making);
	find_largest(c);
	if (atomic_load(&making.bad))
		screened_close(c);
	b->head.screened_bytes = c->memory ? c->bytes : 0;
}

void screened_close(struct screened_head* c) {
	free(c->memory);
	*c = (struct screened_head){0};
}

/* ---- activations ------------------------------------------------------------------------------- */

/* The value that a kernel uses for activation k of a prepared row. */
static double prepared_value(enum dtype type, const unsigned char* row, const struct prepared* layout,
                             int k) {
	float d;
	if (dtype_takes_floats(type)) {
		memcpy(&d, row + (size_t)k * 4, 4);
		return (double)d;
	}
	memcpy(&d, row + layout->d + (size_t)(k / activation_block(type)) * 4, 4);
	return (double)d * (double)(int8_t)row[k];
}

/* |xc| and |xe - xc|, rounded up. */
static void activation_norms(enum dtype type, const unsigned char* exact, const unsigned char* coarse,
                             int cols, double* norm, double* apart) {
	const struct prepared layout = prepared_layout(DTYPE_Q4_0, cols);
	const struct prepared exact_layout =
	    dtype_takes_floats(type) ? (struct prepared){0} : prepared_layout(type, cols);
	double squares = 0, differences = 0;
	for (int k = 0; k < cols; k++) {
		const double c = prepared_value(DTYPE_Q4_0, coarse, &layout, k);
		const double difference = prepared_value(type, exact, &exact_layout, k) - c;
		squares += c * c;
		differences += difference * difference;
	}
	*norm = sqrt(squares) * 1.0001;
	*apart = sqrt(differences) * 1.0001;
}

/* ---- a row's logits ---------------------------------------------------------------------------- */

static float best_score(const float* score, int n) {
	float lane[LANES], best = -INFINITY;
	for (int l = 0; l < LANES; l++)
		lane[l] = -INFINITY;
	int i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int l = 0; l < LANES; l++)
			lane[l] = score[i + l] > lane[l] ? score[i + l] : lane[l];
	for (; i < n; i++)
		lane[0] = larger(score[i], lane[0]);
	for (int l = 0; l < LANES; l++)
		best = larger(lane[l], best);
	return best;
}

/* The best of n scores, the first one among equals; and each block's best score in `most`. */
static int64_t best_of(const float* score, int64_t n, float* most) {
	int64_t best = 0;
	for (int64_t b = 0; b * SCANNED < n; b++) {
		const int64_t left = n - b * SCANNED;
		most[b] = best_score(score + b * SCANNED, left < SCANNED ? (int)left : SCANNED);
		best = most[b] > most[best] ? b : best;
	}
	int64_t i = best * SCANNED;
	while (i < n - 1 && score[i] != most[best])
		i++;
	return i;
}

/* A row's bounds are score + slack·near + norm·apart. */
struct reach {
	float near, apart, threshold;
	const float* most; /* (blocks) the best score of each */
};

/* A bound of all rows of a block. Its terms are those of the rows' bounds or larger ones, and rounding keeps
 * their order. */
static float block_bound(const struct screened_head* c, int64_t first, struct reach reach) {
	const int64_t b = first / SCANNED;
	return reach.most[b] + (c->most_slack[b] * reach.near + c->most_norm[b] * reach.apart);
}

/* Flags the rows among [first, first + n), n at most SCANNED, that may reach the threshold; true when there
 * are any. */
static bool scan_rows(const struct screened_head* c, const float* score, int64_t first, int n,
                      struct reach reach, uint8_t may[SCANNED]) {
	const float *slack = c->slack + first, *norm = c->norm + first;
	int any = 0;
	score += first;
	if (reach.apart == 0)
		for (int i = 0; i < n; i++)
			any |= may[i] = score[i] + slack[i] * reach.near >= reach.threshold;
	else
		for (int i = 0; i < n; i++)
			any |= may[i] = score[i] + (slack[i] * reach.near + norm[i] * reach.apart) >= reach.threshold;
	return any != 0;
}

/* Lists the ids that may reach it, ascending, in `id`; -1 when there are more than fit. */
static int find_survivors(const struct screened_head* c, const float* score, struct reach reach, int most,
                          int32_t* id) {
	uint8_t may[SCANNED];
	int count = 0;
	for (int64_t first = 0; first < c->coarse.rows; first += SCANNED) {
		const int64_t left = c->coarse.rows - first;
		const int n = left < SCANNED ? (int)left : SCANNED;
		if (!(block_bound(c, first, reach) >= reach.threshold) || !scan_rows(c, score, first, n, reach, may))
			continue;
		if (count + n > most)
			return -1;
		for (int i = 0; i < n; i++)
			if (may[i])
				id[count++] = (int32_t)first + i;
	}
	return count;
}

/* ---- rows -------------------------------------------------------------------------------------- */

struct screening_job {
	struct cpu_backend* b;
	const int* row; /* (n) of the slice */
	int n;
	int most;              /* survivors that there is time for */
	bool guessed;          /* true: more survivors stay coarse; false: all rows are computed */
	int found[SLICE_ROWS]; /* survivors of each row, or -1 */
};

/* Puts exact logits of row i in their places. A row alone has the same bits as among others. */
static void exact_logits(const struct cpu_backend* b, int i, int64_t begin, int64_t end) {
	const struct tensor* w = &b->head.weights->output;
	const size_t bytes = reference_prepared_bytes(w->type, (int)w->cols);
	b->kernels->matmul(b->logits + (size_t)i * (size_t)w->rows, (size_t)w->rows, w, begin, end,
	                   b->screened.input + (size_t)i * bytes, 1);
}

/* ---- sampled rows ------------------------------------------------------------------------------ */

/* A sampled token has the largest (x - most x) / T + noise (kernels/noise.h). Beside the rows that may have
 * the largest logit, those survive that may win with their noise. In real numbers the largest logit moves all
 * alike and is left out here. No deciding number is larger than |x| / T of the best and of the
 * winner and twice the most noise together: `least` lies 32 half units of that under what the winner has. */
struct lottery {
	const struct sampler* sampler;
	uint32_t position;
	float inverse; /* 1 / T */
	float least;
};

/* Computes the row that wins among coarse logits. False where numbers are too large. scratch (vocab) */
static bool open_lottery(const struct cpu_backend* b, int i, int64_t best, const struct slice_row* of,
                         float* scratch, struct lottery* l) {
	const int64_t n = b->screened.coarse.rows;
	const float* logits = b->logits + (size_t)i * (size_t)b->head.weights->output.rows;
	int32_t winner;
	*l = (struct lottery){.sampler = of->sampler, .position = (uint32_t)of->position + 1};
	l->inverse = 1 / of->sampler->temperature;
	for (int64_t v = 0; v < n; v++)
		scratch[v] = logits[v] * l->inverse;
	if (best_with_noise(scratch, (int)n, of->sampler, l->position, &winner, 1) < 1)
		return false;
	exact_logits(b, i, winner, winner + 1);
	const float noise = gumbel_noise(l->sampler->seed, l->sampler->sequence, l->position, (uint32_t)winner);
	const float largest = (fabsf(logits[best]) + fabsf(logits[winner])) * l->inverse + 2 * NOISE_MOST;
	l->least = logits[winner] * l->inverse + noise - 0x1p-19f * largest;
	return largest < 1e30f;
}

/* Lists the ids that may win or have the largest logit, ascending, in `id`; -1 when there are more than
 * `most`. */
static int find_players(const struct screened_head* c, const float* score, struct reach reach,
                        const struct lottery* l, int most, int32_t* id) {
	float bound[SCANNED], noise[SCANNED];
	int count = 0;
	for (int64_t first = 0; first < c->coarse.rows; first += SCANNED) {
		const int64_t left = c->coarse.rows - first;
		const int n = left < SCANNED ? (int)left : SCANNED;
		int any = 0;
		const float highest = block_bound(c, first, reach);
		if (!(highest >= reach.threshold || highest * l->inverse >= l->least - NOISE_MOST))
			continue;
		for (int i = 0; i < n; i++) {
			bound[i] =
			    score[first + i] + (c->slack[first + i] * reach.near + c->norm[first + i] * reach.apart);
			any |= bound[i] >= reach.threshold || bound[i] * l->inverse >= l->least - NOISE_MOST;
		}
		if (!any)
			continue;
		if (count + n > most)
			return -1;
		noise_block(noise, l->sampler->seed, l->sampler->sequence, l->position, (uint32_t)first / 4);
		for (int i = 0; i < n; i++)
			if (bound[i] >= reach.threshold || bound[i] * l->inverse + noise[i] >= l->least)
				id[count++] = (int32_t)first + i;
	}
	return count;
}

/* ---- finding survivors ------------------------------------------------------------------------- */

/* Finds a row's survivors that are not computed yet, with those beyond the coarse copy and without the
 * best. */
static void screen_row(void* user, int i, int thread) {
	struct screening_job* job = user;
	struct cpu_backend* b = job->b;
	const struct screened_head* c = &b->screened;
	const struct tensor* w = &b->head.weights->output;
	const int cols = (int)w->cols;
	const float* logits = b->logits + (size_t)i * (size_t)w->rows;
	const struct slice_row* of = &b->row[job->row[i]];
	unsigned char* input = c->input + (size_t)i * reference_prepared_bytes(w->type, cols);
	int32_t* id = c->survivor + (size_t)i * (size_t)c->most_survivors;
	double norm, apart;
	b->kernels->prepare(w->type, input, b->normed + (size_t)i * (size_t)cols, cols);
	activation_norms(w->type, input, b->prepared[0] + (size_t)i * reference_prepared_bytes(DTYPE_Q4_0, cols),
	                 cols, &norm, &apart);
	job->found[i] = -1;
	if (!((norm + apart) * (double)c->largest < most_product) || !(norm < most_product)) /* or no number */
		return;
	float* scratch = b->scratch + (size_t)thread * 2 * (size_t)w->rows;
	float* most = scratch + w->rows; /* (blocks) */
	const int64_t best = best_of(logits, c->coarse.rows, most);
	exact_logits(b, i, best, best + 1);
	exact_logits(b, i, c->coarse.rows, w->rows);
	const struct reach reach = {.near = (float)((norm + apart) * 1.0001),
	                            .apart = (float)(apart * 1.0001),
	                            .threshold = logits[best] - least_slack,
	                            .most = most};
	struct lottery lottery;
	if (!of->sampler)
		job->found[i] = find_survivors(c, logits, reach, job->most, id);
	else if (open_lottery(b, i, best, of, scratch, &lottery))
		job->found[i] = find_players(c, logits, reach, &lottery, job->most, id);
	if (job->found[i] < 0 && job->guessed)
		job->found[i] = 0;
}

/* Prefetches, because survivors lie anywhere and would otherwise be far when they are multiplied. */
static void fetch_row(const struct tensor* w, int64_t row) {
	const size_t bytes = dtype_row_bytes(w->type, w->cols);
	const unsigned char* at = (const unsigned char*)w->data + (size_t)row * bytes;
	for (size_t line = 0; line < bytes; line += 64)
		__builtin_prefetch(at + line);
}

/* A share of a row's survivors, or of all its logits. */
static void exact_part(void* user, int part, int thread) {
	(void)thread;
	const struct screening_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct screened_head* c = &b->screened;
	const int i = part / PARTS, share = part % PARTS, found = job->found[i];
	const int64_t of = found < 0 ? b->head.weights->output.rows : found;
	const int64_t begin = of * share / PARTS, end = of * (share + 1) / PARTS;
	const int32_t* id = c->survivor + (size_t)i * (size_t)c->most_survivors;
	if (found < 0)
		exact_logits(b, i, begin, end);
	else
		for (int64_t k = begin; k < end; k++) {
			if (k + FETCHED_BEFORE < end)
				fetch_row(&b->head.weights->output, id[k + FETCHED_BEFORE]);
			exact_logits(b, i, id[k], id[k] + 1);
		}
}

/* Its cost as a share of the full head's bytes, without survivors */
static double coarse_share(const struct tensor* w) {
	return (double)dtype_row_bytes(DTYPE_Q4_0, w->cols) / (double)dtype_row_bytes(w->type, w->cols);
}

/* Rows that had to be computed whole, and survivors read here and there, can make it dearer than the full
 * head. Then it rests for a while. */
static void weigh_cost(struct screened_head* c, const struct screening_job* job, const struct tensor* w) {
	/* A survivor took 96 ns of two threads, a row of the whole head 25 (680 bytes); 141 and 34 (952
	 * bytes). */
	static const double part = 0.05, scattered = 4;
	for (int i = 0; i < job->n; i++) {
		const double rows = job->found[i] < 0 ? 1 : scattered * job->found[i] / (double)w->rows;
		c->cost += part * (coarse_share(w) + rows - c->cost);
	}
	if (c->cost > 1) {
		c->resting = LONGEST_REST;
		c->cost = coarse_share(w);
	}
}

bool screened_pays(struct cpu_backend* b, int n) {
	struct screened_head* c = &b->screened;
	const double coarse = coarse_share(&b->head.weights->output);
	return coarse + n * (c->cost - coarse) < 1 || ++c->refused % TRIED_AGAIN == 0;
}

static void find_and_compute(struct cpu_backend* b, struct screening_job* job) {
	const struct tensor* w = &b->head.weights->output;
	const int n = job->n;
	spread(b, n, (double)n * (double)w->rows * 8, screen_row, job);
	double cost = 0;
	for (int i = 0; i < n; i++)
		cost += (double)(job->found[i] < 0 ? w->rows : job->found[i]) * (double)w->cols;
	spread(b, n * PARTS, cost, exact_part, job);
}

static struct product coarse_product(const struct cpu_backend* b) {
	return (struct product){
	    .out = b->logits, .stride = (size_t)b->head.weights->output.rows, .w = &b->screened.coarse};
}

void screened_logits(struct cpu_backend* b, const int* row, int n) {
	struct screened_head* c = &b->screened;
	struct screening_job job = {.b = b, .row = row, .n = n, .most = c->most_survivors};
	const struct product product = coarse_product(b);
	multiply(b, b->normed, c->coarse.cols, n, &product, 1);
	find_and_compute(b, &job);
	weigh_cost(c, &job, &b->head.weights->output);
}

void guessed_logits(struct cpu_backend* b, const int* row, int n) {
	struct screened_head* c = &b->screened;
	const int vocab = (int)b->head.weights->output.rows;
	struct screening_job job = {.b = b, .row = row, .n = n, .guessed = true, .most = vocab / 64 + SCANNED};
	const struct product product = coarse_product(b);
	if (!listed_logits(b, row, n, &product))
		multiply(b, b->normed, c->coarse.cols, n, &product, 1);
	find_and_compute(b, &job);
}

static bool is_filtered(const struct sampler* s) { return s->top_k > 0 || s->top_p < 1 || s->min_p > 0; }

bool screened_serves(struct cpu_backend* b, int row, uint8_t want) {
	struct screened_head* c = &b->screened;
	const struct slice_row* of = &b->row[row];
	const uint8_t may = want & WANT_ROUGH ? WANT_TOKEN | WANT_TOP | WANT_ROUGH : WANT_TOKEN;
	if ((want & ~may) != 0 || of->penalties || of->allowed || (of->sampler && is_filtered(of->sampler)))
		return false;
	if (c->resting > 0)
		c->resting--;
	return c->resting == 0;
}
