/* Reads JSON as models write it, byte by byte: finds the end of a value and corrects it to RFC 8259.
 *
 * Valid JSON comes out as it was written. Corrections: control characters inside strings are escaped, a
 * backslash before a letter that is not an escape is doubled, Python's True, False and None become JSON's
 * words, a bare word becomes a string, a missing comma is added and an extra one removed. Literals of Python
 * become JSON too: strings in single quotes, their escapes, and tuples. */
#pragma once

#include "streams/text.h"

enum { JSON_REPAIR_DEPTH = 512 };

struct json_repair { /* zeroed: a value is to come */
	enum {
		REPAIR_VALUE,
		REPAIR_STRING,
		REPAIR_ESCAPE,
		REPAIR_WORD,
		REPAIR_KEY,
		REPAIR_COLON,
		REPAIR_AFTER,
		REPAIR_DONE
	} state;
	int depth;
	char open[JSON_REPAIR_DEPTH]; /* '{' or '[' by depth */
	bool python;                  /* the value is written as in Python; ')' ends it too */
	char quote;                   /* that the present string began with */
	bool key;                     /* the present string or word is a member's name */
	struct text held;             /* undecided bytes: an escape, a word, or a comma with what follows it */
};

/* Takes bytes until the value is complete, and returns how many. Appends what is certain of the value to
 * `out`. */
size_t json_repair_add(struct json_repair*, const char* bytes, size_t size, struct text* out);
/* The text is over: closes what is open. */
void json_repair_close(struct json_repair*, struct text* out);
void json_repair_free(struct json_repair*);
