/* What answers of vendors have in common that are told as items which open, grow and close (reply_voice.h).
 */
#include "streams/service/reply_voice.h"

void story_free(struct reply_story* s) {
	text_free(&s->text);
	text_free(&s->said);
}

bool story_failed(const struct reply_story* s) { return s->text.failed || s->said.failed; }

static void keep(struct reply_story* s, struct text* item) {
	text_put(&s->said, s->items++ ? ", " : "");
	text_add(&s->said, item->data, item->size);
	s->said.failed |= item->failed;
	text_free(item);
}

/* Ends the item that is open, if one is. */
static void close_item(struct text* out, const struct reply_head* h) {
	struct reply_story* s = h->story;
	struct text item = {0};
	if (s->open == STORY_NOTHING)
		return;
	text_put(&s->text, ""); /* an item without a word is one too */
	h->voice->story->close(out, h, &item);
	keep(s, &item);
	text_clear(&s->text);
	s->open = STORY_NOTHING;
}

/* Begins another item, if it is not the one that is open. */
static void open_item(struct text* out, const struct reply_head* h, enum story_part what) {
	if (h->story->open == what)
		return;
	close_item(out, h);
	h->story->open = what;
	h->voice->story->open(out, h);
}

static void say(struct text* out, const struct reply_head* h, enum story_part what, const char* text,
                size_t size) {
	if (!size)
		return;
	open_item(out, h, what);
	h->voice->story->more(out, h, text, size);
	text_add(&h->story->text, text, size);
}

void story_part(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                const char* detail) {
	(void)detail;
	say(out, h, STORY_REASONING, c->reasoning, c->reasoning_size);
	say(out, h, STORY_TEXT, c->text, c->size);
}

void story_calls(struct text* out, const struct reply_head* h, int index, const struct tool_call* call,
                 int first, int n) {
	(void)index;
	for (int i = first; i < n; i++) {
		struct text item = {0};
		close_item(out, h);
		h->voice->story->call(out, h, &call[i], &item);
		keep(h->story, &item);
	}
}

void story_last(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                const char* detail) {
	struct reply_story* s = h->story;
	(void)detail;
	if (h->voice->story->never_empty && s->items == 0)
		open_item(out, h, s->open == STORY_NOTHING ? STORY_TEXT : s->open);
	close_item(out, h);
	s->stop = c->stop;
	s->n_calls = c->n_calls;
	s->stop_string = c->stop_string;
}

bool story_whole(const struct reply_head* h, const struct reply_choice* c) {
	struct text events = {0};
	story_part(&events, h, c, NULL);
	story_calls(&events, h, 0, c->call, 0, c->n_calls);
	story_last(&events, h, c, NULL);
	text_free(&events);
	return !story_failed(h->story);
}
