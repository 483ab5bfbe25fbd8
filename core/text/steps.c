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
	error_set(error, "out of memory for a tokenizer's steps");
	return NULL;
}

bool steps_add_prepend(struct steps* s, const char* content, bool first_only, bool unless_there,
                       struct error* error) {
	struct step* step = add_text(s, STEP_PREPEND, content, error);
	if (!step)
		return false;
	step->first_only = first_only;
	step->unless_there = unless_there;
	return true;
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
	return steps_add_replace(s, " ", false, block, error) &&
	       (scheme == PREFIX_NEVER ||
	        steps_add_prepend(s, block, scheme == PREFIX_FIRST, unless_there, error));
}

/* ---- rewriting ---------------------------------------------------------------------------- */

struct word {
	const char* text;
	size_t size;
	bool broken; /* bytes that are not UTF-8 are not cut further */
};

/* Bytes from `at` on that are well-formed UTF-8. */
static size_t good_run(const char* text, size_t size, size_t at) {
	size_t from = at;
	while (at < size) {
		if ((uint8_t)text[at] < 0x80) {
			at++;
			continue;
		}
		size_t length = utf8_character(text + at, size - at, NULL);
		if (length == 0)
			break;
		at += length;
	}
	return at - from;
}

static void compose_characters(enum step_kind kind, const char* text, size_t size, struct buffer* out) {
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

static void squeeze_spaces(const char* text, size_t size, struct buffer* out) {
	bool space = false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] == ' ') {
			space = true;
			continue;
		}
		if (space && out->size > 0)
			buffer_add(out, " ", 1);
		buffer_add(out, text + i, 1);
		space = false;
	}
	/* At the end U+2581 counts as a space. */
	for (bool more = true; more;) {
		bool block = out->size >= 3 && memcmp(out->data + out->size - 3, "\xe2\x96\x81", 3) == 0;
		more = block || (out->size > 0 && out->data[out->size - 1] == ' ');
		out->size -= block ? 3 : more ? 1 : 0;
	}
}

/* A replacement may lengthen a text again and again, step by step. `most` stops that. */
static void replace_matches(const struct step* step, struct matcher* m, const char* text, size_t size,
                            size_t most, struct buffer* out) {
	const size_t n = strlen(step->content);
	size_t at = 0, start = NOWHERE, end = NOWHERE;
	while (!out->failed && expression_next(step->expression, m, text, size, &start, &end)) {
		buffer_add(out, text + at, start - at);
		buffer_add(out, step->content, n);
		out->failed |= out->size > most;
		at = end;
	}
	buffer_add(out, text + at, size - at);
}

/* Only well-formed stretches of the text are composed and replaced in. */
static void rewrite_runs(const struct step* step, const struct walk* w, const char* text, size_t size,
                         struct buffer* out) {
	for (size_t at = 0; at < size;) {
		const size_t run = good_run(text, size, at);
		if (run == 0)
			buffer_add(out, text + at++, 1);
		else if (step->kind == STEP_REPLACE)
			replace_matches(step, w->matcher, text + at, run, w->most, out);
		else if (step->kind >= STEP_LOWERCASE)
			steps_rewrite_characters(step->kind, text + at, run, out);
		else
			compose_characters(step->kind, text + at, run, out);
		at += run;
	}
}

static void prepend_text(const struct step* step, bool first, const char* text, size_t size,
                         struct buffer* out) {
	const size_t length = strlen(step->content);
	const bool there = step->unless_there && size >= length && memcmp(text, step->content, length) == 0;
	if (!there && (first || !step->first_only))
		buffer_add(out, step->content, length);
	buffer_add(out, text, size);
}

static void strip_spaces(const struct step* step, const char* text, size_t size, struct buffer* out) {
	size_t start = 0, length;
	uint32_t code;
	while (step->strip_start && start < size &&
	       (length = utf8_character(text + start, size - start, &code)) > 0 && utf8_is_white(code))
		start += length;
	while (step->strip_end && size > start &&
	       (length = utf8_character_before(text + start, size - start, &code)) > 0 && utf8_is_white(code))
		size -= length;
	buffer_add(out, text + start, size - start);
}

/* The word as the step writes it. */
static struct word rewrite_word(struct walk* w, int i, struct word in) {
	const struct step* step = &w->steps->step[i];
	struct buffer* out = &w->written[i];
	out->size = 0;
	if (step->kind <= STEP_REPLACE)
		rewrite_runs(step, w, in.text, in.size, out);
	else if (step->kind == STEP_STRIP)
		strip_spaces(step, in.text, in.size, out);
	else if (step->kind == STEP_SQUEEZE)
		squeeze_spaces(in.text, in.size, out);
	else if (step->kind == STEP_PREPEND)
		prepend_text(step, w->first && !w->met[i], in.text, in.size, out);
	else
		byte_level_write(out, in.text, in.size);
	w->met[i] = true;
	w->failed |= out->failed;
	return (struct word){out->data, out->size, in.broken && step->kind != STEP_BYTE_LEVEL}; /* all UTF-8 */
}

static void begin_output(struct walk* w, bool first, size_t size) {
	enum { MOST_TIMES = 64, MOST_MORE = 1 << 16 };
	w->first = first;
	w->most = MOST_TIMES * size + MOST_MORE;
	memset(w->met, 0, sizeof w->met);
}

const char* steps_rewrite(struct walk* w, bool first, const char* text, size_t* size) {
	struct word word = {text, *size, false};
	begin_output(w, first, *size);
	for (int i = 0; i < w->steps->n && word.size > 0; i++)
		word = rewrite_word(w, i, word);
	*size = word.size;
	return word.text;
}

/* ---- cutting ------------------------------------------------------------------------------ */

/* Receives the stretches of a word in order, each marked as a match or not. Joins them as the behavior
 * requires, and passes on the resulting words. */
struct joiner {
	struct walk* walk;
	int step;
	const char* text;
	size_t start, end; /* the word being built; start == end: none */
	bool matched;      /* its last stretch was a match */
};

static bool walk_ended(const struct walk* w) { return w->failed || w->enough; }

static void pass_on(struct walk*, int step, const char* text, size_t size, bool broken);

static void join_end(struct joiner* j) {
	if (j->end > j->start)
		pass_on(j->walk, j->step + 1, j->text + j->start, j->end - j->start, false);
	j->start = j->end;
}

static void join_parts(struct joiner* j, size_t start, size_t end, bool match) {
	const enum split_behavior behavior = j->walk->steps->step[j->step].behavior;
	const bool grows = behavior == SPLIT_WITH_PREVIOUS ? match && !j->matched
	                   : behavior == SPLIT_WITH_NEXT   ? !match && j->matched
	                   : behavior == SPLIT_CONTIGUOUS  ? match == j->matched
	                                                   : false;
	if (!grows) {
		join_end(j);
		j->start = start;
	}
	j->end = end;
	j->matched = match;
	if (match && behavior == SPLIT_REMOVED)
		j->start = j->end;
}

/* Passes the parts of a word on. False: the word was not cut. */
static bool split_text(struct walk* w, int i, const char* text, size_t size) {
	const struct step* step = &w->steps->step[i];
	size_t at = 0, start = NOWHERE, end = NOWHERE;
	if (step->behavior != SPLIT_REMOVED && (size == 1 || utf8_character(text, size, NULL) == size))
		return false; /* one character */
	bool more = expression_next(step->expression, w->matcher, text, size, &start, &end);
	const bool whole = !more || end - start == size;
	if (whole && (more == step->invert || step->behavior != SPLIT_REMOVED))
		return false;
	struct joiner j = {.walk = w, .step = i, .text = text};
	while (more && !walk_ended(w)) {
		if (start > at)
			join_parts(&j, at, start, step->invert);
		join_parts(&j, start, end, !step->invert);
		at = end;
		more = expression_next(step->expression, w->matcher, text, size, &start, &end);
	}
	if (size > at)
		join_parts(&j, at, size, step->invert);
	join_end(&j);
	return true;
}

/* Runs this step and the following ones on a word. */
static void pass_on(struct walk* w, int i, const char* text, size_t size, bool broken) {
	for (; i < w->steps->n && size > 0 && !walk_ended(w); i++) {
		if (w->steps->step[i].kind != STEP_SPLIT) {
			const struct word word = rewrite_word(w, i, (struct word){text, size, broken});
			text = word.text;
			size = word.size;
			broken = word.broken;
		} else if (!broken && split_text(w, i, text, size)) {
			return;
		}
	}
	if (size > 0 && !walk_ended(w))
		w->enough = !w->take(w->user, text, size);
}

void steps_cut(struct walk* w, bool first, const char* text, size_t size) {
	begin_output(w, first, size);
	w->enough = false;
	for (size_t at = 0, end; at < size && !walk_ended(w); at = end) {
		const size_t run = good_run(text, size, at);
		end = at + run;
		while (run == 0 && end < size && utf8_character(text + end, size - end, NULL) == 0)
			end++;
		pass_on(w, 0, text + at, end - at, run == 0);
	}
}

void walk_end(struct walk* w) {
	for (int i = 0; i < MAX_STEPS; i++)
		buffer_free(&w->written[i]);
}
