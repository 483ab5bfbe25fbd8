#include "core/text/normalize.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/files/utf8.h"

void normalizer_free(struct normalizer* n) {
	for (int i = 0; i < n->n; i++) {
		free(n->step[i].pattern);
		free(n->step[i].content);
		expression_free(n->step[i].expression);
	}
	n->n = 0;
}

struct normalize_step* normalizer_add(struct normalizer* n, enum normalize_kind kind, struct error* error) {
	if (n->n == MAX_NORMALIZE_STEPS) {
		error_set(error, "more than %d normalizers in a row", MAX_NORMALIZE_STEPS);
		return NULL;
	}
	struct normalize_step* step = &n->step[n->n++];
	*step = (struct normalize_step){.kind = kind};
	return step;
}

static char* copy(const char* text, size_t size) {
	char* made = malloc(size + 1);
	if (made) {
		memcpy(made, text, size);
		made[size] = 0;
	}
	return made;
}

struct normalize_step* normalizer_add_text(struct normalizer* n, enum normalize_kind kind,
                                           const char* pattern, size_t pattern_size, const char* content,
                                           size_t content_size, struct error* error) {
	struct normalize_step* step = normalizer_add(n, kind, error);
	if (!step)
		return NULL;
	step->content = copy(content, content_size);
	step->content_size = content_size;
	if (pattern) {
		step->pattern = copy(pattern, pattern_size);
		step->pattern_size = pattern_size;
	}
	if (!step->content || (pattern && !step->pattern)) {
		error_set(error, "no memory for a normalizer");
		return NULL;
	}
	return step;
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

static bool compose(const char* text, size_t size, utf8proc_option_t options, struct buffer* out) {
	utf8proc_uint8_t* made = NULL;
	utf8proc_ssize_t n =
	    utf8proc_map((const utf8proc_uint8_t*)text, (utf8proc_ssize_t)size, &made, options | UTF8PROC_STABLE);
	if (n >= 0)
		buffer_add(out, made, (size_t)n);
	free(made);
	return n != UTF8PROC_ERROR_NOMEM;
}

static bool run_compose(const struct normalize_step* step, const struct buffer* in, struct buffer* out) {
	static const int options[] = {[NORMALIZE_NFC] = UTF8PROC_COMPOSE,
	                              [NORMALIZE_NFD] = UTF8PROC_DECOMPOSE,
	                              [NORMALIZE_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
	                              [NORMALIZE_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
	for (size_t at = 0; at < in->size;) {
		size_t run = good_run(in->data, in->size, at);
		if (run > 0 && !compose(in->data + at, run, (utf8proc_option_t)options[step->kind], out))
			return false;
		at += run;
		if (run == 0)
			buffer_add(out, in->data + at++, 1);
	}
	return true;
}

static bool is_mark(uint32_t code) {
	utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
	return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
	       category == UTF8PROC_CATEGORY_ME;
}

/* U+0130 is the one character whose lower case is two. */
static void add_lower(uint32_t code, struct buffer* out) {
	char made[4];
	if (code == 0x130)
		buffer_add(out, "i\xcc\x87", 3);
	else
		buffer_add(out, made, utf8_put((uint32_t)utf8proc_tolower((utf8proc_int32_t)code), made));
}

static void run_characters(const struct normalize_step* step, const struct buffer* in, struct buffer* out) {
	for (size_t at = 0; at < in->size;) {
		uint32_t code;
		size_t length = utf8_character(in->data + at, in->size - at, &code);
		if (length == 0)
			buffer_add(out, in->data + at, 1);
		else if (step->kind == NORMALIZE_LOWERCASE)
			add_lower(code, out);
		else if (!is_mark(code))
			buffer_add(out, in->data + at, length);
		at += length > 0 ? length : 1;
	}
}

static void run_strip(const struct normalize_step* step, const struct buffer* in, struct buffer* out) {
	size_t start = 0, end = in->size, length;
	uint32_t code;
	while (step->left && start < end && (length = utf8_character(in->data + start, end - start, &code)) > 0 &&
	       utf8_is_white(code))
		start += length;
	while (step->right && (length = utf8_character_before(in->data + start, end - start, &code)) > 0 &&
	       utf8_is_white(code))
		end -= length;
	buffer_add(out, in->data + start, end - start);
}

static void run_squeeze(const struct buffer* in, struct buffer* out) {
	bool any = false, space = false;
	for (size_t i = 0; i < in->size; i++) {
		if (in->data[i] == ' ') {
			space = true;
			continue;
		}
		if (space && any)
			buffer_add(out, " ", 1);
		buffer_add(out, in->data + i, 1);
		any = true;
		space = false;
	}
	/* At the end U+2581 counts as a space. */
	for (bool more = true; more;) {
		bool block = out->size >= 3 && memcmp(out->data + out->size - 3, "\xe2\x96\x81", 3) == 0;
		more = block || (out->size > 0 && out->data[out->size - 1] == ' ');
		out->size -= block ? 3 : more ? 1 : 0;
	}
}

static void replace_text(const struct normalize_step* step, const struct buffer* in, struct buffer* out) {
	for (size_t at = 0; at < in->size;) {
		const char* found = memmem(in->data + at, in->size - at, step->pattern, step->pattern_size);
		size_t run = found ? (size_t)(found - in->data) - at : in->size - at;
		buffer_add(out, in->data + at, run);
		at += run;
		if (found) {
			buffer_add(out, step->content, step->content_size);
			at += step->pattern_size;
		}
	}
}

static void replace_matches(const struct normalize_step* step, struct matcher* m, const char* text,
                            size_t size, struct buffer* out) {
	size_t at = 0, start, end;
	while (expression_next(step->expression, m, text, size, at, &start, &end)) {
		buffer_add(out, text + at, start - at);
		buffer_add(out, step->content, step->content_size);
		at = end;
	}
	buffer_add(out, text + at, size - at);
}

static void run_replace(const struct normalize_step* step, struct matcher* m, const struct buffer* in,
                        struct buffer* out) {
	if (!step->expression) {
		replace_text(step, in, out);
		return;
	}
	for (size_t at = 0; at < in->size;) {
		size_t run = good_run(in->data, in->size, at);
		replace_matches(step, m, in->data + at, run, out);
		at += run;
		if (at < in->size)
			buffer_add(out, in->data + at++, 1);
	}
}

static void run_prepend(const struct normalize_step* step, bool first, const struct buffer* in,
                        struct buffer* out) {
	bool there = step->unless_there && in->size >= step->content_size &&
	             memcmp(in->data, step->content, step->content_size) == 0;
	if (in->size > 0 && !there && (first || !step->first_only))
		buffer_add(out, step->content, step->content_size);
	buffer_add(out, in->data, in->size);
}

bool normalizer_run(const struct normalizer* n, struct matcher* m, bool first, struct buffer* text,
                    struct buffer* work) {
	for (int i = 0; i < n->n; i++) {
		const struct normalize_step* step = &n->step[i];
		bool good = true;
		work->size = 0;
		switch (step->kind) {
		case NORMALIZE_NFC:
		case NORMALIZE_NFD:
		case NORMALIZE_NFKC:
		case NORMALIZE_NFKD:
			good = run_compose(step, text, work);
			break;
		case NORMALIZE_LOWERCASE:
		case NORMALIZE_STRIP_ACCENTS:
			run_characters(step, text, work);
			break;
		case NORMALIZE_STRIP:
			run_strip(step, text, work);
			break;
		case NORMALIZE_SQUEEZE:
			run_squeeze(text, work);
			break;
		case NORMALIZE_REPLACE:
			run_replace(step, m, text, work);
			break;
		case NORMALIZE_PREPEND:
			run_prepend(step, first, text, work);
			break;
		}
		if (!good || work->failed || text->failed)
			return false;
		struct buffer other = *text;
		*text = *work;
		*work = other;
	}
	return true;
}
