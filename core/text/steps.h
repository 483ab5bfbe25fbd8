/* The steps before merging: they rewrite a text (compose it, replace parts, prepend a space) and cut it into
 * words. Pieces merge only within a word.
 *
 * A tokenizer has two lists of steps, each of which takes the words of the one before. The normalizer treats
 * a text as one word; the pre-tokenizer cuts it. Bytes that are not UTF-8 pass through unchanged. */
#pragma once

#include "core/text/expression.h"
#include "core/text/vocabulary.h"

enum step_kind {
	STEP_NFC,
	STEP_NFD,
	STEP_NFKC,
	STEP_NFKD,
	STEP_LOWERCASE,
	STEP_NO_MARKS,          /* without combining marks */
	STEP_NO_ACCENTS,        /* without those that take no space */
	STEP_CLEAN,             /* BERT's: drops control characters; all white space is a space */
	STEP_SPACED_IDEOGRAPHS, /* BERT's: spaces around each */
	STEP_NMT,               /* sentencepiece's rules for machine translation, but for the composition */
	STEP_REPLACE,           /* what the expression matches by content */
	STEP_STRIP,             /* without outer white space */
	STEP_SQUEEZE,           /* shortens runs of spaces to one, and removes outer ones */
	STEP_PREPEND,           /* content before a word */
	STEP_BYTE_LEVEL,        /* words are written in GPT-2's alphabet */
	STEP_SPLIT              /* cuts words at the matches of the expression */
};

enum split_behavior {                 /* what becomes of a match */
	                  SPLIT_ISOLATED, /* a word of its own */
	                  SPLIT_REMOVED,
	                  SPLIT_WITH_PREVIOUS, /* joins the text before it */
	                  SPLIT_WITH_NEXT,
	                  SPLIT_CONTIGUOUS /* matches that touch are one word */
};

struct step {
	enum step_kind kind;
	char* content;                 /* owned */
	struct expression* expression; /* SPLIT, REPLACE */
	bool strip_start, strip_end;   /* STRIP */
	bool first_only;               /* PREPEND: only at the beginning of the whole text */
	bool unless_there;             /* PREPEND: not if the word already begins with it */
	bool invert;                   /* SPLIT: what does not match is the match */
	enum split_behavior behavior;  /* SPLIT */
};

enum { MAX_STEPS = 32 };

struct steps {
	struct step step[MAX_STEPS];
	int n;
};

void steps_free(struct steps*);
/* Appends a step; NULL with the error set when there are too many. */
struct step* steps_add(struct steps*, enum step_kind, struct error*);
/* Append steps that have parts. Strings are copied. regex: as expression_compile takes it. */
bool steps_add_replace(struct steps*, const char* pattern, bool regex, const char* content, struct error*);
bool steps_add_prepend(struct steps*, const char* content, bool first_only, bool unless_there, struct error*);
struct step* steps_add_split(struct steps*, const char* pattern, bool regex, enum split_behavior,
                             struct error*);
/* Sentencepiece's treatment of spaces: another character replaces each, and one precedes the text. */
enum prefix_scheme { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };
bool steps_add_blocks(struct steps*, const char* block, enum prefix_scheme, bool unless_there, struct error*);

/* steps_named.c: pre-tokenizers by name, as GGUF's tokenizer.ggml.pre gives them. */
/* GPT-2's split, which ByteLevel means by itself. */
extern const char pretokenize_gpt2[];

/* Adds the named pre-tokenizer's splits and the byte alphabet. Reports whether a word that is a piece is
 * taken whole, and whether a BOS is added by default. name NULL: "default". An unknown name is an error that
 * lists the known ones. */
bool steps_add_named(struct steps*, const char* name, bool* ignore_merges, bool* adds_bos, struct error*);

/* steps_characters.c: the text, character by character, as a kind from LOWERCASE to NMT writes it. */
void steps_rewrite_characters(enum step_kind, const char* text, size_t size, struct buffer* out);

/* State of running a list of steps; free with walk_end. */
struct walk {
	const struct steps* steps;
	struct matcher* matcher;
	bool (*take)(void* user, const char* word,
	             size_t size); /* the words of steps_cut, in order; false: enough */
	void* user;
	bool failed;                      /* memory ran out, or a text exceeded the limit */
	size_t most;                      /* bytes that a step may still write of the present text */
	bool enough;                      /* no more words are wanted */
	bool first;                       /* the text begins the whole one */
	bool met[MAX_STEPS];              /* whether a word of it came to the step */
	struct buffer written[MAX_STEPS]; /* the word that the step wrote last */
};

/* The text after a list without SPLIT, valid until the next call. first: the whole text begins here. */
const char* steps_rewrite(struct walk*, bool first, const char* text, size_t* size);
/* Cuts and rewrites words of well-formed or broken bytes. */
void steps_cut(struct walk*, bool first, const char* text, size_t size);
void walk_end(struct walk*);
