/* The plain kernels, with which every fast one is compared. Read these to know what is computed. */
#include "kernels/cpu/kernels.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/key_layout.h"
#include "kernels/cpu/matmul.h"
#include "kernels/draft_weights.h"
#include "kernels/dtype_blocks.h"

/* ---- rounding to the cache's type ----------------------------------------------------------- */

static void store(enum dtype type, void* out, const float* x, int n) {
	if (type == DTYPE_F32) {
		memcpy(out, x, (size_t)n * sizeof *x);
		return;
	}
	if (type == DTYPE_Q8_0) {
		quantize_row(type, out, x, n);
		return;
	}
	uint16_t* half = out;
	for (int i = 0; i < n; i++)
		half[i] = half_from_float(x[i]);
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { MAX_HEAD_DIM = 1024 };

static int slot_of(const struct attention_row* a, int position) {
	return position < a->base ? position : a->ancestor[position - a->base];
}

/* The value, or the key, at a logical position, widened. */
static void widen_value(const struct attention_row* a, int position, float* out) {
	const int slot = slot_of(a, position);
	const unsigned char* page = a->page[slot / PAGE_SLOTS] + a->value;
	dtype_to_float(a->type, page + (size_t)(slot % PAGE_SLOTS) * a->slot_bytes, out, a->head_dim);
}
static void widen_key(const struct attention_row* a, int position, float* out) {
	unsigned char row[MAX_HEAD_DIM * sizeof(float)];
	const int slot = slot_of(a, position);
	if (a->key == a->value) {
		widen_value(a, position, out);
		return;
	}
	key_get(a->type, a->page[slot / PAGE_SLOTS] + a->key, slot % PAGE_SLOTS, row, a->head_dim);
	dtype_to_float(a->type, row, out, a->head_dim);
}

/* x = e^(x - max), returns their sum and the largest. */
static float exponentials(float* x, int n, float* most) {
	float sum = 0;
	*most = -FLT_MAX;
	for (int i = 0; i < n; i++)
		*most = x[i] > *most ? x[i] : *most;
	for (int i = 0; i < n; i++)
		sum += x[i] = expf(x[i] - *most);
	return sum;
}

/* The sums of one row's queries over positions [from, end). */
static void attend_row(struct attention_sums out, const float* q, const struct attention_row* a, int from,
                       int end, float* scores) {
	float row[MAX_HEAD_DIM];
	for (int p = from; p < end; p++) {
		widen_key(a, p, row);
		for (int g = 0; g < a->group; g++) {
			float dot = 0;
			for (int j = 0; j < a->head_dim; j++)
				dot += q[g * a->head_dim + j] * row[j];
			dot *= a->scale;
			scores[g * CHUNK_SCORES + p - from] = a->softcap > 0 ? a->softcap * tanhf(dot / a->softcap) : dot;
		}
	}
	for (int g = 0; g < a->group; g++)
		out.total[g] = exponentials(scores + g * CHUNK_SCORES, end - from, out.most + g);
	memset(out.mixed, 0, (size_t)(a->group * a->head_dim) * sizeof *out.mixed);
	for (int p = from; p < end; p++) {
		widen_value(a, p, row);
		for (int g = 0; g < a->group; g++)
			for (int j = 0; j < a->head_dim; j++)
				out.mixed[g * a->head_dim + j] += scores[g * CHUNK_SCORES + p - from] * row[j];
	}
	if (!a->mass)
		return;
	memset(out.mass, 0, (size_t)(a->group * CHUNK_PAGES) * sizeof *out.mass);
	for (int g = 0; g < a->group; g++)
		for (int p = from; p < end; p++)
			out.mass[g * CHUNK_PAGES + p % ATTENTION_CHUNK / LIST_POSITIONS] +=
			    scores[g * CHUNK_SCORES + p - from];
}

static void attention(struct attention_sums out, const float* q, size_t row_stride,
                      const struct attention_bundle* bundle, int chunk, float* scores) {
	const struct attention_row* a = bundle->row;
	const int first = chunk * ATTENTION_CHUNK, last = first + ATTENTION_CHUNK;
	for (int i = 0; i < bundle->n; i++) {
		const int at = i * a->group, end = a[i].base + a[i].n_ancestors;
		const struct attention_sums sums = {.most = out.most + at,
		                                    .total = out.total + at,
		                                    .mixed = out.mixed + at * a->head_dim,
		                                    .mass = out.mass + at * CHUNK_PAGES};
		assert(a->head_dim <= MAX_HEAD_DIM);
		attend_row(sums, q + (size_t)i * row_stride, a + i, a[i].from > first ? a[i].from : first,
		           end < last ? end : last, scores);
	}
}

static void attention_join(struct attention_sums to, struct attention_sums chunk, int queries, int head_dim) {
	for (int i = 0; i < queries; i++) {
		const float most = fmaxf(to.most[i], chunk.most[i]);
		const float factor = expf(to.most[i] - most), chunk_factor = expf(chunk.most[i] - most);
		to.most[i] = most;
		to.total[i] = to.total[i] * factor + chunk.total[i] * chunk_factor;
		for (int j = i * head_dim; j < (i + 1) * head_dim; j++)
			to.mixed[j] = to.mixed[j] * factor + chunk.mixed[j] * chunk_factor;
	}
}

/* ---- recurrence ----------------------------------------------------------------------------- */

static void delta_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                       int values) {
	for (int j = 0; j < values; j++) {
		float held = 0, given = 0;
		for (int i = 0; i < keys; i++)
			held += row->k[i] * from[i * values + j];
		const float delta = row->beta * (row->v[j] - row->decay * held);
		for (int i = 0; i < keys; i++) {
			const float s = row->decay * from[i * values + j] + row->k[i] * delta;
			to[i * values + j] = s;
			given += row->q[i] * s;
		}
		if (out)
			out[j] = given;
	}
}

static void scan_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                      int values) {
	for (int j = 0; j < values; j++) {
		float given = 0;
		for (int i = 0; i < keys; i++) {
			const float s = row->decay * from[i * values + j] + row->k[i] * (row->beta * row->v[j]);
			to[i * values + j] = s;
			given += row->q[i] * s;
		}
		if (out)
			out[j] = given;
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void rms_norm(float* out, const float* x, const float* weight, float plus, float epsilon, int n) {
	float squares = 0;
	for (int i = 0; i < n; i++)
		squares += x[i] * x[i];
	const float scale = 1.0f / sqrtf(squares / (float)n + epsilon);
	for (int i = 0; i < n; i++)
		out[i] = x[i] * scale * (weight[i] + plus);
}

static float silu(float x) { return x / (1.0f + expf(-x)); }

/* Hendrycks and Gimpel 2016, the tanh form */
static float gelu_tanh(float x) {
	const float root = 0.7978845608f; /* sqrt(2/pi) */
	return 0.5f * x * (1.0f + tanhf(root * (x + 0.044715f * x * x * x)));
}

static float swiglu_clamped(float gate, float up) {
	const float g = fminf(gate, 7.0f), u = fminf(fmaxf(up, -7.0f), 7.0f);
	return g / (1.0f + expf(-1.702f * g)) * (u + 1.0f);
}

/* The exact form: x·Φ(x). */
static float gelu(float x) { return 0.5f * x * erfcf(-0.7071067812f * x); }

static float relu(float x) { return x > 0 ? x : 0; }

float reference_activation(enum activation activation, float x) {
	switch (activation) {
	case ACTIVATION_GELU_TANH:
		return gelu_tanh(x);
	case ACTIVATION_GELU:
		return gelu(x);
	case ACTIVATION_QUICK_GELU:
		return x / (1.0f + expf(-1.702f * x));
	case ACTIVATION_RELU:
		return relu(x);
	case ACTIVATION_RELU2:
		return relu(x) * relu(x);
	case ACTIVATION_SILU:
	case ACTIVATION_SWIGLU_CLAMPED:
	case ACTIVATION_XIELU:
		break;
	}
	return silu(x);
}

static void gate(float* values, const float* up, enum activation activation, int n) {
	for (int i = 0; activation == ACTIVATION_SWIGLU_CLAMPED && i < n; i++)
		values[i] = swiglu_clamped(values[i], up[i]);
	for (int i = 0; activation != ACTIVATION_SWIGLU_CLAMPED && i < n; i++)
		values[i] = reference_activation(activation, values[i]) * up[i];
}

static void join(float* x, const float* y, int n) {
	for (int i = 0; i < n; i++)
		x[i] += y[i];
}

static bool sum_exp(const float* x, int n, float* max, float* sum) {
	*max = x[0];
	*sum = 0;
	for (int i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			return false;
		*max = x[i] > *max ? x[i] : *max;
	}
	for (int i = 0; i < n; i++)
		*sum += expf(x[i] - *max);
	return true;
}

static void softcap(float* x, float cap, int n) {
	for (int i = 0; i < n; i++)
		x[i] = cap * tanhf(x[i] / cap);
}

static uint64_t read_memory(const void* memory, size_t bytes) {
	const uint64_t* words = memory;
	uint64_t fold[8] = {0};
	for (size_t i = 0; i < bytes / 64; i++)
		for (int j = 0; j < 8; j++)
			fold[j] ^= words[i * 8 + (size_t)j];
	return fold[0] ^ fold[1] ^ fold[2] ^ fold[3] ^ fold[4] ^ fold[5] ^ fold[6] ^ fold[7];
}

const struct cpu_kernels cpu_reference =
    CPU_KERNELS("reference", reference_prepare, reference_matmul, NULL, reference_column_threshold,
                reference_column_keep, reference_column_product);
