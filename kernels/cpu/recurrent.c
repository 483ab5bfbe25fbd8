/* See recurrent.h. */
#define _DEFAULT_SOURCE
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct model_shape* shape_of(const struct cpu_cache* c) {
	return &c->paged.head.backend->weights->shape;
}

static size_t state_floats(const struct recurrence* r) {
	return (size_t)recurrence_values(r) * (size_t)r->key_dim;
}
static size_t head_floats(const struct recurrence* r) { return (size_t)r->key_dim * (size_t)r->value_dim; }
static size_t history_floats(const struct recurrence* r) {
	return (size_t)(r->kernel - 1) * (size_t)recurrence_channels(r);
}
/* A pending row's columns, keys, values, beta and decay. */
static size_t pending_floats(const struct recurrence* r) {
	return (size_t)recurrence_channels(r) + (size_t)recurrence_keys(r) + (size_t)recurrence_values(r) +
	       2 * (size_t)r->value_heads;
}

/* ---- opening ------------------------------------------------------------------------------- */

size_t recurrent_width(const struct model_shape* s) {
	const size_t channels = (size_t)recurrence_channels(&s->recurrence);
	const size_t queries = s->attention_gated ? 2 * (size_t)s->heads * (size_t)s->head_dim : 0;
	const size_t made = s->recurrence.key_dim > 0 ? channels : 3 * channels;
	return made > queries ? made : queries;
}

/* The factor of a channel's input, which its weights can take in. */
static float channel_scale(const struct recurrence* r, int channel) {
	return recurrence_scale(r, channel >= recurrence_query_at(r) ? SPACE_QUERIES
	                           : channel >= recurrence_key_at(r) ? SPACE_KEYS
	                                                             : SPACE_VALUES);
}

/* Reorders the weights from channel by channel to tap by tap, so that a vector holds many channels. */
static void fill_block(struct recurrent_work* w, const struct recurrence* r,
                       const struct block_weights* vectors, int at) {
	const size_t channels = (size_t)recurrence_channels(r), taps = (size_t)r->kernel;
	float* to = w->convolution + (size_t)at * taps * channels;
	for (size_t c = 0; c < channels; c++)
		for (size_t t = 0; t < taps; t++)
			to[t * channels + c] = floats(&vectors->convolution)[c * taps + t] * channel_scale(r, (int)c);
	for (int h = 0; h < r->value_heads && r->key_dim > 0; h++) {
		const float rate = floats(&vectors->decay_rate)[h];
		w->rate[at * r->value_heads + h] = r->log_rates ? -expf(rate) : rate;
	}
}

bool recurrent_open(struct cpu_backend* b, struct error* error) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct recurrence* r = &s->recurrence;
	struct recurrent_work* w = &b->recurrent;
	for (int i = 0; i < s->n_blocks; i++)
		if (block_set_has(&s->recurrent, i))
			b->place[i] = w->blocks++;
	if (w->blocks == 0)
		return true;
	const size_t channels = (size_t)recurrence_channels(r), blocks = (size_t)w->blocks;
	w->convolution = malloc(blocks * (size_t)r->kernel * channels * sizeof(float));
	w->rate = malloc(blocks * (size_t)r->value_heads * sizeof(float));
	w->ones = malloc(channels * sizeof(float));
	w->head_state = calloc((size_t)b->threads * (1 + MAX_ROWS) * head_floats(r) + 1, sizeof(float));
	if (!w->convolution || !w->rate || !w->ones || !w->head_state)
		return error_set(error, "out of memory for the model's recurrent blocks");
	for (size_t i = 0; i < channels; i++)
		w->ones[i] = 1;
	for (int i = 0; i < s->n_blocks; i++)
		if (block_set_has(&s->recurrent, i))
			fill_block(w, r, &b->block[i], b->place[i]);
	return true;
}

void recurrent_close(struct cpu_backend* b) {
	free(b->recurrent.convolution);
	free(b->recurrent.rate);
	free(b->recurrent.ones);
	free(b->recurrent.head_state);
}

bool recurrent_open_cache(struct cpu_cache* c) {
	const struct cpu_backend* b = cpu_of(c->paged.head.backend);
	const struct recurrence* r = &shape_of(c)->recurrence;
	struct recurrent_states* s = &c->recurrent;
	const size_t blocks = (size_t)b->recurrent.blocks;
	for (int i = 0; i < MAX_BLOCKS; i++)
		s->tip[i] = -1;
	if (blocks == 0)
		return true;
	s->state = calloc(2 * blocks * state_floats(r) + 1, sizeof(float));
	s->column = calloc(blocks * history_floats(r) + 1, sizeof(float));
	s->pending = calloc(blocks * MAX_ROWS * pending_floats(r), sizeof(float));
	return s->state && s->column && s->pending;
}

void recurrent_close_cache(struct cpu_cache* c) {
	free(c->recurrent.state);
	free(c->recurrent.column);
	free(c->recurrent.pending);
}

/* ---- where things are ---------------------------------------------------------------------- */

/* A head's state in the recurrent block at a place: of the committed tokens, or of the tip. */
static float* state_at(const struct cpu_cache* c, int place, bool tip, int head) {
	const struct recurrence* r = &shape_of(c)->recurrence;
	const struct recurrent_states* s = &c->recurrent;
	const size_t blocks = (size_t)cpu_of(c->paged.head.backend)->recurrent.blocks;
	const size_t side = (size_t)(tip ? !s->side[place] : s->side[place]);
	return s->state + (side * blocks + (size_t)place) * state_floats(r) + (size_t)head * head_floats(r);
}

static float* pending_at(const struct cpu_cache* c, int place, int row) {
	const size_t floats_each = pending_floats(&shape_of(c)->recurrence);
	return c->recurrent.pending + ((size_t)place * MAX_ROWS + (size_t)row) * floats_each;
}

/* The m-th of the kernel - 1 last committed columns. */
static float* history_at(float* column, const struct recurrence* r, int place, int m) {
	return column + (size_t)place * history_floats(r) + (size_t)m * (size_t)recurrence_channels(r);
}

/* ---- the slice ------------------------------------------------------------------------------ */

static void open_run(struct cpu_backend* b, int first, int end, int* saved) {
	struct recurrent_work* w = &b->recurrent;
	int16_t at[MAX_ROWS];
	int16_t last_child[MAX_ROWS];
	memset(at, -1, sizeof at);
	for (int i = first; i < end; i++) {
		const struct slice_row* row = &b->row[i];
		const int parent = row->cache->paged.row[row->index].parent;
		at[row->index] = (int16_t)i;
		last_child[i] = -1;
		w->end[i] = (int16_t)end;
		w->above[i] = parent < 0 ? -1 : at[parent];
		if (w->above[i] >= 0)
			last_child[w->above[i]] = (int16_t)i;
	}
	for (int i = first; i < end; i++)
		w->saved[i] = (int16_t)(last_child[i] > i + 1 ? (*saved)++ : -1);
}

void recurrent_slice(struct cpu_backend* b, int n) {
	struct recurrent_work* w = &b->recurrent;
	int saved = 1; /* the first place is where a run goes on */
	w->runs = 0;
	for (int first = 0, end = 0; first < n; first = end) {
		while (end < n && b->row[end].cache == b->row[first].cache && b->row[end].base == b->row[first].base)
			end++;
		w->run[w->runs++] = (int16_t)first;
		open_run(b, first, end, &saved);
	}
}

/* ---- columns to queries, keys and values ----------------------------------------------------- */

struct recurrent_job {
	struct cpu_backend* b;
	int block, place;
	bool prefill;
};

/* The input of the convolution for a row of the slice. */
static const float* slice_column(const struct cpu_backend* b, int i) {
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const float* columns = r->key_dim > 0 ? b->wide : b->recurrent.mixed;
	return columns + (size_t)i * (size_t)recurrence_channels(r);
}

/* The columns of the row and of the tokens before it, the oldest first. */
static void find_columns(const struct recurrent_job* job, int i, const float* column[MOST_TAPS]) {
	const struct cpu_backend* b = job->b;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const struct cpu_cache* c = b->row[i].cache;
	int at = i, row = b->row[i].index, t = r->kernel - 1;
	for (; t >= 0 && row >= 0; t--) {
		column[t] = at >= 0 ? slice_column(b, at) : pending_at(c, job->place, row);
		at = at >= 0 ? b->recurrent.above[at] : -1;
		row = c->paged.row[row].parent;
	}
	for (int m = r->kernel - 2; t >= 0; t--, m--)
		column[t] = history_at(c->recurrent.column, r, job->place, m);
}

/* out (n) = the convolution of channels [from, from + n), and its bias if it has one. */
static void convolve(const struct recurrent_job* job, const float* const column[MOST_TAPS], float* out,
                     int from, int n) {
	const struct cpu_backend* b = job->b;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const size_t channels = (size_t)recurrence_channels(r);
	const float* weight = b->recurrent.convolution + (size_t)job->place * (size_t)r->kernel * channels + from;
	const float* bias = floats(&b->block[job->block].convolution_bias);
	for (int j = 0; j < n; j++)
		out[j] = bias ? bias[from + j] : 0;
	for (int t = 0; t < r->kernel; t++, weight += channels)
		for (int j = 0; j < n; j++)
			out[j] += weight[j] * column[t][from + j];
}

/* True when a later slice or pass, or a commit, may need the row's column. */
static bool keeps_column(const struct recurrent_job* job, int i) {
	const struct cpu_backend* b = job->b;
	return !job->prefill || i >= b->recurrent.end[i] - b->head.weights->shape.recurrence.kernel + 1;
}

/* Scales x (n) to this length. */
static void make_length(float* x, float length, int n) {
	float squares = 0;
	for (int j = 0; j < n; j++)
		squares += x[j] * x[j];
	const float scale = length / sqrtf(squares + 1e-6f);
	for (int j = 0; j < n; j++)
		x[j] *= scale;
}

/* The channels that belong to a key head in a row: its query, its key, and a share of the values. */
static void mix_part(void* user, int number, int thread) {
	(void)thread;
	const struct recurrent_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct recurrent_work* w = &b->recurrent;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const int i = number / r->key_heads, g = number % r->key_heads;
	const int share = recurrence_values(r) / r->key_heads;
	const int from[] = {recurrence_query_at(r) + g * r->key_dim, recurrence_key_at(r) + g * r->key_dim,
	                    recurrence_value_at(r) + g * share};
	const int width[] = {r->key_dim, r->key_dim, share};
	const size_t channels = (size_t)recurrence_channels(r);
	const float* column[MOST_TAPS];
	float* mixed = w->mixed + (size_t)i * channels;
	find_columns(job, i, column);
	for (int k = 0; k < 3; k++) {
		convolve(job, column, mixed + from[k], from[k], width[k]);
		b->kernels->gate(mixed + from[k], w->ones, ACTIVATION_SILU, width[k]);
	}
	if (!r->state_space) {
		make_length(mixed + from[0], 1 / sqrtf((float)r->key_dim), r->key_dim);
		make_length(mixed + from[1], 1, r->key_dim);
	}
	float* pending = pending_at(b->row[i].cache, job->place, b->row[i].index);
	for (int k = 0; k < 3 && keeps_column(job, i); k++)
		memcpy(pending + from[k], slice_column(b, i) + from[k], (size_t)width[k] * sizeof(float));
	if (job->prefill)
		return;
	float* const kept = pending + channels; /* keys, then values */
	memcpy(kept + g * r->key_dim, mixed + from[1], (size_t)width[1] * sizeof(float));
	memcpy(kept + recurrence_keys(r) + g * share, mixed + from[2], (size_t)width[2] * sizeof(float));
}

/* Rows of a short convolution: b·x, the column, goes to `mixed`; then c times its convolution. */
static void gate_columns(const struct recurrent_job* job, int n) {
	const struct cpu_backend* b = job->b;
	const struct recurrent_work* w = &b->recurrent;
	const int width = recurrence_channels(&b->head.weights->shape.recurrence);
	for (int i = 0; i < n; i++) {
		const float* in = b->wide + (size_t)i * 3 * (size_t)width;
		float* column = w->mixed + (size_t)i * (size_t)width;
		for (int j = 0; j < width; j++)
			column[j] = in[j] * in[2 * width + j];
		if (keeps_column(job, i))
			memcpy(pending_at(b->row[i].cache, job->place, b->row[i].index), column,
			       (size_t)width * sizeof(float));
	}
}

static void convolve_row(void* user, int i, int thread) {
	(void)thread;
	const struct recurrent_job* job = user;
	const struct cpu_backend* b = job->b;
	const int width = recurrence_channels(&b->head.weights->shape.recurrence);
	const float* column[MOST_TAPS];
	float* out = b->recurrent.gate + (size_t)i * (size_t)width;
	const float* c = b->wide + (size_t)i * 3 * (size_t)width + width;
	find_columns(job, i, column);
	convolve(job, column, out, 0, width);
	for (int j = 0; j < width; j++)
		out[j] *= c[j];
}

/* PyTorch's, which is linear above 20. */
static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* Makes beta and decay of the products. A state space has one product, of which both are made. */
static void compute_beta_decay(const struct recurrent_job* job, int n) {
	const struct cpu_backend* b = job->b;
	const struct recurrent_work* w = &b->recurrent;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const float* bias = floats(&b->block[job->block].decay_bias);
	const float* rate = w->rate + job->place * r->value_heads;
	const size_t both = 2 * (size_t)r->value_heads;
	const float scale = recurrence_scale(r, SPACE_STEPS);
	for (int i = 0; i < n; i++) {
		float *beta = w->beta_decay + (size_t)i * both, *decay = beta + r->value_heads;
		for (int h = 0; h < r->value_heads; h++) {
			const float step = softplus(decay[h] * scale + bias[h]);
			beta[h] = r->state_space ? step : 1 / (1 + expf(-beta[h]));
			decay[h] = expf(rate[h] * step);
		}
		if (!job->prefill)
			memcpy(pending_at(b->row[i].cache, job->place, b->row[i].index) + pending_floats(r) - both, beta,
			       both * sizeof(float));
	}
}

/* ---- through the states ---------------------------------------------------------------------- */

/* Applies a token to a head's state: from, which may be `to`. out (value_dim) or NULL. */
static void step_state(const struct cpu_backend* b, float* to, const float* from, float* out,
                       const struct delta_row* row) {
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	if (r->state_space)
		b->kernels->scan_step(to, from, out, row, r->key_dim, r->value_dim);
	else
		b->kernels->delta_step(to, from, out, row, r->key_dim, r->value_dim);
}

static int key_head(const struct recurrence* r, int head) {
	return r->tiled ? head % r->key_heads : head / (r->value_heads / r->key_heads);
}

/* Applies the step of a pending row that an earlier slice or pass ran. */
static struct delta_row pending_step(const struct cpu_cache* c, int place, int head, int row) {
	const struct recurrence* r = &shape_of(c)->recurrence;
	const float* pending = pending_at(c, place, row);
	const float* key = pending + recurrence_channels(r);
	const float* beta_decay = pending + pending_floats(r) - 2 * r->value_heads;
	key += key_head(r, head) * r->key_dim;
	return (struct delta_row){.q = key, /* nobody asks what it gives */
	                          .k = key,
	                          .v =
	                              pending + recurrence_channels(r) + recurrence_keys(r) + head * r->value_dim,
	                          .beta = beta_decay[head],
	                          .decay = beta_decay[r->value_heads + head]};
}

static struct delta_row slice_step(const struct cpu_backend* b, int i, int head) {
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const struct recurrent_work* w = &b->recurrent;
	const float* mixed = w->mixed + (size_t)i * (size_t)recurrence_channels(r);
	const float* beta_decay = w->beta_decay + (size_t)i * 2 * (size_t)r->value_heads;
	const float* of_head = mixed + key_head(r, head) * r->key_dim;
	return (struct delta_row){.q = of_head + recurrence_query_at(r),
	                          .k = of_head + recurrence_key_at(r),
	                          .v = mixed + recurrence_value_at(r) + head * r->value_dim,
	                          .beta = beta_decay[head],
	                          .decay = beta_decay[r->value_heads + head]};
}

/* The state after a pending row that is neither in the slice nor the tip, or one of the states that it starts
 * from. */
static const float* apply_again(const struct recurrent_job* job, const struct cpu_cache* c, int head, int row,
                                float* to) {
	const int tip = c->recurrent.tip[job->place];
	int chain[MAX_ROWS], n = 0;
	for (; row >= 0 && row != tip; row = c->paged.row[row].parent)
		chain[n++] = row;
	const float* from = state_at(c, job->place, row >= 0, head);
	while (n > 0) {
		const struct delta_row step = pending_step(c, job->place, head, chain[--n]);
		step_state(job->b, to, from, NULL, &step);
		from = to;
	}
	return from;
}

/* Runs rows one after another through one head. The last one's state becomes the tip. */
static void run_head(void* user, int number, int thread) {
	const struct recurrent_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct recurrent_work* w = &b->recurrent;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const int head = number % r->value_heads, first = w->run[number / r->value_heads], end = w->end[first];
	const struct cpu_cache* c = b->row[first].cache;
	float* const own = w->head_state + (size_t)thread * (1 + MAX_ROWS) * head_floats(r);
	const float* last = NULL; /* the state behind the row before */
	for (int i = first; i < end; i++) {
		const int above = w->above[i];
		const float* from = above < 0 ? apply_again(job, c, head, c->paged.row[b->row[i].index].parent, own)
		                    : above == i - 1 ? last
		                                     : own + (size_t)w->saved[above] * head_floats(r);
		float* to = i == end - 1       ? state_at(c, job->place, true, head)
		            : w->saved[i] >= 0 ? own + (size_t)w->saved[i] * head_floats(r)
		                               : own;
		const struct delta_row step = slice_step(b, i, head);
		float* out = w->out + (size_t)i * (size_t)recurrence_values(r) + head * r->value_dim;
		step_state(b, to, from, out, &step);
		last = to;
	}
}

/* Adds skip · v to a state space's output. */
static void add_skipped(const struct recurrent_job* job, int i, float* out) {
	const struct cpu_backend* b = job->b;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const float* v = b->recurrent.mixed + (size_t)i * (size_t)recurrence_channels(r) + recurrence_value_at(r);
	const float* skip = floats(&b->block[job->block].state_skip);
	for (int h = 0; h < r->value_heads; h++)
		for (int j = h * r->value_dim; j < (h + 1) * r->value_dim; j++)
			out[j] += skip[h] * v[j];
}

/* A state space's norm, over the values of each key head. */
static void norm_values(const struct recurrent_job* job, float* values) {
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int heads = s->recurrence.key_heads, width = recurrence_values(&s->recurrence) / heads;
	const float* norm = floats(&b->block[job->block].state_norm);
	for (int g = 0; norm && g < heads; g++)
		b->kernels->rms_norm(values + g * width, values + g * width, norm + g * width, 0, s->norm_epsilon,
		                     width);
}

static void end_space_row(void* user, int i, int thread) {
	(void)thread;
	const struct recurrent_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	const int width = recurrence_values(r);
	float *out = b->recurrent.out + (size_t)i * (size_t)width,
	      *gate = b->recurrent.gate + (size_t)i * (size_t)width;
	add_skipped(job, i, out);
	const float scale = recurrence_scale(r, SPACE_GATE);
	for (int j = 0; scale != 1.0f && j < width; j++)
		gate[j] *= scale;
	if (!r->gate_first)
		norm_values(job, out);
	b->kernels->gate(gate, out, ACTIVATION_SILU, width);
	if (r->gate_first)
		norm_values(job, gate);
}

/* out under its norm, times SiLU of the gate. */
static void end_row(void* user, int i, int thread) {
	(void)thread;
	const struct recurrent_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct recurrent_work* w = &b->recurrent;
	const struct model_shape* s = &b->head.weights->shape;
	const struct recurrence* r = &s->recurrence;
	const int width = recurrence_values(r);
	float *out = w->out + (size_t)i * (size_t)width, *gate = w->gate + (size_t)i * (size_t)width;
	const float* norm = floats(&b->block[job->block].state_norm);
	for (int h = 0; h < r->value_heads; h++)
		b->kernels->rms_norm(out + h * r->value_dim, out + h * r->value_dim, norm, 0, s->norm_epsilon,
		                     r->value_dim);
	b->kernels->gate(gate, out, ACTIVATION_SILU, width);
}

void recurrent_rows(struct cpu_backend* b, int block, int n, bool prefill) {
	const struct recurrent_work* w = &b->recurrent;
	const struct recurrence* r = &b->head.weights->shape.recurrence;
	struct recurrent_job job = {.b = b, .block = block, .place = b->place[block], .prefill = prefill};
	if (r->key_dim == 0) {
		gate_columns(&job, n);
		spread(b, n, (double)n * recurrence_channels(r) * r->kernel * 8, convolve_row, &job);
		return;
	}
	compute_beta_decay(&job, n);
	spread(b, n * r->key_heads, (double)n * recurrence_channels(r) * r->kernel * 8, mix_part, &job);
	spread(b, w->runs * r->value_heads, (double)n * (double)state_floats(r) * sizeof(float), run_head, &job);
	for (int i = 0; i < w->runs; i++) {
		const struct slice_row* last = &b->row[w->end[w->run[i]] - 1];
		last->cache->recurrent.tip[job.place] = (int16_t)last->index;
	}
	spread(b, n, (double)n * recurrence_values(r) * 16, r->state_space ? end_space_row : end_row, &job);
}

/* ---- committed tokens ------------------------------------------------------------------------- */

static void commit_columns(struct cpu_cache* c, int place, const int32_t* path, int n) {
	const struct recurrence* r = &shape_of(c)->recurrence;
	const int held = r->kernel - 1;
	const size_t bytes = (size_t)recurrence_channels(r) * sizeof(float);
	for (int m = 0; m < held; m++) {
		const int j = n - held + m; /* of the path */
		const float* from = j < 0 ? history_at(c->recurrent.column, r, place, m + n)
		                          : pending_at(c, place, path ? path[j] : j);
		memcpy(history_at(c->recurrent.column, r, place, m), from, bytes);
	}
}

struct commit_job {
	struct cpu_cache* c;
	const int32_t* path;
	int n, place;
};

static void commit_head(void* user, int head, int thread) {
	(void)thread;
	const struct commit_job* job = user;
	const struct cpu_cache* c = job->c;
	float* state = state_at(c, job->place, false, head);
	for (int j = 0; j < job->n; j++) {
		const struct delta_row step = pending_step(c, job->place, head, job->path ? job->path[j] : j);
		step_state(cpu_of(c->paged.head.backend), state, state, NULL, &step);
	}
}

void recurrent_commit(struct cpu_cache* c, const int32_t* path, int n) {
	struct cpu_backend* b = cpu_of(c->paged.head.backend);
	const struct recurrence* r = &shape_of(c)->recurrence;
	struct recurrent_states* s = &c->recurrent;
	if (n == 0 || b->recurrent.blocks == 0)
		return;
	const int last = path ? path[n - 1] : n - 1;
	pool_begin(b->pool);
	for (int place = 0; place < b->recurrent.blocks; place++) {
		struct commit_job job = {.c = c, .path = path, .n = n, .place = place};
		if (s->tip[place] == last)
			s->side[place] ^= 1;
		else if (r->key_dim > 0)
			spread(b, r->value_heads, (double)n * (double)state_floats(r) * sizeof(float), commit_head, &job);
		commit_columns(c, place, path, n);
	}
	pool_end(b->pool);
}

/* Returns memory that many pending rows took, except what a tree needs. */
static void give_back_rows(struct cpu_cache* c) {
	enum { STAY = 64 };
	const size_t blocks = (size_t)cpu_of(c->paged.head.backend)->recurrent.blocks;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (c->paged.head.pending <= STAY)
		return;
	const uintptr_t from = ((uintptr_t)c->recurrent.pending + page - 1) / page * page;
	const size_t bytes = blocks * MAX_ROWS * pending_floats(&shape_of(c)->recurrence) * sizeof(float);
	const uintptr_t end = ((uintptr_t)c->recurrent.pending + bytes) / page * page;
	if (end > from)
		madvise((void*)from, end - from, MADV_DONTNEED);
}

void recurrent_discard(struct cpu_cache* c) {
	const int blocks = cpu_of(c->paged.head.backend)->recurrent.blocks;
	if (blocks > 0)
		give_back_rows(c);
	for (int i = 0; i < blocks; i++)
		c->recurrent.tip[i] = -1;
}

/* Copies the committed tokens' states and columns to a kept copy. */
static void copy_to_kept(const struct cpu_cache* c, float* kept) {
	const struct recurrence* r = &shape_of(c)->recurrence;
	const size_t blocks = (size_t)cpu_of(c->paged.head.backend)->recurrent.blocks;
	for (int place = 0; place < (int)blocks; place++, kept += state_floats(r))
		memcpy(kept, state_at(c, place, false, 0), state_floats(r) * sizeof(float));
	memcpy(kept, c->recurrent.column, blocks * history_floats(r) * sizeof(float));
}

/* And back. NULL: nothing is committed. */
static void copy_from_kept(struct cpu_cache* c, const float* kept) {
	const struct recurrence* r = &shape_of(c)->recurrence;
	const size_t blocks = (size_t)cpu_of(c->paged.head.backend)->recurrent.blocks;
	const size_t bytes = state_floats(r) * sizeof(float),
	             columns = blocks * history_floats(r) * sizeof(float);
	for (int place = 0; place < (int)blocks; place++) {
		float* state = state_at(c, place, false, 0);
		if (kept)
			memcpy(state, kept + (size_t)place * state_floats(r), bytes);
		else
			memset(state, 0, bytes);
	}
	if (kept)
		memcpy(c->recurrent.column, kept + blocks * state_floats(r), columns);
	else
		memset(c->recurrent.column, 0, columns);
}

int recurrent_next_kept(const struct cache* cache) {
	const struct cpu_cache* c = (const struct cpu_cache*)cache;
	return kept_states_stop(cache->committed, cache->prompt_length, c->recurrent.branch);
}

void recurrent_keep(struct cpu_cache* c) {
	const struct cache* head = &c->paged.head;
	struct cpu_backend* b = cpu_of(head->backend);
	struct page* page = b->recurrent.blocks > 0 ? paged_last_named(&c->paged) : NULL;
	if (page && !page->state &&
	    kept_states_stop(head->committed - 1, head->prompt_length, c->recurrent.branch) == head->committed)
		copy_to_kept(c, kept_states_put(&b->kept, page));
}

int recurrent_go_back(struct cpu_cache* c, int committed) {
	recurrent_discard(c);
	if (cpu_of(c->paged.head.backend)->recurrent.blocks == 0 || committed == c->paged.head.committed)
		return committed;
	int at = least(committed / PAGE_SLOTS, c->paged.named);
	while (at > 0 && !c->paged.page[at - 1]->state)
		at--;
	copy_from_kept(c, at > 0 ? kept_states_get(&cpu_of(c->paged.head.backend)->kept, c->paged.page[at - 1])
	                         : NULL);
	return at * PAGE_SLOTS;
}

void recurrent_take_kept(struct cpu_cache* c) {
	struct page* page = paged_last_named(&c->paged);
	recurrent_discard(c);
	if (page)
		page->state->found++;
	copy_from_kept(c, page ? kept_states_get(&cpu_of(c->paged.head.backend)->kept, page) : NULL);
}

size_t recurrent_state_bytes(const struct cache* cache) {
	return cpu_of(cache->backend)->kept.floats * sizeof(float);
}

bool recurrent_save(const struct cache* cache, int page, void* to) {
	const struct paged_cache* c = &((const struct cpu_cache*)cache)->paged;
	const struct kept_state* state = page < c->named ? c->page[page]->state : NULL;
	if (!state || state->found == 0)
		return false;
	if (to)
		memcpy(to, state->content, recurrent_state_bytes(cache));
	return true;
}

void recurrent_restore(struct cache* cache, const void* from) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	struct page* page = paged_last_named(&c->paged);
	assert(page && cache->pending == 0);
	memcpy(kept_states_put(&cpu_of(cache->backend)->kept, page), from, recurrent_state_bytes(cache));
	recurrent_take_kept(c);
}
