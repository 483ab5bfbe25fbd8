/* Stores costs as rows of figures. */
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

void statistics_load_costs(struct store* s, const struct store_model* model, const char* device,
                           struct cost_model* cost) {
	struct error ignored;
	store_each_figure(s, model, device, take_cost, cost, &ignored);
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
	if (!store_add_figures(s, model, device, list, n, e))
		return false;
	*passes = cost->passes;
	return true;
}
