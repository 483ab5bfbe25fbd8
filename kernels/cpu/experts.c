/* Mixture of experts: a row goes through the few experts that its router prefers.
 *
 * Each row chooses for itself. Experts run in order of their number, and a row adds their outputs in that
 * order. So its bits do not depend on the other rows of the slice. An expert that no row chose is not
 * read. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

static bool is_among(const int32_t* chosen, int n, int expert) {
	bool found = false;
	for (int k = 0; k < n; k++)
		found |= chosen[k] == expert;
	return found;
}

/* The best expert by chance but for the n chosen ones, ties to the lowest number. */
static int best_left(const float* chance, int n_experts, const int32_t* chosen, int n) {
	int best = -1;
	for (int e = 0; e < n_experts; e++)
		if (!is_among(chosen, n, e) && (best < 0 || chance[e] > chance[best]))
			best = e;
	return best;
}

/* The row's best experts by chance, returned in order of number. */
static void choose_best(const float* chance, int n_experts, int used, int32_t* chosen) {
	for (int k = 0; k < used; k++)
		chosen[k] = best_left(chance, n_experts, chosen, k);
	for (int k = 1; k < used; k++)
		for (int j = k; j > 0 && chosen[j - 1] > chosen[j]; j--) {
			const int32_t swap = chosen[j];
			chosen[j] = chosen[j - 1];
			chosen[j - 1] = swap;
		}
}

static void softmax(float* x, int n) {
	float max = x[0], sum = 0;
	for (int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (int i = 0; i < n; i++) {
		x[i] = expf(x[i] - max);
		sum += x[i];
	}
	for (int i = 0; i < n; i++)
		x[i] /= sum;
}

static void sigmoids(float* x, int n) {
	for (int i = 0; i < n; i++)
		x[i] = 1.0f / (1.0f + expf(-x[i]));
}

/* The value of a group: its best expert, or its two best together. */
static float value_group(const float* x, int n, bool best_alone) {
	float first = x[0], second = n > 1 ? x[1] : 0;
	if (second > first)
		first = x[1], second = x[0];
	for (int i = 2; i < n; i++)
		if (x[i] > first)
			second = first, first = x[i];
		else if (x[i] > second)
			second = x[i];
	return best_alone ? first : first + second;
}

/* Leaves only the experts of the best groups, ties to the lowest number. */
static void only_groups(float* wanted, const struct model_shape* s) {
	const int size = s->n_experts / s->expert_groups, out = s->expert_groups - s->expert_groups_used;
	for (int k = 0; k < out; k++) {
		int worst = -1;
		float least = 0;
		for (int g = 0; g < s->expert_groups; g++) {
			const float sum = value_group(wanted + g * size, size, s->groups_by_best);
			if (sum > -INFINITY && (worst < 0 || sum <= least))
				worst = g, least = sum;
		}
		for (int e = 0; e < size; e++)
			wanted[worst * size + e] = -INFINITY;
	}
}

/* SparseMixer's experts and their weights, in order of number. */
static void choose_in_turn(const float* score, const struct model_shape* s, int32_t* chosen, float* weight) {
	for (int k = 0; k < s->experts_used; k++) {
		const int best = best_left(score, s->n_experts, chosen, k);
		float sum = 0;
		for (int e = 0; e < s->n_experts; e++) {
			const float apart = score[best] - score[e];
			if (!is_among(chosen, k, e) && !(apart / fmaxf(fabsf(score[e]), score[best]) > s->experts_near))
				sum += expf(-apart);
		}
		int at = k;
		for (; at > 0 && chosen[at - 1] > best; at--) {
			chosen[at] = chosen[at - 1];
			weight[at] = weight[at - 1];
		}
		chosen[at] = best;
		weight[at] = 1 / sum;
	}
}

/* The rows' choices. */
struct route_job {
	struct cpu_backend* b;
	const float *bias, *choice_bias, *scale; /* (n_experts) or NULL */
};

static void route_rows(void* user, int i, int thread) {
	(void)thread;
	const struct route_job* job = user;
	struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	float* chance = b->probabilities + (size_t)i * (size_t)s->n_experts;
	int32_t* chosen = b->chosen + (size_t)i * (size_t)s->experts_used;
	float* weight = b->chosen_weight + (size_t)i * (size_t)s->experts_used;
	for (int e = 0; job->bias && e < s->n_experts; e++)
		chance[e] += job->bias[e];
	for (int e = 0; s->router_scale != 0 && e < s->n_experts; e++)
		chance[e] *= s->router_scale;
	if (s->experts_in_turn) {
		choose_in_turn(chance, s, chosen, weight);
		return;
	}
	float* wanted = b->wanted + (size_t)i * (size_t)s->n_experts;
	if (s->experts_weigh_input)
		memcpy(wanted, chance, (size_t)s->n_experts * sizeof *wanted);
	if (s->experts_sigmoid)
		sigmoids(chance, s->n_experts);
	else
		softmax(chance, s->n_experts);
	for (int e = 0; e < s->n_experts && !s->experts_weigh_input; e++)
		wanted[e] = job->choice_bias ? chance[e] + job->choice_bias[e] : chance[e];
	if (s->expert_groups > 0)
		only_groups(wanted, s);
	choose_best(wanted, s->n_experts, s->experts_used, chosen);
	float sum = s->experts_epsilon;
	for (int k = 0; k < s->experts_used; k++)
		sum += chance[chosen[k]];
	for (int k = 0; k < s->experts_used; k++)
		weight[k] = chance[chosen[k]] / (s->experts_normalised ? sum : 1.0f);
	for (int k = 0; s->experts_scale != 0 && k < s->experts_used; k++)
		weight[k] *= s->experts_scale;
	for (int k = 0; job->scale && k < s->experts_used; k++)
		weight[k] *= job->scale[chosen[k]];
}

struct part { /* a row of an expert's */
	int row;
	float weight;
};

/* The rows that chose the expert, with its weight in each. */
static int rows_of(const struct cpu_backend* b, int expert, int n, struct part* out) {
	const int used = b->head.weights->shape.experts_used;
	int count = 0;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < used; k++)
			if (b->chosen[i * used + k] == expert)
				out[count++] = (struct part){i, b->chosen_weight[i * used + k]};
	return count;
}

/* An expert of a block, with its biases or NULL. */
struct expert_job {
	struct cpu_backend* b;
	const struct expert* expert;
	const float *gate_bias, *up_bias, *down_bias; /* (expert_ffn) twice, (dim) */
};

static void run_expert(struct expert_job* job, const float* x, const struct part* part, int count) {
	struct cpu_backend* b = job->b;
	const struct expert* e = job->expert;
	const struct model_shape* s = &b->head.weights->shape;
	const size_t dim = (size_t)s->dim;
	const bool at_input = s->experts_weigh_input;
	for (int j = 0; j < count; j++) {
		float* to = b->gathered + (size_t)j * dim;
		memcpy(to, x + (size_t)part[j].row * dim, dim * sizeof *to);
		for (size_t i = 0; at_input && i < dim; i++)
			to[i] *= part[j].weight;
	}
	const struct product in[] = {{.out = b->gate, .stride = (size_t)s->expert_ffn, .w = &e->w_gate},
	                             {.out = b->up, .stride = (size_t)s->expert_ffn, .w = &e->w_up}};
	const bool gated = tensor_present(&e->w_up);
	multiply(b, b->gathered, s->dim, count, in, gated ? 2 : 1);
	if (gated)
		gate_rows(b, s->expert_ffn, job->gate_bias, job->up_bias, count);
	else
		activate(s->activation, NULL, b->gate, s->expert_ffn * count);
	const struct product out = {.out = b->given, .stride = dim, .w = &e->w_down};
	multiply(b, b->gate, s->expert_ffn, count, &out, 1);
	for (int j = 0; j < count; j++) {
		float* y = b->y + (size_t)part[j].row * dim;
		float* given = b->given + (size_t)j * dim;
		add_bias(given, job->down_bias, s->dim, 1);
		const float weight = at_input ? 1 : part[j].weight;
		for (size_t i = 0; i < dim; i++)
			y[i] += weight * given[i];
	}
}

/* The expert that all rows use, weighted by a gate if it has one. */
static void run_shared(struct cpu_backend* b, const struct block_weights* w, const float* gate,
                       const float* x, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const size_t dim = (size_t)s->dim;
	const struct product in[] = {{.out = b->gate, .stride = (size_t)s->shared_ffn, .w = &w->w_gate},
	                             {.out = b->up, .stride = (size_t)s->shared_ffn, .w = &w->w_up}};
	const bool gated = tensor_present(&w->w_up);
	multiply(b, x, s->dim, n, in, gated ? 2 : 1);
	if (gated)
		gate_rows(b, s->shared_ffn, NULL, NULL, n);
	else
		activate(s->activation, NULL, b->gate, s->shared_ffn * n);
	const struct product out = {.out = b->given, .stride = dim, .w = &w->w_down};
	multiply(b, b->gate, s->shared_ffn, n, &out, 1);
	for (int i = 0; i < n; i++) {
		float *y = b->y + (size_t)i * dim, *given = b->given + (size_t)i * dim, weight = 0;
		for (size_t j = 0; gate && j < dim; j++)
			weight += x[(size_t)i * dim + j] * gate[j];
		weight = gate ? 1.0f / (1.0f + expf(-weight)) : 1.0f;
		for (size_t j = 0; j < dim; j++)
			y[j] += weight * given[j];
	}
}

static const float* row_at(const float* rows, int i, int width) {
	return rows ? rows + (size_t)i * (size_t)width : NULL;
}

void choose_experts(struct cpu_backend* b, const struct block_weights* w, const struct block_weights* vectors,
                    const float* x, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct product router = {.out = b->probabilities, .stride = (size_t)s->n_experts, .w = &w->router};
	multiply(b, x, s->dim, n, &router, 1);
	struct route_job route_all = {b, floats(&vectors->router_bias), floats(&vectors->choice_bias),
	                              floats(&vectors->expert_scale)};
	spread(b, n, (double)n * s->n_experts * s->experts_used * 4, route_rows, &route_all);
}

void run_experts(struct cpu_backend* b, const struct block_weights* w, const struct block_weights* vectors,
                 const float* x, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	struct part part[MAX_ROWS];
	memset(b->y, 0, (size_t)n * (size_t)s->dim * sizeof *b->y);
	for (int e = 0; e < s->n_experts; e++) {
		const int count = rows_of(b, e, n, part);
		struct expert_job job = {.b = b,
		                         .expert = &w->expert[e],
		                         .gate_bias = row_at(floats(&vectors->expert_gate_bias), e, s->expert_ffn),
		                         .up_bias = row_at(floats(&vectors->expert_up_bias), e, s->expert_ffn),
		                         .down_bias = row_at(floats(&vectors->expert_down_bias), e, s->dim)};
		if (count > 0)
			run_expert(&job, x, part, count);
	}
	if (s->shared_ffn > 0)
		run_shared(b, w, floats(&vectors->shared_gate), x, n);
}
