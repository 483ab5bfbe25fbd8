/* tokenizer.json's normalizer, pre_tokenizer, decoder and post_processor. */
#include <stdio.h>
#include <string.h>

#include "core/text/tokenizer_json.h"

enum { MAX_DEPTH = 8 }; /* of Sequences within Sequences */
#define PUNCTUATION "[\\p{P}$+<=>^`|~]"

const char* tokenizer_json_type(const cJSON* section) {
	const cJSON* type = json_field(section, "type");
	return cJSON_IsString(type) ? type->valuestring : "";
}

int tokenizer_json_flag(const cJSON* section, const char* field, int otherwise) {
	const cJSON* item = json_field(section, field);
	return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

static bool is_equal(const char* a, const char* b) { return strcmp(a, b) == 0; }

static const char* text_of(const cJSON* section, const char* field) {
	const cJSON* item = json_field(section, field);
	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool report_missing(const char* section, const char* type, const char* field, struct error* error) {
	return error_set(error, "tokenizer.json: %s %s: expected a field \"%s\"", section, type, field);
}

/* pattern: {"String": …} or {"Regex": …}. */
static const char* pattern_of(const cJSON* section, bool* regex) {
	const cJSON* pattern = json_field(section, "pattern");
	const char* text = text_of(pattern, "Regex");
	*regex = text != NULL;
	return text ? text : text_of(pattern, "String");
}

/* ---- normalizer --------------------------------------------------------------------------- */

static bool add_composition(struct tokenizer* t, const cJSON* section, struct error* error) {
	static const char* const form[] = {"NFC", "NFD", "NFKC", "NFKD"}; /* in the order of enum step_kind */
	int i = 0;
	while (!is_equal(form[i], tokenizer_json_type(section)))
		i++;
	return steps_add(&t->normalizer, (enum step_kind)(STEP_NFC + i), error) != NULL;
}

static bool add_replace(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	const char* pattern = pattern_of(section, &regex);
	const char* content = text_of(section, "content");
	if (!pattern || !*pattern || !content)
		return report_missing("normalizer", "Replace", pattern && *pattern ? "content" : "pattern", error);
	return steps_add_replace(&t->normalizer, pattern, regex, content, error);
}

static bool add_prepend(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* text = text_of(section, "prepend");
	if (!text)
		return report_missing("normalizer", "Prepend", "prepend", error);
	return steps_add_prepend(&t->normalizer, text, false, false, error);
}

static bool add_simple(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* const type = tokenizer_json_type(section);
	const enum step_kind kind = is_equal(type, "Lowercase")      ? STEP_LOWERCASE
	                            : is_equal(type, "StripAccents") ? STEP_NO_MARKS
	                            : is_equal(type, "Nmt")          ? STEP_NMT
	                                                             : STEP_BYTE_LEVEL;
	return steps_add(&t->normalizer, kind, error) != NULL;
}

static bool add_strip(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct step* const step = steps_add(&t->normalizer, STEP_STRIP, error);
	if (!step)
		return false;
	step->strip_start = tokenizer_json_flag(section, "strip_left", true);
	step->strip_end = tokenizer_json_flag(section, "strip_right", true);
	return true;
}

/* BERT's normalizer is four, each of which can be turned off. */
static bool add_bert(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct steps* const s = &t->normalizer;
	const bool lowercase = tokenizer_json_flag(section, "lowercase", true);
	const bool accents = tokenizer_json_flag(section, "strip_accents", lowercase);
	return (!tokenizer_json_flag(section, "clean_text", true) || steps_add(s, STEP_CLEAN, error)) &&
	       (!tokenizer_json_flag(section, "handle_chinese_chars", true) ||
	        steps_add(s, STEP_SPACED_IDEOGRAPHS, error)) &&
	       (!accents || (steps_add(s, STEP_NFD, error) && steps_add(s, STEP_NO_ACCENTS, error))) &&
	       (!lowercase || steps_add(s, STEP_LOWERCASE, error));
}

/* ---- pre_tokenizer ------------------------------------------------------------------------ */

static bool read_behavior(const cJSON* section, enum split_behavior* out, struct error* error) {
	static const char* const name[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
	                                   "Contiguous"};
	const char* text = text_of(section, "behavior");
	*out = SPLIT_ISOLATED;
	if (!text)
		return true;
	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
		if (is_equal(text, name[i])) {
			*out = (enum split_behavior)i;
			return true;
		}
	}
	return error_set(error, "tokenizer.json: pre_tokenizer %s: behavior \"%.40s\" is not supported",
	                 tokenizer_json_type(section), text);
}

static bool add_split(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	enum split_behavior behavior;
	const char* pattern = pattern_of(section, &regex);
	if (!pattern || !*pattern)
		return report_missing("pre_tokenizer", "Split", "pattern", error);
	if (!read_behavior(section, &behavior, error))
		return false;
	struct step* step = steps_add_split(&t->pretokenizer, pattern, regex, behavior, error);
	if (step)
		step->invert = tokenizer_json_flag(section, "invert", false);
	return step != NULL;
}

static bool add_punctuation(struct tokenizer* t, const cJSON* section, struct error* error) {
	enum split_behavior behavior;
	return read_behavior(section, &behavior, error) &&
	       steps_add_split(&t->pretokenizer, PUNCTUATION, true, behavior, error);
}

/* Pre-tokenizers without settings, as the expressions that they stand for. */
static bool add_words(struct tokenizer* t, const cJSON* section, struct error* error) {
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
	struct steps* const s = &t->pretokenizer;
	if (is_equal(tokenizer_json_type(section), "Whitespace")) {
		struct step* const step =
		    steps_add_split(s, "[" WORDS "]+|[^" WORDS "\\s]+", true, SPLIT_REMOVED, error);
		if (step)
			step->invert = true;
		return step != NULL;
	}
	return steps_add_split(s, "\\s", true, SPLIT_REMOVED, error) &&
	       (is_equal(tokenizer_json_type(section), "WhitespaceSplit") ||
	        steps_add_split(s, PUNCTUATION, true, SPLIT_ISOLATED, error));
}

static bool add_delimiter(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* const delimiter = text_of(section, "delimiter");
	if (!delimiter || !*delimiter)
		return report_missing("pre_tokenizer", "CharDelimiterSplit", "delimiter", error);
	return steps_add_split(&t->pretokenizer, delimiter, false, SPLIT_REMOVED, error);
}

static bool add_fixed_length(struct tokenizer* t, const cJSON* section, struct error* error) {
	enum { LONGEST = 1 << 15 }; /* the most that an expression repeats */
	char pattern[32];
	int64_t length = 5;
	if (!json_int(section, "tokenizer.json", "length", 1, LONGEST, &length, error))
		return false;
	snprintf(pattern, sizeof pattern, "(?m:.{1,%d})", (int)length);
	return steps_add_split(&t->pretokenizer, pattern, true, SPLIT_ISOLATED, error);
}

static bool add_digits(struct tokenizer* t, const cJSON* section, struct error* error) {
	const bool one = tokenizer_json_flag(section, "individual_digits", false);
	return steps_add_split(&t->pretokenizer, one ? "\\p{N}" : "\\p{N}+", true, SPLIT_ISOLATED, error);
}

static bool add_byte_level(struct tokenizer* t, const cJSON* section, struct error* error) {
	struct steps* s = &t->pretokenizer;
	return (!tokenizer_json_flag(section, "add_prefix_space", true) ||
	        steps_add_prepend(s, " ", false, true, error)) &&
	       (!tokenizer_json_flag(section, "use_regex", true) ||
	        steps_add_split(s, pretokenize_gpt2, true, SPLIT_ISOLATED, error)) &&
	       steps_add(s, STEP_BYTE_LEVEL, error);
}

/* How a Metaspace treats the beginning of a text. */
static enum prefix_scheme scheme_of(const cJSON* section) {
	const char* scheme = text_of(section, "prepend_scheme");
	if (!scheme)
		return tokenizer_json_flag(section, "add_prefix_space", true) ? PREFIX_ALWAYS : PREFIX_NEVER;
	return is_equal(scheme, "always")  ? PREFIX_ALWAYS
	       : is_equal(scheme, "first") ? PREFIX_FIRST
	                                   : PREFIX_NEVER;
}

static bool add_metaspace(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* given = text_of(section, "replacement");
	const char* const block = given ? given : "\xe2\x96\x81";
	if (!*block)
		return report_missing("pre_tokenizer", "Metaspace", "replacement", error);
	return steps_add_blocks(&t->pretokenizer, block, scheme_of(section), true, error) &&
	       (!tokenizer_json_flag(section, "split", true) ||
	        steps_add_split(&t->pretokenizer, block, false, SPLIT_WITH_NEXT, error));
}

/* ---- decoder ------------------------------------------------------------------------------ */

static bool print_byte_level(struct tokenizer* t, const cJSON* section, struct error* error) {
	(void)section;
	return tokenizer_print_byte_level(t, error);
}

static bool print_metaspace(struct tokenizer* t, const cJSON* section, struct error* error) {
	t->drops_first_space = scheme_of(section) != PREFIX_NEVER;
	return tokenizer_print_sentencepiece(t, error);
}

static bool print_replaced(struct tokenizer* t, const cJSON* section, struct error* error) {
	bool regex;
	const char* pattern = pattern_of(section, &regex);
	const char* content = text_of(section, "content");
	if (!pattern || regex || !content || !is_equal(pattern, "\xe2\x96\x81") || !is_equal(content, " "))
		return error_set(error, "tokenizer.json: decoder Replace: expected U+2581 to be replaced by a space");
	return tokenizer_print_sentencepiece(t, error);
}

static bool strip_first(struct tokenizer* t, const cJSON* section, struct error* error) {
	const char* content = text_of(section, "content");
	int64_t start = 0, stop = 0;
	if (!content || !is_equal(content, " ") ||
	    !json_int(section, "tokenizer.json", "start", 0, 1, &start, error) ||
	    !json_int(section, "tokenizer.json", "stop", 0, 0, &stop, error))
		return error_set(error, "tokenizer.json: decoder Strip: expected at most one space at the start");
	t->drops_first_space = start == 1;
	return true;
}

/* ---- post_processor ----------------------------------------------------------------------- */

static bool append_id(struct tokenizer* t, struct id_list* list, const cJSON* value, const char* name,
                      struct error* error) {
	int64_t id;
	if (!json_whole(value, 0, t->vocabulary.n - 1, &id))
		return error_set(error, "tokenizer.json: post_processor: \"%.60s\" is not a token of the vocabulary",
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

/* RoBERTa's and BERT's: cls before a text and sep behind it, each a pair of a name and an id. */
static bool read_pair(struct tokenizer* t, const cJSON* section, struct error* error) {
	return append_id(t, &t->before, cJSON_GetArrayItem(json_field(section, "cls"), 1), "cls", error) &&
	       append_id(t, &t->after, cJSON_GetArrayItem(json_field(section, "sep"), 1), "sep", error);
}

/* ---- by name ------------------------------------------------------------------------------ */

static const struct {
	const char *section, *type;
	bool (*add)(struct tokenizer*, const cJSON*, struct error*); /* NULL: nothing is to do */
} known[] = {{"normalizer", "NFC", add_composition},
             {"normalizer", "NFD", add_composition},
             {"normalizer", "NFKC", add_composition},
             {"normalizer", "NFKD", add_composition},
             {"normalizer", "Replace", add_replace},
             {"normalizer", "Prepend", add_prepend},
             {"normalizer", "Lowercase", add_simple},
             {"normalizer", "StripAccents", add_simple},
             {"normalizer", "Nmt", add_simple},
             {"normalizer", "ByteLevel", add_simple},
             {"normalizer", "Strip", add_strip},
             {"normalizer", "BertNormalizer", add_bert},
             {"pre_tokenizer", "ByteLevel", add_byte_level},
             {"pre_tokenizer", "Split", add_split},
             {"pre_tokenizer", "Digits", add_digits},
             {"pre_tokenizer", "Punctuation", add_punctuation},
             {"pre_tokenizer", "Metaspace", add_metaspace},
             {"pre_tokenizer", "Whitespace", add_words},
             {"pre_tokenizer", "WhitespaceSplit", add_words},
             {"pre_tokenizer", "BertPreTokenizer", add_words},
             {"pre_tokenizer", "CharDelimiterSplit", add_delimiter},
             {"pre_tokenizer", "FixedLength", add_fixed_length},
             {"decoder", "ByteLevel", print_byte_level},
             {"decoder", "Metaspace", print_metaspace},
             {"decoder", "Replace", print_replaced},
             {"decoder", "Strip", strip_first},
             {"decoder", "ByteFallback", NULL}, /* byte pieces always print their byte */
             {"decoder", "Fuse", NULL},         /* pieces always join */
             {"post_processor", "TemplateProcessing", read_template},
             {"post_processor", "RobertaProcessing", read_pair},
             {"post_processor", "BertProcessing", read_pair},
             {"post_processor", "ByteLevel", NULL}}; /* offsets only */
enum { KNOWN = sizeof known / sizeof known[0] };

/* A step, or one after the other those of a Sequence: its only array. */
static bool add_each(struct tokenizer* t, const cJSON* steps, const char* section, int depth,
                     struct error* error) {
	const char* type = tokenizer_json_type(steps);
	char expected[240] = "";
	const cJSON *field, *inner;
	if (is_equal(type, "Sequence") && depth < MAX_DEPTH) {
		cJSON_ArrayForEach (field, steps)
			for (inner = cJSON_IsArray(field) ? field->child : NULL; inner; inner = inner->next)
				if (!add_each(t, inner, section, depth + 1, error))
					return false;
		return true;
	}
	for (int i = 0; i < KNOWN; i++) {
		if (!is_equal(known[i].section, section))
			continue;
		if (is_equal(known[i].type, type))
			return !known[i].add || known[i].add(t, steps, error);
		strncat(expected, known[i].type, sizeof expected - strlen(expected) - 1);
		strncat(expected, ", ", sizeof expected - strlen(expected) - 1);
	}
	return error_set(error,
	                 "tokenizer.json: %s \"%.60s\" is not supported, expected %sor a Sequence of these",
	                 section, type, expected);
}

bool tokenizer_json_steps(struct tokenizer* t, const cJSON* root, const char* section, struct error* error) {
	const cJSON* steps = json_field(root, section);
	return !steps || add_each(t, steps, section, 0, error);
}
