/* The optimizer as a session's learner: opening, what passes tell it, costs, the mask that drafts. */
#include "optimizer/optimizer_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/random_mask.h"

static int block_count(const struct session* s) { return s->engine->model->weights.shape.n_blocks; }

/* Under an unlimited budget statistics are to repeat: by bytes then, not by the clock. */
static void offer_costs(const struct session* s, struct search* search) {
	const struct cost_model bytes = cost_by_bytes(&s->engine->cost);
	const struct cost_model* cost = isinf(s->options.opt_budget) ? &bytes : &s->engine->cost;
	struct search_costs costs = {.max_draft = s->options.max_draft};
	cost_sub_layers(cost, false, NULL, &costs.attention, &costs.mlp, &costs.fixed);
	const struct levels* levels =
	    s->draft_weights && s->draft_weights->format.columns ? &s->engine->levels : NULL;
	cost_sub_layers(cost, true, levels, &costs.quantized_attention, &costs.quantized_mlp,
	                &costs.quantized_fixed);
	if (levels)
		cost_channels(cost, costs.channel);
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = cost_verify(cost, n);
	search_set_costs(search, &costs);
}

static void offer_known_costs(const struct session* s, struct search* search) {
	if (isinf(s->options.opt_budget) || s->engine->cost.passes >= CALIBRATE_FIRST)
		offer_costs(s, search);
}

/* Sizes are a matter of cost: the search hears of costs when they are known, and again as they change. */
static void look_at_search(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	const struct session* s = o->session;
	if (!s->options.search || s->options.published)
		return;
	offer_known_costs(s, o->search);
	optimizer_adopt_best(o);
}

/* ---- influence ------------------------------------------------------------------------------ */

static double influence_rows(const struct optimizer* o) { return o->influence.rows + o->text_influence.rows; }

/* The search hears of it when there is a quarter more to hear. */
static void report_influence(struct optimizer* o) {
	const double rows = influence_rows(o);
	const int blocks = block_count(o->session);
	if (!o->influence_rows || rows < 4 || rows < 1.25 * o->influence_reported)
		return;
	double mean[2 * MAX_BLOCKS];
	struct influence all = o->influence;
	influence_join(&all, &o->text_influence, blocks);
	influence_mean(&all, blocks, mean);
	const double began = options_clock(&o->session->options);
	search_set_influence(o->search, mean, all.rows);
	optimizer_charge(o, options_clock(&o->session->options) - began);
	o->influence_reported = rows;
	optimizer_adopt_best(o);
}

/* The first row of a pass that verifies is text whatever is accepted: its states tell of spans for nothing.
 * The search hears of them when there is as much again to hear. */
static void add_spans(struct optimizer* o) {
	enum { FIRST_REPORT = 8 };
	struct spans* const spans = &o->spans;
	const int dim = o->session->engine->model->weights.shape.dim;
	float* state[2 * MAX_BLOCKS + 1] = {NULL};
	const double began = options_clock(&o->session->options);
	for (int i = 0; i < 2 * spans->blocks; i++)
		state[i + 1] = o->states + (size_t)i * (size_t)dim;
	spans_add(spans, state, 1, dim);
	const bool enough = spans->rows >= fmax(FIRST_REPORT, 2 * o->spans_reported);
	if (enough) {
		search_set_spans(o->search, spans);
		o->spans_reported = spans->rows;
	}
	optimizer_charge(o, options_clock(&o->session->options) - began);
	if (enough)
		optimizer_adopt_best(o);
}

static void tap_pass(struct learner* learner, bool prompt, struct pass* pass) {
	struct optimizer* o = (struct optimizer*)learner;
	if (prompt || influence_rows(o) < INFLUENCE_ENOUGH)
		pass->influence = o->influence_rows;
	if (!prompt && pass->tap < 0 && o->states && o->spans.rows < SPANS_ENOUGH) {
		pass->states = o->states;
		o->states[0] = NAN;
	}
}

static void rows(struct learner* learner, const struct pass* pass, const int32_t* row, int n, int position) {
	struct optimizer* o = (struct optimizer*)learner;
	if (pass->states && !isnan(o->states[0]))
		add_spans(o);
	for (int i = 0; i < n && pass->influence; i++)
		if (position + i >= INFLUENCE_FIRST)
			influence_add(&o->text_influence, o->influence_rows, block_count(o->session), pass->n, row[i]);
	if (pass->influence && o->session->phase != PHASE_PREFILL)
		report_influence(o);
}

static void prompt_is_reported(struct learner* learner) { report_influence((struct optimizer*)learner); }

static void begin_text(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	score_new_instance(o);
	influence_join(&o->influence, &o->text_influence, block_count(o->session));
	memset(&o->text_influence, 0, sizeof o->text_influence);
}

/* ---- drafting ------------------------------------------------------------------------------- */

static void drafted(struct learner* learner, int right, int looked_at) {
	struct optimizer* o = (struct optimizer*)learner;
	const struct session* s = o->session;
	/* a search that knows no states would take what rounding gets wrong for the mask's fault */
	if (!s->options.published && (!s->drafts.any || search_has_draft_weights(o->search)))
		search_see_draft(o->search, &s->mask, right, looked_at);
}

static void draft_weights_joined(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	struct session* s = o->session;
	offer_costs(s, o->search);
	search_use_draft_weights(o->search);
	s->mask = search_best(o->search, &s->matchness);
}

static void adopt_mask(struct learner* learner, const struct mask* mask) {
	search_adopt(((struct optimizer*)learner)->search, mask);
}

static double expected(const struct learner* learner) {
	return search_expected(((const struct optimizer*)learner)->search);
}

static void figures(const struct learner* learner, struct swiftlet_figures* f) {
	const struct optimizer* o = (const struct optimizer*)learner;
	f->chosen_by = search_chosen_by(o->search);
	f->search_state = o->session->options.search ? search_state_name(search_state(o->search)) : "off";
}

/* ---- opening -------------------------------------------------------------------------------- */

struct search* session_new_search(struct session* s, struct error* error) {
	const struct swiftlet_options* o = &s->options;
	/* A given ratio is a given size; auto is a matter of cost, or without costs SWIFT's appendix B.2: 0.45
	 * below 34 B parameters, else 0.5. */
	const bool by_cost = o->skip_cost > 0 && !o->published;
	const bool priced = o->objective_speedup && !o->published && !(o->skip_ratio > 0) && !by_cost;
	const double published = s->engine->model->parameters < 33e9 ? 0.45 : 0.5;
	const struct draft_weights none = {0}, *planned = &s->engine->draft_weights.table;
	const struct draft_weights* draft_weights = o->draft_bits != 0 && planned->bytes > 0 ? planned : &none;
	const struct search_options how = {
	    .blocks = s->engine->model->weights.shape.n_blocks,
	    .skip_ratio = priced              ? 0
	                  : o->skip_ratio > 0 ? o->skip_ratio
	                                      : published,
	    .skip_cost = by_cost ? o->skip_cost : 0,
	    .bayes_interval = o->bayes_interval,
	    .max_steps = o->max_steps,
	    .patience = o->patience,
	    .max_matchness = o->max_matchness,
	    .confirm = o->confirm,
	    .expected_improvement = o->expected_improvement,
	    .hamming = o->hamming,
	    .published = o->published,
	    .kappa = o->kappa,
	    .seed = o->seed,
	    .draft_bits = priced ? draft_weights->format.bits : 0,
	    .quantized = draft_weights->sub_layers,
	    .head_quantized = draft_weights->head,
	    .channels = priced && draft_weights->format.columns,
	    .given_share = o->draft_read > 0,
	    .levels = s->engine->levels,
	};
	struct search* search = search_open(&how, error);
	if (search && s->draft_weights) {
		offer_costs(s, search);
		search_use_draft_weights(search);
	} else if (search && !s->options.published) {
		/* else a search would differ by when a session's next look at them falls */
		offer_known_costs(s, search);
	}
	return search;
}

static void close_optimizer(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	if (o->search)
		search_close(o->search);
	free(o->influence_rows);
	free(o->states);
	spans_close(&o->spans);
	free(o);
}

static const struct learner_calls calls = {.close = close_optimizer,
                                           .begin_text = begin_text,
                                           .tap = tap_pass,
                                           .rows = rows,
                                           .prompt_is_reported = prompt_is_reported,
                                           .begin = score_begin,
                                           .fill = score_fill,
                                           .take = score_take,
                                           .drafted = drafted,
                                           .look = look_at_search,
                                           .draft_weights_joined = draft_weights_joined,
                                           .adopt = adopt_mask,
                                           .expected = expected,
                                           .figures = figures};

/* The session closes it, also when something is missing. */
static bool open_optimizer(struct session* s, struct error* error) {
	const struct weight_table* weights = &s->engine->model->weights;
	struct optimizer* o = calloc(1, sizeof *o);
	if (!o)
		return error_set(error, "out of memory for the optimizer");
	*o = (struct optimizer){.learner = {&calls}, .session = s};
	s->learner = &o->learner;
	o->search = session_new_search(s, error);
	if (!o->search)
		return false;
	const size_t sub_layers = 2 * (size_t)weights->shape.n_blocks, dim = (size_t)weights->shape.dim;
	if (!s->options.published) {
		o->influence_rows = malloc(sub_layers * MAX_ROWS * sizeof *o->influence_rows);
		o->states = malloc(sub_layers * dim * sizeof *o->states);
		if (!o->influence_rows || !o->states || !spans_open(&o->spans, weights->shape.n_blocks))
			return error_set(error, "out of memory for the influence of %d blocks", weights->shape.n_blocks);
	}
	s->mask = search_best(o->search, NULL);
	plan_new_mask(s);
	return true;
}

bool optimizer_open(struct session* s, struct error* error) {
	return block_count(s) < 3 || open_optimizer(s, error);
}

/* ---- searches of a session ------------------------------------------------------------------ */

struct search* session_search(struct session* s) {
	return s->learner ? optimizer_of(s)->search : NULL;
}

struct search* session_swap_search(struct session* s, struct search* other, struct influence* influence) {
	struct optimizer* o = optimizer_of(s);
	if (!o)
		return NULL;
	struct search* const until_now = o->search;
	const struct influence known = o->influence;
	o->influence = *influence;
	*influence = known;
	o->influence_reported = o->spans_reported = 0;
	spans_forget(&o->spans);
	o->search = other;
	s->mask = search_best(other, &s->matchness);
	o->window.size = 0;
	plan_new_mask(s);
	report_influence(o);
	return until_now;
}

struct search* session_forget(struct session* s, struct influence* known) {
	struct optimizer* o = optimizer_of(s);
	struct error ignored;
	struct search* const fresh = o ? session_new_search(s, &ignored) : NULL;
	acceptance_open(&s->acceptance);
	if (o)
		memset(&o->text_influence, 0, sizeof o->text_influence);
	memset(known, 0, sizeof *known);
	return fresh ? session_swap_search(s, fresh, known) : NULL;
}

const struct influence* session_text_influence(const struct session* s) {
	static const struct influence none;
	return s->learner ? &optimizer_of(s)->text_influence : &none;
}

void session_add_influence(struct session* s, const struct influence* known) {
	struct optimizer* o = optimizer_of(s);
	if (!o)
		return;
	influence_join(&o->influence, known, block_count(s));
	report_influence(o);
}
