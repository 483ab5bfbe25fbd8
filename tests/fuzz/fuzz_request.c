/* The request readers on any bytes: no crash, no leak, and what is accepted keeps its promises. */
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/ollama_internal.h"
#include "streams/service/openai.h"
#include "tests/fuzz/mutate_json.h"

static void check(const struct api_request* q) {
	const int prompts = q->chat ? 1 : q->n_prompts;
	if (prompts < 1 || q->n < 1 || q->n * prompts > API_MAX_CHOICES)
		abort();
	if (!(q->ask.temperature >= 0 && q->ask.temperature <= 2) || !(q->ask.top_p > 0 && q->ask.top_p <= 1) ||
	    !(q->ask.min_p >= 0 && q->ask.min_p <= 1) || q->ask.max_tokens < 0 || q->n_stop > API_MAX_STOPS ||
	    q->top_logprobs < 0 || q->top_logprobs > API_MAX_TOP)
		abort();
	for (int i = 0; i < q->n_bias; i++)
		if (q->bias[i].token < (i ? q->bias[i - 1].token + 1 : 0) || q->bias[i].token >= 4096 ||
		    !(q->bias[i].bias >= -100 && q->bias[i].bias <= 100))
			abort();
	for (int i = 0; i < q->n_prompts; i++) {
		const struct api_prompt* p = &q->prompt[i];
		if (!p->text == !p->id)
			abort();
		for (int k = 0; k < p->n; k++)
			if (p->id[k] < 0 || p->id[k] >= 4096)
				abort();
	}
	const char* const text[] = {q->parts.messages, q->parts.messages_as_written, q->parts.tools,
	                            q->parts.documents, q->parts.variables};
	for (int i = 0; i < 5; i++)
		if (text[i] && !json_check(text[i], strlen(text[i]), NULL))
			abort();
	if (q->chat != (q->parts.n_messages > 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct api_error e;
	static bool (*const readers[])(const char*, size_t, int, struct api_request*, struct api_error*) = {
	    api_read_completion,   api_read_chat,    responses_read,       messages_read,
	    messages_read_counted, ollama_read_chat, ollama_read_generate, ollama_read_embed};
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		struct api_request q = {.literal_schemas = size % 2 == 1};
		const bool taken = readers[i]((const char*)data, size, 4096, &q, &e);
		if (taken)
			check(&q);
		else if (e.status < 400 || !e.message[0])
			abort();
		else
			free(api_error_text(&e));
		api_request_free(&q);
	}
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
