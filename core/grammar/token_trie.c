/* Sorts tokens by their bytes, so that a trie's nodes are met in order. */
#include "core/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/grammar/states.h"

static bool take_bytes(struct token_trie* trie, size_t (*piece)(void*, int32_t, char*, size_t), void* user) {
	size_t capacity = 0, n = 0;
	char out[TRIE_DEPTH];
	for (int i = 0; i < trie->vocab; i++) {
		const size_t size = piece(user, i, out, sizeof out), kept = size > sizeof out ? 0 : size;
		trie->start[i] = (uint32_t)n;
		if (!grow_to(&trie->bytes, &capacity, n + kept + 1, 1))
			return false;
		memcpy(trie->bytes + n, out, kept);
		n += kept;
	}
	trie->start[trie->vocab] = (uint32_t)n;
	return true;
}

static size_t size_of(const struct token_trie* trie, int32_t token) {
	return trie->start[token + 1] - trie->start[token];
}

/* By bytes, then by token. */
static int compare_tokens(const void* a, const void* b, void* user) {
	const struct token_trie* trie = user;
	const int32_t x = *(const int32_t*)a, y = *(const int32_t*)b;
	const size_t m = size_of(trie, x), n = size_of(trie, y);
	const int order = memcmp(trie->bytes + trie->start[x], trie->bytes + trie->start[y], m < n ? m : n);
	return order ? order : m != n ? (m > n) - (m < n) : (x > y) - (x < y);
}

static size_t common_prefix(const struct token_trie* trie, int32_t a, int32_t b) {
	const size_t m = size_of(trie, a), n = size_of(trie, b), least = m < n ? m : n;
	size_t i = 0;
	while (i < least && trie->bytes[trie->start[a] + i] == trie->bytes[trie->start[b] + i])
		i++;
	return i;
}

/* Closes the nodes whose depth is over `depth`. open (TRIE_DEPTH + 1): the open node at each depth. */
static void close_nodes(struct token_trie* trie, const int32_t* open, size_t* depth, size_t to) {
	for (; *depth > to; --*depth)
		trie->node[open[*depth]].past = trie->n;
}

static bool lay_out(struct token_trie* trie, const int32_t* order) {
	int32_t open[TRIE_DEPTH + 1], last = -1;
	size_t depth = 0;
	trie->node = malloc(((size_t)trie->start[trie->vocab] + 1) * sizeof *trie->node);
	if (!trie->node)
		return false;
	for (int i = 0; i < trie->vocab; i++) {
		const int32_t token = order[i];
		const size_t size = size_of(trie, token);
		if (size == 0)
			continue;
		close_nodes(trie, open, &depth, last < 0 ? 0 : common_prefix(trie, last, token));
		while (depth < size) {
			open[depth + 1] = trie->n;
			trie->node[trie->n++] = (struct trie_node){
			    .token = -1, .byte = trie->bytes[trie->start[token] + depth], .depth = (uint8_t)(depth + 1)};
			depth++;
		}
		int32_t* at = &trie->node[open[depth]].token;
		while (*at >= 0)
			at = &trie->same[*at];
		*at = token;
		last = token;
	}
	close_nodes(trie, open, &depth, 0);
	struct trie_node* less = realloc(trie->node, ((size_t)trie->n + 1) * sizeof *less);
	trie->node = less ? less : trie->node;
	return true;
}

/* A path of bytes: whole plain characters up to `begin`, and the beginning of one more. */
struct trie_path {
	int begin, characters;
	bool broken; /* by another character, or by bytes that begin none */
	enum word_kind kind;
};

static bool is_letter(uint8_t byte) { return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'; }

/* The kind of a path that goes on with a whole plain character. */
static enum word_kind extend_word(const struct trie_path* path, const uint8_t* character) {
	const enum word_kind kind = path->kind;
	if (*character == ' ' && path->characters == 0)
		return SPACE_ALONE;
	if (kind == NOT_A_WORD || !(is_letter(*character) || states_is_beyond_ascii(character)))
		return NOT_A_WORD;
	const bool spaced = kind == SPACE_ALONE || kind == SPACED_LETTERS || kind == SPACED_WORD;
	const bool letters = is_letter(*character) && kind != WORD && kind != SPACED_WORD;
	return letters ? spaced ? SPACED_LETTERS : LETTERS : spaced ? SPACED_WORD : WORD;
}

static struct trie_path extend_path(struct trie_path path, const char* bytes, int n) {
	const size_t size = (size_t)(n - path.begin);
	const char* at = bytes + path.begin;
	if (path.broken)
		return path;
	const bool whole = utf8_character(at, size, NULL) == size;
	path.broken = whole ? size == 1 && !states_is_plain((uint8_t)*at) : !utf8_is_beginning(at, size);
	if (path.broken || !whole)
		return path;
	return (struct trie_path){
	    .begin = n, .characters = path.characters + 1, .kind = extend_word(&path, (const uint8_t*)at)};
}

/* Writes the nodes' characters, and (n) kinds of those that are words. */
static void count_characters(struct token_trie* trie, uint8_t* kind) {
	struct trie_path path[TRIE_DEPTH + 1] = {{.kind = LETTERS}};
	char bytes[TRIE_DEPTH];
	for (int i = 0; i < trie->n; i++) {
		struct trie_node* node = &trie->node[i];
		const int depth = node->depth;
		bytes[depth - 1] = (char)node->byte;
		path[depth] = extend_path(path[depth - 1], bytes, depth);
		const bool whole = !path[depth].broken && path[depth].begin == depth;
		node->characters = whole ? (uint8_t)path[depth].characters : 0;
		kind[i] = (uint8_t)(whole ? path[depth].kind : NOT_A_WORD);
		trie->longest = depth > trie->longest ? depth : trie->longest;
	}
}

static void list_plain(struct token_trie* trie) {
	int n = 0;
	for (int i = 0; i < trie->n; i++) {
		const struct trie_node* node = &trie->node[i];
		trie->plain_before[i] = n;
		for (int32_t t = node->characters ? node->token : -1; t >= 0; t = trie->same[t]) {
			const struct plain_token plain = {t, node->characters};
			trie->plain[n++] = plain;
			if (plain.characters >= PLAIN_LENGTHS)
				trie->plain_long[trie->n_plain_long++] = plain;
			for (int most = plain.characters; most < PLAIN_LENGTHS; most++)
				trie->plain_bits[(size_t)most * trie->words + (size_t)t / 64] |= (uint64_t)1 << (t & 63);
		}
	}
	trie->plain_before[trie->n] = n;
}

/* Copies the nodes at or below which a kept token ends. keeps (n): whether those that end at a node are;
 * before (n + 1): how many are copied before each node. Returns how many. */
static int copy_nodes(const struct token_trie* trie, const uint8_t* keeps, struct trie_node* out,
                      int32_t* before) {
	int n = 0;
	before[0] = 0; /* first of such tokens' nodes alone */
	for (int i = 0; i < trie->n; i++)
		before[i + 1] = before[i] + keeps[i];
	for (int i = 0; i < trie->n; i++) {
		const bool has = before[trie->node[i].past] > before[i];
		before[i] = n;
		if (!has)
			continue;
		out[n] = trie->node[i];
		out[n++].token = keeps[i] ? trie->node[i].token : -1;
	}
	before[trie->n] = n;
	for (int i = 0; i < n; i++)
		out[i].past = before[out[i].past];
	return n;
}

/* The nodes that tokens end at or below which are not plain, and which are no words. kind: (n) */
static void list_others(struct token_trie* trie, const uint8_t* kind, uint8_t* keeps, int32_t* before) {
	for (int i = 0; i < trie->n; i++)
		keeps[i] = trie->node[i].token >= 0 && !trie->node[i].characters;
	trie->n_other = copy_nodes(trie, keeps, trie->other, trie->other_before);
	for (int i = 0; i < trie->n; i++) {
		const bool word = kind[i] < WORD_KINDS;
		keeps[i] = trie->node[i].token >= 0 && !word;
		for (int32_t t = word ? trie->node[i].token : -1; t >= 0; t = trie->same[t])
			trie->word_bits[kind[i] * trie->words + (size_t)t / 64] |= (uint64_t)1 << (t & 63);
	}
	trie->n_rest = copy_nodes(trie, keeps, trie->rest, before);
}

static bool sort_out_plain(struct token_trie* trie) {
	const size_t nodes = (size_t)trie->n + 1;
	trie->words = ((size_t)trie->vocab + 63) / 64;
	trie->plain = malloc(((size_t)trie->vocab + 1) * sizeof *trie->plain);
	trie->plain_long = malloc(((size_t)trie->vocab + 1) * sizeof *trie->plain_long);
	trie->plain_before = malloc(nodes * sizeof *trie->plain_before);
	trie->other = malloc(nodes * sizeof *trie->other);
	trie->other_before = malloc(nodes * sizeof *trie->other_before);
	trie->plain_bits = calloc(PLAIN_LENGTHS * trie->words + 1, sizeof *trie->plain_bits);
	trie->word_bits = calloc(WORD_KINDS * trie->words + 1, sizeof *trie->word_bits);
	trie->rest = malloc(nodes * sizeof *trie->rest);
	uint8_t *kind = malloc(nodes), *keeps = malloc(nodes);
	int32_t* before = malloc(nodes * sizeof *before);
	const bool good = trie->plain && trie->plain_long && trie->plain_before && trie->other &&
	                  trie->other_before && trie->plain_bits && trie->word_bits && trie->rest && kind &&
	                  keeps && before;
	if (good) {
		count_characters(trie, kind);
		list_plain(trie);
		list_others(trie, kind, keeps, before);
	}
	free(kind);
	free(keeps);
	free(before);
	return good;
}

struct token_trie* token_trie_open(int vocab, size_t (*piece)(void*, int32_t, char*, size_t), void* user) {
	struct token_trie* trie = calloc(1, sizeof *trie);
	if (!trie)
		return NULL;
	trie->vocab = vocab;
	trie->same = malloc(((size_t)vocab + 1) * sizeof *trie->same);
	trie->start = malloc(((size_t)vocab + 1) * sizeof *trie->start);
	int32_t* order = malloc(((size_t)vocab + 1) * sizeof *order);
	bool good = trie->same && trie->start && order && take_bytes(trie, piece, user);
	for (int i = 0; good && i < vocab; i++) {
		order[i] = i;
		trie->same[i] = -1;
	}
	if (good) {
		qsort_r(order, (size_t)vocab, sizeof *order, compare_tokens, trie);
		good = lay_out(trie, order) && sort_out_plain(trie);
	}
	free(order);
	if (good)
		return trie;
	token_trie_free(trie);
	return NULL;
}

void token_trie_free(struct token_trie* trie) {
	if (!trie)
		return;
	free(trie->node);
	free(trie->plain);
	free(trie->plain_before);
	free(trie->plain_long);
	free(trie->plain_bits);
	free(trie->other);
	free(trie->other_before);
	free(trie->word_bits);
	free(trie->rest);
	free(trie->same);
	free(trie->start);
	free(trie->bytes);
	free(trie);
}
