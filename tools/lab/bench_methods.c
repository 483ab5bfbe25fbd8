/* `swiftlet bench methods`: every method on the same model, prompts, machine and kernels.
 *
 * A contest by prompt (contest.h). At stated prices (--prices) passes run for real and their time is made up,
 * so that the table is the same on every machine. */
#include "tools/lab/bench_methods.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/lone.h"
#include "tools/lab/timed_backend.h"
#include "tools/program/generation.h"
#include "tools/program/interrupt.h"

struct methods_bench {
	struct contest contest;
	const char *input, *learn_input, *names, *rules, *plot;
	const char* prices; /* NULL: the clock's */
	struct timed_backend timed;
	bool whole; /* exits without reuse too */
	int64_t most_tokens, learn_steps;
	struct method_table table; /* a row a contender */
	const char* task[MOST_TASKS];
	int64_t mask_steps; /* proposals that self-spec's mask took */
};

/* ---- figures -------------------------------------------------------------------------------- */

static double ratio(double a, double b) { return b > 0 ? a / b : NAN; }

static struct method_figures figures_of(const struct methods_bench* b, int row, struct choice choice) {
	const struct answer s = contest_sum(&b->contest, row, choice);
	struct method_figures f = {.speedup = contest_median_over_plain(&b->contest, row, choice),
	                           .speed = answer_speed(&s),
	                           .mean_generated = ratio((double)s.round_tokens, (double)s.rounds),
	                           .alpha = ratio((double)s.accepted, (double)s.draft_steps),
	                           .compression_ratio = ratio((double)s.timed, (double)s.full_passes),
	                           .rows = ratio((double)s.rows, (double)s.verify_passes),
	                           .c = ratio(s.draft_seconds, (double)s.draft_steps) / b->table.plain_seconds,
	                           .tokens = s.tokens,
	                           .differing = s.differing};
	const double m = f.mean_generated;
	f.realized = f.speed * b->table.plain_seconds;
	f.expected = f.alpha > 0 ? m * f.alpha / ((m - 1) * f.c + f.alpha) : (double)NAN;
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		f.ctar[w] = ratio((double)s.ctar[w], (double)s.full_passes);
	return f;
}

/* Once all prompts were answered. */
static void fill_table(struct methods_bench* b) {
	struct method_table* t = &b->table;
	const struct contest* c = &b->contest;
	const struct answer plain = contest_sum(c, 0, every_prompt);
	t->model = swiftlet_model_name(c->bench.model);
	t->backend = swiftlet_engine_name(c->bench.engine);
	t->plain_seconds = 1 / answer_speed(&plain);
	t->tasks = c->tasks;
	t->task = b->task;
	for (int k = 0; k < c->tasks; k++)
		b->task[k] = c->task[k][0] ? c->task[k] : "all";
	for (int i = 0; i < t->rows; i++) {
		t->row[i].all = figures_of(b, i, every_prompt);
		for (int k = 0; k < c->tasks; k++)
			t->row[i].task[k] = figures_of(b, i, (struct choice){c->task[k], -1});
	}
}

/* ---- self-spec's mask ------------------------------------------------------------------------ */

/* Offline: SWIFT's published search, a proposal before every round, on text that is not measured. */
static bool find_mask(struct methods_bench* b, struct session* to, struct error* error) {
	struct swiftlet_options o = b->contest.bench.options;
	struct prompt_list texts = {.n = 0};
	bool good = prompt_list_read(&texts, b->contest.bench.model, b->learn_input, error);
	prompt_list_fit(&texts, options_context(&o, b->contest.bench.engine->model));
	o.method = SWIFTLET_SWIFT;
	swiftlet_options_set(&o, "preset", "paper", NULL, 0);
	o.bayes_interval = 2;
	o.patience = (int)b->learn_steps;
	o.max_steps = (int)b->learn_steps;
	struct session* s =
	    good ? swiftlet_session_open(b->contest.bench.engine, &o, error->message, sizeof error->message)
	         : NULL;
	good = s != NULL;
	for (int i = 0; good && b->mask_steps < b->learn_steps && i < 8 * texts.n && !interrupted(); i++) {
		const struct prompt* p = &texts.prompt[i % texts.n];
		struct generation g = {.show = NULL};
		struct swiftlet_request request;
		bench_progress((double)b->mask_steps / (double)b->learn_steps, "self-spec's mask, on %s",
		               b->learn_input ? b->learn_input : "the usual prompts");
		swiftlet_request_default(&request, &o);
		request.prompt = p->id;
		request.n_prompt = p->n;
		request.max_tokens = 160;
		good = generation_run(&g, s, &request, error);
		b->mask_steps += g.figures.optimize_steps;
		generation_free(&g);
	}
	if (good) {
		const struct mask mask = session_mask(s, NULL);
		session_set_mask(to, &mask);
	}
	if (s)
		swiftlet_session_close(s);
	prompt_list_free(&texts);
	return good;
}

/* ---- running -------------------------------------------------------------------------------- */

static bool is_named(const char* list, const char* name) {
	const size_t n = strlen(name);
	for (const char* at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0))
			return true;
	return list == NULL;
}

static const char* name_of_method(int i) { return i < SWIFTLET_METHODS ? methods[i].name : NULL; }
static const char* name_of_rule(int i) { return i < STOP_RULES ? stop_rule_name((enum stop_rule)i) : NULL; }

/* Every name in an option's list is one that name_of gives. */
static bool check_names(const char* option, const char* list, const char* (*name_of)(int)) {
	for (const char* at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		const size_t n = strcspn(at, ",");
		int i = 0;
		while (name_of(i) && (strncmp(name_of(i), at, n) != 0 || name_of(i)[n] != 0))
			i++;
		if (name_of(i))
			continue;
		char known[400] = "";
		for (int k = 0; name_of(k); k++)
			snprintf(known + strlen(known), sizeof known - strlen(known), k > 0 ? ", %s" : "%s", name_of(k));
		complain(STATUS_USAGE, "--%s: found %.*s, expected some of: %s", option, (int)n, at, known);
		return false;
	}
	return true;
}

/* Plain decoding comes first. */
static bool open_row(struct methods_bench* b, enum swiftlet_method method, enum swiftlet_stop_rule rule,
                     bool whole, struct error* error) {
	struct method_table* t = &b->table;
	struct method_row* row = &t->row[t->rows];
	struct swiftlet_options o = b->contest.bench.options;
	struct error why = {{0}};
	o.method = method;
	char name[40];
	*row = (struct method_row){.method = method, .rule = rule, .whole = whole};
	if (rule != SWIFTLET_STOP_OWN)
		o.stop_rule = rule;
	o.reuse &= !whole;
	snprintf(name, sizeof name, "%s%s%s%s", methods[method].name, rule == SWIFTLET_STOP_OWN ? "" : "/",
	         rule == SWIFTLET_STOP_OWN ? "" : stop_rule_name((enum stop_rule)(rule - 1)),
	         whole ? "/whole" : "");
	if (!contest_enter(&b->contest, name, &o, &why, error))
		return false;
	struct session* s = b->contest.contender[t->rows].session;
	row->name = b->contest.contender[t->rows++].name;
	if (!s)
		snprintf(row->missing, sizeof row->missing, "%.299s", why.message);
	else if (method == SWIFTLET_SELF_SPEC && !find_mask(b, s, error))
		return false;
	row->bytes = s ? session_method_bytes(s) : 0;
	return true;
}

static bool open_variants(struct methods_bench* b, enum swiftlet_method method, enum swiftlet_stop_rule rule,
                          struct error* error) {
	const bool exits = method_has_exit(&methods[method]);
	if (b->table.rows + 2 > MOST_CONTENDERS)
		return error_set(error, "more than %d rows: expected fewer --methods or --stop-rules",
		                 MOST_CONTENDERS);
	return open_row(b, method, rule, false, error) &&
	       (!b->whole || !exits || open_row(b, method, rule, true, error));
}

/* A method that drafts by itself once with each rule that is asked for; the others as they are. */
static bool open_method(struct methods_bench* b, enum swiftlet_method method, struct error* error) {
	if (!b->rules || methods[method].drafter == DRAFTS_PLANNED)
		return open_variants(b, method, SWIFTLET_STOP_OWN, error);
	for (int rule = SWIFTLET_STOP_FIXED; rule <= SWIFTLET_STOP_GAIN; rule++)
		if (is_named(b->rules, stop_rule_name((enum stop_rule)(rule - 1))) &&
		    !open_variants(b, method, (enum swiftlet_stop_rule)rule, error))
			return false;
	return true;
}

static bool open_rows(struct methods_bench* b, struct error* error) {
	if (!open_row(b, SWIFTLET_VANILLA, SWIFTLET_STOP_OWN, false, error))
		return false;
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		if (i != SWIFTLET_VANILLA && is_named(b->names, methods[i].name) &&
		    !open_method(b, (enum swiftlet_method)i, error))
			return false;
	return true;
}

static bool prepare(struct methods_bench* b, struct error* error) {
	struct contest* c = &b->contest;
	c->temperature = c->bench.options.temperature;
	if (!timed_backend_by_option(&b->timed, c->bench.engine, &c->bench.options, b->prices, error) ||
	    !prompt_list_read(&c->prompts, c->bench.model, b->input, error))
		return false;
	prompt_list_fit(&c->prompts, options_context(&c->bench.options, c->bench.model));
	for (int i = 0; i < c->prompts.n; i++)
		if (c->prompts.prompt[i].max_tokens > b->most_tokens)
			c->prompts.prompt[i].max_tokens = (int)b->most_tokens;
	return open_rows(b, error);
}

/* ---- telling -------------------------------------------------------------------------------- */

static int name_width(const struct method_table* t) {
	size_t most = 10;
	for (int i = 0; i < t->rows; i++)
		most = strlen(t->row[i].name) > most ? strlen(t->row[i].name) : most;
	return (int)most;
}

/* LayerSkip, section 4.3.3. */
static void tell_reuse(const struct method_table* t) {
	for (int i = 1; i < t->rows; i++)
		if (t->row[i].whole && !t->row[i].missing[0]) {
			const double ms = 1000 * t->plain_seconds, kept = ms / t->row[i - 1].all.realized,
			             whole = ms / t->row[i].all.realized;
			printf("\n%s: %.3f ms a token, %.3f where drafts are verified whole: reuse saves %.3f\n",
			       t->row[i - 1].name, kept, whole, whole - kept);
		}
}

/* AdaSPEED's Table I: what a rule brings over as many steps each time. */
static void tell_rules(const struct method_table* t) {
	for (int i = 0; i < t->rows; i++) {
		const struct method_row* fixed = &t->row[i];
		if (fixed->rule != SWIFTLET_STOP_FIXED || fixed->whole || fixed->missing[0])
			continue;
		printf("\n%s: tokens a second over those of fixed steps, of all together\n",
		       methods[fixed->method].name);
		for (int k = i; k < t->rows && t->row[k].method == fixed->method; k++)
			printf("%-*s %8.2f\n", name_width(t), t->row[k].name,
			       t->row[k].all.realized / fixed->all.realized);
	}
}

static void tell_row(const struct methods_bench* b, int i) {
	const struct method_row* row = &b->table.row[i];
	const struct method_figures f = row->all;
	const int exit_block = b->contest.contender[i].exit_block;
	printf("%-*s %8.2f %8.2f %8.2f %7.2f %6.2f %6.2f %8.2f %6.1f %6.2f %8.1f %9lld", name_width(&b->table),
	       row->name, f.speedup, f.realized, f.expected, f.mean_generated, f.alpha, f.compression_ratio,
	       f.ctar[2], f.rows, f.c, (double)row->bytes / 1048576, (long long)f.differing);
	if (exit_block > 0)
		printf("   exit %d", exit_block);
	putchar('\n');
}

static int tell(const struct methods_bench* b) {
	const struct method_table* t = &b->table;
	printf("%s on %s: %d prompts, %lld tokens a method, ", t->model, t->backend, b->contest.asked,
	       (long long)t->row[0].all.tokens);
	if (b->prices)
		printf("at %s\n", b->prices);
	else
		printf("%.3f ms a plain step\n", 1000 * t->plain_seconds);
	if (b->contest.bench.options.rejection && b->contest.bench.options.temperature > 0)
		puts("rejection sampling: lossless in distribution, so that tokens do differ");
	printf("%-*s %8s %8s %8s %7s %6s %6s %8s %6s %6s %8s %9s\n", name_width(t), "method", "speed-up",
	       "realized", "expected", "M", "alpha", "CR", "CTAR(3)", "rows", "c", "MiB", "differing");
	for (int i = 0; i < t->rows; i++)
		if (!t->row[i].missing[0])
			tell_row(b, i);
	for (int i = 0; i < t->rows; i++)
		if (t->row[i].missing[0])
			printf("%-*s %s\n", name_width(t), t->row[i].name, t->row[i].missing);
	tell_rules(t);
	tell_reuse(t);
	printf("\nspeed-up by task, medians over prompts\n%-*s", name_width(t), "method");
	for (int i = 0; i < t->tasks; i++)
		printf(" %12.12s", t->task[i]);
	putchar('\n');
	for (int i = 0; i < t->rows; i++) {
		if (t->row[i].missing[0])
			continue;
		printf("%-*s", name_width(t), t->row[i].name);
		for (int k = 0; k < t->tasks; k++)
			printf(" %12.2f", t->row[i].task[k].speedup);
		putchar('\n');
	}
	return STATUS_DONE;
}

static void figures_json(cJSON* to, const struct method_figures f) {
	bench_json_number(to, "speedup", f.speedup);
	bench_json_number(to, "realized", f.realized);
	bench_json_number(to, "expected", f.expected);
	bench_json_number(to, "tokens_per_second", f.speed);
	bench_json_number(to, "M", f.mean_generated);
	bench_json_number(to, "alpha", f.alpha);
	bench_json_number(to, "CR", f.compression_ratio);
	cJSON* const curve = cJSON_AddArrayToObject(to, "CTAR");
	for (int w = 0; curve && w < SWIFTLET_CTAR; w++)
		cJSON_AddItemToArray(curve, cJSON_CreateNumber(f.ctar[w]));
	bench_json_number(to, "rows", f.rows);
	bench_json_number(to, "c", f.c);
	bench_json_number(to, "tokens", (double)f.tokens);
	bench_json_number(to, "differing", (double)f.differing);
}

static int tell_json(const struct methods_bench* b) {
	const struct method_table* t = &b->table;
	cJSON* const out = cJSON_CreateObject();
	bench_describe(&b->contest.bench, out);
	if (b->prices)
		cJSON_AddStringToObject(out, "prices", b->prices);
	bench_json_number(out, "prompts", b->contest.asked);
	bench_json_number(out, "plain_step_seconds", t->plain_seconds);
	bench_json_number(out, "self_spec_proposals", (double)b->mask_steps);
	cJSON_AddStringToObject(out, "acceptance", b->contest.bench.options.rejection ? "rejection" : "coupled");
	cJSON* const rows = cJSON_AddObjectToObject(out, "methods");
	for (int i = 0; rows && i < t->rows; i++) {
		const struct method_row* row = &t->row[i];
		cJSON* const to = cJSON_AddObjectToObject(rows, row->name);
		if (row->missing[0]) {
			cJSON_AddStringToObject(to, "missing", row->missing);
			continue;
		}
		figures_json(to, row->all);
		bench_json_number(to, "memory_bytes", (double)row->bytes);
		const int exit_block = b->contest.contender[i].exit_block;
		bench_json_number(to, "exit_block", exit_block > 0 ? exit_block : (double)NAN);
		cJSON* const tasks = cJSON_AddObjectToObject(to, "tasks");
		for (int k = 0; tasks && k < t->tasks; k++)
			figures_json(cJSON_AddObjectToObject(tasks, t->task[k]), row->task[k]);
	}
	return bench_print_json(out);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int run(struct methods_bench* b, const char* model, const struct swiftlet_options* options,
               bool json) {
	struct error error = {{0}};
	int status = bench_open(&b->contest.bench, model, options, json);
	if (status == OPTIONS_GO_ON) {
		interrupt_watch();
		const bool good = prepare(b, &error) && contest_run(&b->contest, &error);
		bench_progress_end();
		if (good)
			fill_table(b);
		status = !good ? complain(STATUS_FAILED, "%s", error.message) : json ? tell_json(b) : tell(b);
		if (good && b->plot && !plot_methods(&b->table, b->plot, &error))
			status = complain(STATUS_FAILED, "%s", error.message);
	}
	contest_close(&b->contest);
	timed_backend_remove(&b->timed);
	bench_close(&b->contest.bench);
	return status;
}

int bench_methods_main(int argc, char** argv) {
	struct swiftlet_options options;
	const char* model = NULL;
	bool json = false;
	struct methods_bench* b = calloc(1, sizeof *b);
	if (!b)
		return complain(STATUS_FAILED, "out of memory");
	b->most_tokens = 128;
	b->learn_steps = 200;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model (builtin)", OPTION_TEXT, &model, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of tables", OPTION_FLAG, &json, 0, 0},
	    {"input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (six usual ones)", OPTION_TEXT,
	     &b->input, 0, 0},
	    {"methods", 0, "LIST", "only these, beside vanilla (all)", OPTION_TEXT, &b->names, 0, 0},
	    {"stop-rules", 0, "LIST", "each method by each of these rules", OPTION_TEXT, &b->rules, 0, 0},
	    {"whole", 0, NULL, "each method with an exit without --reuse too", OPTION_FLAG, &b->whole, 0, 0},
	    {"prompts", 'n', "N", "stop after so many", OPTION_COUNT, &b->contest.most_prompts, 1, MOST_PROMPTS},
	    {"seconds", 0, "N", "begin no prompt after so many seconds of prompts", OPTION_COUNT,
	     &b->contest.most_seconds, 1, 1 << 20},
	    {"max-tokens", 0, "N", "tokens a prompt at most (128)", OPTION_COUNT, &b->most_tokens, 2, 1 << 20},
	    {"learn", 0, "FILE", "prompts that self-spec's mask is found on (the usual ones)", OPTION_TEXT,
	     &b->learn_input, 0, 0},
	    {"learn-steps", 0, "N", "proposals of that search, every second Bayesian (200)", OPTION_COUNT,
	     &b->learn_steps, 1, 1 << 20},
	    {"prices", 0, "LIST|FILE", timed_backend_option_help, OPTION_TEXT, &b->prices, 0, 0},
	    {"plot", 0, "FILE", "draw speed-up by method and task (SVG)", OPTION_TEXT, &b->plot, 0, 0},
	};
	struct command_line line = {
	    .name = "bench methods",
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--methods LIST] [--plot FILE] [--json] [options]",
	    .about =
	        "Every method on the same model, prompts and kernels, alternated prompt by prompt. speed-up: "
	        "the\n"
	        "median over prompts of tokens a second over plain decoding's; realized: of all together;\n"
	        "expected: by M, alpha and c alone (SWIFT Eq. 6); CR and CTAR: Kangaroo Eq. 1 and 2; rows: of a\n"
	        "verify pass; c: a draft step in plain steps; MiB: what the method keeps beside the model and\n"
	        "its cache; differing: tokens that are not plain decoding's.",
	    .examples = "  swiftlet bench methods -i streams/demo.jsonl --plot methods.svg\n"
	                "  swiftlet bench methods -i prompts.jsonl --methods layerskip,adaspeed --exit-block 6\n"
	                "  swiftlet bench methods --methods adaspeed --stop-rules fixed,marginal,product,probe "
	                "--temp 1 --top-p 0.9\n"
	                "  swiftlet bench methods --methods layerskip --temp 0.8 --acceptance rejection\n"
	                "  swiftlet bench methods --prices v2=1.03,v4=1.30,v8=1.58,v16=2.44",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &model);
	if (status == OPTIONS_GO_ON) {
		const bool known = check_names("methods", b->names, name_of_method) &&
		                   check_names("stop-rules", b->rules, name_of_rule);
		status = known ? run(b, model, &options, json) : STATUS_USAGE;
	}
	free(b);
	return status;
}
