/* The `form` drafter: of an answer that has to keep a grammar, the text that has to come.
 *
 * It follows the acceptor down the tree. Where one token alone is allowed, it is the target's, for nothing.
 * The planner asks it besides what is allowed at a row, so that nobody's candidates are verified in vain.
 */
#ifndef SWIFTLET_CORE_DRAFT_FORM_H
#define SWIFTLET_CORE_DRAFT_FORM_H

#include "core/draft/drafter.h"
#include "core/grammar/acceptor.h"

/* The acceptor of the sequence's text, which is the caller's; NULL: the text is free. */
void form_follow(void* state, struct acceptor*);

#endif
