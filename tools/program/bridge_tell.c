/* What bridges cost, what that makes of their alpha, and the table of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/program/bridge_trial.h"
#include "tools/program/runtime.h"

enum { CHAIN = 16, TIMES = 31 };

/* ---- prices --------------------------------------------------------------------------------- */

static const int timed_rows[BRIDGE_ROWS] = {1, 2, 4, 8, 16};

static int by_size(const void* a, const void* b) {
	const double x = *(const double*)a, y = *(const double*)b;
	return (x > y) - (x < y);
}

/* A pass that is timed at the end of a judged text. */
struct timed {
	int rows;
	const struct mask* skip;
	const struct bridge* bridge;
	double* seconds; /* where the median goes */
	double sample[TIMES];
};

static bool time_once(struct bridge_trial* r, const struct timed* t, double* seconds, struct error* error) {
	const struct state_text* text = &r->judged[0];
	struct backend* backend = r->maker.engine->backend;
	int32_t token[CHAIN];
	uint8_t want[CHAIN];
	struct result out[CHAIN];
	for (int i = 0; i < t->rows; i++) {
		token[i] = text->id[text->n - 1 - i % text->n];
		want[i] = WANT_TOKEN | WANT_TOP;
		out[i].top = 4;
	}
	const struct segment segment = {.cache = text->cache, .base = text->cache->committed, .n = t->rows};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = t->rows,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = t->skip,
	                          .bridge = t->bridge,
	                          .last = 2 * r->maker.engine->model->weights.shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	const double before = seconds_now();
	if (!backend->run(backend, &pass, error))
		return false;
	*seconds = seconds_now() - before;
	backend->discard(text->cache);
	return true;
}

/* All in turns, so that what else the machine does falls on each alike. */
static bool time_all(struct bridge_trial* r, struct timed* timed, int n, struct error* error) {
	for (int k = 0; k < TIMES; k++)
		for (int i = 0; i < n; i++)
			if (!time_once(r, &timed[i], &timed[i].sample[k], error))
				return false;
	for (int i = 0; i < n; i++) {
		qsort(timed[i].sample, TIMES, sizeof timed[i].sample[0], by_size);
		*timed[i].seconds = timed[i].sample[TIMES / 2];
	}
	return true;
}

bool bridge_trial_price(struct bridge_trial* r, struct error* error) {
	struct timed timed[BRIDGE_ROWS + 2 * BRIDGE_SPANS];
	struct mask skip[BRIDGE_SPANS];
	int n = 0;
	for (int i = 0; i < BRIDGE_ROWS; i++)
		timed[n++] = (struct timed){.rows = timed_rows[i], .seconds = &r->row_seconds[i]};
	for (int i = 0; i < r->n_spans; i++) {
		struct bridge_span* s = &r->span[i];
		skip[i] = (struct mask){0};
		for (int l = 2 * s->first; l < 2 * s->last + 2; l++)
			mask_set(&skip[i], l, true);
		timed[n++] = (struct timed){.rows = 1, .skip = &skip[i], .seconds = &s->cost[0]};
		timed[n++] =
		    (struct timed){.rows = 1, .skip = &skip[i], .bridge = &s->bridge.bridge, .seconds = &s->cost[1]};
	}
	if (!time_all(r, timed, n, error))
		return false;
	for (int i = 0; i < r->n_spans; i++)
		for (int k = 0; k < 2; k++)
			r->span[i].cost[k] /= r->row_seconds[0];
	return true;
}

/* v(n): on straight lines between what was timed, or by a slope of a row. */
static double verify_cost(const struct bridge_trial* r, bool flat, int n) {
	int k = 0;
	while (k + 2 < BRIDGE_ROWS && timed_rows[k + 1] < n)
		k++;
	const double part = (double)(n - timed_rows[k]) / (timed_rows[k + 1] - timed_rows[k]);
	return flat
	           ? 1 + 0.006 * (n - 1)
	           : (r->row_seconds[k] + part * (r->row_seconds[k + 1] - r->row_seconds[k])) / r->row_seconds[0];
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
	for (int n = 1; n < CHAIN; n++) {
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
	const double alpha = k < 0 ? s->bare : s->learned[k].right, c = s->cost[k >= 0];
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
	cJSON *list = cJSON_AddArrayToObject(out, "bridges"), *rows = cJSON_AddArrayToObject(out, "rows");
	cJSON_AddNumberToObject(out, "positions", (double)r->positions);
	for (int i = 0; i < BRIDGE_ROWS; i++) {
		cJSON* one = cJSON_CreateObject();
		cJSON_AddNumberToObject(one, "rows", timed_rows[i]);
		cJSON_AddNumberToObject(one, "v", verify_cost(r, false, timed_rows[i]));
		cJSON_AddItemToArray(rows, one);
	}
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
	return list && rows;
}
