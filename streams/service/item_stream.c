/* The part that vendors' responses share whose items open, grow and close (generation.h). */
#include "streams/service/generation.h"

static void put_separator(struct item_stream* s) { text_put(&s->closed, s->count ? ", " : ""); }

/* Ends the item that is open, if one is. */
static void close_item(struct generation* g) {
	struct item_stream* s = &g->items;
	if (s->open == ITEM_NONE)
		return;
	put_separator(s);
	g->formatter->items->close(g);
	s->count++;
	text_clear(&s->text);
	s->open = ITEM_NONE;
}

/* Begins another item, if it is not the one that is open. */
static void open_item(struct generation* g, enum item_kind what) {
	if (g->items.open == what)
		return;
	close_item(g);
	g->items.open = what;
	g->formatter->items->open(g);
}

static void put_item_text(struct generation* g, enum item_kind what, const struct text* words) {
	if (!words->size)
		return;
	open_item(g, what);
	g->formatter->items->more(g, words->data, words->size);
	text_add(&g->items.text, words->data, words->size);
}

void items_part(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	(void)step;
	put_item_text(g, ITEM_REASONING, &c->reader.reasoning);
	put_item_text(g, ITEM_TEXT, &c->reader.content);
	for (int i = c->sent_calls; i < c->reader.tools.n; i++) {
		close_item(g);
		put_separator(&g->items);
		g->formatter->items->call(g, &c->reader.tools.call[i]);
		g->items.count++;
	}
}

void items_last(struct choice* c) {
	struct generation* g = c->generation;
	if (g->formatter->items->never_empty && g->items.count == 0 && g->items.open == ITEM_NONE)
		open_item(g, ITEM_TEXT);
	close_item(g);
}

void items_whole(struct generation* g) {
	items_part(&g->choice[0], NULL);
	items_last(&g->choice[0]);
	text_clear(&g->out);
}
