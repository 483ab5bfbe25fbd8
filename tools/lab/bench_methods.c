/* `swiftlet bench methods`: every method on the same model, prompts, machine and kernels.
 *
 * A contest by prompt (contest.h). */
#include <math.h>
#include <string.h>

#include "core/methods/method.h"
#include "core/methods/standalone.h"
#include "tools/lab/contest.h"

struct methods_bench {
	struct bench_part part;
	struct contest contest;
	const char *input, *mask, *names;
	bool named[SWIFTLET_METHODS];
	int most_tokens;
	char missing[MOST_CONTENDERS][300]; /* why it did not run; "" */
};

/* ---- who takes part ------------------------------------------------------------------------- */

/* The methods that --methods lists, or all. The exit status for an unknown name. */
static int check_methods_options(struct bench_part* part) {
	struct methods_bench* b = (struct methods_bench*)part;
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		b->named[i] = !b->names;
	for (const char* at = b->names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		const size_t n = strcspn(at, ",");
		char known[400] = "";
		int i = 0;
		while (i < SWIFTLET_METHODS && (strncmp(method_name((enum swiftlet_method)i), at, n) != 0 ||
		                                method_name((enum swiftlet_method)i)[n] != 0))
			i++;
		if (i < SWIFTLET_METHODS) {
			b->named[i] = true;
			continue;
		}
		for (int k = 0; k < SWIFTLET_METHODS; k++)
			snprintf(known + strlen(known), sizeof known - strlen(known), k > 0 ? ", %s" : "%s",
			         method_name((enum swiftlet_method)k));
		return complain(STATUS_USAGE, "--methods: found %.*s, expected some of: %s", (int)n, at, known);
	}
	return OPTIONS_GO_ON;
}

/* The mask that self-spec drafts with; without a mask self-spec gets no session. */
static bool give_mask(struct methods_bench* b, struct way* way, struct error* why, struct error* error) {
	struct mask mask;
	if (b->mask && !mask_of_file(b->mask, NULL, b->part.bench.model, false, &mask, error))
		return false;
	if (b->mask) {
		session_set_mask(way->session, &mask);
		return true;
	}
	swiftlet_session_close(way->session);
	way->session = NULL;
	error_set(why, "it needs a mask that was found before: --mask FILE");
	return true;
}

/* Plain decoding comes first. */
static bool enter_contest(struct methods_bench* b, enum swiftlet_method method, struct error* error) {
	struct contest* c = &b->contest;
	struct swiftlet_options o = b->part.bench.options;
	struct error why = {{0}};
	o.drafting.method = method;
	if (!contest_enter(c, method_name((enum swiftlet_method)method), &o, &why, error))
		return false;
	struct way* way = &c->way[c->n - 1];
	if (way->session && method == SWIFTLET_SELF_SPEC && !give_mask(b, way, &why, error))
		return false;
	snprintf(b->missing[c->n - 1], sizeof *b->missing, "%.299s", way->session ? "" : why.message);
	return true;
}

static bool enter_all(struct methods_bench* b, struct error* error) {
	struct contest* c = &b->contest;
	c->bench = &b->part.bench;
	c->temperature = c->bench->options.sampling.temperature;
	if (!bench_prompts(c->bench, &c->prompts, b->input, b->most_tokens, error) ||
	    !enter_contest(b, SWIFTLET_VANILLA, error))
		return false;
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		if (i != SWIFTLET_VANILLA && b->named[i] && !enter_contest(b, (enum swiftlet_method)i, error))
			return false;
	return true;
}

/* ---- report --------------------------------------------------------------------------------- */

static void report_method(const struct methods_bench* b, int which, struct prompt_choice choice,
                          double plain_seconds, cJSON* to) {
	const struct answer s = contest_sum(&b->contest, which, choice);
	double ctar[SWIFTLET_CTAR];
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		ctar[w] = quotient(s.ctar[w], s.full_passes);
	cJSON_AddNumberToObject(to, "speedup", contest_median_over_plain(&b->contest, which, choice));
	cJSON_AddNumberToObject(to, "realized", answer_speed(&s) * plain_seconds);
	answer_json(&s, plain_seconds, to);
	cJSON_AddNumberToObject(to, "tokens_per_second", answer_speed(&s));
	cJSON_AddNumberToObject(to, "CR", quotient(s.timed, s.full_passes));
	bench_json_numbers(to, "CTAR", ctar, SWIFTLET_CTAR);
	cJSON_AddNumberToObject(to, "rows", quotient(s.rows, s.verify_passes));
	cJSON_AddNumberToObject(to, "tokens", s.tokens);
	cJSON_AddNumberToObject(to, "differing", s.differing);
}

static void report_figures(const struct methods_bench* b, cJSON* out) {
	const struct contest* c = &b->contest;
	const struct answer plain = contest_sum(c, 0, every_prompt);
	const double plain_seconds = 1 / answer_speed(&plain);
	cJSON_AddNumberToObject(out, "prompts", c->asked);
	cJSON_AddNumberToObject(out, "plain_step_seconds", plain_seconds);
	cJSON_AddStringToObject(out, "acceptance",
	                        c->bench->options.standalone.rejection ? "rejection" : "coupled");
	cJSON* const rows = cJSON_AddObjectToObject(out, "methods");
	for (int i = 0; i < c->n; i++) {
		const struct way* is = &c->way[i];
		cJSON* const to = cJSON_AddObjectToObject(rows, is->name);
		if (!is->session) {
			cJSON_AddStringToObject(to, "missing", b->missing[i]);
			continue;
		}
		report_method(b, i, every_prompt, plain_seconds, to);
		cJSON_AddNumberToObject(to, "exit_block", is->exit_block > 0 ? is->exit_block : (double)NAN);
		cJSON* const tasks = cJSON_AddObjectToObject(to, "tasks");
		for (int k = 0; k < c->tasks; k++)
			report_method(b, i, (struct prompt_choice){c->task[k], -1}, plain_seconds,
			              cJSON_AddObjectToObject(tasks, c->task[k][0] ? c->task[k] : "all"));
	}
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool measure_methods(struct bench_part* part, cJSON* out, struct error* error) {
	struct methods_bench* b = (struct methods_bench*)part;
	const bool good = enter_all(b, error) && contest_run(&b->contest, error);
	if (good)
		report_figures(b, out);
	contest_close(&b->contest);
	return good;
}

int bench_methods_main(int argc, char** argv) {
	struct methods_bench b = {.part = {.prepare = check_methods_options, .measure = measure_methods},
	                          .most_tokens = 128};
	const struct command_option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (six of the program's own)",
	         &b.input),
	    TEXT("methods", 0, "LIST", "run only these methods, and vanilla (all)", &b.names),
	    COUNT("prompts", 'n', "N", "stop after N prompts", &b.contest.most_prompts, 1, MOST_PROMPTS),
	    COUNT("max-tokens", 0, "N", "generate at most N tokens a prompt", &b.most_tokens, 2, 1 << 20),
	    TEXT("mask", 0, "FILE", "the mask for self-spec; without one self-spec is left out", &b.mask),
	};
	struct command_line line = {
	    .name = "bench methods",
	    .usage = "MODEL [-i FILE] [--methods LIST] [options]",
	    .about =
	        "Runs every method on the same model, prompts and kernels; the methods take turns prompt by\n"
	        "prompt. --help-all explains the columns.",
	    .details = "Columns\n"
	               "  speedup           tokens a second over plain decoding's, median over prompts\n"
	               "  realized          the same over all prompts together\n"
	               "  expected_speedup  what M, alpha and c promise (SWIFT, equation 6)\n"
	               "  CR, CTAR          Kangaroo, equations 1 and 2\n"
	               "  rows              rows of a verification\n"
	               "  c                 cost of a draft step over a plain step\n"
	               "  differing         tokens that are not plain decoding's; rejection sampling, which is "
	               "lossless\n"
	               "                    in distribution, has some",
	    .examples = "  swiftlet bench methods -i in.jsonl --methods layerskip,adaspeed --exit-block 6",
	    OPTIONS(option),
	};
	return bench_part_main(&b.part, &line, argc, argv);
}
