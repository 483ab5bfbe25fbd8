/* Shared by the tokenizer tests: files of the source tree, and a GGUF's vocabulary with another
 * pre-tokenizer. */
#pragma once

#include "core/text/tokenizer.h"

struct file_bytes {
	char* data; /* NUL-terminated; NULL when it cannot be read */
	size_t size;
};

/* A file under $SWIFTLET_SOURCE (shared: under $SWIFTLET_SHARED). */
struct file_bytes read_source(const char* path);
struct file_bytes read_shared(const char* path);
/* Reads tests/core/vocab/NAME.gguf; pre NULL: the file's own. */
struct tokenizer* open_vocabulary(const char* name, const char* pre, struct error*);
/* FNV-1a over the ids, four bytes each, lowest first. */
uint64_t hash_ids(const struct token_list*);
