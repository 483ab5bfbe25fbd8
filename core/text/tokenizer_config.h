/* tokenizer_config.json: which tokens begin and end a text, and how the prefix space is treated. */
#ifndef SWIFTLET_CORE_TEXT_TOKENIZER_CONFIG_H
#define SWIFTLET_CORE_TEXT_TOKENIZER_CONFIG_H

#include "core/text/tokenizer_parts.h"

struct cJSON;

struct tokenizer_config {
	struct cJSON* root;                             /* NULL when there is no file */
	const char *bos, *eos, *unknown, *class_name;   /* borrowed from root; NULL when not said */
	int add_bos, add_eos, add_prefix_space, legacy; /* 1, 0, or -1 when not said */
};

/* text may be NULL: nothing is said. */
bool tokenizer_config_read(struct tokenizer_config*, const char* text, struct error*);
void tokenizer_config_free(struct tokenizer_config*);
/* Adds or re-flags the tokens of added_tokens_decoder; before tokenizer_finish. */
bool tokenizer_config_add_tokens(const struct tokenizer_config*, struct tokenizer*, struct error*);
/* Resolves BOS, EOS and unknown, after tokenizer_finish. A name without a piece is an error. */
bool tokenizer_config_apply(const struct tokenizer_config*, struct tokenizer*, struct error*);

#endif
