/* Converts text to ids and back, for every kind of tokenizer.
 *
 * Kinds: sentencepiece BPE and unigram with byte fallback; byte-level BPE after a pre-tokenizer expression;
 * raw bytes (synthetic models). A tokenizer is built from a folder's tokenizer.json, tokenizer.model or
 * tekken.json, from GGUF metadata, or for bytes. It is immutable, so any thread may use it. */
#pragma once

#include "kernels/backend.h"

struct tokenizer;

struct token_list { /* grows; free with token_list_free */
	int32_t* id;
	int n;
	int limit; /* encoding stops at this many ids; 0: no limit */
};
void token_list_free(struct token_list*);
bool token_list_append(struct token_list*, int32_t id); /* false: out of memory */

/* Reads the files of a Hugging Face folder: tokenizer.json if it exists, else tokenizer.model, else
 * tekken.json. tokenizer_config.json gives the rules for BOS and EOS. vocab: the model's, to check that no id
 * lies beyond it; 0: unchecked. NULL with the error set. */
struct tokenizer* tokenizer_open_folder(const char* folder, int vocab, struct error*);
/* The readers of single files, which the fuzzers call too. They keep no pointer to the bytes. config:
 * tokenizer_config.json's text, or NULL. */
typedef struct tokenizer* tokenizer_from(const void* data, size_t size, const char* config, struct error*);
tokenizer_from tokenizer_from_json, tokenizer_from_sentencepiece, tokenizer_from_tekken;
/* The vocabulary in GGUF metadata. Arrays are borrowed for the call. */
struct gguf_vocabulary {
	const char* model; /* tokenizer.ggml.model: "llama", "gpt2", "gemma4" */
	const char* pre;   /* tokenizer.ggml.pre, may be NULL */
	int n;
	const char* const* piece; /* (n) not NUL-terminated */
	const size_t* piece_size; /* (n) */
	const float* score;       /* (n) or NULL */
	const int32_t* type;      /* (n) or NULL: 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte */
	int n_merges;
	const char* const* merge; /* (n_merges) "left right" */
	const size_t* merge_size;
	int32_t bos, eos, unknown;              /* -1 when absent */
	int add_bos, add_eos, add_space_prefix; /* 1, 0, or -1 when the file does not say */
	int remove_extra_whitespaces;           /* the same */
};
struct tokenizer* tokenizer_from_gguf(const struct gguf_vocabulary*, struct error*);
/* Ids 0..255 are bytes, and the others print as <id>. No BOS, no EOS. */
struct tokenizer* tokenizer_bytes(int vocab);
void tokenizer_free(struct tokenizer*);

int tokenizer_size(const struct tokenizer*);
int32_t tokenizer_bos(const struct tokenizer*); /* -1 when there is none */
int32_t tokenizer_eos(const struct tokenizer*);
bool tokenizer_adds_bos(const struct tokenizer*); /* the model wants one before a prompt */
/* Id of an exact piece or special token ("<|eot_id|>"), or -1. */
int32_t tokenizer_find(const struct tokenizer*, const char* piece);
bool tokenizer_is_special(const struct tokenizer*, int32_t id); /* left out of text */

enum {
	TOKENIZE_ADD_SPECIAL = 1, /* BOS and EOS as the model's rules say */
	TOKENIZE_NO_SPECIAL = 2   /* special tokens written in the text are plain text */
};
/* Appends the ids of text (any bytes, size may be 0). If the list has a limit, only the first ids. False: out
 * of memory. */
bool tokenizer_encode(const struct tokenizer*, const char* text, size_t size, int flags,
                      struct token_list* out);
/* Writes the bytes of one token as it appears within a text: a leading space is kept, special tokens are
 * empty unless `special`. Returns the size needed, and writes at most `capacity` bytes. */
size_t tokenizer_piece(const struct tokenizer*, int32_t id, bool special, char* out, size_t capacity);
/* Decodes a list; malloc'd, NUL-terminated, *size bytes. Sentencepiece's dummy first space is dropped only if
 * the ids begin a text (`at_start`). */
char* tokenizer_decode(const struct tokenizer*, const int32_t* id, int n, bool special, bool at_start,
                       size_t* size);

/* Streaming decode. It gives only whole UTF-8 characters, and U+FFFD for malformed bytes. */
struct text_stream {
	const struct tokenizer* tokenizer;
	uint8_t held[8]; /* an unfinished character */
	int n_held;
};
void text_stream_start(struct text_stream*, const struct tokenizer*);
/* Writes the text that is complete; returns the bytes written. Characters that do not fit are dropped whole.
 * A malformed byte becomes three bytes. */
size_t text_stream_add(struct text_stream*, int32_t id, char* out, size_t capacity);
/* Writes the bytes held back at the end, as U+FFFD. */
size_t text_stream_end(struct text_stream*, char* out, size_t capacity);

/* Input of the fingerprint's hash: calls back for each piece in order. */
void tokenizer_digest(const struct tokenizer*, void (*add)(void*, const void*, size_t), void* user);
