/* Texts in which a model calls functions. The arguments keep schemas, and the rest of the text is free.
 *
 * Free text continues until its last bytes begin a call. The automaton of Knuth, Morris and Pratt (1977)
 * finds them, and the text may end in each of its states. */
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"
#include "core/grammar/json_tags.h"
#include "core/grammar/states.h"

enum { MAX_TRIGGER = 32 };

/* Arguments are an object, whether the schema requires it or not. */
static void require_object(cJSON* schema) {
	if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(schema, "type")))
		cJSON_DeleteItemFromObjectCaseSensitive(schema, "type");
	if (cJSON_IsObject(schema) && !schema_has(schema, "type $ref allOf anyOf oneOf enum const"))
		cJSON_AddStringToObject(schema, "type", "object");
}

/* Whether the arguments can be written between tags: tried in a program of its own. */
static bool fits_tags(const cJSON* schema, const struct grammar_calls* c) {
	struct error ignored;
	struct grammar* g = c->tags ? program_open(&ignored) : NULL;
	cJSON* const copy = g ? cJSON_Duplicate(schema, true) : NULL;
	const int32_t at = copy ? json_tags_emit(g, copy, c->literal, c->tags, RETURNS, &ignored) : NOWHERE;
	cJSON_Delete(copy);
	if (!g)
		return false;
	g->rule[0] = at;
	g = states_checked(program_close(g, at != NOWHERE, &ignored), &ignored);
	grammar_free(g);
	return g != NULL;
}

static int32_t emit_arguments(struct grammar* g, const char* schema, const struct grammar_calls* c,
                              int32_t next, struct error* error) {
	static const char object[] = "{\"type\": \"object\"}";
	const char* const text = schema ? schema : object;
	cJSON* parsed = json_parse(text, strlen(text), "the tool's parameters", error);
	require_object(parsed);
	const bool tags = parsed && fits_tags(parsed, c);
	const int32_t at = !parsed ? NOWHERE
	                   : tags  ? json_tags_emit(g, parsed, c->literal, c->tags, next, error)
	                           : json_schema_emit(g, parsed, c->literal, next, error);
	cJSON_Delete(parsed);
	const char* const whole = c->tags && c->tags->whole ? c->tags->whole : "";
	return tags || at == NOWHERE ? at : emit_text(g, whole, strlen(whole), at);
}

/* What stands before the arguments, where GRAMMAR_NUMBER may be a part of it. */
static int32_t emit_before(struct grammar* g, const char* text, int32_t next) {
	const char* const number = strstr(text, GRAMMAR_NUMBER);
	if (!number)
		return emit_text(g, text, strlen(text), next);
	const char* const tail = number + strlen(GRAMMAR_NUMBER);
	int32_t at = emit_text(g, tail, strlen(tail), next);
	for (int i = 0, end = at; i < 2; i++)
		at = emit_split(g, emit_range(g, '0', '9', at), end);
	return emit_text(g, text, (size_t)(number - text), emit_range(g, '1', '9', at));
}

/* One of the calls. The first continues the text that has begun it. NOWHERE: a call is impossible. */
static int32_t emit_one(struct grammar* g, const struct grammar_calls* c, bool first, int32_t next,
                        struct error* error) {
	const size_t begun = first ? strlen(c->begun) : 0;
	int32_t all = NOWHERE;
	for (int i = 0; i < c->n; i++) {
		const char* before = first ? c->call[i].first : c->call[i].before;
		if (strncmp(before, c->begun, begun) != 0)
			continue;
		const int32_t after = emit_text(g, c->call[i].after, strlen(c->call[i].after), next);
		const int32_t arguments = emit_arguments(g, c->call[i].schema, c, after, error);
		if (arguments == NOWHERE)
			return NOWHERE;
		all = emit_split(g, emit_before(g, before + begun, arguments), all);
	}
	if (all == NOWHERE)
		error_set(error, "no tool's call begins like this one");
	return all;
}

/* A model may end after its last call, whether the tag is closed or not. */
static int32_t emit_close(struct grammar* g, const struct grammar_calls* c, int32_t next) {
	return c->close ? emit_split(g, emit_text(g, c->close, strlen(c->close), next), RETURNS) : next;
}

static int32_t emit_calls(struct grammar* g, const struct grammar_calls* c, struct error* error) {
	const int32_t end = emit_text(g, c->finish, strlen(c->finish), RETURNS);
	const int32_t loop = c->one ? end : emit_loop(g, end);
	const int32_t more = emit_close(g, c, loop);
	if (!c->one) {
		const int32_t next = emit_one(g, c, false, more, error);
		if (next == NOWHERE)
			return NOWHERE;
		loop_close(g, loop, emit_text(g, c->between, strlen(c->between), next));
	}
	return emit_one(g, c, true, more, error);
}

/* ---- free text ------------------------------------------------------------------------------- */

/* The length of the trigger's longest prefix that ends the text after `matched` bytes of it and then
 * `byte`. */
static int matched_after(const char* trigger, int matched, uint8_t byte) {
	char seen[MAX_TRIGGER + 1];
	memcpy(seen, trigger, (size_t)matched);
	seen[matched] = (char)byte;
	for (int n = matched + 1; n > 0; n--)
		if (memcmp(seen + matched + 1 - n, trigger, (size_t)n) == 0)
			return n;
	return 0;
}

/* Each byte goes on at `to` of it. */
static int32_t emit_bytes(struct grammar* g, const int32_t to[256]) {
	int32_t all = NOWHERE;
	for (int low = 0, past; low < 256; low = past) {
		for (past = low + 1; past < 256 && to[past] == to[low]; past++)
			;
		all = emit_split(g, emit_range(g, (uint8_t)low, (uint8_t)(past - 1), to[low]), all);
	}
	return all;
}

enum { MARK = 0xff }; /* what a special token begins with twice */

/* After one of those bytes: a second one would begin a special token. */
static int32_t emit_unmarked(struct grammar* g, int32_t to[256]) {
	to[MARK] = NOWHERE;
	return emit_split(g, emit_bytes(g, to), RETURNS);
}

/* `calls`: what follows the trigger. Free text has no special tokens, except the trigger, if it is one, and
 * the one that may pass. */
static int32_t emit_free(struct grammar* g, const char* trigger, const char* passes, int32_t calls) {
	const int n = (int)strlen(trigger), mark = (int)strlen(GRAMMAR_SPECIAL);
	const bool special = strncmp(trigger, GRAMMAR_SPECIAL, (size_t)mark) == 0;
	int32_t state[MAX_TRIGGER + 1], to[256];
	for (int i = 0; i < n; i++)
		state[i] = emit_loop(g, RETURNS);
	state[n] = calls;
	for (int byte = 0; byte < 256; byte++)
		to[byte] = state[matched_after(trigger, 0, (uint8_t)byte)];
	const int32_t unmarked = emit_unmarked(g, to);
	for (int i = 0; i < n; i++) {
		const bool named = special && i >= mark; /* no special token begins within another's name */
		for (int byte = 0; byte < 256; byte++) {
			const int matched = matched_after(trigger, i, (uint8_t)byte);
			to[byte] = named && matched != i + 1  ? NOWHERE
			           : byte == MARK && !special ? unmarked
			                                      : state[matched];
		}
		const int32_t bytes = emit_bytes(g, to);
		loop_close(g, state[i],
		           passes && !named ? emit_split(g, emit_text(g, passes, strlen(passes), state[0]), bytes)
		                            : bytes);
	}
	return state[0];
}

/* A text whose first byte that is no white space decides between free text and a call. */
static int32_t emit_first_decides(struct grammar* g, char trigger, int32_t calls) {
	static const char space[] = "\t\n\v\f\r ";
	const int32_t any = emit_loop(g, RETURNS), start = emit_loop(g, RETURNS);
	int32_t to[256];
	for (int byte = 0; byte < 256; byte++)
		to[byte] = any;
	const int32_t unmarked = emit_unmarked(g, to);
	to[MARK] = unmarked;
	loop_close(g, any, emit_bytes(g, to));
	for (int byte = 1; byte < 256; byte++)
		to[byte] = strchr(space, byte) ? start : to[byte];
	to[(uint8_t)trigger] = calls;
	loop_close(g, start, emit_bytes(g, to));
	return start;
}

/* A value in place of calls. */
static int32_t emit_answer(struct grammar* g, const char* schema, bool literal, struct error* error) {
	cJSON* parsed = *schema ? json_parse(schema, strlen(schema), "the schema", error) : NULL;
	const int32_t at = parsed || !*schema ? json_schema_emit(g, parsed, literal, RETURNS, error) : NOWHERE;
	cJSON_Delete(parsed);
	return at;
}

struct grammar* grammar_from_calls(const struct grammar_calls* c, struct error* error) {
	struct grammar* const g = program_open(error);
	if (!g)
		return NULL;
	int32_t start = emit_calls(g, c, error);
	const size_t n = strlen(c->begun);
	bool good = start != NOWHERE && (c->must || c->answer || (n > 0 && n <= MAX_TRIGGER) ||
	                                 error_set(error, "a call begins with %zu bytes", n));
	if (good && c->answer) {
		const int32_t calls = emit_text(g, c->begun, n, start),
		              answer = emit_answer(g, c->answer, c->literal, error);
		start = emit_split(g, calls, answer);
		good = answer != NOWHERE;
	} else if (good && !c->must)
		start = c->at_beginning ? emit_first_decides(g, c->begun[0], start)
		                        : emit_free(g, c->begun, c->passes, start);
	g->rule[0] = start;
	return states_checked(program_close(g, good, error), error);
}
