/* The scheduler's live state as JSON, which /v1/swiftlet/state returns and the page draws. */
#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "streams/mask_file.h"
#include "streams/report.h"
#include "streams/service/scheduler_internal.h"

static void show_since(struct text* out, const char* name, const struct slot* s, int kind, int blocks) {
	text_json(out, "'%s': [", name);
	for (int b = 0; b < blocks; b++)
		text_json(out, b ? ", %l" : "%l", s->tokens - s->since[2 * b + kind]);
	text_put(out, "]");
}

static void show_slot(struct text* out, const struct slot* s, int index, int blocks) {
	const struct swiftlet_figures* f = &s->figures;
	const struct search* search = session_search(s->session);
	text_json(out, "{'session': %d, 'busy': %b, 'task': %q, 'used': %l, ", index, s->job != NULL, s->task,
	          s->used);
	mask_put_blocks(out, &s->mask);
	text_json(out, ", 'low': {");
	mask_put_blocks(out, &s->quantized);
	text_json(out, ", 'head': %b}, 'since': {", s->quantized_head);
	show_since(out, "attention", s, 0, blocks);
	text_put(out, ", ");
	show_since(out, "mlp", s, 1, blocks);
	text_json(out,
	          "}, 'matchness': %g, 'M': %g, 'alpha': %g, 'c': %g, 'expected_speedup': %g, 'skip_ratio': %g, "
	          "'speedup': %g, 'tokens_per_second': %g, 'tokens': %l, 'search': '%s', 'proposals': %d}",
	          f->matchness, f->mean_generated, f->alpha, f->c, f->expected_speedup, f->skip_ratio,
	          figures_speedup(f), f->tokens_per_second, s->tokens,
	          search && f->search_state ? search_state_name(search_state(search)) : "off",
	          search ? search_steps(search) : 0);
}

/* The mean over busy sessions (all of them when none is) of one figure. */
static double mean_of(const struct scheduler* s, size_t offset) {
	double sum = 0;
	int n = 0;
	for (int busy = 1; busy >= 0 && n == 0; busy--)
		for (const struct slot* slot = s->slot; slot < s->end; slot++) {
			const double v = *(const double*)(const void*)((const char*)&slot->figures + offset);
			if (isfinite(v) && slot->used > 0 && (!busy || slot->job)) {
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
	text_json(out, "'point': ");
	events_put_point(out, point);
	s->tokens_shown = s->tokens;
	s->shown = at;
}

/* The figures of each drafter, and the speed-up of all together (figures_speedup). */
static void show_drafts(struct text* out, const struct metrics* m) {
	const double plain = m->decode - m->optimize + m->saved - m->lost;
	const char* separator = "";
	text_json(out, "'speedup': %g, 'seconds_saved': %g, 'sources': {",
	          m->decode > 0 && plain > 0 ? plain / m->decode : (double)NAN, m->saved - m->lost);
	for (int i = 0; swiftlet_source_name(i); i++)
		if (m->source[i].rows > 0) {
			text_json(out, "%s'%s': {'rows': %l, 'accepted': %l}", separator, swiftlet_source_name(i),
			          m->source[i].rows, m->source[i].accepted);
			separator = ", ";
		}
	text_json(out, "}, 'full_passes': %l, ", m->full_passes);
}

static void show_totals(struct scheduler* s, struct text* out) {
	const struct metrics* m = s->option.metrics; /* only this thread adds seconds to it */
	show_drafts(out, m);
	text_json(
	    out,
	    "'seconds': {'prefill': %r, 'draft': %r, 'verify': %r, 'plain': %r, 'optimize': %r, 'other': %r}, "
	    "'summary': ",
	    m->prefill, m->draft, m->verify, m->plain, m->optimize, m->other);
	summary_put(out, &s->summary);
	struct memory_counts k = {0};
	if (s->option.memory)
		memory_counts(s->option.memory, &k);
	text_json(
	    out,
	    ", 'bank': {'masks': %d, 'recalled': %l, 'improved': %l, 'settled': %l, 'new_kinds': %l, "
	    "'evicted': %l, 'store_failed': %b}, 'drift': {'events': %l, 'trials': %l}, 'passes': {'shared': %l, "
	    "'separate': %l, 'preempted': %l}",
	    k.entries, k.recalled, k.improved, k.converged, k.new_clusters, k.evictions, k.store_failed, k.drifts,
	    k.trials, s->shared, s->separate, s->preempted);
	text_json(out, ", 'idle_seconds': %g, 'skipping': %q, 'prefill_chunk': %d", s->idle_seconds,
	          scheduler_status(s), scheduler_chunk(s));
	const int room = session_room(s->slot[0].session);
	if (room < INT_MAX)
		text_json(out, ", 'cache_free_tokens': %d", room);
}

void scheduler_show(struct scheduler* s, double at) {
	struct text out = {0};
	struct scheduler_now n;
	scheduler_now(s, &n);
	text_json(&out,
	          "{'model': %q, 'backend': %q, 'blocks': %d, 'queue': %d, 'queue_limit': %d, 'tokens': %l, "
	          "'sessions': [",
	          s->option.model_name, swiftlet_engine_name(s->engine), s->blocks, n.queue, s->option.queue,
	          s->tokens);
	for (int i = 0; i < s->option.sessions; i++) {
		text_put(&out, i ? ", " : "");
		show_slot(&out, &s->slot[i], i, s->blocks);
	}
	text_put(&out, "], ");
	show_totals(s, &out);
	text_put(&out, ", ");
	show_point(s, &out, at);
	text_put(&out, "}");
	if (!out.failed)
		events_state(s->option.events, &out);
	text_free(&out);
}
