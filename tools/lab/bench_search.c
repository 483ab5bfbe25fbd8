/* `swiftlet bench search`: landscapes times proposers.
 *
 * Which of the search's proposers earn their place? Each is run on the same windows of text, instance after
 * instance as serving gives them, and the mask that it would draft with after so many scorings (scorings
 * again and what dynamic programming costs included) is judged on other text. Landscapes: made-up models,
 * another one for each seed, and a trained one, whose windows are the same for all seeds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/layer_programming.h"
#include "streams/jsonl.h"
#include "tools/lab/bench.h"
#include "tools/lab/search_lab.h"
#include "tools/lab/search_noise.h"

enum { CHECKPOINTS = 5, MAX_PROMPTS = 512, SYNTH_TEXTS = 10, SYNTH_PROMPT = 16, SYNTH_TOKENS = 260 };
enum { LEAST_A_WINDOW = 10, PROGRAM_EVERY = 6, MAX_SEEDS = 64, NEVER = 1 << 30 };

struct proposer {
	const char* name;
	bool influence, published, programming, by_price;
	int bayes_interval; /* 0: uniformly random only */
	int scorings;
};

static const struct proposer proposers[] = {
    {"uniform", false, false, false, false, 0, NEVER},
    {"uniform + GP (as published)", false, true, false, false, 25, NEVER},
    {"linear, without influence", false, false, false, false, NEVER, NEVER},
    {"influence alone", true, false, false, false, NEVER, 0},
    {"influence + linear", true, false, false, false, NEVER, NEVER},
    {"influence + linear + GP", true, false, false, false, 25, NEVER},
    {"influence + linear + programming", true, false, true, false, NEVER, NEVER},
    {"influence, linear, programming, GP", true, false, true, false, 25, NEVER},
    {"size by price: influence alone", true, false, false, true, NEVER, 0},
    {"size by price: all", true, false, false, true, 25, NEVER},
};
enum { PROPOSERS = sizeof proposers / sizeof *proposers };

struct searching {
	struct bench bench;
	const char* model;
	const char* input;
	const char* only;     /* proposers whose name begins so */
	int64_t seeds, slope; /* slope in thousandths */
	bool by_task, noise, json;
	int checkpoint[CHECKPOINTS], n_checkpoints;
	cJSON* out;
};

/* ---- prompts ------------------------------------------------------------------------------ */

struct prompts {
	int32_t* id[MAX_PROMPTS];
	int count[MAX_PROMPTS], tokens[MAX_PROMPTS], n, n_search;
};

static void prompts_free(struct prompts* p) {
	for (int i = 0; i < p->n; i++)
		free(p->id[i]);
}

static bool made_up_prompts(const struct bench* bench, uint64_t seed, struct prompts* p,
                            struct error* error) {
	*p = (struct prompts){.n_search = SYNTH_TEXTS - 2};
	for (; p->n < SYNTH_TEXTS; p->n++) {
		p->id[p->n] = malloc(SYNTH_PROMPT * sizeof(int32_t));
		if (!p->id[p->n])
			return error_set(error, "out of memory for prompts");
		p->count[p->n] = SYNTH_PROMPT;
		p->tokens[p->n] = SYNTH_TOKENS;
		if (!bench_prompt(bench, 1000 * seed + (uint64_t)p->n, p->id[p->n], SYNTH_PROMPT, error))
			return false;
	}
	return true;
}

/* Every other prompt of the task (NULL: of all) is searched on, the rest judge. */
static bool read_prompts(const struct bench* bench, const char* path, const char* task, struct prompts* p,
                         struct error* error) {
	struct jsonl_reader reader = {.file = fopen(path, "rb")};
	struct prompts half[2] = {{.n = 0}, {.n = 0}};
	struct instance instance;
	bool good = reader.file != NULL;
	*p = (struct prompts){.n = 0};
	if (!good)
		return error_set(error, "%s: cannot be opened", path);
	for (int seen = 0; good && jsonl_next(&reader, &instance, error) == JSONL_INSTANCE;) {
		const bool mine = instance.prompt && (!task || (instance.task && strcmp(instance.task, task) == 0));
		struct prompts* to = &half[seen & 1];
		if (mine && to->n < MAX_PROMPTS / 2) {
			to->id[to->n] =
			    swiftlet_tokenize(bench->model, instance.prompt, strlen(instance.prompt), &to->count[to->n]);
			good = to->id[to->n] && to->count[to->n] > 0;
			to->tokens[to->n] = instance.max_tokens;
			to->n += good;
			seen++;
		}
		instance_free(&instance);
	}
	jsonl_free(&reader);
	fclose(reader.file);
	for (int i = 0; i < half[0].n + half[1].n; i++) {
		const struct prompts* from = &half[i >= half[0].n];
		const int j = i < half[0].n ? i : i - half[0].n;
		p->id[i] = from->id[j];
		p->count[i] = from->count[j];
		p->tokens[i] = from->tokens[j];
	}
	p->n = half[0].n + half[1].n;
	p->n_search = half[0].n;
	return (good && half[1].n > 0) || error_set(error, "%s: fewer than two prompts%s%s", path,
	                                            task ? " of task " : "", task ? task : "");
}

/* ---- one search --------------------------------------------------------------------------- */

/* As of a large model: attention a third of a block, the head three hundredths of all. */
static struct search_costs price_of(const struct searching* s, int blocks) {
	struct search_costs costs = {
	    .attention = 0.97 / 3 / blocks, .mlp = 0.97 * 2 / 3 / blocks, .fixed = 0.03, .max_draft = 25};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + (double)s->slope / 1000 * (n - 1);
	return costs;
}

/* The best over chain lengths, at the true chance that a draft's token is right. */
static double speedup_at(const struct search_costs* costs, int blocks, const struct mask* mask,
                         double alpha) {
	double c = costs->fixed, best = 1, emitted = 1, reach = 1;
	for (int i = 0; i < 2 * blocks; i++)
		c += mask_has(mask, i) ? 0 : i & 1 ? costs->mlp : costs->attention;
	for (int depth = 1; depth <= costs->max_draft; depth++) {
		reach *= alpha;
		emitted += reach;
		best = fmax(best, emitted / (depth * c + costs->verify[depth + 1]));
	}
	return best;
}

struct figures {
	double matchness[CHECKPOINTS], speedup[CHECKPOINTS], skipped[CHECKPOINTS];
};

static void judge(const struct searching* s, struct lab* lab, const struct search* search, int at,
                  struct figures* f) {
	const int blocks = lab->backend->weights->shape.n_blocks;
	const struct search_costs costs = price_of(s, blocks);
	const struct mask best = search_best(search, NULL);
	f->matchness[at] = lab_judge(lab, &best);
	f->speedup[at] = speedup_at(&costs, blocks, &best, f->matchness[at]);
	f->skipped[at] = (double)mask_count(&best) / (2 * blocks - 4);
}

/* As a session does: given up after the first rows where it can no longer win. */
static void score(struct lab* lab, struct search* search, const struct proposal* p, int w) {
	double distance;
	int rows = p->needed > 0 ? LAB_FIRST_ROWS : lab->window[w].size;
	int matches = lab_score(lab, &p->mask, w, rows, &distance);
	if (rows < lab->window[w].size && matches + lab->window[w].size - rows > p->needed) {
		rows = lab->window[w].size;
		matches = lab_score(lab, &p->mask, w, rows, &distance);
	}
	search_observe(search, p, matches, rows, distance);
}

static struct search* open_search(const struct searching* s, const struct lab* lab, const struct proposer* p,
                                  uint64_t seed, struct error* error) {
	const struct search_options options = {.blocks = lab->backend->weights->shape.n_blocks,
	                                       .skip_ratio = p->by_price ? 0 : 0.45,
	                                       .bayes_interval = p->bayes_interval,
	                                       .max_steps = 1000,
	                                       .patience = 1000,
	                                       .max_matchness = 1,
	                                       .confirm = 1,
	                                       .objective = p->by_price ? OBJECTIVE_SPEEDUP : OBJECTIVE_MATCHNESS,
	                                       .acquisition = SEARCH_UCB,
	                                       .kernel = SEARCH_MATERN52,
	                                       .kappa = 2.5,
	                                       .seed = seed,
	                                       .published = p->published};
	struct search* search = search_open(&options, error);
	if (!search)
		return NULL;
	const struct search_costs costs = price_of(s, options.blocks);
	search_set_costs(search, &costs);
	if (p->influence)
		search_set_influence(search, lab->influence, 64);
	return search;
}

/* The masks of dynamic programming on a window are suggested; what it costs in scorings. Sizes: the one that
 * is searched, or a handful. */
static int program(struct lab* lab, const struct proposer* p, struct search* search, int w) {
	enum { SIZES = 4 };
	const struct lab_window* window = &lab->window[w];
	const int dims = 2 * lab->backend->weights->shape.n_blocks - 4;
	const int size = (int)((p->by_price ? 0.6 : 0.45) * dims);
	struct mask* mask = calloc((size_t)size + 1, sizeof *mask);
	void* space = malloc(layer_programming_bytes(&lab->backend->weights->shape));
	struct layer_programming cost = {0};
	struct error error;
	if (mask && space &&
	    layer_programming(lab->backend, lab->search[window->text].cache,
	                      lab->search[window->text].token + window->base, window->base, window->size, size,
	                      mask, space, &cost, &error))
		for (int i = 0; i < (p->by_price ? SIZES : 1); i++)
			search_suggest(search, &mask[size * (SIZES - i) / SIZES]);
	free(space);
	free(mask);
	return (int)ceil(cost.passes * cost.pass_rows / LAB_WINDOW);
}

static bool run_search(const struct searching* s, struct lab* lab, const struct proposer* p, uint64_t seed,
                       struct figures* f, struct error* error) {
	struct search* search = open_search(s, lab, p, seed, error);
	if (!search)
		return false;
	const int total = s->checkpoint[s->n_checkpoints - 1], even = total / lab->n_windows + 1;
	const int a_window = even > LEAST_A_WINDOW ? even : LEAST_A_WINDOW;
	int at = 0;
	int paid = 0, programmed = -1; /* scorings that programming has cost; the last window it was done on */
	for (int scored = 0; at < s->n_checkpoints; scored++) {
		while (at < s->n_checkpoints && s->checkpoint[at] <= scored + paid)
			judge(s, lab, search, at++, f);
		const int w = scored / a_window % lab->n_windows;
		struct proposal proposal;
		search_window(search, w + 1, lab->window[w].size);
		if (p->programming && w / PROGRAM_EVERY != programmed) {
			programmed = w / PROGRAM_EVERY;
			paid += program(lab, p, search, w);
		}
		if (scored >= p->scorings || !search_propose(search, &proposal))
			break;
		score(lab, search, &proposal, w);
	}
	for (; at < s->n_checkpoints; at++)
		judge(s, lab, search, at, f);
	search_close(search);
	return true;
}

/* ---- a landscape -------------------------------------------------------------------------- */

struct table {
	struct figures figures[PROPOSERS][MAX_SEEDS];
	int seeds;
};

static bool wanted(const struct searching* s, const struct proposer* p) {
	return !s->only || strncmp(p->name, s->only, strlen(s->only)) == 0;
}

static bool run_seed(const struct searching* s, struct lab* lab, uint64_t seed, struct table* t,
                     struct error* error) {
	for (int p = 0; p < PROPOSERS; p++) {
		if (!wanted(s, &proposers[p]))
			continue;
		bench_progress((double)p / PROPOSERS, "seed %d: %s", (int)seed, proposers[p].name);
		if (!run_search(s, lab, &proposers[p], seed, &t->figures[p][t->seeds], error))
			return false;
	}
	t->seeds++;
	return true;
}

static double mean_of(const struct table* t, const double* first, double* error) {
	const size_t stride = sizeof(struct figures) / sizeof(double);
	double sum = 0, square = 0;
	for (int i = 0; i < t->seeds; i++)
		sum += first[(size_t)i * stride];
	const double mean = sum / t->seeds;
	for (int i = 0; i < t->seeds; i++)
		square += (first[(size_t)i * stride] - mean) * (first[(size_t)i * stride] - mean);
	*error = t->seeds > 1 ? sqrt(square / (t->seeds - 1) / t->seeds) : NAN;
	return mean;
}

static void print_table(const struct searching* s, const char* landscape, const struct table* t) {
	double error;
	bench_progress_end();
	printf("%s, %d seeds: true matchness and expected speed-up after scorings\n%-36s", landscape, t->seeds,
	       "");
	for (int c = 0; c < s->n_checkpoints; c++)
		printf("  %-21d", s->checkpoint[c]);
	putchar('\n');
	for (int p = 0; p < PROPOSERS; p++) {
		if (!wanted(s, &proposers[p]))
			continue;
		printf("%-36s", proposers[p].name);
		for (int c = 0; c < s->n_checkpoints; c++) {
			const struct figures* f = t->figures[p];
			printf("  %.3f", mean_of(t, &f->matchness[c], &error));
			printf(" ±%.3f", error);
			printf(" %.3f (%.2f)", mean_of(t, &f->speedup[c], &error), mean_of(t, &f->skipped[c], &error));
		}
		putchar('\n');
	}
	fflush(stdout);
}

static void table_to_json(const struct searching* s, const char* landscape, const struct table* t) {
	cJSON* list = cJSON_AddArrayToObject(s->out, landscape);
	for (int p = 0; p < PROPOSERS; p++) {
		if (!wanted(s, &proposers[p]))
			continue;
		for (int c = 0; c < s->n_checkpoints; c++) {
			const struct figures* f = t->figures[p];
			double error;
			cJSON* row = cJSON_CreateObject();
			cJSON_AddItemToArray(list, row);
			cJSON_AddStringToObject(row, "proposer", proposers[p].name);
			cJSON_AddNumberToObject(row, "scorings", s->checkpoint[c]);
			bench_json_number(row, "matchness", mean_of(t, &f->matchness[c], &error));
			bench_json_number(row, "matchness_error", error);
			bench_json_number(row, "speedup", mean_of(t, &f->speedup[c], &error));
			bench_json_number(row, "speedup_error", error);
			bench_json_number(row, "skip_ratio", mean_of(t, &f->skipped[c], &error));
		}
	}
}

static void show(const struct searching* s, const char* landscape, const struct table* t) {
	if (s->json)
		table_to_json(s, landscape, t);
	else
		print_table(s, landscape, t);
}

/* One model, one set of prompts. task NULL: all of the file's; input NULL: made-up prompts. */
static bool run_model(struct searching* s, const char* model, const char* input, const char* task,
                      uint64_t first_seed, int seeds, struct table* t, struct error* error) {
	struct prompts prompts = {.n = 0};
	struct lab lab = {.backend = NULL};
	const struct swiftlet_options options =
	    s->bench.options; /* bench_open begins by clearing where they lie */
	if (bench_open(&s->bench, model, &options, s->json) != OPTIONS_GO_ON) {
		bench_close(&s->bench);
		return error_set(error, "the model could not be opened");
	}
	bool good = input ? read_prompts(&s->bench, input, task, &prompts, error)
	                  : made_up_prompts(&s->bench, first_seed, &prompts, error);
	good = good && lab_open(&lab, &s->bench, prompts.id, prompts.count, prompts.tokens, prompts.n,
	                        prompts.n_search, error);
	bench_progress_end();
	if (good && s->noise)
		search_noise(&lab);
	for (int i = 0; good && !s->noise && i < seeds; i++)
		good = run_seed(s, &lab, first_seed + (uint64_t)i, t, error);
	if (lab.backend)
		lab_close(&lab);
	prompts_free(&prompts);
	bench_close(&s->bench);
	return good;
}

static bool run_made_up(struct searching* s, int blocks, const char* kind, struct error* error) {
	struct table* t = calloc(1, sizeof *t);
	char name[32], spec[200];
	bool good = t != NULL;
	for (uint64_t seed = 1; good && seed <= (uint64_t)s->seeds; seed++) {
		snprintf(spec, sizeof spec,
		         "synth:layers=%d,dim=64,heads=2,kv-heads=1,ffn=128,vocab=1024,dtype=f32,%s,seed=%d", blocks,
		         kind, (int)seed);
		good = run_model(s, spec, NULL, NULL, seed, 1, t, error);
	}
	snprintf(name, sizeof name, "%s, %d blocks", strncmp(kind, "plant", 5) == 0 ? "planted" : "graded",
	         blocks);
	if (good && !s->noise)
		show(s, name, t);
	free(t);
	return good;
}

static bool run_given(struct searching* s, const char* model, const char* input, const char* task,
                      struct error* error) {
	struct table* t = calloc(1, sizeof *t);
	const bool good = t && run_model(s, model, input, task, 1, (int)s->seeds, t, error);
	if (good && !s->noise)
		show(s, task ? task : "all tasks", t);
	free(t);
	return good;
}

/* Tasks of a stream in the order they first come. */
static int tasks_of(const char* path, char task[][64], int most, struct error* error) {
	struct jsonl_reader reader = {.file = fopen(path, "rb")};
	struct instance instance;
	int n = 0;
	if (!reader.file) {
		error_set(error, "%s: cannot be opened", path);
		return 0;
	}
	while (jsonl_next(&reader, &instance, error) == JSONL_INSTANCE) {
		bool known = !instance.task;
		for (int i = 0; i < n && !known; i++)
			known = strcmp(task[i], instance.task) == 0;
		if (!known && n < most)
			snprintf(task[n++], sizeof task[0], "%s", instance.task);
		instance_free(&instance);
	}
	jsonl_free(&reader);
	fclose(reader.file);
	return n;
}

static bool run_tasks(struct searching* s, const char* model, struct error* error) {
	char task[32][64];
	const int n = tasks_of(s->input, task, 32, error);
	bool good = n > 0;
	for (int i = 0; good && i < n; i++)
		good = run_given(s, model, s->input, task[i], error);
	return good;
}

static bool run_all(struct searching* s, struct error* error) {
	if (s->model || s->input) {
		const char* model = s->model ? s->model : "builtin";
		return s->by_task && s->input ? run_tasks(s, model, error)
		                              : run_given(s, model, s->input, NULL, error);
	}
	return run_made_up(s, 24, "plant=0.45", error) && run_made_up(s, 32, "plant=0.45", error) &&
	       run_made_up(s, 24, "landscape=graded", error) && run_made_up(s, 32, "landscape=graded", error);
}

int bench_search_main(int argc, char** argv) {
	struct searching s = {.seeds = 6, .slope = 50, .checkpoint = {0, 25, 100, 300}, .n_checkpoints = 4};
	struct swiftlet_options session;
	bool long_run = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "one model alone (a trained one with -i)", OPTION_TEXT, &s.model, 0, 0},
	    {"input", 'i', "FILE", "prompts, a JSON object a line: every other one judges", OPTION_TEXT, &s.input,
	     0, 0},
	    {"by-task", 0, NULL, "each task of FILE by itself", OPTION_FLAG, &s.by_task, 0, 0},
	    {"only", 0, "NAME", "proposers whose name begins so", OPTION_TEXT, &s.only, 0, 0},
	    {"seeds", 0, "N", "searches of each proposer (6)", OPTION_COUNT, &s.seeds, 1, MAX_SEEDS},
	    {"slope", 0, "N", "what one more row costs, in thousandths of a plain step (50)", OPTION_COUNT,
	     &s.slope, 0, 1000},
	    {"to-500", 0, NULL, "after 500 scorings too", OPTION_FLAG, &long_run, 0, 0},
	    {"noise", 0, NULL, "search nothing: how scores stray, a line each model", OPTION_FLAG, &s.noise, 0,
	     0},
	    {"json", 0, NULL, "print one JSON object instead of tables", OPTION_FLAG, &s.json, 0, 0}};
	struct command_line line = {
	    .name = "bench search",
	    .usage = "[-m MODEL] [-i FILE [--by-task]] [--seeds N] [--slope N] [--json]",
	    .about =
	        "Which proposers find good masks: each searches on windows of text that the model wrote, and\n"
	        "what it would draft with is judged on other text, at r = 0.45 but where by price. Without a\n"
	        "model: made-up ones, another for each seed. Scorings again count like any other.",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &session};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (s.model && !s.input && strncmp(s.model, "synth:", 6) != 0)
		return complain(STATUS_USAGE, "bench search: a trained model needs prompts: -i FILE");
	struct error error = {{0}};
	s.bench.options = session;
	s.out = s.json ? cJSON_CreateObject() : NULL;
	if (long_run)
		s.checkpoint[s.n_checkpoints++] = 500;
	const bool good = run_all(&s, &error);
	bench_progress_end();
	if (!good) {
		cJSON_Delete(s.out);
		return complain(STATUS_FAILED, "%s", error.message);
	}
	return s.json ? bench_print_json(s.out) : STATUS_DONE;
}
