/* One generation as JSON, and the sums over a stream. */
#include "streams/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"

/* ---- one generation ------------------------------------------------------------------------ */

static bool add_number(cJSON* object, const char* name, double value) {
	return cJSON_AddNumberToObject(object, name, value) != NULL; /* NaN prints as null */
}

static bool add_count(cJSON* object, const char* name, int64_t value) {
	return add_number(object, name, (double)value);
}

static bool add_integers(cJSON* object, const char* name, const int* value, int n) {
	cJSON* const list = n > 0 ? cJSON_CreateIntArray(value, n) : cJSON_CreateArray();
	return list && cJSON_AddItemToObject(object, name, list);
}

static bool add_numbers(cJSON* object, const char* name, const double* value, int n) {
	cJSON* const list = cJSON_AddArrayToObject(object, name);
	bool good = list != NULL;
	for (int i = 0; good && i < n; i++)
		good = cJSON_AddItemToArray(list, cJSON_CreateNumber(value[i]));
	return good;
}

static bool add_raw(cJSON* object, const char* name, char* text) {
	const bool good = text && cJSON_AddRawToObject(object, name, text);
	free(text);
	return good;
}

static bool add_seconds(cJSON* object, const struct swiftlet_figures* f) {
	cJSON* const seconds = cJSON_AddObjectToObject(object, "seconds");
	return seconds && add_number(seconds, "load", f->seconds.load) &&
	       add_number(seconds, "prefill", f->seconds.prefill) &&
	       add_number(seconds, "decode", f->seconds.decode) &&
	       add_number(seconds, "draft", f->seconds.draft) &&
	       add_number(seconds, "verify", f->seconds.verify) &&
	       add_number(seconds, "plain", f->seconds.plain) &&
	       add_number(seconds, "optimize", f->seconds.optimize) &&
	       add_number(seconds, "other", f->seconds.other);
}

static bool add_mask(cJSON* object, const struct swiftlet_figures* f, enum swiftlet_method method) {
	if (method == SWIFTLET_VANILLA)
		return cJSON_AddNullToObject(object, "mask") != NULL;
	cJSON* const mask = cJSON_AddObjectToObject(object, "mask");
	if (!mask || !add_integers(mask, "attention", f->attention, f->n_attention) ||
	    !add_integers(mask, "mlp", f->mlp, f->n_mlp))
		return false;
	if (f->n_low_attention + f->n_low_mlp + f->low_head == 0)
		return true;
	cJSON* const low = cJSON_AddObjectToObject(mask, "low");
	return low && add_integers(low, "attention", f->low_attention, f->n_low_attention) &&
	       add_integers(low, "mlp", f->low_mlp, f->n_low_mlp) &&
	       cJSON_AddBoolToObject(low, "head", f->low_head) != NULL;
}

/* Who drafted: rows verified for each, and what came of them. */
static bool add_sources(cJSON* object, const struct swiftlet_figures* f) {
	cJSON* const sources = cJSON_AddObjectToObject(object, "sources");
	bool good = sources != NULL;
	for (int i = 0; good && swiftlet_source_name(i); i++) {
		if (f->source[i].rows == 0)
			continue;
		cJSON* const source = cJSON_AddObjectToObject(sources, swiftlet_source_name(i));
		good = source && add_count(source, "rows", f->source[i].rows) &&
		       add_count(source, "accepted", f->source[i].accepted) &&
		       add_number(source, "predicted", f->source[i].predicted);
	}
	return good;
}

bool report_add_figures(void* to, const struct swiftlet_figures* f, enum swiftlet_method method) {
	cJSON* const object = to;
	return add_seconds(object, f) && add_number(object, "tokens_per_second", f->tokens_per_second) &&
	       add_count(object, "full_passes", f->full_passes) &&
	       add_count(object, "verify_passes", f->verify_passes) &&
	       add_count(object, "plain_steps", f->plain_steps) &&
	       add_count(object, "draft_steps", f->draft_steps) && add_count(object, "accepted", f->accepted) &&
	       add_number(object, "M", f->mean_generated) && add_number(object, "alpha", f->alpha) &&
	       add_number(object, "CR", f->compression_ratio) &&
	       add_numbers(object, "CTAR", f->ctar, SWIFTLET_CTAR) &&
	       (f->exit_block > 0 ? add_count(object, "exit_block", f->exit_block)
	                          : cJSON_AddNullToObject(object, "exit_block") != NULL) &&
	       add_number(object, "matchness", f->matchness) && add_number(object, "chosen_by", f->chosen_by) &&
	       add_count(object, "optimize_steps", f->optimize_steps) &&
	       add_number(object, "skip_ratio", f->skip_ratio) && add_number(object, "c", f->c) &&
	       add_number(object, "expected_speedup", f->expected_speedup) && add_sources(object, f) &&
	       add_mask(object, f, method);
}

static bool add_id(cJSON* object, const char* id) {
	return cJSON_AddRawToObject(object, "id", id ? id : "null") != NULL;
}

static bool fill_report(cJSON* object, const struct report* r) {
	return add_id(object, r->id) &&
	       (r->task ? cJSON_AddStringToObject(object, "task", r->task)
	                : cJSON_AddNullToObject(object, "task")) &&
	       cJSON_AddStringToObject(object, "model", r->model) &&
	       cJSON_AddStringToObject(object, "backend", r->backend) &&
	       cJSON_AddStringToObject(object, "method", swiftlet_method_name(r->method)) &&
	       add_count(object, "prompt_tokens", r->figures->prompt_tokens) &&
	       add_count(object, "cached_tokens", r->figures->cached_tokens) &&
	       add_integers(object, "tokens", r->token, r->n_tokens) &&
	       add_raw(object, "text", json_quote(r->text, r->text_size)) &&
	       cJSON_AddStringToObject(object, "stop", swiftlet_stop_name(r->figures->stop)) &&
	       report_add_figures(object, r->figures, r->method);
}

char* report_text(const struct report* r) {
	cJSON* const object = cJSON_CreateObject();
	char* const text = object && fill_report(object, r) ? cJSON_PrintUnformatted(object) : NULL;
	cJSON_Delete(object);
	return text;
}

char* report_error_text(const char* id, long line, const char* message) {
	cJSON* const object = cJSON_CreateObject();
	char* text = NULL;
	if (object && add_id(object, id) && add_number(object, "line", (double)line)) {
		cJSON* const error = cJSON_AddObjectToObject(object, "error");
		if (error && add_raw(error, "message", json_quote(message, strlen(message))))
			text = cJSON_PrintUnformatted(object);
	}
	cJSON_Delete(object);
	return text;
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
	if (summary->n == summary->capacity) {
		const int capacity = summary->capacity ? 2 * summary->capacity : 8;
		struct task_sum* const grown = realloc(summary->task, (size_t)capacity * sizeof *grown);
		if (!grown)
			return NULL;
		summary->task = grown;
		summary->capacity = capacity;
	}
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
	sum->rounds += f->rounds;
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

static double ratio(double a, double b) { return b > 0 ? a / b : NAN; }

double task_sum_mean_generated(const struct task_sum* s) {
	return ratio((double)s->round_tokens, (double)s->rounds);
}
double task_sum_alpha(const struct task_sum* s) { return ratio((double)s->accepted, (double)s->draft_steps); }
double task_sum_matchness(const struct task_sum* s) { return ratio(s->matchness, (double)s->matchness_n); }
double task_sum_tokens_per_second(const struct task_sum* s) { return ratio((double)s->tokens, s->seconds); }

static bool fill_sum(cJSON* object, const struct task_sum* s) {
	return object && add_count(object, "instances", s->instances) && add_count(object, "tokens", s->tokens) &&
	       add_number(object, "M", task_sum_mean_generated(s)) &&
	       add_number(object, "alpha", task_sum_alpha(s)) &&
	       add_number(object, "matchness", task_sum_matchness(s)) &&
	       add_count(object, "optimize_steps", s->optimize_steps) &&
	       add_number(object, "tokens_per_second", task_sum_tokens_per_second(s));
}

static bool fill_summary(cJSON* root, const struct summary* summary) {
	cJSON* const tasks = cJSON_AddObjectToObject(root, "tasks");
	if (!tasks)
		return false;
	for (int i = 0; i < summary->n; i++)
		if (!fill_sum(cJSON_AddObjectToObject(tasks, summary->task[i].name), &summary->task[i]))
			return false;
	return fill_sum(cJSON_AddObjectToObject(root, "total"), &summary->total);
}

char* summary_text(const struct summary* summary) {
	cJSON* const root = cJSON_CreateObject();
	char* const text = root && fill_summary(root, summary) ? cJSON_Print(root) : NULL;
	cJSON_Delete(root);
	char* const line = text ? realloc(text, strlen(text) + 2) : NULL;
	if (text && !line)
		free(text);
	return line ? strcat(line, "\n") : NULL;
}
