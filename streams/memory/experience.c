/* Costs and chances as the store's rows. */
#include "streams/memory/experience.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void experience_device(char device[STORE_DEVICE], const struct engine* engine) {
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

struct figure {
	double* mean;
	int* seen;
};

/* A figure by its name: "plain", "draft", "low", "score", "rows-N" where N is a knot's place. */
static struct figure figure_of(struct cost_model* c, const char* what) {
	int knot;
	if (strcmp(what, "plain") == 0)
		return (struct figure){&c->plain, &c->plain_seen};
	if (strcmp(what, "draft") == 0)
		return (struct figure){&c->draft_ratio, &c->draft_seen};
	if (strcmp(what, "low") == 0)
		return (struct figure){&c->low_ratio, &c->low_seen};
	if (strcmp(what, "score") == 0)
		return (struct figure){&c->score_ratio, &c->score_seen};
	if (sscanf(what, "rows-%d", &knot) == 1 && knot >= 0 && knot < COST_KNOTS)
		return (struct figure){&c->rows[knot], &c->rows_seen[knot]};
	return (struct figure){NULL, NULL};
}

static void take_cost(void* user, const struct store_cost* stored) {
	const struct figure f = figure_of(user, stored->what);
	if (!f.mean || *f.seen > 0)
		return;
	*f.mean = stored->total / stored->samples;
	*f.seen = 1;
}

void experience_load_costs(struct store* s, const struct store_model* model, const char* device,
                           struct cost_model* cost) {
	struct error unsaid;
	store_each_cost(s, model, device, take_cost, cost, &unsaid);
}

bool experience_save_costs(struct store* s, const struct store_model* model, const char* device,
                           const struct cost_model* cost, int64_t* passes, struct error* e) {
	static const char* const ratio[] = {"plain", "draft", "low", "score"};
	struct cost_model copy = *cost;
	struct store_cost list[COST_KNOTS + 4];
	int n = 0;
	if (cost->passes == *passes)
		return true;
	for (int i = 0; i < COST_KNOTS + 4; i++) {
		char what[16];
		if (i < COST_KNOTS && (cost->rows_last[i] <= *passes || cost->rows_seen[i] < 1))
			continue;
		if (i < COST_KNOTS)
			snprintf(what, sizeof what, "rows-%d", i);
		else
			snprintf(what, sizeof what, "%s", ratio[i - COST_KNOTS]);
		const struct figure f = figure_of(&copy, what);
		if (*f.seen < 1 || !(*f.mean > 0))
			continue;
		list[n] = (struct store_cost){.total = *f.mean, .samples = 1};
		memcpy(list[n++].what, what, sizeof what);
	}
	if (!store_add_costs(s, model, device, list, n, e))
		return false;
	*passes = cost->passes;
	return true;
}

/* ---- chances ------------------------------------------------------------------------------ */

/* What bins and ranks mean changes with the program: a drafter's name and the version of them. */
static void name_source(char name[sizeof((struct store_chance*)0)->source], int source) {
	snprintf(name, sizeof((struct store_chance*)0)->source, "%s/2", drafters[source]->name);
}

static void take_chance(void* user, const struct store_chance* stored) {
	char name[sizeof stored->source];
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		name_source(name, source);
		if (strcmp(name, stored->source) == 0)
			chances_begin(user, source, stored->bin, stored->rank, stored->hits, stored->trials);
	}
}

void experience_load_chances(struct store* s, const struct store_model* model, const char* device,
                             const char* task, int64_t kind, struct chances* chances) {
	struct error unsaid;
	store_each_chance(s, model, device, task, kind, take_chance, chances, &unsaid);
}

bool experience_save_chances(struct store* s, const struct store_model* model, const char* device,
                             const char* task, int64_t kind, struct chances* chances, struct error* e) {
	struct store_chance* list = calloc((size_t)DRAFTER_COUNT * EVIDENCE_BINS * CHANCE_RANKS, sizeof *list);
	int n = 0;
	if (!list)
		return error_set(e, "out of memory");
	for (int source = 0; source < DRAFTER_COUNT; source++)
		for (int bin = 0; bin < EVIDENCE_BINS; bin++)
			for (int rank = 0; rank < CHANCE_RANKS; rank++) {
				const struct tally* t = &chances->fresh[source][bin][rank];
				if (!(t->trials > 0))
					continue;
				list[n] = (struct store_chance){
				    .bin = bin, .rank = rank, .hits = (double)t->right, .trials = (double)t->trials};
				name_source(list[n++].source, source);
			}
	const bool good = store_add_chances(s, model, device, task, kind, list, n, e);
	if (good)
		memset(chances->fresh, 0, sizeof chances->fresh);
	free(list);
	return good;
}
