/* What a client of OpenAI's API is given: whole answers, and chunks of a stream. Plain text out of plain
 * values; no connection, no session. */
#ifndef SWIFTLET_STREAMS_SERVICE_OPENAI_REPLY_H
#define SWIFTLET_STREAMS_SERVICE_OPENAI_REPLY_H

#include "core/text/tokenizer.h"
#include "streams/service/tool_calls.h"
#include "streams/text.h"
#include "swiftlet.h"

struct reply_story; /* reply_voice.h */
struct reply_voice;

struct reply_head {
	bool chat;
	const char* id;  /* "cmpl-…", "chatcmpl-…" */
	int64_t created; /* seconds since 1970 */
	const char* model;
	const struct reply_voice* voice;
	struct reply_story* story;
	const char* echo;        /* members of the request that the answer repeats, as JSON; or NULL */
	bool base64;             /* numbers as bytes */
	const char* const* stop; /* the request's stop strings */
	int64_t prompt_tokens;
};

/* Log probabilities of one choice, put together as tokens come. Zeroed to begin with. */
struct reply_logprobs {
	struct text tokens, values, tops, offsets; /* completions: four arrays' members */
	struct text content;                       /* chat: one array's */
	size_t offset;                             /* of the next token in the text, bytes */
	int n;
};
void reply_logprobs_add(struct reply_logprobs*, bool chat, const struct tokenizer*,
                        const struct swiftlet_token*, int n_top);
void reply_logprobs_free(struct reply_logprobs*);

struct reply_choice {
	int index;
	const char* text;
	size_t size;
	const char* reasoning; /* what the model thought before */
	size_t reasoning_size;
	const struct reply_logprobs* logprobs; /* NULL: not asked for */
	enum swiftlet_stop stop;
	int stop_string;              /* that ended it, or -1 */
	const struct tool_call* call; /* (n_calls) */
	int n_calls;
	const float* embedding; /* (dim); NULL: none was wanted */
	int dim;
};

/* Speculative decoding of one generation, as vLLM's metrics.speculative_decoding tells it. */
enum { REPLY_ACCEPTED = 65 };
struct reply_speculation {
	int64_t
	    steps[REPLY_ACCEPTED]; /* rounds by accepted tokens; those with none are counted from the figures */
	int most;                  /* draft steps of a round, at most */
};

struct reply_usage {
	int64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
	const struct swiftlet_figures* const* figures; /* (n) one a choice */
	int n;
	enum swiftlet_method method;
	const struct reply_speculation* speculation; /* of one choice; NULL: not told */
	bool wanted;                                 /* in a stream */
};

/* The figures of one generation as an object, for `detail`. */
void reply_figures(struct text*, const struct swiftlet_figures*, enum swiftlet_method);
/* [["piece", who drafted it or null], …] of a step's tokens, for the page. */
void reply_tokens(struct text*, const struct tokenizer*, const struct swiftlet_step*);

#endif
