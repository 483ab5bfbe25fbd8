/* The page list of drafts. It holds for some tokens, because the target's attention moves slowly. */
#include "core/decode/draft_pages.h"

#include <stdlib.h>

#include "core/decode/session_state.h"

/* 16 pages a block keep an acceptance of .95 to .97 at 2 to 5 thousand tokens; a list of 16 tokens' age costs
 * .006 of it (bench pages). */
enum { BUDGET = 16, REFRESH = 8 };
/* The share of a draft step's cost that a list must save: more than the acceptance that it loses. */
static const double WORTH = 0.1;

bool draft_pages_open(struct session* s) {
	struct draft_pages* p = &s->pages;
	const struct swiftlet_options* o = &s->options;
	const bool wanted =
	    o->drafting.pages > 0 || (o->drafting.pages < 0 && o->drafting.when == SWIFTLET_DRAFT_AUTO);
	if (!wanted || !s->drafters.state[SOURCE_mask] || !s->engine->backend->list_pages)
		return true;
	p->budget = o->drafting.pages > 0 ? o->drafting.pages : BUDGET;
	const size_t blocks = (size_t)s->engine->model->weights.shape.n_blocks;
	p->page = malloc(blocks * (size_t)(p->budget + 1) * sizeof *p->page);
	return p->page != NULL;
}

void draft_pages_close(struct draft_pages* p) { free(p->page); }

void draft_pages_begin(struct draft_pages* p) {
	p->listed_at = -1;
	p->now = NULL;
	p->unread = 0;
}

/* Positions that a draft's row reads with the list. */
static int count_read(const struct draft_pages* p, int committed) {
	return p->list.n * LIST_POSITIONS + committed - p->list.from;
}

void draft_pages_round(struct session* s) {
	struct draft_pages* p = &s->pages;
	const struct cost_model* cost = &s->engine->cost;
	const int committed = s->cache->committed;
	p->now = NULL;
	p->unread = 0;
	if (!p->page)
		return;
	if (p->listed_at < 0 || committed < p->listed_at || committed >= p->listed_at + REFRESH)
		p->listed_at =
		    s->engine->backend->list_pages(s->cache, p->budget, p->page, &p->list) ? committed : -1;
	if (p->listed_at < 0)
		return;
	const double whole = cost_share(cost, session_drafts_with(s));
	const double all = session_cache_bytes(s->cache, committed);
	p->unread = all > 0 ? 1 - session_cache_bytes(s->cache, count_read(p, committed)) / all : 0;
	const bool pays = whole - cost_share(cost, session_drafts_with(s)) >= WORTH * whole;
	if (s->options.drafting.pages > 0 || pays)
		p->now = &p->list;
	else
		p->unread = 0;
}
