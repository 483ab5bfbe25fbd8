/* The `prediction` drafter: a text that the output is likely to follow (the API's `prediction`, `run
 * --expect`).
 *
 * A cursor walks the expected text with the output. After a difference it looks for its place again: where
 * the output's last tokens stand in the expected text, nearest to the old place. Until it finds one, it
 * assumes that one token was replaced. The evidence is the number of tokens that have agreed since. */
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"

enum {
	REACH = 1024, /* tokens in both directions that are searched for the place */
	COMPARED = 8, /* tokens of the output that are compared at a place */
	SURE = 4,     /* after so many agreeing tokens the place is certain */
	NEAR = 16,    /* the distance that one agreeing token may bridge; k of them bridge k² times as much */
	RUNS = 8,
	LOST = 3 /* candidates after a difference: a token was replaced, inserted or left out */
};

struct follower {
	int at;  /* the expected text's next token */
	int run; /* tokens that have agreed since the last difference */
};

struct prediction {
	int capacity, n;
	struct follower cursor;
	int supposed;           /* the cursor if each differing token was replaced */
	int32_t tail[COMPARED]; /* the output's last tokens in order */
	int n_tail;
	struct follower row[MAX_ROWS];
	int32_t text[]; /* (capacity) */
};

static void* prediction_open(const struct drafter_setup* setup) {
	struct prediction* p = calloc(1, sizeof *p + (size_t)setup->context * sizeof p->text[0]);
	if (p)
		p->capacity = setup->context;
	return p;
}

static void prediction_begin(void* state, const struct drafter_text* text) {
	struct prediction* p = state;
	p->cursor = (struct follower){0, 0};
	p->n_tail = p->supposed = 0;
	p->n = least(text->n_expected, p->capacity);
	for (int i = 0; i < p->n; i++)
		p->text[i] = text->expected[i];
}

/* Counts the tokens at the output's end that stand before `at` in the expected text. */
static int count_agreeing(const struct prediction* p, int at) {
	int n = 0;
	while (n < p->n_tail && n < at && p->text[at - 1 - n] == p->tail[COMPARED - 1 - n])
		n++;
	return n;
}

/* The place that agrees longest for its distance, or else the assumed one. */
static void find_place(struct prediction* p) {
	const int from = p->supposed > REACH ? p->supposed - REACH : 1;
	const int to = p->supposed + REACH < p->n ? p->supposed + REACH : p->n;
	int best = 0;
	p->cursor = (struct follower){p->supposed < p->n ? p->supposed : p->n, 0};
	for (int at = from; at <= to; at++) {
		const int run = count_agreeing(p, at), score = NEAR * run * run - abs(at - p->supposed);
		if (run > 0 && score > best) {
			best = score;
			p->cursor = (struct follower){at, run};
		}
	}
}

static void follow_text(struct prediction* p, int32_t token) {
	memmove(p->tail, p->tail + 1, (COMPARED - 1) * sizeof *p->tail);
	p->tail[COMPARED - 1] = token;
	p->n_tail += p->n_tail < COMPARED;
	p->supposed++;
	if (p->cursor.at < p->n && p->text[p->cursor.at] == token) {
		p->cursor.at++;
		p->cursor.run++;
	} else
		find_place(p);
	if (p->cursor.run >= SURE)
		p->supposed = p->cursor.at;
}

static void prediction_append(void* state, const int32_t* token, int n) {
	struct prediction* p = state;
	for (int i = 0; p->n > 0 && i < n; i++)
		follow_text(p, token[i]);
}

/* ---- candidates ----------------------------------------------------------------------------- */

static int classify_run(int run) {
	static const int lowest[RUNS] = {0, 1, 2, 3, 5, 9, 17, 33};
	return evidence_class(lowest, RUNS, run);
}

static float prediction_prior(int bin, int rank) {
	static const float by_run[RUNS] = {0.5f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 0.95f, 0.97f};
	return rank == 0 ? by_run[bin] : 0.2f;
}

static int add_candidate(const struct prediction* p, int at, int run, struct candidate* out, int n) {
	return at >= 0 && at < p->n ? candidate_add(out, n, p->text[at], classify_run(run)) : n;
}

static int prediction_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	struct prediction* p = state;
	if (p->n == 0)
		return 0;
	struct follower* cursor = &p->row[row];
	if (row == 0)
		*cursor = p->cursor;
	else { /* rows outside of the expected text are not followed */
		const struct follower before = p->row[tree->parent[row]];
		const bool agrees = before.at < p->n && p->text[before.at] == tree->token[row];
		*cursor = agrees ? (struct follower){before.at + 1, before.run + 1} : (struct follower){p->n, 0};
	}
	int n = most > 0 ? add_candidate(p, cursor->at, cursor->run, out, 0) : 0;
	const bool lost = row == 0 && cursor->run == 0 && cursor->at > 0;
	if (lost && most >= LOST)
		n = add_candidate(p, cursor->at + 1, 0, out, add_candidate(p, cursor->at - 1, 0, out, n));
	return n;
}

const struct drafter drafter_prediction = {.bins = RUNS,
                                           .prior = prediction_prior,
                                           .open = prediction_open,
                                           .close = free,
                                           .begin = prediction_begin,
                                           .append = prediction_append,
                                           .extend = prediction_extend};
