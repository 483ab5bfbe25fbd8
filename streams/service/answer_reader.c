/* Reads reasoning first, then passes the rest to the reader of calls. */
#include "streams/service/answer_reader.h"

#include <ctype.h>
#include <string.h>

static const char channel[] = "<|channel|>", message[] = "<|message|>", turn_end[] = "<|end|>",
                  turn_start[] = "<|start|>", call_end[] = "<|call|>", constrain[] = "<|constrain|>",
                  addressee[] = "to=functions.";
/* The marks around a thought; the other styles have none. */
enum { THOUGHT_OPENS, THOUGHT_CLOSES };
static const char* const thought_marks[REASONING_STYLES][3] = {
    [REASONING_THINK] = {"<think>", "</think>"},
    [REASONING_SEED] = {"<seed:think>", "</seed:think>"},
    [REASONING_MINIMAX] = {"<mm:think>", "</mm:think>"},
    [REASONING_MISTRAL] = {"[THINK]", "[/THINK]"}};
static const char* const channel_marks[] = {channel,   message,  turn_end, turn_start,
                                            constrain, call_end, NULL};

enum reasoning_style reasoning_style_of(const char* chat_template) {
	if (!chat_template)
		return REASONING_NONE;
	if (strstr(chat_template, channel))
		return REASONING_CHANNELS;
	int style = REASONING_STYLES - 1; /* the plain <think> last: templates speak of it, too */
	while (style > REASONING_NONE && !(reasoning_close((enum reasoning_style)style) &&
	                                   strstr(chat_template, reasoning_close((enum reasoning_style)style))))
		style--;
	return (enum reasoning_style)style;
}

const char* reasoning_close(enum reasoning_style style) { return thought_marks[style][THOUGHT_CLOSES]; }

bool reasoning_begun(enum reasoning_style style, const char* end, size_t size) {
	const char* const open = thought_marks[style][THOUGHT_OPENS];
	const size_t n = open ? strlen(open) : 0, until = span_trimmed((struct span){end, size});
	return n > 0 && until >= n && memcmp(end + until - n, open, n) == 0;
}

/* ---- places in what is held ------------------------------------------------------------------ */

static struct span held_text(const struct answer_reader* r) { return span_of(&r->held); }

static void emit_content(struct answer_reader* r, size_t n) {
	if (n && r->tools.tools)
		tool_reader_add(&r->tools, r->held.data, n);
	else if (n)
		text_add(&r->content, r->held.data, n);
	text_drop(&r->held, n);
}

/* Adds n bytes of reasoning. White space at their end is held, and dropped when the reasoning ends. */
static void emit_reasoning(struct answer_reader* r, size_t n, bool over) {
	const struct span more = {r->held.data, span_trimmed((struct span){r->held.data, n})};
	const size_t blank = r->thought ? 0 : span_spaces(more);
	if (more.size > blank) {
		text_add(&r->reasoning, more.data + blank, more.size - blank);
		r->thought = true;
	}
	text_drop(&r->held, over ? n : more.size);
}

/* Ends the reasoning at a mark, or at byte n of the held text. */
static void note_end(struct answer_reader* r, size_t n) {
	r->thought_until = r->close_at != SIZE_MAX ? r->close_at : r->taken - (r->held.size - n);
	r->close_at = SIZE_MAX;
}

/* ---- thoughts between marks ------------------------------------------------------------------ */

/* Each decides as much of the held text as it can; true: another state continues with the rest. */
static bool decide_before(struct answer_reader* r) {
	const char* const open = thought_marks[r->style][THOUGHT_OPENS];
	const size_t blank = span_spaces(held_text(r));
	if (span_may_start(span_after(held_text(r), blank), open))
		return false;
	if (span_starts(span_after(held_text(r), blank), open)) {
		text_drop(&r->held, blank + strlen(open));
		r->state = READING_THOUGHT;
	} else
		r->state = READING_ANSWER;
	return true;
}

static bool decide_thought(struct answer_reader* r) {
	const char* const mark = reasoning_close(r->style);
	const size_t end = span_find(held_text(r), mark);
	const bool closed = end < r->held.size;
	if (closed)
		note_end(r, end);
	emit_reasoning(r, closed ? end : r->held.size - span_undecided(held_text(r), thought_marks[r->style]),
	               closed);
	if (closed) {
		text_drop(&r->held, strlen(mark));
		r->state = READING_AFTER;
	}
	return closed;
}

static bool decide_after(struct answer_reader* r) {
	text_drop(&r->held, span_spaces(held_text(r)));
	if (r->held.size)
		r->state = READING_ANSWER;
	return r->held.size > 0;
}

static bool decide_thinking(struct answer_reader* r) {
	switch (r->state) {
	case READING_BEFORE:
		return decide_before(r);
	case READING_THOUGHT:
		return decide_thought(r);
	case READING_AFTER:
		return decide_after(r);
	default:
		emit_content(r, r->held.size);
		return false;
	}
}

/* ---- channels -------------------------------------------------------------------------------- */

/* Reads a whole header: <|channel|>NAME [to=functions.TOOL] [<|constrain|>json]. */
static void enter_channel(struct answer_reader* r, size_t size) {
	const struct span header = {r->held.data, size};
	const size_t at = span_find(header, channel), to = span_find(header, addressee);
	const bool thought = at < size && span_starts(span_after(header, at + sizeof channel - 1), "analysis");
	const struct span name = span_after(header, to < size ? to + sizeof addressee - 1 : size);
	size_t n = 0;
	while (n < name.size && n < 64 && name.data[n] != '<' && !isspace((unsigned char)name.data[n]))
		n++;
	r->calling = n > 0 && r->tools.tools;
	r->state = thought && n == 0 ? READING_THOUGHT : READING_ANSWER;
	if (r->calling) { /* in a syntax that the reader of calls understands */
		tool_reader_add(&r->tools, "<function=", strlen("<function="));
		tool_reader_add(&r->tools, name.data, n);
		tool_reader_add(&r->tools, ">", 1);
	}
	text_drop(&r->held, size + sizeof message - 1);
}

static void leave_channel(struct answer_reader* r) {
	if (r->calling)
		tool_reader_add(&r->tools, "</function>", strlen("</function>"));
	r->calling = false;
	r->state = READING_HEADER;
}

/* True when the text may begin a header: with a mark, or with a recipient. */
static bool may_be_header(struct span s) {
	const size_t n = strlen(addressee) < s.size ? strlen(addressee) : s.size;
	return s.size == 0 || *s.data == '<' || memcmp(s.data, addressee, n) == 0;
}

/* A text that does not begin with a mark has no channels. */
static bool decide_header(struct answer_reader* r) {
	const size_t end = span_find(held_text(r), message), blank = span_spaces(held_text(r));
	if (r->state == READING_BEFORE && !may_be_header(span_after(held_text(r), blank))) {
		r->state = READING_ANSWER;
		return true;
	}
	const bool found = end < r->held.size;
	if (found)
		enter_channel(r, end);
	return found;
}

static bool decide_body(struct answer_reader* r) {
	static const char* const closers[] = {turn_end, call_end, turn_start, channel, NULL};
	const char* closer;
	size_t n = span_first(held_text(r), closers, &closer);
	if (!closer)
		n -= span_undecided(held_text(r), closers);
	if (r->state == READING_THOUGHT && closer)
		note_end(r, n);
	if (r->state == READING_THOUGHT)
		emit_reasoning(r, n, closer);
	else
		emit_content(r, n);
	if (closer == turn_end || closer == call_end) /* the others begin the next header */
		text_drop(&r->held, strlen(closer));
	if (closer)
		leave_channel(r);
	return closer;
}

static bool decide_channels(struct answer_reader* r) {
	return r->state == READING_BEFORE || r->state == READING_HEADER ? decide_header(r) : decide_body(r);
}

/* ---- from outside ---------------------------------------------------------------------------- */

static void decide_held(struct answer_reader* r) {
	for (bool more = true; more && r->held.size > 0;)
		more = r->style == REASONING_CHANNELS ? decide_channels(r) : decide_thinking(r);
	text_add(&r->content, r->tools.content.data, r->tools.content.size);
	text_clear(&r->tools.content);
}

void answer_reader_open(struct answer_reader* r, enum reasoning_style style, bool begun) {
	*r = (struct answer_reader){.style = style,
	                            .close_at = SIZE_MAX,
	                            .state = begun                     ? READING_THOUGHT
	                                     : style == REASONING_NONE ? READING_ANSWER
	                                                               : READING_BEFORE};
}

void answer_reader_close(struct answer_reader* r) {
	tool_reader_close(&r->tools);
	text_free(&r->reasoning);
	text_free(&r->content);
	text_free(&r->held);
}

void answer_reader_mark(struct answer_reader* r, size_t at, const char* piece) {
	static const char* const none[] = {NULL};
	const char* const* const marks[] = {r->style == REASONING_CHANNELS ? channel_marks
	                                                                   : thought_marks[r->style],
	                                    r->tools.tools ? tool_marks : none};
	for (int list = 0; list < 2; list++)
		for (int i = 0; marks[list][i]; i++)
			if (strcmp(piece, marks[list][i]) == 0 && r->n_marks < ANSWER_MARKS) {
				r->mark[r->n_marks].at = at;
				r->mark[r->n_marks++].text = marks[list][i];
				return;
			}
}

void answer_reader_add(struct answer_reader* r, const char* text, size_t size) {
	for (;;) {
		const size_t until = r->n_marks ? r->mark[0].at - r->taken : size;
		const size_t n = until < size ? until : size;
		if (n)
			text_add(&r->held, text, n);
		text += n;
		size -= n;
		r->taken += n;
		if (!r->n_marks || r->taken < r->mark[0].at)
			break;
		text_put(&r->held, r->mark[0].text);
		if (r->mark[0].text == reasoning_close(r->style) || r->mark[0].text == turn_end)
			r->close_at = r->taken;
		memmove(r->mark, r->mark + 1, (size_t)--r->n_marks * sizeof *r->mark);
	}
	decide_held(r);
}

void answer_reader_end(struct answer_reader* r) {
	answer_reader_add(r, "", 0);
	r->n_marks = 0; /* beyond the text: a stop string cut it */
	if (r->state == READING_THOUGHT)
		r->thought_until = SIZE_MAX;
	if (r->state == READING_THOUGHT)
		emit_reasoning(r, r->held.size, true);
	else if (r->state == READING_BEFORE || r->state == READING_ANSWER)
		emit_content(r, r->held.size);
	if (r->calling && !r->tools.cut)
		leave_channel(r);
	tool_reader_end(&r->tools);
	text_clear(&r->held);
	decide_held(r);
	r->failed |= r->tools.failed || r->reasoning.failed || r->content.failed || r->held.failed;
}
