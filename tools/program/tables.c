/* Figures as JSON, or as lines and tables. */
#include "tools/program/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/program/options.h"

enum { CELL = 300, COLUMNS = 48, LINE_NAME = 28 };

bool colours_allowed(FILE* file) { return isatty(fileno(file)) && !getenv("NO_COLOR"); }

/* ---- cells ---------------------------------------------------------------------------------- */

static bool is_size(const char* name) {
	const size_t n = name ? strlen(name) : 0;
	return n >= 5 && strcmp(name + n - 5, "bytes") == 0;
}

static void format_number(char text[CELL], const char* name, double value) {
	const double size = fabs(value);
	const char* format = value == floor(value) ? "%.0f" : size < 1 ? "%.3g" : size < 100 ? "%.2f" : "%.1f";
	if (!isfinite(value))
		strcpy(text, "-");
	else if (is_size(name))
		snprintf(text, CELL, "%.1f MiB", value / 1048576);
	else
		snprintf(text, CELL, format, value);
}

/* Numbers and texts, and lists of them. */
static bool is_cell(const cJSON* v) {
	return !cJSON_IsObject(v) && !(cJSON_IsArray(v) && (cJSON_IsObject(v->child) || cJSON_IsArray(v->child)));
}

static const char* format_item(const cJSON* v, char text[CELL]) {
	if (cJSON_IsNumber(v))
		format_number(text, v->string, v->valuedouble);
	else
		snprintf(text, CELL, "%s",
		         cJSON_IsString(v)  ? v->valuestring
		         : cJSON_IsTrue(v)  ? "yes"
		         : cJSON_IsFalse(v) ? "no"
		                            : "-");
	return text;
}

static const char* format_cell(const cJSON* v, char text[CELL]) {
	char item[CELL];
	size_t n = 0;
	if (!cJSON_IsArray(v) || !v->child)
		return format_item(v, text);
	for (const cJSON* i = v->child; i && n < CELL - 1; i = i->next)
		n += (size_t)snprintf(text + n, CELL - n, "%s%s", n ? " " : "", format_item(i, item));
	return text;
}

/* Characters that a terminal shows. */
static int width_of(const char* text) {
	int n = 0;
	for (; *text; text++)
		n += (*text & 0xC0) != 0x80;
	return n;
}

static void print_padded(const char* text, int width, bool left) {
	const int blanks = width - width_of(text) > 0 ? width - width_of(text) : 0;
	printf("%*s%s%*s", left ? 0 : blanks, "", text, left ? blanks : 0, "");
}

/* A figure's name in words. */
static const char* words_of(const char* name, char text[CELL]) {
	snprintf(text, CELL, "%s", name ? name : "");
	if (is_size(name))
		strcpy(text + strlen(text) - 5, "size");
	for (char* c = text; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	return text;
}

static void begin_heading(void) { fputs(colours_allowed(stdout) ? "\033[1m" : "", stdout); }
static void end_heading(void) { puts(colours_allowed(stdout) ? "\033[0m" : ""); }

static void print_title(const char* name) {
	char text[CELL];
	putchar('\n');
	begin_heading();
	fputs(words_of(name, text), stdout);
	end_heading();
}

/* ---- tables --------------------------------------------------------------------------------- */

struct column {
	const char* name;
	int width;
	bool left; /* texts stand to the left */
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
				column[n++] = (struct column){v->string, width_of(v->string), false};
			column[i].left |= cJSON_IsString(v);
			const int width = width_of(format_cell(v, text));
			column[i].width = width > column[i].width ? width : column[i].width;
		}
	return n;
}

/* The rows of an object of objects begin with their names. */
void table_print(const cJSON* rows) {
	char text[CELL];
	struct column column[COLUMNS];
	const int n = find_columns(rows, column);
	int first = 0;
	for (const cJSON* row = rows->child; row; row = row->next)
		first = row->string && width_of(row->string) > first ? width_of(row->string) : first;
	begin_heading();
	print_padded("", first, true);
	for (int i = 0; i < n; i++) {
		fputs(i > 0 || first > 0 ? "  " : "", stdout);
		const bool last = i == n - 1 && column[i].left;
		print_padded(words_of(column[i].name, text), last ? 0 : column[i].width, column[i].left);
	}
	end_heading();
	for (const cJSON* row = rows->child; row; row = row->next) {
		print_padded(row->string ? row->string : "", first, true);
		for (int i = 0; i < n; i++) {
			fputs(i > 0 || first > 0 ? "  " : "", stdout);
			print_padded(format_cell(cJSON_GetObjectItemCaseSensitive(row, column[i].name), text),
			             i == n - 1 && column[i].left ? 0 : column[i].width, column[i].left);
		}
		putchar('\n');
	}
}

static void print_line(const cJSON* v) {
	char text[CELL];
	print_padded(words_of(v->string, text), LINE_NAME, true);
	if (cJSON_IsString(v)) /* whole, however long */
		printf(" %s\n", v->valuestring);
	else
		printf(" %s\n", format_cell(v, text));
}

void tables_print(const cJSON* object) {
	for (const cJSON* v = object->child; v; v = v->next)
		if (is_cell(v))
			print_line(v);
	for (const cJSON* v = object->child; v; v = v->next) {
		if (is_cell(v) || !v->child)
			continue;
		print_title(v->string);
		if (cJSON_IsObject(v->child))
			table_print(v);
		else if (cJSON_IsObject(v))
			tables_print(v);
	}
}

int report_print(cJSON* value, bool json) {
	char* const text = json ? cJSON_PrintUnformatted(value) : NULL;
	if (text)
		puts(text);
	else if (!json && cJSON_IsArray(value))
		table_print(value);
	else if (!json)
		tables_print(value);
	cJSON_Delete(value);
	free(text);
	return json && !text ? complain(STATUS_FAILED, "out of memory for the figures")
	                     : output_written(STATUS_DONE);
}
