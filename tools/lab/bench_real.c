/* `swiftlet bench real`: what a user gets, on real models and prompts.
 *
 * Every prompt is answered by every variant, one after another in turns whose order moves on from prompt to
 * prompt, in one process over the same weights: plain decoding, the defaults, and the defaults without each
 * drafter. Each variant is a session of its own that begins with nothing learned and keeps what it learns
 * from prompt to prompt, with prices of its own. Decoding alone is timed; every token is compared with plain
 * decoding's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"
#include "tools/lab/contest.h"
#include "tools/program/runtime.h"

enum { PLAIN, DEFAULTS };

static bool enter(struct contest* t, const char* name, enum swiftlet_method method, unsigned which,
                  struct error* error) {
	struct swiftlet_options options = t->bench.options;
	struct error why = {{0}};
	if (method == SWIFTLET_VANILLA)
		options.method = method;
	options.drafters &= which;
	if (!contest_enter(t, name, &options, &why, error))
		return false;
	return t->contender[t->n - 1].way.session || error_set(error, "%s", why.message);
}

static bool enter_all(struct contest* t, bool ablation, struct error* error) {
	char name[32];
	bool good =
	    enter(t, "plain", SWIFTLET_VANILLA, ~0u, error) && enter(t, "defaults", SWIFTLET_AUTO, ~0u, error);
	for (int i = 0; i < DRAFTER_COUNT && good && ablation; i++) {
		const bool model = i == SOURCE_model && !t->bench.options.draft_model[0];
		if (i == SOURCE_prediction || i == SOURCE_form || model) /* nobody asks for one here */
			continue;
		snprintf(name, sizeof name, "without %s", drafters[i]->name);
		good = enter(t, name, SWIFTLET_AUTO, ~(1u << i), error);
	}
	return good;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void tell_choice(const struct contest* t, cJSON* list, const char* name, struct choice choice) {
	const struct answer plain = contest_sum(t, PLAIN, choice), defaults = contest_sum(t, DEFAULTS, choice);
	cJSON* const out = bench_json_row(list);
	cJSON_AddStringToObject(out, "prompts_of", name);
	cJSON_AddNumberToObject(out, "prompts", (double)plain.prompts);
	bench_json_number(out, "plain", answer_speed(&plain));
	bench_json_number(out, "defaults", answer_speed(&defaults));
	bench_json_number(out, "over_plain", contest_over_plain(t, DEFAULTS, choice));
	bench_json_number(out, "median_over_plain", contest_median_over_plain(t, DEFAULTS, choice));
}

static void tell_contender(const struct contest* t, cJSON* list, int which) {
	const struct answer sum = contest_sum(t, which, every_prompt);
	cJSON* const out = bench_json_row(list);
	cJSON_AddStringToObject(out, "name", t->contender[which].way.name);
	cJSON_AddNumberToObject(out, "tokens", (double)sum.timed);
	bench_json_number(out, "tokens_per_second", answer_speed(&sum));
	bench_json_number(out, "over_plain", contest_over_plain(t, which, every_prompt));
	bench_json_number(out, "median_over_plain", contest_median_over_plain(t, which, every_prompt));
	bench_json_number(out, "cpu_seconds_per_token", sum.cpu / (double)sum.timed);
	cJSON* const sources = cJSON_AddObjectToObject(out, "sources");
	for (int i = 0; swiftlet_source_name(i); i++) {
		if (sum.source_rows[i] == 0)
			continue;
		cJSON* const source = cJSON_AddObjectToObject(sources, swiftlet_source_name(i));
		cJSON_AddNumberToObject(source, "rows", (double)sum.source_rows[i]);
		cJSON_AddNumberToObject(source, "accepted", (double)sum.source_accepted[i]);
	}
}

/* The figures, and in *differing the tokens that are not plain decoding's. */
static cJSON* tell_run(const struct contest* t, int64_t* differing) {
	int64_t compared = 0;
	cJSON* const out = cJSON_CreateObject();
	bench_describe(&t->bench, out);
	cJSON_AddNumberToObject(out, "temperature", t->temperature);
	cJSON* const list = cJSON_AddArrayToObject(out, "variants");
	for (int i = 0; i < t->n; i++)
		tell_contender(t, list, i);
	cJSON* const by = cJSON_AddArrayToObject(out, "by");
	for (int i = 0; i < t->tasks; i++)
		tell_choice(t, by, t->task[i], (struct choice){t->task[i], -1});
	tell_choice(t, by, "answers that loop", (struct choice){NULL, 1});
	tell_choice(t, by, "answers that do not", (struct choice){NULL, 0});
	tell_choice(t, by, "all", every_prompt);
	for (int p = 0; p < t->asked; p++)
		for (int i = 1; i < t->n; i++) {
			compared += t->contender[i].answer[p].tokens;
			*differing += t->contender[i].answer[p].differing;
		}
	cJSON_AddNumberToObject(out, "tokens_compared", (double)compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)*differing);
	return out;
}

/* ---- the command ---------------------------------------------------------------------------- */

struct wish {
	const char *model, *input, *only;
	int64_t tokens;
	bool json, no_ablation;
	struct swiftlet_options options;
};

static bool prepare(struct contest* t, const struct wish* wish, struct error* error) {
	if (!prompt_list_read(&t->prompts, t->bench.model, wish->input, error))
		return false;
	prompt_list_fit(&t->prompts, options_context(&wish->options, t->bench.model));
	for (int i = 0; wish->tokens > 0 && i < t->prompts.n; i++)
		t->prompts.prompt[i].max_tokens = (int)wish->tokens;
	return enter_all(t, !wish->no_ablation, error);
}

/* One model at one temperature, with sessions that have seen nothing. The exit status. */
static int run_once(const struct wish* wish, const char* model, double temperature, cJSON* list) {
	struct swiftlet_options options = wish->options;
	struct error error = {{0}};
	struct contest* t = calloc(1, sizeof *t);
	int64_t differing = 0;
	if (!t)
		return complain(STATUS_FAILED, "out of memory");
	t->temperature = temperature;
	t->apart = true;
	int status = bench_open_as_run(&t->bench, model, &options, wish->json);
	if (status == OPTIONS_GO_ON) {
		const bool good = prepare(t, wish, &error) && contest_run(t, &error);
		bench_progress_end();
		cJSON* const told = good ? tell_run(t, &differing) : NULL;
		status = !good        ? complain(STATUS_FAILED, "%s", error.message)
		         : wish->json ? STATUS_DONE
		                      : bench_print_tables(told);
		if (good && wish->json)
			cJSON_AddItemToArray(list, told);
	}
	contest_close(t);
	bench_close(&t->bench);
	free(t);
	if (status == STATUS_DONE && differing > 0)
		return complain(STATUS_FAILED, "%lld tokens differ from plain decoding's", (long long)differing);
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
	    OPTION_OF_TEXT("model", 'm', "MODEL", "a model (builtin); several may stand without -m", &wish.model),
	    OPTION_OF_TEXT("input", 'i', "FILE", "prompts as JSON lines (six of the program's own)", &wish.input),
	    OPTION_OF_COUNT("tokens", 'n', "N", "tokens at most (each line's max_tokens)", &wish.tokens, 8,
	                    1 << 20),
	    OPTION_OF_TEXT("only", 0, "HOW", "greedy, or sampled at --temp (0.7); else first one, then the other",
	                   &wish.only),
	    OPTION_OF_FLAG("no-ablation", "only plain decoding and the defaults", &wish.no_ablation),
	    OPTION_OF_FLAG("json", "print a JSON array of runs instead of tables", &wish.json),
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
