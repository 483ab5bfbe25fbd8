/* Renders chat messages as the prompt that a model was trained on, with the model's own template
 * (core/jinja).
 *
 * Special tokens come from the template alone. Text of the request never becomes one. */
#pragma once

#include <time.h>

#include "core/text/tokenizer.h"

struct chat_json { /* a JSON text, borrowed; text NULL: absent */
	const char* text;
	size_t size;
};

/* The arguments of apply_chat_template. */
struct chat_request {
	struct chat_json messages;  /* a list of objects with role and content, at least one */
	struct chat_json tools;     /* a list; the template sees None without */
	struct chat_json documents; /* the same */
	struct chat_json
	    variables; /* chat_template_kwargs: an object; each member becomes a variable of the template */
	bool no_generation_prompt; /* leaves out the header of the assistant's answer */
	/* The prompt ends with the text of the last message, which the answer continues. That text is followed by
	 * CHAT_GOES_ON, which is cut off. */
	bool goes_on;
	time_t now; /* what strftime_now, date_string and datetime show; 0: now, or $SOURCE_DATE_EPOCH */
};

#define CHAT_GOES_ON "swiftletGoesOnHere9b1f"

/* True when the template can be read. Otherwise, or for NULL, the error states what the user can do instead.
 */
bool chat_template_check(const char* template_text, struct error*);
/* The text, malloc'd and NUL-terminated, as transformers' apply_chat_template gives it when date_string ("28
 * Nov 2026") and datetime ("Nov 28 2026") are among its arguments. The request's own variables come before
 * these two. NULL with the error set: the template's own refusal, or what failed in which line of it. */
char* chat_template_text(const char* template_text, const struct tokenizer*, const struct chat_request*,
                         size_t* size, struct error*);
/* The ids. Special tokens in the template's text are recognized, those in the request's text are not. */
bool chat_template_encode(const char* template_text, const struct tokenizer*, const struct chat_request*,
                          struct token_list* out, struct error*);
