#include "core/text/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/text/byte_level.h"

void pretokenizer_free(struct pretokenizer* p) {
	for (int i = 0; i < p->n; i++)
		expression_free(p->step[i].expression);
	p->n = 0;
}

struct pretokenize_step* pretokenizer_add(struct pretokenizer* p, enum pretokenize_kind kind,
                                          struct error* error) {
	if (p->n == MAX_PRETOKENIZE_STEPS) {
		error_set(error, "more than %d pre-tokenizers in a row", MAX_PRETOKENIZE_STEPS);
		return NULL;
	}
	struct pretokenize_step* step = &p->step[p->n++];
	*step = (struct pretokenize_step){.kind = kind};
	return step;
}

bool pretokenizer_add_split(struct pretokenizer* p, const char* pattern, size_t size,
                            enum split_behavior behavior, bool invert, struct error* error) {
	struct pretokenize_step* step = pretokenizer_add(p, PRETOKENIZE_SPLIT, error);
	if (!step)
		return false;
	step->behavior = behavior;
	step->invert = invert;
	step->expression = expression_compile(pattern, size, error);
	return step->expression != NULL;
}

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

/* The whole text as one word, or its well-formed and broken stretches. */
static void start_spans(struct words* w) {
	w->n = 0;
	size_t start = 0;
	bool broken = false;
	for (size_t at = 0; at < w->text.size;) {
		size_t length = utf8_character(w->text.data + at, w->text.size - at, NULL);
		if ((length == 0) != broken) {
			add_span(w, start, at, broken);
			start = at;
			broken = length == 0;
		}
		at += length > 0 ? length : 1;
	}
	add_span(w, start, w->text.size, broken);
}

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
	bool open = j->start < j->end;
	bool grows = false;
	switch (j->behavior) {
	case SPLIT_ISOLATED:
	case SPLIT_REMOVED:
		break;
	case SPLIT_WITH_PREVIOUS:
		grows = match && !j->matched;
		break;
	case SPLIT_WITH_NEXT:
		grows = !match && j->matched;
		break;
	case SPLIT_CONTIGUOUS:
		grows = match == j->matched;
		break;
	}
	if (!open || !grows)
		join_end(j);
	if (!open || !grows)
		j->start = start;
	j->end = end;
	j->matched = match;
	if (match && j->behavior == SPLIT_REMOVED)
		j->start = j->end;
}

static void split(const struct pretokenize_step* step, struct matcher* m, const struct words* in,
                  struct words* out) {
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
}

static void add_metaspace(const struct pretokenize_step* step, const char* text, size_t size, bool first,
                          struct buffer* out) {
	size_t length = strlen(step->replacement);
	bool there =
	    size > 0 && (text[0] == ' ' || (size >= length && memcmp(text, step->replacement, length) == 0));
	if (!there && (step->prefix == METASPACE_ALWAYS || (step->prefix == METASPACE_FIRST && first)))
		buffer_add(out, step->replacement, length);
	for (size_t at = 0; at < size;) {
		const char* space = memchr(text + at, ' ', size - at);
		size_t run = space ? (size_t)(space - text) - at : size - at;
		buffer_add(out, text + at, run);
		if (space)
			buffer_add(out, step->replacement, length);
		at += run + (space ? 1 : 0);
	}
}

/* The steps that write the words anew. */
static void rewrite(const struct pretokenize_step* step, bool first, const struct words* in,
                    struct words* out) {
	for (size_t i = 0; i < in->n; i++) {
		const struct span* s = &in->span[i];
		const char* text = in->text.data + s->start;
		size_t start = out->text.size;
		bool broken = s->broken;
		if (step->kind == PRETOKENIZE_BYTE_LEVEL) {
			byte_level_write(&out->text, text, s->size);
			broken = false; /* the alphabet is all UTF-8 */
		} else if (step->kind == PRETOKENIZE_METASPACE) {
			add_metaspace(step, text, s->size, first && i == 0, &out->text);
		} else {
			if (text[0] != ' ')
				buffer_add(&out->text, " ", 1);
			buffer_add(&out->text, text, s->size);
		}
		add_span(out, start, out->text.size, broken);
	}
	out->failed |= out->text.failed;
}

bool pretokenizer_run(const struct pretokenizer* p, struct matcher* m, bool first, struct words* words,
                      struct words* work) {
	start_spans(words);
	for (int i = 0; i < p->n && !words->failed; i++) {
		const struct pretokenize_step* step = &p->step[i];
		work->n = 0;
		if (step->kind == PRETOKENIZE_SPLIT) {
			split(step, m, words, work);
			struct buffer text = work->text; /* cutting leaves the text where it is */
			work->text = words->text;
			words->text = text;
		} else {
			work->text.size = 0;
			rewrite(step, first, words, work);
		}
		struct words other = *words;
		*words = *work;
		*work = other;
	}
	return !words->failed && !words->text.failed && !work->failed;
}
