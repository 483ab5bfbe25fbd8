/* The arena, ranges of characters, numbers, the tree and its program. See reader.h. */
#include "core/grammar/reader.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"

void reader_close(struct reader* r) {
	free(r->node);
	free(r->range);
	free(r->fold);
	for (int i = 0; i < r->n_properties; i++)
		free(r->property[i].range);
	free(r->property);
}

int reader_fail(struct reader* r, const char* why) {
	if (!r->failed)
		r->report_error(r, why);
	r->failed = true;
	return 0;
}

int reader_node(struct reader* r, struct syntax_node node) {
	if (r->n_nodes == READER_NODES || !grow_by_one(&r->node, (size_t)r->n_nodes, sizeof *r->node))
		return reader_fail(r, "too many parts");
	r->node[r->n_nodes] = node;
	return r->n_nodes++;
}

void reader_range(struct reader* r, uint32_t low, uint32_t high) {
	if (r->n_ranges == READER_RANGES || !grow_by_one(&r->range, (size_t)r->n_ranges, sizeof *r->range))
		reader_fail(r, "too many characters");
	else
		r->range[r->n_ranges++] = (struct range){low, high};
}

static int compare_ranges(const void* a, const void* b) {
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

/* Sorts the ranges from `from` on and joins those that touch. */
static void tidy_ranges(struct reader* r, int from) {
	if (r->n_ranges == from) /* there may be no arena yet */
		return;
	qsort(r->range + from, (size_t)(r->n_ranges - from), sizeof *r->range, compare_ranges);
	int n = from;
	for (int i = from; i < r->n_ranges; i++) {
		if (n > from && r->range[i].low <= r->range[n - 1].high + 1) {
			if (r->range[i].high > r->range[n - 1].high)
				r->range[n - 1].high = r->range[i].high;
		} else
			r->range[n++] = r->range[i];
	}
	r->n_ranges = n;
}

int reader_ranges(struct reader* r, enum syntax_kind kind, int from) {
	if (kind == NODE_CLASS && !r->failed)
		tidy_ranges(r, from);
	return reader_node(r, (struct syntax_node){.kind = kind, .a = from, .b = r->n_ranges});
}

void reader_negate(struct reader* r, int from) {
	tidy_ranges(r, from);
	const int n = r->n_ranges - from;
	uint32_t low = 0;
	for (int i = 0; i < n && !r->failed; i++) {
		const struct range range = r->range[from + i];
		if (low < range.low)
			reader_range(r, low, range.low - 1);
		low = range.high + 1;
	}
	if (low <= LAST_CODE)
		reader_range(r, low, LAST_CODE);
	if (r->failed)
		return;
	memmove(r->range + from, r->range + from + n, (size_t)(r->n_ranges - from - n) * sizeof *r->range);
	r->n_ranges -= n;
}

static uint32_t read_hexadecimal(struct reader* r, int digits) {
	uint32_t code = 0;
	for (int i = 0; i < digits; i++) {
		const char c = reader_more(r) ? r->text[r->at++] : 0;
		const int value = hexadecimal_digit(c);
		if (value < 0)
			return (uint32_t)reader_fail(r, "a hexadecimal digit is missing");
		code = code << 4 | (uint32_t)value;
	}
	return code <= LAST_CODE ? code : (uint32_t)reader_fail(r, "no character has this number");
}

/* \u{…}, \x{…} */
static uint32_t read_braced(struct reader* r) {
	int digits = 0;
	r->at++;
	while (r->at + (size_t)digits < r->size && r->text[r->at + (size_t)digits] != '}')
		digits++;
	const uint32_t code = digits > 0 && digits <= 6
	                          ? read_hexadecimal(r, digits)
	                          : (uint32_t)reader_fail(r, "no character has this number");
	reader_take(r, '}');
	return code;
}

/* A second surrogate may follow the first. */
static uint32_t read_pair(struct reader* r, uint32_t first) {
	const size_t start = r->at;
	if (r->size - r->at < 6 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u' ||
	    r->text[r->at + 2] == '{')
		return first;
	r->at += 2;
	const uint32_t second = read_hexadecimal(r, 4);
	if (second >= 0xdc00 && second < 0xe000)
		return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
	r->at = start;
	return first;
}

static bool is_plain(char c) {
	return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	         (uint8_t)c >= 0x80);
}

uint32_t reader_character(struct reader* r, const struct dialect* d) {
	uint32_t code = 0;
	if (!reader_take(r, '\\')) {
		const size_t length = utf8_character(r->text + r->at, r->size - r->at, &code);
		if (length == 0)
			return (uint32_t)reader_fail(r, "malformed UTF-8");
		r->at += length;
		return code;
	}
	if (!reader_more(r))
		return (uint32_t)reader_fail(r, "nothing follows the backslash");
	const char c = r->text[r->at++];
	const char* const letter = c ? strchr(d->letters, c) : NULL;
	if (letter)
		return (uint8_t)d->means[letter - d->letters];
	if (c && strchr(d->hexadecimal, c)) {
		if (c != 'U' && reader_at(r, '{'))
			return read_braced(r);
		code = read_hexadecimal(r, c == 'x' ? 2 : c == 'u' ? 4 : 8);
		return code >= 0xd800 && code < 0xdc00 ? read_pair(r, code) : code;
	}
	if (d->itself ? c && strchr(d->itself, c) : is_plain(c))
		return (uint8_t)c;
	return (uint32_t)reader_fail(r, "this escape is not supported");
}

int reader_class(struct reader* r, const struct dialect* d) {
	const int from = r->n_ranges;
	const bool negated = reader_take(r, '^');
	while (reader_more(r) && !reader_at(r, ']')) {
		if (d->named && d->named(r))
			continue;
		const uint32_t low = reader_character(r, d);
		uint32_t high = low;
		if (reader_at(r, '-') && r->at + 1 < r->size && r->text[r->at + 1] != ']') {
			r->at++;
			if (d->named && d->named(r))
				return reader_fail(r, "a class cannot end a range");
			high = reader_character(r, d);
		}
		if (high < low)
			return reader_fail(r, "a range is the wrong way round");
		(d->range ? d->range : reader_range)(r, low, high);
	}
	if (!reader_take(r, ']'))
		return reader_fail(r, "a class is not closed");
	if (negated && !r->failed)
		reader_negate(r, from);
	return reader_ranges(r, NODE_CLASS, from);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static void skip_space(struct reader* r, const struct syntax* s, bool lines) {
	if (s->skip)
		s->skip(r, lines);
}

/* UNBOUNDED where none stands. */
static int read_number(struct reader* r) {
	int value = UNBOUNDED;
	while (reader_more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
		value = (value < 0 ? 0 : value) * 10 + (r->text[r->at++] - '0');
		if (value > READER_REPEAT)
			return reader_fail(r, "a count is over 4096");
	}
	return value;
}

/* Reads *, + or ?, or counts: {m}, {m,} or {m,n}. False when none of them comes next; a brace then stands for
 * itself. */
static bool read_repeat(struct reader* r, const struct syntax* s, int* least, int* most) {
	const size_t start = r->at;
	*least = 0;
	*most = UNBOUNDED;
	if (reader_take(r, '+'))
		*least = 1;
	else if (reader_take(r, '?'))
		*most = 1;
	else if (reader_take(r, '{')) {
		*least = *most = read_number(r);
		if (*least >= 0 && reader_take(r, ','))
			*most = read_number(r);
		if (*least < 0 || !reader_take(r, '}')) {
			r->at = start;
			return false;
		}
	} else if (!reader_take(r, '*'))
		return false;
	if (s->lazy)
		reader_take(r, '?');
	if (*most >= 0 && *most < *least)
		reader_fail(r, "a count is the wrong way round");
	return true;
}

static int read_sequence(struct reader* r, const struct syntax* s, bool nested) {
	int all = reader_node(r, (struct syntax_node){.kind = NODE_EMPTY});
	for (;;) {
		skip_space(r, s, nested);
		if (!reader_more(r) || memchr(s->ends, r->text[r->at], strlen(s->ends)))
			return all;
		int next = s->atom(r), least, most;
		skip_space(r, s, false);
		while (reader_more(r) && read_repeat(r, s, &least, &most)) {
			next = s->possessive && reader_take(r, '+')
			           ? s->possessive(r, next, least, most)
			           : reader_node(r, (struct syntax_node){
			                                .kind = NODE_REPEAT, .a = next, .least = least, .most = most});
			skip_space(r, s, false);
		}
		all = reader_node(r, (struct syntax_node){.kind = NODE_SEQUENCE, .a = all, .b = next});
	}
}

int reader_alternatives(struct reader* r, const struct syntax* s, bool nested) {
	if (++r->depth > READER_DEPTH)
		return reader_fail(r, "groups are nested too deep");
	int all = read_sequence(r, s, nested);
	for (;;) {
		skip_space(r, s, nested);
		const size_t here = r->at;
		skip_space(r, s, true); /* an alternative may be on the next line */
		if (!reader_take(r, '|')) {
			r->at = here;
			break;
		}
		skip_space(r, s, true);
		const int next = read_sequence(r, s, nested);
		all = reader_node(r, (struct syntax_node){.kind = NODE_EITHER, .a = all, .b = next});
	}
	r->depth--;
	return all;
}

/* ---- emission ------------------------------------------------------------------------------- */

static int32_t emit_ranges(struct reader* r, const struct syntax_node* node, int32_t next) {
	const size_t n = (size_t)(node->b - node->a);
	uint32_t* bound = malloc((2 * n + 1) * sizeof *bound);
	int32_t all = NOWHERE;
	for (size_t i = 0; i < n && bound; i++) {
		bound[2 * i] = r->range[(size_t)node->a + i].low;
		bound[2 * i + 1] = r->range[(size_t)node->a + i].high + 1;
	}
	if (bound)
		all = r->characters(r->grammar, bound, 2 * (int)n, next);
	else
		r->grammar->failed = true;
	free(bound);
	return all;
}

static int32_t emit_letters(struct reader* r, const struct syntax_node* node, int32_t next) {
	for (int i = node->b - 1; i >= node->a; i--) {
		const uint32_t bound[] = {r->range[i].low, r->range[i].low + 1};
		next = r->characters(r->grammar, bound, 2, next);
	}
	return next;
}

static int32_t emit_repeat(struct reader* r, const struct syntax_node* node, int32_t next) {
	struct grammar* g = r->grammar;
	int32_t at = next;
	if (node->most < 0) {
		at = emit_loop(g, next);
		loop_close(g, at, reader_emit(r, node->a, at));
	}
	for (int i = node->least; i < node->most && !g->failed; i++)
		at = emit_split(g, reader_emit(r, node->a, at), next);
	for (int i = 0; i < node->least && !g->failed; i++)
		at = reader_emit(r, node->a, at);
	return at;
}

/* Sequences and alternatives are left-leaning and may be long, so they are walked in a loop instead of by
 * recursion. */
int32_t reader_emit(struct reader* r, int index, int32_t next) {
	struct grammar* g = r->grammar;
	const struct syntax_node* tree = r->node;
	int32_t all = NOWHERE;
	if (++r->work > r->most_work)
		g->failed = true;
	if (g->failed)
		return NOWHERE;
	for (; tree[index].kind == NODE_EITHER; index = tree[index].a)
		all = emit_split(g, reader_emit(r, tree[index].b, next), all);
	for (; tree[index].kind == NODE_SEQUENCE && next != NOWHERE; index = tree[index].a)
		next = reader_emit(r, tree[index].b, next);
	const struct syntax_node* node = &tree[index];
	if (next == NOWHERE)
		return all;
	switch (node->kind) {
	case NODE_TEXT:
		return emit_split(g, emit_letters(r, node, next), all);
	case NODE_CLASS:
		return emit_split(g, emit_ranges(r, node, next), all);
	case NODE_RULE:
		return emit_split(g, emit_call(g, node->a, next), all);
	case NODE_REPEAT:
		return emit_split(g, emit_repeat(r, node, next), all);
	default:
		return emit_split(g, next, all);
	}
}
