/* Arguments that a model writes as texts between tags (grammar.h, struct grammar_tags). */
#pragma once

#include <cjson/cJSON.h>

#include "core/grammar/grammar.h"

/* Types that a value may have, as a set. */
enum {
	TAG_STRING = 1,
	TAG_NUMBER = 2,
	TAG_BOOLEAN = 4,
	TAG_NULL = 8,
	TAG_LIST = 16,
	TAG_OBJECT = 32,
	TAG_ANY = 63
};

/* The types that a schema within `root` gives its values; TAG_ANY where it plainly gives none. The reader of
 * calls and the grammar must agree on them. */
unsigned json_tag_types(const cJSON* root, const cJSON* schema);
/* The schema within `root` that a reference points to; NULL: none. */
const cJSON* json_tag_resolve(const cJSON* root, const cJSON* reference);
/* The type of a value, as a set of one. */
unsigned json_tag_type(const cJSON* value);

/* Emits the arguments that the schema allows, its members in its order. NOWHERE with the error set if it is
 * no plain list of members, or a text between tags cannot keep it. The schema is changed. */
int32_t json_tags_emit(struct grammar*, cJSON* schema, bool literal, const struct grammar_tags*, int32_t next,
                       struct error*);
