/* A request's penalties and biases (kernels/backend.h, struct penalties): checks them, and counts the text's
 * tokens as they are committed. Tokens after those belong to a row's path. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/session_state.h"

/* The request's value, or the model's if it sets none. */
static double choose_repetition(const struct session* s, const struct swiftlet_request* r) {
	const double own = (double)s->engine->model->repetition_penalty;
	return r->repetition_penalty > 0 ? r->repetition_penalty : own > 0 ? own : 1;
}

static bool needs_penalties(const struct session* s, const struct swiftlet_request* r) {
	return r->n_bias > 0 || s->engine->model->n_suppressed > 0 || s->engine->model->no_repeat > 0 ||
	       fabs(r->presence_penalty) > 0 || fabs(r->frequency_penalty) > 0 ||
	       fabs(choose_repetition(s, r) - 1) > 0;
}

static bool check_biases(const struct swiftlet_request* r, int vocab, struct error* error) {
	for (int i = 0; i < r->n_bias; i++) {
		const struct swiftlet_bias* b = &r->bias[i];
		if (b->token < 0 || b->token >= vocab)
			return error_set(error, "logit_bias is given for token %d: expected 0 to %d", b->token,
			                 vocab - 1);
		if (!(b->bias >= -100 && b->bias <= 100))
			return error_set(error, "logit_bias of token %d is %g: expected -100 to 100", b->token,
			                 (double)b->bias);
		if (i > 0 && b->token <= r->bias[i - 1].token)
			return error_set(error, "logit_bias gives token %d after token %d: expected ascending tokens",
			                 b->token, r->bias[i - 1].token);
	}
	return true;
}

static bool check_range(double x, double least, double most, const char* name, struct error* error) {
	if (x >= least && x <= most)
		return true;
	return error_set(error, "%s is %g: expected %g to %g", name, x, least, most);
}

bool penalties_check(const struct session* s, const struct swiftlet_request* r, struct error* error) {
	const int vocab = s->engine->model->weights.shape.vocab;
	if (!check_range(r->presence_penalty, -2, 2, "presence_penalty", error) ||
	    !check_range(r->frequency_penalty, -2, 2, "frequency_penalty", error) ||
	    !check_range(r->repetition_penalty, 0, 10, "repetition_penalty", error))
		return false;
	if (r->n_bias < 0 || r->n_bias > vocab)
		return error_set(error, "logit_bias holds %d tokens: expected 0 to %d", r->n_bias, vocab);
	return check_biases(r, vocab, error);
}

static bool make_room(struct history* h, int vocab, int n_bias) {
	const size_t n = (size_t)vocab;
	if (!h->in_prompt)
		h->in_prompt = malloc(n);
	if (!h->generated)
		h->generated = malloc(n * sizeof *h->generated);
	free(h->bias_token);
	free(h->bias);
	h->bias_token = malloc(((size_t)n_bias + 1) * sizeof *h->bias_token);
	h->bias = malloc(((size_t)n_bias + 1) * sizeof *h->bias);
	return h->in_prompt && h->generated && h->bias_token && h->bias;
}

bool penalties_start(struct session* s, const struct swiftlet_request* r, struct error* error) {
	struct history* h = &s->history;
	const int vocab = s->engine->model->weights.shape.vocab;
	const struct model* model = s->engine->model;
	h->on = needs_penalties(s, r);
	if (!h->on)
		return true;
	if (!make_room(h, vocab, r->n_bias + model->n_suppressed)) {
		h->on = false;
		return error_set(error, "out of memory for penalties");
	}
	for (int i = 0; i < r->n_bias; i++) {
		h->bias_token[i] = r->bias[i].token;
		h->bias[i] = r->bias[i].bias;
	}
	for (int i = 0; i < model->n_suppressed; i++) {
		h->bias_token[r->n_bias + i] = model->suppressed[i];
		h->bias[r->n_bias + i] = -INFINITY;
	}
	memset(h->in_prompt, 0, (size_t)vocab);
	for (int i = 0; i < r->n_prompt; i++)
		h->in_prompt[r->prompt[i]] = 1;
	memset(h->generated, 0, (size_t)vocab * sizeof *h->generated);
	h->counted = r->n_prompt;
	h->penalties = (struct penalties){
	    .repetition = (float)choose_repetition(s, r),
	    .frequency = (float)r->frequency_penalty,
	    .presence = (float)r->presence_penalty,
	    .prompt = r->n_prompt,
	    .in_prompt = h->in_prompt,
	    .generated = h->generated,
	    .bias_token = h->bias_token,
	    .bias = h->bias,
	    .n_bias = r->n_bias + model->n_suppressed,
	    .no_repeat = model->no_repeat,
	};
	return true;
}

const struct penalties* penalties_now(struct session* s) {
	struct history* h = &s->history;
	if (!h->on)
		return NULL;
	for (; h->counted < s->cache->committed; h->counted++)
		h->generated[s->text[h->counted]]++;
	h->penalties.text = s->text;
	h->penalties.n_text = h->counted;
	return &h->penalties;
}

void penalties_close(struct session* s) {
	free(s->history.in_prompt);
	free(s->history.generated);
	free(s->history.bias_token);
	free(s->history.bias);
}
