/* The renderers of the families' chat templates, and how a template is told to be one of them. */
#ifndef SWIFTLET_CORE_TEXT_CHAT_FAMILIES_H
#define SWIFTLET_CORE_TEXT_CHAT_FAMILIES_H

#include "core/text/chat_template.h"
#include "core/text/tokenizer_parts.h"

/* A prompt as it is written: template text, with the stretches that are messages' contents marked. */
struct chat_prompt {
	struct buffer text;
	struct plain_range* content; /* ascending */
	size_t n_content, capacity;
	const char *bos, *eos; /* texts of the tokens, "" when there is none */
	size_t bos_size, eos_size;
	const char* template_text;
	const char* refused; /* why the template takes no such conversation, or NULL */
};

struct chat_family {
	const char* name;
	void (*render)(struct chat_prompt*, const struct chat_message*, int n);
};

/* NULL when the template is of none. */
const struct chat_family* chat_family_of(const char* template_text);

#endif
