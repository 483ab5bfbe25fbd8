/* `swiftlet bench bridge`: what bridges make of spans that are left out (tools/lab/bridge_trial.h), from
 * prompts of a file to learn from and others that judge: their alpha, what they cost, what that brings. A
 * step costs the bytes that it reads. At the caller's prices of rows, and at a GPU's, where v grows by 0.006
 * a row, it is said what a span gains where nothing else drafts, and beside what speed-up of other drafters
 * one more of its steps still pays. */
#include <math.h>
#include <string.h>

#include "tools/lab/bench.h"
#include "tools/lab/bridge_trial.h"
#include "tools/lab/prices.h"

struct bridge_bench {
	struct bench_part part;
	struct bridge_trial trial;
	const char *judge, *learn, *spans, *price_text;
	struct price_list prices;
};

/* ---- prices --------------------------------------------------------------------------------- */

/* c by the bytes that a draft step reads. */
static double draft_cost(const struct bridge_bench* b, const struct bridge_span* s, bool bridged) {
	const struct cost_model* cost = &b->part.bench.engine->cost;
	const double dim = b->part.bench.model->weights.shape.dim, bridge = 2 * dim * dim * sizeof(uint16_t);
	return cost_share(cost, (struct variant){.skip = &s->mask}) +
	       (bridged ? bridge / cost_all_bytes(cost) : 0);
}

/* What drafts bring, each step right with chance alpha, where a step costs c. */
struct pay {
	double gain; /* plain steps' time over that of rounds of drafts as long as is best; 1: none is better than
	                no draft */
	double beside; /* the speed-up of other drafters up to which some number of steps still adds to a round:
	                 tokens over what they cost beside it (the planner's rule, core/draft/planner.h) */
};

static struct pay pay_of(const struct bridge_bench* b, double alpha, double c, bool flat) {
	enum { LONGEST = 15 };
	struct pay pay = {.gain = 1};
	double tokens = 0, chance = 1;
	for (int n = 1; n <= LONGEST; n++) {
		const double verify = flat ? 1 + 0.006 * n : b->prices.verify[n + 1];
		tokens += chance *= alpha;
		pay.gain = fmax(pay.gain, (1 + tokens) / (n * c + verify));
		pay.beside = fmax(pay.beside, tokens / (n * c + verify - 1));
	}
	return pay;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void tell(const struct bridge_bench* b, cJSON* out) {
	const struct bridge_trial* r = &b->trial;
	double here = 0, flat = 0;
	cJSON_AddNumberToObject(out, "positions", (double)r->positions);
	cJSON* list = cJSON_AddArrayToObject(out, "bridges");
	for (int i = 0; i < r->n_spans; i++)
		for (int k = -1; k < r->n_sizes; k++) { /* -1: bare; then with what so many rows have taught */
			const struct bridge_span* s = &r->span[i];
			const struct ridge_fit none = {0}, fit = k < 0 ? none : s->learned[k].fit;
			const double alpha = k < 0 ? s->bare : s->learned[k].right, c = draft_cost(b, s, k >= 0);
			const struct pay at_prices = pay_of(b, alpha, c, false), at_flat = pay_of(b, alpha, c, true);
			cJSON* one = bench_json_row(list);
			cJSON_AddNumberToObject(one, "first", s->first);
			cJSON_AddNumberToObject(one, "last", s->last);
			cJSON_AddStringToObject(one, "kind", k < 0 ? "bare" : "with final");
			cJSON_AddNumberToObject(one, "tokens", k < 0 ? 0 : (double)r->size[k]);
			bench_json_number(one, "alpha", alpha);
			bench_json_number(one, "c", c);
			bench_json_number(one, "error", fit.error);
			bench_json_number(one, "ridge", fit.lambda);
			bench_json_number(one, "gain", at_prices.gain);
			bench_json_number(one, "pays_beside", at_prices.beside);
			bench_json_number(one, "gain_flat", at_flat.gain);
			bench_json_number(one, "pays_beside_flat", at_flat.beside);
			here = fmax(here, at_prices.beside);
			flat = fmax(flat, at_flat.beside);
		}
	/* beside drafters that bring nothing a step pays from 1 on */
	cJSON_AddStringToObject(out, "verdict",
	                        here <= 1 && flat <= 1 ? "a draft step that leaves blocks out does not pay"
	                        : here <= 1            ? "it pays where v grows by 0.006 a row, not here"
	                                    : "it pays where other drafters bring less than pays_beside");
}

/* ---- the command ---------------------------------------------------------------------------- */

static int prepare(struct bench_part* part) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct error error = {{0}};
	if (!b->spans)
		return complain(STATUS_USAGE, "bench bridge: which --spans? As in 9-16,4-18");
	if (!prices_read(&b->prices, b->price_text, &error))
		return complain(STATUS_USAGE, "%s", error.message);
	return OPTIONS_GO_ON;
}

static bool measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct bridge_trial* trial = &b->trial;
	trial->bench = &part->bench;
	const bool good = bench_prompts(&part->bench, &trial->judge, b->judge, INT32_MAX, error) &&
	                  (b->learn ? bench_prompts(&part->bench, &trial->learn, b->learn, INT32_MAX, error)
	                            : prompts_split(&trial->judge, &trial->learn, error)) &&
	                  bridge_trial_run(trial, b->spans, error);
	if (good)
		tell(b, out);
	bridge_trial_close(trial);
	return good;
}

int bench_bridge_main(int argc, char** argv) {
	struct bridge_bench b = {.part = {.prepare = prepare, .measure = measure},
	                         .trial = {.tokens = 8000},
	                         .price_text = "slope=0.05"};
	const struct option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them", &b.judge),
	    TEXT("learn", 0, "FILE", "prompts to learn from (every other of the prompts)", &b.learn),
	    TEXT("spans", 0, "LIST", "blocks that are left out, as in 9-16,4-18", &b.spans),
	    COUNT("tokens", 0, "N", "tokens to learn from (8000)", &b.trial.tokens, 1, 1 << 30),
	    TEXT("prices", 0, "LIST|FILE", "of rows, as bench replay takes them (slope=0.05)", &b.price_text),
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
