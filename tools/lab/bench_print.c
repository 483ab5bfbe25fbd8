/* What the benchmarks print: a bar while they run, tables, JSON. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lab/bench.h"

static int ascending(const void* a, const void* b) {
	const double x = *(const double*)a, y = *(const double*)b;
	return (x > y) - (x < y);
}

double bench_median(double* value, int n) {
	if (n < 1)
		return NAN;
	qsort(value, (size_t)n, sizeof *value, ascending);
	return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

void bench_progress(double share, const char* format, ...) {
	enum { WIDTH = 24 };
	if (!isatty(STDERR_FILENO))
		return;
	va_list arguments;
	va_start(arguments, format);
	fputs("\r\033[K[", stderr);
	for (int i = 0; i < WIDTH; i++)
		fputc(i < (int)(share * WIDTH) ? '#' : '.', stderr);
	fprintf(stderr, "] %3.0f %% ", 100 * share);
	vfprintf(stderr, format, arguments);
	fflush(stderr);
	va_end(arguments);
}

void bench_progress_end(void) {
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

void bench_json_number(cJSON* out, const char* name, double value) {
	if (isfinite(value))
		cJSON_AddNumberToObject(out, name, value);
	else
		cJSON_AddNullToObject(out, name);
}

int bench_print_json(cJSON* out) {
	char* text = cJSON_PrintUnformatted(out);
	cJSON_Delete(out);
	if (!text)
		return complain(STATUS_FAILED, "out of memory for the figures");
	const bool written = puts(text) >= 0 && fflush(stdout) == 0;
	free(text);
	return written ? STATUS_DONE : complain(STATUS_FAILED, "standard output could not be written");
}

void bench_print_rows(const double seconds[ROW_COUNTS]) {
	printf("\ncost of a pass by rows, over one row\n  rows ");
	for (int i = 0; i < ROW_COUNTS; i++)
		printf("%8d", bench_rows[i]);
	printf("\n  ms   ");
	for (int i = 0; i < ROW_COUNTS; i++)
		printf("%8.2f", 1e3 * seconds[i]);
	printf("\n  v(n) ");
	for (int i = 0; i < ROW_COUNTS; i++)
		printf("%8.2f", seconds[i] / seconds[0]);
	printf("\n");
}

void bench_json_rows(cJSON* out, const double seconds[ROW_COUNTS]) {
	cJSON* list = cJSON_AddArrayToObject(out, "rows");
	for (int i = 0; i < ROW_COUNTS; i++) {
		cJSON* row = cJSON_CreateObject();
		cJSON_AddNumberToObject(row, "rows", bench_rows[i]);
		bench_json_number(row, "seconds", seconds[i]);
		bench_json_number(row, "v", seconds[i] / seconds[0]);
		cJSON_AddItemToArray(list, row);
	}
}
