/* How many threads the process may run: its CPUs, and the limits of control groups. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cpu/cores.h"

static char root[] = "/tmp/swiftlet-cores-XXXXXX";

static void write_limit(const char* group, const char* text) {
	char path[256];
	snprintf(path, sizeof path, "%s%s", root, group);
	assert_true(mkdir(path, 0700) == 0 || access(path, W_OK) == 0);
	snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
	FILE* f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_root(void** state) {
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void** state) {
	(void)state;
	static const char* const left[] = {"/a/b/cpu.max", "/a/b", "/a/cpu.max", "/a", "/cpu.max", ""};
	for (int i = 0; i < 6; i++) {
		char path[256];
		snprintf(path, sizeof path, "%s%s", root, left[i]);
		if (remove(path) != 0)
			return -1;
	}
	return 0;
}

static void groups_limit(void** state) {
	(void)state;
	assert_int_equal(cores_of_group(root, "/a/b"), 0); /* no such group */
	write_limit("", "max 100000\n");
	write_limit("/a", "max 100000\n");
	write_limit("/a/b", "max 100000\n");
	assert_int_equal(cores_of_group(root, "/a/b"), 0);
	write_limit("/a/b", "350000 100000\n");
	assert_int_equal(cores_of_group(root, "/a/b"), 4); /* three and a half */
	assert_int_equal(cores_of_group(root, "/a"), 0);
	write_limit("/a", "200000 100000\n"); /* the group above has less */
	assert_int_equal(cores_of_group(root, "/a/b"), 2);
	write_limit("", "50000 100000\n"); /* in a container its own group is the root */
	assert_int_equal(cores_of_group(root, "/"), 1);
	assert_int_equal(cores_of_group(root, "/a/b"), 1);
}

static void nonsense_is_no_limit(void** state) {
	(void)state;
	static const char* const text[] = {
	    "", "0 100000", "-1 100000", "100000 0", "max", "a hundred", "9223372036854775807 1"};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		write_limit("", text[i]);
		assert_int_equal(cores_of_group(root, "/"), 0);
	}
}

/* A process bound to one CPU starts one thread. */
static void affinity_limits(void** state) {
	(void)state;
	cpu_set_t all, one;
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	const int before = cores_available();
	assert_in_range(before, 1, CPU_COUNT(&all));
	CPU_ZERO(&one);
	for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(cores_available(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	assert_int_equal(cores_available(), before);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(groups_limit),
	    cmocka_unit_test(nonsense_is_no_limit),
	    cmocka_unit_test(affinity_limits),
	};
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
