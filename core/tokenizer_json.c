#include "core/tokenizer_config.h"
struct tokenizer* tokenizer_from_json(const char* data, size_t size, const char* config,
                                      struct error* error) {
	(void)data;
	(void)size;
	(void)config;
	error_set(error, "tokenizer.json: not read by this build yet");
	return NULL;
}
struct tokenizer* tokenizer_from_merges(const char* vocab_json, size_t vocab_size, const char* merges,
                                        size_t merges_size, const char* config, struct error* error) {
	(void)vocab_json;
	(void)vocab_size;
	(void)merges;
	(void)merges_size;
	(void)config;
	error_set(error, "vocab.json: not read by this build yet");
	return NULL;
}
struct tokenizer* tokenizer_from_gguf(const struct gguf_vocabulary* g, struct error* error) {
	(void)g;
	error_set(error, "tokenizer.ggml.model: not read by this build yet");
	return NULL;
}
