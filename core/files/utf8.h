/* Reads UTF-8 that may be broken: the length and the code of the character at a place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of a text: bytes [start, end). */
struct text_range {
	size_t start, end;
};

/* Bytes of the well-formed character at text (size > 0), or 0 when it is malformed or cut off. Overlong
 * forms, surrogates and codes beyond U+10FFFF are malformed. `code` may be NULL. */
size_t utf8_character(const char* text, size_t size, uint32_t* code);
/* The same for the character that ends at text + end and may begin at text; 0 at the start, too. */
size_t utf8_character_before(const char* text, size_t end, uint32_t* code);
/* True when text is an incomplete well-formed character. */
bool utf8_is_beginning(const char* text, size_t size);
/* Bytes of the malformed stretch at text that one U+FFFD replaces (at least 1): the longest beginning of a
 * well-formed character, as Unicode recommends. */
size_t utf8_malformed(const char* text, size_t size);
/* Writes a character (code <= U+10FFFF), returns its bytes. */
size_t utf8_put(uint32_t code, char out[4]);

/* The bit of the character's general category; 0 beyond U+10FFFF. Sets are written with utf8proc's names:
 * UTF8_CATEGORY(LU) | UTF8_CATEGORY(LL). */
uint32_t utf8_category(uint32_t code);
#define UTF8_CATEGORY(name) (UINT32_C(1) << UTF8PROC_CATEGORY_##name)

/* The value of a hexadecimal digit, in either case; -1 for other characters. */
int hexadecimal_digit(char);

/* Unicode's White_Space. Unicode's \w: alphabetic characters, marks, digits, connectors, joiners. */
bool utf8_is_white(uint32_t code);
bool utf8_is_word(uint32_t code);
