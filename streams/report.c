/* Writes a generation as JSON, and the sums over a stream. */
#include "streams/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "kernels/backend.h"

/* ---- one generation ------------------------------------------------------------------------ */

static void put_mask(struct text* out, const struct swiftlet_figures* f) {
	text_json(out, "{'attention':");
	text_integers(out, f->attention, f->n_attention);
	text_json(out, ",'mlp':");
	text_integers(out, f->mlp, f->n_mlp);
	if (f->n_quantized_attention + f->n_quantized_mlp + f->quantized_head > 0) {
		text_json(out, ",'low':{'attention':");
		text_integers(out, f->quantized_attention, f->n_quantized_attention);
		text_json(out, ",'mlp':");
		text_integers(out, f->quantized_mlp, f->n_quantized_mlp);
		text_json(out, ",'head':%b}", f->quantized_head);
	}
	text_put(out, "}");
}

/* The figures of each drafter: rows verified, tokens accepted and expected. */
static void put_sources(struct text* out, const struct swiftlet_figures* f) {
	const char* separator = "";
	text_put(out, "{");
	for (int i = 0; swiftlet_source_name(i); i++) {
		if (f->source[i].rows == 0)
			continue;
		text_json(out, "%s'%s':{'rows':%l,'accepted':%l,'predicted':%r}", separator, swiftlet_source_name(i),
		          f->source[i].rows, f->source[i].accepted, f->source[i].predicted);
		separator = ",";
	}
	text_put(out, "}");
}

double figures_speedup(const struct swiftlet_figures* f) {
	const double plain = f->seconds.decode - f->seconds.optimize + f->seconds_saved - f->seconds_lost;
	return f->tokens > 1 && f->seconds.decode > 0 && plain > 0 ? plain / f->seconds.decode : (double)NAN;
}

void report_figures(struct text* out, const struct swiftlet_figures* f, enum swiftlet_method method) {
	text_json(out,
	          "'seconds':{'load':%r,'prefill':%r,'decode':%r,'draft':%r,'verify':%r,'plain':%r,'optimize':%r,"
	          "'other':%r},'tokens_per_second':%r,'full_passes':%l,'verify_passes':%l,'plain_steps':%l,"
	          "'draft_steps':%l,'accepted':%l,'M':%r,'alpha':%r,'CR':%r,'CTAR':[",
	          f->seconds.load, f->seconds.prefill, f->seconds.decode, f->seconds.draft, f->seconds.verify,
	          f->seconds.plain, f->seconds.optimize, f->seconds.other, f->tokens_per_second, f->full_passes,
	          f->verify_passes, f->plain_steps, f->draft_steps, f->accepted, f->mean_generated, f->alpha,
	          f->compression_ratio);
	for (int i = 0; i < SWIFTLET_CTAR; i++)
		text_json(out, i ? ",%r" : "%r", f->ctar[i]);
	text_json(out,
	          "],'exit_block':%r,'matchness':%r,'chosen_by':%r,'optimize_steps':%l,'skip_ratio':%r,'read':%r,"
	          "'c':%r,"
	          "'expected_speedup':%r,'speedup':%r,'sources':",
	          f->exit_block > 0 ? (double)f->exit_block : (double)NAN, f->matchness, f->chosen_by,
	          f->optimize_steps, f->skip_ratio, f->read, f->c, f->expected_speedup, figures_speedup(f));
	put_sources(out, f);
	text_json(out, ",'mask':");
	if (method == SWIFTLET_VANILLA)
		text_put(out, "null");
	else
		put_mask(out, f);
}

char* report_text(const struct report* r) {
	const struct swiftlet_figures* f = r->figures;
	struct text out = {0};
	text_json(&out,
	          "{'id':%s,'task':%q,'model':%q,'backend':%q,'method':'%s','prompt_tokens':%d,"
	          "'cached_tokens':%d,'tokens':",
	          r->id ? r->id : "null", r->task, r->model, r->backend, method_name(r->method), f->prompt_tokens,
	          f->cached_tokens);
	text_integers(&out, r->token, r->n_tokens);
	text_json(&out, ",'text':%Q,'stop':'%s',", r->text, r->text_size, swiftlet_stop_name(f->stop));
	report_figures(&out, f, r->method);
	text_put(&out, "}");
	return text_take(&out);
}

char* report_error_text(const char* id, long line, const char* message) {
	struct text out = {0};
	text_json(&out, "{'id':%s,'line':%l,'error':{'message':%q}}", id ? id : "null", (int64_t)line, message);
	return text_take(&out);
}

/* ---- sums ---------------------------------------------------------------------------------- */

void summary_free(struct summary* summary) {
	free(summary->task);
	*summary = (struct summary){0};
}

static struct task_sum* find_task(struct summary* summary, const char* name) {
	for (int i = 0; i < summary->n; i++)
		if (strncmp(summary->task[i].name, name, sizeof summary->task[i].name - 1) == 0)
			return &summary->task[i];
	if (!grow_by_one(&summary->task, (size_t)summary->n, sizeof *summary->task))
		return NULL;
	struct task_sum* const sum = &summary->task[summary->n++];
	*sum = (struct task_sum){0};
	snprintf(sum->name, sizeof sum->name, "%s", name);
	return sum;
}

static void add_to(struct task_sum* sum, const struct swiftlet_figures* f) {
	sum->instances++;
	sum->tokens += f->tokens;
	sum->accepted += f->draft_accepted;
	sum->draft_steps += f->draft_steps;
	sum->rounds += f->verify_passes;
	sum->round_tokens += f->round_tokens;
	sum->optimize_steps += f->optimize_steps;
	sum->seconds += isnan(f->seconds.decode) ? 0 : f->seconds.decode;
	if (!isnan(f->matchness)) {
		sum->matchness += f->matchness;
		sum->matchness_n++;
	}
}

bool summary_add(struct summary* summary, const char* task, const struct swiftlet_figures* figures) {
	struct task_sum* const sum = find_task(summary, task ? task : SUMMARY_NO_TASK);
	if (!sum)
		return false;
	add_to(sum, figures);
	add_to(&summary->total, figures);
	return true;
}

double task_sum_mean_generated(const struct task_sum* s) {
	return quotient((double)s->round_tokens, (double)s->rounds);
}
double task_sum_alpha(const struct task_sum* s) {
	return quotient((double)s->accepted, (double)s->draft_steps);
}
double task_sum_matchness(const struct task_sum* s) { return quotient(s->matchness, (double)s->matchness_n); }
double task_sum_tokens_per_second(const struct task_sum* s) {
	return quotient((double)s->tokens, s->seconds);
}

static void put_sum(struct text* out, const struct task_sum* s) {
	text_json(out,
	          "{'instances':%l,'tokens':%l,'M':%r,'alpha':%r,'matchness':%r,'optimize_steps':%l,"
	          "'tokens_per_second':%r}",
	          (int64_t)s->instances, s->tokens, task_sum_mean_generated(s), task_sum_alpha(s),
	          task_sum_matchness(s), s->optimize_steps, task_sum_tokens_per_second(s));
}

void summary_put(struct text* out, const struct summary* summary) {
	text_json(out, "{'tasks':{");
	for (int i = 0; i < summary->n; i++) {
		text_json(out, i ? ",%q:" : "%q:", summary->task[i].name);
		put_sum(out, &summary->task[i]);
	}
	text_json(out, "},'total':");
	put_sum(out, &summary->total);
	text_put(out, "}");
}

char* summary_text(const struct summary* summary) {
	struct text out = {0};
	summary_put(&out, summary);
	text_put(&out, "\n");
	return text_take(&out);
}
