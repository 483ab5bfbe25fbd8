/* Shared by the readers of regular expressions and of GBNF. A reader has a position in the text and builds a
 * syntax tree in an arena of nodes and ranges of characters; reader_emit turns the tree into a program. */
#pragma once

#include "core/grammar/program.h"

enum { READER_NODES = 1 << 14, READER_RANGES = 1 << 17, READER_DEPTH = 64, READER_REPEAT = 4096 };
enum { LAST_CODE = 0x10ffff, UNBOUNDED = -1 };

enum syntax_kind {
	NODE_EMPTY,
	NODE_TEXT, /* GBNF's literals */
	NODE_CLASS,
	NODE_RULE, /* GBNF */
	NODE_SEQUENCE,
	NODE_EITHER,
	NODE_REPEAT,
	NODE_START, /* expressions' anchors */
	NODE_END,
	NODE_LOOK_AHEAD,  /* expressions': a; most 0: it must not come */
	NODE_LOOK_BEHIND, /* the same */
	NODE_WORD_EDGE,   /* most 0: it must not be one */
	NODE_GROUP,       /* expressions' that are referred to: a, its number b */
	NODE_BACK         /* the text of group b again; most 1: in any case */
};

struct syntax_node {
	enum syntax_kind kind;
	int a, b; /* children; REPEAT a; RULE a, its number in the program; ranges [a, b) of CLASS and, one a
	             character, TEXT */
	int least, most; /* REPEAT; most UNBOUNDED: any number */
};

struct range {
	uint32_t low, high;
};

struct letter_fold { /* a character, and what it is folded to */
	uint32_t fold, code;
};

struct group_name { /* of a group of an expression; NULL: it has none */
	const char* text;
	size_t size;
};
enum { READER_GROUPS = 64, READER_PROPERTIES = 32 };

/* The characters of a property, which take long to find. */
struct known_property {
	char name[64];
	bool negated, any_case;
	struct range* range; /* (n) */
	int n;
};

struct reader {
	const char* text;
	size_t size, at;
	int depth;
	struct syntax_node* node; /* (n_nodes) */
	int n_nodes;
	struct range* range; /* (n_ranges) */
	int n_ranges;
	/* expressions': flags that hold here, foldings of all characters that have some, groups so far */
	bool any_case, dot_all, refers; /* refers: groups are referred to */
	struct letter_fold* fold;       /* (n_folds) */
	int n_folds;
	struct group_name group[READER_GROUPS]; /* (n_groups) */
	int n_groups;
	struct known_property* property; /* (n_properties) */
	int n_properties;
	bool failed;
	struct error* error;
	void (*report_error)(const struct reader*, const char* why); /* sets it */
	struct grammar* grammar;                                     /* what is emitted to */
	character_emitter* characters;
	/* nodes emitted, including repeats of empty parts, which emit nothing */
	int work, most_work;
};

void reader_close(struct reader*);

/* Records the first failure; after it reading has no effect. Returns 0. */
int reader_fail(struct reader*, const char* why);
int reader_node(struct reader*, struct syntax_node); /* its number */
void reader_range(struct reader*, uint32_t low, uint32_t high);
/* Makes a CLASS or TEXT node of the ranges from `from` on; sorts and joins those of a CLASS. */
int reader_ranges(struct reader*, enum syntax_kind, int from);
/* Replaces the ranges from `from` on by their complement. */
void reader_negate(struct reader*, int from);

static inline bool reader_more(const struct reader* r) { return r->at < r->size && !r->failed; }
static inline bool reader_at(const struct reader* r, char c) { return reader_more(r) && r->text[r->at] == c; }
static inline bool reader_take(struct reader* r, char c) {
	const bool here = reader_at(r, c);
	r->at += here;
	return here;
}
/* How a notation escapes characters. */
struct dialect {
	const char *letters, *means; /* escapes of one letter, and the characters that they stand for */
	const char* hexadecimal;     /* those of x, u and U that exist, with 2, 4 and 8 digits */
	const char* itself; /* characters that a backslash may precede; NULL: all but letters and digits */
	bool (*named)(struct reader*); /* reads a named set of characters, such as \d; NULL: there are none */
	/* adds characters of a class; NULL: they stand for themselves alone */
	void (*range)(struct reader*, uint32_t low, uint32_t high);
};
uint32_t reader_character(struct reader*, const struct dialect*);
/* Reads a class after its `[`; returns the node. */
int reader_class(struct reader*, const struct dialect*);

/* The syntax of alternatives, which are sequences of repeated parts. */
struct syntax {
	int (*atom)(struct reader*); /* reads a part; returns the node */
	bool lazy;                   /* a ? after a repeat means nothing */
	/* a + after a repeat: it gives nothing back; NULL: it is another repeat */
	int (*possessive)(struct reader*, int node, int least, int most);
	const char* ends; /* the characters before which a sequence ends */
	void (*skip)(struct reader*,
	             bool lines); /* skips text between parts, line ends included; NULL: there is none */
};
/* Reads alternatives and returns the node. nested: line ends are white space. Alternatives that continue on
 * another line are always read. */
int reader_alternatives(struct reader*, const struct syntax*, bool nested);

/* Emits the node's program, which goes on at `next`, and returns its start; NOWHERE if it matches nothing, or
 * if the grammar has failed. Anchors match nothing here, because callers handle them first. */
int32_t reader_emit(struct reader*, int node, int32_t next);
