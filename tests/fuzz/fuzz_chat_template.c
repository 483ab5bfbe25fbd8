/* Any bytes as a template and, after a line of "%%" each, messages whose first byte picks the role: a
 * prompt or a message why not; contents make no special token. */
#include <stdlib.h>
#include <string.h>

#include "core/text/chat_template.h"

enum { MAX_MESSAGES = 8 };

static const char small[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\" \":2},\"merges\":[]},\"added_tokens\":["
    "{\"id\":3,\"content\":\"<s>\",\"special\":true},{\"id\":4,\"content\":\"</s>\",\"special\":true},"
    "{\"id\":5,\"content\":\"<|im_end|>\",\"special\":true,\"normalized\":true}]}";
static const char config[] = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";

static int read_messages(char* text, struct chat_message message[MAX_MESSAGES]) {
	static const char* const role[] = {"user", "assistant", "system", "tool"};
	int n = 0;
	while (text && n < MAX_MESSAGES) {
		char* next = strstr(text, "\n%%\n");
		if (next) {
			*next = 0;
			next += 4;
		}
		message[n].role = role[(uint8_t)text[0] % 4];
		message[n].content = text[0] ? text + 1 : text;
		message[n].content_size = strlen(message[n].content);
		n++;
		text = next;
	}
	return n;
}

/* With all contents empty the template alone makes its special tokens. */
static int count_special(const char* template_text, const struct tokenizer* t,
                         const struct chat_message* message, int n) {
	struct error error = {""};
	struct token_list ids = {0};
	int special = -1;
	if (chat_template_encode(template_text, t, message, n, &ids, &error)) {
		special = 0;
		for (int i = 0; i < ids.n; i++)
			special += tokenizer_is_special(t, ids.id[i]);
	} else if (!error.message[0]) {
		abort();
	}
	token_list_free(&ids);
	return special;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static struct tokenizer* t;
	struct error error = {""};
	if (!t)
		t = tokenizer_from_json(small, sizeof small - 1, config, &error);
	if (!t)
		abort();
	char* text = calloc(1, size + 1);
	memcpy(text, data, size);
	char* rest = strstr(text, "\n%%\n");
	if (rest) {
		*rest = 0;
		rest += 4;
	}
	struct chat_message message[MAX_MESSAGES];
	int n = read_messages(rest, message);
	size_t length;
	free(chat_template_text(text, t, message, n, &length, &error));
	int special = count_special(text, t, message, n);
	bool empty = false; /* an empty message may be left out altogether */
	for (int i = 0; i < n; i++) {
		empty |= message[i].content_size == 0;
		message[i].content = "a";
		message[i].content_size = 1;
	}
	if (!empty && special != count_special(text, t, message, n))
		abort();
	free(text);
	return 0;
}
