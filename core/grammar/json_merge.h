/* Schemas joined: what is valid under several at once, as one schema. For allOf, for keywords beside a $ref
 * or a combination, and for what a oneOf has to leave out. */
#ifndef SWIFTLET_CORE_GRAMMAR_JSON_MERGE_H
#define SWIFTLET_CORE_GRAMMAR_JSON_MERGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* A keyword of our own: values that are not valid, beside an enum. What becomes of a "not". */
#define SCHEMA_EXCEPT "\1except"

struct schema_join {
	const cJSON* root;   /* that references point into */
	const char* problem; /* why nothing was joined; NULL: no memory */
	int work;            /* values of the schemas that were made so far: bounded */
	int nested;          /* conditions within conditions: bounded */
};

/* JSON's types, NULL-ended; a set of them has bit i for name i. */
extern const char* const schema_type_names[];
/* The set as "type" lists it; NULL: no memory. */
cJSON* schema_type_list(unsigned types);

/* What a local reference points to, by RFC 6901; NULL: nothing. */
const cJSON* schema_resolve(const cJSON* root, const char* reference);
/* Whether a keyword says nothing of which values are valid. */
bool schema_describes(const char* keyword);
/* Whether the schema has constraining keywords beside this one. */
bool schema_has_more_than(const cJSON* schema, const char* keyword);

/* The schema without $ref, allOf, not, if, then, else and dependencies, which have become a part of it; where
 * there is another (not NULL), what is valid under both. A new one, or NULL. */
cJSON* schema_flat(struct schema_join*, const cJSON* schema, const cJSON* other);
/* The schema without these keywords, words with a blank between. A new one, or NULL. */
cJSON* schema_without(struct schema_join*, const cJSON* schema, const char* keywords);

/* json_conditions.c: what a schema's not, if and dependencies come to, as schemas in `list`, an array. False
 * with the problem. */
bool schema_conditions(struct schema_join*, const cJSON* schema, cJSON* list);
/* Whether it has any. */
bool schema_has_conditions(const cJSON* schema);

#endif
