/* Fill in the middle: a coder model gets the text before and after the gap, between special tokens.
 * /v1/completions with a suffix, and /infill as llama.cpp's editor plugins call it. Beside it /completion,
 * llama.cpp's own text completion, whose answers have the same form. */
#pragma once

#include "streams/service/generation.h"

/* The prompt's tokens for a request with a suffix, and the tokens that end the answer. False with the error
 * set when the model has no such tokens. */
bool infill_encode(const struct generation*, struct api_request*, struct token_list*, struct api_error*);
extern const struct response_formatter formatter_infill, formatter_native;
/* Looks at the content that a step added. Ends the choice where its request asks for it. */
void infill_step(struct choice*);
void infill_cut(struct choice*); /* drops what came after the end that infill_step found */
