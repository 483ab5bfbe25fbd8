/* `swiftlet bench bridge`: what bridges make of spans that are left out (tools/lab/bridge_trial.h), from
 * prompts of a file to learn from and others that judge: their alpha, what they cost, what that brings. */
#include <math.h>
#include <string.h>

#include "tools/lab/bench.h"
#include "tools/lab/bridge_trial.h"
#include "tools/lab/prices.h"

/* ---- prices --------------------------------------------------------------------------------- */

static double verify_cost(const struct bridge_trial* r, bool flat, int n) {
	return flat ? 1 + 0.006 * (n - 1) : r->verify[n];
}

/* c by the bytes that a draft step reads. */
static double draft_cost(const struct bridge_trial* r, const struct bridge_span* s, bool bridged) {
	const struct cost_model* cost = &r->maker.engine->cost;
	const double all = cost_all_bytes(cost);
	const double dim = r->maker.engine->model->weights.shape.dim, bridge = 2 * dim * dim * sizeof(uint16_t);
	struct mask skip = {0};
	for (int l = s->bridge.first; l < s->bridge.last; l++)
		mask_set(&skip, l, true);
	return cost_share(cost, (struct variant){.skip = &skip}) + (bridged ? bridge / all : 0);
}

/* What drafts bring, each step right with chance alpha, where a step costs c. */
struct pay {
	double gain; /* plain steps' time over that of rounds of drafts as long as is best; 1: none is better than
	                no draft */
	double beside; /* the speed-up of other drafters up to which some number of steps still adds to a round:
	                 tokens over what they cost beside it (the planner's rule, core/draft/planner.h) */
};

static struct pay pay_of(const struct bridge_trial* r, double alpha, double c, bool flat) {
	struct pay pay = {.gain = 1};
	double tokens = 0, chance = 1;
	for (int n = 1; n < BRIDGE_ROWS; n++) {
		const double verify = verify_cost(r, flat, n + 1);
		tokens += chance *= alpha;
		pay.gain = fmax(pay.gain, (1 + tokens) / (n * c + verify));
		pay.beside = fmax(pay.beside, tokens / (n * c + verify - 1));
	}
	return pay;
}

/* ---- telling -------------------------------------------------------------------------------- */

enum { COLUMNS = 8 };
static const char* const column[COLUMNS] = {"alpha", "c",           "error",     "ridge",
                                            "gain",  "pays_beside", "gain_flat", "pays_beside_flat"};

/* Of a span: bare (k < 0), or with what so many rows have taught. */
static void line_of(const struct bridge_trial* r, const struct bridge_span* s, int k, double value[COLUMNS]) {
	const struct ridge_fit none = {0}, fit = k < 0 ? none : s->learned[k].fit;
	const double alpha = k < 0 ? s->bare : s->learned[k].right, c = draft_cost(r, s, k >= 0);
	const struct pay here = pay_of(r, alpha, c, false), flat = pay_of(r, alpha, c, true);
	const double line[COLUMNS] = {alpha,     c,           fit.error, fit.lambda,
	                              here.gain, here.beside, flat.gain, flat.beside};
	memcpy(value, line, sizeof line);
}

static void tell(const struct bridge_trial* r, cJSON* out) {
	double here = 0, flat = 0;
	cJSON_AddNumberToObject(out, "positions", (double)r->positions);
	cJSON* list = cJSON_AddArrayToObject(out, "bridges");
	for (int i = 0; i < r->n_spans; i++)
		for (int k = -1; k < r->n_sizes; k++) {
			const struct bridge_span* s = &r->span[i];
			double value[COLUMNS];
			cJSON* one = bench_json_row(list);
			line_of(r, s, k, value);
			cJSON_AddNumberToObject(one, "first", s->first);
			cJSON_AddNumberToObject(one, "last", s->last);
			cJSON_AddStringToObject(one, "kind", k < 0 ? "bare" : "with final");
			cJSON_AddNumberToObject(one, "tokens", k < 0 ? 0 : (double)r->size[k]);
			for (int c = 0; c < COLUMNS; c++)
				bench_json_number(one, column[c], value[c]);
			here = fmax(here, value[5]);
			flat = fmax(flat, value[7]);
		}
	/* beside drafters that bring nothing a step pays from 1 on */
	cJSON_AddStringToObject(out, "verdict",
	                        here <= 1 && flat <= 1 ? "a draft step that leaves blocks out does not pay"
	                        : here <= 1            ? "it pays where v grows by 0.006 a row, not here"
	                                    : "it pays where other drafters bring less than pays_beside");
}

/* ---- the command ---------------------------------------------------------------------------- */

struct bridge_bench {
	struct bench_part part;
	struct bridge_trial trial;
	const char *judge, *learn, *spans, *prices;
};

static int prepare(struct bench_part* part) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct error error = {{0}};
	struct price_list prices;
	if (!b->spans)
		return complain(STATUS_USAGE, "bench bridge: which --spans? As in 9-16,4-18");
	if (!prices_read(&prices, b->prices, &error))
		return complain(STATUS_USAGE, "%s", error.message);
	memcpy(b->trial.verify, prices.verify, sizeof b->trial.verify);
	return OPTIONS_GO_ON;
}

static bool measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct bridge_trial* trial = &b->trial;
	swiftlet_model* model = part->bench.model;
	trial->maker = (struct text_maker){part->bench.engine, options_context(&part->options, model)};
	const bool good = prompt_list_read(&trial->judge, model, b->judge, error) &&
	                  (b->learn ? prompt_list_read(&trial->learn, model, b->learn, error)
	                            : bridge_trial_split(trial, error)) &&
	                  bridge_trial_run(trial, b->spans, error);
	if (good)
		tell(trial, out);
	bridge_trial_close(trial);
	return good;
}

int bench_bridge_main(int argc, char** argv) {
	struct bridge_bench b = {
	    .part = {.prepare = prepare, .measure = measure}, .trial = {.tokens = 8000}, .prices = "slope=0.05"};
	const struct option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them", &b.judge),
	    TEXT("learn", 0, "FILE", "prompts to learn from (every other of the prompts)", &b.learn),
	    TEXT("spans", 0, "LIST", "blocks that are left out, as in 9-16,4-18", &b.spans),
	    COUNT("tokens", 0, "N", "tokens to learn from (8000)", &b.trial.tokens, 1, 1 << 30),
	    TEXT("prices", 0, "LIST|FILE", "of rows, as bench replay takes them (slope=0.05)", &b.prices),
	};
	struct command_line line = {
	    .name = "bench bridge",
	    .usage = "[MODEL|-m MODEL] --spans LIST [-i FILE] [--learn FILE] [--tokens N] [--json] [options]",
	    .about = "Counts how often a draft step is right that leaves a span of blocks out, bare and with a\n"
	             "bridge in its place that was fitted by least squares to states of full passes.",
	    .examples = "  swiftlet bench bridge -m model.gguf -i tools/chat.jsonl --spans 9-16 --tokens 2000",
	    OPTIONS(option),
	};
	return bench_part_main(&b.part, &line, argc, argv);
}
