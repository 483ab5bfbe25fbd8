/* Answers many prompts in shared passes, and fills caches with texts. */
#include "tools/lab/state_texts.h"

#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 16 };

struct cache* text_cache_open(const struct runtime* bench, int capacity, struct error* error) {
	struct backend* backend = bench->engine->backend;
	const char* type = bench->options.cache.type;
	const bool wide = type[0] == 'f' ? type[1] == '3' : bench->model->dtype == DTYPE_F32;
	return backend->cache_open(backend, capacity, wide ? DTYPE_F32 : DTYPE_F16, error);
}

bool prompts_split(struct prompt_list* list, struct prompt_list* others, struct error* error) {
	int kept = 0;
	for (int i = 0; i < list->n; i++)
		if (i % 2 == 0)
			others->prompt[others->n++] = list->prompt[i];
		else
			list->prompt[kept++] = list->prompt[i];
	list->n = kept;
	return kept > 0 ||
	       error_set(error,
	                 "one prompt is too few: half of the prompts are learned from, and the others judge");
}

const int32_t state_text_rows[MAX_ROWS] = {
#define ROW4(i) i, i + 1, i + 2, i + 3
#define ROW16(i) ROW4(i), ROW4(i + 4), ROW4(i + 8), ROW4(i + 12)
#define ROW64(i) ROW16(i), ROW16(i + 16), ROW16(i + 32), ROW16(i + 48)
    ROW64(0), ROW64(64), ROW64(128), ROW64(192)};

/* ---- answers -------------------------------------------------------------------------------- */

bool state_text_prefill(struct cache* cache, const int32_t* id, int n, int32_t* next, struct error* error) {
	struct backend* backend = cache->backend;
	uint8_t want[MAX_ROWS] = {0};
	struct result out[MAX_ROWS];
	cache->prompt_length = n;
	while (cache->committed < n) {
		const int left = n - cache->committed, rows = least(left, MAX_ROWS);
		const struct segment segment = {.cache = cache, .base = cache->committed, .n = rows, .noted = true};
		want[rows - 1] = WANT_TOKEN;
		struct pass pass =
		    pass_over(&segment, id + cache->committed, NULL, 2 * backend->weights->shape.n_blocks, want, out);
		pass.head = rows == left;
		if (!backend->run(backend, &pass, error))
			return false;
		backend->commit(cache, state_text_rows, rows);
		want[rows - 1] = WANT_NOTHING;
		*next = out[rows - 1].token;
	}
	return true;
}

/* Decodes one more token of each unfinished text (n of them). */
static bool step_texts(struct backend* backend, struct state_text* const* text, int n, struct error* error) {
	struct segment segment[TOGETHER] = {{0}};
	int32_t token[TOGETHER] = {0}, parent[TOGETHER] = {0};
	uint8_t want[TOGETHER] = {0};
	struct result out[TOGETHER];
	for (int i = 0; i < n; i++) {
		segment[i] = (struct segment){.cache = text[i]->cache, .base = text[i]->cache->committed, .n = 1};
		token[i] = text[i]->id[text[i]->n - 1];
		parent[i] = -1;
		want[i] = WANT_TOKEN;
	}
	struct pass pass = pass_over(segment, token, parent, 2 * backend->weights->shape.n_blocks, want, out);
	pass.n = pass.n_segments = n;
	pass.head = true;
	if (!backend->run(backend, &pass, error))
		return false;
	for (int i = 0; i < n; i++) {
		backend->commit(text[i]->cache, state_text_rows, 1);
		text[i]->id[text[i]->n++] = out[i].token;
	}
	return true;
}

static bool answer_group(const struct runtime* bench, const struct prompt* prompt, int n,
                         struct state_text* text, struct error* error) {
	const int context = bench_context(bench);
	bool good = true;
	for (int i = 0; i < n && good; i++) {
		struct state_text* t = &text[i];
		t->n = t->n_prompt = prompt[i].n;
		t->id = malloc(((size_t)prompt[i].n + (size_t)prompt[i].max_tokens + 1) * sizeof *t->id);
		if (t->id)
			memcpy(t->id, prompt[i].id, (size_t)prompt[i].n * sizeof *t->id);
		t->cache = text_cache_open(bench, context, error);
		good = t->id && t->cache && state_text_prefill(t->cache, t->id, t->n, &t->id[t->n], error);
		t->n += good;
	}
	while (good) {
		struct state_text* going[TOGETHER];
		int count = 0;
		for (int i = 0; i < n; i++) {
			struct state_text* t = &text[i];
			if (t->n - t->n_prompt < prompt[i].max_tokens && t->n < context &&
			    !model_is_end(bench->model, t->id[t->n - 1]))
				going[count++] = t;
		}
		if (count == 0)
			break;
		good = step_texts(bench->engine->backend, going, count, error);
	}
	for (int i = 0; i < n; i++) {
		if (text[i].cache)
			text[i].cache->backend->cache_close(text[i].cache);
		text[i].cache = NULL;
	}
	return good || (error->message[0] ? false : error_set(error, "out of memory for answers"));
}

bool state_texts_answer(const struct runtime* bench, const struct prompt* prompt, int n,
                        struct state_text* text, struct error* error) {
	for (int first = 0; first < n; first += TOGETHER) {
		progress_show((double)first / n, "answers");
		if (!answer_group(bench, prompt + first, least(n - first, TOGETHER), text + first, error))
			return false;
	}
	return true;
}

void state_texts_free(struct state_text* text, int n) {
	for (int i = 0; text && i < n; i++) {
		free(text[i].id);
		if (text[i].cache)
			text[i].cache->backend->cache_close(text[i].cache);
	}
	free(text);
}

bool state_text_fill(const struct runtime* bench, struct state_text* t, struct error* error) {
	int32_t ignored;
	t->cache = text_cache_open(bench, bench_context(bench), error);
	return t->cache && state_text_prefill(t->cache, t->id, t->n - 1, &ignored, error);
}
