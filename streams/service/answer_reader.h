/* Splits an answer's text into reasoning, content and calls (tool_calls.h).
 *
 *    <think>…</think>answer                          Qwen3, DeepSeek R1 and later ones; the prompt may have
 *                                                    ended with the opener. <seed:think> of Seed-OSS,
 *                                                    <mm:think> of MiniMax M3, [THINK] of Magistral
 *    <|channel|>analysis<|message|>…<|end|>          gpt-oss: analysis is reasoning, final and commentary
 *    <|start|>assistant<|channel|>final<|message|>…  are content, commentary to=functions.NAME calls
 *
 * The text comes piece by piece, and none of it is lost: text that turns out to be no reasoning is content.
 * White space around reasoning is left out. */
#pragma once

#include "streams/service/tool_calls.h"

enum reasoning_style {
	REASONING_NONE,
	REASONING_CHANNELS,
	REASONING_THINK,
	REASONING_SEED,
	REASONING_MINIMAX,
	REASONING_MISTRAL,
	REASONING_STYLES
};
enum reading_state { READING_BEFORE, READING_HEADER, READING_THOUGHT, READING_AFTER, READING_ANSWER };
enum { ANSWER_MARKS = 32 };

struct answer_reader {
	struct text reasoning, content; /* output, which the caller takes and clears */
	struct tool_reader tools;       /* its content is added to ours; not used without `tools` */
	bool failed;

	enum reasoning_style style;
	enum reading_state state;
	struct text held; /* not decided yet */
	bool calling;     /* the channel at hand is a call */
	bool thought;     /* something but white space */
	size_t taken;     /* bytes of text that came */
	size_t close_at;  /* where the last mark that may end reasoning stood; SIZE_MAX: there was none */
	/* Bytes of text up to the end of the reasoning; 0: there was none, SIZE_MAX: it has not ended. */
	size_t thought_until;
	struct {
		size_t at;
		const char* text;
	} mark[ANSWER_MARKS];
	int n_marks;
};

/* How models with this template write their reasoning. */
enum reasoning_style reasoning_style_of(const char* chat_template);
/* The mark after reasoning; NULL: the style has none. */
const char* reasoning_close(enum reasoning_style);
/* True when a prompt leaves reasoning open; `end` is the prompt's last characters. */
bool reasoning_begun(enum reasoning_style, const char* end, size_t size);

/* begun: the text continues reasoning. To read calls too, open `tools` afterwards. */
void answer_reader_open(struct answer_reader*, enum reasoning_style, bool begun);
void answer_reader_close(struct answer_reader*);
/* Texts leave special tokens out, but some have a meaning here. Reports a special token with this piece at
 * that byte of the text. Call it before the text beyond that byte is added. Other pieces are ignored. */
void answer_reader_mark(struct answer_reader*, size_t at, const char* piece);
void answer_reader_add(struct answer_reader*, const char* text, size_t size);
void answer_reader_end(struct answer_reader*);
