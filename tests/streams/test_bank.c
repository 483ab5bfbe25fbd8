/* The bank as data: what is found, merged, evicted and offered. */
#include "streams/memory/bank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mask mask_of(int a, int b) {
	struct mask m = {.word = {0}};
	mask_set(&m, a, true);
	mask_set(&m, b, true);
	return m;
}

static uint64_t seed = 1;
static float noise(void) {
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (float)((double)(seed >> 11) * 0x1p-53 * 2 - 1);
}

/* A prompt's state: large part common to all texts, a smaller one of its cluster, and its own noise. */
static void state_of(float* state, int dim, int cluster) {
	uint64_t own = seed;
	seed = 7;
	for (int i = 0; i < dim; i++)
		state[i] = 5 * noise();
	seed = (uint64_t)cluster + 100;
	for (int i = 0; i < dim; i++)
		state[i] += noise();
	seed = own;
	for (int i = 0; i < dim; i++)
		state[i] += 0.5f * noise();
}

static void clusters_are_separated(int dim) {
	struct bank* b = bank_open(64);
	float* state = malloc((size_t)dim * sizeof *state);
	struct bank_signature s;
	for (int cluster = 0; cluster < 4; cluster++)
		for (int prompt = 0; prompt < 10; prompt++) {
			bank_tick(b);
			state_of(state, dim, cluster);
			bank_signature(&s, state, dim);
			const struct mask m = mask_of(2 + cluster, 10 + cluster);
			bank_add(b, bank_entry(b, NULL, 0, &m), &(struct bank_record){.tokens = 32}, &s);
		}
	int right = 0;
	for (int prompt = 0; prompt < 100; prompt++) {
		const int cluster = prompt % 4;
		state_of(state, dim, cluster);
		bank_signature(&s, state, dim);
		const struct bank_entry* e = bank_find(b, NULL, &s);
		right += e && mask_has(&e->mask, 2 + cluster);
	}
	assert_true(right >= 98);
	/* a cluster never seen fits none */
	int foreign = 0;
	for (int prompt = 0; prompt < 20; prompt++) {
		state_of(state, dim, 9);
		bank_signature(&s, state, dim);
		foreign += bank_find(b, NULL, &s) != NULL;
	}
	assert_true(foreign <= 1);
	free(state);
	bank_close(b);
}

static void signatures(void** unused) {
	(void)unused;
	clusters_are_separated(64);
	clusters_are_separated(1024); /* projected */
}

static void labels_decide(void** unused) {
	(void)unused;
	struct bank* b = bank_open(8);
	const struct mask m = mask_of(2, 3), n = mask_of(4, 5), o = mask_of(6, 7);
	bank_entry(b, "code", 0, &m);
	bank_tick(b);
	bank_entry(b, "math", 0, &n);
	bank_tick(b);
	bank_entry(b, "math", 0, &o);
	assert_true(mask_equal(&bank_find(b, "code", NULL)->mask, &m));
	assert_true(mask_equal(&bank_find(b, "math", NULL)->mask, &o)); /* the last used */
	bank_tick(b);
	bank_entry(b, "math", 0, &n);
	assert_true(mask_equal(&bank_find(b, "math", NULL)->mask, &n));
	assert_null(bank_find(b, "story", NULL));
	assert_null(bank_find(b, NULL, NULL));
	/* a label that differs is not overruled by the signature */
	float state[8] = {1, 2, 3};
	struct bank_signature s;
	bank_signature(&s, state, 8);
	bank_add(b, bank_find(b, "code", NULL), &(struct bank_record){.tokens = 1}, &s);
	assert_null(bank_find(b, "story", &s));
	assert_true(mask_equal(&bank_find(b, NULL, &s)->mask, &m));
	bank_close(b);
}

static void coinciding_entries_are_one(void** unused) {
	(void)unused;
	struct bank* b = bank_open(8);
	const struct mask m = mask_of(2, 3);
	struct bank_entry* e = bank_entry(b, "code", 0, &m);
	bank_add(b, e, &(struct bank_record){.tokens = 10, .matches = 3, .rows = 4}, NULL);
	assert_ptr_equal(bank_entry(b, "code", 0, &m), e);
	assert_int_equal(b->n, 1);
	bank_entry(b, "math", 0, &m); /* another task's record is its own */
	assert_int_equal(b->n, 2);
	struct bank_entry stored = {.task = "code", .mask = m, .record = {.tokens = 5, .matches = 1, .rows = 4}};
	assert_true(bank_restore(b, &stored));
	assert_int_equal(b->n, 2);
	e = bank_entry(b, "code", 0, &m);
	assert_int_equal(e->record.tokens, 15);
	assert_int_equal(e->record.rows, 8);
	assert_int_equal(e->unsaved.tokens, 10); /* what came from the store is not stored again */
	bank_close(b);
}

/* A process finds what another learned of texts without labels: the clusters stay apart, each with all its
 * masks, though they share one mask. */
static void kinds_outlive_a_restart(void** unused) {
	(void)unused;
	enum { DIM = 64, CLUSTERS = 3, MASKS = 3 };
	struct bank *b = bank_open(64), *later = bank_open(64);
	float state[DIM];
	struct bank_signature s;
	int64_t cluster[CLUSTERS] = {0};
	for (int prompt = 0; prompt < 90; prompt++) {
		const int k = prompt % CLUSTERS, which = prompt / CLUSTERS % MASKS;
		state_of(state, DIM, k);
		bank_signature(&s, state, DIM);
		const struct mask m = which == 0 ? mask_of(1, 2) : mask_of(10 + k, 20 + which);
		struct bank_entry* e = bank_entry(b, NULL, cluster[k] ? cluster[k] : -1, &m);
		cluster[k] = e->cluster;
		bank_add(b, e, &(struct bank_record){.tokens = which == 1 ? 50 : 5}, &s);
	}
	assert_int_equal(b->n, CLUSTERS * MASKS);
	for (int i = 0; i < b->n; i++)
		assert_true(bank_restore(later, &b->entry[i]));
	assert_int_equal(later->n, CLUSTERS * MASKS);
	for (int prompt = 0; prompt < 30; prompt++) {
		const int k = prompt % CLUSTERS;
		state_of(state, DIM, k);
		bank_signature(&s, state, DIM);
		const struct bank_entry* e = bank_find(later, NULL, &s);
		assert_non_null(e);
		assert_int_equal(e->cluster, cluster[k]);
		assert_true(mask_has(&e->mask, 10 + k) && mask_has(&e->mask, 21)); /* the one that served most */
	}
	/* a cluster that is new to it is nobody else's */
	const struct mask m = mask_of(1, 2);
	const int64_t fresh = bank_entry(later, NULL, -1, &m)->cluster;
	for (int k = 0; k < CLUSTERS; k++)
		assert_int_not_equal(fresh, cluster[k]);
	bank_close(later);
	bank_close(b);
}

/* Whether a mask with this sub-layer is there. */
static bool holds(const struct bank* b, int sub_layer) {
	bool found = false;
	for (int i = 0; i < b->n; i++)
		found |= mask_has(&b->entry[i].mask, sub_layer);
	return found;
}

static void the_least_useful_goes_first(void** unused) {
	(void)unused;
	struct bank* b = bank_open(4);
	const int tokens[] = {500, 20, 300, 400};
	for (int i = 0; i < 4; i++) {
		const struct mask m = mask_of(i, 20);
		bank_add(b, bank_entry(b, NULL, 0, &m), &(struct bank_record){.tokens = tokens[i]}, NULL);
	}
	struct mask m = mask_of(9, 20);
	bank_entry(b, "new", 0, &m);
	assert_int_equal(b->n, 4);
	assert_int_equal(b->evictions, 1);
	assert_false(holds(b, 1));
	bank_remove(b, bank_find(b, "new", NULL)->id);
	assert_int_equal(b->n, 3);
	/* age counts: 500 tokens long ago are less than 300 of today */
	for (int i = 0; i < 2000; i++)
		bank_tick(b);
	m = mask_of(2, 20);
	bank_entry(b, NULL, 0, &m);
	m = mask_of(3, 20);
	bank_entry(b, NULL, 0, &m);
	m = mask_of(11, 20);
	bank_add(b, bank_entry(b, NULL, 0, &m), &(struct bank_record){.tokens = 100}, NULL);
	m = mask_of(12, 20);
	bank_entry(b, NULL, 0, &m);
	assert_false(holds(b, 0));
	/* a stored entry of less use than all that are here is not taken */
	struct bank_entry stored = {.mask = mask_of(13, 20)};
	assert_false(bank_restore(b, &stored) && b->n > 4);
	bank_close(b);
}

static void one_task_does_not_crowd_out_the_others(void** unused) {
	(void)unused;
	struct bank* b = bank_open(64);
	struct mask m = mask_of(1, 2);
	bank_add(b, bank_entry(b, "rare", 0, &m), &(struct bank_record){.tokens = 5}, NULL);
	for (int i = 0; i < 200; i++) {
		m = mask_of(i % 60, 100 + i / 60);
		bank_tick(b);
		bank_add(b, bank_entry(b, "busy", 0, &m), &(struct bank_record){.tokens = 1000}, NULL);
	}
	assert_int_equal(b->n, BANK_PER_CLUSTER + 1);
	assert_non_null(bank_find(b, "rare", NULL));
	/* a converged mask is what its task is served with, whatever was tried since */
	struct bank_entry* converged = bank_find(b, "busy", NULL);
	converged->converged = true;
	const int64_t id = converged->id;
	for (int i = 0; i < 3; i++) {
		m = mask_of(i, 200);
		bank_tick(b);
		bank_entry(b, "busy", 0, &m);
	}
	assert_int_equal(bank_find(b, "busy", NULL)->id, id);
	bank_close(b);
}

/* Entries that another process stored are merged with those not saved here, any number of times. */
static void what_others_stored_is_taken_in(void** unused) {
	(void)unused;
	struct bank* b = bank_open(4);
	const struct mask here = mask_of(2, 5), new = mask_of(4, 7);
	struct bank_signature s = {.prompts = 1};
	s.value[0] = 1;
	bank_add(b, bank_entry(b, "math", 0, &here), &(struct bank_record){.tokens = 10}, &s);
	struct bank_entry stored = {.task = "math", .mask = here, .converged = true};
	stored.record.tokens = 100;
	stored.signature = s;
	stored.signature.prompts = 8;
	for (int i = 0; i < 3; i++)
		assert_true(bank_restore(b, &stored));
	struct bank_entry* e = bank_entry(b, "math", 0, &here);
	assert_int_equal(b->n, 1);
	assert_int_equal(e->record.tokens, 110);
	assert_int_equal(e->unsaved.tokens, 10);
	assert_true(e->converged && e->changed && fabs(e->signature.prompts - 9) < 1e-9);
	stored.mask = new;
	assert_true(bank_restore(b, &stored) && b->n == 2);
	assert_int_equal(bank_entry(b, "math", 0, &new)->record.tokens, 100);
	bank_close(b);
}

static void odd_states_are_ignored(void** unused) {
	(void)unused;
	struct bank_signature s;
	float state[4] = {1, INFINITY, 0, 0};
	bank_signature(&s, state, 4);
	assert_true(s.prompts < 0.5);
	bank_signature(&s, NULL, 4);
	assert_true(s.prompts < 0.5);
	float zero[300] = {0};
	bank_signature(&s, zero, 300);
	assert_true(s.prompts < 0.5);
	assert_null(bank_open(0));
	assert_null(bank_open(65));
}

/* A crowded cluster's next mask is asked for with the label of the entry that stands last, as memory does. */
static void a_label_of_the_banks_own_stays(void** unused) {
	struct bank* b = bank_open(BANK_CAPACITY);
	struct bank_entry* e = NULL;
	(void)unused;
	for (int i = 0; i < 3 * BANK_PER_CLUSTER; i++) {
		struct mask mask = {.word = {0}};
		mask_set(&mask, 2 + i, true);
		e = bank_entry(b, e ? e->task : "letters", e ? e->cluster : 0, &mask);
		assert_string_equal(e->task, "letters");
	}
	assert_int_equal(b->n, BANK_PER_CLUSTER);
	bank_close(b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_label_of_the_banks_own_stays),
	    cmocka_unit_test(signatures),
	    cmocka_unit_test(labels_decide),
	    cmocka_unit_test(coinciding_entries_are_one),
	    cmocka_unit_test(kinds_outlive_a_restart),
	    cmocka_unit_test(the_least_useful_goes_first),

	    cmocka_unit_test(one_task_does_not_crowd_out_the_others),
	    cmocka_unit_test(what_others_stored_is_taken_in),
	    cmocka_unit_test(odd_states_are_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
