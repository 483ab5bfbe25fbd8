/* tokenizer_config.json. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer_json.h"

/* A token's text: a string, or an object with `content`. */
static const char* token_text(const cJSON* root, const char* name) {
	const cJSON* item = json_field(root, name);
	if (cJSON_IsObject(item))
		item = json_field(item, "content");
	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static int tristate(const cJSON* root, const char* name) {
	const cJSON* item = json_field(root, name);
	return cJSON_IsBool(item) ? cJSON_IsTrue(item) : -1;
}

bool tokenizer_config_read(struct tokenizer_config* c, const char* text, struct error* error) {
	*c = (struct tokenizer_config){.add_bos = -1, .add_eos = -1, .add_prefix_space = -1, .legacy = -1};
	if (!text)
		return true;
	c->root = json_parse(text, strlen(text), "tokenizer_config.json", error);
	if (!c->root)
		return false;
	if (!cJSON_IsObject(c->root)) {
		tokenizer_config_free(c);
		return error_set(error, "tokenizer_config.json: expected an object");
	}
	c->bos = token_text(c->root, "bos_token");
	c->eos = token_text(c->root, "eos_token");
	c->unknown = token_text(c->root, "unk_token");
	c->add_bos = tristate(c->root, "add_bos_token");
	c->add_eos = tristate(c->root, "add_eos_token");
	c->add_prefix_space = tristate(c->root, "add_prefix_space");
	c->legacy = tristate(c->root, "legacy");
	return true;
}

void tokenizer_config_free(struct tokenizer_config* c) {
	cJSON_Delete(c->root);
	c->root = NULL;
}

/* An id written as a decimal key, or -1. */
static int64_t id_of_key(const char* key) {
	if (!key || !*key || strlen(key) > 9)
		return -1;
	int64_t id = 0;
	for (; *key; key++) {
		if (*key < '0' || *key > '9')
			return -1;
		id = id * 10 + (*key - '0');
	}
	return id;
}

bool tokenizer_config_add_tokens(const struct tokenizer_config* c, struct tokenizer* t, struct error* error) {
	const cJSON* decoder = c->root ? json_field(c->root, "added_tokens_decoder") : NULL;
	if (t->vocabulary.expected == 0)
		vocabulary_expect(&t->vocabulary, t->vocabulary.n);
	vocabulary_expect(&t->vocabulary, cJSON_GetArraySize(decoder));
	const cJSON* entry;
	cJSON_ArrayForEach (entry, decoder) {
		if (!tokenizer_json_add_token(t, entry, id_of_key(entry->string), false,
		                              "tokenizer_config.json: added_tokens_decoder", error))
			return false;
	}
	return true;
}

static bool resolve(const struct tokenizer* t, const char* name, const char* text, int32_t* id,
                    struct error* error) {
	if (!text)
		return true;
	int32_t found = vocabulary_find(&t->vocabulary, text, strlen(text));
	if (found < 0)
		return error_set(error, "tokenizer_config.json: %s is \"%.80s\", which the vocabulary does not have",
		                 name, text);
	*id = found;
	return true;
}

static void set_presence(struct id_list* list, int32_t id, int wanted, bool at_front) {
	if (wanted < 0 || id < 0)
		return;
	int kept = 0;
	for (int i = 0; i < list->n; i++)
		if (list->id[i] != id)
			list->id[kept++] = list->id[i];
	list->n = kept;
	int room = (int)(sizeof list->id / sizeof list->id[0]);
	if (!wanted || list->n == room)
		return;
	int at = at_front ? 0 : list->n;
	memmove(list->id + at + 1, list->id + at, (size_t)(list->n - at) * sizeof list->id[0]);
	list->id[at] = id;
	list->n++;
}

bool tokenizer_config_apply(const struct tokenizer_config* c, struct tokenizer* t, struct error* error) {
	if (!resolve(t, "bos_token", c->bos, &t->bos, error) || !resolve(t, "eos_token", c->eos, &t->eos, error))
		return false;
	if (c->unknown && t->unknown < 0)
		t->unknown = vocabulary_find(&t->vocabulary, c->unknown, strlen(c->unknown));
	set_presence(&t->before, t->bos, c->add_bos, true);
	set_presence(&t->after, t->eos, c->add_eos, false);
	return true;
}
