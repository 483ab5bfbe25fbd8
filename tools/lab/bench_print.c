/* What the benchmarks read and print: numbers, medians, JSON. */
#include <math.h>
#include <stdlib.h>

#include "tools/lab/bench.h"

int bench_ascending(const void* a, const void* b) {
	const double x = *(const double*)a, y = *(const double*)b;
	return (x > y) - (x < y);
}

double bench_median(double* value, int n) {
	if (n < 1)
		return NAN;
	qsort(value, (size_t)n, sizeof *value, bench_ascending);
	return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

int bench_read_numbers(const char* text, double* number, int most) {
	for (int n = 0; n < most; n++, text++) {
		char* end;
		number[n] = strtod(text, &end);
		if (end == text || (*end && *end != ','))
			return 0;
		if (!*end)
			return n + 1;
		text = end;
	}
	return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

void bench_json_numbers(cJSON* out, const char* name, const double* value, int n) {
	cJSON* const list = cJSON_AddArrayToObject(out, name);
	for (int i = 0; list && i < n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(value[i]));
}

cJSON* bench_json_row(cJSON* list) {
	cJSON* const row = cJSON_CreateObject();
	cJSON_AddItemToArray(list, row);
	return row;
}
