#include "kernels/rope.h"

#include <math.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846;

/* base^(2i/dim), RoFormer (Su et al. 2021) section 3.2.2 */
static float wavelength(double base, int i, int dim) {
	return (float)pow(base, (double)((float)(2 * i) / (float)dim));
}

/* Llama 3.1: long waves are slowed down by the factor, short ones kept, a ramp between. */
static float llama3(const struct rope* r, float frequency) {
	const double context = r->original_context, low = r->low_frequency_factor,
	             high = r->high_frequency_factor;
	const double wave = 2 * pi / (double)frequency;
	if (wave > context / low)
		return frequency / r->factor;
	if (wave < context / high)
		return frequency;
	const double smooth = (context / wave - low) / (high - low);
	return (float)((1 - smooth) * (double)frequency / (double)r->factor + smooth * (double)frequency);
}

/* YaRN (Peng et al. 2023) equations 18 to 23: dimensions that rotate more than beta_fast times within the
 * original context are kept, those that rotate less than beta_slow times are interpolated, with a ramp
 * between. */
static double yarn_correction(const struct rope* r, double turns) {
	return r->dim * log(r->original_context / (turns * 2 * pi)) / (2 * log((double)r->theta));
}

static float yarn(const struct rope* r, int i) {
	const double first = yarn_correction(r, r->beta_fast), last = yarn_correction(r, r->beta_slow);
	const double low = fmax(r->whole_turns ? floor(first) : first, 0);
	double high = fmin(r->whole_turns ? ceil(last) : last, r->dim - 1);
	if (low == high)
		high += 0.001;
	const double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
	const double wave = (double)wavelength(r->theta, i, r->dim);
	return (float)(1 / ((double)r->factor * wave) * ramp + 1 / wave * (1 - ramp));
}

static float usual_frequency(const struct rope* r, int i) {
	const float plain = 1.0f / wavelength(r->theta, i, r->dim);
	float frequency = plain;
	switch (r->scaling) {
	case ROPE_LINEAR:
		frequency = plain / r->factor;
		break;
	case ROPE_LLAMA3:
		frequency = llama3(r, plain);
		break;
	case ROPE_YARN:
		frequency = yarn(r, i);
		break;
	case ROPE_NONE:
	case ROPE_DYNAMIC:
	case ROPE_LONGROPE:
		break;
	}
	return r->short_factor ? frequency / r->short_factor[i] : frequency;
}

bool rope_open(struct rope_frequencies* f, const struct rope* r, struct error* error) {
	f->rope = r;
	f->pairs = r->dim / 2;
	const size_t count = f->pairs > 0 ? (size_t)f->pairs : 1;
	f->usual = malloc(2 * count * sizeof(float));
	if (!f->usual)
		return error_set(error, "out of memory for the rotary frequencies");
	f->beyond = f->usual + count;
	for (int i = 0; i < f->pairs; i++) {
		f->usual[i] = usual_frequency(r, i);
		f->beyond[i] = r->scaling == ROPE_LONGROPE && r->long_factor
		                   ? 1.0f / (r->long_factor[i] * wavelength(r->theta, i, r->dim))
		                   : f->usual[i];
	}
	return true;
}

void rope_close(struct rope_frequencies* f) {
	free(f->usual);
	f->usual = f->beyond = NULL;
}

/* NTK-aware scaling by length (transformers' "dynamic"): the base grows so that the longest wave still spans
 * the sequence. */
static double dynamic_base(const struct rope* r, int length) {
	const double stretch = (double)r->factor * length / r->original_context - ((double)r->factor - 1);
	return (double)r->theta * pow(stretch, (double)r->dim / (r->dim - 2));
}

void rope_row(const struct rope_frequencies* f, int position, int length, float* cosine, float* sine) {
	const struct rope* r = f->rope;
	const bool over = r->original_context > 0 && length > r->original_context;
	const bool grown = r->scaling == ROPE_DYNAMIC && over && r->dim > 2;
	const double base = grown ? dynamic_base(r, length) : 0;
	const float* frequency = r->scaling == ROPE_LONGROPE && over ? f->beyond : f->usual;
	const float factor = over && r->beyond_factor > 0 ? r->beyond_factor : r->attention_factor;
	for (int i = 0; i < f->pairs; i++) {
		const float angle = (float)position * (grown ? 1.0f / wavelength(base, i, r->dim) : frequency[i]);
		cosine[i] = cosf(angle) * factor;
		sine[i] = sinf(angle) * factor;
	}
}

void rope_rotate(float* head, const float* cosine, const float* sine, int pairs, bool interleaved) {
	const int step = interleaved ? 2 : 1;
	const int apart = interleaved ? 1 : pairs;
	for (int i = 0; i < pairs; i++) {
		const float a = head[i * step], b = head[i * step + apart];
		head[i * step] = a * cosine[i] - b * sine[i];
		head[i * step + apart] = b * cosine[i] + a * sine[i];
	}
}
