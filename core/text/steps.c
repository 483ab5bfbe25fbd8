#include "core/text/steps.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/text/byte_level.h"

void steps_free(struct steps* s) {
	for (int i = 0; i < s->n; i++) {
		free(s->step[i].content);
		expression_free(s->step[i].expression);
	}
	s->n = 0;
}

struct step* steps_add(struct steps* s, enum step_kind kind, struct error* error) {
	if (s->n == MAX_STEPS) {
		error_set(error, "more than %d steps before pieces are merged", MAX_STEPS);
		return NULL;
	}
	struct step* step = &s->step[s->n++];
	*step = (struct step){.kind = kind};
	return step;
}

static struct step* add_text(struct steps* s, enum step_kind kind, const char* content, struct error* error) {
	struct step* step = steps_add(s, kind, error);
	if (!step)
		return NULL;
	step->content = strdup(content);
	if (step->content)
		return step;
	error_set(error, "no memory for a tokenizer's steps");
	return NULL;
}

struct step* steps_add_prepend(struct steps* s, const char* content, struct error* error) {
	return add_text(s, STEP_PREPEND, content, error);
}

bool steps_add_replace(struct steps* s, const char* pattern, bool regex, const char* content,
                       struct error* error) {
	struct step* step = add_text(s, STEP_REPLACE, content, error);
	if (step)
		step->expression = expression_compile(pattern, regex, error);
	return step && step->expression;
}

struct step* steps_add_split(struct steps* s, const char* pattern, bool regex, enum split_behavior behavior,
                             struct error* error) {
	struct step* step = steps_add(s, STEP_SPLIT, error);
	if (!step)
		return NULL;
	step->behavior = behavior;
	step->expression = expression_compile(pattern, regex, error);
	return step->expression ? step : NULL;
}

bool steps_add_blocks(struct steps* s, const char* block, enum prefix_scheme scheme, bool unless_there,
                      struct error* error) {
	if (!steps_add_replace(s, " ", false, block, error))
		return false;
	struct step* step = scheme == PREFIX_NEVER ? NULL : steps_add_prepend(s, block, error);
	if (!step)
		return scheme == PREFIX_NEVER;
	step->first_only = scheme == PREFIX_FIRST;
	step->unless_there = unless_there;
	return true;
}

/* ---- words -------------------------------------------------------------------------------- */

void words_free(struct words* w) {
	buffer_free(&w->text);
	free(w->span);
	*w = (struct words){0};
}

static void add_span(struct words* w, size_t start, size_t end, bool broken) {
	if (start == end || w->failed)
		return;
	if (!grow_to(&w->span, &w->capacity, w->n + 1, sizeof *w->span)) {
		w->failed = true;
		return;
	}
	w->span[w->n++] = (struct span){.start = start, .size = end - start, .broken = broken};
}

/* Bytes from `at` on that are well-formed UTF-8. */
static size_t good_run(const char* text, size_t size, size_t at) {
	size_t from = at;
	while (at < size) {
		size_t length = utf8_character(text + at, size - at, NULL);
		if (length == 0)
			break;
		at += length;
	}
	return at - from;
}

/* The text's well-formed and broken stretches. */
static void add_stretches(struct words* w) {
	for (size_t at = 0, end; at < w->text.size; at = end) {
		const size_t run = good_run(w->text.data, w->text.size, at);
		end = at + run;
		while (run == 0 && end < w->text.size &&
		       utf8_character(w->text.data + end, w->text.size - end, NULL) == 0)
			end++;
		add_span(w, at, end, run == 0);
	}
}

/* ---- rewriting ---------------------------------------------------------------------------- */

static void compose(enum step_kind kind, const char* text, size_t size, struct buffer* out) {
	static const int options[] = {[STEP_NFC] = UTF8PROC_COMPOSE,
	                              [STEP_NFD] = UTF8PROC_DECOMPOSE,
	                              [STEP_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
	                              [STEP_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
	utf8proc_uint8_t* made = NULL;
	const utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t*)text, (utf8proc_ssize_t)size, &made,
	                                        (utf8proc_option_t)options[kind] | UTF8PROC_STABLE);
	out->failed |= n == UTF8PROC_ERROR_NOMEM;
	if (n > 0)
		buffer_add(out, made, (size_t)n);
	free(made);
}

static void squeeze(const char* text, size_t size, struct buffer* out) {
	const size_t start = out->size;
	bool space = false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] == ' ') {
			space = true;
			continue;
		}
		if (space && out->size > start)
			buffer_add(out, " ", 1);
		buffer_add(out, text + i, 1);
		space = false;
	}
	/* At the end U+2581 counts as a space. */
	for (bool more = true; more;) {
		bool block = out->size >= start + 3 && memcmp(out->data + out->size - 3, "\xe2\x96\x81", 3) == 0;
		more = block || (out->size > start && out->data[out->size - 1] == ' ');
		out->size -= block ? 3 : more ? 1 : 0;
	}
}

static void replace(const struct step* step, struct matcher* m, const char* text, size_t size,
                    struct buffer* out) {
	size_t at = 0, start, end;
	while (expression_next(step->expression, m, text, size, at, &start, &end)) {
		buffer_add(out, text + at, start - at);
		buffer_add(out, step->content, strlen(step->content));
		at = end;
	}
	buffer_add(out, text + at, size - at);
}

/* Text is composed and replaced in where it is well-formed. */
static void rewrite_runs(const struct step* step, struct matcher* m, const char* text, size_t size,
                         struct buffer* out) {
	for (size_t at = 0; at < size;) {
		const size_t run = good_run(text, size, at);
		if (run == 0)
			buffer_add(out, text + at++, 1);
		else if (step->kind == STEP_REPLACE)
			replace(step, m, text + at, run, out);
		else
			compose(step->kind, text + at, run, out);
		at += run;
	}
}

static void prepend(const struct step* step, bool first, const char* text, size_t size, struct buffer* out) {
	const size_t length = strlen(step->content);
	const bool there = step->unless_there && size >= length && memcmp(text, step->content, length) == 0;
	if (!there && (first || !step->first_only))
		buffer_add(out, step->content, length);
	buffer_add(out, text, size);
}

/* The steps that write the words anew. */
static void rewrite(const struct step* step, struct matcher* m, bool first, const struct words* in,
                    struct words* out) {
	out->text.size = 0;
	for (size_t i = 0; i < in->n; i++) {
		const struct span* s = &in->span[i];
		const char* text = in->text.data + s->start;
		const size_t start = out->text.size;
		if (step->kind <= STEP_REPLACE)
			rewrite_runs(step, m, text, s->size, &out->text);
		else if (step->kind == STEP_SQUEEZE)
			squeeze(text, s->size, &out->text);
		else if (step->kind == STEP_PREPEND)
			prepend(step, first && i == 0, text, s->size, &out->text);
		else
			byte_level_write(&out->text, text, s->size);
		add_span(out, start, out->text.size, s->broken && step->kind != STEP_BYTE_LEVEL); /* all UTF-8 */
	}
	out->failed |= out->text.failed;
}

/* ---- cutting ------------------------------------------------------------------------------ */

/* Receives stretches in order, told whether each is a match, and joins them as the behavior says. */
struct joiner {
	struct words* out;
	enum split_behavior behavior;
	size_t start, end; /* the word being built; start == end: none */
	bool matched;      /* its last stretch was a match */
};

static void join_end(struct joiner* j) {
	add_span(j->out, j->start, j->end, false);
	j->start = j->end;
}

static void join(struct joiner* j, size_t start, size_t end, bool match) {
	if (start == end)
		return;
	const bool grows = j->behavior == SPLIT_WITH_PREVIOUS ? match && !j->matched
	                   : j->behavior == SPLIT_WITH_NEXT   ? !match && j->matched
	                   : j->behavior == SPLIT_CONTIGUOUS  ? match == j->matched
	                                                      : false;
	if (j->start == j->end || !grows) {
		join_end(j);
		j->start = start;
	}
	j->end = end;
	j->matched = match;
	if (match && j->behavior == SPLIT_REMOVED)
		j->start = j->end;
}

static void split(const struct step* step, struct matcher* m, struct words* in, struct words* out) {
	for (size_t i = 0; i < in->n; i++) {
		const struct span* s = &in->span[i];
		if (s->broken) {
			add_span(out, s->start, s->start + s->size, true);
			continue;
		}
		const char* text = in->text.data + s->start;
		struct joiner j = {.out = out, .behavior = step->behavior, .start = s->start, .end = s->start};
		size_t at = 0, start, end;
		while (expression_next(step->expression, m, text, s->size, at, &start, &end)) {
			join(&j, s->start + at, s->start + start, step->invert);
			join(&j, s->start + start, s->start + end, !step->invert);
			at = end;
		}
		join(&j, s->start + at, s->start + s->size, step->invert);
		join_end(&j);
	}
	struct buffer text = out->text; /* cutting leaves the text where it is */
	out->text = in->text;
	in->text = text;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool run(const struct steps* steps, struct matcher* m, bool first, struct words* words,
                struct words* work) {
	for (int i = 0; i < steps->n && !words->failed; i++) {
		const struct step* step = &steps->step[i];
		work->n = 0;
		if (step->kind == STEP_SPLIT)
			split(step, m, words, work);
		else
			rewrite(step, m, first, words, work);
		struct words other = *words;
		*words = *work;
		*work = other;
	}
	return !words->failed && !words->text.failed && !work->failed;
}

static void start(struct words* words, const char* text, size_t size) {
	words->n = words->text.size = 0;
	buffer_add(&words->text, text, size);
	words->failed |= words->text.failed;
}

bool steps_rewrite(const struct steps* steps, struct matcher* m, bool first, const char* text, size_t size,
                   struct words* words, struct words* work) {
	start(words, text, size);
	add_span(words, 0, words->text.size, false);
	return run(steps, m, first, words, work);
}

bool steps_cut(const struct steps* steps, struct matcher* m, bool first, const char* text, size_t size,
               struct words* words, struct words* work) {
	start(words, text, size);
	add_stretches(words);
	return run(steps, m, first, words, work);
}
