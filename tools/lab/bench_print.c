/* What the benchmarks print: a bar while they run, JSON, and tables of the same JSON. */
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

double bench_ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

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

/* ---- JSON ----------------------------------------------------------------------------------- */

void bench_json_number(cJSON* out, const char* name, double value) {
	if (isfinite(value))
		cJSON_AddNumberToObject(out, name, value);
	else
		cJSON_AddNullToObject(out, name);
}

void bench_json_numbers(cJSON* out, const char* name, const double* value, int n) {
	cJSON* const list = cJSON_AddArrayToObject(out, name);
	for (int i = 0; list && i < n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(value[i])); /* NaN prints as null */
}

cJSON* bench_json_row(cJSON* list) {
	cJSON* const row = cJSON_CreateObject();
	cJSON_AddItemToArray(list, row);
	return row;
}

int bench_print_json(cJSON* out) {
	char* text = cJSON_PrintUnformatted(out);
	cJSON_Delete(out);
	if (!text)
		return complain(STATUS_FAILED, "out of memory for the figures");
	puts(text);
	free(text);
	return output_written(STATUS_DONE);
}

/* ---- tables --------------------------------------------------------------------------------- */

enum { CELL = 120 };

static void print_number(char text[CELL], double value) {
	const double size = fabs(value);
	const char* format = value == floor(value) ? "%.0f" : size < 1 ? "%.3g" : size < 100 ? "%.2f" : "%.1f";
	if (isfinite(value))
		snprintf(text, CELL, format, value);
	else
		strcpy(text, "-");
}

static bool is_cell(const cJSON* v) {
	return !cJSON_IsObject(v) && !(cJSON_IsArray(v) && (!v->child || !cJSON_IsNumber(v->child)));
}

static const char* cell(const cJSON* v, char text[CELL]) {
	char one[CELL];
	size_t n = 0;
	snprintf(text, CELL, "%s",
	         cJSON_IsString(v)  ? v->valuestring
	         : cJSON_IsTrue(v)  ? "yes"
	         : cJSON_IsFalse(v) ? "no"
	                            : "-");
	if (cJSON_IsNumber(v))
		print_number(text, v->valuedouble);
	for (const cJSON* item = cJSON_IsArray(v) ? v->child : NULL; item && n + 12 < CELL; item = item->next) {
		print_number(one, item->valuedouble);
		n += (size_t)snprintf(text + n, CELL - n, n ? " %s" : "%s", one);
	}
	return text;
}

enum { COLUMNS = 48 };

struct column {
	const char* name;
	int width; /* under 0: to the left */
};

/* Those of all rows, which may lack what others have. */
static int find_columns(const cJSON* rows, struct column column[COLUMNS]) {
	char text[CELL];
	int n = 0;
	for (const cJSON* row = rows->child; row; row = row->next)
		for (const cJSON* v = row->child; v; v = v->next) {
			int i = 0;
			while (i < n && strcmp(column[i].name, v->string) != 0)
				i++;
			if (!is_cell(v) || i == COLUMNS)
				continue;
			if (i == n)
				column[n++] =
				    (struct column){v->string, (int)strlen(v->string) * (cJSON_IsString(v) ? -1 : 1)};
			const int width = (int)strlen(cell(v, text));
			if (width > abs(column[i].width))
				column[i].width = column[i].width < 0 ? -width : width;
		}
	return n;
}

/* Of a list of objects, or of an object of them, whose names come first. */
static void print_table(const cJSON* rows) {
	char text[CELL];
	struct column column[COLUMNS];
	const int n = find_columns(rows, column);
	int first = 0;
	for (const cJSON* row = rows->child; row; row = row->next)
		first = row->string && (int)strlen(row->string) > first ? (int)strlen(row->string) : first;
	printf("\n%s\n%-*s", rows->string ? rows->string : "", first, "");
	for (int i = 0; i < n; i++)
		printf("  %*s", column[i].width, column[i].name);
	for (const cJSON* row = rows->child; row; row = row->next) {
		printf("\n%-*s", first, row->string ? row->string : "");
		for (int i = 0; i < n; i++)
			printf("  %*s", column[i].width,
			       cell(cJSON_GetObjectItemCaseSensitive(row, column[i].name), text));
	}
	putchar('\n');
}

static void print_figures(const cJSON* object) {
	char text[CELL];
	for (const cJSON* v = object->child; v; v = v->next)
		if (is_cell(v))
			printf("%-28s %s\n", v->string, cell(v, text));
	for (const cJSON* v = object->child; v; v = v->next) {
		if (!is_cell(v) && v->child && cJSON_IsObject(v->child))
			print_table(v);
		else if (cJSON_IsObject(v) && v->child) {
			printf("\n%s\n", v->string);
			print_figures(v);
		}
	}
}

int bench_print_tables(cJSON* out) {
	print_figures(out);
	cJSON_Delete(out);
	return output_written(STATUS_DONE);
}

int bench_tell(cJSON* out, bool json) { return json ? bench_print_json(out) : bench_print_tables(out); }
