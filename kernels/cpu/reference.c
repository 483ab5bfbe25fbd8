/* The plain kernels, with which every fast one is compared. Read these to know what is computed. */
#include "kernels/cpu/kernels.h"

#include <assert.h>
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

/* A sink takes part as one score more, whose share nobody gets. */
static void softmax(float* x, int n, const float* sink) {
	float max = sink ? fmaxf(*sink, x[0]) : x[0], sum = 0;
	for (int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	if (sink)
		sum = expf(*sink - max);
	for (int i = 0; i < n; i++) {
		x[i] = expf(x[i] - max);
		sum += x[i];
	}
	for (int i = 0; i < n; i++)
		x[i] /= sum;
}

/* The weights of n positions join their pages' sums. */
static void add_mass(const float* weight, int n, float* mass) {
	for (int p = 0; p < n; p++)
		mass[p / LIST_POSITIONS] += weight[p];
}

static void attend_row(float* out, const float* q, const struct attention_row* a, float* scores) {
	const int end = a->base + a->n_ancestors, n = end - a->from;
	float row[MAX_HEAD_DIM];
	assert(a->head_dim <= MAX_HEAD_DIM && n > 0);
	for (int p = a->from; p < end; p++) {
		widen_key(a, p, row);
		for (int g = 0; g < a->group; g++) {
			float dot = 0;
			for (int j = 0; j < a->head_dim; j++)
				dot += q[g * a->head_dim + j] * row[j];
			dot *= a->scale;
			scores[(size_t)g * (size_t)n + (size_t)(p - a->from)] =
			    a->softcap > 0 ? a->softcap * tanhf(dot / a->softcap) : dot;
		}
	}
	for (int g = 0; g < a->group; g++)
		softmax(scores + (size_t)g * (size_t)n, n, a->sinks ? a->sinks + g : NULL);
	if (a->mass)
		memset(a->mass, 0, (size_t)((n + LIST_POSITIONS - 1) / LIST_POSITIONS) * sizeof *a->mass);
	for (int g = 0; a->mass && g < a->group; g++)
		add_mass(scores + (size_t)g * (size_t)n, n, a->mass);
	memset(out, 0, (size_t)(a->group * a->head_dim) * sizeof *out);
	for (int p = a->from; p < end; p++) {
		widen_value(a, p, row);
		for (int g = 0; g < a->group; g++) {
			const float weight = scores[(size_t)g * (size_t)n + (size_t)(p - a->from)];
			for (int j = 0; j < a->head_dim; j++)
				out[g * a->head_dim + j] += weight * row[j];
		}
	}
}

static void attention(float* out, const float* q, size_t row_stride, const struct attention_row* a, int n,
                      float* scores, const struct attention_share* share) {
	if (share && (share->step != ATTENTION_MIX || share->part > 0)) /* the last step does all of it */
		return;
	for (int i = 0; i < n; i++)
		attend_row(out + (size_t)i * row_stride, q + (size_t)i * row_stride, a + i, scores);
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
