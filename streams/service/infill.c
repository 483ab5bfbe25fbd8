/* See infill.h. */
#include "streams/service/infill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/chat_translation.h"

/* ---- tokens -------------------------------------------------------------------------------------- */

/* The families' names of these tokens. Without a middle token the suffix comes first (Codestral). */
static const struct infill_family {
	const char *prefix, *suffix, *middle, *repository, *file;
} families[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>",
     "<|file_sep|>"},                                                             /* Qwen, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<file_sep>"}, /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", NULL, NULL},                 /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", NULL, NULL},           /* DeepSeek */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", NULL, NULL},        /* GLM */
    {"▁<PRE>", "▁<SUF>", "▁<MID>", NULL, NULL},                                   /* Code Llama */
    {"<PRE>", "<SUF>", "<MID>", NULL, NULL},
    {"[PREFIX]", "[SUFFIX]", NULL, NULL, NULL}};

static const struct infill_family* family_of(const struct tokenizer* t) {
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (tokenizer_find(t, families[i].prefix) >= 0 && tokenizer_find(t, families[i].suffix) >= 0 &&
		    (!families[i].middle || tokenizer_find(t, families[i].middle) >= 0))
			return &families[i];
	return NULL;
}

static bool put_token(const struct tokenizer* t, const char* name, struct token_list* out) {
	const int32_t token = name ? tokenizer_find(t, name) : -1;
	return token < 0 || token_list_append(out, token);
}

/* Encodes a client's text, which never becomes special tokens. */
static bool put_text(const struct tokenizer* t, const char* text, struct token_list* out) {
	return !*text || tokenizer_encode(t, text, strlen(text), TOKENIZE_NO_SPECIAL, out);
}

/* Adds those of the other files, [{"filename", "text"}, …], that fit into half of the context. */
static bool put_files(const struct infill_family* f, const struct generation* g, const struct api_request* q,
                      struct token_list* out) {
	const struct tokenizer* t = g->server->model->tokenizer;
	cJSON* list = f->file && q->extra_files ? cJSON_Parse(q->extra_files) : NULL;
	const cJSON* file;
	bool good = !list || !list->child || (put_token(t, f->repository, out) && put_text(t, "project\n", out));
	cJSON_ArrayForEach (file, list) {
		const char *name = api_text(file, "filename"), *text = api_text(file, "text");
		struct token_list tokens = {0};
		good = good && put_token(t, f->file, &tokens) && put_text(t, name ? name : "file", &tokens) &&
		       put_text(t, "\n", &tokens) && put_text(t, text ? text : "", &tokens);
		const bool fits = out->n + tokens.n < g->server->context / 2;
		for (int i = 0; i < tokens.n && good && fits; i++)
			good = token_list_append(out, tokens.id[i]);
		token_list_free(&tokens);
	}
	good = good && (!list || !list->child || (put_token(t, f->file, out) && put_text(t, "this\n", out)));
	cJSON_Delete(list);
	return good;
}

/* An end token besides the model's own: it begins another file. */
static void add_ends(const struct infill_family* f, const struct tokenizer* t, struct api_request* q) {
	const char* const names[] = {"<|endoftext|>", "<|fim_pad|>", "<|cursor|>",  "<EOT>",
	                             "▁<EOT>",        f->file,       f->repository, f->prefix};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const int32_t token = names[i] ? tokenizer_find(t, names[i]) : -1;
		if (token >= 0 && q->ask.n_end_tokens < SWIFTLET_END_TOKENS)
			q->end_token[q->ask.n_end_tokens++] = token;
	}
}

bool infill_encode(const struct generation* g, struct api_request* q, struct token_list* out,
                   struct api_error* e) {
	const struct tokenizer* t = g->server->model->tokenizer;
	const struct infill_family* f = family_of(t);
	const char* text = q->prompt[0].text;
	if (!f)
		return api_refuse(e, "suffix", "unsupported_field",
		                  "'suffix' must be empty: this model has no tokens to fill in the middle. Coder "
		                  "models, such as Qwen2.5-Coder, have them.");
	add_ends(f, t, q);
	const int32_t bos = tokenizer_bos(t);
	bool good = !tokenizer_adds_bos(t) || bos < 0 || token_list_append(out, bos);
	good = good && put_files(f, g, q, out);
	if (f->middle)
		good = good && put_token(t, f->prefix, out) && put_text(t, text, out) &&
		       put_token(t, f->suffix, out) && put_text(t, q->suffix, out) && put_token(t, f->middle, out);
	else
		good = good && put_token(t, f->suffix, out) && put_text(t, q->suffix, out) &&
		       put_token(t, f->prefix, out) && put_text(t, text, out);
	return good || api_no_memory(e);
}

/* ---- /infill --------------------------------------------------------------------------------------- */

static bool check_files(const struct translation* t) {
	const cJSON* const list = json_field(t->from, "input_extra");
	const cJSON* file;
	bool good = !list || cJSON_IsNull(list) || cJSON_IsArray(list);
	cJSON_ArrayForEach (file, list) {
		const cJSON* const name = json_field(file, "filename");
		good = good && cJSON_IsString(json_field(file, "text")) && (!name || cJSON_IsString(name));
	}
	return good || api_refuse(t->error, "input_extra", "invalid_type",
	                          "'input_extra' must be a list of {\"filename\": string, \"text\": string}.");
}

/* Where the answer ends besides its limit, as editors ask for it. */
static bool take_ends(const cJSON* from, struct api_request* q, struct api_error* e) {
	enum { MOST_INDENT = 10000, DAY = 86400000 };
	return api_int(from, "n_indent", -1, MOST_INDENT, &q->least_indent, e) &&
	       api_int(from, "t_max_predict_ms", -1, DAY, &q->line_milliseconds, e);
}

/* What /infill and /completion have in common. response_fields: as llama-server has it, a list of paths. */
static bool read_ends(struct translation* t) {
	const cJSON* const shown = json_field(t->from, "response_fields");
	const cJSON* path;
	struct api_request checked = {0};
	bool good = !shown || cJSON_IsNull(shown) || cJSON_IsArray(shown);
	cJSON_ArrayForEach (path, shown)
		good = good && cJSON_IsString(path);
	if (!good)
		return api_refuse(t->error, "response_fields", "invalid_type",
		                  "'response_fields' must be a list of strings, such as \"timings/prompt_n\".");
	if (cJSON_GetArraySize(shown) > API_MAX_SHOWN) /* each may copy the whole answer */
		return api_refuse(t->error, "response_fields", "invalid_value",
		                  "'response_fields' holds more than %d strings.", API_MAX_SHOWN);
	if (!json_field(t->from, "n_predict"))
		text_put(translate_member(t, "max_tokens"), "-1");
	return take_ends(t->from, &checked, t->error);
}

static bool read_infill(struct translation* t) {
	const char *prefix = "", *suffix = "", *prompt = "";
	struct text all = {0};
	if (!check_files(t) || !api_string(t->from, "input_prefix", SIZE_MAX, &prefix, t->error) ||
	    !api_string(t->from, "input_suffix", SIZE_MAX, &suffix, t->error) ||
	    !api_string(t->from, "prompt", SIZE_MAX, &prompt, t->error))
		return false;
	text_print(&all, "%s%s", prefix, prompt);
	text_json(translate_member(t, "prompt"), "%q", all.data ? all.data : "");
	text_json(translate_member(t, "suffix"), "%q", suffix);
	t->to.failed |= all.failed;
	text_free(&all);
	if (!json_field(t->from, "temperature"))
		text_put(translate_member(t, "temperature"), "0");
	return read_ends(t);
}

static bool finish_native(const cJSON* from, struct api_request* q) {
	q->with_ids = true;
	const cJSON* const shown = json_field(from, "response_fields");
	struct api_error none = {0};
	const bool some =
	    cJSON_GetArraySize(shown) > 0; /* an empty list means the whole answer, as it does there */
	q->shown_fields = some ? json_print(shown) : NULL;
	return take_ends(from, q, &none) && (q->shown_fields || !some);
}

/* An empty suffix means that the gap ends the file. */
static bool finish_infill(const cJSON* from, struct api_request* q) {
	const cJSON* extra = json_field(from, "input_extra");
	q->extra_files = cJSON_IsArray(extra) ? json_print(extra) : NULL;
	q->suffix = q->suffix ? q->suffix : strdup("");
	return finish_native(from, q) && q->suffix && (q->extra_files || !cJSON_IsArray(extra));
}

static bool infill_read(const char* body, size_t size, int vocab, struct api_request* q,
                        struct api_error* e) {
	static const char* const renamed[][2] = {{"max_tokens", "n_predict"}, {NULL, NULL}};
	static const struct translator how = {
	    .same = "model temperature top_p top_k min_p stream stop seed presence_penalty frequency_penalty "
	            "repeat_penalty logit_bias",
	    .own = "input_prefix input_suffix input_extra prompt response_fields n_indent t_max_predict_ms",
	    .hints = "cache_prompt samplers t_max_prompt_ms id_slot",
	    .renamed = renamed,
	    .read = read_infill,
	    .finish = finish_infill};
	return translation_read(&how, body, size, vocab, q, e);
}

/* ---- /completion ------------------------------------------------------------------------------------ */

static bool read_native(struct translation* t) {
	const cJSON* prompt = json_field(t->from, "prompt");
	bool tokens = cJSON_IsArray(prompt) && prompt->child;
	for (const cJSON* one = tokens ? prompt->child : NULL; one; one = one->next)
		tokens = tokens && cJSON_IsNumber(one);
	if (!cJSON_IsString(prompt) && !tokens)
		return api_refuse(t->error, "prompt", "invalid_type",
		                  "'prompt' must be a string or a list of token ids; /v1/completions takes several.");
	api_put(translate_member(t, "prompt"), prompt);
	struct api_request checked = {0};
	if (!api_int(t->from, "n_probs", 0, API_MAX_TOP, &checked.top_logprobs, t->error))
		return false;
	if (checked.top_logprobs)
		text_json(translate_member(t, "logprobs"), "%d", checked.top_logprobs);
	return read_ends(t);
}

static bool native_read(const char* body, size_t size, int vocab, struct api_request* q,
                        struct api_error* e) {
	static const char* const renamed[][2] = {
	    {"max_tokens", "n_predict"}, {"guided_json", "json_schema"}, {NULL, NULL}};
	static const struct translator how = {
	    .same = "model temperature top_p top_k min_p stream stop seed presence_penalty frequency_penalty "
	            "repeat_penalty logit_bias grammar ignore_eos",
	    .own = "prompt response_fields n_indent t_max_predict_ms n_probs",
	    .hints = "cache_prompt samplers t_max_prompt_ms id_slot",
	    .renamed = renamed,
	    .read = read_native,
	    .finish = finish_native};
	return translation_read(&how, body, size, vocab, q, e);
}

/* ---- answers of both -------------------------------------------------------------------------------- */

/* Ends before the line that is indented less than the editor wants. Blank lines have no indentation. */
static void scan_lines(struct choice* c) {
	struct line_scan* const l = &c->lines;
	const struct text* const content = &c->reader.content;
	for (; l->until < content->size; l->until++) {
		const char byte = content->data[l->until];
		if (byte == '\n') {
			l->new_line = true;
			l->indent = 0;
		} else if (l->indent < 0 || byte == '\r')
			continue;
		else if (byte == ' ' || byte == '\t')
			l->indent++;
		else if (l->indent < c->generation->request.least_indent) {
			l->enough = true;
			l->until -= l->until < (size_t)l->indent ? l->until : (size_t)l->indent;
			break;
		} else
			l->indent = -1;
	}
}

void infill_step(struct choice* c) {
	const struct generation* g = c->generation;
	const int most = g->request.line_milliseconds;
	if (c->tokens == 0 || (g->formatter != &formatter_infill && g->formatter != &formatter_native))
		return;
	if (!(c->lines.since > 0)) {
		c->lines.since = seconds_now();
		c->lines.indent = -1;
	}
	scan_lines(c);
	c->lines.enough |= most > 0 && c->lines.new_line && 1000 * (seconds_now() - c->lines.since) > most;
	if (c->lines.enough)
		infill_cut(c);
}

void infill_cut(struct choice* c) {
	struct text* const content = &c->reader.content;
	content->size = content->size < c->lines.until ? content->size : c->lines.until;
	c->figures.stop = SWIFTLET_LENGTH;
}

static void put_content(struct generation* g, bool stop) {
	struct choice* const c = &g->choice[0];
	const struct answer_reader* r = &c->reader;
	text_json(&g->out, "{'index': 0, 'content': %Q, 'stop': %b, 'model': %q", r->content.data,
	          r->content.size, stop, g->server->option.work.model_name);
	if (c->logprobs.n)
		text_json(&g->out, ", 'completion_probabilities': [%s]", c->logprobs.tokens.data);
}

/* As llama-server has them. truncated: the context ended the answer. has_new_line: the whole answer has one.
 */
static void put_end(struct generation* g) {
	const struct swiftlet_figures* f = &g->choice[0].figures;
	text_json(&g->out,
	          ", 'stop_type': '%s', 'tokens_predicted': %d, 'tokens_evaluated': %d, 'tokens_cached': %d, "
	          "'truncated': %b, 'has_new_line': %b",
	          f->stop == SWIFTLET_LENGTH ? "limit"
	          : f->stop == SWIFTLET_STOP ? "word"
	                                     : "eos",
	          f->tokens, f->prompt_tokens, f->cached_tokens,
	          f->stop == SWIFTLET_LENGTH && f->prompt_tokens + f->tokens >= g->server->context,
	          g->choice[0].lines.new_line);
	reply_timings(&g->out, &g->choice[0]);
	text_put(&g->out, "}");
}

static void begin_infill(struct choice* c) { (void)c; }

static void emit_infill(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	(void)step;
	if (!c->reader.content.size && !c->logprobs.n)
		return;
	text_put(&g->out, "data: ");
	put_content(g, false);
	text_put(&g->out, "}\n\n");
}

/* Keeps the parts of an answer that the client asked for, each under its path: "timings/prompt_n". */
static void keep_shown(struct text* answer, const char* shown_fields) {
	cJSON *const whole = cJSON_Parse(answer->data), *const shown = cJSON_Parse(shown_fields);
	cJSON *const kept = cJSON_CreateObject(), *path;
	cJSON_ArrayForEach (path, shown) {
		const cJSON* at = whole;
		for (const char* key = path->valuestring; at && key; key = *key ? key + 1 : NULL) {
			char name[64];
			const size_t n = strcspn(key, "/");
			snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, key);
			at = json_field(at, name);
			key += n;
		}
		if (at)
			cJSON_AddItemToObject(kept, path->valuestring, cJSON_Duplicate(at, true));
	}
	char* const text = whole && shown && kept ? json_print(kept) : NULL;
	text_clear(answer);
	text_put(answer, text ? text : "");
	answer->failed |= !text;
	cJSON_free(text);
	cJSON_Delete(kept);
	cJSON_Delete(shown);
	cJSON_Delete(whole);
}

static void format_infill(struct generation* g) {
	put_content(g, true);
	put_end(g);
	if (g->request.shown_fields && !g->request.stream && !g->out.failed)
		keep_shown(&g->out, g->request.shown_fields);
	text_put(&g->out, "\n");
}

static void end_infill(struct generation* g) {
	text_put(&g->out, "data: ");
	if (g->error.status) {
		char* text = api_error_text(&g->error);
		text_put(&g->out, text ? text : "\n");
		free(text);
	} else
		format_infill(g);
	text_put(&g->out, "\n");
}

#define FORMATTER(name, reader)                                                                              \
	{                                                                                                        \
		.id = name, .read = reader, .first = begin_infill, .part = emit_infill, .last = begin_infill,        \
		.end = end_infill, .whole = format_infill                                                            \
	}
const struct response_formatter formatter_infill = FORMATTER("infill-", infill_read);
const struct response_formatter formatter_native = FORMATTER("cmpl-", native_read);
