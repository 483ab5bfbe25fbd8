/* `swiftlet bench swift`: the method on one model, in four parts.
 *
 * search: a session that proposes before every round until a stopping rule fires. decode: a session with the
 * mask found beside one that decodes plainly, in alternating slices, so that both see the same machine; the
 * speed-up is the median of the slices' ratios, and is printed beside what M, alpha and c promise (SWIFT Eq.
 * 6). cold: sessions with the defaults and nothing learned, at three skip ratios, beside a plain one: the
 * most that trying may cost. copy: sub-layers skipped, quantized draft weights, and both. Every token of
 * every session is compared with the plain one's. */
#include <math.h>
#include <string.h>

#include "kernels/clock.h"
#include "tools/lab/contest.h"

/* Slices are short when sessions are compared by their whole time, so that the machine's drift is shared
 * evenly. */
enum {
	SLICE = 32,
	COLD_SLICE = 8,
	COLD_TOKENS = 512,
	RATIOS = 3,
	PAIRS = 5,
	ROW_REPEATS = 3,
	DRAFT_WAYS = 3
};
/* Fewer cold starts if five take longer. */
enum { COLD_SECONDS = 420 };
enum { FIRST_DECODE_PROMPT = 1000, FIRST_COLD_PROMPT = 2000, FIRST_DRAFT_PROMPT = 3000 };

static const double ratio_of[RATIOS] = {0.3, 0.45, 0.6};

struct swift {
	struct bench_part part;
	const char* parts;
	int slices;
	int bits; /* of the draft weights */
	double matchness;
	struct mask mask;
	struct answer searched; /* by part a */
	int64_t compared, differing;
};

static bool has_part(const struct swift* w, char part) { return strchr(w->parts, part) != NULL; }

static struct swiftlet_options plain_options(const struct swiftlet_options* options) {
	struct swiftlet_options plain = *options;
	plain.drafting.method = SWIFTLET_VANILLA;
	return plain;
}

/* ---- a. the search -------------------------------------------------------------------------- */

static bool run_search(struct swift* w, cJSON* out, struct error* error) {
	const struct runtime* bench = &w->part.bench;
	struct swiftlet_options options = bench->options;
	struct way way = {.name = "search"};
	struct answer ignored;
	options.learning.budget = INFINITY;
	options.learning.patience =
	    options.learning.max_steps; /* the mask that the search finds, not the time when it gives up */
	if (!way_open(&way, bench, &options, 0, error))
		return false;
	struct search* search = session_search(way.session);
	const double started = seconds_now();
	bool good = search != NULL || error_set(error, "a model of fewer than 3 blocks has nothing to search");
	while (good && search_state(search) == SEARCH_RUNNING) {
		good = way_advance(&way, 1, &ignored, error);
		w->mask = session_mask(way.session, &w->matchness);
		progress_show((double)search_steps(search) / options.learning.max_steps,
		              "search: %d proposals, matchness %.2f", search_steps(search), w->matchness);
	}
	if (good) {
		cJSON_AddNumberToObject(out, "steps_to_stop", search_steps(search));
		cJSON_AddNumberToObject(out, "seconds_to_stop", seconds_now() - started);
		cJSON_AddStringToObject(out, "search_state", search_state_name(search_state(search)));
		cJSON_AddNumberToObject(out, "matchness", w->matchness);
		w->searched = way_sum(&way);
	}
	ways_close(&way, 1);
	return good;
}

/* ---- b. with the mask found ----------------------------------------------------------------- */

/* A few uncounted turns, in which costs and acceptance are learned; then the slices. */
static bool run_slices(struct swift* w, struct way* way, int n, int warm, const char* what,
                       struct error* error) {
	bool good = true;
	for (int i = 0; good && i < warm + w->slices; i++) {
		if (i == warm)
			ways_reset(way, n);
		progress_show((double)i / (double)(warm + w->slices), "%s", what);
		good = ways_turn(way, n, SLICE, i, i < warm ? 0 : i - warm, error);
	}
	if (good)
		ways_compare(way, n, &w->compared, &w->differing);
	return good;
}

static bool run_decode(struct swift* w, cJSON* out, struct error* error) {
	const struct runtime* bench = &w->part.bench;
	struct swiftlet_options options = bench->options, plain = plain_options(&options);
	struct way way[2] = {{.name = "swift"}, {.name = "plain"}};
	options.learning.search = false;
	bool good = way_open(&way[0], bench, &options, FIRST_DECODE_PROMPT, error) &&
	            way_open(&way[1], bench, &plain, FIRST_DECODE_PROMPT, error);
	if (good)
		session_set_mask(way[0].session, &w->mask);
	good = good && run_slices(w, way, 2, 1, "decoding in turns", error);
	if (good) {
		const struct answer swift = way_sum(&way[0]), of_plain = way_sum(&way[1]);
		const double all = swift.seconds + w->searched.seconds;
		cJSON_AddNumberToObject(out, "plain_tokens_per_second", answer_speed(&of_plain));
		cJSON_AddNumberToObject(out, "tokens_per_second", answer_speed(&swift));
		way_json(&way[0], &way[1], w->slices, out);
		cJSON_AddNumberToObject(out, "realized_over_expected",
		                        cJSON_GetNumberValue(cJSON_GetObjectItem(out, "speedup")) /
		                            cJSON_GetNumberValue(cJSON_GetObjectItem(out, "expected_speedup")));
		cJSON_AddNumberToObject(out, "optimizer_share", (swift.host + w->searched.host) / all);
		cJSON_AddNumberToObject(out, "search_pass_share", (swift.search + w->searched.search) / all);
	}
	ways_close(way, 2);
	return good;
}

/* ---- c. from a cold start ------------------------------------------------------------------- */

/* Sessions with nothing learned and a plain one, slice by slice in turns: times over plain. */
static bool cold_pair(struct swift* w, int pair, double slowdown[RATIOS][PAIRS], struct error* error) {
	const struct runtime* bench = &w->part.bench;
	struct way way[RATIOS + 1] = {{.running = false}};
	bool good = true;
	engine_forget_costs(bench->engine);
	for (int k = 0; good && k <= RATIOS; k++) {
		struct swiftlet_options options = k < RATIOS ? bench->options : plain_options(&bench->options);
		options.learning.skip_ratio = k < RATIOS ? ratio_of[k] : 0;
		good = way_open(&way[k], bench, &options, (uint64_t)(FIRST_COLD_PROMPT + pair), error);
	}
	for (int turn = 0; good && turn * COLD_SLICE < COLD_TOKENS; turn++) {
		progress_show((double)turn * COLD_SLICE / COLD_TOKENS, "cold start %d of %d", pair + 1, PAIRS);
		good = ways_turn(way, RATIOS + 1, COLD_SLICE, turn, 0, error);
	}
	for (int k = 0; good && k < RATIOS; k++) {
		const struct answer tried = way_sum(&way[k]), plain = way_sum(&way[RATIOS]);
		slowdown[k][pair] = answer_speed(&plain) / answer_speed(&tried);
	}
	if (good)
		ways_compare(way, RATIOS + 1, &w->compared, &w->differing);
	ways_close(way, RATIOS + 1);
	return good;
}

static bool run_cold(struct swift* w, cJSON* out, struct error* error) {
	const double started = seconds_now();
	double slowdown[RATIOS][PAIRS], worst = 0;
	int pairs = 0;
	/* another pair would take as long as the previous ones: stop when that exceeds the time allowed */
	while (pairs < PAIRS && (pairs == 0 || (seconds_now() - started) / pairs * (pairs + 1) <= COLD_SECONDS))
		if (!cold_pair(w, pairs++, slowdown, error))
			return false;
	cJSON* const list = cJSON_CreateArray();
	for (int k = 0; k < RATIOS; k++) {
		cJSON* const one = bench_json_row(list);
		cJSON_AddNumberToObject(one, "skip_ratio", ratio_of[k]);
		bench_json_numbers(one, "pairs", slowdown[k], pairs);
		const double median = bench_median(slowdown[k], pairs);
		cJSON_AddNumberToObject(one, "slowdown", median);
		worst = fmax(worst, median);
	}
	cJSON_AddNumberToObject(out, "worst_slowdown", worst);
	cJSON_AddItemToObject(out, "cold", list);
	return true;
}

/* ---- d. draft weights in few bits ------------------------------------------------------------------ */

struct draft_way {
	bool skip, quantized;
};
static const struct draft_way draft_way[DRAFT_WAYS] = {{true, false}, {false, true}, {true, true}};

/* Skipping takes a synthetic model's planted mask, or the mask that the search finds in the first turns,
 * which are not counted, and continues to improve. */
static bool open_way(struct swift* w, struct way* way, struct draft_way how, struct error* error) {
	static const struct mask nothing = {.word = {0}};
	const struct runtime* bench = &w->part.bench;
	const bool planted = bench->model->n_planted > 0;
	struct swiftlet_options options = bench->options;
	if (how.quantized && bench->engine->draft_weights.table.bytes == 0)
		return true;
	options.learning.search = how.skip && !planted;
	options.draft_weights.bits = how.quantized ? w->bits : 0;
	if (!way_open(way, bench, &options, FIRST_DRAFT_PROMPT, error))
		return false;
	if (!options.learning.search)
		session_set_mask(way->session, how.skip ? &bench->model->planted[0] : &nothing);
	return true;
}

/* The share of its text that a way's drafts predict, in windows of 32 tokens. */
static bool predict_speedup(struct way* way, const struct mask* mask, double* share, struct error* error) {
	struct swiftlet_step step;
	int matches, rows;
	swiftlet_session_cancel(way->session);
	if (way->running && !swiftlet_session_step(way->session, &step, error->message, sizeof error->message))
		return false;
	if (!session_judge(way->session, mask, &matches, &rows, error))
		return false;
	*share = quotient(matches, rows);
	return true;
}

static bool report_way(struct swift* w, struct way* way, const struct way* plain, cJSON* list,
                       struct error* error) {
	const struct mask mask = session_mask(way->session, NULL);
	cJSON* const one = bench_json_row(list);
	double share;
	cJSON_AddStringToObject(one, "name", way->name);
	cJSON_AddNumberToObject(one, "skipped", mask_count(&mask));
	way_json(way, plain, w->slices, one);
	if (!predict_speedup(way, &mask, &share, error))
		return false;
	cJSON_AddNumberToObject(one, "predicted", share);
	return true;
}

static bool run_draft_weights(struct swift* w, cJSON* out, struct error* error) {
	const struct runtime* bench = &w->part.bench;
	const struct draft_weights_memory* quantized = &bench->engine->draft_weights;
	const struct swiftlet_options plain = plain_options(&bench->options);
	struct way way[DRAFT_WAYS + 1] = {
	    {.name = "skip"}, {.name = "low-bit"}, {.name = "both"}, {.name = "plain"}};
	bool good = way_open(&way[DRAFT_WAYS], bench, &plain, FIRST_DRAFT_PROMPT, error);
	for (int k = 0; good && k < DRAFT_WAYS; k++)
		good = open_way(w, &way[k], draft_way[k], error);
	good = good && run_slices(w, way, DRAFT_WAYS + 1, bench->model->n_planted > 0 ? 2 : 8,
	                          "drafts of a copy, in turns", error);
	cJSON_AddStringToObject(out, "note", swiftlet_engine_note(bench->engine));
	if (quantized->table.bytes > 0) {
		cJSON* const copy = cJSON_AddObjectToObject(out, "copy");
		cJSON_AddNumberToObject(copy, "bits", quantized->table.format.bits);
		cJSON_AddStringToObject(copy, "type", draft_weights_kind(&quantized->table));
		cJSON_AddNumberToObject(copy, "bytes", (double)quantized->table.bytes);
		cJSON_AddNumberToObject(copy, "seconds", bench->engine->draft_weights_seconds);
	}
	cJSON* const list = cJSON_AddArrayToObject(out, "ways");
	for (int k = 0; good && k < DRAFT_WAYS; k++)
		if (way[k].session)
			good = report_way(w, &way[k], &way[DRAFT_WAYS], list, error);
	ways_close(way, DRAFT_WAYS + 1);
	return good;
}

/* ---- the command -------------------------------------------------------------------------- */

static bool measure_swift(struct bench_part* part, cJSON* out, struct error* error) {
	struct swift* w = (struct swift*)part;
	const struct model* model = part->bench.model;
	part->bench.options.draft_weights.bits = 0; /* of the other parts' sessions */
	if (!bench_measure_rows(&part->bench, 128, ROW_REPEATS, out, error))
		return false;
	if (!has_part(w, 'a') && has_part(w, 'b')) {
		if (model->n_planted == 0)
			return error_set(error,
			                 "part b without part a needs a planted model: no mask was found to decode with");
		w->mask = model->planted[0];
		w->matchness = 0.97; /* what is planted is known to have it */
	}
	if ((has_part(w, 'a') && !run_search(w, out, error)) ||
	    (has_part(w, 'b') && !run_decode(w, out, error)) || (has_part(w, 'c') && !run_cold(w, out, error)) ||
	    (has_part(w, 'd') && !run_draft_weights(w, out, error)))
		return false;
	cJSON_AddNumberToObject(out, "tokens_compared", (double)w->compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)w->differing);
	return true;
}

static int check_swift_options(struct bench_part* part) {
	struct swift* w = (struct swift*)part;
	struct swiftlet_options* options = &part->bench.options;
	if (strspn(w->parts, "abcd") != strlen(w->parts) || !*w->parts)
		return complain(STATUS_USAGE, "bench swift: --parts %s, expected letters of abcd", w->parts);
	if (options->cache.context == 0)
		options->cache.context = 1024;
	if (options->cache.context < WAY_PROMPT + 64)
		return complain(STATUS_USAGE, "bench swift: --context %d, expected at least %d",
		                options->cache.context, WAY_PROMPT + 64);
	w->bits = options->draft_weights.bits < 0 ? 4 : options->draft_weights.bits;
	options->draft_weights.bits = has_part(w, 'd') ? w->bits : 0;
	return OPTIONS_GO_ON;
}

int bench_swift_main(int argc, char** argv) {
	struct swift w = {
	    .part = {.prepare = check_swift_options, .measure = measure_swift}, .parts = "abcd", .slices = 16};
	const struct command_option option[] = {
	    BENCH_OPTIONS(w.part),
	    TEXT("parts", 0, "abcd", "which parts; b without a takes a synthetic model's planted mask", &w.parts),
	    COUNT("slices", 0, "N", "slices of 32 tokens in b and d", &w.slices, 1, MOST_SLICES),
	};
	struct command_line line = {
	    .name = "bench swift",
	    .usage = "MODEL [--parts abcd] [options]",
	    .about = "Measures SWIFT on one model, greedy, in parts a to d, which --help-all\n"
	             "explains: search, speed with its mask, loss of a cold start, quantized draft weights.",
	    .details =
	        "Parts\n"
	        "  a  a search that proposes a mask before every round until a stopping rule fires: proposals,\n"
	        "     seconds, the best mask's matchness\n"
	        "  b  decoding with that mask and plainly, in turns: speed-up, M, alpha, c, and the speed-up "
	        "that\n"
	        "     these promise; optimizer_share is time outside model passes, search_pass_share is scoring\n"
	        "  c  sessions that have learned nothing, at skip ratios 0.3, 0.45 and 0.6: their time over "
	        "plain\n"
	        "     decoding's, the median of pairs; 1.00 is equal\n"
	        "  d  skipped layers, quantized draft weights (--draft-bits, 4), and both, in turns with plain\n"
	        "     decoding; synthetic models skip what was planted, others what the search finds\n"
	        "The cost of a pass by rows is measured too. Every token is compared with plain decoding's; "
	        "where\n"
	        "one differs the exit status is 1.",
	    .examples = "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45\n"
	                "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --parts d\n"
	                "  swiftlet bench swift -m synth:llama-2-13b,plant=0.45 --backend cuda --json",
	    OPTIONS(option),
	};
	return bench_part_main(&w.part, &line, argc, argv);
}
