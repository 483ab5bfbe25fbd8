/* OpenAI's embeddings (/v1/embeddings): a text's vector, of length 1, is the mean of the model's last states.
 * It is read as a completion of one token whose text is not told. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/reply_voice.h"

static bool check_fields(const cJSON* body, struct api_request* q, struct api_error* e) {
	const char* format = NULL;
	if (!api_only(body, "encoding_format dimensions user", e) ||
	    !api_string(body, "encoding_format", 16, &format, e))
		return false;
	const cJSON* dimensions = cJSON_GetObjectItemCaseSensitive(body, "dimensions");
	if (dimensions && !cJSON_IsNull(dimensions))
		return api_refuse(e, "dimensions", "unsupported_field", "'dimensions' is not supported.");
	if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
		return api_refuse(e, "encoding_format", "invalid_value",
		                  "'encoding_format' must be \"float\" or \"base64\".");
	q->base64 = format && strcmp(format, "base64") == 0;
	return true;
}

static bool embeddings_read(const char* body, size_t size, int vocab, struct api_request* q,
                            struct api_error* e) {
	struct api_request asked = {0};
	memset(q, 0, sizeof *q);
	cJSON* parsed = api_parse(body, size, e);
	if (!parsed)
		return false;
	cJSON* input = cJSON_DetachItemFromObjectCaseSensitive(parsed, "input");
	cJSON* model = cJSON_DetachItemFromObjectCaseSensitive(parsed, "model");
	bool good = check_fields(parsed, &asked, e) &&
	            (input || api_refuse(e, "input", "missing_required_parameter", "'input' is required."));
	cJSON* completion = good ? cJSON_CreateObject() : NULL;
	if (input && cJSON_AddItemToObject(completion, "prompt", input))
		input = NULL;
	if (model && cJSON_AddItemToObject(completion, "model", model))
		model = NULL;
	char* text = completion && cJSON_AddNumberToObject(completion, "max_tokens", 1)
	                 ? cJSON_PrintUnformatted(completion)
	                 : NULL;
	if (good && !text)
		good = api_no_memory(e);
	if (good && !api_read_completion(text, strlen(text), vocab, q, e)) {
		if (strcmp(e->param, "prompt") == 0)
			strcpy(e->param, "input");
		good = false;
	}
	if (good) {
		q->embedding = true;
		q->base64 = asked.base64;
		q->temperature = 0;
	}
	cJSON_free(text);
	cJSON_Delete(completion);
	cJSON_Delete(input);
	cJSON_Delete(model);
	cJSON_Delete(parsed);
	return good;
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

/* Of length 1, as OpenAI's are. */
static void put_vector(struct text* out, const struct reply_choice* c, bool base64) {
	double squares = 0;
	for (int j = 0; j < c->dim; j++)
		squares += (double)c->embedding[j] * (double)c->embedding[j];
	const double scale = squares > 0 ? 1 / sqrt(squares) : 0;
	float* vector = malloc((size_t)c->dim * sizeof *vector);
	out->failed |= !vector;
	for (int j = 0; vector && j < c->dim; j++)
		vector[j] = (float)((double)c->embedding[j] * scale);
	if (vector && base64) /* little-endian, as every machine here is */
		put_base64(out, (const uint8_t*)vector, (size_t)c->dim * sizeof *vector);
	else if (vector) {
		text_put(out, "[");
		for (int j = 0; j < c->dim; j++)
			text_print(out, "%s%.9g", j ? ", " : "", (double)vector[j]);
		text_put(out, "]");
	}
	free(vector);
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	text_json(out, "{'object': 'list', 'data': [");
	for (int i = 0; i < n; i++) {
		text_json(out, "%s{'object': 'embedding', 'index': %d, 'embedding': ", i ? ", " : "", i);
		put_vector(out, &c[i], h->base64);
		text_put(out, "}");
	}
	text_json(out, "], 'model': %q, 'usage': {'prompt_tokens': %l, 'total_tokens': %l}}\n", h->model,
	          u->prompt_tokens, u->prompt_tokens);
}

const struct reply_voice voice_embeddings = {.id = "embd-", .read = embeddings_read, .whole = whole};
