/* The searches of the kinds of text that are not served now, of all sessions together, each with the
 * influence of its kind.
 *
 * A session has one search, its present one. When it turns to another kind of text its search is kept here,
 * and whichever session turns to that kind next goes on with it; the one longest unused makes way for
 * another. A search has a thread and grows to some twenty megabytes: what all take is bounded by the sessions
 * and these places, not by sessions times kinds. */
#ifndef SWIFTLET_STREAMS_MEMORY_SEARCHES_H
#define SWIFTLET_STREAMS_MEMORY_SEARCHES_H

#include "optimizer/optimizer.h"

enum { SEARCHES = 8 };

struct kind_search {
	int64_t kind;          /* 0: a free place; before a session's first move */
	struct search* search; /* NULL: a free place; of a session's present one, which is the session's own */
	struct influence influence;
	int64_t used;
};

struct searches {
	struct kind_search aside[SEARCHES];
	int64_t uses;
};

void searches_close(struct searches*);

enum searches_move {
	SEARCHES_STAYED, /* it is the present one, or there is no memory for another search */
	SEARCHES_MOVED,
	SEARCHES_NEW /* moved, and nothing has been observed there: the first kind takes the session's own search
	              */
};
/* The session's search, where it is of a kind, is kept with it; the session has a new one, of no kind yet. */
void searches_part(struct searches*, swiftlet_session*, struct kind_search* present);
/* The session, which has a search, goes on with the one of this kind; `present` tells of the one it has. */
enum searches_move searches_move(struct searches*, swiftlet_session*, struct kind_search* present,
                                 int64_t kind);

#endif
