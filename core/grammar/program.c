/* Emits programs, and characters as ranges of bytes. */
#include "core/grammar/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"

struct grammar* grammar_hold(const struct grammar* grammar) {
	struct grammar* g = (struct grammar*)(uintptr_t)grammar; /* the count alone changes */
	atomic_fetch_add(&g->holders, 1);
	return g;
}

bool grammar_same(const struct grammar* a, const struct grammar* b) {
	return a == b || (a->n == b->n && a->n_rules == b->n_rules &&
	                  memcmp(a->rule, b->rule, (size_t)a->n_rules * sizeof *a->rule) == 0 &&
	                  memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0);
}

void grammar_free(struct grammar* g) {
	if (!g || atomic_fetch_sub(&g->holders, 1) != 1)
		return;
	free(g->at);
	free(g->rule);
	free(g);
}

int program_rule(struct grammar* g) {
	if (g->n_rules == GRAMMAR_RULES || !grow_by_one(&g->rule, (size_t)g->n_rules, sizeof *g->rule)) {
		g->failed = true;
		return 0;
	}
	g->rule[g->n_rules] = NOWHERE;
	return g->n_rules++;
}

/* After a failure every instruction is the first one, so that emitting continues harmlessly and within
 * bounds. */
static int32_t add_instruction(struct grammar* g, struct instruction instruction) {
	g->failed =
	    g->failed || g->n == GRAMMAR_INSTRUCTIONS || !grow_by_one(&g->at, (size_t)g->n, sizeof *g->at);
	if (g->failed)
		return RETURNS;
	g->at[g->n] = instruction;
	return g->n++;
}

struct grammar* program_open(struct error* error) {
	struct grammar* g = calloc(1, sizeof *g);
	if (g) {
		atomic_init(&g->holders, 1);
		add_instruction(g, (struct instruction){.opcode = OP_RETURN});
		program_rule(g);
	}
	if (g && !g->failed)
		return g;
	error_set(error, "out of memory for a grammar");
	grammar_free(g);
	return NULL;
}

int32_t emit_range(struct grammar* g, uint8_t low, uint8_t high, int32_t next) {
	if (next == NOWHERE)
		return NOWHERE;
	return add_instruction(g,
	                       (struct instruction){.opcode = OP_RANGE, .low = low, .high = high, .next = next});
}

int32_t emit_split(struct grammar* g, int32_t a, int32_t b) {
	if (a == NOWHERE || b == NOWHERE || a == b)
		return a == NOWHERE ? b : a;
	return add_instruction(g, (struct instruction){.opcode = OP_SPLIT, .next = a, .other = b});
}

int32_t emit_call(struct grammar* g, int rule, int32_t next) {
	if (next == NOWHERE)
		return NOWHERE;
	return add_instruction(g, (struct instruction){.opcode = OP_CALL, .next = next, .other = rule});
}

int32_t emit_begin(struct grammar* g, int most, int32_t next) {
	return add_instruction(g, (struct instruction){.opcode = OP_BEGIN, .next = next, .other = most});
}

int32_t emit_step(struct grammar* g, int least, int32_t next) {
	return add_instruction(g, (struct instruction){.opcode = OP_STEP, .next = next, .other = least});
}

int32_t emit_finish(struct grammar* g, int32_t next) {
	return add_instruction(g, (struct instruction){.opcode = OP_FINISH, .next = next});
}

int32_t emit_distinct_list(struct grammar* g, int32_t next) {
	return next == NOWHERE ? NOWHERE
	                       : add_instruction(g, (struct instruction){.opcode = OP_LIST, .next = next});
}

int32_t emit_room(struct grammar* g, int most, int32_t next) {
	if (next == NOWHERE)
		return NOWHERE;
	return add_instruction(g, (struct instruction){.opcode = OP_ROOM, .next = next, .other = most});
}

int32_t emit_distinct_item(struct grammar* g, int32_t body) {
	return body == NOWHERE ? NOWHERE
	                       : add_instruction(g, (struct instruction){.opcode = OP_ITEM, .next = body});
}

int32_t emit_differ(struct grammar* g, int32_t next) {
	return next == NOWHERE ? NOWHERE
	                       : add_instruction(g, (struct instruction){.opcode = OP_DIFFER, .next = next});
}

int32_t emit_text(struct grammar* g, const char* text, size_t size, int32_t next) {
	for (size_t i = size; i-- > 0;)
		next = emit_range(g, (uint8_t)text[i], (uint8_t)text[i], next);
	return next;
}

/* The text's characters, those that are not of ASCII by the emitter, where there is one. */
static int32_t emit_characters_of(struct grammar* g, const char* text, size_t size,
                                  character_emitter* characters, int32_t next) {
	for (size_t end = size, at; end > 0; end = at) {
		uint32_t code;
		for (at = end - 1; at > 0 && characters && ((uint8_t)text[at] & 0xc0) == 0x80;)
			at--;
		if (end - at > 1 && utf8_character(text + at, end - at, &code) == end - at)
			next = characters(g, (const uint32_t[]){code, code + 1}, 2, next);
		else
			next = emit_text(g, text + at, end - at, next);
	}
	return next;
}

static int compare_texts(const void* a, const void* b) {
	return strcmp(*(const char* const*)a, *(const char* const*)b);
}

/* Bytes of the character at the beginning; or 1, where only bytes matter. */
static size_t character_size(const char* text, bool whole) {
	size_t n = 1;
	while (whole && ((uint8_t)text[0] & 0xc0) == 0xc0 && ((uint8_t)text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* Texts that are alike before `at`. */
static int32_t emit_trie(struct grammar* g, const char** text, int n, size_t at,
                         character_emitter* characters, int32_t next) {
	size_t alike = at;
	while (text[0][alike] && text[0][alike] == text[n - 1][alike])
		alike++;
	while (characters && alike > at && ((uint8_t)text[0][alike] & 0xc0) == 0x80)
		alike--;
	int32_t all = text[0][alike] ? NOWHERE : next;
	for (int i = 0, past; i < n && !g->failed; i = past) {
		const char* first = text[i] + alike;
		const size_t size = *first ? character_size(first, characters != NULL) : 1;
		for (past = i + 1; past < n && strncmp(text[past] + alike, first, size) == 0; past++)
			;
		if (*first) {
			const int32_t rest = emit_trie(g, text + i, past - i, alike + size, characters, next);
			all = emit_split(g, emit_characters_of(g, first, size, characters, rest), all);
		}
	}
	return emit_characters_of(g, text[0] + at, alike - at, characters, all);
}

int32_t emit_choices(struct grammar* g, const char** text, int n, character_emitter* characters,
                     int32_t next) {
	if (n == 0 || next == NOWHERE)
		return NOWHERE;
	qsort(text, (size_t)n, sizeof *text, compare_texts);
	return emit_trie(g, text, n, 0, characters, next);
}

int32_t emit_loop(struct grammar* g, int32_t next) {
	return add_instruction(g, (struct instruction){.opcode = OP_SPLIT, .next = next, .other = next});
}

void loop_close(struct grammar* g, int32_t loop, int32_t body) {
	if (!g->failed && body != NOWHERE)
		g->at[loop].next = body;
}

/* ---- characters ----------------------------------------------------------------------------- */

/* A character is written in digits of some bits each: UTF-8's bytes, or an escape's hexadecimal digits. A set
 * of characters becomes a trie of them, so that few alternatives are open at once. */
struct digit {
	const char* before; /* what comes before it */
	int bits;
	bool hexadecimal;
	uint8_t first; /* the byte, or the number, of digit 0 */
};

struct written {
	const uint32_t* bound; /* (n) the set's bounds, in the numbers that are written */
	int n;
	const struct digit* digit; /* (digits) */
	int digits;
	int32_t full[9]; /* the program for any digits from that one on; 0: not emitted yet */
	int32_t next;
};

static int32_t emit_digit(struct grammar* g, const struct digit* d, uint32_t low, uint32_t high,
                          int32_t next) {
	if (!d->hexadecimal)
		return emit_range(g, (uint8_t)(d->first + low), (uint8_t)(d->first + high), next);
	static const char ten[] = {'a', 'A'};
	const uint32_t from = d->first + low, to = d->first + high;
	int32_t all = NOWHERE;
	if (from < 10)
		all = emit_range(g, (uint8_t)('0' + from), (uint8_t)('0' + (to < 9 ? to : 9)), next);
	for (int i = 0; i < 2 && to >= 10; i++)
		all = emit_split(g,
		                 emit_range(g, (uint8_t)((uint32_t)ten[i] + (from > 10 ? from - 10 : 0)),
		                            (uint8_t)((uint32_t)ten[i] + to - 10), next),
		                 all);
	return all;
}

/* Whether none of [low, past) is in the set, all are, or some. */
enum part { NONE, SOME, ALL };
static enum part part_in(const struct written* w, uint32_t low, uint32_t past) {
	int from = 0, to = w->n / 2;
	while (from < to) { /* the first range that ends after low */
		const int middle = (from + to) / 2;
		if (w->bound[2 * middle + 1] <= low)
			from = middle + 1;
		else
			to = middle;
	}
	if (from == w->n / 2 || w->bound[2 * from] >= past)
		return NONE;
	return w->bound[2 * from] <= low && w->bound[2 * from + 1] >= past ? ALL : SOME;
}

/* Emits the digits from `at` on of the numbers from base on. */
static int32_t emit_digits(struct grammar* g, struct written* w, int at, uint32_t base) {
	if (at == w->digits || g->failed)
		return w->next;
	const struct digit* d = &w->digit[at];
	int shift = 0;
	for (int i = at + 1; i < w->digits; i++)
		shift += w->digit[i].bits;
	const uint32_t step = (uint32_t)1 << shift, n = (uint32_t)1 << d->bits;
	int32_t all = NOWHERE;
	for (uint32_t low = 0, past; low < n; low = past) {
		const enum part part = part_in(w, base + low * step, base + (low + 1) * step);
		int32_t after;
		for (past = low + 1; part == ALL && past < n; past++)
			if (part_in(w, base + past * step, base + (past + 1) * step) != ALL)
				break;
		if (part == NONE)
			continue;
		if (part == SOME)
			after = emit_digits(g, w, at + 1, base + low * step);
		else if (w->full[at + 1])
			after = w->full[at + 1];
		else
			after = w->full[at + 1] = emit_digits(g, w, at + 1, base + low * step);
		all = emit_split(g, emit_digit(g, d, low, past - 1, after), all);
	}
	return all == NOWHERE ? NOWHERE : emit_text(g, d->before, strlen(d->before), all);
}

/* Emits those in [low, past), except `minus`. */
static int32_t emit_written(struct grammar* g, const uint32_t* bound, int n, uint32_t low, uint32_t past,
                            uint32_t minus, const struct digit* digit, int digits, int32_t next) {
	struct written w = {.digit = digit, .digits = digits, .next = next};
	uint32_t* kept = malloc(((size_t)n + 1) * sizeof *kept);
	g->failed = g->failed || !kept;
	for (int i = 0; i < n && !g->failed; i += 2) {
		const uint32_t from = bound[i] > low ? bound[i] : low, to = bound[i + 1] < past ? bound[i + 1] : past;
		if (from < to) {
			kept[w.n++] = from - minus;
			kept[w.n++] = to - minus;
		}
	}
	w.bound = kept;
	const int32_t all = w.n > 0 && next != NOWHERE ? emit_digits(g, &w, 0, 0) : NOWHERE;
	free(kept);
	return all;
}

int32_t emit_characters(struct grammar* g, const uint32_t* bound, int n, int32_t next) {
	static const struct digit digit[] = {{"", 7, false, 0},    {"", 5, false, 0xc0}, {"", 4, false, 0xe0},
	                                     {"", 3, false, 0xf0}, {"", 6, false, 0x80}, {"", 6, false, 0x80},
	                                     {"", 6, false, 0x80}};
	static const uint32_t past[] = {0x80, 0x800, 0xd800, 0x10000, 0x110000},
	                      first[] = {0, 0x80, 0x800, 0xe000, 0x10000};
	static const int length[] = {1, 2, 3, 3, 4};
	int32_t all = NOWHERE;
	for (int i = 0; i < 5; i++) {
		struct digit of[4];
		of[0] = digit[length[i] - 1];
		memcpy(of + 1, digit + 4, 3 * sizeof *of);
		all = emit_split(g, emit_written(g, bound, n, first[i], past[i], 0, of, length[i], next), all);
	}
	return all;
}

static const struct digit hexadecimal[] = {
    {"\\u", 4, true, 0}, {"", 4, true, 0}, {"", 4, true, 0}, {"", 4, true, 0}};

static bool range_holds(const uint32_t* bound, int n, uint32_t code) {
	bool found = false;
	for (int i = 0; i < n; i += 2)
		found = found || (bound[i] <= code && code < bound[i + 1]);
	return found;
}

/* Those that stand for themselves in a string. */
static int32_t emit_themselves(struct grammar* g, const uint32_t* bound, int n, int32_t next) {
	static const uint32_t itself[][2] = {{0x20, '"'}, {'#', '\\'}, {']', 0x110000}};
	uint32_t* rest = malloc(((size_t)n + 2) * sizeof *rest);
	int32_t all = NOWHERE;
	int kept = 0;
	g->failed = g->failed || !rest;
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < n; j += 2) {
			const uint32_t low = bound[j] > itself[i][0] ? bound[j] : itself[i][0],
			               past = bound[j + 1] < itself[i][1] ? bound[j + 1] : itself[i][1];
			if (low < past && past <= 0x80)
				all = emit_split(g, emit_range(g, (uint8_t)low, (uint8_t)(past - 1), next), all);
		}
	for (int j = 0; j < n && !g->failed; j += 2) {
		const uint32_t low = bound[j] > ']' ? bound[j] : ']';
		if (bound[j + 1] > 0x80 && low < bound[j + 1]) {
			rest[kept++] = low;
			rest[kept++] = bound[j + 1];
		}
	}
	if (kept > 0)
		all = emit_split(g, emit_characters(g, rest, kept, next), all);
	free(rest);
	return all;
}

int32_t emit_json_characters_once(struct grammar* g, const uint32_t* bound, int n, int32_t next) {
	static const char letter[] = "btnfr\"\\", means[] = "\b\t\n\f\r\"\\";
	int32_t all = emit_themselves(g, bound, n, next);
	for (uint32_t code = 0; code < 0x80; code++) {
		const char* const short_way = code ? strchr(means, (int)code) : NULL;
		char text[8];
		if ((code >= 0x20 && !short_way) || !range_holds(bound, n, code))
			continue;
		if (short_way)
			snprintf(text, sizeof text, "\\%c", letter[short_way - means]);
		else
			snprintf(text, sizeof text, "\\u%04x", code);
		all = emit_split(g, emit_text(g, text, strlen(text), next), all);
	}
	return all;
}

int32_t emit_json_characters(struct grammar* g, const uint32_t* bound, int n, int32_t next) {
	static const struct digit pair[] = {{"\\u", 0, true, 13}, {"", 2, true, 8},     {"", 4, true, 0},
	                                    {"", 4, true, 0},     {"\\u", 0, true, 13}, {"", 2, true, 12},
	                                    {"", 4, true, 0},     {"", 4, true, 0}};
	/* these have a number, or a letter */
	static const uint32_t numbered[][2] = {
	    {0, 0x20}, {'"', '"' + 1}, {'\\', ']'}, {0x7f, 0xd800}, {0xe000, 0x10000}};
	static const char letter[] = "btnfr\"\\/", means[] = "\b\t\n\f\r\"\\/";
	int32_t all = NOWHERE;
	for (int i = 0; i < 5; i++)
		all = emit_split(
		    g, emit_written(g, bound, n, numbered[i][0], numbered[i][1], 0, hexadecimal, 4, next), all);
	all = emit_split(g, emit_written(g, bound, n, 0x10000, 0x110000, 0x10000, pair, 8, next), all);
	for (size_t i = 0; letter[i]; i++)
		if (range_holds(bound, n, (uint8_t)means[i]))
			all = emit_split(g, emit_text(g, (const char[]){'\\', letter[i]}, 2, next), all);
	return emit_split(g, emit_themselves(g, bound, n, next), all);
}

/* ---- the end -------------------------------------------------------------------------------- */

static bool leads_to_end(const struct grammar* g, const uint8_t* ends, int32_t i, bool consumes) {
	const struct instruction* at = &g->at[i];
	switch (at->opcode) {
	case OP_RETURN:
		return true;
	case OP_SPLIT:
		return ends[at->next] || ends[at->other];
	case OP_CALL:
		return ends[at->next] && g->rule[at->other] != NOWHERE && ends[g->rule[at->other]];
	case OP_RANGE:
		return consumes && ends[at->next];
	default:
		return ends[at->next];
	}
}

/* (n) marks the instructions from which the rule can end, with or without consuming bytes. NULL on no memory.
 * Later parts were emitted first, so few rounds find all. */
static uint8_t* find_ends(const struct grammar* g, bool consumes) {
	uint8_t* ends = calloc((size_t)g->n, 1);
	bool changed = ends != NULL;
	while (changed) {
		changed = false;
		for (int32_t i = 0; i < g->n; i++)
			if (!ends[i] && leads_to_end(g, ends, i, consumes))
				ends[i] = changed = true;
	}
	return ends;
}

/* True when the rule reaches a call of itself through instructions that consume nothing. seen, stack: (n) */
static bool begins_with_itself(const struct grammar* g, const uint8_t* empty, int rule, uint8_t* seen,
                               int32_t* stack) {
	int n = 0;
	memset(seen, 0, (size_t)g->n);
	for (int32_t at = g->rule[rule]; at != NOWHERE; at = n > 0 ? stack[--n] : NOWHERE) {
		const struct instruction* i = &g->at[at];
		const bool call = i->opcode == OP_CALL, counts = i->opcode >= OP_BEGIN;
		const int32_t start = call ? g->rule[i->other] : counts ? NOWHERE : i->other;
		if (call && i->other == rule)
			return true;
		if (seen[at] || i->opcode == OP_RANGE || i->opcode == OP_RETURN)
			continue;
		seen[at] = 1;
		if (start != NOWHERE)
			stack[n++] = start;
		if (!call || (start != NOWHERE && empty[start]))
			stack[n++] = i->next;
	}
	return false;
}

int program_left_recursion(struct grammar* g) {
	uint8_t *empty = find_ends(g, false), *seen = malloc((size_t)g->n);
	int32_t* stack = malloc(2 * (size_t)g->n * sizeof *stack); /* each leads to two */
	int found = NOWHERE;
	g->failed = !empty || !seen || !stack;
	for (int rule = 0; rule < g->n_rules && found == NOWHERE && !g->failed; rule++)
		if (begins_with_itself(g, empty, rule, seen, stack))
			found = rule;
	free(empty);
	free(seen);
	free(stack);
	return found;
}

/* Splits lead only to places from which a text can end. A schema that contains itself has ways that never
 * do. */
static bool prune_program(struct grammar* g) {
	uint8_t* ends = find_ends(g, true);
	for (int32_t i = 0; ends && i < g->n; i++) {
		struct instruction* at = &g->at[i];
		if (at->opcode == OP_SPLIT && ends[i]) {
			at->next = ends[at->next] ? at->next : at->other;
			at->other = ends[at->other] ? at->other : at->next;
		}
	}
	if (!ends || g->rule[0] == NOWHERE || !ends[g->rule[0]])
		g->rule[0] = NOWHERE;
	free(ends);
	return ends != NULL;
}

struct grammar* program_close(struct grammar* g, bool good, struct error* error) {
	if (good && (g->failed || !prune_program(g)))
		good =
		    error_set(error, "the grammar is too large: more than %d instructions or %d rules, or no memory",
		              GRAMMAR_INSTRUCTIONS, GRAMMAR_RULES);
	else if (good && g->rule[0] == NOWHERE)
		good = error_set(error, "the grammar allows no text at all");
	if (good)
		return g;
	grammar_free(g);
	return NULL;
}
