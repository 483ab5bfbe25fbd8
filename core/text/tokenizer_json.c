/* tokenizer.json, the Hugging Face tokenizers' own file: the vocabulary and added tokens. */
#include "core/text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static enum piece_type type_of(const struct tokenizer* t, const char* text) {
	return t->byte_fallback && piece_byte(text, strlen(text)) >= 0 ? PIECE_BYTE : PIECE_NORMAL;
}

/* ---- model -------------------------------------------------------------------------------- */

static bool read_pieces(struct tokenizer* t, const cJSON* vocab, struct error* error) {
	static const char where[] = "tokenizer.json: model.vocab";
	if (!cJSON_IsObject(vocab))
		return error_set(error, "%s: expected an object of pieces and their ids", where);
	vocabulary_expect(&t->vocabulary, cJSON_GetArraySize(vocab));
	const cJSON* entry;
	cJSON_ArrayForEach (entry, vocab) {
		int64_t id;
		if (!json_whole(entry, 0, MAX_VOCABULARY - 1, &id))
			return error_set(error, "%s: piece \"%.60s\": expected an id from 0 to %d", where, entry->string,
			                 MAX_VOCABULARY - 1);
		if (!vocabulary_set(&t->vocabulary, id, entry->string, strlen(entry->string),
		                    type_of(t, entry->string), 0, error))
			return tokenizer_fail_in(where, error);
	}
	return true;
}

static bool read_scored_pieces(struct tokenizer* t, const cJSON* vocab, struct error* error) {
	int n = cJSON_GetArraySize(vocab);
	if (!cJSON_IsArray(vocab) || n == 0)
		return error_set(error, "tokenizer.json: model.vocab: expected an array of [piece, score]");
	vocabulary_expect(&t->vocabulary, n);
	const cJSON* entry;
	int id = 0;
	cJSON_ArrayForEach (entry, vocab) {
		const cJSON* piece = cJSON_GetArrayItem(entry, 0);
		const cJSON* score = cJSON_GetArrayItem(entry, 1);
		if (!cJSON_IsString(piece) || !cJSON_IsNumber(score))
			return error_set(error, "tokenizer.json: model.vocab: entry %d: expected [piece, score]", id);
		const char* text = piece->valuestring;
		if (!vocabulary_set(&t->vocabulary, id, text, strlen(text), type_of(t, text), score->valuedouble,
		                    error))
			return false;
		id++;
	}
	return true;
}

static bool read_merges(struct tokenizer* t, const cJSON* merges, struct error* error) {
	if (!cJSON_IsArray(merges))
		return error_set(error, "tokenizer.json: model.merges: expected an array");
	if (!tokenizer_start_merges(t, (size_t)cJSON_GetArraySize(merges), error))
		return false;
	const cJSON* entry;
	cJSON_ArrayForEach (entry, merges) {
		const cJSON* left = cJSON_IsArray(entry) ? entry->child : NULL;
		const cJSON* right = left ? left->next : NULL;
		bool good;
		if (cJSON_IsString(entry))
			good = tokenizer_add_merge_line(t, entry->valuestring, strlen(entry->valuestring), error);
		else if (cJSON_IsString(left) && cJSON_IsString(right) && !right->next)
			good = tokenizer_add_merge(t, left->valuestring, strlen(left->valuestring), right->valuestring,
			                           strlen(right->valuestring), error);
		else
			return error_set(error,
			                 "tokenizer.json: model.merges: entry %zu: expected \"left right\" or two pieces",
			                 t->merges.n);
		if (!good)
			return tokenizer_fail_in("tokenizer.json: model.merges", error);
	}
	return true;
}

/* Fields of the BPE model that would change the ids and that nothing here does. */
static bool refuse_unsupported(const cJSON* model, struct error* error) {
	static const char* const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	for (size_t i = 0; i < sizeof affix / sizeof affix[0]; i++) {
		const cJSON* item = json_field(model, affix[i]);
		if (cJSON_IsString(item) && *item->valuestring)
			return error_set(error, "tokenizer.json: model.%s \"%.40s\" is not supported", affix[i],
			                 item->valuestring);
	}
	const cJSON* dropout = json_field(model, "dropout");
	if (cJSON_IsNumber(dropout) && dropout->valuedouble > 0)
		return error_set(error, "tokenizer.json: model.dropout is %g, expected none", dropout->valuedouble);
	return true;
}

static bool read_model(struct tokenizer* t, const cJSON* model, struct error* error) {
	const char* type = tokenizer_json_type(model);
	t->byte_fallback = tokenizer_json_flag(model, "byte_fallback", false);
	const cJSON* vocab = json_field(model, "vocab");
	if (strcmp(type, "Unigram") == 0 || (!*type && cJSON_IsArray(vocab))) {
		t->kind = TOKENIZER_UNIGRAM;
		t->fuse_unknown = true;
		return read_scored_pieces(t, vocab, error);
	}
	if (strcmp(type, "BPE") != 0 && (*type || !json_field(model, "merges")))
		return error_set(error, "tokenizer.json: model \"%.60s\" is not supported, expected BPE or Unigram",
		                 type);
	t->kind = TOKENIZER_RANKED;
	t->fuse_unknown = tokenizer_json_flag(model, "fuse_unk", false);
	t->ignore_merges = tokenizer_json_flag(model, "ignore_merges", false);
	return refuse_unsupported(model, error) && read_pieces(t, vocab, error);
}

static bool find_unknown(struct tokenizer* t, const cJSON* model, struct error* error) {
	const cJSON* name = json_field(model, "unk_token");
	const cJSON* id = json_field(model, "unk_id");
	int64_t value = -1;
	if (cJSON_IsString(name)) {
		value = vocabulary_find(&t->vocabulary, name->valuestring, strlen(name->valuestring));
		if (value < 0)
			return error_set(error,
			                 "tokenizer.json: model.unk_token \"%.60s\" is not a piece of the vocabulary",
			                 name->valuestring);
	} else if (id && !json_whole(id, 0, t->vocabulary.n - 1, &value)) {
		return error_set(error, "tokenizer.json: model.unk_id is not a piece of the vocabulary");
	}
	t->unknown = (int32_t)value;
	return true;
}

/* ---- added tokens ------------------------------------------------------------------------- */

/* Sets the piece, or flags it where the vocabulary has it already. */
static bool set_added(struct tokenizer* t, int64_t id, const char* text, bool special, const char* where,
                      struct error* error) {
	struct vocabulary* v = &t->vocabulary;
	size_t size = strlen(text);
	if (id >= v->n || v->piece[id].type == PIECE_ABSENT) {
		if (!vocabulary_set(v, id, text, size, special ? PIECE_CONTROL : PIECE_USER_DEFINED, 0, error))
			return false;
		v->piece[id].added = true;
		return true;
	}
	struct piece* p = &v->piece[id];
	if (p->text_size != size || memcmp(vocabulary_text(v, (int32_t)id), text, size) != 0)
		return error_set(error, "%s: added token %lld is \"%.60s\", but %s has \"%.*s\" there", where,
		                 (long long)id, text, t->lists_added ? "model.vocab" : "the vocabulary",
		                 (int)(p->text_size < 60 ? p->text_size : 60), vocabulary_text(v, (int32_t)id));
	if (p->type != PIECE_UNKNOWN && (special || p->type != PIECE_BYTE))
		p->type = special ? PIECE_CONTROL : PIECE_USER_DEFINED;
	return true;
}

bool tokenizer_json_add_token(struct tokenizer* t, const cJSON* entry, int64_t id, bool plain_normalized,
                              const char* where, struct error* error) {
	const cJSON* content = json_field(entry, "content");
	if (id < 0 || !cJSON_IsString(content) || !*content->valuestring)
		return error_set(error, "%s: expected each added token to have an id and a content", where);
	const char* text = content->valuestring;
	bool special = tokenizer_json_flag(entry, "special", false);
	struct added_token token = {.id = (int32_t)id,
	                            .special = special,
	                            .lstrip = tokenizer_json_flag(entry, "lstrip", false),
	                            .rstrip = tokenizer_json_flag(entry, "rstrip", false),
	                            .single_word = tokenizer_json_flag(entry, "single_word", false)};
	bool normalized = plain_normalized && tokenizer_json_flag(entry, "normalized", !special);
	return set_added(t, id, text, special, where, error) &&
	       tokenizer_add_token(t, text, strlen(text), token, normalized, error);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool fill_vocabulary(struct tokenizer* t, const cJSON* root, struct error* error) {
	const cJSON* model = json_field(root, "model");
	if (!cJSON_IsObject(model))
		return error_set(error, "tokenizer.json: expected an object with a \"model\"");
	if (!tokenizer_json_steps(t, root, "normalizer", error) ||
	    !tokenizer_json_steps(t, root, "pre_tokenizer", error) || !read_model(t, model, error))
		return false;
	vocabulary_expect(&t->vocabulary, cJSON_GetArraySize(json_field(root, "added_tokens")));
	t->lists_added = true;
	const cJSON* entry;
	cJSON_ArrayForEach (entry, json_field(root, "added_tokens")) {
		int64_t id = -1;
		json_whole(json_field(entry, "id"), 0, MAX_VOCABULARY - 1, &id);
		if (!tokenizer_json_add_token(t, entry, id, true, "tokenizer.json: added_tokens", error))
			return false;
	}
	if (!tokenizer_json_steps(t, root, "decoder", error))
		return false;
	if (!vocabulary_seal(&t->vocabulary, error))
		return tokenizer_fail_in("tokenizer.json", error);
	if (!find_unknown(t, model, error) || !tokenizer_json_steps(t, root, "post_processor", error))
		return false;
	return t->kind == TOKENIZER_UNIGRAM || read_merges(t, json_field(model, "merges"), error);
}

/* If the config lacks a field, the post_processor shows it. */
static void default_ends(struct tokenizer* t) {
	if (t->bos < 0 && t->before.n > 0)
		t->bos = t->before.id[0];
	if (t->eos < 0 && t->after.n > 0)
		t->eos = t->after.id[t->after.n - 1];
	tokenizer_default_end(t, &t->bos, "<s>", "");
	tokenizer_default_end(t, &t->eos, "</s>", "");
}

static bool read_tokenizer(struct tokenizer* t, const cJSON* config, const void* source, size_t size,
                           struct error* error) {
	cJSON* root = json_parse(source, size, "tokenizer.json", error);
	const bool good = root && fill_vocabulary(t, root, error);
	if (good && !config)
		default_ends(t);
	cJSON_Delete(root);
	return good;
}

struct tokenizer* tokenizer_from_json(const void* data, size_t size, const char* config,
                                      struct error* error) {
	return tokenizer_make(config, read_tokenizer, data, size, error);
}
