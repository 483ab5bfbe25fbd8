/* The pages of a long text that a session's drafts read: those that its own verified rows looked at most,
 * listed anew every few tokens, if that makes a draft step cheaper. */
#pragma once

#include "kernels/backend.h"

struct session;

struct draft_pages {
	int32_t* page; /* (n_blocks, budget + 1) the list's; NULL: drafts read all */
	int budget;
	int listed_at; /* committed tokens when it was made; -1: none was made for this text */
	struct page_list list;
	const struct page_list* now; /* what this round's drafts read; NULL: all */
	double unread;               /* the share of the cache that they leave out */
};

/* False on no memory. The session's cache is open. */
bool draft_pages_open(struct session*);
void draft_pages_close(struct draft_pages*);
/* Another text begins. */
void draft_pages_begin(struct draft_pages*);
/* A round begins: sets now and unread. */
void draft_pages_round(struct session*);
