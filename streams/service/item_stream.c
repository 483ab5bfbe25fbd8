/* Shared by the formatters of vendors whose responses consist of items that open, grow and close
 * (generation.h). */
#include <string.h>

#include "streams/service/generation.h"

static void put_separator(struct item_stream* s) { text_put(&s->closed, s->count ? ", " : ""); }

static const struct tool_call* open_call(const struct generation* g) {
	return g->items.open == ITEM_CALL ? &g->choice[0].reader.tools.call[g->items.calls - 1] : NULL;
}

/* Ends the item that is open, if one is. */
static void close_item(struct generation* g) {
	struct item_stream* s = &g->items;
	if (s->open == ITEM_NONE)
		return;
	put_separator(s);
	g->formatter->items->close(g, open_call(g));
	s->count++;
	text_clear(&s->text);
	text_clear(&s->logprobs);
	s->open = ITEM_NONE;
}

/* Begins another item, unless it is the open one. */
static void open_item(struct generation* g, enum item_kind what) {
	if (g->items.open == what && what != ITEM_CALL)
		return;
	close_item(g);
	g->items.open = what;
	g->items.calls += what == ITEM_CALL;
	g->formatter->items->open(g, open_call(g));
}

static void add_text(struct generation* g, const char* words, size_t size) {
	if (!size)
		return;
	g->formatter->items->more(g, words, size);
	text_add(&g->items.text, words, size);
}

static void append_list(struct text* to, const struct text* more) {
	if (more->size == 0)
		return;
	text_put(to, to->size ? ", " : "");
	text_add(to, more->data, more->size);
}

static void put_item_text(struct generation* g, enum item_kind what, const struct text* words) {
	if (!words->size)
		return;
	open_item(g, what);
	add_text(g, words->data, words->size);
	if (what == ITEM_TEXT)
		append_list(&g->items.logprobs, &g->items.unsent);
	text_clear(&g->items.unsent);
}

/* Arguments that have come since. */
static void go_on_with_call(struct generation* g) {
	const struct tool_call* call = open_call(g);
	const char* arguments = call && call->arguments ? call->arguments : "";
	const size_t sent = g->items.text.size;
	if (!call)
		return;
	add_text(g, arguments + sent, strlen(arguments) - sent);
	if (call->ended)
		close_item(g);
}

void items_part(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	(void)step;
	if (g->request.logprobs)
		append_list(&g->items.unsent, &c->logprobs.tokens);
	go_on_with_call(g);
	put_item_text(g, ITEM_REASONING, &c->reader.reasoning);
	put_item_text(g, ITEM_TEXT, &c->reader.content);
	while (g->items.calls < c->reader.tools.n) {
		open_item(g, ITEM_CALL);
		go_on_with_call(g);
	}
	if (g->items.open == ITEM_CALL)
		text_clear(&g->items.unsent);
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
