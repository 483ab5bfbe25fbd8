/* The Gaussian process against scikit-learn's golden values (tools/oracle/gp.py), a grown factor against a
 * rebuilt one, and what it refuses. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "gp/internal.h"
#include "gp/random.h"

enum { DIMS = 44, MOST = 200 };

static cJSON* golden;

static int read_golden(void** state) {
	(void)state;
	const char* source = getenv("SWIFTLET_SOURCE");
	char path[4096];
	snprintf(path, sizeof path, "%s/tests/gp/golden.json", source ? source : ".");
	FILE* file = fopen(path, "rb");
	if (!file)
		return -1;
	static char text[1 << 17];
	const size_t size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[size] = 0;
	golden = cJSON_Parse(text);
	return golden ? 0 : -1;
}

static int free_golden(void** state) {
	(void)state;
	cJSON_Delete(golden);
	return 0;
}

static double number(const cJSON* object, const char* name) {
	const cJSON* item = cJSON_GetObjectItemCaseSensitive(object, name);
	assert_true(cJSON_IsNumber(item));
	return item->valuedouble;
}
static const cJSON* list(const cJSON* object, const char* name) {
	const cJSON* item = cJSON_GetObjectItemCaseSensitive(object, name);
	assert_true(cJSON_IsArray(item));
	return item;
}
static double element(const cJSON* array, int i) { return cJSON_GetArrayItem(array, i)->valuedouble; }

static const double* bits_of(const cJSON* array, int i) {
	static double bits[DIMS];
	const char* text = cJSON_GetArrayItem(array, i)->valuestring;
	for (int d = 0; d < DIMS; d++)
		bits[d] = text[d] == '1';
	return bits;
}

static void assert_close(double ours, double theirs, double tolerance) {
	if (!(fabs(ours - theirs) <= tolerance * fmax(fabs(theirs), 1e-3)))
		fail_msg("%.17g, expected %.17g to %g", ours, theirs, tolerance);
}

static struct gp_hyper hyper_of(const cJSON* array) {
	return (struct gp_hyper){.amplitude = element(array, 0),
	                         .length = {element(array, 1), element(array, 2)},
	                         .window = element(array, 3),
	                         .noise = 1};
}

static struct gp* open_case(const cJSON* c, int capacity) {
	uint8_t group[DIMS];
	for (int d = 0; d < DIMS; d++)
		group[d] = d & 1;
	const char* kernel = cJSON_GetObjectItemCaseSensitive(c, "kernel")->valuestring;
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = DIMS,
	    .group = group,
	    .capacity = capacity,
	    .kernel = strcmp(kernel, "hamming") == 0 ? GP_HAMMING : GP_MATERN52,
	    .jitter = number(c, "jitter"),
	    .known_noise = true,
	    .hyper = hyper_of(list(c, "hyper")),
	});
	assert_non_null(g);
	return g;
}

static void add_all(struct gp* g, const cJSON* c) {
	const cJSON *bits = list(c, "bits"), *y = list(c, "y"), *variance = list(c, "variance");
	const cJSON* window = list(c, "window");
	for (int i = 0; i < cJSON_GetArraySize(bits); i++) {
		const double* point = bits_of(bits, i);
		assert_int_equal(gp_add(g, point, element(y, i), element(variance, i), (int64_t)element(window, i)),
		                 GP_OK);
	}
}

static void posterior(void** state) {
	(void)state;
	const cJSON* c;
	cJSON_ArrayForEach (c, list(golden, "cases")) {
		struct gp* g = open_case(c, MOST);
		add_all(g, c);
		assert_close(g->mean, number(c, "mean"), 1e-8);
		const cJSON* at = list(c, "at");
		for (int i = 0; i < cJSON_GetArraySize(at); i++) {
			const double* point = bits_of(at, i);
			double mean, variance;
			gp_predict(g, point, &mean, &variance);
			assert_close(mean, element(list(c, "posterior_mean"), i), 1e-8);
			assert_close(variance, element(list(c, "posterior_variance"), i), 1e-8);
		}
		gp_close(g);
	}
}

static void likelihood_and_gradient(void** state) {
	(void)state;
	const cJSON* c;
	cJSON_ArrayForEach (c, list(golden, "cases")) {
		struct gp* g = open_case(c, MOST);
		add_all(g, c);
		assert_int_equal(hyper_count(g), 4);
		const struct gp_hyper hyper = hyper_of(list(c, "hyper"));
		double value, gradient[GP_MAX_PARAMETERS];
		assert_int_equal(gp_likelihood(g, &hyper, &value, gradient), GP_OK);
		assert_close(value, number(c, "likelihood"), 1e-8);
		for (int i = 0; i < 4; i++)
			assert_close(gradient[i], element(list(c, "gradient"), i), 1e-8);
		gp_close(g);
	}
}

/* A flat optimum: the likelihood to 1e-6, the parameters as near as that determines them. */
static void same_optimum(void** state) {
	(void)state;
	const cJSON* c;
	cJSON_ArrayForEach (c, list(golden, "cases")) {
		struct gp* g = open_case(c, MOST);
		add_all(g, c);
		assert_int_equal(gp_fit(g, 200), GP_OK);
		const struct gp_hyper best = g->hyper, theirs = hyper_of(list(c, "best_hyper"));
		double value;
		assert_int_equal(gp_likelihood(g, &best, &value, NULL), GP_OK);
		assert_close(value, number(c, "best_likelihood"), 1e-6);
		assert_close(best.amplitude, theirs.amplitude, 5e-3);
		assert_close(best.length[0], theirs.length[0], 5e-3);
		assert_close(best.length[1], theirs.length[1], 5e-3);
		assert_close(best.window, theirs.window, 5e-3);
		gp_close(g);
	}
}

static void grown_equals_rebuilt(void** state) {
	(void)state;
	const cJSON* c;
	cJSON_ArrayForEach (c, list(golden, "cases")) {
		struct gp *grown = open_case(c, MOST), *rebuilt = open_case(c, MOST);
		add_all(grown, c);
		add_all(rebuilt, c);
		const struct gp_hyper hyper = hyper_of(list(c, "hyper"));
		assert_int_equal(gp_set_hyper(rebuilt, &hyper), GP_OK);
		for (int i = 0; i < 12; i++) {
			const double* point = bits_of(list(c, "at"), i);
			double mean[2], variance[2];
			gp_predict(grown, point, &mean[0], &variance[0]);
			gp_predict(rebuilt, point, &mean[1], &variance[1]);
			assert_close(mean[0], mean[1], 1e-10);
			assert_close(variance[0], variance[1], 1e-10);
		}
		gp_close(grown);
		gp_close(rebuilt);
	}
}

/* Forgetting the oldest leaves what the others alone would have made. */
static void forgetting(void** state) {
	(void)state;
	const cJSON* c = cJSON_GetArrayItem(list(golden, "cases"), 0);
	struct gp *all = open_case(c, MOST), *late = open_case(c, MOST);
	add_all(all, c);
	const cJSON *bits = list(c, "bits"), *y = list(c, "y"), *variance = list(c, "variance");
	for (int i = 60; i < 90; i++) {
		const double* point = bits_of(bits, i);
		gp_add(late, point, element(y, i), element(variance, i), (int64_t)element(list(c, "window"), i));
	}
	assert_int_equal(gp_forget(all, 30), GP_OK);
	assert_int_equal(gp_count(all), 30);
	const double* point = bits_of(list(c, "at"), 4);
	double mean[2], spread[2];
	gp_predict(all, point, &mean[0], &spread[0]);
	gp_predict(late, point, &mean[1], &spread[1]);
	assert_close(mean[0], mean[1], 1e-10);
	assert_close(spread[0], spread[1], 1e-10);
	gp_close(all);
	gp_close(late);
}

static void refusals(void** state) {
	(void)state;
	struct gp_options o = {.dims = 10,
	                       .group = (const uint8_t[10]){0},
	                       .capacity = 3,
	                       .jitter = 1e-6,
	                       .hyper = {.amplitude = 1, .length = {2}, .window = 0.1, .noise = 1}};
	o.dims = 0;
	assert_null(gp_open(&o));
	o.dims = GP_MAX_DIMS + 1;
	assert_null(gp_open(&o));
	o.dims = 10;
	o.hyper.length[0] = 0;
	assert_null(gp_open(&o));
	o.hyper.length[0] = 2;
	struct gp* g = gp_open(&o);
	assert_non_null(g);
	const double point[10] = {1, 0, 1};
	double value, mean, variance;
	assert_int_equal(gp_likelihood(g, &o.hyper, &value, NULL), GP_INVALID);
	gp_predict(g, point, &mean, &variance);
	assert_close(variance, 1, 1e-12);
	assert_int_equal(gp_add(g, point, NAN, 0.1, 1), GP_INVALID);
	assert_int_equal(gp_add(g, point, 0.5, -1, 1), GP_INVALID);
	/* The same point thrice, without noise: the jitter alone keeps it positive definite. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(gp_add(g, point, 0.5, 0, 1), GP_OK);
	assert_int_equal(gp_add(g, point, 0.5, 0.1, 1), GP_FULL);
	gp_close(g);
}

/* The CBLAS that GSL gets is OpenBLAS's, not the slow one it brings. */
static void cblas_is_openblas(void** state) {
	(void)state;
	void* symbol = dlsym(RTLD_DEFAULT, "cblas_dtrsv");
	assert_non_null(symbol);
	Dl_info info;
	assert_int_not_equal(dladdr(symbol, &info), 0);
	assert_null(strstr(info.dli_fname, "gslcblas"));
	assert_non_null(strstr(info.dli_fname, "blas"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(posterior),         cmocka_unit_test(likelihood_and_gradient),
	    cmocka_unit_test(same_optimum),      cmocka_unit_test(grown_equals_rebuilt),
	    cmocka_unit_test(forgetting),        cmocka_unit_test(refusals),
	    cmocka_unit_test(cblas_is_openblas),
	};
	return cmocka_run_group_tests(tests, read_golden, free_golden);
}
