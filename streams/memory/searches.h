/* The searches of a session, one a kind of text, each with the influence of its kind.
 *
 * One is present: its search is the session's own. The others are kept aside until their kind is served
 * again; the one longest unused makes way for a new one. */
#ifndef SWIFTLET_STREAMS_MEMORY_SEARCHES_H
#define SWIFTLET_STREAMS_MEMORY_SEARCHES_H

#include "optimizer/session.h"

enum { SEARCHES = 9 };

struct kind_search {
	int64_t kind;          /* 0: a free place */
	struct search* search; /* NULL: of the present one, whose search is the session's, and of a free place */
	struct influence influence;
	int observed; /* observations of it that are stored */
	int64_t used;
};

struct searches {
	swiftlet_session* session;
	struct kind_search of[SEARCHES];
	struct kind_search* present; /* NULL before the first move */
	int64_t uses;
};

void searches_open(struct searches*, swiftlet_session*);
void searches_close(struct searches*); /* the session keeps the search it has */

enum searches_move {
	SEARCHES_STAYED, /* it is the present one, or there is no memory for another search */
	SEARCHES_MOVED,
	SEARCHES_NEW /* moved, and nothing has been observed there: the first kind takes the session's own search
	              */
};
/* Goes on with the search of this kind. */
enum searches_move searches_move(struct searches*, int64_t kind);

#endif
