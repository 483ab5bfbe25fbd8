/* The bank as data: what is found, merged, evicted and offered. */
#include "streams/memory/bank.h"

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

static void labels_decide(void** unused) {
	(void)unused;
	struct bank* b = bank_open(8);
	const struct mask m = mask_of(2, 3), n = mask_of(4, 5), o = mask_of(6, 7);
	bank_entry(b, "code", &m);
	bank_tick(b);
	bank_entry(b, "math", &n);
	bank_tick(b);
	bank_entry(b, "math", &o);
	assert_true(mask_equal(&bank_find(b, "code")->mask, &m));
	assert_true(mask_equal(&bank_find(b, "math")->mask, &o)); /* the last used */
	bank_tick(b);
	bank_entry(b, "math", &n);
	assert_true(mask_equal(&bank_find(b, "math")->mask, &n));
	assert_null(bank_find(b, "story"));
	assert_null(bank_find(b, NULL));
	assert_null(bank_find(b, ""));
	/* texts without a label are a task of their own */
	bank_entry(b, NULL, &n);
	assert_true(mask_equal(&bank_find(b, "")->mask, &n));
	bank_add(bank_find(b, "code"), &(struct bank_record){.tokens = 1});
	assert_true(mask_equal(&bank_most_used(b)->mask, &m));
	bank_close(b);
}

static void coinciding_entries_are_one(void** unused) {
	(void)unused;
	struct bank* b = bank_open(8);
	const struct mask m = mask_of(2, 3);
	struct bank_entry* e = bank_entry(b, "code", &m);
	bank_add(e, &(struct bank_record){.tokens = 10, .matches = 3, .rows = 4});
	assert_ptr_equal(bank_entry(b, "code", &m), e);
	assert_int_equal(b->n, 1);
	bank_entry(b, "math", &m); /* another task's record is its own */
	assert_int_equal(b->n, 2);
	struct bank_entry stored = {.task = "code", .mask = m, .record = {.tokens = 5, .matches = 1, .rows = 4}};
	assert_true(bank_restore(b, &stored));
	assert_int_equal(b->n, 2);
	e = bank_entry(b, "code", &m);
	assert_int_equal(e->record.tokens, 15);
	assert_int_equal(e->record.rows, 8);
	assert_int_equal(e->unsaved.tokens, 10); /* what came from the store is not stored again */
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
		bank_add(bank_entry(b, NULL, &m), &(struct bank_record){.tokens = tokens[i]});
	}
	struct mask m = mask_of(9, 20);
	bank_entry(b, "new", &m);
	assert_int_equal(b->n, 4);
	assert_int_equal(b->evictions, 1);
	assert_false(holds(b, 1));
	bank_remove(b, bank_find(b, "new")->id);
	assert_int_equal(b->n, 3);
	/* age counts: 500 tokens long ago are less than 300 of today */
	for (int i = 0; i < 2000; i++)
		bank_tick(b);
	m = mask_of(2, 20);
	bank_entry(b, NULL, &m);
	m = mask_of(3, 20);
	bank_entry(b, NULL, &m);
	m = mask_of(11, 20);
	bank_add(bank_entry(b, NULL, &m), &(struct bank_record){.tokens = 100});
	m = mask_of(12, 20);
	bank_entry(b, NULL, &m);
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
	bank_add(bank_entry(b, "rare", &m), &(struct bank_record){.tokens = 5});
	for (int i = 0; i < 200; i++) {
		m = mask_of(i % 60, 100 + i / 60);
		bank_tick(b);
		bank_add(bank_entry(b, "busy", &m), &(struct bank_record){.tokens = 1000});
	}
	assert_int_equal(b->n, BANK_PER_TASK + 1);
	assert_non_null(bank_find(b, "rare"));
	/* a converged mask is what its task is served with, whatever was tried since */
	struct bank_entry* converged = bank_find(b, "busy");
	converged->converged = true;
	const int64_t id = converged->id;
	for (int i = 0; i < 3; i++) {
		m = mask_of(i, 200);
		bank_tick(b);
		bank_entry(b, "busy", &m);
	}
	assert_int_equal(bank_find(b, "busy")->id, id);
	bank_close(b);
}

/* Entries that another process stored are merged with those not saved here, any number of times. */
static void what_others_stored_is_taken_in(void** unused) {
	(void)unused;
	struct bank* b = bank_open(4);
	const struct mask here = mask_of(2, 5), new = mask_of(4, 7);
	bank_add(bank_entry(b, "math", &here), &(struct bank_record){.tokens = 10});
	struct bank_entry stored = {.task = "math", .mask = here, .converged = true};
	stored.record.tokens = 100;
	for (int i = 0; i < 3; i++)
		assert_true(bank_restore(b, &stored));
	struct bank_entry* e = bank_entry(b, "math", &here);
	assert_int_equal(b->n, 1);
	assert_int_equal(e->record.tokens, 110);
	assert_int_equal(e->unsaved.tokens, 10);
	assert_true(e->converged && e->changed);
	stored.mask = new;
	assert_true(bank_restore(b, &stored) && b->n == 2);
	assert_int_equal(bank_entry(b, "math", &new)->record.tokens, 100);
	bank_close(b);
}

static void capacity_is_checked(void** unused) {
	(void)unused;
	assert_null(bank_open(0));
	assert_null(bank_open(65));
}

/* A crowded task's next mask is asked for with the label of the entry that stands last, as memory does. */
static void a_label_of_the_banks_own_stays(void** unused) {
	struct bank* b = bank_open(BANK_CAPACITY);
	struct bank_entry* e = NULL;
	(void)unused;
	for (int i = 0; i < 3 * BANK_PER_TASK; i++) {
		struct mask mask = {.word = {0}};
		mask_set(&mask, 2 + i, true);
		e = bank_entry(b, e ? e->task : "letters", &mask);
		assert_string_equal(e->task, "letters");
	}
	assert_int_equal(b->n, BANK_PER_TASK);
	bank_close(b);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_label_of_the_banks_own_stays),
	    cmocka_unit_test(labels_decide),
	    cmocka_unit_test(coinciding_entries_are_one),
	    cmocka_unit_test(the_least_useful_goes_first),

	    cmocka_unit_test(one_task_does_not_crowd_out_the_others),
	    cmocka_unit_test(what_others_stored_is_taken_in),
	    cmocka_unit_test(capacity_is_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
