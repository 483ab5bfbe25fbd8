/* Pre-tokenizers by name, as GGUF's tokenizer.ggml.pre gives them.
 *
 * The expressions are the published tokenizers' own; llama.cpp gave them their names. */
#ifndef SWIFTLET_CORE_TEXT_PRETOKENIZE_NAMED_H
#define SWIFTLET_CORE_TEXT_PRETOKENIZE_NAMED_H

#include "core/text/steps.h"

/* GPT-2's, also what ByteLevel means by itself. */
extern const char pretokenize_gpt2[];

struct named_habits {
	bool ignore_merges; /* a word that is a piece is taken whole */
	bool adds_bos;      /* unless the file says otherwise */
};

/* Adds the expressions' splits and the byte alphabet. name NULL: "default". An unknown name is an error
 * that lists the known ones. */
bool steps_add_named(struct steps*, const char* name, struct named_habits*, struct error*);

#endif
