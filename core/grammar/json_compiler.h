/* Shared by the files that compile a schema: the schema, and the place in it. */
#ifndef SWIFTLET_CORE_GRAMMAR_JSON_COMPILER_H
#define SWIFTLET_CORE_GRAMMAR_JSON_COMPILER_H

#include "core/files/json.h"
#include "core/grammar/language.h"
#include "core/grammar/program.h"

enum {
	MAX_PROPERTIES = 1024,
	MAX_SCHEMA_DEPTH = 64,
	MAX_SCHEMAS = 1 << 14,
	MAX_ITEMS = 4096,
	MAX_FORMATS = 32,
	PATH_SIZE = 160,
	MAX_SCHEMAS_EITHER = 256,
	MAX_SCHEMA_BYTES = 512 << 10,
	MAX_JOINED = 1 << 19, /* values of schemas that are made */
	MAX_CHAIN = 64,       /* of $ref and allOf */
	MAX_NAMES_DEPTH = 16, /* of schemas of names */
	MAX_ORDER = 4096,     /* names of members in items that differ */
	MAX_DIFFERENT = 1024  /* items that differ */
};

/* A keyword of our own: values that are not valid, beside an enum. A "not" becomes one. */
#define SCHEMA_EXCEPT "\1except"
/* Lists of schemas of one keyword each, of strings and numbers, that hold besides, and that do not. */
#define SCHEMA_ALSO "\1also"
#define SCHEMA_NEVER "\1never"

/* A list of {"propertyNames", "additionalProperties"}: of each there is some member that keeps both. */
#define SCHEMA_SOME "\1some"

/* A schema that holds besides, and does not constrain which members and items are evaluated. */
#define SCHEMA_QUIET "\1quiet"

/* Lists of groups of keywords that belong together, beside those that the schema itself has: of members, of
 * items, and what an array contains. UNSEEN: a group that does not constrain what is evaluated. */
#define SCHEMA_MEMBERS "\1members"
#define SCHEMA_ITEMS "\1items"
#define SCHEMA_CONTAINS "\1contains"
#define SCHEMA_UNSEEN "\1unseen"
enum { MAX_GROUPS = 64 };

/* Rules that many places call. */
enum shared {
	SHARED_SPACE,
	SHARED_STRING,
	SHARED_NUMBER,
	SHARED_INTEGER,
	SHARED_VALUE,
	SHARED_OBJECT,
	SHARED_ARRAY,
	SHARED_COUNT
};

/* A format's string, made once. */
struct format_rule {
	const char* format;
	int rule;
};

struct reference {
	const cJSON* schema;
	int rule;   /* NOWHERE: it allows nothing */
	bool joins; /* it is the schema joined */
};

/* Rules that were made, to be called again. */
struct made_rules {
	int shared[SHARED_COUNT];    /* 1 + the rule; 0: not made yet */
	struct reference* reference; /* (n_references) */
	int n_references;
	struct class_rules classes;
	struct format_rule format[MAX_FORMATS];
	int n_formats;
};

struct compiler {
	struct grammar* grammar;
	const cJSON* root;
	struct error* error;
	bool failed;
	bool literal; /* what the schema leaves open is allowed */
	int depth, schemas;
	/* Each value has one text: within a list whose items differ, so that items differ as their texts do.
	 * Rules of texts with and without this are made apart. */
	bool once;
	struct made_rules rules, rules_apart;
	const char** order; /* (n_order) names of members in the order in which objects have them, if `once` */
	int n_order;
	char path[PATH_SIZE]; /* of the schema at hand, for messages */
	size_t path_size;
	cJSON** made; /* (n_made) schemas that were joined, kept until the end */
	int n_made;
	int joined;     /* values of schemas that were made so far */
	int negated;    /* references that are being followed for what fails them */
	int looks;      /* at schemas, for whether they have values in common */
	bool lost;      /* a way not to hold could not be said, and is left out */
	bool evaluates; /* somewhere in the schema stands what depends on which members or items are evaluated */
};

enum type {
	TYPE_OBJECT,
	TYPE_ARRAY,
	TYPE_STRING,
	TYPE_NUMBER,
	TYPE_INTEGER,
	TYPE_BOOLEAN,
	TYPE_NULL,
	TYPE_COUNT
};

enum { ALL_TYPES = (1 << TYPE_COUNT) - 1 };

/* The targets of a schema's references. */
const cJSON* schema_followed(const struct compiler*, const cJSON* schema);
/* Each emits before `next`; NOWHERE: nothing is valid, or the compiler has failed. */
int32_t schema_emit(struct compiler*, const cJSON* schema, int32_t next);
/* joins: of the whole schema, joined; else of what its $ref points to. */
int32_t schema_emit_reference(struct compiler*, const cJSON* schema, bool joins, int32_t next);
/* anyOf or oneOf, perhaps with other keywords beside it. */
int32_t schema_emit_combination(struct compiler*, const cJSON* schema, const char* keyword, int32_t next);
/* Joins $ref and allOf with the other keywords, and with what surrounds the schema (NULL: nothing), to
 * one schema that is kept; NULL: failed. */
const cJSON* schema_joined(struct compiler*, const cJSON* schema, const cJSON* around);
const cJSON* schema_kept(struct compiler*, cJSON* made);

/* Whether the list, which may be NULL, has an equal value. */
bool schema_holds(const cJSON* list, const cJSON* value);
/* The types that a schema allows, as it specifies or as its other keywords imply; 0: any. */
unsigned schema_types(struct compiler*, const cJSON* schema);
/* The values that a schema lists, of an enum or else a const: the one after that, or the first; NULL: no
 * more. */
const cJSON* schema_value_after(const cJSON* schema, const cJSON* value);
/* The type of a value, as a set of one. */
unsigned schema_type_of(const cJSON* value);
/* Fails: NOWHERE. */
int32_t schema_refuse(struct compiler*, const char* what);
int32_t schema_refuse_keyword(struct compiler*, const char* keyword, const char* why);
int32_t schema_refuse_reference(struct compiler*, const cJSON* reference);

/* Keywords are lists of words with a blank between. Whether one of them is there; whether the schema has
 * others that say which values are valid. */
bool schema_has(const cJSON* schema, const char* keywords);
bool schema_constrains_beyond(const cJSON* schema, const char* keywords);

/* ---- json_merge.c: schemas that are made. Results of a failed compiler are of no use. --------
 */

/* The groups: the schema itself where it has one of the keywords, and the list's. group: (MAX_GROUPS) */
int schema_groups(const cJSON* schema, const char* list, const char* keywords, const cJSON** group);
/* A group of items: the number of those by place, and the schema of the others; NULL: anything. */
int schema_prefix(const cJSON* group);
const cJSON* schema_rest(const cJSON* group);
/* The schema of an item that no place and no "items" evaluates. */
cJSON* schema_other_items(struct compiler*, const cJSON* schema, const cJSON* unevaluated);
/* Sets of JSON's types, as "type" lists them: bit i is enum type's i. A number may be an integer. */
unsigned schema_type_set(const cJSON* type);
cJSON* schema_type_list(unsigned types);
/* These take the value over, and fail where it is NULL. put: in the place of what is there. */
void schema_put(struct compiler*, cJSON* object, const char* name, cJSON* value);
void schema_append(struct compiler*, cJSON* list, cJSON* value);
cJSON* schema_wrapped(struct compiler*, const char* keyword, cJSON* value); /* {keyword: value} */
cJSON* schema_pair(struct compiler*, cJSON* a, cJSON* b);                   /* [a, b] */
/* The schema without $ref, allOf, not, if, then, else and dependencies, which have become a part of it.
 * within: it is to be joined with what surrounds it. */
cJSON* schema_flat(struct compiler*, const cJSON* schema, bool within);
/* Joins two flat schemas: values are valid under both. Takes them over. */
cJSON* schema_both(struct compiler*, cJSON* a, cJSON* b);
/* The schema without these keywords, and without what only describes. */
cJSON* schema_without(struct compiler*, const cJSON* schema, const char* keywords);
/* json_conditions.c: what a schema's not, if and dependencies come to, as a list of schemas. */
#define SCHEMA_CONDITIONS "not if dependencies dependentRequired dependentSchemas"
cJSON* schema_conditions(struct compiler*, const cJSON* schema);

/* ---- strings and numbers, as languages: NULL with the compiler failed ------------------------- */

/* A count from 0 on. */
int schema_count(struct compiler*, const cJSON* value);
bool schema_is_of_strings(const char* keyword);
bool schema_is_of_numbers(const char* keyword);
/* json_string.c: the strings that a flat schema allows. lengths false: whatever it requires of those. */
struct language* schema_string_language(struct compiler*, const cJSON* schema, bool lengths);
/* The strings that are valid under any schema. */
struct language* schema_names(struct compiler*, const cJSON* schema, int depth);
int32_t schema_emit_string(struct compiler*, const cJSON* schema, int32_t next);
/* json_number.c: the numbers. */
struct language* schema_number_language(struct compiler*, const cJSON* schema, bool whole);
struct language* schema_numbers(struct compiler*, bool whole); /* all of them, without exponents */
char* schema_number_text(const cJSON* value); /* without exponent and needless zeros; NULL: too long */
int32_t schema_emit_number(struct compiler*, const cJSON* schema, bool whole, int32_t next);
/* Takes the two over, which may be NULL; as few states as can be. */
struct language* schema_product(struct compiler*, struct language*, struct language*, enum product);
/* The same; fails where it is NULL. */
struct language* schema_keep_language(struct compiler*, struct language*);
int32_t schema_emit_any_string(struct compiler*, int32_t next);
int32_t schema_emit_any_number(struct compiler*, bool whole, int32_t next);
/* json_object.c, json_array.c */
int32_t schema_emit_object(struct compiler*, const cJSON* schema, int32_t next);
int32_t schema_emit_array(struct compiler*, const cJSON* schema, int32_t next);
/* json_conditions.c: what the schema leaves, or a part of it; NULL: failed. */
cJSON* schema_negated(struct compiler*, const cJSON* schema);
/* Any texts, with or without leading white space. */
int32_t schema_emit_literal(struct compiler*, const char* text, int32_t next);
int32_t schema_emit_space(struct compiler*, int32_t next);
int32_t schema_emit_comma(struct compiler*, int32_t next); /* what follows has its space */
int32_t schema_emit_any(struct compiler*, int32_t next);
int32_t schema_emit_constant(struct compiler*, const cJSON* value, int32_t next);
int32_t schema_emit_colon(struct compiler*, int32_t next);
/* An array's items, a map's members: a first, and others after commas. From `least` to `most` (-1: any
 * number) of the rule (0: none is possible), then `close`, or `end` with white space before it. */
int32_t schema_emit_list(struct compiler*, int rule, int least, int most, int32_t close, int32_t end);
int32_t schema_emit_more(struct compiler*, int rule, int least, int most, int32_t end);
/* Emits an item of a list whose items differ, and how many values it may have; `most`, if there are more.
 * schema NULL: any value. */
int32_t schema_emit_distinct(struct compiler*, const cJSON* schema, int32_t next);
int schema_count_values(struct compiler*, const cJSON* schema, int most);
/* The place of a name among the members of objects, if `once`. */
int schema_rank(struct compiler*, const char* name);
character_emitter* schema_characters(const struct compiler*); /* those of strings */
/* A rule of the grammar that starts there; 0: it matches nothing. */
int schema_rule(struct compiler*, int rule, int32_t start);
/* Whether a value's type is one of a set; 0: any. */
bool schema_fits(const cJSON* value, unsigned types);
int schema_count_of(struct compiler*, const cJSON* schema, const char* keyword, int otherwise);
/* json_reference.c: makes every reference a pointer from the root, and what it points to; NULL: nothing. */
void schema_point(struct compiler*, cJSON* root);
const cJSON* schema_resolve(const cJSON* root, const cJSON* reference);
/* json_format.c */
bool json_format_is_known(const char* format);
const char* json_format_name(const char* format); /* ours, for good; NULL: there is no such one */
struct language* json_format_language(const char* format, struct error*);

/* The schema's values, before `next`; NULL: any object. NOWHERE with the error set. */
int32_t json_schema_emit(struct grammar*, cJSON* schema, bool literal, int32_t next, struct error*);

#endif
