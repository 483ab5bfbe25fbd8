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

/* v at each knot's number of rows, and the costs of other passes over their bytes. */
enum { COSTS = COST_KNOTS + 3 };

static struct recent* figure_of(struct cost_model* c, int i, char what[STORE_WHAT]) {
	static const char* const name[] = {"draft", "low", "score"};
	struct recent* const other[] = {&c->draft, &c->quantized, &c->score};
	if (i < COST_KNOTS)
		snprintf(what, STORE_WHAT, "v-%d", c->rows[i].rows);
	else
		snprintf(what, STORE_WHAT, "%s", name[i - COST_KNOTS]);
	return i < COST_KNOTS ? &c->rows[i] : other[i - COST_KNOTS];
}

static void take_cost(void* user, const struct store_figure* stored) {
	const struct cost_model* cost = user;
	char what[STORE_WHAT];
	for (int i = 0; i < COSTS && cost->passes == 0; i++) {
		struct recent* const r = figure_of(user, i, what);
		const double value = stored->total / stored->samples;
		if (strcmp(what, stored->what) == 0 && value > 0 && value < INFINITY)
			recent_restore(r, value);
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
		const struct recent* r = figure_of(&copy, i, list[n].what);
		const double value = recent_without_text(&copy, r);
		if (r->last <= *passes || !(value > 0))
			continue;
		list[n].total = value;
		list[n++].samples = 1;
	}
	if (!store_add_figures(s, model, device, list, n, e))
		return false;
	*passes = cost->passes;
	return true;
}
