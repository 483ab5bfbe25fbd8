/* Prompts read from a stream's file at once, or the usual ones where none is given. */
#ifndef SWIFTLET_TOOLS_PROGRAM_PROMPT_LIST_H
#define SWIFTLET_TOOLS_PROGRAM_PROMPT_LIST_H

#include "core/decode/options.h"
#include "tools/program/runtime.h"

enum { MOST_PROMPTS = 1024 };

struct prompt {
	char* task; /* or NULL */
	int32_t* id;
	int n, max_tokens;
};

struct prompt_list {
	struct prompt prompt[MOST_PROMPTS];
	int n;
};

/* Prompts that a model is likely to get. */
enum { USUAL_PROMPTS = 6 };
extern const char* const usual_prompt[USUAL_PROMPTS];

/* The prompts of a file of JSON lines ("-": standard input; more than fit are left out), or where `input` is
 * NULL the usual ones. False with the error set; free in any case. */
bool prompt_list_read(struct prompt_list*, const swiftlet_model*, const char* input, struct error*);
/* Leaves out the prompts that a context of so many tokens cannot hold, and logs how many.
 */
void prompt_list_fit(struct prompt_list*, int context);
void prompt_list_free(struct prompt_list*);

#endif
