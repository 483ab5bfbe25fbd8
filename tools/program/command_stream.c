/* swiftlet stream: runs the prompts of a file one after another, with one mask for all. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "streams/jsonl.h"
#include "streams/report.h"
#include "tools/program/command.h"
#include "tools/program/completion.h"
#include "tools/program/draw_mask.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/program/runtime.h"
#include "tools/program/tables.h"

struct stream {
	const char* input;
	const char* output;
	const char* summary_path;
	bool no_special;
	struct runtime runtime;
	FILE* in;
	FILE* out;
	struct summary summary;
	struct completion completion;
	struct swiftlet_figures last; /* of the last instance that was served */
	long served, failed;
	char why[300];                   /* the first line that failed, and why */
	struct swiftlet_figures drafted; /* of all, by source; nothing else */
	int out_failed;                  /* why the output could not be written, an errno; 0: it was */
	double shown_at;
};

/* ---- progress ------------------------------------------------------------------------------- */

/* The present phase: the prompt, or the search during decoding. */
static const char* name_phase(const struct stream* s, const struct swiftlet_figures* f) {
	if (f->tokens == 0)
		return "prefill";
	if (s->runtime.options.drafting.method == SWIFTLET_VANILLA)
		return "plain";
	if (!f->search_state || strcmp(f->search_state, "off") == 0)
		return "mask given";
	return strcmp(f->search_state, "running") == 0 ? "searching" : "mask found";
}

static void add_figure(char* line, size_t size, const char* name, double value) {
	const size_t n = strlen(line);
	if (!isnan(value))
		snprintf(line + n, size - n, "  %s %.2f", name, value);
}

static void show_progress(void* user) {
	struct stream* const s = user;
	const double now = seconds_now();
	char line[120] = "";
	if (now - s->shown_at < 0.1 || !progress_shows())
		return;
	s->shown_at = now;
	struct swiftlet_figures f;
	swiftlet_session_figures(s->runtime.session, &f);
	add_figure(line, sizeof line, "matchness", f.matchness);
	add_figure(line, sizeof line, "M", f.mean_generated);
	add_figure(line, sizeof line, "alpha", f.alpha);
	add_figure(line, sizeof line, "tokens/s", f.tokens_per_second);
	progress_show((double)NAN, "instance %ld  %s%s", s->served + s->failed + 1, name_phase(s, &f), line);
}

/* ---- one line ------------------------------------------------------------------------------- */

static void put_line(struct stream* s, char* text) {
	progress_end();
	if (!text || fputs(text, s->out) < 0 || fputc('\n', s->out) < 0 || fflush(s->out) != 0)
		s->out_failed = errno ? errno : EIO;
	free(text);
}

/* A line that could not be answered; its result is the error. */
static void put_failure(struct stream* s, const struct instance* instance, const struct error* error) {
	if (s->failed++ == 0)
		snprintf(s->why, sizeof s->why, "line %ld: %.250s", instance->line, error->message);
	put_line(s, report_error_text(instance->id, instance->line, error->message));
}

static bool generate_text(struct stream* s, const struct instance* instance, struct error* error) {
	struct token_list prompt = {0};
	bool good = instance_tokens(s->runtime.model, instance, s->no_special, &prompt, error);
	if (good) {
		const struct swiftlet_request request =
		    request_for(&s->runtime.options, prompt.id, prompt.n, instance->max_tokens, instance->task);
		good = completion_run(&s->completion, s->runtime.session, &request, error);
	}
	token_list_free(&prompt);
	return good;
}

static void serve_instance(struct stream* s, const struct instance* instance, struct error* error) {
	struct completion* const g = &s->completion;
	if (!generate_text(s, instance, error)) {
		put_failure(s, instance, error);
		return;
	}
	g->figures.seconds.load = s->served == 0 ? s->runtime.load_seconds : 0;
	put_line(s, completion_report(g, &s->runtime, instance->id, instance->task));
	s->served++;
	s->last = g->figures;
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		s->drafted.source[i].rows += g->figures.source[i].rows;
		s->drafted.source[i].accepted += g->figures.source[i].accepted;
		s->drafted.source[i].predicted += g->figures.source[i].predicted;
	}
	if (!summary_add(&s->summary, instance->task, &g->figures))
		s->out_failed = ENOMEM;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void print_table(const struct stream* s) {
	char* const text = summary_text(&s->summary);
	cJSON* const sums = cJSON_Parse(text);
	cJSON_AddItemToObject(cJSON_GetObjectItem(sums, "tasks"), "total",
	                      cJSON_DetachItemFromObject(sums, "total"));
	runtime_print(stdout, &s->runtime);
	tables_print(sums);
	cJSON_Delete(sums);
	free(text);
	sources_print(stdout, &s->drafted);
	if (s->failed)
		printf("%ld line%s failed; the first, %s\n", s->failed, s->failed == 1 ? "" : "s", s->why);
	if (s->runtime.options.drafting.method != SWIFTLET_VANILLA && s->served)
		draw_figures(stdout, &s->last, s->runtime.model->weights.shape.n_blocks);
}

static bool write_summary(const struct stream* s) {
	char* const text = summary_text(&s->summary);
	FILE* const file = text ? fopen(s->summary_path, "wb") : NULL;
	bool good = file && fputs(text, file) >= 0;
	if (file)
		good = fclose(file) == 0 && good;
	free(text);
	return good || complain(false, "%s: could not be written: %s", s->summary_path, strerror(errno));
}

static int finish_stream(struct stream* s) {
	progress_end();
	bool good =
	    !s->out_failed || complain(false, "%s could not be written: %s",
	                               s->output ? s->output : "standard output", strerror(s->out_failed));
	if (s->output)
		print_table(s);
	if (s->summary_path && !write_summary(s))
		good = false;
	/* the mask is of the whole stream, and so are its figures */
	const struct task_sum* const total = &s->summary.total;
	s->last.alpha = task_sum_alpha(total);
	s->last.mean_generated = task_sum_mean_generated(total);
	const bool one_task = s->summary.n == 1 && strcmp(s->summary.task[0].name, SUMMARY_NO_TASK) != 0;
	if (s->served &&
	    !runtime_save_mask(&s->runtime, &s->last, one_task ? s->summary.task[0].name : NULL, total->tokens))
		good = false;
	good = output_written(STATUS_DONE) == STATUS_DONE && good;
	if (interrupted())
		good = complain(false, "interrupted after %ld prompts", s->served);
	if (s->failed && !s->served)
		good = complain(false, "every line failed; the first, %s", s->why);
	return good ? STATUS_DONE : STATUS_FAILED;
}

static enum jsonl_status next_instance(struct jsonl_reader* reader, struct instance* instance,
                                       struct error* error) {
	interrupt_input(true);
	const enum jsonl_status status = jsonl_next(reader, instance, error);
	interrupt_input(false);
	return status;
}

static int serve_all(struct stream* s) {
	struct jsonl_reader reader = {.file = s->in};
	struct instance instance;
	struct error error = {{0}};
	enum jsonl_status status = JSONL_END;
	interrupt_watch();
	while (!s->out_failed && !interrupted() &&
	       (status = next_instance(&reader, &instance, &error)) != JSONL_END) {
		if (interrupted() && status == JSONL_BROKEN) {
			instance_free(&instance);
			break;
		}
		if (status == JSONL_INSTANCE) {
			serve_instance(s, &instance, &error);
		} else {
			put_failure(s, &instance, &error);
		}
		instance_free(&instance);
	}
	const bool read_failed = ferror(s->in) != 0 && !interrupted();
	jsonl_free(&reader);
	const int result = finish_stream(s);
	if (read_failed)
		return complain(STATUS_FAILED, "%s could not be read", s->input ? s->input : "standard input");
	return result;
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool same_file(FILE* in, const char* path) {
	struct stat a, b;
	return fstat(fileno(in), &a) == 0 && stat(path, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int open_input(struct stream* s) {
	const bool standard = !s->input || strcmp(s->input, "-") == 0;
	s->in = standard ? stdin : fopen(s->input, "rb");
	if (!s->in)
		return complain(STATUS_FAILED, "%s: %s", s->input, strerror(errno));
	struct stat status;
	if (fstat(fileno(s->in), &status) == 0 && S_ISDIR(status.st_mode))
		return complain(STATUS_FAILED, "%s: a folder, expected a file of JSON lines", s->input);
	if ((s->output && same_file(s->in, s->output)) || (s->summary_path && same_file(s->in, s->summary_path)))
		return complain(STATUS_USAGE, "stream: the output would overwrite the input %s", s->input);
	return OPTIONS_GO_ON;
}

static int open_output(struct stream* s) {
	s->out = s->output ? fopen(s->output, "wb") : stdout;
	if (!s->out)
		return complain(STATUS_FAILED, "%s: %s", s->output, strerror(errno));
	return OPTIONS_GO_ON;
}

static int close_stream(struct stream* s, int status) {
	completion_free(&s->completion);
	summary_free(&s->summary);
	if (s->in && s->in != stdin)
		fclose(s->in);
	if (s->out && s->out != stdout)
		fclose(s->out);
	return runtime_close(&s->runtime, status);
}

int command_stream(int argc, char** argv) {
	struct stream s = {0};
	const struct command_option option[] = {
	    TEXT("input", 'i', "FILE", "prompts, one JSON object a line (standard input)", &s.input),
	    TEXT("output", 'o', "FILE",
	         "results, one JSON object a line (standard output); with a file, a table by task is printed "
	         "instead",
	         &s.output),
	    TEXT("summary", 0, "FILE", "write the sums by task as one JSON object", &s.summary_path),
	    MODEL_OPTION(s.runtime.wish),
	    MORE_OPTIONS,
	    FLAG("no-special", "read special tokens that are written in prompts as plain text", &s.no_special),
	    RUNTIME_OPTIONS(s.runtime.wish),
	};
	struct command_line line = {
	    .name = "stream",
	    .usage = "[MODEL] [-i FILE.jsonl] [-o OUT.jsonl] [options]",
	    .about =
	        "Answers the prompts of a file in their order. Input lines:\n"
	        "  {\"id\", \"task\"?, \"prompt\" | \"messages\", \"max_tokens\"? (128)}\n"
	        "or those of OpenAI's batch files, {\"custom_id\", \"url\", \"body\"}.\n"
	        "A line that is broken, or longer than the context, gets {\"id\", \"line\", \"error\"}, and the\n"
	        "stream goes on. The exit status is 0 unless every line failed.",
	    .details =
	        "Lines with messages may have \"tools\", \"documents\" and \"chat_template_kwargs\", which go to "
	        "the\nchat template. The search goes on from one prompt to the next.",
	    .examples = "  swiftlet stream model.gguf -i in.jsonl -o out.jsonl --summary sums.json\n"
	                "  swiftlet stream model.gguf -i prompts.jsonl --method vanilla > plain.jsonl",
	    OPTIONS(option),
	    .session = &s.runtime.options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &s.runtime.wish.model);
	if (status == OPTIONS_GO_ON)
		status = open_input(&s);
	if (status == OPTIONS_GO_ON)
		status = runtime_open(&s.runtime);
	if (status == OPTIONS_GO_ON)
		status = open_output(&s);
	if (status == OPTIONS_GO_ON) {
		s.completion.on_step = show_progress;
		s.completion.on_user = &s;
		s.completion.watch = s.runtime.watch;
		status = serve_all(&s);
	}
	return close_stream(&s, status);
}
