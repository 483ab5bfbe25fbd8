/* Chat messages to the prompt a model was trained on: its own template, interpreted (core/jinja).
 *
 * Special tokens come from the template alone; what a request brings never makes any. */
#ifndef SWIFTLET_CORE_TEXT_CHAT_TEMPLATE_H
#define SWIFTLET_CORE_TEXT_CHAT_TEMPLATE_H

#include <time.h>

#include "core/text/tokenizer.h"

struct chat_json { /* a JSON text, borrowed; text NULL: not given */
	const char* text;
	size_t size;
};

/* What apply_chat_template takes. */
struct chat_request {
	struct chat_json messages;  /* a list of objects with role and content, at least one */
	struct chat_json tools;     /* a list; the template sees None without */
	struct chat_json documents; /* the same */
	struct chat_json variables; /* chat_template_kwargs: an object, each member a variable of the template */
	bool no_generation_prompt;  /* leaves out the header that the assistant's answer follows */
	/* The prompt ends with the last message's text, which the answer goes on with: where CHAT_GOES_ON stands
	 * behind it. */
	bool goes_on;
	time_t now; /* what strftime_now tells; 0: the time of day, or $SOURCE_DATE_EPOCH */
};

#define CHAT_GOES_ON "swiftletGoesOnHere9b1f"

/* True when the template can be read; NULL, or one that cannot, gets an error that says how to go on. */
bool chat_template_check(const char* template_text, struct error*);
/* The text, malloc'd and NUL-terminated, as transformers' apply_chat_template gives it. NULL with the error
 * set: the template's own refusal, or what in it failed and on which line. */
char* chat_template_text(const char* template_text, const struct tokenizer*, const struct chat_request*,
                         size_t* size, struct error*);
/* The ids: special tokens of the template recognised, those that the request brought not. */
bool chat_template_encode(const char* template_text, const struct tokenizer*, const struct chat_request*,
                          struct token_list* out, struct error*);

#endif
