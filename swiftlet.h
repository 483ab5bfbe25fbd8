/* swiftlet: several tokens a pass, with exactly the output that the model would have given alone.
 *
 * This is the one public header of libswiftlet. A model is opened from files. An engine runs it on a CPU or a
 * GPU. A session generates one sequence at a time; it has a KV cache, and a search for layers to skip that
 * continues from prompt to prompt. A call that can fail returns NULL or false and writes one sentence to
 * `message` (size bytes, always terminated; may be NULL with size 0). Strings are UTF-8. Nothing here is
 * locked: one thread at a time may use an engine and its sessions. */
#ifndef SWIFTLET_H
#define SWIFTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SWIFTLET_API __attribute__((visibility("default")))
#else
#define SWIFTLET_API
#endif

typedef struct model swiftlet_model;
typedef struct engine swiftlet_engine;
typedef struct session swiftlet_session;
typedef struct grammar swiftlet_grammar;
typedef struct swiftlet_options swiftlet_options;

/* Changes when programs have to be rewritten for a new version. */
#define SWIFTLET_API_VERSION 2

/* ---- options ------------------------------------------------------------------------------ */

/* Options have their command-line names without dashes; `swiftlet run --help-all` lists them with their
 * defaults. NULL on no memory. They may be freed at any time, because models, engines and sessions keep
 * copies. */
SWIFTLET_API swiftlet_options* swiftlet_options_new(void);
SWIFTLET_API void swiftlet_options_free(swiftlet_options*);
/* Sets one option ("window", "32"; "preset", "paper"). Returns 1 when it is set, 0 for an unknown name, -1
 * with the message for a value out of range. */
SWIFTLET_API int swiftlet_options_set(swiftlet_options*, const char* name, const char* value, char* message,
                                      size_t size);
/* An option's value as text that swiftlet_options_set takes. An option that was not set may give "", 0, or -1
 * (opt-budget) in place of its default. False for an unknown name, and for an option without a single value
 * (drafters, tree-top-k, preset). */
SWIFTLET_API bool swiftlet_options_get(const swiftlet_options*, const char* name, char* text, size_t size);
/* A clock in seconds that replaces the monotonic one. The search then has no thread of its own, so that
 * results repeat. */
SWIFTLET_API void swiftlet_options_set_clock(swiftlet_options*, double (*clock)(void* user), void* user);
/* Called while an engine opens, with the share of the quantized draft weights that is made. */
SWIFTLET_API void swiftlet_options_set_progress(swiftlet_options*, void (*progress)(void* user, double share),
                                                void* user);

/* ---- model, engine, session --------------------------------------------------------------- */

/* spec: MODEL as on the command line. The options name the backend it is for: synth: weights for a GPU are
 * made there, unless draft-bits asks for draft weights. NULL: the CPU. */
SWIFTLET_API swiftlet_model* swiftlet_model_open(const char* spec, const swiftlet_options*, char* message,
                                                 size_t size);
SWIFTLET_API void swiftlet_model_close(swiftlet_model*);
SWIFTLET_API const char* swiftlet_model_name(const swiftlet_model*);
SWIFTLET_API int swiftlet_model_dim(const swiftlet_model*); /* of its states */
/* Ids of a prompt, with BOS if the model's rules require it; malloc'd, NULL on no memory. */
SWIFTLET_API int32_t* swiftlet_tokenize(const swiftlet_model*, const char* text, size_t size, int* n);

/* The model must outlive the engine, the engine its sessions. */
SWIFTLET_API swiftlet_engine* swiftlet_engine_open(swiftlet_model*, const swiftlet_options*, char* message,
                                                   size_t size);
SWIFTLET_API void swiftlet_engine_close(swiftlet_engine*);
SWIFTLET_API const char* swiftlet_engine_name(const swiftlet_engine*); /* "cpu (avx512)" */
/* Notes for people: why the CPU runs the model although a GPU was found ("auto"), and the state of the
 * quantized draft weights: their memory, how much of them is made, or why there are none; "" without any.
 * Valid until the next call. */
SWIFTLET_API const char* swiftlet_engine_note(swiftlet_engine*);

SWIFTLET_API swiftlet_session* swiftlet_session_open(swiftlet_engine*, const swiftlet_options*, char* message,
                                                     size_t size);
SWIFTLET_API void swiftlet_session_close(swiftlet_session*);

/* ---- generating --------------------------------------------------------------------------- */

/* A grammar that a text has to keep: a JSON Schema (NULL: any JSON object), of which the text is a valid
 * value; an ECMA-262 expression, which matches the whole text; or the rules of a GBNF grammar. A schema that
 * cannot be enforced gives an error that names the keyword. Any number of requests may use a grammar, which
 * must outlive them. NULL with the message set. */
SWIFTLET_API swiftlet_grammar* swiftlet_grammar_json_schema(const char* schema, size_t schema_size,
                                                            char* message, size_t size);
SWIFTLET_API swiftlet_grammar* swiftlet_grammar_regex(const char* expression, size_t expression_size,
                                                      char* message, size_t size);
SWIFTLET_API swiftlet_grammar* swiftlet_grammar_gbnf(const char* rules, size_t rules_size, char* message,
                                                     size_t size);
SWIFTLET_API void swiftlet_grammar_free(swiftlet_grammar*);

enum { SWIFTLET_END_TOKENS = 32 };

struct swiftlet_bias {
	int32_t token;
	float bias; /* -100 to 100, added to the token's logit */
};

struct swiftlet_request {
	const int32_t* prompt; /* (n_prompt) ids, at least one */
	int n_prompt;
	int max_tokens;          /* at least 1 */
	const char* const* stop; /* (n_stop) strings that end the text and are not part of it */
	int n_stop;
	double temperature;  /* 0: greedy */
	double top_p, min_p; /* 1 and 0: off */
	int top_k;           /* 0: off */
	/* -2 to 2, 0: off. Subtracted from the logits of tokens that the text holds: presence once, frequency
	 * once for each time */
	double presence_penalty, frequency_penalty;
	/* 0 to 10, 1: off; 0: the value of the model's generation_config.json, or off. Divides the positive
	 * logits of tokens in the prompt and the text so far, and multiplies the negative ones */
	double repetition_penalty;
	const struct swiftlet_bias* bias; /* (n_bias) by ascending token, each once */
	int n_bias;
	bool ignore_eos; /* the model's own end tokens do not end the text */
	const int32_t*
	    end_token; /* (n_end_tokens) further tokens that end the text, at most SWIFTLET_END_TOKENS */
	int n_end_tokens;
	uint64_t seed, sequence; /* seed of the noise; sequence separates the choices of one request */
	int logprobs;            /* > 0: alternatives reported for each token, at most 20 */
	bool prompt_logprobs; /* with logprobs: the prompt's tokens are reported too, and all of them are computed
	                       */
	const char* task;     /* a label, or NULL */
	/* (n_expected) a text that the output is likely to follow, from which drafts come first; NULL: none. Only
	 * its beginning is used if it is longer than the context. */
	const int32_t* expected;
	int n_expected;
	const swiftlet_grammar* grammar; /* that the text has to keep; NULL: none */
	/* (swiftlet_model_dim) receives the mean over the prompt's tokens of the last block's states after the
	 * final norm, by the time of the first token. All of the prompt is computed for it. NULL: not wanted. */
	float* embedding;
};
SWIFTLET_API void swiftlet_request_default(struct swiftlet_request*, const swiftlet_options*);

enum swiftlet_stop { SWIFTLET_RUNNING, SWIFTLET_EOS, SWIFTLET_LENGTH, SWIFTLET_STOP, SWIFTLET_CANCELLED };
SWIFTLET_API const char* swiftlet_stop_name(enum swiftlet_stop); /* "eos", "length", "stop", "cancelled" */

struct swiftlet_token {
	int32_t id;
	bool drafted;  /* a draft token that was accepted; false: computed by the full model */
	int source;    /* its drafter (swiftlet_source_name); -1: none */
	float logprob; /* with logprobs: of the raw distribution */
	int n_top;
	int32_t top_id[20];
	float top_logprob[20];
};

/* The output of one step. Pointers are the session's, valid until its next call. */
struct swiftlet_step {
	const struct swiftlet_token* token;
	int n;
	const struct swiftlet_token* prompt; /* (n_prompt) with prompt_logprobs: the prompt's next tokens; */
	int n_prompt;                        /* the very first token has no log probability (NaN) */
	const char* text;                    /* whole characters, without what may begin a stop string */
	size_t text_size;
	enum swiftlet_stop stop; /* SWIFTLET_RUNNING while there is more */
};

enum { SWIFTLET_SOURCES = 8, SWIFTLET_CTAR = 6 };
/* A drafter's name: "mask", "retrieval", …; NULL beyond the last. */
SWIFTLET_API const char* swiftlet_source_name(int source);

/* Figures of one generation, with the names of `swiftlet run --json`. NaN: does not apply. */
struct swiftlet_figures {
	int prompt_tokens, cached_tokens, tokens;
	enum swiftlet_stop stop;
	int stop_string; /* index of the stop string that ended the text, or -1 */
	struct {
		double load, prefill, decode, draft, verify, plain, optimize, other;
	} seconds;
	double tokens_per_second;
	int64_t full_passes, verify_passes, plain_steps, draft_steps, accepted;
	int64_t draft_accepted; /* of draft_steps, the model's own with sub-layers left out: alpha */
	struct {
		int64_t rows, accepted; /* verified for it, and accepted of them */
		double predicted;       /* accepted, as was expected */
	} source[SWIFTLET_SOURCES];
	int64_t round_tokens; /* tokens emitted by rounds with a draft: M = round_tokens / verify_passes */
	int64_t lost_rounds;  /* of these, rounds that took longer than plain steps for their tokens */
	double seconds_saved,
	    seconds_lost;      /* compared with plain steps: by rounds that gained, by rounds that lost */
	double mean_generated; /* M */
	/* Kangaroo Eq. 1 and 2: tokens a full pass, and the share of full passes that accepted more than w - 1
	 * draft tokens, w = 1… */
	double compression_ratio, ctar[SWIFTLET_CTAR];
	int64_t ctar_passes[SWIFTLET_CTAR];
	int64_t verified_rows; /* of verify passes, roots counted */
	int exit_block;        /* blocks before the last exit that drafted; 0: none did */
	double alpha, skip_ratio, c, expected_speedup;
	double matchness;       /* of the final mask, on windows that it was not chosen by */
	double chosen_by;       /* the score by which it was chosen, which is too high, being the best of many */
	int64_t optimize_steps; /* proposals scored during this generation */
	const char* search_state; /* "running", "confirmed", "exhausted", "patience", "off" */
	/* Share of the layers' weights that the model's draft steps read at the end: without sub-layers that the
	 * mask skips and without left-out channels. NaN: it drafted nothing. */
	double read;
	int n_attention, n_mlp; /* the final mask: 0-based blocks, ascending */
	int attention[256], mlp[256];
	/* the other sub-layers that drafts run with the quantized draft weights; and whether the head does */
	int n_quantized_attention, n_quantized_mlp, quantized_head;
	int quantized_attention[256], quantized_mlp[256];
};

/* Starts a request: checks it and takes the prompt, which the following steps compute. Tokens that the cache
 * still holds from the last request are reused, in whole chunks of 256. */
SWIFTLET_API bool swiftlet_session_start(swiftlet_session*, const struct swiftlet_request*, char* message,
                                         size_t size);
/* Runs one round, or a chunk of the prefill. False when the backend fails. When step.stop is not RUNNING the
 * generation is over. */
SWIFTLET_API bool swiftlet_session_step(swiftlet_session*, struct swiftlet_step*, char* message, size_t size);
SWIFTLET_API void swiftlet_session_cancel(swiftlet_session*); /* the next step ends with CANCELLED */
SWIFTLET_API void swiftlet_session_figures(const swiftlet_session*, struct swiftlet_figures*);

/* Starts a request and runs steps until it is done. `on_step` may be NULL; it cancels by returning false. */
SWIFTLET_API bool swiftlet_session_generate(swiftlet_session*, const struct swiftlet_request*,
                                            bool (*on_step)(void* user, const struct swiftlet_step*),
                                            void* user, struct swiftlet_figures*, char* message, size_t size);

/* ---- masks -------------------------------------------------------------------------------- */

/* Skips the attention and MLP of these blocks (0-based) from the next round on. False for the first and the
 * last block, and beyond. */
SWIFTLET_API bool swiftlet_session_set_mask(swiftlet_session*, const int* attention, int n_attention,
                                            const int* mlp, int n_mlp, char* message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
