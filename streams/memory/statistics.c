/* Stores costs and influence as rows of figures. */
#include "streams/memory/statistics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void statistics_device(char device[STORE_DEVICE], const struct engine* engine) {
	char processor[64] = "";
	FILE* f = fopen("/proc/cpuinfo", "r");
	char line[256];
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "model name : %63[^\n]", processor) == 1)
			break;
	if (f)
		fclose(f);
	snprintf(device, STORE_DEVICE, "%.40s, %ld processors, %s", engine->backend->name,
	         sysconf(_SC_NPROCESSORS_ONLN), processor);
}

/* ---- costs -------------------------------------------------------------------------------- */

struct cost_figure {
	double* mean;
	int* seen;
};

/* "rows-N", with N the knot's index, and after them the costs of other passes. */
enum { COSTS = COST_KNOTS + 4 };

static struct cost_figure figure_of(struct cost_model* c, int i, char what[STORE_WHAT]) {
	static const char* const name[] = {"plain", "draft", "low", "score"};
	const struct cost_figure other[] = {{&c->plain, &c->plain_seen},
	                                    {&c->draft_ratio, &c->draft_seen},
	                                    {&c->quantized_ratio, &c->quantized_seen},
	                                    {&c->score_ratio, &c->score_seen}};
	if (i < COST_KNOTS)
		snprintf(what, STORE_WHAT, "rows-%d", i);
	else
		snprintf(what, STORE_WHAT, "%s", name[i - COST_KNOTS]);
	return i < COST_KNOTS ? (struct cost_figure){&c->rows[i], &c->rows_seen[i]} : other[i - COST_KNOTS];
}

static void take_cost(void* user, const struct store_figure* stored) {
	char what[STORE_WHAT];
	for (int i = 0; i < COSTS; i++) {
		const struct cost_figure f = figure_of(user, i, what);
		if (strcmp(what, stored->what) != 0 || *f.seen > 0 || !(stored->total > 0))
			continue;
		*f.mean = stored->total / stored->samples;
		*f.seen = 1;
	}
}

static struct store_place costs_of(const char* device) { return (struct store_place){device, "", 0}; }

void statistics_load_costs(struct store* s, const struct store_model* model, const char* device,
                           struct cost_model* cost) {
	struct error ignored;
	store_each_figure(s, model, costs_of(device), take_cost, cost, &ignored);
}

bool statistics_save_costs(struct store* s, const struct store_model* model, const char* device,
                           const struct cost_model* cost, int64_t* passes, struct error* e) {
	struct cost_model copy = *cost;
	struct store_figure list[COSTS];
	int n = 0;
	for (int i = 0; i < COSTS && cost->passes != *passes; i++) {
		const struct cost_figure f = figure_of(&copy, i, list[n].what);
		const bool old = i < COST_KNOTS && cost->rows_last[i] <= *passes;
		if (old || *f.seen < 1 || !(*f.mean > 0))
			continue;
		list[n].total = *f.mean;
		list[n++].samples = 1;
	}
	if (!store_add_figures(s, model, costs_of(device), false, list, n, e))
		return false;
	*passes = cost->passes;
	return true;
}

/* ---- influence ---------------------------------------------------------------------------- */

static struct store_place influence_of(const char* task, int64_t cluster) {
	return (struct store_place){"", task, cluster};
}

struct influence_reading {
	struct influence* influence;
	int blocks, seen, found;
};
static void take_influence(void* user, const struct store_figure* stored) {
	struct influence_reading* t = user;
	int i, end = 0;
	t->seen++;
	if (sscanf(stored->what, "influence %d%n", &i, &end) != 1 || stored->what[end] || i < 0 ||
	    i >= 2 * t->blocks || stored->total > 2.0001 * stored->samples) /* 1 - cos */
		return;
	t->influence->sum[i] = stored->total;
	t->influence->rows = stored->samples;
	t->found++;
}

/* True when all rows are there; *damaged: some are missing, or have impossible values. */
static bool load_influence(struct store* s, const struct store_model* model, struct store_place at,
                           struct influence* out, bool* damaged, struct error* e) {
	struct influence_reading t = {out, model->blocks, 0, 0};
	e->message[0] = 0;
	*out = (struct influence){.rows = 0};
	const bool read = store_each_figure(s, model, at, take_influence, &t, e);
	const bool good = read && t.found == 2 * model->blocks;
	*damaged = read && !good && t.seen > 0;
	if (!good)
		*out = (struct influence){.rows = 0};
	return good;
}

bool statistics_load_influence(struct store* s, const struct store_model* model, const char* task,
                               int64_t cluster, struct influence* out, struct error* e) {
	bool damaged;
	return load_influence(s, model, influence_of(task, cluster), out, &damaged, e);
}

bool statistics_save_influence(struct store* s, const struct store_model* model, const char* task,
                               int64_t cluster, const struct influence* of, struct error* e) {
	struct store_figure list[2 * MAX_BLOCKS];
	for (int i = 0; i < 2 * model->blocks; i++) {
		list[i].total = of->sum[i];
		list[i].samples = of->rows;
		snprintf(list[i].what, STORE_WHAT, "influence %d", i);
	}
	struct influence stored;
	bool damaged;
	load_influence(s, model, influence_of(task, cluster), &stored, &damaged, e);
	return store_add_figures(s, model, influence_of(task, cluster), damaged, list, 2 * model->blocks, e);
}
