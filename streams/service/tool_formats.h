/* The formats in which models write calls, one row of a table each:
 *
 *    <tool_call>{"name": …, "arguments": {…}}</tool_call> …     Hermes, Qwen, Granite 4
 *    <tool_call><function=NAME><parameter=KEY>VALUE</parameter> Qwen3-Coder, Qwen3.5, Nemotron 3; perhaps
 *    … </function></tool_call>                                  without the outer tag
 *    <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE      GLM 4.5 to 4.7
 *    </arg_value> … </tool_call>
 *    <minimax:tool_call><invoke name="NAME"><parameter name=    MiniMax M2
 *    "KEY">VALUE</parameter> … </invoke> … </minimax:tool_call>
 *    <seed:tool_call><function=NAME><parameter=KEY>VALUE        Seed-OSS
 *    </parameter> … </function></seed:tool_call>
 *    MARK<tool_call>MARK<invoke name="NAME">MARK<KEY>VALUE      MiniMax M3, with the mark ]<]minimax[>[.
 * Values MARK</KEY> … MARK</invoke> … MARK</tool_call>              may consist of such elements
 *    [TOOL_CALLS][{"name": …, "arguments": {…}}, …]             Mistral
 *    [TOOL_CALLS]NAME[ARGS]{…} …                                Mistral, later
 *    <function=NAME>{…}</function> …                            functionary 3.1, Llama
 *    functools[{"name": …, "arguments": {…}}, …]                FireFunction
 *    <|tool_call|>[{"name": …, "arguments": {…}}, …]            Granite 3, Phi-4 mini
 *    <|START_ACTION|>[{"tool_call_id": "0", "tool_name": …,     Command R7B, Command A
 *    "parameters": {…}}, …]<|END_ACTION|>
 *    <|tool_calls_section_begin|><|tool_call_begin|>            Kimi K2
 *    functions.NAME:0<|tool_call_argument_begin|>{…}
 *    <|tool_call_end|> … <|tool_calls_section_end|>
 *    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function        DeepSeek V3, R1
 *    <｜tool▁sep｜>NAME ```json {…} ```<｜tool▁call▁end｜> …
 *    <｜tool▁calls▁end｜>
 *    … <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…} …             DeepSeek V3.1
 *    <｜DSML｜function_calls><｜DSML｜invoke name="NAME">       DeepSeek V3.2; V4 says tool_calls
 *    <｜DSML｜parameter name="KEY" string="true">VALUE
 *    </｜DSML｜parameter> … </｜DSML｜invoke> … </｜DSML｜function_calls>
 *    <|tool_call_start|>[NAME(KEY=VALUE, …), …]<|tool_call_end|>  LFM2, with values as in Python; or
 *                                                               NAME(**{…})
 *    {"name": …, "parameters": {…}}; …                          Llama 3.x, at the beginning of the answer,
 *                                                               perhaps after <|python_tag|>; Qwen2.5-Coder
 *                                                               also writes ```json {…} ``` and
 *                                                               <tools>{…}</tools> */
#pragma once

#include <stdbool.h>

#include "core/grammar/grammar.h"
#include "streams/text.h"

enum call_writing {
	WRITTEN_OBJECT, /* an object with the name and the arguments, or a list of such objects */
	WRITTEN_NAMED,  /* the name, then the arguments as an object or as tags */
	WRITTEN_PYTHON  /* NAME(KEY=VALUE, …), or a list of them */
};

/* How a model writes a call by itself: all, then begin NAME middle ARGUMENTS end close, with `between` two of
 * them, then finish. The text may end before a `close`. Strings may be empty, not NULL. */
struct tool_syntax {
	const char* trigger; /* text that every call contains */
	const char* some;    /* the beginning of a call of any tool */
	const char *all, *begin, *middle, *end, *close, *between, *finish;
	const char* later_middle; /* of calls after the first, perhaps with GRAMMAR_NUMBER; NULL: the same */
	bool at_beginning;        /* a call is the whole answer */
	bool forced_only;         /* the model itself calls in another way, so this one cannot bind such calls */
	/* The arguments are written between tags if their schema is a plain list of members; NULL: as an object.
	 */
	const struct grammar_tags* tags;
};

enum { CALL_ENDS = 3 };

struct tool_format {
	const char *open, *close; /* before and after the calls. close NULL: nothing. Rows may share `open`. */
	enum call_writing writing;
	bool loose;  /* the opener is also that of other text: a call has arguments and no other members */
	bool listed; /* the opener begins a list */
	/* of WRITTEN_NAMED and WRITTEN_PYTHON */
	const char* before;         /* before each name */
	const char* name_end;       /* after it; NULL: nothing */
	const char* name_ends;      /* characters that end a name and belong to the arguments */
	bool numbered;              /* the name is written functions.NAME:NUMBER */
	const char* end[CALL_ENDS]; /* after each call; each may be missing. A NULL ends them. */
	/* Arguments as tags: key KEY key_end [value] VALUE value_end. key NULL: none. element: the value ends
	 * with this mark and </KEY>, and may consist of such elements. */
	const char *key, *key_end, *value, *value_end, *element;
	/* key_end is followed by a word that says whether the value is a string, and this mark; NULL: it is not.
	 */
	const char *typed_end, *string_word;
	bool lines; /* a line feed before and after a value is not part of it */
};

extern const struct tool_format tool_formats[]; /* ends with a row without an opener */
/* What a call consists of when the answer may begin with it. */
extern const struct tool_format tool_format_bare;
/* The openers, NULL-ended. The first n_loose_openers are those of loose formats. */
extern const char* const tool_openers[];
enum { LOOSE_OPENERS = 3 };
/* The marks that begin or end a call, NULL-ended. Some vocabularies have special tokens for them. */
extern const char* const tool_marks[];

/* The chat template's syntax; NULL: it has no calls. */
const struct tool_syntax* tool_syntax_of(const char* chat_template);
/* For models whose template has no calls: the syntax that the system message asks for
 * (streams/chat_shape.h). */
extern const struct tool_syntax tool_syntax_generic;
/* Appends the text that begins an answer which calls a tool (NULL: any tool). */
void tool_syntax_begin(const struct tool_syntax*, const char* name, struct text* out);
