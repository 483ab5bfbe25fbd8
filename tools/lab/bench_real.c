/* `swiftlet bench real`: what a user gets, on real models and prompts.
 *
 * Every prompt is answered by every variant, one after another in turns whose order moves on from prompt to
 * prompt, in one process over the same weights: plain decoding, the defaults, and the defaults without each
 * drafter. Each variant is a session of its own that begins with nothing learned and keeps what it learns
 * from prompt to prompt, with prices of its own. Decoding alone is timed; every token is compared with plain
 * decoding's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/draft/drafter.h"
#include "tools/lab/bench.h"
#include "tools/program/prompt_list.h"
#include "tools/program/runtime.h"

enum { PLAIN, DEFAULTS, WITHOUT, MOST_VARIANTS = WITHOUT + DRAFTER_COUNT, LOOP = 64, MOST_TASKS = 32 };

struct answer {
	int tokens; /* decoded after the first, which comes with the prefill */
	double seconds, cpu;
	int64_t rows[SWIFTLET_SOURCES], accepted[SWIFTLET_SOURCES];
};

struct variant_run {
	char name[32];
	swiftlet_session* session;
	struct cost_model cost;
	struct answer* answer; /* (prompts) */
	int32_t* text;         /* (n_text) of the prompt at hand */
	int n_text;
};

struct real_run {
	struct bench bench;
	struct prompt_list prompts;
	struct variant_run variant[MOST_VARIANTS];
	int n_variants;
	bool* loops;  /* (prompts) the plain answer's */
	int capacity; /* of a variant's text */
	int64_t compared, differing, max_tokens;
	double temperature;
};

/* ---- running -------------------------------------------------------------------------------- */

static bool open_variant(struct real_run* r, const char* name, enum swiftlet_method method, unsigned which,
                         struct error* error) {
	struct variant_run* v = &r->variant[r->n_variants];
	struct swiftlet_options options = r->bench.options;
	if (method == SWIFTLET_VANILLA)
		options.method = method;
	options.drafters &= which;
	snprintf(v->name, sizeof v->name, "%s", name);
	v->session = swiftlet_session_open(r->bench.engine, &options, error->message, sizeof error->message);
	if (!v->session)
		return false;
	r->n_variants++;
	v->cost = r->bench.engine->cost;
	v->answer = calloc((size_t)r->prompts.n, sizeof *v->answer);
	v->text = malloc((size_t)r->capacity * sizeof *v->text);
	return (v->answer && v->text) || error_set(error, "out of memory for the figures");
}

static bool open_variants(struct real_run* r, bool ablation, struct error* error) {
	char name[32];
	bool good = open_variant(r, "plain", SWIFTLET_VANILLA, ~0u, error) &&
	            open_variant(r, "defaults", SWIFTLET_AUTO, ~0u, error);
	for (int i = 0; i < DRAFTER_COUNT && good && ablation; i++) {
		if (i == SOURCE_prediction || i == SOURCE_form) /* nobody asks for one here */
			continue;
		snprintf(name, sizeof name, "without %s", drafters[i]->name);
		good = open_variant(r, name, SWIFTLET_AUTO, ~(1u << i), error);
	}
	return good;
}

static double cpu_seconds(void) {
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void keep_text(struct variant_run* v, int capacity, const struct swiftlet_step* step) {
	for (int i = 0; i < step->n && v->n_text < capacity; i++)
		v->text[v->n_text++] = step->token[i].id;
}

static bool decode(struct real_run* r, struct variant_run* v, struct answer* a, struct error* error) {
	struct swiftlet_step step;
	bool prefilled = false;
	do {
		const double before = seconds_now(), cpu = cpu_seconds();
		if (!swiftlet_session_step(v->session, &step, error->message, sizeof error->message))
			return false;
		if (prefilled) {
			a->seconds += seconds_now() - before;
			a->cpu += cpu_seconds() - cpu;
			a->tokens += step.n;
		}
		prefilled = prefilled || step.n > 0;
		keep_text(v, r->capacity, &step);
	} while (step.stop == SWIFTLET_RUNNING);
	return step.stop != SWIFTLET_CANCELLED || error_set(error, "the generation was cancelled");
}

static bool answer(struct real_run* r, int which, int prompt, struct error* error) {
	struct variant_run* v = &r->variant[which];
	struct answer* a = &v->answer[prompt];
	struct swiftlet_request request;
	struct swiftlet_figures figures;
	swiftlet_request_default(&request, session_options(v->session));
	request.prompt = r->prompts.prompt[prompt].id;
	request.n_prompt = r->prompts.prompt[prompt].n;
	request.max_tokens = r->max_tokens > 0 ? (int)r->max_tokens : r->prompts.prompt[prompt].max_tokens;
	request.temperature = r->temperature;
	request.sequence = (uint64_t)prompt;
	r->bench.engine->cost = v->cost;
	v->n_text = 0;
	if (!swiftlet_session_start(v->session, &request, error->message, sizeof error->message) ||
	    !decode(r, v, a, error))
		return false;
	v->cost = r->bench.engine->cost;
	swiftlet_session_figures(v->session, &figures);
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		a->rows[i] = figures.source[i].rows;
		a->accepted[i] = figures.source[i].accepted;
	}
	return true;
}

/* Whether a text's last LOOP tokens stand earlier in it. */
static bool ends_in_loop(const int32_t* text, int n) {
	for (int from = 0; from + LOOP < n; from++)
		if (memcmp(text + from, text + n - LOOP, LOOP * sizeof *text) == 0)
			return true;
	return false;
}

static void compare(struct real_run* r, const struct variant_run* v) {
	const struct variant_run* plain = &r->variant[PLAIN];
	const int n = plain->n_text < v->n_text ? plain->n_text : v->n_text;
	for (int i = 0; i < n; i++)
		r->differing += plain->text[i] != v->text[i];
	r->differing += abs(plain->n_text - v->n_text);
	r->compared += n;
}

static bool run_prompts(struct real_run* r, struct error* error) {
	for (int p = 0; p < r->prompts.n; p++) {
		bench_progress((double)p / r->prompts.n, "%s at temperature %g", swiftlet_model_name(r->bench.model),
		               r->temperature);
		for (int k = 0; k < r->n_variants; k++)
			if (!answer(r, (p + k) % r->n_variants, p, error))
				return false;
		r->loops[p] = ends_in_loop(r->variant[PLAIN].text, r->variant[PLAIN].n_text);
		for (int k = PLAIN + 1; k < r->n_variants; k++)
			compare(r, &r->variant[k]);
	}
	return true;
}

/* ---- figures -------------------------------------------------------------------------------- */

/* Which prompts: of a task (NULL: any), looping or not (-1: either). */
struct choice {
	const char* task;
	int loops;
};

static bool is_chosen(const struct real_run* r, int prompt, struct choice choice) {
	const char* task = r->prompts.prompt[prompt].task;
	return (!choice.task || strcmp(task ? task : "", choice.task) == 0) &&
	       (choice.loops < 0 || r->loops[prompt] == choice.loops);
}

static struct answer sum_of(const struct real_run* r, int which, struct choice choice) {
	struct answer sum = {0};
	for (int p = 0; p < r->prompts.n; p++) {
		const struct answer* a = &r->variant[which].answer[p];
		if (!is_chosen(r, p, choice))
			continue;
		sum.tokens += a->tokens;
		sum.seconds += a->seconds;
		sum.cpu += a->cpu;
		for (int i = 0; i < SWIFTLET_SOURCES; i++) {
			sum.rows[i] += a->rows[i];
			sum.accepted[i] += a->accepted[i];
		}
	}
	return sum;
}

static double speed(const struct answer* a) { return a->seconds > 0 ? a->tokens / a->seconds : NAN; }

/* A variant's speed over plain decoding's, of all tokens together. */
static double over_plain(const struct real_run* r, int which, struct choice choice) {
	const struct answer of = sum_of(r, which, choice), plain = sum_of(r, PLAIN, choice);
	return speed(&of) / speed(&plain);
}

/* The same, the median over prompts. */
static double median_over_plain(const struct real_run* r, int which, struct choice choice) {
	double ratio[MOST_PROMPTS];
	int n = 0;
	for (int p = 0; p < r->prompts.n; p++) {
		const double value = speed(&r->variant[which].answer[p]) / speed(&r->variant[PLAIN].answer[p]);
		if (is_chosen(r, p, choice) && isfinite(value))
			ratio[n++] = value;
	}
	return bench_median(ratio, n);
}

static int count_chosen(const struct real_run* r, struct choice choice) {
	int n = 0;
	for (int p = 0; p < r->prompts.n; p++)
		n += is_chosen(r, p, choice);
	return n;
}

static int list_tasks(const struct real_run* r, const char* task[MOST_TASKS]) {
	int n = 0;
	for (int p = 0; p < r->prompts.n; p++) {
		const char* of = r->prompts.prompt[p].task ? r->prompts.prompt[p].task : "";
		int at = 0;
		while (at < n && strcmp(task[at], of) != 0)
			at++;
		if (at == n && n < MOST_TASKS)
			task[n++] = of;
	}
	return n;
}

/* ---- telling -------------------------------------------------------------------------------- */

static const struct choice all = {NULL, -1};

static void json_choice(const struct real_run* r, cJSON* list, const char* name, struct choice choice) {
	const struct answer plain = sum_of(r, PLAIN, choice), defaults = sum_of(r, DEFAULTS, choice);
	cJSON* out = cJSON_CreateObject();
	cJSON_AddStringToObject(out, "prompts_of", name);
	cJSON_AddNumberToObject(out, "prompts", count_chosen(r, choice));
	bench_json_number(out, "plain", speed(&plain));
	bench_json_number(out, "defaults", speed(&defaults));
	bench_json_number(out, "over_plain", over_plain(r, DEFAULTS, choice));
	bench_json_number(out, "median_over_plain", median_over_plain(r, DEFAULTS, choice));
	cJSON_AddItemToArray(list, out);
}

static void json_variant(const struct real_run* r, cJSON* list, int which) {
	const struct answer sum = sum_of(r, which, all);
	cJSON* out = cJSON_CreateObject();
	cJSON_AddStringToObject(out, "name", r->variant[which].name);
	cJSON_AddNumberToObject(out, "tokens", sum.tokens);
	bench_json_number(out, "tokens_per_second", speed(&sum));
	bench_json_number(out, "over_plain", over_plain(r, which, all));
	bench_json_number(out, "median_over_plain", median_over_plain(r, which, all));
	bench_json_number(out, "cpu_seconds_per_token", sum.cpu / sum.tokens);
	cJSON* sources = cJSON_AddObjectToObject(out, "sources");
	for (int i = 0; swiftlet_source_name(i); i++) {
		if (sum.rows[i] == 0)
			continue;
		cJSON* source = cJSON_AddObjectToObject(sources, swiftlet_source_name(i));
		cJSON_AddNumberToObject(source, "rows", (double)sum.rows[i]);
		cJSON_AddNumberToObject(source, "accepted", (double)sum.accepted[i]);
	}
	cJSON_AddItemToArray(list, out);
}

static cJSON* json_run(const struct real_run* r) {
	const char* task[MOST_TASKS];
	const int tasks = list_tasks(r, task);
	cJSON* out = cJSON_CreateObject();
	bench_describe(&r->bench, out);
	cJSON_AddNumberToObject(out, "temperature", r->temperature);
	cJSON* variants = cJSON_AddArrayToObject(out, "variants");
	for (int i = 0; i < r->n_variants; i++)
		json_variant(r, variants, i);
	cJSON* by = cJSON_AddArrayToObject(out, "by");
	for (int i = 0; i < tasks; i++)
		json_choice(r, by, task[i], (struct choice){task[i], -1});
	json_choice(r, by, "answers that loop", (struct choice){NULL, 1});
	json_choice(r, by, "answers that do not", (struct choice){NULL, 0});
	json_choice(r, by, "all", all);
	cJSON_AddNumberToObject(out, "tokens_compared", (double)r->compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)r->differing);
	return out;
}

static void print_choice(const struct real_run* r, const char* name, struct choice choice) {
	const struct answer plain = sum_of(r, PLAIN, choice), defaults = sum_of(r, DEFAULTS, choice);
	printf("%-20s %7d %9.1f %9.1f %11.2f %8.2f\n", name, count_chosen(r, choice), speed(&plain),
	       speed(&defaults), over_plain(r, DEFAULTS, choice), median_over_plain(r, DEFAULTS, choice));
}

static void print_sources(const struct real_run* r) {
	const struct answer sum = sum_of(r, DEFAULTS, all);
	printf("\n%-20s %7s %9s\n", "drafts of", "rows", "accepted");
	for (int i = 0; swiftlet_source_name(i); i++)
		if (sum.rows[i] > 0)
			printf("%-20s %7lld %9lld\n", swiftlet_source_name(i), (long long)sum.rows[i],
			       (long long)sum.accepted[i]);
}

static void print_run(const struct real_run* r) {
	const struct backend* backend = r->bench.engine->backend;
	const char* task[MOST_TASKS];
	const int tasks = list_tasks(r, task);
	printf("%s on %s, %d threads, temperature %g\n\n%-20s %9s %11s %8s %14s\n",
	       swiftlet_model_name(r->bench.model), swiftlet_engine_name(r->bench.engine),
	       backend->threads(backend), r->temperature, "", "tokens/s", "over plain", "median",
	       "CPU ms a token");
	for (int i = 0; i < r->n_variants; i++) {
		const struct answer sum = sum_of(r, i, all);
		printf("%-20s %9.1f %11.2f %8.2f %14.1f\n", r->variant[i].name, speed(&sum), over_plain(r, i, all),
		       median_over_plain(r, i, all), 1e3 * sum.cpu / sum.tokens);
	}
	printf("\n%-20s %7s %9s %9s %11s %8s\n", "prompts of", "prompts", "plain", "defaults", "over plain",
	       "median");
	for (int i = 0; i < tasks; i++)
		print_choice(r, task[i], (struct choice){task[i], -1});
	print_choice(r, "answers that loop", (struct choice){NULL, 1});
	print_choice(r, "answers that do not", (struct choice){NULL, 0});
	print_sources(r);
	printf("\n%lld tokens compared with plain decoding's, %lld differ\n\n", (long long)r->compared,
	       (long long)r->differing);
}

/* ---- the command ---------------------------------------------------------------------------- */

struct wish {
	const char *model, *input, *only;
	int64_t tokens;
	bool json, no_ablation;
	struct swiftlet_options options;
};

static void close_variants(struct real_run* r) {
	for (int i = 0; i < MOST_VARIANTS; i++) {
		if (r->variant[i].session)
			swiftlet_session_close(r->variant[i].session);
		free(r->variant[i].answer);
		free(r->variant[i].text);
	}
	free(r->loops);
}

static bool make_room(struct real_run* r, struct error* error) {
	r->capacity = options_context(&r->bench.options, r->bench.model) + 1;
	r->loops = calloc((size_t)r->prompts.n, sizeof *r->loops);
	return r->loops || error_set(error, "out of memory for the texts");
}

/* One model at one temperature, with sessions that have seen nothing. The exit status. */
static int run_once(const struct wish* wish, const char* model, double temperature, cJSON* list) {
	struct real_run r = {.temperature = temperature, .max_tokens = wish->tokens};
	struct swiftlet_options options = wish->options;
	struct error error = {{0}};
	if (!options.draft_cache[0])
		snprintf(options.draft_cache, sizeof options.draft_cache, "off"); /* nothing of an earlier run */
	int status = bench_open_as_run(&r.bench, model, &options, wish->json);
	if (status == OPTIONS_GO_ON) {
		bool good = prompt_list_read(&r.prompts, r.bench.model, wish->input, &error);
		if (good)
			prompt_list_fit(&r.prompts, options_context(&options, r.bench.model));
		good = good && make_room(&r, &error) && open_variants(&r, !wish->no_ablation, &error) &&
		       run_prompts(&r, &error);
		bench_progress_end();
		status = good ? STATUS_DONE : complain(STATUS_FAILED, "%s", error.message);
		if (good && wish->json)
			cJSON_AddItemToArray(list, json_run(&r));
		else if (good)
			print_run(&r);
	}
	close_variants(&r);
	prompt_list_free(&r.prompts);
	bench_close(&r.bench);
	if (status == STATUS_DONE && r.differing > 0)
		return complain(STATUS_FAILED, "%lld tokens differ from plain decoding's", (long long)r.differing);
	return status;
}

/* Every model, greedily and sampled, or as `only` says. */
static int run_all(const struct wish* wish, const char* const* model, int n) {
	const double sampled = wish->options.temperature > 0 ? wish->options.temperature : 0.7;
	const bool greedily = !wish->only || strcmp(wish->only, "greedy") == 0;
	const bool both = !wish->only || !greedily;
	cJSON* list = wish->json ? cJSON_CreateArray() : NULL;
	int status = STATUS_DONE;
	for (int i = 0; i < n && status == STATUS_DONE; i++) {
		if (greedily)
			status = run_once(wish, model[i], 0, list);
		if (both && status == STATUS_DONE)
			status = run_once(wish, model[i], sampled, list);
	}
	if (wish->json && status == STATUS_DONE)
		return bench_print_json(list);
	cJSON_Delete(list);
	return status;
}

int bench_real_main(int argc, char** argv) {
	struct wish wish = {.tokens = 0};
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model (builtin); several may stand without -m", OPTION_TEXT, &wish.model,
	     0, 0},
	    {"input", 'i', "FILE", "prompts as JSON lines (six of the program's own)", OPTION_TEXT, &wish.input,
	     0, 0},
	    {"tokens", 'n', "N", "tokens at most (each line's max_tokens)", OPTION_COUNT, &wish.tokens, 8,
	     1 << 20},
	    {"only", 0, "HOW", "greedy, or sampled at --temp (0.7); else first one, then the other", OPTION_TEXT,
	     &wish.only, 0, 0},
	    {"no-ablation", 0, NULL, "only plain decoding and the defaults", OPTION_FLAG, &wish.no_ablation, 0,
	     0},
	    {"json", 0, NULL, "print a JSON array of runs instead of tables", OPTION_FLAG, &wish.json, 0, 0},
	};
	struct command_line line = {
	    .name = "bench real",
	    .usage = "MODEL... [-i FILE.jsonl] [-n N] [--json] [options]",
	    .about =
	        "What a user gets: every prompt answered plainly, with the defaults, and with the defaults less "
	        "each\n"
	        "drafter, in turns and in one process, from a cold start (no store); decoding alone is timed. "
	        "Prints\n"
	        "tokens a second, their ratio to plain decoding's over all tokens and as the median over "
	        "prompts,\n"
	        "processor time a token, the same by task and apart for answers that loop (their last 64 tokens\n"
	        "stand earlier in them), and who drafted what was accepted. Every token is compared; where one\n"
	        "differs the exit status is 1. A model without a chat template continues the last message's "
	        "text.",
	    .examples = "  swiftlet bench real $(tools/models smollm2-135m) -i tools/chat.jsonl\n"
	                "  swiftlet bench real model.gguf other.gguf -i prompts.jsonl -n 128 --json",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &wish.options,
	    .max_words = 16,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!method_plans(&wish.options))
		return complain(STATUS_USAGE, "bench real: --method %s: expected auto or swift",
		                swiftlet_method_name(wish.options.method));
	if (line.n_words > 0 && wish.model)
		return complain(STATUS_USAGE, "bench real: models were given both with -m and without");
	if (wish.only && strcmp(wish.only, "greedy") != 0 && strcmp(wish.only, "sampled") != 0)
		return complain(STATUS_USAGE, "bench real: --only %s: expected greedy or sampled", wish.only);
	const char* const one = wish.model ? wish.model : "builtin";
	return line.n_words > 0 ? run_all(&wish, line.word, line.n_words) : run_all(&wish, &one, 1);
}
