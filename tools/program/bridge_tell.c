/* What bridges cost, what that makes of their alpha, and the table of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/program/bridge_trial.h"

/* ---- prices --------------------------------------------------------------------------------- */

static double verify_cost(const struct bridge_trial* r, bool flat, int n) {
	return flat ? 1 + 0.006 * (n - 1) : r->verify[n];
}

/* c by the bytes that a draft step reads. */
static double draft_cost(const struct bridge_trial* r, const struct bridge_span* s, bool bridged) {
	const struct cost_model* cost = &r->maker.engine->cost;
	const double all = cost->blocks * (cost->attention_bytes + cost->mlp_bytes) + cost->fixed_bytes;
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
static const struct column {
	const char *heading, *name;
	int width, digits; /* significant */
} column[COLUMNS] = {
    {"alpha", "alpha", 7, 3},         {"c", "c", 7, 3},
    {"error", "error", 8, 3},         {"ridge", "ridge", 8, 1},
    {"gain here", "gain", 10, 4},     {"beside", "pays_beside", 7, 3},
    {"at 0.006", "gain_flat", 10, 4}, {"beside", "pays_beside_flat", 7, 3},
};
/* Of a span: bare (k < 0), or with what so many rows have taught. */
static void line_of(const struct bridge_trial* r, const struct bridge_span* s, int k, double value[COLUMNS]) {
	const struct ridge_fit none = {0}, fit = k < 0 ? none : s->learned[k].fit;
	const double alpha = k < 0 ? s->bare : s->learned[k].right, c = draft_cost(r, s, k >= 0);
	const struct pay here = pay_of(r, alpha, c, false), flat = pay_of(r, alpha, c, true);
	const double line[COLUMNS] = {alpha,     c,           fit.error, fit.lambda,
	                              here.gain, here.beside, flat.gain, flat.beside};
	memcpy(value, line, sizeof line);
}

void bridge_trial_print(const struct bridge_trial* r) {
	double here = 0, flat = 0;
	printf("%d unseen texts, %ld positions; v(2) %.2f, v(4) %.2f\n\n%-9s %-7s", r->judge.n, r->positions,
	       verify_cost(r, false, 2), verify_cost(r, false, 4), "blocks", "learned");
	for (int c = 0; c < COLUMNS; c++)
		printf(" %*s", column[c].width, column[c].heading);
	putchar('\n');
	for (int i = 0; i < r->n_spans; i++)
		for (int k = -1; k < r->n_sizes; k++) {
			const struct bridge_span* s = &r->span[i];
			double value[COLUMNS];
			char blocks[24], learned[24] = "bare";
			line_of(r, s, k, value);
			snprintf(blocks, sizeof blocks, "%d-%d", s->first, s->last);
			if (k >= 0)
				snprintf(learned, sizeof learned, "%ld", r->size[k]);
			printf("%-9s %7s", blocks, learned);
			for (int c = 0; c < COLUMNS; c++)
				printf(" %*.*g", column[c].width, column[c].digits, value[c]);
			putchar('\n');
			here = fmax(here, value[5]);
			flat = fmax(flat, value[7]);
		}
	printf("\nA draft step that leaves blocks out pays beside drafters that bring less than %.2f here,\n"
	       "less than %.2f where v grows by 0.006 a row%s.\n",
	       here, flat,
	       here <= 1 && flat <= 1 ? ": it does not pay"
	       : here <= 1            ? ": it does not pay here"
	                              : "");
}

bool bridge_trial_json(const struct bridge_trial* r, cJSON* out) {
	cJSON* list = cJSON_AddArrayToObject(out, "bridges");
	cJSON_AddNumberToObject(out, "positions", (double)r->positions);
	for (int i = 0; i < r->n_spans; i++)
		for (int k = -1; k < r->n_sizes; k++) {
			const struct bridge_span* s = &r->span[i];
			double value[COLUMNS];
			cJSON* one = cJSON_CreateObject();
			line_of(r, s, k, value);
			cJSON_AddNumberToObject(one, "first", s->first);
			cJSON_AddNumberToObject(one, "last", s->last);
			cJSON_AddStringToObject(one, "kind", k < 0 ? "bare" : "with final");
			cJSON_AddNumberToObject(one, "tokens", k < 0 ? 0 : (double)r->size[k]);
			for (int c = 0; c < COLUMNS; c++)
				cJSON_AddNumberToObject(one, column[c].name, value[c]);
			cJSON_AddItemToArray(list, one);
		}
	return list != NULL;
}
