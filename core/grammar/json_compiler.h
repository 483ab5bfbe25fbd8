/* Shared by the files that compile a JSON Schema: the compiler's state, and what each file offers the others.
 */
#pragma once

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
	MAX_JOINED = 1 << 19, /* JSON values in schemas that the compiler makes */
	MAX_CHAIN = 64,       /* of $ref and allOf */
	MAX_NAMES_DEPTH = 16, /* of propertyNames */
	MAX_ORDER = 4096,     /* names of members in items of a list with uniqueItems */
	MAX_DIFFERENT = 1024  /* items of such a list */
};

/* Keywords of our own, which the compiler writes into the schemas that it makes. */
/* A list of values that are not valid. A "not" with an enum becomes one. */
#define SCHEMA_EXCEPT "\1except"
/* Lists of schemas of one keyword each, of strings and numbers: those that must hold too, and those that must
 * not hold. */
#define SCHEMA_ALSO "\1also"
#define SCHEMA_NEVER "\1never"

/* A list of {"propertyNames", "additionalProperties"}: for each, at least one member must keep both. */
#define SCHEMA_SOME "\1some"

/* A schema that must hold too, and that does not evaluate members or items (unevaluatedProperties). */
#define SCHEMA_QUIET "\1quiet"

/* Lists of further groups of keywords that only work together: those of members, of items, and of `contains`.
 * UNSEEN marks a group that does not evaluate members or items. */
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
	int rule;   /* NOWHERE: nothing is valid */
	bool joins; /* the rule is of the schema joined with the keywords beside its $ref */
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
	/* True within a list with uniqueItems: each value is written in one way only, so that items differ if
	 * their texts do. Rules with and without it are kept apart. */
	bool once;
	struct made_rules rules, rules_apart;
	/* True where strings are written as they are, without quotes and escapes. */
	bool bare;
	struct class_rules bare_classes;
	const char** order; /* (n_order) names of members in the order in which objects have them, if `once` */
	int n_order;
	char path[PATH_SIZE]; /* of the schema at hand, for messages */
	size_t path_size;
	cJSON** made; /* (n_made) schemas that were joined, kept until the end */
	int n_made;
	int joined;     /* JSON values in the schemas made so far */
	int negated;    /* references that are being followed to negate them */
	int looks;      /* schemas compared so far to find whether two have values in common */
	bool lost;      /* a way to fail a schema could not be expressed and is left out */
	bool evaluates; /* a keyword depends on which members or items are evaluated */
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

/* These emit code that goes on at `next`, and return its start. NOWHERE: nothing is valid, or the compiler
 * has failed. */
int32_t schema_emit(struct compiler*, const cJSON* schema, int32_t next);
/* Emits a call of what the schema's $ref points to, or with `joins` of the schema joined as a whole. */
int32_t schema_emit_reference(struct compiler*, const cJSON* schema, bool joins, int32_t next);
/* anyOf or oneOf, perhaps with other keywords beside it. */
int32_t schema_emit_combination(struct compiler*, const cJSON* schema, const char* keyword, int32_t next);
void schema_close(struct compiler*);
/* Keeps a schema that was made as long as the compiler lives; NULL: failed. */
const cJSON* schema_kept(struct compiler*, cJSON* made);

/* Whether the list, which may be NULL, has an equal value. */
bool schema_holds(const cJSON* list, const cJSON* value);
/* The types that a schema allows, as it specifies or as its other keywords imply; 0: any. */
unsigned schema_types(struct compiler*, const cJSON* schema);
/* Iterates over the values of a schema's enum or const: the one after `value`, or the first if it is NULL.
 * NULL: there are no more. */
const cJSON* schema_value_after(const cJSON* schema, const cJSON* value);
/* The type of a value, as a set of one. */
unsigned schema_type_of(const cJSON* value);
/* These fail with an error, and return NOWHERE. */
int32_t schema_refuse(struct compiler*, const char* what);
int32_t schema_refuse_keyword(struct compiler*, const char* keyword, const char* why);
int32_t schema_refuse_reference(struct compiler*, const cJSON* reference);

/* `keywords` is a list of words with blanks between. Whether the schema has one of them; whether it has
 * others that constrain its values. */
bool schema_has(const cJSON* schema, const char* keywords);
bool schema_constrains_beyond(const cJSON* schema, const char* keywords);

/* ---- json_merge.c: schemas that the compiler makes; once it has failed, they are incomplete ---- */

/* Fills group (MAX_GROUPS) with the schema itself, if it has one of the keywords, and the groups of the list.
 * Returns how many. */
int schema_groups(const cJSON* schema, const char* list, const char* keywords, const cJSON** group);
/* For a group of items: the number of items with a schema by place, and the schema of the others (NULL:
 * anything). */
int schema_prefix(const cJSON* group);
const cJSON* schema_rest(const cJSON* group);
/* The schema of an item that neither prefixItems nor items evaluates. */
cJSON* schema_other_items(struct compiler*, const cJSON* schema, const cJSON* unevaluated);
/* Sets of JSON types, as "type" lists them: bit i stands for type i of the enum. A number may be an integer.
 */
unsigned schema_type_set(const cJSON* type);
cJSON* schema_type_list(unsigned types);
/* These take ownership of the value, and fail if it is NULL. schema_put replaces an older value. */
void schema_put(struct compiler*, cJSON* object, const char* name, cJSON* value);
void schema_append(struct compiler*, cJSON* list, cJSON* value);
cJSON* schema_wrapped(struct compiler*, const char* keyword, cJSON* value); /* {keyword: value} */
cJSON* schema_pair(struct compiler*, cJSON* a, cJSON* b);                   /* [a, b] */
/* A flat schema: $ref, allOf, not, if, then, else and dependencies are resolved into its other keywords.
 * within: it will be joined with a schema around it. */
cJSON* schema_flat(struct compiler*, const cJSON* schema, bool within);
/* Joins two flat schemas into one whose values are valid under both. Takes ownership of them. */
cJSON* schema_both(struct compiler*, cJSON* a, cJSON* b);
/* The schema without these keywords and without annotations. */
cJSON* schema_without(struct compiler*, const cJSON* schema, const char* keywords);
/* json_conditions.c: a schema's not, if and dependencies as a list of schemas that must hold. */
#define SCHEMA_CONDITIONS "not if dependencies dependentRequired dependentSchemas"
cJSON* schema_conditions(struct compiler*, const cJSON* schema);

/* ---- strings and numbers, as languages: NULL with the compiler failed ------------------------- */

/* The value of a keyword such as minItems, which is a whole number from 0 on. */
int schema_count(struct compiler*, const cJSON* value);
bool schema_is_of_strings(const char* keyword);
bool schema_is_of_numbers(const char* keyword);
/* The strings that are valid under any schema. */
struct language* schema_names(struct compiler*, const cJSON* schema, int depth);
int32_t schema_emit_string(struct compiler*, const cJSON* schema, int32_t next);
/* The schema's strings that are among `within`, as they are. Takes ownership of the language, which may be
 * NULL.
 */
int32_t schema_emit_bare(struct compiler*, const cJSON* schema, struct language* within, int32_t next);
char* schema_number_text(const cJSON* value); /* without exponent and needless zeros; NULL: too long */
int32_t schema_emit_number(struct compiler*, const cJSON* schema, bool whole, int32_t next);
/* The product with the fewest states. Takes ownership of both, which may be NULL. */
struct language* schema_product(struct compiler*, struct language*, struct language*, enum language_product);
/* Returns the language; fails if it is NULL. */
struct language* schema_keep_language(struct compiler*, struct language*);
int32_t schema_emit_any_string(struct compiler*, int32_t next);
int32_t schema_emit_any_number(struct compiler*, bool whole, int32_t next);
/* json_object.c, json_array.c */
int32_t schema_emit_object(struct compiler*, const cJSON* schema, int32_t next);
int32_t schema_emit_array(struct compiler*, const cJSON* schema, int32_t next);
/* json_conditions.c: a schema of values that fail this one, of all of them or of some; NULL: failed. */
cJSON* schema_negated(struct compiler*, const cJSON* schema);
int32_t schema_emit_literal(struct compiler*, const char* text, int32_t next);
int32_t schema_emit_space(struct compiler*, int32_t next);
int32_t schema_emit_comma(struct compiler*, int32_t next); /* what follows has its space */
int32_t schema_emit_any(struct compiler*, int32_t next);
int32_t schema_emit_colon(struct compiler*, int32_t next);
/* A list of `least` to `most` (-1: any number) texts of a rule (0: the rule allows none), with commas
 * between; then `close` if it is empty, else `end`, which white space may precede. schema_emit_more goes on
 * with a list that has items already. */
int32_t schema_emit_list(struct compiler*, int rule, int least, int most, int32_t close, int32_t end);
int32_t schema_emit_more(struct compiler*, int rule, int least, int most, int32_t end);
/* Emits an item of a list with uniqueItems; counts the values that it may have, up to `most`. schema NULL:
 * any value. */
int32_t schema_emit_distinct(struct compiler*, const cJSON* schema, int32_t next);
int schema_count_values(struct compiler*, const cJSON* schema, int most);
/* The position of a member's name in the order that `once` requires. */
int schema_rank(struct compiler*, const char* name);
character_emitter* schema_characters(const struct compiler*); /* those of strings */
/* Gives a rule of the grammar its start, and returns it; 0: it matches nothing. */
int schema_rule(struct compiler*, int rule, int32_t start);
int schema_count_of(struct compiler*, const cJSON* schema, const char* keyword, int otherwise);
/* json_reference.c: rewrites every reference as a pointer from the root; finds what one points to (NULL:
 * nothing).
 */
void schema_point(struct compiler*, cJSON* root);
const cJSON* schema_resolve(const cJSON* root, const cJSON* reference);
/* json_format.c */
bool json_format_is_known(const char* format);
const char* json_format_name(const char* format); /* a static copy of the name; NULL: unknown */
struct language* json_format_language(const char* format, struct error*);

/* Emits the schema's values; schema NULL: any object. NOWHERE with the error set. */
int32_t json_schema_emit(struct grammar*, cJSON* schema, bool literal, int32_t next, struct error*);
