/* Turns tokens into text that may be shown: whole characters, without any part of a stop string. */
#include "core/decode/session_state.h"

#include <stdlib.h>
#include <string.h>

static size_t find_longest_piece(const struct tokenizer* tokenizer) {
	size_t longest = 8;
	for (int32_t id = 0; id < tokenizer_size(tokenizer); id++) {
		const size_t n = tokenizer_piece(tokenizer, id, false, NULL, 0);
		longest = n > longest ? n : longest;
	}
	return longest;
}

bool emitter_open(struct emitter* e, const struct tokenizer* tokenizer) {
	/* one step's tokens, the bytes of an incomplete character, and the held part of a stop string */
	e->capacity = (MAX_DRAFT + 2) * (find_longest_piece(tokenizer) + 8) + MAX_STOP_BYTES + 64;
	e->text = malloc(e->capacity);
	e->stop = malloc(MAX_STOPS * sizeof *e->stop);
	return e->text && e->stop;
}

void emitter_close(struct emitter* e) {
	free(e->text);
	free(e->stop);
}

bool emitter_start(struct emitter* e, const struct tokenizer* tokenizer,
                   const struct swiftlet_request* request, struct error* error) {
	if (request->n_stop > MAX_STOPS)
		return error_set(error, "%d stop strings: at most %d are allowed", request->n_stop, MAX_STOPS);
	e->stopped_by = -1;
	for (int i = 0; i < request->n_stop; i++) {
		const size_t n = strlen(request->stop[i]);
		if (n == 0 || n > MAX_STOP_BYTES)
			return error_set(error, "stop string %d has %zu bytes: expected 1 to %d", i + 1, n,
			                 MAX_STOP_BYTES);
		memcpy(e->stop[i], request->stop[i], n);
		e->stop_size[i] = n;
	}
	e->n_stops = request->n_stop;
	text_stream_start(&e->stream, tokenizer);
	e->n = e->shown = 0;
	return true;
}

void emitter_step(struct emitter* e) {
	memmove(e->text, e->text + e->shown, e->n - e->shown);
	e->n -= e->shown;
	e->shown = 0;
}

/* The first place where a stop string stands, or -1. */
static ptrdiff_t find_stop(struct emitter* e) {
	ptrdiff_t first = -1;
	for (int i = 0; i < e->n_stops; i++) {
		const char* at = memmem(e->text + e->shown, e->n - e->shown, e->stop[i], e->stop_size[i]);
		if (at && (first < 0 || at - e->text < first)) {
			first = at - e->text;
			e->stopped_by = i;
		}
	}
	return first;
}

/* Bytes at the end that may begin a stop string. */
static size_t count_held_back(const struct emitter* e) {
	size_t most = 0;
	for (int i = 0; i < e->n_stops; i++)
		for (size_t k = e->stop_size[i] - 1; k > most; k--)
			if (k <= e->n - e->shown && memcmp(e->text + e->n - k, e->stop[i], k) == 0)
				most = k;
	return most;
}

bool emitter_add(struct emitter* e, int32_t token) {
	e->n += text_stream_add(&e->stream, token, e->text + e->n, e->capacity - e->n);
	const ptrdiff_t at = find_stop(e);
	if (at >= 0) {
		e->n = e->shown = (size_t)at;
		return true;
	}
	e->shown = e->n - count_held_back(e);
	/* find_stop looks only at text that is not shown yet, since shown bytes begin no stop string */
	return false;
}

void emitter_end(struct emitter* e) {
	e->n += text_stream_end(&e->stream, e->text + e->n, e->capacity - e->n);
	e->shown = e->n;
}

bool session_ends(const struct session* s, int32_t token) {
	for (int i = 0; i < s->n_end_tokens; i++)
		if (s->end_token[i] == token)
			return true;
	return false;
}
