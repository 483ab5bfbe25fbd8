/* JSON's figures as lines and tables. */
#include "tools/program/tables.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char* format_cell(const cJSON* v, char text[CELL]) {
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

/* The columns of all rows; a row may lack some. */
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
			const int width = (int)strlen(format_cell(v, text));
			if (width > abs(column[i].width))
				column[i].width = column[i].width < 0 ? -width : width;
		}
	return n;
}

/* Prints a table of a list of objects, or of an object of objects, whose names come first. */
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
			       format_cell(cJSON_GetObjectItemCaseSensitive(row, column[i].name), text));
	}
	putchar('\n');
}

void tables_print(const cJSON* object) {
	char text[CELL];
	for (const cJSON* v = object->child; v; v = v->next)
		if (is_cell(v))
			printf("%-28s %s\n", v->string, format_cell(v, text));
	for (const cJSON* v = object->child; v; v = v->next) {
		if (!is_cell(v) && v->child && cJSON_IsObject(v->child))
			print_table(v);
		else if (cJSON_IsObject(v) && v->child) {
			printf("\n%s\n", v->string);
			tables_print(v);
		}
	}
}
