/* Any bytes as a line of a stream: read or refused; an id that was read comes back as valid JSON. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/jsonl.h"
#include "streams/report.h"
#include "tests/fuzz/mutate_json.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error = {{0}};
	struct instance instance;
	const bool good = instance_parse((const char*)data, size, &instance, &error);
	if (good && (instance.max_tokens < 1 || (!instance.prompt && instance.chat.n_messages < 1)))
		abort();
	if (good && instance.chat.messages &&
	    !json_check(instance.chat.messages, strlen(instance.chat.messages), NULL))
		abort();
	char* const line = report_error_text(instance.id, 1, error.message);
	if (!line || !json_check(line, strlen(line), NULL))
		abort();
	free(line);
	instance_free(&instance);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
