/* Opening models and engines for the public interface. */
#include "core/decode/engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"
#include "core/grammar/grammar.h"
#include "core/model/system_memory.h"
#include "core/text/tokenizer.h"
#include "kernels/attention_cost.h"
#include "kernels/clock.h"
#include "kernels/process_group.h"

double options_clock(const struct swiftlet_options* options) {
	return options->clock ? options->clock(options->clock_user) : seconds_now();
}

enum dtype options_cache_type(const struct swiftlet_options* options, const struct model* model) {
	if (strcmp(options->cache.type, "f32") == 0)
		return DTYPE_F32;
	if (strcmp(options->cache.type, "f16") == 0)
		return DTYPE_F16;
	if (strcmp(options->cache.type, "q8_0") == 0)
		return DTYPE_Q8_0;
	return model->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F16;
}

/* True when only a GPU may run the model. */
static bool asks_for_cuda(const struct swiftlet_options* options) {
	return strcmp(options->engine.backend, "cuda") == 0 || options->engine.devices > 0;
}

/* Opens the GPU if it was asked for, or if nothing was and there is one. */
static bool wants_cuda(const struct swiftlet_options* options) {
	struct error ignored;
	if (!options || options->engine.group || strcmp(options->engine.backend, "cpu") == 0)
		return false;
	return asks_for_cuda(options) || cuda_available(&ignored);
}

double options_cache_memory(const struct model* model) { return 0.5 * model->memory_left; }

/* A GPU's memory is taken when a cache is opened, and processes of a group have to agree: both begin with a
 * fixed number. */
int options_context(const struct swiftlet_options* options, const struct model* model) {
	enum { LEAST = 4096, STEP = 1024 };
	const struct model_shape* shape = &model->weights.shape;
	const int own = shape->context > 0 ? shape->context : LEAST;
	if (options->cache.context > 0)
		return options->cache.context;
	if (own <= LEAST || options->engine.group || wants_cuda(options))
		return least(own, LEAST);
	const double token = attention_bytes(shape, options_cache_type(options, model), 1, 1);
	if (token * own <= options_cache_memory(model))
		return own;
	const int fits = (int)(options_cache_memory(model) / token) / STEP * STEP;
	return fits > LEAST ? fits : LEAST;
}

/* Refuses impossible choices before minutes of loading. */
static bool check_backend(const struct swiftlet_options* options, struct error* error) {
	if (options->engine.devices > 0 && strcmp(options->engine.backend, "cpu") == 0)
		return error_set(error,
		                 "--devices %d counts GPUs, and --backend cpu uses none: leave one of the two out",
		                 options->engine.devices);
	if (!asks_for_cuda(options))
		return true;
	if (options->engine.group)
		return error_set(error, "several processes share a model only on CPUs: leave out --backend cuda and "
		                        "--devices");
	return cuda_available(error);
}

/* target: the model that it is to draft for, or NULL */
static struct model* open_model(const char* spec, const struct swiftlet_options* options,
                                const struct model* target, struct error* error) {
	if (options && !check_backend(options, error))
		return NULL;
	/* draft weights are made from weights in the host's memory */
	const struct model_options how = {
	    .synth_on_device = wants_cuda(options) && options->draft_weights.bits <= 0, .target = target};
	struct model* model = model_open(spec, &how, error);
	if (model)
		model->memory_left = fmax(0, memory_available() - (double)model->weight_bytes);
	return model;
}

struct model* engine_model_open(const char* spec, const struct swiftlet_options* options,
                                struct error* error) {
	return open_model(spec, options, NULL, error);
}

/* ---- the draft weights ----------------------------------------------------- */

/* Goes on with the note, cut to fit. */
__attribute__((format(printf, 2, 3))) static void append_note(struct engine* engine, const char* format,
                                                              ...) {
	const size_t used = strlen(engine->note);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(engine->note + used, sizeof engine->note - used, format, arguments);
	va_end(arguments);
}

/* The share of the draft weights that drafts read at first. */
static double levels_read(const struct engine* engine) {
	const struct draft_weights_memory* memory = &engine->draft_weights;
	struct pass_bytes bytes = engine->cost.bytes;
	const struct mask all = memory->table.sub_layers;
	pass_bytes_add(&bytes, &memory->table);
	return pass_bytes_layers_read(&bytes, (struct variant){.quantized = &all, .levels = &engine->levels});
}

/* A note: the draft weights, and the share of them that is made. */
static void note_draft_weights(struct engine* engine) {
	const struct draft_weights_memory* memory = &engine->draft_weights;
	engine->note[engine->note_on_draft_weights] = 0;
	append_note(engine, "draft weights: %s, %.1f MiB, ", draft_weights_kind(&memory->table),
	            (double)memory->table.bytes / 0x1p20);
	if (engine_draft_weights_made(engine) < 1)
		append_note(engine, "%.0f %% made", 100 * engine_draft_weights_made(engine));
	else
		append_note(engine, "made in %.2f s", engine->draft_weights_seconds);
	if (memory->table.format.columns)
		append_note(engine, "; drafts read %.0f %% of them", 100 * levels_read(engine));
	if (engine->backend->draft_weights_released)
		append_note(engine, "; KV caches have taken their memory on the GPU");
}

static bool go_without(struct engine* engine, const char* why) {
	draft_weights_job_close(engine->making);
	engine->making = NULL;
	draft_weights_memory_close(&engine->draft_weights);
	append_note(engine, "no draft weights: %s", why);
	return true;
}

/* Uploads some bytes of the draft weights to the device, if the backend has one; true when all are there.
 * After an error here the next pass fails, too, and reports it. */
static bool upload_draft_weights(struct engine* engine, size_t bytes) {
	struct backend* backend = engine->backend;
	struct error ignored;
	bool all = true;
	return !backend->upload_draft_weights ||
	       (backend->upload_draft_weights(backend, bytes, &all, &ignored) && all);
}

/* Makes them now on all threads, or in slices between a request's passes. */
static bool make_draft_weights(struct engine* engine, const struct swiftlet_options* options,
                               struct error* error) {
	struct draft_weights_memory* memory = &engine->draft_weights;
	if (options->draft_weights.bits > 0 || options->draft_weights.wait) {
		const double began = seconds_now();
		const bool made =
		    draft_weights_make(&memory->table, memory->data, options->engine.threads,
		                       options->draft_weights.progress, options->draft_weights.progress_user, error);
		engine->draft_weights_seconds = seconds_now() - began;
		return made;
	}
	engine->making = draft_weights_job_open(&memory->table, memory->data, options->engine.threads, error);
	return engine->making != NULL;
}

/* Draft weights that the user did not ask for are left out if they cannot be made. */
static bool begin_draft_weights(struct engine* engine, const struct swiftlet_options* options,
                                const struct draft_weights_request* wish, struct error* error) {
	const bool asked = options->draft_weights.bits > 0;
	struct draft_weights_memory* memory = &engine->draft_weights;
	if (!draft_weights_memory_open(memory, engine->model, wish, error))
		return !asked && go_without(engine, error->message);
	if (memory->table.bytes == 0)
		return go_without(engine, "the stored weights are as small already");
	memory->table.optional = !asked;
	if (!make_draft_weights(engine, options, error) ||
	    !engine->backend->use_draft_weights(engine->backend, &memory->table, error))
		return !asked && go_without(engine, error->message);
	engine->draft_weights_ready = !engine->making && upload_draft_weights(engine, SIZE_MAX);
	return true;
}

/* Every kind of map keeps the same multiple of `kept`, so that together they read the wanted share. The
 * search starts from here. */
static void open_levels(struct engine* engine, const struct swiftlet_options* options) {
	static const double kept[COLUMN_KINDS] = {0.5, 0.5, 0.5, 0.25}, KEPT_READ = 0.43;
	const double read = options->draft_weights.read > 0 ? options->draft_weights.read : DRAFT_READ;
	for (int k = 0; k < COLUMN_KINDS; k++) {
		const double left = 1 - kept[k] * read / KEPT_READ, most = LEVEL_MOST / 100.0;
		for (int d = 0; d < LEVEL_DEPTHS; d++)
			engine->levels.left_out[d][k] = (uint8_t)lround(100 * fmin(most, fmax(0, left)));
	}
}

static bool open_draft_weights(struct engine* engine, const struct swiftlet_options* options,
                               struct error* error) {
	struct draft_weights_request wish = {
	    .format = {.bits = options->draft_weights.bits,
	               .columns = engine->backend->columns && options->draft_weights.bits != 8,
	               .coarse_head = engine->backend->screened_bytes > 0},
	    .most_bytes = options->draft_weights.memory};
	if (options->draft_weights.bits < 0)
		wish.format.bits =
		    engine->backend->use_draft_weights ? draft_bits_for(engine->model, wish.format) : 0;
	if (wish.format.bits == 0)
		return true;
	if (engine->note[0])
		append_note(engine, "\n");
	engine->note_on_draft_weights = strlen(engine->note);
	open_levels(engine, options);
	if (!engine->backend->use_draft_weights) {
		append_note(engine, "no draft weights: the backend %s does not support them", engine->backend->name);
		return true;
	}
	return begin_draft_weights(engine, options, &wish, error);
}

/* True when a drafter runs the model, so that draft weights can be of use. */
static bool wants_draft_weights(const struct swiftlet_options* o) {
	const bool mask = o->drafting.drafters >> SOURCE_mask & 1u;
	return o->draft_weights.bits > 0 || (o->draft_weights.bits < 0 && o->drafting.method == SWIFTLET_AUTO &&
	                                     o->drafting.when == SWIFTLET_DRAFT_AUTO && mask);
}

const struct draft_weights* engine_draft_weights(struct engine* engine) {
	static const size_t a_round = (size_t)16 << 20; /* about a millisecond's worth */
	if (engine->backend->draft_weights_released)
		return NULL;
	if (engine->draft_weights_ready)
		return &engine->draft_weights.table;
	if (!engine->making || draft_weights_job_share(engine->making) < 1 ||
	    !upload_draft_weights(engine, a_round))
		return NULL;
	engine->draft_weights_ready = true;
	cost_use_draft_weights(&engine->cost, &engine->draft_weights.table);
	return &engine->draft_weights.table;
}

double engine_draft_weights_made(const struct engine* engine) {
	if (engine->draft_weights.table.bytes == 0)
		return NAN;
	return engine->making ? draft_weights_job_share(engine->making) : 1;
}

bool engine_make_draft_weights(struct engine* engine) {
	static const double a_slice = 0.005; /* a request that comes waits for the rest of it */
	if (!(engine_draft_weights_made(engine) < 1))
		return false;
	const double began = seconds_now();
	const double made = draft_weights_job_run(engine->making, a_slice);
	engine->draft_weights_seconds += seconds_now() - began;
	return made < 1;
}

const char* engine_note(struct engine* engine) {
	if (engine->draft_weights.table.bytes > 0)
		note_draft_weights(engine);
	return engine->note;
}

/* The adapter is one block. It runs on a backend of its own beside the model's, on one GPU. */
static bool open_auxiliary_weights(struct engine* engine, const struct swiftlet_options* options,
                                   const struct backend_options* how, struct error* error) {
	const struct model* model = engine->model;
	if (options->standalone.heads[0] && !heads_open(&engine->heads, options->standalone.heads, model, error))
		return false;
	if (options->standalone.probe[0] && !probe_open(&engine->probe, options->standalone.probe, model, error))
		return false;
	if (!options->standalone.adapter[0])
		return true;
	if (!adapter_open(&engine->adapter, options->standalone.adapter, model, error))
		return false;
	struct backend_options alone = *how;
	alone.devices = how->devices > 0;
	alone.screened_head = false; /* its tokens are guesses */
	alone.cache_bytes = 0; /* caches of one block each need so little that they do not give way to others */
	engine->side = (wants_cuda(options) ? cuda_open : cpu_open)(&engine->adapter.weights, &alone, error);
	return engine->side != NULL;
}

void engine_forget_costs(struct engine* engine) {
	cost_open(&engine->cost, &engine->model->weights, engine->backend->screened_bytes);
	if (engine->draft_weights_ready)
		cost_use_draft_weights(&engine->cost, &engine->draft_weights.table);
	if (engine->mtp)
		cost_open(&engine->mtp_cost, engine->mtp->weights, 0);
}

/* Precedes the note on the draft weights, which note_draft_weights rewrites. */
static void note_screened_head(struct engine* engine) {
	append_note(engine, "%sscreened head: its copy in four bits takes %.1f MiB", engine->note[0] ? "\n" : "",
	            (double)engine->backend->screened_bytes / 0x1p20);
}

/* If a GPU that was not asked for cannot run the model, or lacks the memory, the CPU runs it. */
static struct backend* open_backend(struct engine* engine, const struct swiftlet_options* options,
                                    const struct backend_options* how, struct error* error) {
	const struct weight_table* weights = &engine->model->weights;
	if (!wants_cuda(options))
		return cpu_open(weights, how, error);
	struct backend* backend = cuda_open(weights, how, error);
	if (backend || asks_for_cuda(options))
		return backend;
	struct error ignored;
	backend = cpu_open(weights, how, &ignored); /* the GPU's error is the one that is reported */
	if (backend)
		append_note(engine, "swiftlet: %s runs on the CPU: %s", engine->model->name, error->message);
	return backend;
}

/* The options of the draft model, which does not draft itself. */
static struct swiftlet_options drafting_options(const struct swiftlet_options* o, const struct model* model) {
	struct swiftlet_options alone = *o;
	alone.drafting.model[0] = alone.standalone.adapter[0] = alone.standalone.heads[0] =
	    alone.standalone.probe[0] = 0;
	alone.drafting.method = SWIFTLET_VANILLA;
	alone.draft_weights.bits = 0;
	alone.engine.devices = o->engine.devices > 0;
	alone.cache.memory = 0; /* a small model's caches do not give way to others */
	alone.cache.context = options_context(o, model);
	return alone;
}

/* A layer or an assistant runs on a CPU, in one process, where the planner decides who drafts. */
static bool open_mtp(struct engine* engine, const struct swiftlet_options* options,
                     const struct weight_table* layer, const struct backend_options* how,
                     struct error* error) {
	const bool wanted = options->drafting.drafters >> SOURCE_mtp & 1u && options_plan(options) &&
	                    options->drafting.when == SWIFTLET_DRAFT_AUTO && !options->engine.group;
	if (layer->shape.n_blocks == 0 || !wanted || engine->backend->draft || engine->mtp)
		return true;
	struct backend_options alone = *how;
	alone.screened_head = false; /* its tokens are guesses */
	alone.cache_bytes = 0;       /* as an adapter's, one block's caches do not give way to others */
	engine->mtp = cpu_open(layer, &alone, error);
	return engine->mtp != NULL;
}

static bool open_assistant(struct engine* engine, const struct swiftlet_options* options,
                           struct model* assistant, const struct backend_options* how, struct error* error) {
	engine->assistant = assistant;
	if (engine->backend->draft)
		return error_set(error, "--draft-model %s: it drafts on CPUs alone: give --backend cpu",
		                 assistant->name);
	return open_mtp(engine, options, &assistant->weights, how, error);
}

static bool open_drafting(struct engine* engine, const struct swiftlet_options* options,
                          const struct backend_options* how, struct error* error) {
	struct error why = {""};
	if (!options->drafting.model[0])
		return true;
	if (options->engine.group)
		return error_set(error, "--draft-model runs in one process: leave out mpirun");
	const struct swiftlet_options alone = drafting_options(options, engine->model);
	struct model* model = open_model(options->drafting.model, &alone, engine->model, &why);
	if (!model)
		return error_set(error, "--draft-model: %.400s", why.message);
	if (model->weights.shape.keys_outside)
		return open_assistant(engine, options, model, how, error);
	if (!model_same_vocabulary(engine->model, model)) {
		error_set(error,
		          "--draft-model %s: its vocabulary of %d tokens differs from that of %s, which has %d: "
		          "expected a model with the same vocabulary",
		          model->name, tokenizer_size(model->tokenizer), engine->model->name,
		          tokenizer_size(engine->model->tokenizer));
	} else {
		engine->drafting = engine_open(model, &alone, &why);
		if (engine->drafting)
			return true;
		error_set(error, "--draft-model: %.400s", why.message);
	}
	model_close(model);
	return false;
}

static void close_drafting(struct engine* engine) {
	if (!engine->drafting)
		return;
	struct model* model = engine->drafting->model;
	engine_close(engine->drafting);
	model_close(model);
}

struct engine* engine_open(struct model* model, const struct swiftlet_options* options, struct error* error) {
	struct engine* engine = calloc(1, sizeof *engine);
	if (!engine) {
		error_set(error, "out of memory for an engine");
		return NULL;
	}
	const struct backend_options how = {
	    .threads = options->engine.threads,
	    .isa = options->engine.isa,
	    .context = options_context(options, model),
	    .devices = options->engine.devices,
	    .screened_head = options->engine.screened_head < 0 ? wants_screened_head(&model->weights)
	                                                       : options->engine.screened_head > 0,
	    .interleaves = options->engine.interleave < 0 ? wants_interleaved(&model->weights)
	                                                  : options->engine.interleave > 0,
	    .group = options->engine.group,
	    /* processes that share a model each keep their own caches, all alike */
	    .cache_bytes = options->engine.group ? 0 : (size_t)options->cache.memory};
	engine->model = model;
	engine->backend = open_backend(engine, options, &how, error);
	if (engine->backend && engine->backend->screened_bytes > 0 && options->engine.screened_head > 0)
		note_screened_head(engine);
	if (!engine->backend || (options->engine.group && !engine_lead(engine, &how, error)) ||
	    (wants_draft_weights(options) && !open_draft_weights(engine, options, error)) ||
	    !open_auxiliary_weights(engine, options, &how, error) ||
	    !open_mtp(engine, options, &model->mtp, &how, error) ||
	    !open_drafting(engine, options, &how, error)) {
		engine_close(engine);
		return NULL;
	}
	engine_forget_costs(engine);
	return engine;
}

/* A special token is written as its name after bytes that occur in no text, so that a grammar can name it. */
static size_t piece_of(void* user, int32_t token, char* out, size_t capacity) {
	const size_t n = tokenizer_piece(user, token, false, out, capacity);
	const size_t mark = strlen(GRAMMAR_SPECIAL);
	if (n > 0 || capacity < mark)
		return n;
	memcpy(out, GRAMMAR_SPECIAL, mark);
	const size_t name = tokenizer_piece(user, token, true, out + mark, capacity - mark);
	return name ? name + mark : 0;
}

const struct token_trie* engine_trie(struct engine* engine) {
	if (!engine->trie)
		engine->trie =
		    token_trie_open(engine->model->weights.shape.vocab, piece_of, engine->model->tokenizer);
	return engine->trie;
}

void engine_close(struct engine* engine) {
	if (!engine)
		return;
	draft_weights_job_close(engine->making);
	if (engine->backend)
		engine->backend->close(engine->backend);
	if (engine->side)
		engine->side->close(engine->side);
	if (engine->mtp)
		engine->mtp->close(engine->mtp);
	model_close(engine->assistant);
	close_drafting(engine);
	adapter_close(&engine->adapter);
	heads_close(&engine->heads);
	probe_close(&engine->probe);
	draft_weights_memory_close(&engine->draft_weights);
	token_trie_free(engine->trie);
	free(engine);
}
