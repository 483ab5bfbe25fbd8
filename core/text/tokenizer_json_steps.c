/* tokenizer.json's normalizer, pre_tokenizer, decoder and post_processor. */
#include <string.h>

#include "core/text/pretokenize_named.h"
#include "core/text/tokenizer_json.h"

/* Whitespace is written in Rust's dialect, in which \w is this. */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

enum { MAX_DEPTH = 8 }; /* of Sequences within Sequences */

const char* tokenizer_json_type(const cJSON* section) {
	const cJSON* type = json_field(section, "type");
	return cJSON_IsString(type) ? type->valuestring : "";
}

bool tokenizer_json_flag(const cJSON* section, const char* field, bool otherwise) {
	const cJSON* item = json_field(section, field);
	return cJSON_IsBool(item) ? cJSON_IsTrue(item) != 0 : otherwise;
}

static bool is(const char* a, const char* b) { return strcmp(a, b) == 0; }

static const char* text_of(const cJSON* section, const char* field) {
	const cJSON* item = json_field(section, field);
	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool missing(const char* section, const char* type, const char* field, struct error* error) {
	return error_set(error, "tokenizer.json: %s %s: expected a field \"%s\"", section, type, field);
}

/* pattern: {"String": …} or {"Regex": …}. */
static const char* pattern_of(const cJSON* section, bool* regex) {
	const cJSON* pattern = json_field(section, "pattern");
	const char* text = text_of(pattern, "Regex");
	*regex = text != NULL;
	return text ? text : text_of(pattern, "String");
}

/* A step, or one after the other those of a Sequence, which are listed under `list`. */
static bool add_each(struct tokenizer* t, const cJSON* section, const char* list,
                     bool (*add)(struct tokenizer*, const cJSON*, struct error*), int depth,
                     struct error* error) {
	if (!is(tokenizer_json_type(section), "Sequence") || depth == MAX_DEPTH)
		return add(t, section, error);
	const cJSON* inner;
	cJSON_ArrayForEach (inner, json_field(section, list)) {
		if (!add_each(t, inner, list, add, depth + 1, error))
			return false;
	}
	return true;
}

/* ---- normalizer --------------------------------------------------------------------------- */

static bool add_replace(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	const char* pattern = pattern_of(section, &regex);
	const char* content = text_of(section, "content");
	if (!pattern || !*pattern || !content)
		return missing("normalizer", "Replace", pattern && *pattern ? "content" : "pattern", error);
	struct normalize_step* step = normalizer_add_text(&t->normalizer, NORMALIZE_REPLACE, pattern,
	                                                  strlen(pattern), content, strlen(content), error);
	if (step && regex)
		step->expression = expression_compile(pattern, strlen(pattern), error);
	return step && (!regex || step->expression);
}

static bool add_prepend(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* text = text_of(section, "prepend");
	if (!text)
		return missing("normalizer", "Prepend", "prepend", error);
	return normalizer_add_text(&t->normalizer, NORMALIZE_PREPEND, NULL, 0, text, strlen(text), error) != NULL;
}

static bool add_strip(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct normalize_step* step = normalizer_add(&t->normalizer, NORMALIZE_STRIP, error);
	if (!step)
		return false;
	step->left = tokenizer_json_flag(section, "strip_left", true);
	step->right = tokenizer_json_flag(section, "strip_right", true);
	return true;
}

static bool add_normalizer(struct tokenizer* t, const cJSON* section, struct error* error) {
	static const struct {
		const char* name;
		enum normalize_kind kind;
	} plain[] = {{"NFC", NORMALIZE_NFC},
	             {"NFD", NORMALIZE_NFD},
	             {"NFKC", NORMALIZE_NFKC},
	             {"NFKD", NORMALIZE_NFKD},
	             {"Lowercase", NORMALIZE_LOWERCASE},
	             {"StripAccents", NORMALIZE_STRIP_ACCENTS}};
	const char* type = tokenizer_json_type(section);
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		if (is(type, plain[i].name))
			return normalizer_add(&t->normalizer, plain[i].kind, error) != NULL;
	if (is(type, "Replace"))
		return add_replace(t, section, error);
	if (is(type, "Prepend"))
		return add_prepend(t, section, error);
	if (is(type, "Strip"))
		return add_strip(t, section, error);
	return error_set(error,
	                 "tokenizer.json: normalizer \"%.60s\" is not supported, expected NFC, NFD, NFKC, NFKD, "
	                 "Lowercase, StripAccents, Strip, Replace, Prepend or a Sequence of these",
	                 type);
}

/* ---- pre_tokenizer ------------------------------------------------------------------------ */

static bool read_behavior(const cJSON* section, enum split_behavior otherwise, enum split_behavior* out,
                          struct error* error) {
	static const char* const name[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
	                                   "Contiguous"};
	const char* text = text_of(section, "behavior");
	*out = otherwise;
	if (!text)
		return true;
	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
		if (is(text, name[i])) {
			*out = (enum split_behavior)i;
			return true;
		}
	}
	return error_set(error, "tokenizer.json: pre_tokenizer %s: behavior \"%.40s\" is not supported",
	                 tokenizer_json_type(section), text);
}

/* A string to look for as an expression. */
static bool quote(const char* text, struct buffer* out) {
	for (; *text; text++) {
		if (strchr("\\^$.[|()?*+{}]-#&~/ ", *text))
			buffer_add(out, "\\", 1);
		buffer_add(out, text, 1);
	}
	return !out->failed;
}

static bool add_split(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	enum split_behavior behavior;
	const char* pattern = pattern_of(section, &regex);
	if (!pattern || !*pattern)
		return missing("pre_tokenizer", "Split", "pattern", error);
	if (!read_behavior(section, SPLIT_ISOLATED, &behavior, error))
		return false;
	bool invert = tokenizer_json_flag(section, "invert", false);
	struct buffer text = {0};
	if (regex)
		buffer_add(&text, pattern, strlen(pattern));
	else
		quote(pattern, &text);
	bool good = text.failed
	                ? error_set(error, "no memory for a pre-tokenizer")
	                : pretokenizer_add_split(&t->pretokenizer, text.data, text.size, behavior, invert, error);
	buffer_free(&text);
	return good;
}

static bool add_byte_level(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct pretokenizer* p = &t->pretokenizer;
	if (tokenizer_json_flag(section, "add_prefix_space", true)) {
		if (!pretokenizer_add(p, PRETOKENIZE_SPACE_FIRST, error))
			return false;
	}
	if (tokenizer_json_flag(section, "use_regex", true) &&
	    !pretokenizer_add_split(p, pretokenize_gpt2, strlen(pretokenize_gpt2), SPLIT_ISOLATED, false, error))
		return false;
	return pretokenizer_add(p, PRETOKENIZE_BYTE_LEVEL, error) != NULL;
}

static bool add_metaspace(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* replacement = text_of(section, "replacement");
	const char* scheme = text_of(section, "prepend_scheme");
	struct pretokenize_step* step = pretokenizer_add(&t->pretokenizer, PRETOKENIZE_METASPACE, error);
	if (!step)
		return false;
	replacement = replacement ? replacement : "\xe2\x96\x81";
	if (!*replacement || strlen(replacement) >= sizeof step->replacement)
		return missing("pre_tokenizer", "Metaspace", "replacement", error);
	strcpy(step->replacement, replacement);
	if (!scheme)
		scheme = tokenizer_json_flag(section, "add_prefix_space", true) ? "always" : "never";
	step->prefix = is(scheme, "always")  ? METASPACE_ALWAYS
	               : is(scheme, "first") ? METASPACE_FIRST
	                                     : METASPACE_NEVER;
	if (!tokenizer_json_flag(section, "split", true))
		return true;
	return pretokenizer_add_split(&t->pretokenizer, replacement, strlen(replacement), SPLIT_WITH_NEXT, false,
	                              error);
}

static bool add_pattern(struct tokenizer* t, const char* pattern, enum split_behavior behavior, bool invert,
                        struct error* error) {
	return pretokenizer_add_split(&t->pretokenizer, pattern, strlen(pattern), behavior, invert, error);
}

static bool add_pretokenizer(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* type = tokenizer_json_type(section);
	if (is(type, "Split"))
		return add_split(t, section, error);
	if (is(type, "ByteLevel"))
		return add_byte_level(t, section, error);
	if (is(type, "Metaspace"))
		return add_metaspace(t, section, error);
	if (is(type, "Digits"))
		return add_pattern(t, tokenizer_json_flag(section, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
		                   SPLIT_ISOLATED, false, error);
	if (is(type, "Punctuation")) {
		enum split_behavior behavior;
		return read_behavior(section, SPLIT_ISOLATED, &behavior, error) &&
		       add_pattern(t, "[\\p{P}$+<=>^`|~]", behavior, false, error);
	}
	if (is(type, "Whitespace"))
		return add_pattern(t, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", SPLIT_REMOVED, true, error);
	if (is(type, "WhitespaceSplit"))
		return add_pattern(t, "\\s", SPLIT_REMOVED, false, error);
	return error_set(
	    error,
	    "tokenizer.json: pre_tokenizer \"%.60s\" is not supported, expected ByteLevel, Split, Digits, "
	    "Punctuation, Metaspace, Whitespace, WhitespaceSplit or a Sequence of these",
	    type);
}

/* ---- decoder ------------------------------------------------------------------------------ */

static bool add_decoder_replace(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	const char* pattern = pattern_of(section, &regex);
	const char* content = text_of(section, "content");
	if (!pattern || regex || !content || !is(pattern, "\xe2\x96\x81") || !is(content, " "))
		return error_set(error, "tokenizer.json: decoder Replace: expected U+2581 to be replaced by a space");
	return tokenizer_print_sentencepiece(t, error);
}

static bool add_decoder_strip(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* content = text_of(section, "content");
	int64_t start = 0, stop = 0;
	if (!content || !is(content, " ") || !json_int(section, "tokenizer.json", "start", 0, 1, &start, error) ||
	    !json_int(section, "tokenizer.json", "stop", 0, 0, &stop, error))
		return error_set(error, "tokenizer.json: decoder Strip: expected at most one space at the start");
	t->drops_first_space = start == 1;
	return true;
}

static bool add_decoder_metaspace(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* scheme = text_of(section, "prepend_scheme");
	bool never = scheme ? is(scheme, "never") : !tokenizer_json_flag(section, "add_prefix_space", true);
	t->drops_first_space = !never;
	return tokenizer_print_sentencepiece(t, error);
}

static bool add_decoder(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* type = tokenizer_json_type(section);
	if (is(type, "ByteLevel"))
		return tokenizer_print_byte_level(t, error);
	if (is(type, "Metaspace"))
		return add_decoder_metaspace(t, section, error);
	if (is(type, "Replace"))
		return add_decoder_replace(t, section, error);
	if (is(type, "Strip"))
		return add_decoder_strip(t, section, error);
	if (is(type, "ByteFallback") || is(type, "Fuse"))
		return true; /* byte pieces always print their byte, and pieces always join */
	return error_set(
	    error,
	    "tokenizer.json: decoder \"%.60s\" is not supported, expected ByteLevel, Metaspace, Replace, "
	    "ByteFallback, Fuse, Strip or a Sequence of these",
	    type);
}

/* ---- post_processor ----------------------------------------------------------------------- */

static bool append_id(struct tokenizer* t, struct id_list* list, const cJSON* value, const char* name,
                      struct error* error) {
	int64_t id;
	if (!json_whole(value, 0, t->vocabulary.n - 1, &id))
		return error_set(error, "tokenizer.json: post_processor: \"%.60s\" is no token of the vocabulary",
		                 name);
	if (list->n == (int)(sizeof list->id / sizeof list->id[0]))
		return error_set(error, "tokenizer.json: post_processor: more than %d tokens beside the text",
		                 list->n);
	list->id[list->n++] = (int32_t)id;
	return true;
}

static bool append_named(struct tokenizer* t, struct id_list* list, const cJSON* section, const char* name,
                         struct error* error) {
	const cJSON* table = json_field(section, "special_tokens");
	const cJSON* ids = json_field(json_field(table, name), "ids");
	const cJSON* id;
	if (!cJSON_IsArray(ids))
		return error_set(error, "tokenizer.json: post_processor: \"%.60s\" is not among its special_tokens",
		                 name);
	cJSON_ArrayForEach (id, ids) {
		if (!append_id(t, list, id, name, error))
			return false;
	}
	return true;
}

static bool read_template(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct id_list* list = &t->before;
	const cJSON* entry;
	cJSON_ArrayForEach (entry, json_field(section, "single")) {
		if (json_field(entry, "Sequence")) {
			list = &t->after;
			continue;
		}
		const char* name = text_of(json_field(entry, "SpecialToken"), "id");
		if (!name)
			return error_set(error,
			                 "tokenizer.json: post_processor TemplateProcessing: expected \"single\" to list "
			                 "SpecialToken and Sequence");
		if (!append_named(t, list, section, name, error))
			return false;
	}
	return true;
}

/* BERT's and RoBERTa's: cls and sep as [text, id]. */
static bool read_pair(struct tokenizer* t, const cJSON* section, struct error* error) {
	return append_id(t, &t->before, cJSON_GetArrayItem(json_field(section, "cls"), 1), "cls", error) &&
	       append_id(t, &t->after, cJSON_GetArrayItem(json_field(section, "sep"), 1), "sep", error);
}

static bool add_post_processor(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* type = tokenizer_json_type(section);
	if (is(type, "TemplateProcessing"))
		return read_template(t, section, error);
	if (is(type, "BertProcessing") || is(type, "RobertaProcessing"))
		return read_pair(t, section, error);
	if (is(type, "ByteLevel"))
		return true; /* offsets only */
	return error_set(
	    error,
	    "tokenizer.json: post_processor \"%.60s\" is not supported, expected TemplateProcessing, "
	    "BertProcessing, RobertaProcessing, ByteLevel or a Sequence of these",
	    type);
}

bool tokenizer_json_steps(struct tokenizer* t, const cJSON* root, const char* section, struct error* error) {
	static const struct {
		const char *section, *list; /* of a Sequence */
		bool (*add)(struct tokenizer*, const cJSON*, struct error*);
	} known[] = {{"normalizer", "normalizers", add_normalizer},
	             {"pre_tokenizer", "pretokenizers", add_pretokenizer},
	             {"decoder", "decoders", add_decoder},
	             {"post_processor", "processors", add_post_processor}};
	int i = 0;
	while (!is(known[i].section, section))
		i++;
	const cJSON* steps = json_field(root, section);
	return !steps || add_each(t, steps, known[i].list, known[i].add, 0, error);
}
