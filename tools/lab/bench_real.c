/* `swiftlet bench real`: what a user gets, on real models and prompts.
 *
 * Every variant answers every prompt, in turns whose order moves on from prompt to prompt, in one process
 * over the same weights: plain decoding, the defaults, and the defaults without each drafter and without
 * lists of pages. Each variant is a session of its own with costs of its own. It begins with nothing learned,
 * and keeps what it learns from prompt to prompt. Only decoding is timed; every token is compared with plain
 * decoding's. */
#include <stdio.h>
#include <string.h>

#include "core/draft/drafter.h"
#include "tools/lab/contest.h"

enum { PLAIN, DEFAULTS };

static bool enter_contest(struct contest* t, const char* name, const struct swiftlet_options* options,
                          struct error* error) {
	struct error why = {{0}};
	if (!contest_enter(t, name, options, &why, error))
		return false;
	return t->way[t->n - 1].session || error_set(error, "%s", why.message);
}

static bool enter_all(struct contest* t, bool ablation, struct error* error) {
	char name[32];
	struct swiftlet_options plain = t->bench->options, less = plain;
	plain.drafting.method = SWIFTLET_VANILLA;
	bool good = enter_contest(t, "plain", &plain, error) && enter_contest(t, "defaults", &less, error);
	const unsigned all = good ? session_options(t->way[DEFAULTS].session)->drafting.drafters : 0;
	for (int i = 0; i < DRAFTER_COUNT && good && ablation; i++) {
		const bool model = i == SOURCE_model && !less.drafting.model[0];
		if (i == SOURCE_prediction || i == SOURCE_form || model || !(all >> i & 1u))
			continue; /* the variant does not ask for it, or it does not apply */
		snprintf(name, sizeof name, "without %s", drafter_name[i]);
		less.drafting.drafters = all & ~(1u << i);
		good = enter_contest(t, name, &less, error);
	}
	less = t->bench->options;
	if (!good || !ablation || less.drafting.pages == 0 || !t->bench->engine->backend->list_pages)
		return good;
	less.drafting.pages = 0;
	return enter_contest(t, "without pages", &less, error);
}

/* ---- report --------------------------------------------------------------------------------- */

static void report_choice(const struct contest* t, cJSON* list, const char* name,
                          struct prompt_choice choice) {
	const struct answer plain = contest_sum(t, PLAIN, choice), defaults = contest_sum(t, DEFAULTS, choice);
	cJSON* const out = bench_json_row(list);
	cJSON_AddStringToObject(out, "prompts_of", name);
	cJSON_AddNumberToObject(out, "prompts", plain.prompts);
	cJSON_AddNumberToObject(out, "plain", answer_speed(&plain));
	cJSON_AddNumberToObject(out, "defaults", answer_speed(&defaults));
	cJSON_AddNumberToObject(out, "over_plain", contest_over_plain(t, DEFAULTS, choice));
	cJSON_AddNumberToObject(out, "median_over_plain", contest_median_over_plain(t, DEFAULTS, choice));
}

static void report_contender(const struct contest* t, cJSON* list, int which) {
	const struct answer sum = contest_sum(t, which, every_prompt);
	cJSON* const out = bench_json_row(list);
	cJSON_AddStringToObject(out, "name", t->way[which].name);
	cJSON_AddNumberToObject(out, "tokens", sum.timed);
	cJSON_AddNumberToObject(out, "tokens_per_second", answer_speed(&sum));
	cJSON_AddNumberToObject(out, "over_plain", contest_over_plain(t, which, every_prompt));
	cJSON_AddNumberToObject(out, "median_over_plain", contest_median_over_plain(t, which, every_prompt));
	cJSON_AddNumberToObject(out, "cpu_seconds_per_token", sum.cpu / sum.timed);
	cJSON* const sources = cJSON_AddObjectToObject(out, "sources");
	for (int i = 0; swiftlet_source_name(i); i++) {
		if (sum.source_rows[i] == 0)
			continue;
		cJSON* const source = cJSON_AddObjectToObject(sources, swiftlet_source_name(i));
		cJSON_AddNumberToObject(source, "rows", sum.source_rows[i]);
		cJSON_AddNumberToObject(source, "accepted", sum.source_accepted[i]);
	}
}

static void report_figures(const struct contest* t, cJSON* out) {
	double compared = 0, differing = 0;
	cJSON_AddNumberToObject(out, "temperature", t->temperature);
	cJSON* const list = cJSON_AddArrayToObject(out, "variants");
	for (int i = 0; i < t->n; i++)
		report_contender(t, list, i);
	cJSON* const by = cJSON_AddArrayToObject(out, "by");
	for (int i = 0; i < t->tasks; i++)
		report_choice(t, by, t->task[i], (struct prompt_choice){t->task[i], -1});
	report_choice(t, by, "answers that loop", (struct prompt_choice){NULL, 1});
	report_choice(t, by, "answers that do not", (struct prompt_choice){NULL, 0});
	report_choice(t, by, "all", every_prompt);
	for (int p = 0; p < t->asked; p++)
		for (int i = 1; i < t->n; i++) {
			compared += t->way[i].answer[p].tokens;
			differing += t->way[i].answer[p].differing;
		}
	cJSON_AddNumberToObject(out, "tokens_compared", compared);
	cJSON_AddNumberToObject(out, "tokens_differing", differing);
}

/* ---- the command ---------------------------------------------------------------------------- */

struct real {
	struct bench_part part;
	const char *input, *only;
	int tokens;
	bool no_ablation;
	double temperature;
};

static bool measure_real(struct bench_part* part, cJSON* out, struct error* error) {
	const struct real* r = (struct real*)part;
	struct contest t = {.bench = &part->bench, .temperature = r->temperature, .apart = true};
	bool good = bench_prompts(&part->bench, &t.prompts, r->input, INT32_MAX, error);
	for (int i = 0; r->tokens > 0 && i < t.prompts.n; i++)
		t.prompts.prompt[i].max_tokens = r->tokens;
	good = good && enter_all(&t, !r->no_ablation, error) && contest_run(&t, error);
	if (good)
		report_figures(&t, out);
	contest_close(&t);
	return good;
}

/* Runs every model greedily and sampled, or as `only` specifies, with fresh sessions. */
static int run_all(struct real* r, const char* const* model, int n) {
	const double asked = r->part.bench.options.sampling.temperature, sampled = asked > 0 ? asked : 0.7;
	int status = STATUS_DONE;
	r->part.runs = r->part.json ? cJSON_CreateArray() : NULL;
	for (int i = 0; i < 2 * n && status == STATUS_DONE; i++) {
		if (r->only && strcmp(r->only, i % 2 ? "sampled" : "greedy") != 0)
			continue;
		r->part.bench.wish.model = model[i / 2];
		r->temperature = i % 2 ? sampled : 0;
		status = bench_part_run(&r->part);
	}
	if (r->part.runs && status == STATUS_DONE)
		return report_print(r->part.runs, true);
	cJSON_Delete(r->part.runs);
	return status;
}

int bench_real_main(int argc, char** argv) {
	struct real r = {.part = {.measure = measure_real, .as_run = true}};
	struct swiftlet_options* const options = &r.part.bench.options;
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL", "a model (builtin); several may stand without -m",
	         &r.part.bench.wish.model),
	    TEXT("input", 'i', "FILE", "prompts as JSON lines (six of the program's own)", &r.input),
	    COUNT("tokens", 'n', "N", "generate at most N tokens (each line's max_tokens)", &r.tokens, 8,
	          1 << 20),
	    TEXT("only", 0, "HOW",
	         "measure only greedy, or only sampled answers at --temp (0.7); without the option both",
	         &r.only),
	    FLAG("no-ablation", "only plain decoding and the defaults", &r.no_ablation),
	    FLAG("json", "print a JSON array of runs instead of tables", &r.part.json),
	};
	struct command_line line = {
	    .name = "bench real",
	    .usage = "MODEL... [-i FILE.jsonl] [-n N] [options]",
	    .about =
	        "Measures what a user gets. Every prompt is answered plainly, with the defaults, and with the\n"
	        "defaults less each drafter, in turns, in one process, with nothing learned before. Decoding\n"
	        "alone is timed. Every token is compared; where one differs the exit status is 1.",
	    .details =
	        "The tables have tokens a second; their ratio to plain decoding's over all tokens and as the\n"
	        "median over prompts; processor time a token; the same by task, and apart for answers that\n"
	        "loop (their last 64 tokens stand earlier in them); and the drafters of the accepted tokens.\n"
	        "A model without a chat template continues the text of the last message.",
	    .examples = "  swiftlet bench real smollm2-135m -i tools/chat.jsonl\n"
	                "  swiftlet bench real model.gguf other.gguf -i prompts.jsonl -n 128 --json",
	    OPTIONS(option),
	    .session = options,
	    .max_words = 16,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!options_plan(options))
		return complain(STATUS_USAGE, "bench real: --method %s: expected auto or swift",
		                method_name(options->drafting.method));
	if (line.n_words > 0 && r.part.bench.wish.model)
		return complain(STATUS_USAGE,
		                "bench real: models were given with -m and without it; use one of the two ways");
	if (r.only && strcmp(r.only, "greedy") != 0 && strcmp(r.only, "sampled") != 0)
		return complain(STATUS_USAGE, "bench real: --only %s: expected greedy or sampled", r.only);
	const char* const given = r.part.bench.wish.model;
	const char* const one = given ? given : "builtin";
	return line.n_words > 0 ? run_all(&r, line.word, line.n_words) : run_all(&r, &one, 1);
}
