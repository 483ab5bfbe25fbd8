/* `swiftlet bench methods`: every method on the same model, prompts, machine and kernels.
 *
 * A contest by prompt (contest.h). At stated prices (--prices) passes run for real and their time is made up,
 * so that the figures are the same on every machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/lone.h"
#include "core/decode/method.h"
#include "tools/lab/contest.h"
#include "tools/lab/timed_backend.h"
#include "tools/program/generation.h"
#include "tools/program/interrupt.h"

struct methods_bench {
	struct bench_part part;
	struct contest contest;
	const char *input, *learn_input, *names, *rules;
	const char* prices; /* NULL: the clock's */
	struct timed_backend timed;
	bool whole; /* exits without reuse too */
	int64_t most_tokens, learn_steps, mask_steps;
	char missing[MOST_CONTENDERS][300]; /* why it did not run; "" */
};

/* ---- self-spec's mask ------------------------------------------------------------------------ */

/* Offline: SWIFT's published search, a proposal before every round, on text that is not measured. */
static bool find_mask(struct methods_bench* b, struct session* to, struct error* error) {
	struct swiftlet_options o = b->part.bench.options;
	struct prompt_list texts = {.n = 0};
	bool good = prompt_list_read(&texts, b->part.bench.model, b->learn_input, error);
	prompt_list_fit(&texts, options_context(&o, b->part.bench.engine->model));
	o.method = SWIFTLET_SWIFT;
	swiftlet_options_set(&o, "preset", "paper", NULL, 0);
	o.bayes_interval = 2;
	o.patience = o.max_steps = (int)b->learn_steps;
	struct session* s =
	    good ? swiftlet_session_open(b->part.bench.engine, &o, error->message, sizeof error->message) : NULL;
	good = s != NULL;
	for (int i = 0; good && b->mask_steps < b->learn_steps && i < 8 * texts.n && !interrupted(); i++) {
		const struct prompt* p = &texts.prompt[i % texts.n];
		struct generation g = {.show = NULL};
		bench_progress((double)b->mask_steps / (double)b->learn_steps, "self-spec's mask, on %s",
		               b->learn_input ? b->learn_input : "the usual prompts");
		const struct swiftlet_request request = request_for(&o, p->id, p->n, 160, NULL);
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

/* ---- who takes part ------------------------------------------------------------------------- */

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
static bool enter(struct methods_bench* b, enum swiftlet_method method, enum swiftlet_stop_rule rule,
                  bool whole, struct error* error) {
	struct contest* c = &b->contest;
	struct swiftlet_options o = b->part.bench.options;
	struct error why = {{0}};
	char name[40];
	o.method = method;
	if (rule != SWIFTLET_STOP_OWN)
		o.stop_rule = rule;
	o.reuse &= !whole;
	snprintf(name, sizeof name, "%s%s%s%s", methods[method].name, rule == SWIFTLET_STOP_OWN ? "" : "/",
	         rule == SWIFTLET_STOP_OWN ? "" : stop_rule_name((enum stop_rule)(rule - 1)),
	         whole ? "/whole" : "");
	if (!contest_enter(c, name, &o, &why, error))
		return false;
	struct session* s = c->contender[c->n - 1].way.session;
	snprintf(b->missing[c->n - 1], sizeof *b->missing, "%.299s", s ? "" : why.message);
	return !s || method != SWIFTLET_SELF_SPEC || find_mask(b, s, error);
}

static bool enter_variants(struct methods_bench* b, enum swiftlet_method method, enum swiftlet_stop_rule rule,
                           struct error* error) {
	return enter(b, method, rule, false, error) &&
	       (!b->whole || !method_has_exit(&methods[method]) || enter(b, method, rule, true, error));
}

/* A method that drafts by itself once with each rule that is asked for; the others as they are. */
static bool enter_method(struct methods_bench* b, enum swiftlet_method method, struct error* error) {
	if (!b->rules || methods[method].drafter == DRAFTS_PLANNED)
		return enter_variants(b, method, SWIFTLET_STOP_OWN, error);
	for (int rule = SWIFTLET_STOP_FIXED; rule <= SWIFTLET_STOP_GAIN; rule++)
		if (is_named(b->rules, stop_rule_name((enum stop_rule)(rule - 1))) &&
		    !enter_variants(b, method, (enum swiftlet_stop_rule)rule, error))
			return false;
	return true;
}

static bool enter_all(struct methods_bench* b, struct error* error) {
	struct contest* c = &b->contest;
	c->bench = b->part.bench;
	c->temperature = c->bench.options.temperature;
	if (!timed_backend_by_option(&b->timed, c->bench.engine, &c->bench.options, b->prices, error) ||
	    !prompt_list_read(&c->prompts, c->bench.model, b->input, error))
		return false;
	b->part.bench.options = c->bench.options; /* with its clock */
	prompt_list_fit(&c->prompts, options_context(&c->bench.options, c->bench.model));
	for (int i = 0; i < c->prompts.n; i++)
		c->prompts.prompt[i].max_tokens = least(c->prompts.prompt[i].max_tokens, (int)b->most_tokens);
	if (!enter(b, SWIFTLET_VANILLA, SWIFTLET_STOP_OWN, false, error))
		return false;
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		if (i != SWIFTLET_VANILLA && is_named(b->names, methods[i].name) &&
		    !enter_method(b, (enum swiftlet_method)i, error))
			return false;
	return true;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void tell_figures(const struct methods_bench* b, int which, struct choice choice, double plain_seconds,
                         cJSON* to) {
	const struct answer s = contest_sum(&b->contest, which, choice);
	double ctar[SWIFTLET_CTAR];
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		ctar[w] = bench_ratio((double)s.ctar[w], (double)s.full_passes);
	bench_json_number(to, "speedup", contest_median_over_plain(&b->contest, which, choice));
	bench_json_number(to, "realized", answer_speed(&s) * plain_seconds);
	answer_json(&s, plain_seconds, to);
	bench_json_number(to, "tokens_per_second", answer_speed(&s));
	bench_json_number(to, "CR", bench_ratio((double)s.timed, (double)s.full_passes));
	bench_json_numbers(to, "CTAR", ctar, SWIFTLET_CTAR);
	bench_json_number(to, "rows", bench_ratio((double)s.rows, (double)s.verify_passes));
	bench_json_number(to, "tokens", (double)s.tokens);
	bench_json_number(to, "differing", (double)s.differing);
}

static void tell(const struct methods_bench* b, cJSON* out) {
	const struct contest* c = &b->contest;
	const struct answer plain = contest_sum(c, 0, every_prompt);
	const double plain_seconds = 1 / answer_speed(&plain);
	if (b->prices)
		cJSON_AddStringToObject(out, "prices", b->prices);
	bench_json_number(out, "prompts", c->asked);
	bench_json_number(out, "plain_step_seconds", plain_seconds);
	bench_json_number(out, "self_spec_proposals", (double)b->mask_steps);
	cJSON_AddStringToObject(out, "acceptance", c->bench.options.rejection ? "rejection" : "coupled");
	cJSON* const rows = cJSON_AddObjectToObject(out, "methods");
	for (int i = 0; i < c->n; i++) {
		const struct contender* is = &c->contender[i];
		cJSON* const to = cJSON_AddObjectToObject(rows, is->way.name);
		if (!is->way.session) {
			cJSON_AddStringToObject(to, "missing", b->missing[i]);
			continue;
		}
		tell_figures(b, i, every_prompt, plain_seconds, to);
		bench_json_number(to, "memory_bytes", (double)session_method_bytes(is->way.session));
		bench_json_number(to, "exit_block", is->way.exit_block > 0 ? is->way.exit_block : (double)NAN);
		cJSON* const tasks = cJSON_AddObjectToObject(to, "tasks");
		for (int k = 0; k < c->tasks; k++)
			tell_figures(b, i, (struct choice){c->task[k], -1}, plain_seconds,
			             cJSON_AddObjectToObject(tasks, c->task[k][0] ? c->task[k] : "all"));
	}
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct methods_bench* b = (struct methods_bench*)part;
	const bool good = enter_all(b, error) && contest_run(&b->contest, error);
	if (good)
		tell(b, out);
	contest_close(&b->contest);
	timed_backend_remove(&b->timed);
	return good;
}

static int prepare(struct bench_part* part) {
	const struct methods_bench* b = (struct methods_bench*)part;
	return check_names("methods", b->names, name_of_method) &&
	               check_names("stop-rules", b->rules, name_of_rule)
	           ? OPTIONS_GO_ON
	           : STATUS_USAGE;
}

int bench_methods_main(int argc, char** argv) {
	struct methods_bench* b = calloc(1, sizeof *b);
	if (!b)
		return complain(STATUS_FAILED, "out of memory");
	b->part.prepare = prepare;
	b->part.measure = measure;
	b->most_tokens = 128;
	b->learn_steps = 200;
	const struct option option[] = {
	    BENCH_OPTIONS(b->part),
	    OPTION_OF_TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (six usual ones)",
	                   &b->input),
	    OPTION_OF_TEXT("methods", 0, "LIST", "only these, beside vanilla (all)", &b->names),
	    OPTION_OF_TEXT("stop-rules", 0, "LIST", "each method by each of these rules", &b->rules),
	    OPTION_OF_FLAG("whole", "each method with an exit without --reuse too", &b->whole),
	    OPTION_OF_COUNT("prompts", 'n', "N", "stop after so many", &b->contest.most_prompts, 1, MOST_PROMPTS),
	    OPTION_OF_COUNT("seconds", 0, "N", "begin no prompt after so many seconds of prompts",
	                    &b->contest.most_seconds, 1, 1 << 20),
	    OPTION_OF_COUNT("max-tokens", 0, "N", "tokens a prompt at most (128)", &b->most_tokens, 2, 1 << 20),
	    OPTION_OF_TEXT("learn", 0, "FILE", "prompts that self-spec's mask is found on (the usual ones)",
	                   &b->learn_input),
	    OPTION_OF_COUNT("learn-steps", 0, "N", "proposals of that search, every second Bayesian (200)",
	                    &b->learn_steps, 1, 1 << 20),
	    OPTION_OF_TEXT("prices", 0, "LIST|FILE", timed_backend_option_help, &b->prices),
	};
	struct command_line line = {
	    .name = "bench methods",
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--methods LIST] [--json] [options]",
	    .about =
	        "Every method on the same model, prompts and kernels, alternated prompt by prompt. speedup: the\n"
	        "median over prompts of tokens a second over plain decoding's; realized: of all together;\n"
	        "expected_speedup: by M, alpha and c alone (SWIFT Eq. 6); CR and CTAR: Kangaroo Eq. 1 and 2;\n"
	        "rows: of a verify pass; c: a draft step in plain steps; memory_bytes: what the method keeps\n"
	        "beside the model and its cache; differing: tokens that are not plain decoding's (with "
	        "rejection\n"
	        "sampling, which is lossless in distribution, they do differ). By task with --json.",
	    .examples = "  swiftlet bench methods -i streams/demo.jsonl\n"
	                "  swiftlet bench methods -i prompts.jsonl --methods layerskip,adaspeed --exit-block 6\n"
	                "  swiftlet bench methods --methods adaspeed --stop-rules fixed,marginal,product,probe "
	                "--temp 1 --top-p 0.9\n"
	                "  swiftlet bench methods --methods layerskip --temp 0.8 --acceptance rejection\n"
	                "  swiftlet bench methods --prices v2=1.03,v4=1.30,v8=1.58,v16=2.44",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	};
	const int status = bench_part_main(&b->part, &line, argc, argv);
	free(b);
	return status;
}
