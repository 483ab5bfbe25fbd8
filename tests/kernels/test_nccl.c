/* NCCL that is found, that is too old, that lacks what is needed, and that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cuda/nccl.h"

static const char install[] =
    "install libnccl2 of NVIDIA's packages, or `pip install nvidia-nccl-cu12` and name its libnccl.so.2 in "
    "SWIFTLET_NCCL";

static bool look_for(const char* library, const char* version, struct nccl_calls* calls,
                     struct error* error) {
	setenv("SWIFTLET_NCCL", library, 1);
	setenv("FAKE_NCCL_VERSION", version, 1);
	return nccl_find(calls, error);
}

/* The error names the place and the remedy. */
static void expect_refusal(const char* library, const char* version, const char* words) {
	struct nccl_calls calls;
	struct error error;
	assert_false(look_for(library, version, &calls, &error));
	if (!strstr(error.message, library) || !strstr(error.message, words) || !strstr(error.message, install))
		fail_msg("%s", error.message);
}

static void one_that_is_new_enough_is_taken(void** state) {
	(void)state;
	static const char* const version[] = {"21800", "22005", "23203", "30001"};
	for (size_t i = 0; i < sizeof version / sizeof *version; i++) {
		struct nccl_calls calls = {0};
		struct error error;
		if (!look_for(FAKE_NCCL, version[i], &calls, &error))
			fail_msg("%s", error.message);
		assert_true(calls.comm_init_all && calls.comm_destroy && calls.comm_abort &&
		            calls.comm_get_async_error && calls.all_gather && calls.group_start && calls.group_end &&
		            calls.get_error_string);
	}
}

static void one_that_is_too_old_is_named(void** state) {
	(void)state;
	expect_refusal(FAKE_NCCL, "21705", " is NCCL 2.17: 2.18 or later is needed; ");
	expect_refusal(FAKE_NCCL, "2708", " is NCCL 2.7: 2.18 or later is needed; ");
}

static void what_is_no_nccl_is_said(void** state) {
	(void)state;
	expect_refusal(NO_NCCL, "22005", " is not a version of NCCL that this program knows: ");
	expect_refusal("libm.so.6", "22005", " is not a version of NCCL that this program knows: ");
	expect_refusal("libnowhere-at-all.so.2", "22005",
	               "several GPUs communicate through NCCL, which was not found (");
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_that_is_new_enough_is_taken),
	    cmocka_unit_test(one_that_is_too_old_is_named),
	    cmocka_unit_test(what_is_no_nccl_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
