/* See sample.h. A filter is a cut in the order of processed logits; cuts are found by counting, or
 * weighing, the logits' leading bits in three rounds, so nothing is ever sorted. */
#include "kernels/sample.h"

#include <math.h>

#include "kernels/noise.h"

float gumbel_noise(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t token) {
	const struct noise_words words = noise_philox(seed, sequence, (uint32_t)position, token / 4);
	return noise_gumbel(words.word[token % 4]);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* Processed logits are at most 0, so their bits without the sign ascend as the probability falls. */
static uint32_t rank_key(float processed) { return noise_bits(processed) & 0x7fffffffu; }

struct cut {
	uint32_t key;
	int ties; /* how many with that very key stay */
};

enum { BUCKETS = 2048 };

/* The last key needed for the weights (NULL: 1 each), summed from the most probable on, to reach the
 * target. */
static struct cut find_cut(const float* processed, const float* weight, int n, double target) {
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
	return (struct cut){prefix, ties < 1 ? 1 : ties < n ? (int)ties : n};
}

static void apply_cut(float* processed, int n, struct cut cut) {
	for (int v = 0; v < n; v++) {
		const uint32_t key = rank_key(processed[v]);
		if (key > cut.key || (key == cut.key && cut.ties-- <= 0))
			processed[v] = -INFINITY;
	}
}

/* processed (vocab): the logits over the temperature, -infinity where a filter leaves one out. */
static void process(float* processed, float* weight, const float* logits, int vocab, float max,
                    const struct sampler* s) {
	for (int v = 0; v < vocab; v++)
		processed[v] = noise_score(logits[v], max, s->temperature, 0);
	if (s->top_k > 0 && s->top_k < vocab)
		apply_cut(processed, vocab, find_cut(processed, NULL, vocab, s->top_k));
	if (s->top_p >= 1 && s->min_p <= 0)
		return;
	double total = 0;
	for (int v = 0; v < vocab; v++) {
		weight[v] = noise_exp(processed[v]);
		total += (double)weight[v];
	}
	if (s->top_p < 1)
		apply_cut(processed, vocab, find_cut(processed, weight, vocab, (double)s->top_p * total));
	for (int v = 0; v < vocab; v++)
		if (weight[v] < s->min_p)
			processed[v] = -INFINITY;
}

/* Adds the noise to what the filters left. */
static void add_noise(float* processed, int vocab, const struct sampler* s, uint64_t position) {
	for (int v = 0; v < vocab; v += 4) {
		const int n = vocab - v < 4 ? vocab - v : 4;
		bool any = false;
		for (int i = 0; i < n; i++)
			any |= processed[v + i] > -INFINITY;
		if (!any)
			continue;
		const struct noise_words words =
		    noise_philox(s->seed, s->sequence, (uint32_t)position, (uint32_t)v / 4);
		for (int i = 0; i < n; i++)
			processed[v + i] += noise_gumbel(words.word[i]);
	}
}

/* ---- results -------------------------------------------------------------------------------- */

/* The best of scores (vocab), best first, ties to the lowest id, those at -infinity left out. */
static int best_of(const float* score, int vocab, int32_t* token, int wanted) {
	float kept[MAX_TOP];
	int n = 0;
	for (int v = 0; v < vocab; v++) {
		if (n == wanted ? !(score[v] > kept[n - 1]) : !(score[v] > -INFINITY))
			continue;
		int at = n < wanted ? n++ : n - 1;
		for (; at > 0 && score[v] > kept[at - 1]; at--) {
			kept[at] = kept[at - 1];
			token[at] = token[at - 1];
		}
		kept[at] = score[v];
		token[at] = v;
	}
	return n;
}

static int32_t first_equal(const float* logits, int vocab, float max) {
	for (int v = 0; v < vocab; v++)
		if (logits[v] == max)
			return v;
	return 0;
}

void result_from_softmax(struct result* out, uint8_t want, const float* logits, int vocab, float max,
                         float sum, const struct sampler* sampler, uint64_t position, float* scratch) {
	if (want & WANT_NORMALISER)
		out->log_normaliser = max + noise_log(sum);
	if (!(want & (WANT_TOKEN | WANT_TOP)))
		return;
	const float* score = logits;
	if (sampler) {
		process(scratch, scratch + vocab, logits, vocab, max, sampler);
		add_noise(scratch, vocab, sampler, position);
		score = scratch;
	} else if (!(want & WANT_TOP)) {
		out->token = first_equal(logits, vocab, max);
		return;
	}
	if (!(want & WANT_TOP)) {
		best_of(score, vocab, &out->token, 1);
		return;
	}
	const int wanted = out->top < 1 ? 1 : out->top > MAX_TOP ? MAX_TOP : out->top;
	out->top = best_of(score, vocab, out->top_token, wanted);
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
	result_from_softmax(out, want, logits, vocab, max, (float)sum, sampler, position, scratch);
	return true;
}
