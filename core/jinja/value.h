/* Values, as Python has them, for templates: immutable but for namespaces and iterators. */
#ifndef SWIFTLET_CORE_JINJA_VALUE_H
#define SWIFTLET_CORE_JINJA_VALUE_H

#include "core/jinja/marked.h"

enum kind {
	ABSENT, /* no value at all: an argument that was not given */
	UNDEFINED,
	NONE,
	BOOLEAN,
	INTEGER,
	FLOAT,
	STRING,
	LIST,
	TUPLE,
	RANGE,    /* a list that prints as range(…) */
	VIEW,     /* what dict.items(), keys() and values() give: a list without an index */
	ITERATOR, /* what map, select… give: a list that is read once */
	DICT,
	NAMESPACE,
	LOOP,
	FUNCTION, /* a method or a global function */
	MACRO
};

struct value {
	enum kind kind;
	uint8_t of;  /* UNDEFINED: the kind of what has no such attribute, ABSENT for a name */
	bool unsafe; /* UNDEFINED: the sandbox keeps it */
	union {
		bool boolean;
		int64_t integer;
		double number;
		const struct string* string; /* UNDEFINED: its name, or NULL */
		struct list* list;           /* LIST to ITERATOR */
		struct dict* dict;           /* DICT, NAMESPACE */
		struct loop* loop;
		const struct function* function;
		const struct macro* macro;
	};
};

struct list {
	struct value* item;
	int n, capacity;
	int at;           /* ITERATOR: read so far */
	const char* name; /* VIEW: "dict_items"… */
};

struct entry {
	struct value key, value;
};

struct dict { /* in the order of first insertion */
	struct entry* entry;
	int n, capacity;
};

/* Arguments of a call. */
struct arguments {
	struct list place;
	struct dict named; /* as they came: one name may be there twice */
};

struct function {
	struct value self; /* whose method it is */
	const struct routine* what;
};

static inline struct value value_none(void) { return (struct value){.kind = NONE}; }
static inline struct value value_boolean(bool b) { return (struct value){.kind = BOOLEAN, .boolean = b}; }
static inline struct value value_integer(int64_t i) { return (struct value){.kind = INTEGER, .integer = i}; }
static inline struct value value_float(double d) { return (struct value){.kind = FLOAT, .number = d}; }
static inline struct value value_string(const struct string* s) {
	return (struct value){.kind = STRING, .string = s};
}
/* name may be NULL. */
static inline struct value value_undefined(const struct string* name) {
	return (struct value){.kind = UNDEFINED, .string = name};
}
/* An empty one of the kinds LIST to ITERATOR. */
struct value value_list(struct machine*, enum kind);
void list_add(struct machine*, struct list*, struct value);
void list_add_all(struct machine*, struct list*, const struct list* more);
struct value value_dict(struct machine*);

struct value value_function(struct machine*, struct value self, const struct routine*);

/* NULL when there is none. Fails on a key that cannot be one (a list). */
struct value* dict_find(struct machine*, const struct dict*, struct value key);
struct value* dict_find_name(struct machine*, const struct dict*, const struct string* name);
void dict_set(struct machine*, struct dict*, struct value key, struct value);
void dict_set_all(struct machine*, struct dict*, const struct dict* more);
/* Behind the others, whether the key is there or not. */
void dict_add(struct machine*, struct dict*, struct value key, struct value);
bool value_is_key(struct value);

const char* value_type(struct value); /* "str", "int", "NoneType"… */
bool value_is_number(struct value);   /* bool, int or float */
double value_number(struct value);    /* of such a one */
bool value_is_whole(struct value);    /* bool or int */
int64_t value_whole(struct value);    /* of such a one */
bool value_truth(struct value);
bool value_equal(struct machine*, struct value, struct value);
/* -1, 0, 1, or 2 when the two are no larger and no smaller; fails when they do not compare at all. */
int value_order(struct machine*, struct value, struct value, const char* sign);
bool value_in(struct machine*, struct value, struct value container);
/* What is iterable as a list: itself where it is one, so not to be changed. Reads an iterator out. */
const struct list* value_items(struct machine*, struct value);
/* len(); -1 when there is none. */
int64_t value_length(struct machine*, struct value);
/* Fails with Undefined's message, or with the sandbox's, where the value is undefined. */
void value_check_defined(struct machine*, struct value);

/* str() and repr(). */
const struct string* value_show(struct machine*, struct value);
void value_write(struct builder*, struct value);
void value_write_repr(struct builder*, struct value);
/* As Python's repr writes it; the size. */
int float_text(double, char out[40]);

/* A value of a JSON text, whose strings are foreign unless trusted (struct jinja_call). Fails naming `what`.
 */
struct value json_value(struct machine*, const char* text, size_t size, const char* what,
                        const char* trusted_member, const char* trusted_words);
/* How lists and dicts are written: as json.dumps, or as Python's repr. */
struct style {
	bool json, ascii, sort;
	const struct string* indent; /* of one level, or NULL: all on one line */
	const struct string *comma, *colon;
};
void value_write_json(struct builder*, struct value, const struct style*);
/* By the keys; stable. */
void value_sort(struct machine*, struct entry*, int n, bool reverse);

#endif
