/* The search over levels, on made-up scores: points and masks agree, the share that is read comes out as
 * asked, better levels are found than those it starts from, costs move the share, and what is given stays.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gp/random.h"
#include "optimizer/level_point.h"
#include "optimizer/search.h"

enum { BLOCKS = 24, WINDOW = 64 };

static const double bytes[COLUMN_KINDS] = {1, 0.6, 6, 3};
static const struct levels first = {{{50, 50, 50, 75}, {50, 50, 50, 75}, {50, 50, 50, 75}}};
static const struct mask no_mask = {.word = {0}};

static struct level_model a_model(void) {
	struct level_model m = {.blocks = BLOCKS};
	memcpy(m.bytes, bytes, sizeof bytes);
	return m;
}

static void masks_read_what_their_point_describes(void** state) {
	(void)state;
	const struct level_model m = a_model();
	struct gp_random random = {1};
	for (int try = 0; try < 200; try++) {
		double x[LEVEL_DIMS];
		for (int i = 0; i < LEVEL_DIMS; i++)
			x[i] = gp_uniform(&random);
		x[LEVEL_READ] *= 0.6; /* beyond it some maps are whole, and the others cannot make up for it */
		const struct mask mask = level_mask(&m, x);
		const double wanted = pow(LEVEL_LEAST, 1 - x[LEVEL_READ]);
		assert_true(fabs(level_share(&m, &mask, &first) - wanted) < 0.01);
		assert_int_equal(mask_count(&mask), 0);
		/* more of a kind for a larger coordinate */
		double more[LEVEL_DIMS];
		memcpy(more, x, sizeof x);
		more[LEVEL_DOWN] = fmin(1, x[LEVEL_DOWN] + 0.2);
		const struct mask other = level_mask(&m, more);
		assert_true(other.levels.left_out[1][COLUMN_DOWN] <= mask.levels.left_out[1][COLUMN_DOWN]);
		assert_true(other.levels.left_out[1][COLUMN_MLP] >= mask.levels.left_out[1][COLUMN_MLP]);
	}
}

/* If no map is whole or nearly empty, a mask's point is the one that it came from. */
static void points_come_back(void** state) {
	(void)state;
	const struct level_model m = a_model();
	struct gp_random random = {2};
	double x[LEVEL_DIMS], back[LEVEL_DIMS];
	for (int try = 0; try < 50; try++) {
		for (int i = 0; i < LEVEL_DIMS; i++)
			x[i] = 0.35 + 0.3 * gp_uniform(&random);
		x[LEVEL_READ] = 0.4;
		const struct mask mask = level_mask(&m, x);
		level_point(&m, &mask, &first, back);
		for (int i = 0; i < LEVEL_DIMS; i++)
			assert_true(fabs(back[i] - x[i]) < 0.05);
	}
	level_point(&m, &no_mask, &first, x);
	const struct mask start = level_mask(&m, x);
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			assert_true(abs(start.levels.left_out[d][k] - first.left_out[d][k]) <= 1);
}

/* ---- a search ------------------------------------------------------------------------------- */

/* Attention wants more than its share and down less, the last third more; and all want more. */
static double level_truth(const double* x) {
	const double off[] = {x[LEVEL_ATTENTION] - 0.8, x[LEVEL_OUTPUT] - 0.5, x[LEVEL_DOWN] - 0.3,
	                      x[LEVEL_FIRST] - 0.4, x[LEVEL_LAST] - 0.65};
	double y = -0.2 - 1.2 * pow(1 - x[LEVEL_READ], 3);
	for (int i = 0; i < 5; i++)
		y -= 0.8 * off[i] * off[i];
	return y;
}

static double hits_truth(double level) { return fmin(1, fmax(0, 1 + 0.3 * level)); }

struct scoring {
	struct level_model model;
	struct gp_random random;
	double noise, offset; /* of a row; of the window at hand */
};

static void score_proposal(struct scoring* c, struct search* s, struct proposal* p) {
	double x[LEVEL_DIMS];
	level_point(&c->model, &p->mask, &first, x);
	const double level = level_truth(x);
	int matches = 0;
	for (int i = 0; i < WINDOW; i++)
		matches += gp_uniform(&c->random) < hits_truth(level + c->offset);
	p->log_probability = level + c->offset + c->noise / sqrt(WINDOW) * gp_normal(&c->random);
	search_observe(s, p, matches, WINDOW);
}

static struct search* open_levels(struct search_options o) {
	o.blocks = BLOCKS;
	o.start = first;
	o.max_steps = o.max_steps > 0 ? o.max_steps : 1000;
	o.patience = o.patience > 0 ? o.patience : 1000;
	o.levels = true;
	struct error error;
	struct search* s = search_open(&o, &error);
	assert_non_null(s);
	return s;
}

/* All of the layers in plain steps, and what a draft step costs beside them. */
static void set_costs(struct search* s, double layers, double rest) {
	struct search_costs costs = {.fixed = rest, .max_draft = 16};
	double sum = 0;
	for (int k = 0; k < COLUMN_KINDS; k++)
		sum += bytes[k];
	for (int k = 0; k < COLUMN_KINDS; k++)
		costs.channel[k] = layers * bytes[k] / sum / BLOCKS;
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.1 * (n - 1);
	search_set_costs(s, &costs);
}

static void run_steps(struct scoring* c, struct search* s, int n) {
	for (int i = 0; i < n; i++) {
		struct proposal p;
		if (i % 12 == 0) {
			c->offset = 0.2 * gp_normal(&c->random);
			search_window(s, i / 12 + 1, WINDOW);
		}
		assert_true(search_propose(s, &p));
		score_proposal(c, s, &p);
	}
}

static double truth_of_best(const struct scoring* c, const struct search* s) {
	double x[LEVEL_DIMS];
	const struct mask best = search_best(s, NULL);
	level_point(&c->model, &best, &first, x);
	return level_truth(x);
}

static void finds_better_levels(void** state) {
	(void)state;
	static const int interval[] = {0, 1, 2};
	double start[LEVEL_DIMS], found[3] = {0};
	struct scoring c = {.model = a_model(), .noise = 0.4};
	level_point(&c.model, &no_mask, &first, start);
	for (int way = 0; way < 3; way++)
		for (uint64_t seed = 1; seed <= 5; seed++) {
			struct search* s = open_levels(
			    (struct search_options){.bayes_interval = interval[way], .given_share = true, .seed = seed});
			struct proposal p;
			c.random.state = seed;
			search_window(s, 1, WINDOW);
			assert_false(search_propose(s, &p)); /* it does not know what maps weigh */
			set_costs(s, 1, 0);
			run_steps(&c, s, 100);
			const struct mask best = search_best(s, NULL);
			assert_true(fabs(level_share(&c.model, &best, &first) - level_share(&c.model, &no_mask, &first)) <
			            0.01);
			assert_int_equal(mask_count(&best), 0); /* no span is known */
			found[way] += truth_of_best(&c, s) / 5;
			search_close(s);
		}
	/* of the 0.2 that are to be had, by 64 rows that stray by .4 each */
	assert_true(found[0] > level_truth(start) - 0.001);
	assert_true(found[1] > level_truth(start) + 0.04);
	assert_true(found[2] > level_truth(start) + 0.06);
}

/* Dear layers: less is read. Cheap ones: more. */
static void costs_move_the_share(void** state) {
	(void)state;
	double share[2];
	for (int dear = 0; dear < 2; dear++) {
		struct scoring c = {.model = a_model(), .noise = 0.3, .random = {9}};
		struct search* s = open_levels((struct search_options){.bayes_interval = 2, .seed = 4});
		set_costs(s, dear ? 0.9 : 0.15, 0.05);
		run_steps(&c, s, 100);
		const struct mask best = search_best(s, NULL);
		share[dear] = level_share(&c.model, &best, &first);
		assert_true(search_speedup(s) > 1);
		assert_true(search_expected(s) > 0.5 && search_expected(s) < 1);
		search_close(s);
	}
	assert_true(share[0] > share[1] + 0.1);
}

/* A mask that was given drafts as it is until it was scored and another is better. */
static void a_given_mask_is_scored_first(void** state) {
	(void)state;
	struct scoring c = {.model = a_model(), .noise = 0.3};
	struct search* s = open_levels((struct search_options){.bayes_interval = 2, .given_share = true});
	struct mask given = {.has_levels = true}, best;
	struct proposal p;
	double matchness;
	memset(&given.levels, 60, sizeof given.levels);
	mask_set(&given, 6, true); /* an attention alone: no point has that */
	set_costs(s, 1, 0);
	search_adopt(s, &given);
	best = search_best(s, &matchness);
	assert_true(mask_equal(&best, &given) && isnan(matchness) && isnan(search_expected(s)) &&
	            search_waits(s));
	search_window(s, 1, WINDOW);
	assert_true(search_propose(s, &p) && p.kind == PROPOSAL_START && p.step == 0 &&
	            mask_equal(&p.mask, &given));
	score_proposal(&c, s, &p);
	assert_false(search_waits(s));
	best = search_best(s, NULL);
	assert_true(mask_equal(&best, &given));
	assert_true(search_propose(s, &p) && p.step == 1);
	const double before = search_expected(s);
	search_see_draft(s, &given, 64, 64);
	assert_true(search_expected(s) > before);
	search_see_draft(s, &given, 65, 64); /* impossible: ignored */
	search_settle(s);
	assert_false(search_propose(s, &p));
	assert_int_equal(search_state(s), SEARCH_CONFIRMED);
	search_close(s);
}

/* The record forgets, the best one stays; a search ends by its rules. */
static void goes_on_and_ends(void** state) {
	(void)state;
	struct scoring c = {.model = a_model(), .noise = 0.3, .random = {3}};
	struct search* s = open_levels(
	    (struct search_options){.bayes_interval = 0, .given_share = true, .max_steps = 400, .seed = 2});
	struct proposal p;
	set_costs(s, 1, 0);
	run_steps(&c, s, 300);
	while (search_propose(s, &p))
		score_proposal(&c, s, &p);
	assert_int_equal(search_steps(s), 400);
	assert_int_equal(search_state(s), SEARCH_EXHAUSTED);
	double start[LEVEL_DIMS];
	level_point(&c.model, &no_mask, &first, start);
	assert_true(truth_of_best(&c, s) > level_truth(start) - 0.05);
	search_close(s);
	s = open_levels(
	    (struct search_options){.bayes_interval = 2, .given_share = true, .patience = 3, .seed = 2});
	set_costs(s, 1, 0);
	search_window(s, 1, WINDOW);
	for (int i = 0; i < 100 && search_propose(s, &p); i++) {
		p.log_probability = i == 0 ? 0 : -1; /* nothing is better than the start */
		search_observe(s, &p, 32, WINDOW);
	}
	assert_int_equal(search_state(s), SEARCH_PATIENCE);
	search_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(masks_read_what_their_point_describes),
	    cmocka_unit_test(points_come_back),
	    cmocka_unit_test(finds_better_levels),
	    cmocka_unit_test(costs_move_the_share),
	    cmocka_unit_test(a_given_mask_is_scored_first),
	    cmocka_unit_test(goes_on_and_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
