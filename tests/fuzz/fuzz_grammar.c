/* Schemas and expressions of strangers: compiled or refused, then walked a little way. */
#include <stddef.h>
#include <stdint.h>

#include "core/grammar/grammar.h"
#include "core/grammar/states.h"
#include "tests/fuzz/mutate_json.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error;
	if (size < 2)
		return 0;
	const char* text = (const char*)data + 1;
	struct grammar* grammar = data[0] % 3 == 1
	                              ? grammar_from_json_schema(text, size - 1, (data[0] & 64) != 0, &error)
	                          : data[0] % 3 == 2 ? grammar_from_gbnf(text, size - 1, &error)
	                                             : grammar_from_regex(text, size - 1, &error);
	if (!grammar)
		return 0;
	struct states* states = states_open(grammar);
	int at = states ? states_start(states) : STATE_DEAD;
	uint32_t seed = data[0];
	for (int step = 0; states && step < 200 && at != STATE_DEAD; step++) {
		int next = STATE_DEAD;
		for (int tries = 0; tries < 256 && next == STATE_DEAD; tries++) {
			seed = seed * 1664525u + 1013904223u;
			next = states_step(states, at, (uint8_t)(seed >> 16));
		}
		at = states_filling(states) ? states_renew(states, next) : next;
	}
	states_close(states);
	grammar_free(grammar);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 1, seed); /* the first says what the document is */
}
