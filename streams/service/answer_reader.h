/* An answer's text in its three parts: the reasoning, the content and the calls (tool_calls.h).
 *
 *   <think>…</think>answer                              Qwen3, DeepSeek R1 and those after them; the prompt
 * may have ended with the opener
 *   <|channel|>analysis<|message|>…<|end|>              gpt-oss: analysis is thought, final and commentary is
 *   <|start|>assistant<|channel|>final<|message|>…      said, commentary to=functions.NAME calls
 *
 * The text comes piece by piece; nothing is lost: what turns out to be no thought is content. White space
 * around a thought is left out. */
#ifndef SWIFTLET_STREAMS_SERVICE_ANSWER_READER_H
#define SWIFTLET_STREAMS_SERVICE_ANSWER_READER_H

#include "streams/service/tool_calls.h"

enum reasoning_style { REASONING_NONE, REASONING_THINK, REASONING_CHANNELS };
enum reading_state { READING_BEFORE, READING_HEADER, READING_THOUGHT, READING_AFTER, READING_ANSWER };
enum { ANSWER_MARKS = 32 };

struct answer_reader {
	struct text reasoning, content; /* to be taken, and cleared, by whoever wants them */
	struct tool_reader tools;       /* its content goes to ours; without `tools` it is not asked */
	bool failed;

	enum reasoning_style style;
	enum reading_state state;
	struct text held; /* not decided yet */
	bool calling;     /* the channel at hand is a call */
	bool thought;     /* something but white space */
	size_t taken;     /* bytes of text that came */
	size_t close_at;  /* where the last mark that may end a thought stood; SIZE_MAX: none did */
	/* Bytes of text up to the end of the thought; 0: there was none, SIZE_MAX: it did not end. */
	size_t thought_until;
	struct {
		size_t at;
		const char* text;
	} mark[ANSWER_MARKS];
	int n_marks;
};

/* How the models that this template was written for think. */
enum reasoning_style reasoning_style_of(const char* chat_template);
/* Whether a prompt leaves a thought open; `end` is its last characters. */
bool reasoning_begun(enum reasoning_style, const char* end, size_t size);

/* begun: the text goes on with a thought. To be asked for calls too, open `tools` after it. */
void answer_reader_open(struct answer_reader*, enum reasoning_style, bool begun);
void answer_reader_close(struct answer_reader*);
/* Special tokens are left out of texts, and some mean something here: one whose piece is this stands at that
 * byte of the text. Call it before the text beyond that byte is added. Other pieces are ignored. */
void answer_reader_mark(struct answer_reader*, size_t at, const char* piece);
void answer_reader_add(struct answer_reader*, const char* text, size_t size);
void answer_reader_end(struct answer_reader*);

#endif
