/* Sampling; see sample.h. A filter cuts the order of processed logits. The cut is found without sorting, in
 * three rounds that count, or weigh, the logits' leading bits. */
#include "kernels/sample.h"

#include <math.h>

#include "kernels/noise.h"

float gumbel_noise(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t token) {
	const struct noise_words words = noise_philox(seed, sequence, (uint32_t)position, token / 4);
	return noise_gumbel(words.word[token % 4]);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* Processed logits are at most 0, so their bits without the sign grow as the probability falls. */
static uint32_t rank_key(float processed) { return bits_from_float(processed) & 0x7fffffffu; }

struct filter_cut {
	uint32_t key;
	int ties; /* how many with that very key stay */
};

enum { BUCKETS = 2048 };

/* The last key whose weights (NULL: 1 each), summed from the most probable on, reach the target. */
static struct filter_cut find_cut(const float* processed, const float* weight, int n, double target) {
	static const int shift[] = {20, 10, 0};
	uint32_t prefix = 0, known = 0;
	double above = 0, one = 1;
	for (int level = 0; level < 3; level++) {
		double sum[BUCKETS] = {0};
		const uint32_t within = level == 0 ? 0x7ff : 0x3ff;
		uint32_t last = 0;
		for (int v = 0; v < n; v++) {
			const uint32_t key = rank_key(processed[v]);
			if ((key & known) != prefix)
				continue;
			const uint32_t bucket = key >> shift[level] & within;
			sum[bucket] += weight ? (double)weight[v] : 1;
			last = bucket > last ? bucket : last;
		}
		uint32_t bucket = 0;
		for (; bucket < last && above + sum[bucket] < target; bucket++)
			above += sum[bucket];
		prefix |= bucket << shift[level];
		known |= within << shift[level];
	}
	for (int v = 0; weight && v < n; v++)
		if (rank_key(processed[v]) == prefix) {
			one = (double)weight[v];
			break;
		}
	const double ties = one > 0 ? ceil((target - above) / one) : 1;
	return (struct filter_cut){prefix, ties < 1 ? 1 : ties < n ? (int)ties : n};
}

static void apply_cut(float* processed, int n, struct filter_cut cut) {
	for (int v = 0; v < n; v++) {
		const uint32_t key = rank_key(processed[v]);
		if (key > cut.key || (key == cut.key && cut.ties-- <= 0))
			processed[v] = -INFINITY;
	}
}

static float find_largest(const float* x, int n) {
	float max = x[0];
	for (int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

/* Uses four interleaved sums, so that no addition waits for the previous one. */
static double sum_of(const float* x, int n) {
	double sum[4] = {0};
	int i = 0;
	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] += (double)x[i + k];
	for (; i < n; i++)
		sum[i % 4] += (double)x[i];
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* processed (vocab), which may be the same array: the logits over the temperature. */
static void scale_logits(float* processed, const float* logits, int vocab, float max, float temperature) {
	for (int v = 0; v < vocab; v++)
		processed[v] = noise_score(logits[v], max, temperature, 0);
}

/* -infinity for tokens that a filter removes */
static void filter_tokens(float* restrict processed, float* restrict weight, int vocab,
                          const struct sampler* s) {
	const float min_p = s->min_p;
	if (s->top_k > 0 && s->top_k < vocab)
		apply_cut(processed, vocab, find_cut(processed, NULL, vocab, s->top_k));
	if (s->top_p >= 1 && min_p <= 0)
		return;
	for (int v = 0; v < vocab; v++)
		weight[v] = noise_exp(processed[v]);
	if (s->top_p < 1)
		apply_cut(processed, vocab,
		          find_cut(processed, weight, vocab, (double)s->top_p * sum_of(weight, vocab)));
	for (int v = 0; v < vocab; v++)
		processed[v] = weight[v] < min_p ? -INFINITY : processed[v];
}

/* True when one of a block is over the limit, so that most blocks are skipped. */
enum { BLOCK = NOISE_BLOCK };
static bool any_over(const float* x, int n, float limit) {
	int over = 0;
	for (int i = 0; i < n; i++)
		over |= x[i] > limit;
	return over != 0;
}

void sample_distribution(const float* logits, int vocab, const struct sampler* sampler, float* p,
                         float* scratch) {
	scale_logits(p, logits, vocab, find_largest(logits, vocab), sampler->temperature);
	filter_tokens(p, scratch, vocab, sampler);
	for (int v = 0; v < vocab; v++)
		p[v] = noise_exp(p[v]);
	const double sum = sum_of(p, vocab);
	for (int v = 0; v < vocab; v++)
		p[v] = (float)((double)p[v] / sum);
}

/* ---- penalties ------------------------------------------------------------------------------ */

static float penalised_logit(float x, bool in_prompt, int times, const struct penalties* p) {
	if (in_prompt || times > 0)
		x = x > 0 ? x / p->repetition : x * p->repetition;
	return times > 0 ? x - p->presence - p->frequency * (float)times : x;
}

static int times_in(const int32_t* path, int n, int32_t token) {
	int times = 0;
	for (int i = 0; i < n; i++)
		times += path[i] == token;
	return times;
}

/* Token i of a row's text: the committed text, then the path. */
static int32_t text_at(const struct penalised_row* row, int i) {
	const struct penalties* p = row->penalties;
	return i < p->n_text ? p->text[i] : row->path[i - p->n_text];
}

/* Finds the tokens that followed the text's last no_repeat - 1 tokens before. out (vocab) */
static void forbid_repeats(float* out, const struct penalised_row* row) {
	const int n = row->penalties->n_text + row->n, length = row->penalties->no_repeat - 1;
	for (int i = 0; i + length < n; i++) {
		int same = 0;
		while (same < length && text_at(row, i + same) == text_at(row, n - length + same))
			same++;
		if (same == length)
			out[text_at(row, i + length)] = -INFINITY;
	}
}

/* out (vocab): the logits with penalties and biases. Returns the largest. */
static float penalise_tokens(float* restrict out, const float* restrict logits, int vocab,
                             const struct penalised_row* row) {
	const struct penalties* p = row->penalties;
	for (int v = 0; v < vocab; v++)
		out[v] = penalised_logit(logits[v], p->in_prompt[v] != 0, p->generated[v], p);
	for (int i = 0; i < row->n; i++) {
		const int32_t v = row->path[i];
		const int times = p->generated[v] + times_in(row->path, row->n, v);
		out[v] = penalised_logit(logits[v], p->in_prompt[v] != 0, times, p);
	}
	for (int i = 0; i < p->n_bias; i++)
		out[p->bias_token[i]] += p->bias[i];
	return find_largest(out, vocab);
}

/* The same, without tokens that would repeat a run. */
static float penalise_row(float* restrict out, const float* restrict logits, int vocab,
                          const struct penalised_row* row) {
	const float best = penalise_tokens(out, logits, vocab, row);
	if (row->penalties->no_repeat <= 0)
		return best;
	forbid_repeats(out, row);
	const float left = find_largest(out, vocab);
	return left > -INFINITY ? left : penalise_tokens(out, logits, vocab, row);
}

/* out (vocab): the scores of allowed tokens, -infinity for others. Returns the largest. out may be score. */
static float only_allowed(float* out, const float* score, int vocab, const uint64_t* allowed) {
	for (int v = 0; v < vocab; v++)
		out[v] = allowed[v >> 6] >> (v & 63) & 1u ? score[v] : -INFINITY;
	return find_largest(out, vocab);
}

/* ---- results -------------------------------------------------------------------------------- */

struct best {
	int32_t* token;
	float score[MAX_TOP];
	int n, wanted;
};

static void take_best(struct best* best, float score, int32_t token) {
	int at = best->n < best->wanted ? best->n++ : best->n - 1;
	for (; at > 0 && score > best->score[at - 1]; at--) {
		best->score[at] = best->score[at - 1];
		best->token[at] = best->token[at - 1];
	}
	best->score[at] = score;
	best->token[at] = token;
}

/* The best scores (vocab), best first, ties to the lowest id, without those at -infinity. */
static int best_of(const float* score, int vocab, int32_t* token, int wanted) {
	struct best best = {.token = token, .wanted = wanted};
	float limit = -INFINITY;
	for (int first = 0; first < vocab; first += BLOCK) {
		const int n = vocab - first < BLOCK ? vocab - first : BLOCK;
		if (!any_over(score + first, n, limit))
			continue;
		for (int v = first; v < first + n; v++)
			if (score[v] > limit) {
				take_best(&best, score[v], v);
				limit = best.n == wanted ? best.score[wanted - 1] : -INFINITY;
			}
	}
	return best.n;
}

/* Computes noise only where it can matter. Noise is below NOISE_MOST, and the `wanted` best scores without
 * noise bound the result from below. */
int best_with_noise(const float* processed, int vocab, const struct sampler* s, uint64_t position,
                    int32_t* token, int wanted) {
	struct best best = {.token = token, .wanted = wanted};
	float noise[BLOCK], reached = INFINITY, limit = -INFINITY;
	const int n_first = best_of(processed, vocab, token, wanted);
	for (int i = 0; i < n_first; i++)
		reached = fminf(reached, processed[token[i]] +
		                             gumbel_noise(s->seed, s->sequence, position, (uint32_t)token[i]));
	reached = n_first < wanted ? -INFINITY : reached - NOISE_MOST;
	for (int first = 0; first < vocab; first += BLOCK) {
		const int n = vocab - first < BLOCK ? vocab - first : BLOCK;
		if (!any_over(processed + first, n, reached))
			continue;
		noise_block(noise, s->seed, s->sequence, (uint32_t)position, (uint32_t)first / 4);
		for (int i = 0; i < n; i++) {
			const float score = processed[first + i] + noise[i];
			if (!(score > limit))
				continue;
			take_best(&best, score, first + i);
			limit = best.n == wanted ? best.score[wanted - 1] : -INFINITY;
		}
	}
	return best.n;
}

static int32_t first_equal(const float* logits, int vocab, float max) {
	for (int v = 0; v < vocab; v++)
		if (logits[v] == max)
			return v;
	return 0;
}

void result_from_softmax(struct result* out, uint8_t want, const float* logits, int vocab, float max,
                         float sum, const struct sampler* sampler, const struct penalised_row* penalised,
                         const uint64_t* allowed, uint64_t position, float* scratch) {
	if (want & WANT_LOG_SUM_EXP)
		out->log_sum_exp = max + noise_log(sum);
	if (!(want & (WANT_TOKEN | WANT_TOP)))
		return;
	const bool changed = penalised || allowed;
	const float* score = sampler || changed ? scratch : logits;
	float best = penalised ? penalise_row(scratch, logits, vocab, penalised) : max;
	if (allowed)
		best = only_allowed(scratch, penalised ? scratch : logits, vocab, allowed);
	if (allowed && penalised && !(best > -INFINITY)) { /* all that is allowed would repeat a run */
		penalise_row(scratch, logits, vocab, penalised);
		best = only_allowed(scratch, scratch, vocab, allowed);
	}
	if (sampler) {
		scale_logits(scratch, changed ? scratch : logits, vocab, best, sampler->temperature);
		filter_tokens(scratch, scratch + vocab, vocab, sampler);
	} else if (!changed && !(want & WANT_TOP)) {
		out->token = first_equal(logits, vocab, max);
		return;
	}
	const bool top = want & WANT_TOP;
	const int wanted = !top || out->top < 1 ? 1 : out->top > MAX_TOP ? MAX_TOP : out->top;
	int32_t* token = top ? out->top_token : &out->token;
	const int given = sampler ? best_with_noise(score, vocab, sampler, position, token, wanted)
	                          : best_of(score, vocab, token, wanted);
	if (!top)
		return;
	out->top = given;
	out->token = out->top_token[0];
	out->max_probability = 1.0f / sum;
	for (int i = 0; i < out->top; i++)
		out->top_probability[i] = noise_exp(logits[out->top_token[i]] - max) / sum;
}

bool result_from_logits(struct result* out, uint8_t want, const float* logits, int vocab,
                        const struct sampler* sampler, uint64_t position, float* scratch) {
	float max = logits[0];
	for (int v = 0; v < vocab; v++) {
		if (!isfinite(logits[v]))
			return false;
		max = logits[v] > max ? logits[v] : max;
	}
	double sum = 0;
	for (int v = 0; v < vocab; v++)
		sum += (double)noise_exp(logits[v] - max);
	result_from_softmax(out, want, logits, vocab, max, (float)sum, sampler, NULL, NULL, position, scratch);
	return true;
}
