/* Judges a whole text. */
#include "core/grammar/states.h"

bool grammar_accepts(const struct grammar* g, const char* text, size_t size) {
	struct states* const s = states_open(g);
	if (!s)
		return false;
	int state = states_start(s);
	for (size_t i = 0; i < size && state != STATE_DEAD; i++) {
		if (states_filling(s))
			state = states_renew(s, state);
		state = states_step(s, state, (uint8_t)text[i]);
	}
	const bool accepted = state != STATE_DEAD && states_ends(s, state);
	states_close(s);
	return accepted;
}
