/* The other cases of characters, for expressions that ignore case. */
#pragma once

#include "core/grammar/reader.h"

/* Adds [low, high] to the reader's ranges and, if the flag i holds here, each character that is equal to one
 * of them under Unicode's simple case folding. */
void letter_range(struct reader*, uint32_t low, uint32_t high);
