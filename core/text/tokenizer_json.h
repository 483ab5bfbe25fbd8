/* Reads a tokenizer from a folder's JSON files: tokenizer.json's vocabulary and steps, and in
 * tokenizer_config.json which tokens begin and end a text, and how the prefix space is treated. */
#pragma once

#include "core/files/json.h"
#include "core/text/tokenizer_parts.h"

/* Reads tokenizer_config.json, NULL when there is none. Adds or re-flags the tokens of added_tokens_decoder;
 * before the vocabulary is sealed. */
bool tokenizer_config_add_tokens(const cJSON* config, struct tokenizer*, struct error*);
/* Resolves BOS, EOS and unknown, after it is. A name without a piece is an error. */
bool tokenizer_config_apply(const cJSON* config, struct tokenizer*, struct error*);

/* Reads one section of tokenizer.json into the tokenizer: "normalizer", "pre_tokenizer", "decoder" (before
 * the vocabulary is sealed: what pieces print), "post_processor" (after it is: what goes before and after a
 * text). None is nothing to do; what is not supported is an error that names the type. */
bool tokenizer_json_steps(struct tokenizer*, const cJSON* root, const char* section, struct error*);

/* An added token: {"content", "special", …}; id -1: none was given. plain_normalized: those that are not
 * special are met in the normalized text unless they say otherwise. */
bool tokenizer_json_add_token(struct tokenizer*, const cJSON* entry, int64_t id, bool plain_normalized,
                              const char* where, struct error*);

/* The section's `type`, or "" when it has none. */
const char* tokenizer_json_type(const cJSON* section);
/* 1 or 0 of a boolean field; `otherwise` when it is absent. */
int tokenizer_json_flag(const cJSON* section, const char* field, int otherwise);
