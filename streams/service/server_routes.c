/* The table of paths, and the small answers: models, health, state, masks, the page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/log.h"
#include "streams/mask_file.h"
#include "streams/service/generation.h"
#include "streams/service/infill.h"
#include "streams/service/ollama.h"

/* ---- health, models, the page ------------------------------------------------------------- */

/* problem: NULL for none. */
static bool reply_status(struct http_call* c, const char* good, const char* problem) {
	struct text out = {0};
	if (atomic_load(&c->server->stopping))
		problem = "stopping";
	text_json(&out, "{'status': '%s'}\n", problem ? problem : good);
	return call_reply(c, problem ? 503 : 200, "application/json", &out);
}

static bool answer_health(struct http_call* c) { return reply_status(c, "ok", NULL); }

/* True while new requests are accepted: the server is not stopping, and the queue is not full. */
static bool answer_ready(struct http_call* c) {
	struct scheduler_now n;
	scheduler_now(c->server->scheduler, &n);
	return reply_status(c, "ready", n.queue >= c->server->option.work.queue ? "queue full" : NULL);
}

static bool answer_version(struct http_call* c) {
	struct text out = {0};
	text_json(&out, "{'version': '%s'}\n", c->server->option.version);
	return call_reply_json(c, &out);
}

static void put_model(const struct server* s, const char* name, struct text* out) {
	text_json(
	    out,
	    "{'id': %q, 'object': 'model', 'created': %l, 'owned_by': 'swiftlet', 'max_model_len': %d, 'meta': "
	    "{'n_vocab': %d, 'n_ctx': %d, 'n_embd': %d, 'n_params': %l}, 'swiftlet': "
	    "{'fingerprint': '%s', 'blocks': %d, 'context': %d, 'parameters': %l}}",
	    name, (int64_t)s->opened, s->context, s->model->weights.shape.vocab, s->context,
	    swiftlet_model_dim(s->model), (int64_t)s->model->parameters, s->model->fingerprint,
	    s->model->weights.shape.n_blocks, s->context, (int64_t)s->model->parameters);
}

static bool answer_models(struct http_call* c) {
	struct text out = {0};
	text_json(&out, "{'object': 'list', 'data': [");
	const struct server* s = c->server;
	put_model(s, s->option.work.model_name, &out);
	for (int i = 0; i < s->option.n_aliases; i++) {
		text_put(&out, ", ");
		put_model(s, s->option.alias[i], &out);
	}
	text_put(&out, "]}\n");
	return call_reply_json(c, &out);
}

static bool answer_model(struct http_call* c) {
	if (!server_is_model(c->server, c->rest)) {
		api_fail(&c->error, 404, "model_not_found", "The model '%.120s' is not served here; '%.120s' is.",
		         c->rest, c->server->option.work.model_name);
		snprintf(c->error.param, sizeof c->error.param, "model");
		return false;
	}
	struct text out = {0};
	put_model(c->server, c->rest, &out);
	text_put(&out, "\n");
	return call_reply_json(c, &out);
}

/* The properties that llama-server reports. */
static bool answer_props(struct http_call* c) {
	const struct server* s = c->server;
	const char* template = model_chat_template(s->model, false);
	struct text out = {0};
	text_json(&out,
	          "{'default_generation_settings': {'n_ctx': %d, 'params': {'n_predict': -1, 'temperature': 1}}, "
	          "'total_slots': %d, 'model_alias': %q, 'model_path': %q, 'chat_template': %q, 'modalities': "
	          "{'vision': false, 'audio': false}, 'build_info': 'swiftlet %s', 'is_sleeping': false}\n",
	          s->context, s->option.work.sessions, s->option.work.model_name, s->model->name,
	          template ? template : "", s->option.version);
	return call_reply_json(c, &out);
}

static bool answer_page(struct http_call* c) {
	struct MHD_Response* r =
	    MHD_create_response_from_buffer(page_html_size, (void*)(uintptr_t)page_html, MHD_RESPMEM_PERSISTENT);
	if (!r)
		return false;
	MHD_add_response_header(r, "Content-Type", "text/html; charset=utf-8");
	MHD_add_response_header(r, "Content-Security-Policy",
	                        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
	                        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
	                        "frame-ancestors 'none'");
	return call_queue(c, 200, r);
}

static bool answer_state(struct http_call* c) {
	const char* accept = call_header(c, "Accept");
	if (accept && strstr(accept, "text/event-stream"))
		return watch_begin(c);
	struct text out = {0};
	events_all(&c->server->events, &out);
	text_put(&out, "\n");
	return call_reply_json(c, &out);
}

/* ---- masks -------------------------------------------------------------------------------- */

/* The members of a mask file, and the bank's own: "owner" is 0 for a mask that all tenants share. */
static void put_entry(const struct server* s, struct text* out, int tenant, const struct bank_entry* e) {
	const struct bank_record* r = &e->record;
	text_json(out,
	          "{'id': %l, 'owner': %d, 'format': '%s', 'model': %q, 'fingerprint': '%s', 'blocks': %d, "
	          "'task': %q, ",
	          e->id, tenant, mask_format_name(&e->mask), s->option.work.model_name, s->model->fingerprint,
	          s->model->weights.shape.n_blocks, e->task);
	mask_put_blocks(out, &e->mask);
	mask_put_states(out, &e->mask);
	text_json(
	    out,
	    ", 'matchness': %g, 'alpha': %g, 'M': %g, 'skip_ratio': %g, 'tokens_served': %l, 'instances': %l, "
	    "'settled': %b, 'optimize_steps': %l}",
	    quotient((double)r->matches, (double)r->rows), quotient((double)r->accepted, (double)r->draft_steps),
	    quotient((double)r->round_tokens, (double)r->rounds), e->skip_ratio, r->tokens, r->instances,
	    e->converged, r->steps);
}

struct listing {
	const struct server* server;
	struct text out;
	int64_t id; /* 0: all */
	int n;
};

static void list_entry(void* user, int tenant, const struct bank_entry* e) {
	struct listing* l = user;
	if (l->id && e->id != l->id)
		return;
	text_put(&l->out, l->n++ ? ", " : "");
	put_entry(l->server, &l->out, tenant, e);
}

/* The memory that the key's tenant may read; for an admin the common one. NULL with the error set. */
static struct memory* own_memory(struct http_call* c) {
	struct memory* all = c->server->option.work.memory;
	if (!all)
		api_fail(&c->error, 404, "no_bank",
		         "This server runs with --bank off, so it has no masks: start it without that option.");
	return !all || c->admin ? all : memory_of(all, c->tenant);
}

static bool answer_masks(struct http_call* c) {
	struct memory* memory = own_memory(c);
	struct listing l = {.server = c->server};
	if (!memory)
		return false;
	text_json(&l.out, "{'object': 'list', 'data': [");
	memory_each(memory, list_entry, &l);
	text_put(&l.out, "]}\n");
	return call_reply_json(c, &l.out);
}

/* The number at the end of the path; 0: not a number. */
static int64_t rest_number(const struct http_call* c) {
	const size_t n = strspn(c->rest, "0123456789");
	return c->rest[n] || n > 18 ? 0 : strtoll(c->rest, NULL, 10);
}

static bool no_mask(struct http_call* c) {
	return api_fail(&c->error, 404, "not_found", "No mask has this id: GET /v1/swiftlet/masks lists them.");
}

static bool store_failed(struct http_call* c, const struct error* e) {
	log_line("swiftlet: %s", e->message);
	return api_fail(&c->error, 500, "store_failed", "The store could not be written.");
}

static bool show_mask(struct http_call* c, struct memory* memory, int64_t id) {
	struct listing l = {.server = c->server, .id = id};
	memory_each(memory, list_entry, &l);
	if (l.n == 0) {
		text_free(&l.out);
		return no_mask(c);
	}
	text_put(&l.out, "\n");
	return call_reply_json(c, &l.out);
}

static bool answer_mask(struct http_call* c) {
	struct memory* memory = own_memory(c);
	const int64_t id = rest_number(c);
	return memory && (id > 0 ? show_mask(c, memory, id) : no_mask(c));
}

static bool delete_mask(struct http_call* c) {
	struct memory* memory = own_memory(c);
	struct error e;
	const int64_t id = rest_number(c);
	if (!memory)
		return false;
	const int removed = id > 0 ? memory_remove(memory, id, &e) : 0;
	if (removed == 0)
		return no_mask(c);
	if (removed < 0)
		return store_failed(c, &e);
	struct text out = {0};
	text_json(&out, "{'id': %l, 'deleted': true}\n", id);
	return call_reply_json(c, &out);
}

/* The members that a mask object may have. Those that only report are ignored. */
static bool read_mask_object(struct http_call* c, const cJSON* body, struct bank_entry* e) {
	static const char known[] =
	    "id owner format model fingerprint blocks task attention mlp matchness alpha M "
	    "skip_ratio tokens_served instances settled optimize_steps levels";
	const struct model* m = c->server->model;
	const int blocks = m->weights.shape.n_blocks;
	const char *task = "", *fingerprint = NULL, *format = NULL;
	int stated = blocks;
	double tokens = 0;
	struct api_error* error = &c->error;
	if (!api_only(body, known, error) || !api_string(body, "task", BANK_TASK - 1, &task, error) ||
	    !api_string(body, "fingerprint", 64, &fingerprint, error) ||
	    !api_string(body, "format", 64, &format, error) ||
	    !api_int(body, "blocks", 1, MAX_BLOCKS, &stated, error) ||
	    !api_number(body, "skip_ratio", 0, 1, false, &e->skip_ratio, error) ||
	    !api_number(body, "tokens_served", 0, 0x1p53, true, &tokens, error) ||
	    !api_flag(body, "settled", &e->converged, error) || !api_mask(body, blocks, true, &e->mask, error))
		return false;
	if (format && strcmp(format, mask_format_name(&e->mask)) != 0)
		return api_refuse(error, "format", "invalid_value", "'format' must be \"%s\" for this mask.",
		                  mask_format_name(&e->mask));
	if (fingerprint && strcmp(fingerprint, m->fingerprint) != 0)
		return api_refuse(error, "fingerprint", "other_model", "The mask was learned on another model.");
	if (stated != blocks)
		return api_refuse(error, "blocks", "other_model", "The model has %d blocks, not %d.", blocks, stated);
	snprintf(e->task, sizeof e->task, "%s", task);
	e->record.tokens = (int64_t)tokens;
	if (!(e->skip_ratio > 0) && blocks > 2)
		e->skip_ratio = (double)mask_count(&e->mask) / (2 * (blocks - 2));
	return true;
}

static bool put_mask(struct http_call* c) {
	struct memory* memory = own_memory(c);
	cJSON* body = memory ? api_parse(c->body.data, c->body.size, &c->error) : NULL;
	if (!body)
		return false;
	struct bank_entry entry;
	memset(&entry, 0, sizeof entry);
	const bool read = read_mask_object(c, body, &entry);
	cJSON_Delete(body);
	if (!read)
		return false;
	struct error e;
	int64_t id;
	return memory_put(memory, &entry, &id, &e) ? show_mask(c, memory, id) : store_failed(c, &e);
}

/* ---- the table ---------------------------------------------------------------------------- */

static bool answer_preflight(struct http_call* c) {
	if (!c->server->option.n_cors)
		return api_fail(&c->error, 403, "origin_not_allowed",
		                "Other origins are not allowed; serve with --cors ORIGIN to allow one.");
	struct text out = {0};
	return call_reply(c, 204, "text/plain", &out);
}

const struct route server_preflight = {"OPTIONS", "*", .answer = answer_preflight, .open = true};

#define GENERATION(at, how)                                                                                  \
	{ "POST", at, .answer = answer_generation, .worked = true, .formatter = &how }
const struct route server_routes[] = {
    {"GET", "/", .answer = answer_page, .admin = true},
    {"GET", "/health", .answer = answer_health, .open = true, .thread = HEALTH_THREAD},
    {"GET", "/ready", .answer = answer_ready, .open = true, .thread = HEALTH_THREAD},
    {"GET", "/metrics", .answer = answer_metrics, .thread = METRICS_THREAD},
    {"GET", "/v1/models", .answer = answer_models},
    {"GET", "/v1/models/", .answer = answer_model},
    {"GET", "/version", .answer = answer_version},
    {"POST", "/tokenize", .answer = answer_tokenize, .worked = true},
    {"POST", "/apply-template", .answer = answer_apply_template, .worked = true},
    {"POST", "/detokenize", .answer = answer_detokenize, .worked = true},
    GENERATION("/v1/completions", formatter_completion),
    GENERATION("/v1/chat/completions", formatter_chat),
    GENERATION("/v1/embeddings", formatter_embeddings),
    GENERATION("/v1/responses", formatter_responses),
    GENERATION("/v1/messages", formatter_messages),
    {"POST", "/v1/messages/count_tokens", .answer = answer_count_tokens, .worked = true},
    {"POST", "/v1/chat/completions/input_tokens", .answer = answer_chat_input_tokens, .worked = true},
    {"POST", "/v1/responses/input_tokens", .answer = answer_input_tokens, .worked = true},
    GENERATION("/infill", formatter_infill),
    GENERATION("/completion", formatter_native),
    GENERATION("/api/chat", formatter_ollama_chat),
    GENERATION("/api/generate", formatter_ollama_generate),
    GENERATION("/api/embed", formatter_ollama_embed),
    GENERATION("/api/embeddings", formatter_ollama_embeddings),
    {"GET", "/api/tags", .answer = answer_ollama_tags},
    {"GET", "/api/ps", .answer = answer_ollama_tags},
    {"GET", "/api/version", .answer = answer_version},
    {"POST", "/api/show", .answer = answer_ollama_show, .worked = true},
    {"GET", "/props", .answer = answer_props},
    {"GET", "/tokenizer_info", .answer = answer_tokenizer_info},
    {"GET", "/v1/swiftlet/state", .answer = answer_state, .admin = true},
    {"GET", "/v1/swiftlet/masks", .answer = answer_masks, .worked = true},
    {"PUT", "/v1/swiftlet/masks", .answer = put_mask, .worked = true, .admin = true},
    {"POST", "/v1/swiftlet/masks", .answer = put_mask, .worked = true, .admin = true},
    {"GET", "/v1/swiftlet/masks/", .answer = answer_mask, .worked = true},
    {"DELETE", "/v1/swiftlet/masks/", .answer = delete_mask, .worked = true, .admin = true},
    {"GET", "/v1/swiftlet/optimizer", .answer = answer_optimizer, .worked = true},
    {"POST", "/v1/swiftlet/optimizer", .answer = answer_optimizer, .worked = true},
    {"POST", "/v1/swiftlet/optimizer/", .answer = answer_optimizer, .worked = true},
    {"GET", "/v1/swiftlet/optimizer/", .answer = answer_optimizer, .worked = true},
    {"DELETE", "/v1/swiftlet/optimizer/", .answer = answer_optimizer, .worked = true},
    {.method = NULL},
};
