/* From a reader's tree to a program's instructions, from back to front: expressions and GBNF alike. */
#ifndef SWIFTLET_CORE_GRAMMAR_EMISSION_H
#define SWIFTLET_CORE_GRAMMAR_EMISSION_H

#include "core/grammar/program.h"
#include "core/grammar/reader.h"

struct emission {
	struct grammar* grammar;
	struct reader* reader;
	/* emit_characters, or emit_json_characters within a JSON string */
	int32_t (*characters)(struct grammar*, uint32_t low, uint32_t high, int32_t next);
	int work,
	    most_work; /* nodes emitted: repeats of what is empty emit nothing, and are bounded all the same */
};

/* Where the node's program starts, which goes on at `next`; NOWHERE where it matches nothing, and where the
 * grammar has failed. Anchors match nothing here: who has them looks at them before. */
int32_t emission_node(struct emission*, int node, int32_t next);

#endif
