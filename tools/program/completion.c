/* One request run to its end. */
#include "tools/program/completion.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/decode/session.h"
#include "kernels/clock.h"
#include "streams/memory/memory.h"
#include "streams/report.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/program/tables.h"

/* False with the error set: the generation is to end. */
static bool take_step(struct completion* g, const struct swiftlet_step* step, struct error* error) {
	for (int i = 0; i < step->n; i++)
		g->text.failed |= !token_list_append(&g->tokens, step->token[i].id);
	text_add(&g->text, step->text, step->text_size);
	if (g->text.failed)
		return error_set(error, "out of memory for the text");
	if (g->show && step->text_size &&
	    (fwrite(step->text, 1, step->text_size, g->show) != step->text_size || fflush(g->show) != 0))
		return error_set(error, "standard output could not be written: %s", strerror(errno));
	if (g->on_step)
		g->on_step(g->on_user);
	return true;
}

/* Shows how much of a long prompt is read, so that nobody takes the wait for a failure. */
static bool show_reading(const swiftlet_session* session, int n_prompt, double since) {
	const double patience = .5; /* seconds: short prompts show nothing */
	const int left = session_prefill_left(session);
	if (left == 0 || seconds_now() - since < patience)
		return false;
	progress_show(1 - (double)left / n_prompt, "of the prompt is read");
	return true;
}

static bool run_steps(struct completion* g, swiftlet_session* session, int n_prompt, struct error* error) {
	const double since = seconds_now();
	struct swiftlet_step step;
	struct error ignored; /* after the first error */
	bool good = true;
	do {
		const bool shows = g->show && show_reading(session, n_prompt, since);
		const bool stepped = swiftlet_session_step(session, &step, error->message, sizeof error->message);
		if (shows)
			progress_end();
		if (!stepped)
			return false;
		if (g->watch)
			memory_step(g->watch, &step);
		good = take_step(g, &step, good ? error : &ignored) && good;
		if (!good || interrupted())
			swiftlet_session_cancel(session);
	} while (step.stop == SWIFTLET_RUNNING);
	return good;
}

struct swiftlet_request request_for(const struct swiftlet_options* options, const int32_t* prompt, int n,
                                    int max_tokens, const char* task) {
	struct swiftlet_request request;
	swiftlet_request_default(&request, options);
	request.prompt = prompt;
	request.n_prompt = n;
	request.max_tokens = max_tokens;
	request.task = task;
	return request;
}

bool completion_run(struct completion* g, swiftlet_session* session, const struct swiftlet_request* request,
                    struct error* error) {
	g->tokens.n = 0;
	text_clear(&g->text);
	g->text.failed = false;
	if (!swiftlet_session_start(session, request, error->message, sizeof error->message))
		return false;
	if (g->watch)
		memory_begin(g->watch, request->task);
	const bool good = run_steps(g, session, request->n_prompt, error);
	if (g->watch)
		memory_end(g->watch);
	if (good)
		swiftlet_session_figures(session, &g->figures);
	return good;
}

void completion_free(struct completion* g) {
	token_list_free(&g->tokens);
	text_free(&g->text);
}

char* completion_report(const struct completion* g, const struct runtime* runtime, const char* id,
                        const char* task) {
	const struct report report = {.id = id,
	                              .task = task,
	                              .model = runtime->name,
	                              .backend = swiftlet_engine_name(runtime->engine),
	                              .method = runtime->options.drafting.method,
	                              .token = g->tokens.id,
	                              .n_tokens = g->tokens.n,
	                              .text = g->text.data ? g->text.data : "",
	                              .text_size = g->text.size,
	                              .figures = &g->figures};
	return report_text(&report);
}

static void print_figure(FILE* out, const char* name, double value, const char* format) {
	if (isnan(value))
		return;
	fprintf(out, "   %s ", name);
	fprintf(out, format, value);
}

/* In less time the ratio is chance: few passes were timed, and drafts know little of the text yet. Two runs
 * of the built-in model on one prompt (two busy cores) differed by up to .61 of the ratio where decoding took
 * .3 to .7 s, and by at most .12 where it took 1.4 to 3.2 s. */
static const double telling_seconds = 1;

void speed_print(FILE* out, const struct swiftlet_figures* f, const char* longer) {
	const bool dim = colours_allowed(out);
	const double speedup = figures_speedup(f);
	fprintf(out, "%s%d token%s", dim ? "\033[2m" : "", f->tokens, f->tokens == 1 ? "" : "s");
	if (isfinite(f->tokens_per_second))
		fprintf(out, ", %.1f tokens/s", f->tokens_per_second);
	if (isfinite(speedup) && f->seconds.decode >= telling_seconds)
		fprintf(out, ", %.2f times as fast as plain decoding", speedup);
	if (f->stop == SWIFTLET_LENGTH)
		fprintf(out, "; cut off by the limit: %s", longer);
	else if (f->stop == SWIFTLET_CANCELLED)
		fputs("; stopped", out);
	fprintf(out, "%s\n", dim ? "\033[0m" : "");
}

void figures_print(FILE* out, const struct swiftlet_figures* f, enum swiftlet_method method) {
	fprintf(out, "%d token%s in %.2f s (%s)", f->tokens, f->tokens == 1 ? "" : "s", f->seconds.decode,
	        swiftlet_stop_name(f->stop));
	print_figure(out, "tokens/s", f->tokens_per_second, "%.1f");
	fprintf(out, "   prompt %d token%s in %.2f s   load %.2f s\n", f->prompt_tokens,
	        f->prompt_tokens == 1 ? "" : "s", f->seconds.prefill, f->seconds.load);
	if (method == SWIFTLET_VANILLA)
		return;
	fprintf(out, "%" PRId64 " full passes (%" PRId64 " plain), %" PRId64 " draft steps, %" PRId64 " accepted",
	        f->full_passes, f->plain_steps, f->draft_steps, f->accepted);
	print_figure(out, "M", f->mean_generated, "%.2f");
	print_figure(out, "alpha", f->alpha, "%.2f");
	print_figure(out, "c", f->c, "%.2f");
	print_figure(out, "expected speed-up", f->expected_speedup, "%.2f");
	if (!isnan(f->read) && !isnan(f->alpha))
		fprintf(out, "\ndrafted by the model at %.0f %% of its weights: %.0f %% right", 100 * f->read,
		        100 * f->alpha);
	fprintf(out, "\nsearch for layers to skip: %s, %" PRId64 " mask%s tried",
	        f->search_state ? f->search_state : "off", f->optimize_steps, f->optimize_steps == 1 ? "" : "s");
	print_figure(out, "matchness", f->matchness, "%.2f");
	if (f->draft_steps > 0 && f->n_attention + f->n_mlp > 0) {
		print_figure(out, "skip ratio", f->skip_ratio, "%.2f");
		fprintf(out, "   skipping %d attention and %d MLP layer%s", f->n_attention, f->n_mlp,
		        f->n_mlp == 1 ? "" : "s");
	}
	fputc('\n', out);
	sources_print(out, f);
}

void sources_print(FILE* out, const struct swiftlet_figures* f) {
	for (int i = 0; swiftlet_source_name(i); i++) {
		if (f->source[i].rows == 0)
			continue;
		fprintf(out, "drafted by %-10s  %8" PRId64 " rows  %8" PRId64 " accepted", swiftlet_source_name(i),
		        f->source[i].rows, f->source[i].accepted);
		if (f->source[i].accepted > 0)
			fprintf(out, "   predicted over accepted %.3f",
			        f->source[i].predicted / (double)f->source[i].accepted);
		fputc('\n', out);
	}
}
