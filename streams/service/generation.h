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
#ifndef SWIFTLET_STREAMS_SERVICE_GENERATION_H
#define SWIFTLET_STREAMS_SERVICE_GENERATION_H

#include <time.h>

#include "core/text/tokenizer.h"
#include "streams/service/answer_reader.h"
#include "streams/service/openai.h"
#include "streams/service/server_internal.h"

/* Bytes of a stream that may wait for a client that does not read: then it counts as gone. */
enum { GENERATION_BACKLOG = 16 << 20, CHOICE_ACCEPTED = 65 };

/* Log probabilities of one choice, put together as tokens come; in a stream those not sent yet. */
struct reply_logprobs {
	struct text tokens, values, tops, offsets; /* completions: four arrays' members; chats: the first alone */
	size_t offset;                             /* of the next token in the text, characters */
	int n;
};

struct choice { /* one output sequence of a generation */
	struct generation* generation;
	int index;
	struct job job;
	struct answer_reader reader; /* of a stream: the text not sent yet; else the whole answer */
	struct reply_logprobs logprobs;
	float* embedding; /* (dim) where it is wanted */
	struct swiftlet_figures figures;
	int sent_calls;                    /* of a stream: calls that were begun */
	size_t sent_arguments;             /* of the last of them, bytes */
	int64_t tokens;                    /* so far */
	int64_t thought;                   /* those that began before the thought's end */
	int32_t* token;                    /* (tokens) */
	int64_t accepted[CHOICE_ACCEPTED]; /* rounds by accepted tokens, but for those with none */
	size_t echoed;                     /* characters of the prompt, where it is echoed */
	size_t unseen; /* those that its tokens have beyond them and that were not passed over yet */
	size_t shown;  /* bytes of the tokens so far, special ones left out */
};

/* The output that a response with one choice has emitted so far. */
enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_TEXT, ITEM_CALL };
struct item_stream {
	int events, count; /* emitted; items closed */
	enum item_kind open;
	struct text text;             /* of the item that is open; of a call its arguments */
	struct text logprobs, unsent; /* of its tokens, as members of a list; of these, what no event has had */
	int calls;                    /* begun; where a call is open, it is the last of them */
	struct text closed;           /* the closed items as JSON, with commas between */
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
	struct choice* choice;      /* (n) */
	int n, ended, unbegun;      /* unbegun: of those that ended, for want of time */
	int submitted;     /* to the scheduler: as many at a time as may run, and the others after them */
	struct text begun; /* what the answer was made to begin with: tool_choice */
	const struct tool_syntax* syntax; /* how the model is to write its calls */
	bool bound;                       /* the grammar is that of calls, with free text before them */
	bool detail;                      /* the page wants to know who drafted which tokens */
	struct {
		int64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
	} usage; /* of all choices, once they have ended */

	/* under the lock */
	struct MHD_Connection* connection; /* NULL: gone */
	int socket;
	bool asleep, gone, finished;
	double heard;    /* when the stream last had something for the client */
	struct text out; /* streams: what is not yet sent; else the body */
	size_t sent;
	struct api_error error; /* status != 0: what ended it */
};

/* Writes a response in a vendor's format to the generation's `out`. The scheduler's thread calls it. */
struct response_formatter {
	const char* id;        /* prefix of a response's id */
	const char* type;      /* of a stream; NULL: server-sent events */
	const char* keepalive; /* sent in a stream while there is no output; NULL: nothing */
	bool (*read)(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
	/* Streams, one choice at a time. part: what the choice's reader holds after a step, that is reasoning,
	 * text and the calls not sent yet (step NULL: text that belongs to no step, so it has no log
	 * probabilities). */
	void (*first)(struct choice*);
	void (*part)(struct choice*, const struct swiftlet_step*);
	void (*last)(struct choice*);
	void (*end)(struct generation*); /* all choices have ended; an error ends a stream early */
	void (*whole)(struct generation*);
	const struct item_formatter* items; /* NULL: its responses have no items */
};
extern const struct response_formatter formatter_completion, formatter_chat, formatter_responses,
    formatter_messages, formatter_embeddings;

/* Writes the items of a response. A thought, a text or a call opens, grows and closes; close appends the
 * whole item to the item stream's `closed`. The stream's `open` tells which kind is open; call: which, else
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
/* The characters of a text, which begins and ends with whole ones or not: each counts where it begins. */
size_t characters(const char* text, size_t size);

/* tool_binding.c: where a call is forced, a tool is strict, or the answer keeps a form beside tools, it gets
 * a grammar in which calls are bound to the tools' names and schemas. To be called after `begun`, which is no
 * part of it, is known. False with a 400 where a strict schema cannot be kept. */
bool tools_bind(struct generation*, struct api_error*);

/* generation_steps.c: from steps to an answer */
extern const struct job_calls generation_calls;

/* server_generate.c */
void generation_let_go(struct generation*);
void generation_wake(struct generation*); /* with the lock held */

#endif
