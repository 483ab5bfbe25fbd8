/* tokenizer_config.json. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer_json.h"

/* A token's text: a string, or an object with `content`. */
static const char* token_text(const cJSON* config, const char* name) {
	const cJSON* item = json_field(config, name);
	if (cJSON_IsObject(item))
		item = json_field(item, "content");
	return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* An id written as a decimal key, or -1. */
static int64_t id_of_key(const char* key) {
	const size_t digits = key ? strspn(key, "0123456789") : 0;
	return digits > 0 && digits <= 9 && !key[digits] ? strtol(key, NULL, 10) : -1;
}

bool tokenizer_config_add_tokens(const cJSON* config, struct tokenizer* t, struct error* error) {
	const cJSON* decoder = json_field(config, "added_tokens_decoder");
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

/* Sets the id to the token that the config names, and leaves it if it names none. */
static bool resolve_token(const cJSON* config, const char* name, const struct tokenizer* t, int32_t* id,
                          struct error* error) {
	const char* text = token_text(config, name);
	if (text)
		*id = tokenizer_find(t, text);
	return !text || *id >= 0 ||
	       error_set(error, "tokenizer_config.json: %s is \"%.80s\", which the vocabulary does not have",
	                 name, text);
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

bool tokenizer_config_apply(const cJSON* config, struct tokenizer* t, struct error* error) {
	const char* unknown = token_text(config, "unk_token");
	if (!resolve_token(config, "bos_token", t, &t->bos, error) ||
	    !resolve_token(config, "eos_token", t, &t->eos, error))
		return false;
	if (unknown && t->unknown < 0 && !t->lists_added) /* tokenizer.json's model names its own */
		t->unknown = tokenizer_find(t, unknown);
	set_presence(&t->before, t->bos, tokenizer_json_flag(config, "add_bos_token", -1), true);
	set_presence(&t->after, t->eos, tokenizer_json_flag(config, "add_eos_token", -1), false);
	return true;
}
