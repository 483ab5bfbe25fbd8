/* swiftlet: several tokens a pass, with exactly the output the model would have given alone.
 *
 * The one public header of libswiftlet. A model is opened from files; an engine holds it on a CPU or a
 * GPU; a session is one sequence at a time with a cache and a layer-set search that it carries from
 * prompt to prompt. Every call that can fail returns NULL or false and writes one sentence to `message`
 * (size bytes, always terminated; may be NULL with size 0). Strings are UTF-8. Nothing here is locked:
 * one thread at a time may use an engine and its sessions. */
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

/* Changes where a program has to be written anew. */
#define SWIFTLET_API_VERSION 2

/* ---- options ------------------------------------------------------------------------------ */

/* Every option goes by its command-line name without dashes; `swiftlet run --help-all` lists them with their
 * defaults. NULL on no memory. Free them whenever you like: what is opened with them keeps a copy. */
SWIFTLET_API swiftlet_options* swiftlet_options_new(void);
SWIFTLET_API void swiftlet_options_free(swiftlet_options*);
/* Sets one option ("window", "32"; "preset", "paper"). Returns 1 when set, 0 when there is no such option, -1
 * with the message when the value is out of range. */
SWIFTLET_API int swiftlet_options_set(swiftlet_options*, const char* name, const char* value, char* message,
                                      size_t size);
/* One option's value as text that swiftlet_options_set takes; of one that is not set what stands for that:
 * "", 0, or -1 for opt-budget. False when there is no such option, or when it is not a single value
 * (drafters, tree-top-k, preset). */
SWIFTLET_API bool swiftlet_options_get(const swiftlet_options*, const char* name, char* text, size_t size);
/* Seconds, in place of the monotonic clock. The search then has no thread of its own, so that all repeats. */
SWIFTLET_API void swiftlet_options_set_clock(swiftlet_options*, double (*clock)(void* user), void* user);
/* Called with the share of the quantized draft weights that is made while an engine opens. */
SWIFTLET_API void swiftlet_options_set_progress(swiftlet_options*, void (*progress)(void* user, double share),
                                                void* user);

/* ---- model, engine, session --------------------------------------------------------------- */

/* spec as MODEL on the command line. The options say which backend it is for (synth: weights for a GPU
 * are made on the GPU, unless draft-bits asks for a copy of them); NULL: the CPU. */
SWIFTLET_API swiftlet_model* swiftlet_model_open(const char* spec, const swiftlet_options*, char* message,
                                                 size_t size);
SWIFTLET_API void swiftlet_model_close(swiftlet_model*);
SWIFTLET_API const char* swiftlet_model_name(const swiftlet_model*);
SWIFTLET_API int swiftlet_model_dim(const swiftlet_model*); /* of its states */
/* Ids of a prompt, BOS as the model's rules say; malloc'd, NULL on no memory. */
SWIFTLET_API int32_t* swiftlet_tokenize(const swiftlet_model*, const char* text, size_t size, int* n);

/* The model must outlive the engine, the engine its sessions. */
SWIFTLET_API swiftlet_engine* swiftlet_engine_open(swiftlet_model*, const swiftlet_options*, char* message,
                                                   size_t size);
SWIFTLET_API void swiftlet_engine_close(swiftlet_engine*);
SWIFTLET_API const char* swiftlet_engine_name(const swiftlet_engine*); /* "cpu (avx512)" */
/* A line on why the CPU runs the model where a GPU was found and left to choose ("auto"), and one on the copy
 * of the weights for drafting as it is now: its memory, how far it is made, what went wrong with its file, or
 * why there is none; "" where there is nothing to say. The engine's, until it is asked again. */
SWIFTLET_API const char* swiftlet_engine_note(swiftlet_engine*);

SWIFTLET_API swiftlet_session* swiftlet_session_open(swiftlet_engine*, const swiftlet_options*, char* message,
                                                     size_t size);
SWIFTLET_API void swiftlet_session_close(swiftlet_session*);

/* ---- generating --------------------------------------------------------------------------- */

/* What a text has to keep. A JSON Schema (NULL: any JSON object), of which the text is a valid value, an
 * ECMA-262 expression that it matches as a whole, or the rules of a GBNF grammar. What cannot be kept is an
 * error that names it. It must outlive the requests that use it; any number may. NULL with the message set.
 */
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
	const char* const* stop; /* (n_stop) strings; text from the first one on is not given */
	int n_stop;
	double temperature;  /* 0: greedy */
	double top_p, min_p; /* 1 and 0: off */
	int top_k;           /* 0: off */
	/* -2 to 2, 0: off: subtracted from the logits of tokens generated before, once, and once for each time */
	double presence_penalty, frequency_penalty;
	/* 0 to 10, 1: off, 0: as the model's generation_config.json says, off where it is silent: divides the
	 * positive logits of tokens of the prompt and the text so far, and multiplies the negative ones */
	double repetition_penalty;
	const struct swiftlet_bias* bias; /* (n_bias) by ascending token, each once */
	int n_bias;
	bool ignore_eos;          /* the model's own end tokens are tokens like others */
	const int32_t* end_token; /* (n_end_tokens) that end the text beside them, at most SWIFTLET_END_TOKENS */
	int n_end_tokens;
	uint64_t seed, sequence; /* the noise; sequence tells choices of one request apart */
	int logprobs;            /* > 0: that many alternatives a token, at most 20 */
	bool prompt_logprobs;    /* with logprobs: of the prompt's tokens too, all of which are computed then */
	const char* task;        /* a label, or NULL */
	/* (n_expected) a text that the output is expected to follow: drafts come from it first. NULL: none. Of
	 * one longer than the context the beginning is taken. */
	const int32_t* expected;
	int n_expected;
	const swiftlet_grammar* grammar; /* that the text has to keep; NULL: none */
	/* (swiftlet_model_dim) gets the mean, over the prompt's tokens, of the states that the last block leaves,
	 * after the final norm; there when the first token is. All of the prompt is computed then. NULL: not
	 * wanted. */
	float* embedding;
};
SWIFTLET_API void swiftlet_request_default(struct swiftlet_request*, const swiftlet_options*);

enum swiftlet_stop { SWIFTLET_RUNNING, SWIFTLET_EOS, SWIFTLET_LENGTH, SWIFTLET_STOP, SWIFTLET_CANCELLED };
SWIFTLET_API const char* swiftlet_stop_name(enum swiftlet_stop); /* "eos", "length", "stop", "cancelled" */

struct swiftlet_token {
	int32_t id;
	bool drafted;  /* a draft token that was accepted; else computed by the full model */
	int source;    /* who drafted it (swiftlet_source_name); -1: nobody */
	float logprob; /* with logprobs: of the raw distribution */
	int n_top;
	int32_t top_id[20];
	float top_logprob[20];
};

/* What one step brought. Pointers are the session's, good until its next call. */
struct swiftlet_step {
	const struct swiftlet_token* token;
	int n;
	const struct swiftlet_token* prompt; /* (n_prompt) with prompt_logprobs: the prompt's next tokens, of */
	int n_prompt;                        /* which the very first has no log probability (NaN) */
	const char* text;                    /* whole characters that can be shown now; stop strings held back */
	size_t text_size;
	enum swiftlet_stop stop; /* SWIFTLET_RUNNING while there is more */
};

enum { SWIFTLET_SOURCES = 8, SWIFTLET_CTAR = 6 };
/* "mask", "retrieval", …: who drafted; NULL beyond the last. */
SWIFTLET_API const char* swiftlet_source_name(int source);

/* Figures of one generation; names as in the JSON of `swiftlet run --json`. NaN: does not apply. */
struct swiftlet_figures {
	int prompt_tokens, cached_tokens, tokens;
	enum swiftlet_stop stop;
	int stop_string; /* the request's stop string that ended the text, or -1 */
	struct {
		double load, prefill, decode, draft, verify, plain, optimize, other;
	} seconds;
	double tokens_per_second;
	int64_t full_passes, verify_passes, plain_steps, draft_steps, accepted;
	int64_t draft_accepted; /* of draft_steps, which are the model's own with sub-layers left out: alpha */
	struct {
		int64_t rows, accepted; /* verified for it, and accepted of them */
		double predicted;       /* accepted, as was expected */
	} source[SWIFTLET_SOURCES];
	int64_t round_tokens; /* tokens emitted by rounds with a draft: M = round_tokens / verify_passes */
	int64_t lost_rounds;  /* of these, what took longer than plain steps for their tokens */
	double seconds_saved, seconds_lost; /* against plain steps: by the rounds that won, by those that lost */
	double mean_generated;              /* M */
	/* Kangaroo Eq. 1 and 2: tokens a full pass, and the share of full passes that accepted more than w - 1
	 * draft tokens, w = 1… */
	double compression_ratio, ctar[SWIFTLET_CTAR];
	int64_t ctar_passes[SWIFTLET_CTAR];
	int64_t verified_rows; /* of verify passes, roots counted */
	int exit_block;        /* blocks run before the exit that drafted last; 0: none did */
	double alpha, skip_ratio, c, expected_speedup;
	double matchness;         /* of the mask at the end, on windows that it was not chosen by */
	double chosen_by;         /* the score that it was chosen by: the best of many, so too high */
	int64_t optimize_steps;   /* proposals scored during this generation */
	const char* search_state; /* "running", "confirmed", "exhausted", "patience", "off" */
	/* Share of the layers' weights that the model's draft steps read at the end: without what the mask skips,
	 * and without the channels that are left out. NaN: it drafted nothing. */
	double read;
	int n_attention, n_mlp; /* the mask at the end, 0-based blocks, ascending */
	int attention[256], mlp[256];
	/* of the others, those that drafts run with the quantized draft weights; and whether the head does */
	int n_quantized_attention, n_quantized_mlp, quantized_head;
	int quantized_attention[256], quantized_mlp[256];
};

/* Starts a request: checks it and takes the prompt; the prefill runs in the steps that follow. Tokens of
 * the prompt that the cache still holds from the last request, in whole chunks of 256, are kept. */
SWIFTLET_API bool swiftlet_session_start(swiftlet_session*, const struct swiftlet_request*, char* message,
                                         size_t size);
/* One round (or a chunk of the prefill): false on a failure of the backend. When step.stop is not
 * RUNNING the generation is over. */
SWIFTLET_API bool swiftlet_session_step(swiftlet_session*, struct swiftlet_step*, char* message, size_t size);
SWIFTLET_API void swiftlet_session_cancel(swiftlet_session*); /* the next step says CANCELLED */
SWIFTLET_API void swiftlet_session_figures(const swiftlet_session*, struct swiftlet_figures*);

/* start and step until done; `on_step` may be NULL, and cancels by returning false. */
SWIFTLET_API bool swiftlet_session_generate(swiftlet_session*, const struct swiftlet_request*,
                                            bool (*on_step)(void* user, const struct swiftlet_step*),
                                            void* user, struct swiftlet_figures*, char* message, size_t size);

/* ---- masks -------------------------------------------------------------------------------- */

/* Skips these blocks' attention and MLP from the next round on (0-based). False when a block is the first
 * or the last, or beyond. */
SWIFTLET_API bool swiftlet_session_set_mask(swiftlet_session*, const int* attention, int n_attention,
                                            const int* mlp, int n_mlp, char* message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
