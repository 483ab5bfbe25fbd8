/* An exchange: one request for completions or a chat, its generations, and its answer.
 *
 * It is shared by the connection's thread (server_generate.c) and the scheduler's (exchange_steps.c); its
 * lock is held for moments. It lives until both have let go of it. The scheduler's thread writes what a step
 * brought and wakes the connection if it sleeps; the connection sends what is there and sleeps when nothing
 * is.
 *
 * A request of any vendor becomes the same api_request (openai.h), runs the same way and is told by its
 * voice, whole or in a stream. OpenAI's chats and completions need no memory of what was said; the others',
 * whose events number and close what they open, keep a story. */
#ifndef SWIFTLET_STREAMS_SERVICE_EXCHANGE_H
#define SWIFTLET_STREAMS_SERVICE_EXCHANGE_H

#include <time.h>

#include "core/text/tokenizer.h"
#include "streams/service/answer_reader.h"
#include "streams/service/openai.h"
#include "streams/service/server_internal.h"

/* Bytes of a stream that may wait for a client that does not read: then it counts as gone. */
enum { EXCHANGE_BEHIND = 16 << 20, CHOICE_ACCEPTED = 65 };

/* Log probabilities of one choice, put together as tokens come; in a stream those not told yet. */
struct reply_logprobs {
	struct text tokens, values, tops, offsets; /* completions: four arrays' members; chats: the first alone */
	size_t offset;                             /* of the next token in the text, bytes */
	int n;
};

struct choice { /* one generation of an exchange */
	struct exchange* exchange;
	int index;
	struct job job;
	struct answer_reader reader; /* of a stream: what was not said yet; else the whole answer */
	struct reply_logprobs logprobs;
	float* embedding; /* (dim) where it is wanted */
	struct swiftlet_figures figures;
	int told_calls;                    /* of a stream */
	int64_t thought;                   /* tokens of steps that ended within a thought */
	int64_t accepted[CHOICE_ACCEPTED]; /* rounds by accepted tokens, but for those with none */
	size_t echoed;                     /* bytes of the prompt, where it is echoed */
	size_t unseen; /* those that its tokens have beyond them and that were not passed over yet */
	size_t shown;  /* bytes of the tokens so far, special ones left out */
};

/* What was said of an answer so far, of which there is one. */
enum story_part { STORY_NOTHING, STORY_REASONING, STORY_TEXT };
struct reply_story {
	int events, items;
	enum story_part open;
	struct text text; /* of the item that is open */
	struct text said; /* the items that are closed, as JSON, commas between */
};

struct exchange {
	pthread_mutex_t lock;
	atomic_int holders;
	struct server* server;
	const struct reply_voice* voice;
	struct reply_story story;
	struct api_request request;
	char id[48];
	time_t created;
	struct token_list* prompt; /* (n_prompts) */
	int n_prompts;
	struct token_list expected; /* the prediction's */
	struct choice* choice;      /* (n) */
	int n, ended, unbegun;      /* unbegun: of those that ended, for want of time */
	struct text begun;          /* what the answer was made to begin with: tool_choice */
	bool bound;                 /* the grammar is that of strict tools' calls */
	bool detail;                /* the page wants to know who drafted which tokens */
	struct {
		int64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
	} usage; /* of all choices, once they have ended */

	/* under the lock */
	struct MHD_Connection* connection; /* NULL: gone */
	int socket;
	bool asleep, gone, finished;
	struct text out; /* streams: what is not yet sent; else the body */
	size_t sent;
	struct api_error error; /* status != 0: what ended it */
};

/* How a vendor's API says an answer, into the exchange's `out`: what the scheduler's thread calls. */
struct reply_voice {
	const char* id; /* what an answer's name begins with */
	bool (*read)(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
	/* Streams, a choice at a time. part: what its reader has, reasoning, text and the calls not told yet, of
	 * a step (NULL: of none, so without what goes with tokens). */
	void (*first)(struct choice*);
	void (*part)(struct choice*, const struct swiftlet_step*);
	void (*last)(struct choice*);
	void (*end)(struct exchange*); /* all choices have ended; an error ends a stream early */
	void (*whole)(struct exchange*);
	const struct story_voice* story; /* NULL: it has none */
};
extern const struct reply_voice voice_completion, voice_chat, voice_responses, voice_messages,
    voice_embeddings;

/* How a voice with a story says a thought or a text: that it begins, more of it, and that it ends, with the
 * whole item added to what the story has said. Its `open` says which of both it is. A call is an item at
 * once, and added too. */
struct story_voice {
	void (*open)(struct exchange*);
	void (*more)(struct exchange*, const char* text, size_t size);
	void (*close)(struct exchange*);
	void (*call)(struct exchange*, const struct tool_call*);
	bool never_empty; /* an answer without a word is an item all the same */
};
/* reply_story.c: two of such a voice's routines. */
void story_part(struct choice*, const struct swiftlet_step*);
void story_last(struct choice*);
#define STORY(how) .story = how, .part = story_part, .last = story_last
/* A whole answer becomes the story that a stream would have told, of which only `said` is kept. */
void story_whole(struct exchange*);

/* openai_reply.c */
void reply_logprobs_add(struct choice*, const struct swiftlet_token*);
void reply_logprobs_free(struct reply_logprobs*); /* `offset` stays */

/* exchange_open.c: from a request to jobs. NULL with the call's error set. */
struct exchange* exchange_open(struct call*);

/* tool_binding.c: where a tool of the request is strict, the answer gets a grammar in which such tools'
 * arguments are bound to their schemas. To be called after `begun`, which is no part of it, is known. False
 * with a 400 where the schemas, or how the model writes its calls, cannot be kept. */
bool tools_bind(struct exchange*, struct api_error*);

/* exchange_steps.c: from steps to an answer */
extern const struct job_calls exchange_calls;

/* server_generate.c */
void exchange_let_go(struct exchange*);
void exchange_wake(struct exchange*); /* with the lock held */

#endif
