/* Reading lists and files of costs. */
#include "tools/lab/cost_table.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/files/json.h"

/* v(n) on straight lines between and beyond its knots; knot (SLICE_ROWS + 1), 0: no knot. */
static void fill_verify(double verify[SLICE_ROWS + 1], const double* knot) {
	int before = 1, last = 1;
	for (int n = 2; n <= SLICE_ROWS; n++)
		last = knot[n] > 0 ? n : last;
	for (int n = 1; n <= SLICE_ROWS; n++) {
		int after = n;
		while (after < last && !(knot[after] > 0))
			after++;
		if (knot[n] > 0 && n < last)
			before = n;
		const int to = n > before && knot[after] > 0 && after > before ? after : last;
		const double slope = to > before ? (knot[to] - knot[before]) / (to - before) : 0;
		verify[n] = knot[before] + slope * (n - before);
	}
}

static bool read_list(const char* text, double* knot, double* c, struct error* error) {
	for (const char* at = text; *at;) {
		char name[8];
		double value;
		int used = 0, n = 0;
		if (sscanf(at, "%7[a-z0-9]=%lf%n", name, &value, &used) != 2 || !(value >= 0) || value > 1e3)
			return error_set(error, "--costs: expected NAME=NUMBER at \"%.20s\"", at);
		if (strcmp(name, "slope") == 0)
			knot[SLICE_ROWS] = 1 + value * (SLICE_ROWS - 1);
		else if (strcmp(name, "c") == 0)
			*c = value;
		else if (sscanf(name, "v%d", &n) == 1 && n > 1 && n <= SLICE_ROWS && value >= 1)
			knot[n] = value;
		else
			return error_set(error, "--costs: \"%s\", expected slope, c or v2 to v64 (at least 1)", name);
		at += used;
		at += *at == ',';
	}
	return true;
}

/* The output of `swiftlet bench decode --rows --json`: "rows": [{"rows", "v"}]; a "c" may be added. */
static bool read_file(const char* path, double* knot, double* c, struct error* error) {
	cJSON* json = json_read(path, error);
	if (!json)
		return false;
	const cJSON *list = cJSON_GetObjectItem(json, "rows"), *draft = cJSON_GetObjectItem(json, "c"), *item;
	int found = 0;
	cJSON_ArrayForEach (item, list) {
		const cJSON *rows = cJSON_GetObjectItem(item, "rows"), *v = cJSON_GetObjectItem(item, "v");
		if (!cJSON_IsNumber(rows) || !cJSON_IsNumber(v) || !(v->valuedouble > 0) || !(v->valuedouble < 1e3) ||
		    rows->valueint < 1 || rows->valueint > SLICE_ROWS)
			continue;
		knot[rows->valueint] = v->valuedouble;
		found += rows->valueint > 1;
	}
	double most = 1; /* measured values may fall where they should not */
	for (int n = 1; n <= SLICE_ROWS; n++)
		if (knot[n] > 0)
			most = knot[n] = fmax(most, knot[n]);
	if (cJSON_IsNumber(draft) && draft->valuedouble >= 0 && draft->valuedouble < 1e3)
		*c = draft->valuedouble;
	cJSON_Delete(json);
	return found > 0 || error_set(error,
	                              "%s: no \"rows\" with a number of rows from 2 to %d and \"v\", as"
	                              " bench decode --rows --json prints them",
	                              path, SLICE_ROWS);
}

bool cost_list_read(struct cost_list* costs, const char* text, struct error* error) {
	double knot[SLICE_ROWS + 1] = {0};
	*costs = (struct cost_list){.draft = NAN};
	if (!(strchr(text, '=') ? read_list(text, knot, &costs->draft, error)
	                        : read_file(text, knot, &costs->draft, error)))
		return false;
	knot[1] = 1;
	fill_verify(costs->verify, knot);
	for (int n = 2; n <= SLICE_ROWS; n++)
		if (costs->verify[n] < costs->verify[n - 1] - 1e-9)
			return error_set(error, "--costs: v(%d) is less than v(%d)", n, n - 1);
	return true;
}
