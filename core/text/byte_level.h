/* GPT-2's alphabet: every byte written as a printable character, so that vocabularies are text.
 *
 * Bytes that print stand for themselves (as U+0021…); the others follow from U+0100 on. A space is
 * U+0120. */
#pragma once

#include "core/text/vocabulary.h"

/* Appends the bytes in the alphabet (at most two bytes each). */
void byte_level_write(struct buffer* out, const char* bytes, size_t size);
/* Appends the bytes that a text in the alphabet stands for. False, with nothing appended, when a character is
 * not in the alphabet. */
bool byte_level_read(struct buffer* out, const char* text, size_t size);
