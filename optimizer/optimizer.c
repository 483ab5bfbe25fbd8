/* The optimizer as a session's learner: it opens the search, gives it the session's passes and costs, and
 * sets the draft mask. */
#include "optimizer/optimizer_state.h"

#include <math.h>
#include <stdlib.h>

static const struct model_shape* shape_of(const struct optimizer* o) {
	return &session_engine(o->session)->model->weights.shape;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* So many full passes make costs known. */
enum { KNOWN_AFTER = 8 };

/* Statistics have to repeat under an unlimited budget, so time then comes from bytes, not from the clock. */
static void offer_costs(struct optimizer* o) {
	const struct learner_view view = session_learning(o->session);
	const bool repeats = isinf(view.options->learning.budget);
	if (!repeats && !view.by_channel && view.engine->cost.passes < KNOWN_AFTER)
		return;
	const struct cost_model bytes = cost_by_bytes(&view.engine->cost);
	const struct cost_model* cost = repeats ? &bytes : &view.engine->cost;
	struct search_costs costs = {.max_draft = view.options->drafting.max_draft};
	cost_sub_layers(cost, view.by_channel, view.by_channel ? &view.engine->levels : NULL, &costs.attention,
	                &costs.mlp, &costs.fixed);
	if (view.by_channel)
		cost_channels(cost, costs.channel);
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = cost_verify(cost, n);
	search_set_costs(o->search, &costs);
}

static bool searches_levels(const struct engine* engine, const struct swiftlet_options* o) {
	const struct draft_weights* planned = &engine->draft_weights.table;
	return !o->learning.published && !(o->learning.skip_ratio > 0) && o->draft_weights.bits != 0 &&
	       planned->bytes > 0 && planned->format.columns;
}

/* Beside quantized draft weights of whole rows skipping pays nowhere. */
static bool has_something_to_find(const struct engine* engine, const struct swiftlet_options* o) {
	const bool quantized = o->draft_weights.bits != 0 && engine->draft_weights.table.bytes > 0;
	return engine->model->weights.shape.n_blocks >= 3 &&
	       (!quantized || o->learning.skip_ratio > 0 || searches_levels(engine, o));
}

/* A given ratio fixes the size; else it is SWIFT's appendix B.2: 0.45 below 34 B parameters, else 0.5. */
static struct search* new_search(const struct engine* engine, const struct swiftlet_options* o,
                                 struct error* error) {
	enum { LEVEL_INTERVAL = 2 }; /* every other proposal of levels is the process's (bench search) */
	const bool levels = searches_levels(engine, o);
	const struct search_options how = {
	    .blocks = engine->model->weights.shape.n_blocks,
	    .skip_ratio = o->learning.skip_ratio > 0         ? o->learning.skip_ratio
	                  : engine->model->parameters < 33e9 ? 0.45
	                                                     : 0.5,
	    .bayes_interval =
	        levels && o->learning.bayes_interval > 0 ? LEVEL_INTERVAL : o->learning.bayes_interval,
	    .max_steps = o->learning.max_steps,
	    .patience = o->learning.patience,
	    .max_matchness = o->learning.max_matchness,
	    .expected_improvement = o->learning.expected_improvement,
	    .hamming = o->learning.hamming,
	    .kappa = o->learning.kappa,
	    .seed = o->sampling.seed,
	    .published = o->learning.published,
	    .levels = levels,
	    .given_share = o->draft_weights.read > 0,
	    .start = engine->levels,
	};
	return search_open(&how, error);
}

struct search* session_search(struct session* s) {
	const struct optimizer* o = optimizer_of(s);
	return o ? o->search : NULL;
}

struct search* session_new_search(struct session* s) {
	struct error ignored;
	return new_search(session_engine(s), session_options(s), &ignored);
}

struct search* session_swap_search(struct session* s, struct search* other) {
	struct optimizer* o = optimizer_of(s);
	if (!o)
		return NULL;
	struct search* const until_now = o->search;
	o->search = other;
	o->window.size = 0;
	spans_forget(&o->spans);
	if (!session_options(s)->learning.published)
		offer_costs(o);
	double matchness;
	const struct mask best = search_best(other, &matchness);
	session_replace_mask(s, &best, matchness);
	return until_now;
}

struct search* session_forget(struct session* s) {
	struct search* const fresh = session_search(s) ? session_new_search(s) : NULL;
	acceptance_open(session_acceptance(s));
	return fresh ? session_swap_search(s, fresh) : NULL;
}

/* ---- spans ---------------------------------------------------------------------------------- */

/* The first row of a verify pass is always text, so its states give span influence at no cost. */
static void tap_pass(struct learner* learner, struct pass* pass) {
	struct optimizer* o = (struct optimizer*)learner;
	if (pass->tap < 0 && o->states && o->spans.rows < SPANS_ENOUGH) {
		pass->states = o->states;
		o->states[0] = NAN; /* a pass that others join may leave them as they are */
	}
}

static void add_spans(struct learner* learner, const struct pass* pass) {
	struct optimizer* o = (struct optimizer*)learner;
	if (!pass->states || isnan(o->states[0]))
		return;
	const int dim = shape_of(o)->dim;
	const double began = options_clock(session_options(o->session));
	float* state[2 * MAX_BLOCKS + 1] = {NULL};
	for (int i = 0; i < 2 * o->spans.blocks; i++)
		state[i + 1] = o->states + (size_t)i * (size_t)dim;
	spans_add(&o->spans, state, 1, dim);
	if (o->spans.rows >= SPANS_ENOUGH) {
		search_set_spans(o->search, &o->spans);
		optimizer_adopt_best(o);
	}
	session_charge_learning(o->session, options_clock(session_options(o->session)) - began);
}

/* ---- drafting ------------------------------------------------------------------------------- */

static void begin_text(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	score_new_instance(o);
	o->proposals = 0;
}

static void see_drafts(struct learner* learner, int right, int looked_at) {
	const struct optimizer* o = (struct optimizer*)learner;
	search_see_draft(o->search, session_learning(o->session).mask, right, looked_at);
}

/* The worth of levels depends on costs, so the search gets them again as they change. */
static void look_at_search(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	const struct swiftlet_options* options = session_options(o->session);
	if (!options->learning.search || options->learning.published)
		return;
	offer_costs(o);
	optimizer_adopt_best(o);
}

static void join_draft_weights(struct learner* learner) { offer_costs((struct optimizer*)learner); }

static void adopt_mask(struct learner* learner, const struct mask* mask) {
	search_adopt(((struct optimizer*)learner)->search, mask);
}

static double expected_speedup(const struct learner* learner) {
	return search_expected(((const struct optimizer*)learner)->search);
}

static void report_figures(const struct learner* learner, struct swiftlet_figures* f) {
	const struct optimizer* o = (const struct optimizer*)learner;
	f->chosen_by = search_chosen_by(o->search);
	f->optimize_steps = o->proposals;
	f->search_state =
	    session_options(o->session)->learning.search ? search_state_name(search_state(o->search)) : "off";
}

/* ---- opening -------------------------------------------------------------------------------- */

static void close_optimizer(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	search_close(o->search);
	free(o->states);
	spans_close(&o->spans);
	free(o);
}

static const struct learner_calls calls = {.close = close_optimizer,
                                           .begin_text = begin_text,
                                           .tap = tap_pass,
                                           .tapped = add_spans,
                                           .begin = score_begin,
                                           .fill = score_fill,
                                           .take = score_take,
                                           .drafted = see_drafts,
                                           .look = look_at_search,
                                           .draft_weights_joined = join_draft_weights,
                                           .adopt = adopt_mask,
                                           .expected = expected_speedup,
                                           .figures = report_figures};

bool optimizer_open(struct session* s, struct error* error) {
	const struct engine* engine = session_engine(s);
	const struct swiftlet_options* options = session_options(s);
	if (!has_something_to_find(engine, options))
		return true;
	const struct model_shape* shape = &engine->model->weights.shape;
	struct optimizer* o = calloc(1, sizeof *o);
	if (!o)
		return error_set(error, "out of memory for the optimizer");
	o->learner.calls = &calls;
	o->session = s;
	session_set_learner(s, &o->learner);
	o->search = new_search(engine, options, error);
	if (!o->search)
		return false;
	if (!options->learning.published && !searches_levels(engine, options)) {
		o->states = malloc(2 * (size_t)shape->n_blocks * (size_t)shape->dim * sizeof *o->states);
		if (!o->states || !spans_open(&o->spans, shape->n_blocks))
			return error_set(error, "out of memory for the influence of %d blocks", shape->n_blocks);
	}
	if (!options->learning.published)
		offer_costs(o);
	const struct mask best = search_best(o->search, NULL);
	session_replace_mask(s, &best, NAN);
	return true;
}
