/* Sessions in a batch, on a backend without arithmetic and a clock of our own: a busy batch drafts less than
 * an idle one, and against any adversary it is not slower than plain steps of all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/optimizer/support_fake.h"

enum { MOST = 16 };

static bool often_right(struct fake* f, int position, float* p) {
	*p = 0.8f;
	return (fake_random(f) + (uint64_t)position) % 10 < 8;
}
/* Right until drafting is trusted, then wrong. */
static bool turns(struct fake* f, int position, float* p) {
	(void)f;
	*p = 0.95f;
	return position / 300 % 2 == 0;
}

struct batch_run {
	struct fake fake[MOST];
	struct session* session[MOST];
	struct session_work work[MOST];
	bool waits[MOST];
	struct speculation_budget budget; /* of all */
	int n;
	double now, v_slope, c;
	int64_t tokens, rows, full_passes;
};

static double v(const struct batch_run* b, int rows) { return 1 + b->v_slope * (rows - 1); }

/* One engine: what any session's pass cost, all know. */
static void share_costs(struct batch_run* b, const struct cost_model* cost) {
	for (int i = 0; i < b->n; i++)
		if (&b->fake[i].engine.cost != cost)
			b->fake[i].engine.cost = *cost;
}

static void finish_step(struct batch_run* b, int i) {
	struct swiftlet_step step;
	session_output(b->session[i], &step);
	b->tokens += step.n;
	assert_int_equal(step.stop, SWIFTLET_RUNNING);
}

/* The works of a kind in one pass, as the scheduler runs them. */
static bool run_kind(struct batch_run* b, bool drafts) {
	int rows = 0, n = 0;
	for (int i = 0; i < b->n; i++)
		if (b->waits[i] && (b->work[i].kind == WORK_DRAFT) == drafts) {
			rows += b->work[i].pass.n;
			n++;
		}
	if (n == 0)
		return false;
	const double seconds = (drafts ? b->c : 1) * v(b, rows);
	b->now += seconds;
	struct cost_model* cost = &b->fake[0].engine.cost;
	if (n > 1 && drafts)
		cost_see_draft(cost, (struct variant){.skip = &b->session[0]->mask},
		               seconds / cost_verify(cost, rows));
	else if (n > 1)
		cost_see_full(cost, rows, seconds, 0);
	if (!drafts) {
		b->rows += rows;
		b->full_passes++;
	}
	share_costs(b, cost);
	for (int i = 0; i < b->n; i++) {
		if (!b->waits[i] || (b->work[i].kind == WORK_DRAFT) != drafts)
			continue;
		struct error e;
		assert_true(session_run(b->session[i], &b->work[i], &e));
		b->waits[i] = false;
		if (session_absorb(b->session[i], &b->work[i], rows, seconds)) {
			finish_step(b, i);
			if (n == 1)
				share_costs(b, &b->fake[i].engine.cost);
		} else
			b->waits[i] = session_next(b->session[i], &b->work[i]);
	}
	return true;
}

static void turn(struct batch_run* b, double* rows) {
	for (int i = 0; i < b->n; i++) {
		const struct batch batch = {.sequences = b->n - 1, .rows = *rows * (b->n - 1), .drafting = b->n - 1};
		session_set_batch(b->session[i], &batch);
		session_begin_step(b->session[i]);
		b->waits[i] = session_next(b->session[i], &b->work[i]);
	}
	const int64_t before = b->rows;
	while (run_kind(b, true))
		;
	run_kind(b, false);
	*rows += 0.25 * ((double)(b->rows - before) / b->n - *rows);
}

/* Tokens a plain step's time of the batch, over what plain steps of all would bring; rows a pass and
 * sequence. */
static double run_batch(bool (*right)(struct fake*, int, float*), int n, double c, double slope, int tokens,
                        double* rows_each) {
	static struct batch_run b;
	memset(&b, 0, sizeof b);
	b.n = n;
	b.c = c;
	b.v_slope = slope;
	static const int32_t prompt[] = {1, 2, 3};
	char message[256];
	budget_open(&b.budget, -1);
	for (int i = 0; i < n; i++) {
		struct swiftlet_options o;
		struct swiftlet_request r;
		options_default(&o);
		assert_int_equal(swiftlet_options_set(&o, "drafters", "mask", message, sizeof message), 1);
		assert_int_equal(swiftlet_options_set(&o, "search", "off", message, sizeof message), 1);
		fake_open(&b.fake[i], right, c, slope);
		b.fake[i].random = (uint64_t)i * 977;
		b.session[i] = fake_session(&b.fake[i], &o);
		session_share_budget(b.session[i], &b.budget);
		const int half[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19};
		assert_true(swiftlet_session_set_mask(b.session[i], half, 10, half, 10, message, sizeof message));
		swiftlet_request_default(&r, &o);
		r.prompt = prompt;
		r.n_prompt = 3;
		r.max_tokens = 19000;
		struct swiftlet_step step;
		assert_true(swiftlet_session_start(b.session[i], &r, message, sizeof message));
		assert_true(swiftlet_session_step(b.session[i], &step, message, sizeof message));
	}
	double rows = 1;
	while (b.tokens < (int64_t)tokens * n)
		turn(&b, &rows);
	*rows_each = (double)b.rows / (double)b.full_passes / n;
	const double plain = (double)n / v(&b, n);
	const double gain = (double)b.tokens / b.now / plain;
	for (int i = 0; i < n; i++) {
		swiftlet_session_close(b.session[i]);
		fake_close(&b.fake[i]);
	}
	return gain;
}

static void adversaries_in_batches(void** state) {
	(void)state;
	static const struct {
		const char* name;
		bool (*right)(struct fake*, int, float*);
	} draft[] = {{"always wrong", fake_always_wrong}, {"turns", turns}, {"often right", often_right}};
	static const double slopes[] = {0.05, 0.2};
	static const int sizes[] = {2, 8, 16};
	for (size_t d = 0; d < 3; d++)
		for (size_t k = 0; k < 2; k++)
			for (size_t z = 0; z < 3; z++) {
				double rows;
				const double gain = run_batch(draft[d].right, sizes[z], 0.55, slopes[k], 1500, &rows);
				printf("%-12s slope %.2f, %2d sequences: %.3f of plain, %.2f rows each\n", draft[d].name,
				       slopes[k], sizes[z], gain, rows);
				assert_true(gain >= 0.98);
			}
}

/* With one account a batch tries sooner what pays, and loses no more by what does not. */
static void one_account_for_all(void** state) {
	(void)state;
	double rows;
	const double right = run_batch(fake_always_right, 8, 0.3, 0.01, 320, &rows);
	const double wrong = run_batch(fake_always_wrong, 8, 0.3, 0.01, 320, &rows);
	printf("320 tokens each: always right %.3f of plain, always wrong %.3f\n", right, wrong);
	assert_true(right >= 1.1 && wrong >= 0.98);
}

static void a_busy_batch_drafts_less(void** state) {
	(void)state;
	double rows[3], gain[3];
	static const int sizes[] = {2, 8, 16};
	for (int i = 0; i < 3; i++) {
		gain[i] = run_batch(fake_always_right, sizes[i], 0.3, 0.1, 1500, &rows[i]);
		printf("always right, %2d sequences: %.3f of plain, %.2f rows each\n", sizes[i], gain[i], rows[i]);
	}
	assert_true(rows[0] > rows[2]);
	assert_true(gain[0] > 1.2 && gain[0] > gain[2] && gain[2] >= 0.98);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(adversaries_in_batches),
	                                   cmocka_unit_test(one_account_for_all),
	                                   cmocka_unit_test(a_busy_batch_drafts_less)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
