/* What answers of vendors have in common that are told as items which open, grow and close (reply_voice.h).
 */
#include "streams/service/reply_voice.h"

void story_free(struct reply_story* s) {
	text_free(&s->text);
	text_free(&s->said);
}

void story_keep(struct reply_story* s, const struct text* item) {
	text_put(&s->said, s->items++ ? ", " : "");
	text_add(&s->said, item->data, item->size);
	s->said.failed |= item->failed;
}

void story_close(struct text* out, const struct reply_head* h, const struct story_voice* v) {
	struct reply_story* s = h->story;
	struct text item = {0};
	if (s->open == STORY_NOTHING)
		return;
	text_put(&s->text, ""); /* an item without a word is one too */
	v->close(out, h, &item);
	story_keep(s, &item);
	text_free(&item);
	text_clear(&s->text);
	s->open = STORY_NOTHING;
}

void story_open(struct text* out, const struct reply_head* h, const struct story_voice* v,
                enum story_part what) {
	if (h->story->open == what)
		return;
	story_close(out, h, v);
	h->story->open = what;
	v->open(out, h);
}

static void say(struct text* out, const struct reply_head* h, const struct story_voice* v,
                enum story_part what, const char* text, size_t size) {
	if (!size)
		return;
	story_open(out, h, v, what);
	v->more(out, h, text, size);
	text_add(&h->story->text, text, size);
}

void story_tell(struct text* out, const struct reply_head* h, const struct story_voice* v,
                const struct reply_choice* c) {
	say(out, h, v, STORY_REASONING, c->reasoning, c->reasoning_size);
	say(out, h, v, STORY_TEXT, c->text, c->size);
}

bool story_whole(const struct reply_voice* v, const struct reply_head* h, const struct reply_choice* c) {
	struct text events = {0};
	v->part(&events, h, c, NULL);
	v->calls(&events, h, 0, c->call, 0, c->n_calls);
	v->last(&events, h, c, NULL);
	text_free(&events);
	text_put(&h->story->said, ""); /* it may be empty */
	return !h->story->said.failed && !h->story->text.failed;
}
