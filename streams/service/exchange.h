/* An exchange: one request for completions or a chat, its generations, and its answer.
 *
 * It is shared by the connection's thread (server_generate.c) and the scheduler's (exchange_steps.c); its
 * lock is held for moments. It lives until both have let go of it. The scheduler's thread writes what a step
 * brought and wakes the connection if it sleeps; the connection sends what is there and sleeps when nothing
 * is. */
#ifndef SWIFTLET_STREAMS_SERVICE_EXCHANGE_H
#define SWIFTLET_STREAMS_SERVICE_EXCHANGE_H

#include <time.h>

#include "streams/service/answer_reader.h"
#include "streams/service/openai.h"
#include "streams/service/reply_voice.h"
#include "streams/service/server_internal.h"

/* Bytes of a stream that may wait for a client that does not read: then it counts as gone. */
enum { EXCHANGE_BEHIND = 16 << 20 };

struct choice { /* one generation of an exchange */
	struct exchange* exchange;
	int index;
	struct job job;
	struct answer_reader reader; /* of a stream: what was not said yet; else the whole answer */
	struct reply_logprobs logprobs;
	float* embedding; /* (dim) where it is wanted */
	struct swiftlet_figures figures;
	int told_calls;  /* of a stream */
	int64_t thought; /* tokens of steps that ended within a thought */
	struct reply_speculation speculation;
	size_t echoed; /* bytes of the prompt, where it is echoed */
	size_t unseen; /* those that its tokens have beyond them and that were not passed over yet */
	size_t shown;  /* bytes of the tokens so far, special ones left out */
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
	int32_t** prompt; /* (n_prompts) ids */
	int* prompt_n;
	int n_prompts;
	int32_t* expected; /* (n_expected) the prediction's ids */
	int n_expected;
	struct choice* choice; /* (n) */
	int n, ended, unbegun; /* unbegun: of those that ended, for want of time */
	struct text begun;     /* what the answer was made to begin with: tool_choice */
	bool bound;            /* the grammar is that of strict tools' calls */
	bool detail;           /* the page wants to know who drafted which tokens */

	/* under the lock */
	struct MHD_Connection* connection; /* NULL: gone */
	int socket;
	bool asleep, gone, finished;
	struct text out; /* streams: what is not yet sent; else the body */
	size_t sent;
	struct api_error error; /* status != 0: what ended it */
};

/* exchange_open.c: from a request to jobs. NULL with the call's error set. */
struct exchange* exchange_open(struct call*, const struct reply_voice*);

/* tool_binding.c: the grammar of an answer in which strict tools' arguments are bound to their schemas.
 * NULL without an error: no tool of the request is strict. begun: what the answer was made to begin with.
 * False with a 400 where the schemas, or how the model writes its calls, cannot be kept. */
bool tools_bind(const struct api_request*, const char* chat_template, const struct tokenizer*,
                const char* begun, struct grammar** out, struct api_error*);

/* exchange_steps.c: from steps to an answer */
extern const struct job_calls exchange_calls;

/* server_generate.c */
void exchange_let_go(struct exchange*);
void exchange_wake(struct exchange*); /* with the lock held */
struct reply_head exchange_head(struct exchange*);

#endif
