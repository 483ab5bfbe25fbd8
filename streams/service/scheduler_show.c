/* The scheduler's live state as JSON: what /v1/swiftlet/state gives and the page draws. */
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/api_json.h"
#include "streams/service/scheduler_internal.h"

static void show_since(struct text* out, const char* name, const struct seat* s, int kind, int blocks) {
	text_print(out, "\"%s\": [", name);
	for (int b = 0; b < blocks; b++)
		text_print(out, "%s%lld", b ? ", " : "", (long long)(s->tokens - s->since[2 * b + kind]));
	text_put(out, "]");
}

static void show_figure(struct text* out, const char* name, double value) {
	text_print(out, ", \"%s\": ", name);
	text_number(out, value);
}

static void show_seat(struct text* out, const struct seat* s, int index, int blocks) {
	const struct swiftlet_figures* f = &s->figures;
	text_print(out, "{\"session\": %d, \"busy\": %s, \"task\": ", index, s->job ? "true" : "false");
	text_quote(out, s->task, strlen(s->task));
	text_print(out, ", \"used\": %lld, ", (long long)s->used);
	api_print_mask(out, &s->mask, blocks);
	text_put(out, ", \"low\": {");
	api_print_mask(out, &s->low, blocks);
	text_print(out, ", \"head\": %s}", s->low_head ? "true" : "false");
	text_put(out, ", \"since\": {");
	show_since(out, "attention", s, 0, blocks);
	text_put(out, ", ");
	show_since(out, "mlp", s, 1, blocks);
	text_put(out, "}");
	show_figure(out, "matchness", f->matchness);
	show_figure(out, "M", f->mean_generated);
	show_figure(out, "alpha", f->alpha);
	show_figure(out, "c", f->c);
	show_figure(out, "expected_speedup", f->expected_speedup);
	show_figure(out, "skip_ratio", f->skip_ratio);
	show_figure(out, "tokens_per_second", f->tokens_per_second);
	const struct search* search = session_search(s->session);
	text_print(out, ", \"tokens\": %lld, \"search\": \"%s\", \"proposals\": %d}", (long long)s->tokens,
	           !search           ? "off"
	           : f->search_state ? search_state_name(search_state(search))
	                             : "off",
	           search ? search_steps(search) : 0);
}

/* The mean over busy sessions (all of them when none is) of one figure. */
static double mean_of(const struct scheduler* s, size_t offset) {
	double sum = 0;
	int n = 0;
	for (int busy = 1; busy >= 0 && n == 0; busy--)
		for (int i = 0; i < s->option.sessions; i++) {
			const double v = *(const double*)(const void*)((const char*)&s->seat[i].figures + offset);
			if (isfinite(v) && s->seat[i].used > 0 && (!busy || s->seat[i].job)) {
				sum += v;
				n++;
			}
		}
	return n ? sum / n : (double)NAN;
}

static void show_point(struct scheduler* s, struct text* out, double at) {
	const double elapsed = at - s->shown;
	const double rate = elapsed > 0 ? (double)(s->tokens - s->tokens_shown) / elapsed : 0;
	const double point[EVENTS_POINT] = {at - s->began,
	                                    mean_of(s, offsetof(struct swiftlet_figures, matchness)), rate,
	                                    mean_of(s, offsetof(struct swiftlet_figures, alpha)),
	                                    mean_of(s, offsetof(struct swiftlet_figures, mean_generated))};
	events_point(s->option.events, point);
	text_put(out, "\"point\": [");
	for (int i = 0; i < EVENTS_POINT; i++) {
		text_put(out, i ? ", " : "");
		text_number(out, point[i]);
	}
	text_put(out, "]");
	s->tokens_shown = s->tokens;
	s->shown = at;
}

/* What idle learning took, and what skipping brings, in words; null where it pays somewhere. */
static void show_learning(const struct scheduler* s, struct text* out) {
	const char* says = NULL;
	for (int i = 0; i < s->option.sessions; i++)
		if (s->seat[i].used > 0 && session_search(s->seat[i].session) &&
		    !(says = idle_says(s->seat[i].session)))
			break;
	text_print(out, ", \"idle_seconds\": %.3f, \"skipping\": ", s->idle_seconds);
	if (says)
		text_quote(out, says, strlen(says));
	else
		text_put(out, "null");
}

static void show_totals(struct scheduler* s, struct text* out) {
	static const char* const phase[] = {"prefill", "draft", "verify", "plain", "optimize", "other"};
	text_put(out, "\"seconds\": {");
	for (int i = 0; i < 6; i++)
		text_print(out, "%s\"%s\": %.6f", i ? ", " : "", phase[i], s->seconds[i]);
	text_put(out, "}, \"summary\": ");
	char* summary = summary_text(&s->summary);
	text_put(out, summary ? summary : "null");
	free(summary);
	struct memory_counts k = {0};
	if (s->option.memory)
		memory_counts(s->option.memory, &k);
	text_print(out,
	           ", \"bank\": {\"masks\": %d, \"recalled\": %lld, \"improved\": %lld, \"settled\": %lld, "
	           "\"new_kinds\": %lld, \"evicted\": %lld, \"store_failed\": %s}, \"drift\": {\"events\": %lld, "
	           "\"trials\": %lld}",
	           k.entries, (long long)k.recalled, (long long)k.improved, (long long)k.settled,
	           (long long)k.new_kinds, (long long)k.evictions, k.store_failed ? "true" : "false",
	           (long long)k.drifts, (long long)k.trials);
	text_print(out, ", \"passes\": {\"shared\": %lld, \"separate\": %lld, \"preempted\": %lld}",
	           (long long)s->shared, (long long)s->separate, (long long)s->preempted);
	show_learning(s, out);
	text_print(out, ", \"prefill_chunk\": %d", scheduler_chunk(s));
	const int room = session_room(s->seat[0].session);
	if (room < INT_MAX)
		text_print(out, ", \"cache_free_tokens\": %d", room);
}

void scheduler_show(struct scheduler* s, double at) {
	struct text out = {0};
	struct scheduler_now n;
	scheduler_now(s, &n);
	text_put(&out, "{\"model\": ");
	text_quote(&out, s->option.model_name, strlen(s->option.model_name));
	text_put(&out, ", \"backend\": ");
	const char* backend = swiftlet_engine_name(s->engine);
	text_quote(&out, backend, strlen(backend));
	text_print(&out,
	           ", \"blocks\": %d, \"queue\": %d, \"queue_limit\": %d, \"tokens\": %lld, \"sessions\": [",
	           s->blocks, n.queue, n.queue_limit, (long long)s->tokens);
	for (int i = 0; i < s->option.sessions; i++) {
		text_put(&out, i ? ", " : "");
		show_seat(&out, &s->seat[i], i, s->blocks);
	}
	text_put(&out, "], ");
	show_totals(s, &out);
	text_put(&out, ", ");
	show_point(s, &out, at);
	text_put(&out, "}");
	/* one line: server-sent events end theirs at a line's end */
	for (size_t i = 0; i < out.size; i++)
		if (out.data[i] == '\n')
			out.data[i] = ' ';
	if (!out.failed)
		events_state(s->option.events, &out);
	text_free(&out);
}
