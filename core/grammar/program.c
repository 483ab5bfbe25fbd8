/* Emitting programs; characters as ranges of bytes. */
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

/* Once it failed, every instruction is the first: emitting goes on, bounded, to no effect. */
static int32_t emit(struct grammar* g, struct instruction instruction) {
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
		emit(g, (struct instruction){.opcode = OP_RETURN});
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
	return emit(g, (struct instruction){.opcode = OP_RANGE, .low = low, .high = high, .next = next});
}

int32_t emit_split(struct grammar* g, int32_t a, int32_t b) {
	if (a == NOWHERE || b == NOWHERE || a == b)
		return a == NOWHERE ? b : a;
	return emit(g, (struct instruction){.opcode = OP_SPLIT, .next = a, .other = b});
}

int32_t emit_call(struct grammar* g, int rule, int32_t next) {
	if (next == NOWHERE)
		return NOWHERE;
	return emit(g, (struct instruction){.opcode = OP_CALL, .next = next, .other = rule});
}

int32_t emit_text(struct grammar* g, const char* text, size_t size, int32_t next) {
	for (size_t i = size; i-- > 0;)
		next = emit_range(g, (uint8_t)text[i], (uint8_t)text[i], next);
	return next;
}

int32_t emit_loop(struct grammar* g, int32_t next) {
	return emit(g, (struct instruction){.opcode = OP_SPLIT, .next = next, .other = next});
}

void loop_close(struct grammar* g, int32_t loop, int32_t body) {
	if (!g->failed && body != NOWHERE)
		g->at[loop].next = body;
}

/* ---- characters ----------------------------------------------------------------------------- */

/* Characters of one length: where the ends differ in more than their last digits (of 6 bits), the range is
 * cut so that each part is a product of ranges of bytes. */
static int32_t same_length(struct grammar* g, uint32_t low, uint32_t high, int32_t next) {
	char from[4], to[4];
	const int length = (int)utf8_put(low, from);
	utf8_put(high, to);
	for (int digit = 1; digit < length; digit++) {
		const uint32_t rest = ((uint32_t)1 << 6 * digit) - 1;
		if ((low & ~rest) == (high & ~rest))
			break;
		if ((low & rest) != 0) {
			const int32_t a = same_length(g, low, low | rest, next);
			return emit_split(g, a, same_length(g, (low | rest) + 1, high, next));
		}
		if ((high & rest) != rest) {
			const int32_t a = same_length(g, low, (high & ~rest) - 1, next);
			return emit_split(g, a, same_length(g, high & ~rest, high, next));
		}
	}
	for (int i = length; i-- > 0;)
		next = emit_range(g, (uint8_t)from[i], (uint8_t)to[i], next);
	return next;
}

int32_t emit_characters(struct grammar* g, uint32_t low, uint32_t high, int32_t next) {
	static const uint32_t last[] = {0x7f, 0x7ff, 0xd7ff, 0xffff, 0x10ffff},
	                      first[] = {0, 0x80, 0x800, 0xe000, 0x10000};
	int32_t all = NOWHERE;
	for (int i = 0; i < 5; i++) {
		const uint32_t from = low > first[i] ? low : first[i], to = high < last[i] ? high : last[i];
		if (from <= to)
			all = emit_split(g, same_length(g, from, to, next), all);
	}
	return all;
}

static int32_t escaped(struct grammar* g, uint32_t code, int32_t next) {
	static const char letters[] = "btnvfr"; /* of 8 to 13; \v is none of JSON's */
	char text[16] = "\\";
	if (code == '"' || code == '\\')
		text[1] = (char)code;
	else if (code >= 8 && code <= 13 && code != 11)
		text[1] = letters[code - 8];
	else
		snprintf(text, sizeof text, "\\u%04x", code);
	return emit_text(g, text, strlen(text), next);
}

int32_t emit_json_characters(struct grammar* g, uint32_t low, uint32_t high, int32_t next) {
	/* between these, characters stand for themselves */
	static const uint32_t special[] = {'"', '\\', 0x110000};
	int32_t all = NOWHERE;
	for (; low < 0x20 && low <= high; low++)
		all = emit_split(g, escaped(g, low, next), all);
	for (int i = 0; i < 3 && low <= high; i++) {
		if (low > special[i])
			continue;
		if (low < special[i])
			all =
			    emit_split(g, emit_characters(g, low, high < special[i] ? high : special[i] - 1, next), all);
		if (high >= special[i])
			all = emit_split(g, escaped(g, special[i], next), all);
		low = special[i] + 1;
	}
	return all;
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
	default:
		return consumes && ends[at->next];
	}
}

/* (n) whether the rule can end from an instruction on, consuming something or not. NULL on no memory. What
 * follows was emitted first, so that few rounds find all. */
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

/* Whether the rule comes to a call of itself past instructions that consume nothing. seen, stack: (n) */
static bool begins_with_itself(const struct grammar* g, const uint8_t* empty, int rule, uint8_t* seen,
                               int32_t* stack) {
	int n = 0;
	memset(seen, 0, (size_t)g->n);
	for (int32_t at = g->rule[rule]; at != NOWHERE; at = n > 0 ? stack[--n] : NOWHERE) {
		const struct instruction* i = &g->at[at];
		const bool call = i->opcode == OP_CALL;
		const int32_t start = call ? g->rule[i->other] : i->other;
		if (call && i->other == rule)
			return true;
		if (seen[at] || (!call && i->opcode != OP_SPLIT))
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

/* Splits lead only to where a text can end: a schema that asks for itself within itself has ways that never
 * do. */
static bool prune(struct grammar* g) {
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
	if (good && (g->failed || !prune(g)))
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
