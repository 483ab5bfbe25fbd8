/* Speed-up by method and task as a drawing: bars in groups, a line at plain decoding's speed. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/lab/bench_methods.h"

enum { LEFT = 56, TOP = 48, HEIGHT = 260, BAR = 10, GAP = 24, LEGEND = 18 };

static const char* const color[] = {"#888888", "#1b6ca8", "#17a398", "#e07a1f", "#b23a48",
                                    "#6a4c93", "#8ab17d", "#c9a227", "#2f3e46", "#d16ba5",
                                    "#5c7cfa", "#40916c", "#9c6644", "#e63946"};

static bool shown(const struct method_row* row) {
	return row->method != SWIFTLET_VANILLA && !row->missing[0];
}

static double value_of(const struct method_table* t, const struct method_row* row, int task) {
	const double v = task < t->tasks ? row->task[task].speedup : row->all.speedup;
	return isfinite(v) ? v : 0;
}

static double largest(const struct method_table* t) {
	double most = 1.5;
	for (int i = 0; i < t->rows; i++)
		for (int k = 0; shown(&t->row[i]) && k <= t->tasks; k++)
			most = fmax(most, value_of(t, &t->row[i], k));
	return ceil(2 * most) / 2;
}

/* XML's own characters in a task's or a model's name. */
static void write_text(FILE* out, const char* text) {
	for (; *text; text++)
		if (strchr("<>&\"", *text))
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text, out);
}

static void draw_axis(FILE* out, double most, int width) {
	for (double v = 0; v <= most + 0.01; v += 0.5) {
		const double y = TOP + HEIGHT * (1 - v / most);
		fprintf(out,
		        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>"
		        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
		        LEFT, width - GAP, y, y, fabs(v - 1) < 0.01 ? "#000" : "#ddd", LEFT - 6, y + 4, v);
	}
}

static void draw_group(FILE* out, const struct method_table* t, int task, int x, double most, int bars) {
	int at = x;
	for (int i = 0; i < t->rows; i++) {
		if (!shown(&t->row[i]))
			continue;
		const double v = value_of(t, &t->row[i], task), height = HEIGHT * v / most;
		fprintf(out,
		        "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\"><title>%s: "
		        "%.2f</title></rect>\n",
		        at, TOP + HEIGHT - height, BAR - 1, height, color[i % (int)(sizeof color / sizeof *color)],
		        t->row[i].name, v);
		at += BAR;
	}
	fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x + bars * BAR / 2, TOP + HEIGHT + 18);
	write_text(out, task < t->tasks ? t->task[task] : "all");
	fputs("</text>\n", out);
}

static void draw_legend(FILE* out, const struct method_table* t, int y) {
	enum { COLUMN = 92, COLUMNS = 6 };
	for (int i = 0, n = 0; i < t->rows; i++) {
		if (!shown(&t->row[i]))
			continue;
		const int x = LEFT + n % COLUMNS * COLUMN, top = y + n / COLUMNS * LEGEND;
		fprintf(out,
		        "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
		        "y=\"%d\">%s</text>\n",
		        x, top, color[i % (int)(sizeof color / sizeof *color)], x + 14, top + 9, t->row[i].name);
		n++;
	}
}

bool plot_methods(const struct method_table* t, const char* path, struct error* error) {
	FILE* out = fopen(path, "w");
	if (!out)
		return error_set(error, "%s could not be written: %s", path, strerror(errno));
	int bars = 0;
	for (int i = 0; i < t->rows; i++)
		bars += shown(&t->row[i]);
	const int group = bars * BAR + GAP, groups = t->tasks > 1 ? t->tasks + 1 : 1;
	const int wide = LEFT + groups * group + GAP, width = wide > 640 ? wide : 640;
	const int legend = TOP + HEIGHT + 36, height = legend + 3 * LEGEND + 8;
	const double most = largest(t);
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
	        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
	        "<text x=\"%d\" y=\"24\" font-size=\"14\">Speed-up over plain decoding: ",
	        width, height, width, height, width, height, LEFT);
	write_text(out, t->model);
	fputs(" on ", out);
	write_text(out, t->backend);
	fputs("</text>\n", out);
	draw_axis(out, most, width);
	for (int g = 0; g < groups; g++)
		draw_group(out, t, groups == 1 ? t->tasks : g, LEFT + GAP / 2 + g * group, most, bars);
	draw_legend(out, t, legend);
	fputs("</svg>\n", out);
	const bool good = ferror(out) == 0;
	return (fclose(out) == 0 && good) ||
	       error_set(error, "%s could not be written: %s", path, strerror(errno));
}
