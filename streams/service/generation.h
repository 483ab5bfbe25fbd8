/* A generation: one request for completions or a chat, its choices, and its response.
 *
 * The connection's thread (server_generate.c) and the scheduler's (generation_steps.c) share it; each holds
 * its lock briefly. It lives until both have released it. The scheduler's thread appends the output of each
 * step and wakes the connection if it sleeps; the connection sends what is there and sleeps when nothing is
 * left.
 *
 * A request of any vendor becomes the same api_request (openai.h) and runs the same way. The vendor's
 * response formatter writes the response, whole or as a stream. OpenAI's chats and completions need no state
 * between events. The other vendors number their events and close the items that they open: they keep an item
 * stream. */
#pragma once

#include <time.h>

#include "core/text/tokenizer.h"
#include "streams/service/answer_reader.h"
#include "streams/service/openai.h"
#include "streams/service/server_internal.h"

/* Bytes of a stream that may wait for a slow client. Beyond that it counts as gone. */
enum { GENERATION_BACKLOG = 16 << 20, CHOICE_ACCEPTED = 65 };

/* Log probabilities of one choice, collected as tokens come; in a stream only those not sent yet. */
struct reply_logprobs {
	struct text tokens, values, tops,
	    offsets;   /* completions: the members of four arrays; chats: the first alone */
	size_t offset; /* position of the next token in the text, in characters */
	int n;
};

struct choice { /* one output sequence of a generation */
	struct generation* generation;
	int index;
	struct job job;
	struct answer_reader reader; /* in a stream the text not sent yet; else the whole answer */
	struct reply_logprobs logprobs;
	float* embedding; /* (dim) where it is wanted */
	struct swiftlet_figures figures;
	int sent_calls;                    /* of a stream: calls that were begun */
	size_t sent_arguments;             /* of the last of them, bytes */
	bool sent_input;                   /* of the last of them, if it is a custom tool's: its text */
	int64_t tokens;                    /* so far */
	int64_t thought;                   /* those that began before the reasoning's end */
	int32_t* token;                    /* (tokens) */
	int64_t accepted[CHOICE_ACCEPTED]; /* counts of rounds by accepted tokens, without rounds that accepted
	                                      none */
	struct line_scan {                 /* infill.c: how far the text was looked at */
		size_t until;                  /* bytes of the reader's content */
		int indent;                    /* of the line so far; -1: the line has more, or is the first */
		double since;                  /* when its first tokens came */
		bool new_line;                 /* the text has a line feed */
		bool enough;                   /* the client wants no more of it */
	} lines;
	size_t echoed; /* characters of the echoed prompt */
	size_t unseen; /* bytes of its tokens beyond the text that were not passed over yet */
	size_t shown;  /* bytes of the tokens so far, without special ones */
};

/* The output that a response with one choice has emitted so far. */
enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_TEXT, ITEM_CALL };
struct item_stream {
	int events, count; /* emitted; items closed */
	enum item_kind open;
	struct text text; /* of the open item; in a call, of its arguments */
	struct text logprobs,
	    unsent;         /* of its tokens, as members of a list; and those that no event has sent yet */
	int calls;          /* calls begun; an open call is the last of them */
	struct text closed; /* the closed items as JSON, separated by commas */
};

struct generation {
	pthread_mutex_t lock;
	atomic_int holders;
	struct server* server;
	const struct response_formatter* formatter;
	struct item_stream items;
	struct api_request request;
	char id[48];
	time_t created;
	struct token_list* prompt; /* (n_prompts) */
	int n_prompts;
	struct token_list expected; /* the prediction's */
	struct job_group jobs;
	struct choice* choice; /* (n) */
	int n, ended, unbegun; /* unbegun: choices that ended without starting, for want of time */
	int submitted;         /* choices that the scheduler has: as many as may run at a time, then the others */
	struct text begun;     /* the beginning that tool_choice forced on the answer */
	const struct tool_syntax* syntax; /* how the model is to write its calls */
	bool bound;                       /* the grammar is that of calls, with free text before them */
	struct tool_checks checks;        /* of strict tools, if an answer may call them where no grammar binds */
	bool detail;                      /* the page asks which drafter each token came from */
	struct {
		int64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
	} usage; /* of all choices, once they have ended */

	/* under the lock */
	struct MHD_Connection* connection; /* NULL: gone */
	struct generation* next_live;      /* under the server's live_lock */
	int socket;
	bool asleep, gone, finished;
	double heard;    /* when the stream last had output for the client */
	struct text out; /* in a stream the text not sent yet; else the body */
	size_t sent;
	struct api_error error; /* status != 0: what ended it */
};

/* Writes a response in a vendor's format to the generation's `out`. The scheduler's thread calls it. */
struct response_formatter {
	const char* id;        /* prefix of a response's id */
	const char* type;      /* of a stream; NULL: server-sent events */
	const char* keepalive; /* sent in a stream while there is no output; NULL: nothing */
	bool (*read)(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
	/* Streams one choice's output. part: what the choice's reader holds after a step: reasoning, text, and
	 * calls not sent yet. step NULL: text that belongs to no step, so it has no log probabilities. */
	void (*first)(struct choice*);
	void (*part)(struct choice*, const struct swiftlet_step*);
	void (*last)(struct choice*);
	void (*end)(struct generation*); /* all choices have ended; an error ends a stream early */
	void (*whole)(struct generation*);
	const struct item_formatter* items; /* NULL: its responses have no items */
};
extern const struct response_formatter formatter_completion, formatter_chat, formatter_responses,
    formatter_messages, formatter_embeddings;

/* Writes the items of a response. An item (reasoning, text or call) opens, grows and closes. close appends
 * the whole item to the item stream's `closed`; its `open` holds the kind. call: the one that is open, else
 * NULL. */
struct item_formatter {
	void (*open)(struct generation*, const struct tool_call*);
	void (*more)(struct generation*, const char* text, size_t size);
	void (*close)(struct generation*, const struct tool_call*);
	bool never_empty; /* an empty response has an empty text item */
};
/* item_stream.c: two functions of a formatter with items. */
void items_part(struct choice*, const struct swiftlet_step*);
void items_last(struct choice*);
#define ITEM_STREAM(how) .items = how, .part = items_part, .last = items_last
/* Builds a whole response as the item stream of a streamed one; only `closed` is kept. */
void items_whole(struct generation*);

/* openai_reply.c */
void reply_timings(struct text*, const struct choice*); /* , "timings": {…}, as llama-server has them */
void reply_logprobs_add(struct choice*, const struct swiftlet_token*);
void reply_logprobs_free(struct reply_logprobs*); /* `offset` stays */

/* generation_open.c: from a request to jobs. NULL with the call's error set. */
struct generation* generation_open(struct http_call*);
const char* generation_tools(const struct generation*); /* those that may be called, JSON */
/* Counts the characters of a text by their first bytes, since it may begin or end within one. */
size_t characters(const char* text, size_t size);

/* tool_binding.c: makes a grammar that binds calls to the tools' names and schemas, when a call is forced, a
 * tool is strict, or the answer keeps a format beside tools. Call it after `begun` is known, which the
 * grammar does not cover. False with a 400 for a strict schema that cannot be enforced. */
bool tools_bind(struct generation*, struct api_error*);

/* generation_steps.c: from steps to a response */
extern const struct job_calls generation_calls;

/* server_generate.c */
void generation_let_go(struct generation*);
void generation_wake(struct generation*); /* with the lock held */
