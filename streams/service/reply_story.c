/* What answers of vendors have in common that are told as items which open, grow and close (exchange.h). */
#include "streams/service/exchange.h"

static void begin_saying(struct reply_story* s) { text_put(&s->said, s->items ? ", " : ""); }

/* Ends the item that is open, if one is. */
static void close_item(struct exchange* x) {
	struct reply_story* s = &x->story;
	if (s->open == STORY_NOTHING)
		return;
	begin_saying(s);
	x->voice->story->close(x);
	s->items++;
	text_clear(&s->text);
	s->open = STORY_NOTHING;
}

/* Begins another item, if it is not the one that is open. */
static void open_item(struct exchange* x, enum story_part what) {
	if (x->story.open == what)
		return;
	close_item(x);
	x->story.open = what;
	x->voice->story->open(x);
}

static void say(struct exchange* x, enum story_part what, const struct text* words) {
	if (!words->size)
		return;
	open_item(x, what);
	x->voice->story->more(x, words->data, words->size);
	text_add(&x->story.text, words->data, words->size);
}

void story_part(struct choice* c, const struct swiftlet_step* step) {
	struct exchange* x = c->exchange;
	(void)step;
	say(x, STORY_REASONING, &c->reader.reasoning);
	say(x, STORY_TEXT, &c->reader.content);
	for (int i = c->told_calls; i < c->reader.tools.n; i++) {
		close_item(x);
		begin_saying(&x->story);
		x->voice->story->call(x, &c->reader.tools.call[i]);
		x->story.items++;
	}
}

void story_last(struct choice* c) {
	struct exchange* x = c->exchange;
	if (x->voice->story->never_empty && x->story.items == 0 && x->story.open == STORY_NOTHING)
		open_item(x, STORY_TEXT);
	close_item(x);
}

void story_whole(struct exchange* x) {
	story_part(&x->choice[0], NULL);
	story_last(&x->choice[0]);
	text_clear(&x->out);
}
