/* Opens the model, engine and session that the command line asks for. */
#include "tools/program/runtime.h"

#include "tools/program/interrupt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/decode/session.h"
#include "kernels/attention_cost.h"
#include "streams/chat_shape.h"
#include "streams/json_text.h"
#include "streams/mask_file.h"
#include "streams/memory/memory.h"
#include "streams/text.h"
#include "tools/program/progress.h"

/* ---- opening -------------------------------------------------------------------------------- */

bool mask_of_file(const char* path, const char* key, const struct model* model, bool force, struct mask* mask,
                  struct error* error) {
	struct mask_list list = {0};
	bool good = mask_file_read(path, &list, error);
	const struct mask_entry* const entry =
	    good ? mask_list_pick(&list, key, model->fingerprint, path, error) : NULL;
	good = entry &&
	       mask_entry_fits(entry, model->weights.shape.n_blocks, model->fingerprint, force, path, error);
	if (good)
		*mask = entry->mask;
	mask_list_free(&list);
	return good;
}

static bool start_mask(struct runtime* r, struct error* error) {
	const struct runtime_wish* const w = &r->wish;
	struct mask mask;
	if (!mask_of_file(w->mask, w->key, r->model, w->force, &mask, error))
		return false;
	session_set_mask(r->session, &mask);
	return true;
}

/* Overwrites the password of USER:PASSWORD@HOST in a word of the command line, because other users can read
 * it in the list of processes. */
static void hide_password(const char* address) {
	char* const rest = address ? strstr((char*)(uintptr_t)address, "://") : NULL;
	char* const at = rest ? strchr(rest, '@') : NULL;
	char* const colon = at ? memchr(rest + 3, ':', (size_t)(at - rest) - 3) : NULL;
	if (colon)
		memset(colon + 1, '*', (size_t)(at - colon) - 1);
}

/* A given mask is used as it is, without the memory, unless a store was named. */
bool runtime_open_memory(struct runtime* r, struct error* error) {
	const struct runtime_wish* const w = &r->wish;
	char path[1024];
	if (!r->options.learning.bank || !options_plan(&r->options) || (w->mask && !w->store)) {
		hide_password(w->store);
		return true;
	}
	if (w->store || w->no_store) {
		r->memory = memory_open(r->model, r->name, w->store, error);
		hide_password(w->store);
		return r->memory != NULL;
	}
	/* nobody asked for the usual store, so a problem with it must not stop the program */
	if (store_default_path(path, sizeof path, error))
		r->memory = memory_open(r->model, r->name, path, error);
	if (!r->memory) {
		complain(0, "%s; nothing that is learned will be kept", error->message);
		r->memory = memory_open(r->model, r->name, NULL, error);
	}
	return r->memory != NULL;
}

/* Opens the model and logs contradictions in its files. */
static struct model* open_and_log(const char* spec, const struct swiftlet_options* options, char* message,
                                  size_t size) {
	interrupt_report_lost_file(spec);
	struct model* model = swiftlet_model_open(spec, options, message, size);
	if (model && model->warning[0])
		fprintf(stderr, "swiftlet: %s\n", model->warning);
	return model;
}

static void show_share(void* user, double share) {
	(void)user;
	if (share < 1)
		progress_show(share, "making draft weights");
	else
		progress_end();
}

/* The note on draft weights is printed for users who asked for them. */
void report_draft_weights(const struct runtime* r, bool at_end) {
	const char* note = swiftlet_engine_note(r->engine);
	const bool asked = r->options.draft_weights.bits > 0;
	if (*note && (at_end ? asked && r->engine->making && progress_shows()
	                     : asked || r->engine->note_on_draft_weights > 0))
		fprintf(stderr, "%s\n", note);
}

/* Bytes of the KV cache for the context that the options give. */
static double cache_bytes(const struct runtime* r, int* context) {
	*context = options_context(&r->options, r->model);
	return cache_size(&r->model->weights.shape, options_cache_type(&r->options, r->model), *context);
}

bool runtime_open_engine(struct runtime* r, struct error* error) {
	const struct runtime_wish* const w = &r->wish;
	struct swiftlet_options* const o = &r->options;
	const double started = seconds_now();
	if (progress_shows())
		o->draft_weights.progress = show_share;
	r->model = open_and_log(w->model, o, error->message, sizeof error->message);
	if (!r->model || (w->chat_template && !model_take_template(r->model, w->chat_template, error)))
		return false;
	r->name = w->alias ? w->alias : swiftlet_model_name(r->model);
	int context;
	const double bytes = cache_bytes(r, &context);
	if (w->shared && !(o->cache.memory > 0)) /* each cache begins with prefixes that others hold */
		o->cache.memory = fmin(4, fmax(1, options_cache_memory(r->model) / bytes)) * bytes *
		                  (context + 2 * MAX_ROWS) / context;
	r->engine = swiftlet_engine_open(r->model, o, error->message, sizeof error->message);
	r->load_seconds = seconds_now() - started;
	return r->engine != NULL;
}

static bool open_session(struct runtime* r, struct error* error) {
	r->session = swiftlet_session_open(r->engine, &r->options, error->message, sizeof error->message);
	if (!r->session)
		return false;
	report_draft_weights(r, false);
	if ((r->wish.mask && !start_mask(r, error)) || !runtime_open_memory(r, error))
		return false;
	r->watch = r->memory ? memory_attach(r->memory, r->session, 0) : NULL;
	return !r->memory || r->watch || error_set(error, "out of memory for the mask bank");
}

int runtime_open(struct runtime* r) {
	struct error error = {{0}};
	const double started = seconds_now();
	if (!runtime_open_engine(r, &error) || !open_session(r, &error))
		return complain(STATUS_FAILED, "%s", error.message);
	r->load_seconds = seconds_now() - started;
	return OPTIONS_GO_ON;
}

int runtime_close(struct runtime* r, int status) {
	struct error error = {{0}};
	memory_detach(r->watch);
	if (r->memory && !memory_flush(r->memory, &error)) {
		complain(STATUS_FAILED, "%s", error.message);
		status = status == STATUS_DONE ? STATUS_FAILED : status;
	}
	memory_close(r->memory);
	if (r->session)
		swiftlet_session_close(r->session);
	if (r->engine) {
		report_draft_weights(r, true);
		swiftlet_engine_close(r->engine);
	}
	if (r->model)
		swiftlet_model_close(r->model);
	*r = (struct runtime){.wish = r->wish, .options = r->options};
	return status;
}

void runtime_print(FILE* out, const struct runtime* r) {
	int context;
	const double bytes = cache_bytes(r, &context);
	const int own = r->model->weights.shape.context;
	char beside[64] = "";
	if (context != own)
		snprintf(beside, sizeof beside, " (the model's limit is %d)", own);
	fprintf(out, "%s on %s, cache of %d tokens%s: %.1f MiB\n", r->name, swiftlet_engine_name(r->engine),
	        context, beside, bytes / 1048576);
}

bool runtime_save_mask(const struct runtime* r, const struct swiftlet_figures* figures, const char* task,
                       int64_t tokens_served) {
	if (!r->wish.save_mask)
		return true;
	struct mask_entry entry;
	struct error error;
	mask_entry_start(&entry);
	snprintf(entry.model, sizeof entry.model, "%s", r->name);
	snprintf(entry.fingerprint, sizeof entry.fingerprint, "%s", r->model->fingerprint);
	snprintf(entry.task, sizeof entry.task, "%s", task ? task : "");
	entry.blocks = r->model->weights.shape.n_blocks;
	entry.mask = session_mask(r->session, NULL);
	entry.matchness = figures->matchness;
	entry.alpha = figures->alpha;
	entry.mean_generated = figures->mean_generated;
	const int skippable = 2 * (entry.blocks - 2);
	entry.skip_ratio = skippable > 0 ? (double)mask_count(&entry.mask) / skippable : (double)NAN;
	entry.tokens_served = tokens_served;
	return mask_file_write(r->wish.save_mask, &entry, 1, MASK_FORMAT_SWIFTLET, &error) ||
	       complain(false, "%s", error.message);
}

/* ---- prompts -------------------------------------------------------------------------------- */

static bool encode_prompt(const swiftlet_model* model, const char* text, size_t size, int flags,
                          struct token_list* list, struct error* error) {
	return tokenizer_encode(model->tokenizer, text, size, flags, list) ||
	       error_set(error, "out of memory for the ids of a text of %zu bytes", size);
}

bool prompt_tokens(const swiftlet_model* model, const char* text, size_t size, bool no_special,
                   struct token_list* list, struct error* error) {
	const int32_t bos = tokenizer_bos(model->tokenizer);
	if (!utf8_valid(text, size))
		return error_set(error, "the prompt is not UTF-8");
	if (size > 0)
		return encode_prompt(model, text, size, TOKENIZE_ADD_SPECIAL | (no_special ? TOKENIZE_NO_SPECIAL : 0),
		                     list, error);
	if (bos < 0)
		return error_set(error, "the prompt is empty and the model %s has no BOS token to start from",
		                 model->name);
	return token_list_append(list, bos) || error_set(error, "out of memory");
}

bool expected_tokens(const swiftlet_model* model, const char* text, size_t size, struct token_list* list,
                     struct error* error) {
	return encode_prompt(model, text, size, TOKENIZE_NO_SPECIAL, list, error);
}

bool check_json(const char* what, const char* text, size_t size, char first, struct error* error) {
	struct error why;
	if (!json_check(text, size, &why))
		return error_set(error, "%s: %.400s", what, why.message);
	const size_t start = strspn(text, " \t\r\n");
	return text[start] == first || error_set(error, "%s: no %s", what, first == '[' ? "list" : "object");
}

static void write_messages(struct text* out, const struct chat_message* message, int n) {
	for (int i = 0; i < n; i++) {
		text_print(out, "%s{\"role\": \"%s\", \"content\": ", i ? ", " : "[", message[i].role);
		text_quote(out, message[i].content, message[i].content_size);
		text_put(out, "}");
	}
	text_put(out, "]");
}

bool chat_tokens(const swiftlet_model* model, const struct chat_message* message, int n_messages,
                 const char* variables, struct token_list* list, struct error* error) {
	for (int i = 0; i < n_messages; i++)
		if (!utf8_valid(message[i].content, message[i].content_size))
			return error_set(error, "message %d is not UTF-8", i + 1);
	if (variables && !check_json("--chat-template-kwargs", variables, strlen(variables), '{', error))
		return false;
	struct text text = {0};
	write_messages(&text, message, n_messages);
	const struct chat_request request = {.messages = {text.data, text.size},
	                                     .variables = chat_json(variables)};
	const bool good = text.failed ? error_set(error, "out of memory")
	                              : chat_template_encode(model_chat_template(model, false), model->tokenizer,
	                                                     &request, list, error);
	text_free(&text);
	return good;
}

bool instance_tokens(const swiftlet_model* model, const struct instance* instance, bool no_special,
                     struct token_list* list, struct error* error) {
	if (instance->prompt)
		return prompt_tokens(model, instance->prompt, strlen(instance->prompt), no_special, list, error);
	return chat_parts_encode(&instance->chat, model, list, error);
}

char* read_whole(const char* path, size_t* size, struct error* error) {
	enum { LARGEST = 256 << 20 };
	const bool standard = strcmp(path, "-") == 0;
	FILE* const file = standard ? stdin : fopen(path, "rb");
	if (!file) {
		error_set(error, "%s: %s", path, strerror(errno));
		return NULL;
	}
	struct text text = {0};
	char part[1 << 16];
	size_t n;
	while (text.size < LARGEST && !text.failed && (n = fread(part, 1, sizeof part, file)) > 0)
		text_add(&text, part, n);
	bool good = !text.failed && text.size < LARGEST;
	if (!good)
		error_set(error, "%s: larger than %d MiB, or out of memory", path, LARGEST >> 20);
	else if (ferror(file))
		good = error_set(error, "%s: %s", path, strerror(errno));
	if (!standard)
		fclose(file);
	if (!good)
		text_free(&text);
	*size = text.size;
	return good ? text_take(&text) : NULL;
}
