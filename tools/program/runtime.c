/* A model, an engine and a session opened as the command line says. */
#include "tools/program/runtime.h"

#include "tools/program/interrupt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/session.h"
#include "streams/json_text.h"
#include "streams/mask_file.h"
#include "streams/memory/memory.h"
#include "streams/text.h"

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

static bool start_mask(struct runtime* runtime, const struct runtime_wish* wish, struct error* error) {
	struct mask mask;
	if (!mask_of_file(wish->mask, wish->key, runtime->model, wish->force, &mask, error))
		return false;
	session_set_mask(runtime->session, &mask);
	return true;
}

struct memory* runtime_memory(const struct runtime_wish* wish, const struct model* model, const char* name,
                              struct error* error) {
	char path[1024];
	if (wish->store || wish->no_store)
		return memory_open(model, name, wish->store, error);
	/* nobody asked for the usual place: what is wrong with it must not keep the program from its work */
	struct memory* memory = NULL;
	if (store_default_path(path, sizeof path, error))
		memory = memory_open(model, name, path, error);
	if (!memory) {
		complain(0, "%s; nothing that is learned will be kept", error->message);
		memory = memory_open(model, name, NULL, error);
	}
	return memory;
}

/* A mask that is given is the one that is meant: it draws on no memory, unless a store was named. */
static bool open_memory(struct runtime* runtime, const struct runtime_wish* wish, struct error* error) {
	const struct swiftlet_options* const o = &runtime->options;
	if (!o->bank || !method_plans(o) || (wish->mask && !wish->store))
		return true;
	runtime->memory = runtime_memory(wish, runtime->model, runtime->name, error);
	if (!runtime->memory)
		return false;
	runtime->watch = memory_attach(runtime->memory, runtime->session, 0);
	return runtime->watch || error_set(error, "out of memory for the mask bank");
}

/* Says on standard error what the files contradict themselves in. */
static struct model* open_aloud(const char* spec, const struct swiftlet_options* options, char* message,
                                size_t size) {
	interrupt_tell_lost_file(spec);
	struct model* model = swiftlet_model_open(spec, options, message, size);
	if (model && model->warning[0])
		fprintf(stderr, "swiftlet: %s\n", model->warning);
	return model;
}

static void show_share(void* user, double share) {
	(void)user;
	fprintf(stderr, "\r\033[Kmaking a copy for drafting: %.0f %%", 100 * share);
	if (share >= 1)
		fputs("\r\033[K", stderr);
}

void say_copy(swiftlet_engine* engine, const struct swiftlet_options* options, bool at_end) {
	const char* note = swiftlet_engine_note(engine);
	const bool asked = options->draft_bits > 0, terminal = isatty(STDERR_FILENO) != 0;
	const bool wrong = engine->making && strchr(note, ';');
	const bool first = asked || terminal || engine->note_on_copy > 0;
	if (*note && (at_end ? engine->making && (terminal || wrong) : first))
		fprintf(stderr, "%s\n", note);
}

bool runtime_open_engine(struct runtime* runtime, const struct runtime_wish* wish,
                         const struct swiftlet_options* options, struct error* error) {
	*runtime = (struct runtime){.options = *options};
	struct swiftlet_options* const o = &runtime->options;
	if (isatty(STDERR_FILENO))
		o->progress = show_share;
	runtime->model = open_aloud(wish->model, o, error->message, sizeof error->message);
	if (!runtime->model ||
	    (wish->chat_template && !model_take_template(runtime->model, wish->chat_template, error)))
		return false;
	runtime->name = wish->alias ? wish->alias : swiftlet_model_name(runtime->model);
	int context;
	const double bytes = runtime_cache_bytes(runtime, &context);
	if (wish->shared && !(o->cache_memory > 0)) /* each cache begins with what others hold already */
		o->cache_memory = 4 * bytes * (context + 2 * MAX_ROWS) / context;
	runtime->engine = swiftlet_engine_open(runtime->model, o, error->message, sizeof error->message);
	return runtime->engine != NULL;
}

int runtime_open(struct runtime* runtime, const struct runtime_wish* wish,
                 const struct swiftlet_options* options, double started) {
	struct error error = {{0}};
	if (!runtime_open_engine(runtime, wish, options, &error))
		return complain(STATUS_FAILED, "%s", error.message);
	runtime->session =
	    swiftlet_session_open(runtime->engine, &runtime->options, error.message, sizeof error.message);
	if (runtime->session)
		say_copy(runtime->engine, &runtime->options, false);
	if (!runtime->session || (wish->mask && !start_mask(runtime, wish, &error)) ||
	    !open_memory(runtime, wish, &error))
		return complain(STATUS_FAILED, "%s", error.message);
	runtime->load_seconds = seconds_now() - started;
	return OPTIONS_GO_ON;
}

int runtime_close(struct runtime* runtime, int status) {
	struct error error = {{0}};
	memory_detach(runtime->watch);
	if (runtime->memory && !memory_flush(runtime->memory, &error)) {
		complain(STATUS_FAILED, "%s", error.message);
		status = status == STATUS_DONE ? STATUS_FAILED : status;
	}
	memory_close(runtime->memory);
	if (runtime->session)
		swiftlet_session_close(runtime->session);
	if (runtime->engine) {
		say_copy(runtime->engine, &runtime->options, true);
		swiftlet_engine_close(runtime->engine);
	}
	if (runtime->model)
		swiftlet_model_close(runtime->model);
	return status;
}

double runtime_cache_bytes(const struct runtime* runtime, int* context) {
	const struct model_shape* const shape = &runtime->model->weights.shape;
	*context = options_context(&runtime->options, runtime->model);
	const bool wide =
	    strcmp(runtime->options.cache_type, "f32") == 0 ||
	    (strcmp(runtime->options.cache_type, "auto") == 0 && runtime->model->dtype == DTYPE_F32);
	const double element = strcmp(runtime->options.cache_type, "q8_0") == 0 ? 34.0 / 32 : wide ? 4 : 2;
	return 2.0 * element * *context * shape->n_blocks * shape->kv_heads * shape->head_dim;
}

void runtime_print(FILE* out, const struct runtime* runtime) {
	int context;
	const double bytes = runtime_cache_bytes(runtime, &context);
	fprintf(out, "%s on %s, cache of %d tokens: %.1f MiB\n", runtime->name,
	        swiftlet_engine_name(runtime->engine), context, bytes / 1048576);
}

bool runtime_save_mask(const struct runtime* runtime, const struct runtime_wish* wish,
                       const struct swiftlet_figures* figures, const char* task, int64_t tokens_served) {
	if (!wish->save_mask)
		return true;
	const struct model* const model = runtime->model;
	struct mask_entry entry;
	mask_entry_start(&entry);
	snprintf(entry.model, sizeof entry.model, "%s", runtime->name);
	snprintf(entry.fingerprint, sizeof entry.fingerprint, "%s", model->fingerprint);
	snprintf(entry.task, sizeof entry.task, "%s", task ? task : "");
	entry.blocks = model->weights.shape.n_blocks;
	entry.mask = session_mask(runtime->session, NULL);
	entry.matchness = figures->matchness;
	entry.alpha = figures->alpha;
	entry.mean_generated = figures->mean_generated;
	const int skippable = 2 * (entry.blocks - 2);
	entry.skip_ratio = skippable > 0 ? (double)mask_count(&entry.mask) / skippable : (double)NAN;
	entry.tokens_served = tokens_served;
	struct error error;
	return mask_file_write(wish->save_mask, &entry, 1, MASK_FORMAT_SWIFTLET, &error) ||
	       complain(false, "%s", error.message);
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Its ids are malloc'd, though there be none; NULL with the error set. */
static int32_t* encode(const swiftlet_model* model, const char* text, size_t size, int flags, int* n,
                       struct error* error) {
	struct token_list list = {0};
	const bool good = tokenizer_encode(model->tokenizer, text, size, flags, &list);
	if (!good) {
		token_list_free(&list);
		error_set(error, "out of memory for the ids of a text of %zu bytes", size);
	}
	*n = list.n;
	return list.id || !good ? list.id : malloc(sizeof *list.id);
}

int32_t* prompt_tokens(const swiftlet_model* model, const char* text, size_t size, bool no_special, int* n,
                       struct error* error) {
	const int32_t bos = tokenizer_bos(model->tokenizer);
	int32_t* id = NULL;
	if (!utf8_valid(text, size))
		error_set(error, "the prompt is not UTF-8");
	else if (size > 0)
		id = encode(model, text, size, TOKENIZE_ADD_SPECIAL | (no_special ? TOKENIZE_NO_SPECIAL : 0), n,
		            error);
	else if (bos < 0)
		error_set(error, "the prompt is empty and the model %s has no BOS token to start from", model->name);
	else if (!(id = malloc(sizeof *id)))
		error_set(error, "out of memory");
	else {
		*n = 1;
		*id = bos;
	}
	return id;
}

int32_t* expected_tokens(const swiftlet_model* model, const char* text, size_t size, int* n,
                         struct error* error) {
	return encode(model, text, size, TOKENIZE_NO_SPECIAL, n, error);
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

int32_t* chat_tokens(const swiftlet_model* model, const struct chat_message* message, int n_messages,
                     const char* variables, int* n, struct error* error) {
	for (int i = 0; i < n_messages; i++)
		if (!utf8_valid(message[i].content, message[i].content_size)) {
			error_set(error, "message %d is not UTF-8", i + 1);
			return NULL;
		}
	if (variables && !check_json("--chat-template-kwargs", variables, strlen(variables), '{', error))
		return NULL;
	struct text text = {0};
	struct token_list list = {0};
	write_messages(&text, message, n_messages);
	const struct chat_request request = {.messages = {text.data, text.size},
	                                     .variables = {variables, variables ? strlen(variables) : 0}};
	const bool good = text.failed ? error_set(error, "out of memory")
	                              : chat_template_encode(model_chat_template(model, false), model->tokenizer,
	                                                     &request, &list, error);
	text_free(&text);
	if (!good)
		token_list_free(&list);
	*n = list.n;
	return list.id;
}

int32_t* instance_tokens(const swiftlet_model* model, const struct instance* instance, bool no_special,
                         int* n, struct error* error) {
	if (instance->prompt)
		return prompt_tokens(model, instance->prompt, strlen(instance->prompt), no_special, n, error);
	struct token_list list = {0};
	if (!chat_parts_encode(&instance->chat, model, &list, error))
		token_list_free(&list);
	*n = list.n;
	return list.id;
}

char* read_whole(const char* path, size_t* size, struct error* error) {
	enum { LARGEST = 256 << 20 };
	const bool standard = strcmp(path, "-") == 0;
	FILE* const file = standard ? stdin : fopen(path, "rb");
	if (!file) {
		error_set(error, "%s: %s", path, strerror(errno));
		return NULL;
	}
	char* text = NULL;
	size_t capacity = 0;
	*size = 0;
	bool good = true;
	do {
		if (*size + 1 >= capacity) {
			capacity = capacity ? 2 * capacity : 65536;
			char* const grown = capacity <= LARGEST ? realloc(text, capacity) : NULL;
			good = grown || error_set(error, "%s: larger than %d MiB, or out of memory", path, LARGEST >> 20);
			text = grown ? grown : text;
		}
		if (good)
			*size += fread(text + *size, 1, capacity - 1 - *size, file);
	} while (good && !feof(file) && !ferror(file));
	if (good && ferror(file))
		good = error_set(error, "%s: %s", path, strerror(errno));
	if (!standard)
		fclose(file);
	if (!good) {
		free(text);
		return NULL;
	}
	text[*size] = 0;
	return text;
}
