/* Chat messages to the prompt a model was trained on.
 *
 * The families' templates are recognised by the file's own template text and written out by code, not
 * by interpreting Jinja. Special tokens come from the template; message contents never make any. */
#ifndef SWIFTLET_CORE_TEXT_CHAT_TEMPLATE_H
#define SWIFTLET_CORE_TEXT_CHAT_TEMPLATE_H

#include "core/text/tokenizer.h"

struct chat_message {
	const char* role; /* "system", "user", "assistant" */
	const char* content;
	size_t content_size;
};

/* The family the template text is of ("llama-3", "chatml", "mistral", "question-answer"…), or NULL with
 * an error that says how to go on without (use -p). */
const char* chat_template_recognise(const char* template_text, struct error*);
/* The text, malloc'd, as transformers' apply_chat_template(add_generation_prompt=True) gives it. */
char* chat_template_text(const char* template_text, const struct tokenizer*, const struct chat_message*,
                         int n, size_t* size, struct error*);
/* The ids: special tokens of the template recognised, those inside contents not. */
bool chat_template_encode(const char* template_text, const struct tokenizer*, const struct chat_message*,
                          int n, struct token_list* out, struct error*);

#endif
