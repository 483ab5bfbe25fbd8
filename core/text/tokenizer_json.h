/* The sections of a tokenizer.json that are pipelines of steps. */
#ifndef SWIFTLET_CORE_TEXT_TOKENIZER_JSON_H
#define SWIFTLET_CORE_TEXT_TOKENIZER_JSON_H

#include "core/files/json.h"
#include "core/text/tokenizer_parts.h"

/* Reads one section of the file into the tokenizer: "normalizer", "pre_tokenizer", "decoder" (before the
 * vocabulary is sealed: what pieces print), "post_processor" (after it is: what goes before and after a
 * text). None is nothing to do; what is not supported is an error that names the type. */
bool tokenizer_json_steps(struct tokenizer*, const cJSON* root, const char* section, struct error*);

/* The pieces and ids of an object, into a vocabulary that is not sealed; `where` stands before a message. */
bool tokenizer_json_read_pieces(struct tokenizer*, const cJSON* vocab, const char* where, struct error*);

/* An added token: {"content", "special", …}; id -1: none was given. plain_normalized: those that are not
 * special are met in the normalized text unless they say otherwise. */
bool tokenizer_json_add_token(struct tokenizer*, const cJSON* entry, int64_t id, bool plain_normalized,
                              const char* where, struct error*);

/* The section's `type`, or "" when it has none. */
const char* tokenizer_json_type(const cJSON* section);
/* A boolean field that may be absent. */
bool tokenizer_json_flag(const cJSON* section, const char* field, bool otherwise);

#endif
