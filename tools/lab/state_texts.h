/* Prompts with a model's own greedy answers, for benches that run them again. */
#pragma once

#include "core/decode/engine.h"
#include "tools/lab/bench.h"

/* Moves every other prompt, from the first on, to another list. False with the error set when none stays. */
bool prompts_split(struct prompt_list*, struct prompt_list* others, struct error*);

/* 0, 1, 2…: a text's rows in a pass, and the path that commits them. */
extern const int32_t state_text_rows[MAX_ROWS];

/* A cache in F32 or F16, as the options say or the model's weights need. NULL with the error set. */
struct cache* text_cache_open(const struct runtime*, int capacity, struct error*);

struct state_text {
	int32_t* id; /* (n) prompt and answer, malloc'd */
	int n_prompt, n;
	struct cache* cache; /* NULL until state_text_fill makes it */
};

/* Answers prompt i of [0, n) for each i, several at a time; text (n). False with the error set; free in any
 * case. */
bool state_texts_answer(const struct runtime*, const struct prompt* prompt, int n, struct state_text* text,
                        struct error*);
/* Frees the list, too; NULL is nothing. */
void state_texts_free(struct state_text* text, int n);

/* Commits a prompt's tokens id (n) to an empty cache; next: the token after them. */
bool state_text_prefill(struct cache*, const int32_t* id, int n, int32_t* next, struct error*);

/* Makes text->cache and commits all tokens but the last to it. */
bool state_text_fill(const struct runtime*, struct state_text*, struct error*);
