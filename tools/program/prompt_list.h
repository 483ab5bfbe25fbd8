/* Reads all prompts of a stream's file, or gives the program's own six prompts. */
#pragma once

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

/* The prompts of a file of JSON lines ("-": standard input), up to the limit, or the usual ones if `input` is
 * NULL. False with the error set; free in any case. */
bool prompt_list_read(struct prompt_list*, const swiftlet_model*, const char* input, struct error*);
/* Drops prompts that do not fit a context of this many tokens, and logs how many. */
void prompt_list_fit(struct prompt_list*, int context);
void prompt_list_free(struct prompt_list*);
