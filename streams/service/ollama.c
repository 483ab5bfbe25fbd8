/* Ollama's answers: one JSON object a line, with the figures in the last one. */
#include "streams/service/ollama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text/chat_template.h"
#include "streams/service/embeddings.h"
#include "streams/service/ollama_internal.h"

char* ollama_error_text(const struct api_error* e) {
	struct text out = {0};
	text_json(&out, "{'error': %q}\n", e->message);
	return text_take(&out);
}

static void put_time(struct text* out, time_t at) {
	char text[32] = "";
	struct tm when;
	if (gmtime_r(&at, &when))
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &when);
	text_json(out, "%q", text);
}

/* ---- answers ---------------------------------------------------------------------------------- */

static void begin_line(struct generation* g) {
	text_json(&g->out, "{'model': %q, 'created_at': ", g->server->option.work.model_name);
	put_time(&g->out, time(NULL));
}

static int64_t put_nanoseconds(double seconds) { return (int64_t)(1e9 * seconds); }

static void put_figures(struct generation* g) {
	const struct swiftlet_figures* f = &g->choice[0].figures;
	const double written = f->seconds.decode + f->seconds.draft + f->seconds.verify + f->seconds.plain;
	text_json(&g->out,
	          ", 'done': true, 'done_reason': '%s', 'total_duration': %l, 'load_duration': 0, "
	          "'prompt_eval_count': %d, 'prompt_eval_duration': %l, 'eval_count': %d, 'eval_duration': %l}\n",
	          g->request.prompt_only       ? "load"
	          : f->stop == SWIFTLET_LENGTH ? "length"
	                                       : "stop",
	          put_nanoseconds(f->seconds.prefill + written), f->prompt_tokens,
	          put_nanoseconds(f->seconds.prefill), f->tokens, put_nanoseconds(written));
}

/* Ollama's calls have their arguments as objects, so each call is sent once it is complete. */
static int put_calls(struct generation* g) {
	const struct tool_reader* tools = &g->choice[0].reader.tools;
	int n = 0;
	for (; g->items.calls < tools->n && tools->call[g->items.calls].ended; g->items.calls++, n++) {
		const struct tool_call* call = &tools->call[g->items.calls];
		cJSON* arguments = cJSON_Parse(call->arguments ? call->arguments : "{}");
		text_json(&g->out, n ? ", " : ", 'tool_calls': [");
		text_json(&g->out, "{'id': '%s', 'function': {'index': %d, 'name': %q, 'arguments': ", call->id,
		          g->items.calls, call->name);
		text_put(&g->out, cJSON_IsObject(arguments) ? call->arguments : "{}");
		text_put(&g->out, "}}");
		cJSON_Delete(arguments);
	}
	text_put(&g->out, n ? "]" : "");
	return n;
}

static bool is_chat(const struct generation* g) { return g->formatter == &formatter_ollama_chat; }

/* Writes the text and the calls that the reader holds. */
static void put_words(struct generation* g) {
	const struct answer_reader* r = &g->choice[0].reader;
	text_json(&g->out, is_chat(g) ? ", 'message': {'role': 'assistant', 'content': %Q" : ", 'response': %Q",
	          r->content.data, r->content.size);
	if (r->reasoning.size)
		text_json(&g->out, ", 'thinking': %Q", r->reasoning.data, r->reasoning.size);
	if (is_chat(g)) {
		put_calls(g);
		text_put(&g->out, "}");
	}
}

static bool has_news(const struct generation* g) {
	const struct answer_reader* r = &g->choice[0].reader;
	return r->content.size || r->reasoning.size ||
	       (g->items.calls < r->tools.n && r->tools.call[g->items.calls].ended);
}

static void ignore_choice(struct choice* c) { (void)c; }

static void emit_line(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	(void)step;
	if (!has_news(g))
		return;
	begin_line(g);
	put_words(g);
	text_json(&g->out, ", 'done': false}\n");
}

static void format_answer(struct generation* g) {
	begin_line(g);
	put_words(g);
	put_figures(g);
}

static void end_answer(struct generation* g) {
	if (g->error.status) {
		char* text = ollama_error_text(&g->error);
		text_put(&g->out, text ? text : "");
		free(text);
	} else
		format_answer(g);
}

#define FORMATTER(name, reader)                                                                              \
	{                                                                                                        \
		.id = name, .type = "application/x-ndjson", .read = reader, .first = ignore_choice,                  \
		.part = emit_line, .last = ignore_choice, .end = end_answer, .whole = format_answer                  \
	}
const struct response_formatter formatter_ollama_chat = FORMATTER("chat-", ollama_read_chat);
const struct response_formatter formatter_ollama_generate = FORMATTER("gen-", ollama_read_generate);

/* ---- embeddings ---------------------------------------------------------------------------------- */

static void whole_embed(struct generation* g) {
	text_json(&g->out, "{'model': %q, 'embeddings': [", g->server->option.work.model_name);
	for (int i = 0; i < g->n; i++) {
		text_put(&g->out, i ? ", " : "");
		embedding_put(&g->out, &g->choice[i]);
	}
	text_json(&g->out, "], 'total_duration': %l, 'load_duration': 0, 'prompt_eval_count': %l}\n",
	          put_nanoseconds(g->choice[0].figures.seconds.prefill), g->usage.prompt_tokens);
}

static void whole_embeddings(struct generation* g) {
	text_json(&g->out, "{'embedding': ");
	embedding_put(&g->out, &g->choice[0]);
	text_put(&g->out, "}\n");
}

const struct response_formatter formatter_ollama_embed = {
    .id = "embd-", .read = ollama_read_embed, .whole = whole_embed};
const struct response_formatter formatter_ollama_embeddings = {
    .id = "embd-", .read = ollama_read_embed, .whole = whole_embeddings};

/* ---- models ---------------------------------------------------------------------------------------- */

static void put_details(struct text* out, const struct model* m) {
	text_json(out,
	          "'details': {'parent_model': '', 'format': 'gguf', 'family': %q, 'families': [%q], "
	          "'parameter_size': ",
	          m->family ? m->family : "synth", m->family ? m->family : "synth");
	text_print(out, m->parameters >= 1e9 ? "\"%.1fB\"" : "\"%.0fM\"",
	           m->parameters >= 1e9 ? m->parameters / 1e9 : m->parameters / 1e6);
	text_json(out, ", 'quantization_level': %q}", dtype_name(m->dtype));
}

bool answer_ollama_tags(struct http_call* c) {
	const struct server* s = c->server;
	struct text out = {0};
	text_json(&out, "{'models': [{'name': %q, 'model': %q, 'modified_at': ", s->option.work.model_name,
	          s->option.work.model_name);
	put_time(&out, s->opened);
	text_json(&out, ", 'size': %l, 'digest': '%s', ", (int64_t)s->model->weight_bytes, s->model->fingerprint);
	put_details(&out, s->model);
	text_put(&out, "}]}\n");
	return call_reply_json(c, &out);
}

bool answer_ollama_show(struct http_call* c) {
	const struct model* m = c->server->model;
	const char* template = model_chat_template(m, false);
	const char* family = m->family ? m->family : "synth";
	struct text out = {0};
	text_json(&out, "{'modelfile': '', 'parameters': '', 'template': %q, ", template ? template : "");
	put_details(&out, m);
	text_json(&out, ", 'model_info': {'general.architecture': %q, 'general.parameter_count': %l, ", family,
	          (int64_t)m->parameters);
	text_json(&out, "'%s.context_length': %d, '%s.embedding_length': %d, '%s.block_count': %d}", family,
	          c->server->context, family, m->weights.shape.dim, family, m->weights.shape.n_blocks);
	text_json(&out, ", 'capabilities': ['completion'%s]}\n", template ? ", \"tools\"" : "");
	return call_reply_json(c, &out);
}
