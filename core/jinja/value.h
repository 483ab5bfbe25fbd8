/* Python's values for templates, immutable except namespaces and iterators. */
#pragma once

#include "core/jinja/marked.h"

enum kind {
	ABSENT, /* no value: an argument that was not given */
	UNDEFINED,
	NONE,
	BOOLEAN,
	INTEGER,
	FLOAT,
	STRING,
	LIST,
	TUPLE,
	RANGE,    /* a list that prints as range(…) */
	VIEW,     /* the result of dict.items(), keys() and values(): a list without an index */
	ITERATOR, /* the result of map, select…: a list that can be read once */
	DICT,
	NAMESPACE,
	LOOP,
	FUNCTION, /* a method or a global function */
	MACRO
};

struct value {
	enum kind kind;
	uint8_t of;  /* UNDEFINED: the kind of the value that lacks the attribute; ABSENT for a name */
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
	struct dict named; /* in the order they came; a name may occur twice */
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
/* An empty value of the kinds LIST to ITERATOR. */
struct value value_list(struct machine*, enum kind);
void list_add(struct machine*, struct list*, struct value);
void list_add_all(struct machine*, struct list*, const struct list* more);
struct value value_dict(struct machine*);

struct value value_function(struct machine*, struct value self, const struct routine*);

/* NULL without one. Fails on a key that cannot be one (a list). */
struct value* dict_find(struct machine*, const struct dict*, struct value key);
struct value* dict_find_name(struct machine*, const struct dict*, const struct string* name);
void dict_set(struct machine*, struct dict*, struct value key, struct value);
void dict_set_all(struct machine*, struct dict*, const struct dict* more);
/* Appends an entry, even if the key exists. */
void dict_add(struct machine*, struct dict*, struct value key, struct value);
bool value_is_key(struct value);

const char* value_type(struct value); /* "str", "int", "NoneType"… */
bool value_is_number(struct value);   /* bool, int or float */
double value_number(struct value);    /* of such a one */
bool value_is_whole(struct value);    /* bool or int */
int64_t value_whole(struct value);    /* of such a one */
bool value_truth(struct value);
bool value_equal(struct machine*, struct value, struct value);
/* -1, 0, 1, or 2 when neither is larger; fails when they cannot be compared. */
int value_order(struct machine*, struct value, struct value, const char* sign);
bool value_in(struct machine*, struct value, struct value container);
/* An iterable as a list: itself if it is one, so the caller must not change it. Reads an iterator to its
 * end. */
const struct list* value_items(struct machine*, struct value);
/* len(); -1 when there is none. */
int64_t value_length(struct machine*, struct value);
/* Fails with Undefined's message, or the sandbox's, if the value is undefined. */
void value_check_defined(struct machine*, struct value);

/* str(). */
const struct string* value_show(struct machine*, struct value);
void value_write(struct builder*, struct value);

/* A value from a JSON text. Its strings are foreign unless trusted (struct jinja_call). Fails with a message
 * that names `what`. */
struct value json_value(struct machine*, const char* text, size_t size, const char* what,
                        const char* trusted_member, const char* trusted_words);
/* How lists and dicts are printed: as json.dumps, or as Python's repr. */
struct style {
	bool json, ascii, sort;
	const struct string* indent; /* of one level, or NULL: all on one line */
	const struct string *comma, *colon;
};
void value_write_json(struct builder*, struct value, const struct style*);
/* By the keys; stable. */
void value_sort(struct machine*, struct entry*, int n, bool reverse);
