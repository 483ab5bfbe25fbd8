/* OpenAI's embeddings (/v1/embeddings): a text's vector is the mean of the model's last states, scaled to
 * length 1. The request is read as a completion of one token, whose text is not sent. */
#include <math.h>
#include <string.h>

#include "streams/service/chat_translation.h"
#include "streams/service/embeddings.h"
#include "streams/service/generation.h"

static bool read_embeddings(struct translation* t) {
	const char* format = "float";
	if (!api_string(t->from, "encoding_format", 16, &format, t->error))
		return false;
	int dimensions = 1;
	if (!api_int(t->from, "dimensions", 1, 1 << 20, &dimensions, t->error))
		return false;
	if (strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
		return api_refuse(t->error, "encoding_format", "invalid_value",
		                  "'encoding_format' must be \"float\" or \"base64\".");
	text_put(translate_member(t, "max_tokens"), "1");
	text_put(translate_member(t, "temperature"), "0");
	return json_field(t->from, "input") ||
	       api_refuse(t->error, "input", "missing_required_parameter", "'input' is required.");
}

static bool finish_request(const cJSON* from, struct api_request* q) {
	const cJSON* dimensions = json_field(from, "dimensions");
	q->embedding = true;
	q->dimensions = dimensions ? dimensions->valueint : 0;
	q->base64 = api_is(from, "encoding_format", "base64");
	return true;
}

static bool embeddings_read(const char* body, size_t size, int vocab, struct api_request* q,
                            struct api_error* e) {
	static const char* const renamed[][2] = {{"prompt", "input"}, {NULL, NULL}};
	static const struct translator how = {.same = "model",
	                                      .own = "encoding_format dimensions",
	                                      .hints = "user",
	                                      .renamed = renamed,
	                                      .read = read_embeddings,
	                                      .finish = finish_request};
	return translation_read(&how, body, size, vocab, q, e);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void put_base64(struct text* out, const uint8_t* byte, size_t n) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	text_put(out, "\"");
	for (size_t i = 0; i < n; i += 3) {
		const size_t left = n - i;
		const unsigned bits = (unsigned)byte[i] << 16 | (left > 1 ? (unsigned)byte[i + 1] << 8 : 0u) |
		                      (left > 2 ? (unsigned)byte[i + 2] : 0u);
		const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63],
		                     left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '='};
		text_add(out, four, sizeof four);
	}
	text_put(out, "\"");
}

/* Scales the vector in place to length 1, cut or not, as OpenAI's vectors are. */
static void put_vector(struct text* out, float* embedding, int dim, bool base64) {
	double squares = 0;
	for (int j = 0; j < dim; j++)
		squares += (double)embedding[j] * (double)embedding[j];
	const double scale = squares > 0 ? 1 / sqrt(squares) : 0;
	for (int j = 0; j < dim; j++)
		embedding[j] = (float)((double)embedding[j] * scale);
	if (base64) { /* little-endian, as every machine here is */
		put_base64(out, (const uint8_t*)embedding, (size_t)dim * sizeof *embedding);
		return;
	}
	text_put(out, "[");
	for (int j = 0; j < dim; j++)
		text_print(out, "%s%.9g", j ? ", " : "", (double)embedding[j]);
	text_put(out, "]");
}

void embedding_put(struct text* out, struct choice* c) {
	const struct generation* g = c->generation;
	const int dim = swiftlet_model_dim(g->server->model), asked = g->request.dimensions;
	put_vector(out, c->embedding, asked > 0 && asked < dim ? asked : dim, g->request.base64);
}

static void format_embeddings(struct generation* g) {
	struct text* out = &g->out;
	text_json(out, "{'object': 'list', 'data': [");
	for (int i = 0; i < g->n; i++) {
		text_json(out, "%s{'object': 'embedding', 'index': %d, 'embedding': ", i ? ", " : "", i);
		embedding_put(out, &g->choice[i]);
		text_put(out, "}");
	}
	text_json(out, "], 'model': %q, 'usage': {'prompt_tokens': %l, 'total_tokens': %l}}\n",
	          g->server->option.work.model_name, g->usage.prompt_tokens, g->usage.prompt_tokens);
}

const struct response_formatter formatter_embeddings = {
    .id = "embd-", .read = embeddings_read, .whole = format_embeddings};
