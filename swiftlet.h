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
struct process_group; /* kernels/process_group.h */

/* ---- options ------------------------------------------------------------------------------ */

/* How tokens are drafted: core/decode/method.c has the table. The first two, and auto, plan by cost. */
enum swiftlet_method {
	SWIFTLET_SWIFT,
	SWIFTLET_VANILLA,
	SWIFTLET_AUTO,
	SWIFTLET_NGRAM,
	SWIFTLET_JACOBI,
	SWIFTLET_LOOKAHEAD,
	SWIFTLET_UNIFORM,
	SWIFTLET_RANDOM,
	SWIFTLET_SELF_SPEC,
	SWIFTLET_CLASP,
	SWIFTLET_LAYERSKIP,
	SWIFTLET_ADASPEED,
	SWIFTLET_KANGAROO,
	SWIFTLET_PPD,
	SWIFTLET_METHODS
};
/* When a chain of draft steps ends; OWN: as the method has it. */
enum swiftlet_stop_rule {
	SWIFTLET_STOP_OWN,
	SWIFTLET_STOP_FIXED,
	SWIFTLET_STOP_MARGINAL,
	SWIFTLET_STOP_PRODUCT,
	SWIFTLET_STOP_PROBE,
	SWIFTLET_STOP_GAIN
};
enum swiftlet_draft { SWIFTLET_DRAFT_AUTO, SWIFTLET_DRAFT_ALWAYS, SWIFTLET_DRAFT_NEVER };
#define SWIFTLET_WHOEVER_PAYS (~0u)                        /* drafters: all that can pay on the backend */
enum { SWIFTLET_TREE_AUTO = 0, SWIFTLET_TREE_PAPER = -1 }; /* max_tree; else a number of rows */

struct swiftlet_options {
	/* engine */
	char backend[16];    /* "auto", "cpu", "cuda" */
	char isa[16];        /* "auto", "reference", "avx2", "avx-vnni", "avx512", "neon", "dotprod", "i8mm" */
	int threads;         /* 0: one for each CPU that the process may use */
	int devices;         /* GPUs that share the model; 0: one, as far as a GPU is used at all */
	int screened_head;   /* the CPU's: 1, 0; -1: where the head's bytes are a good part of a step's */
	double cache_memory; /* bytes that the caches of all sessions share; 0: what each may come to need */
	/* Rank 0's, where several processes share the model; NULL: this one has all of it */
	struct process_group* group;
	/* session */
	int context;        /* tokens; 0: min(the model's, 4096) */
	char cache_type[8]; /* "auto", "f16", "f32", "q8_0" */
	enum swiftlet_method method;
	enum swiftlet_draft draft;
	enum swiftlet_stop_rule stop_rule; /* of the methods that do not plan by cost, as what follows */
	double stop_threshold;             /* under it a chain ends; negative: the method's own */
	bool stop_fixed;                   /* the threshold stays, where the method adapts it */
	bool rejection;                    /* acceptance by rejection sampling: lossless in distribution */
	bool reuse;                        /* verification goes on from the exit for the rows that were drafted */
	int exit_block;                    /* blocks that run before an exit; 0: by cost */
	int speculations;                  /* draft steps a round; 0: the method's own, or by cost */
	int children;                      /* ppd: tokens predicted for the next position; 0: by cost */
	char adapter[512], heads[512], probe[512]; /* files of auxiliary weights; "": none */
	/* Another model that drafts for this one, as MODEL on the command line; it has the same vocabulary, and
	 * is opened with the engine. "": none */
	char draft_model[512];
	unsigned drafters; /* who drafts with SWIFTLET_DRAFT_AUTO: bits by swiftlet_source_name's number, or
	                    * SWIFTLET_WHOEVER_PAYS */
	int pool;          /* tokens of the session's earlier requests that drafts may come from; 0: none.
	                    * Only for sessions that serve one tenant */
	int max_tree;      /* rows of a tree, root counted; or the two names above */
	/* alternatives for top-1 probability in (0, .5], (.5, .8], (.8, .95], (.95, 1]; zeros: 10, 8, 5, 3 when
	 * greedy, 10, 5, 3, 1 when sampled (published code) */
	int tree_top_k[4];
	int max_draft;          /* N_D */
	double threshold;       /* epsilon */
	int window, window_min; /* gamma, and the shortest scored */
	int bayes_interval, max_steps, patience, confirm;
	double max_matchness;
	double skip_ratio; /* 0: auto */
	double skip_cost;  /* share of a plain step's cost that a mask saves at least; 0: as many as pay */
	bool search;       /* false: the mask stays as given */
	/* Learning's share of plain time; infinity: a proposal before every round; negative (the default): 0.01
	 * and, in the beginning, up to 32 plain steps of what drafting has earned. */
	double opt_budget;
	/* Learning while no request runs, at idle priority: at most so many seconds for each second that requests
	 * took; 0: none, infinity: until it brings nothing more. */
	double idle_learning;
	bool published;            /* the search as SWIFT has it; set by `preset` */
	bool objective_speedup;    /* else matchness */
	bool expected_improvement; /* else UCB */
	bool hamming;              /* else Matérn 5/2 */
	double kappa;
	/* of a copy of the weights for drafting: 4 or 8, made while the engine opens; 0: none; -1: as the stored
	 * weights suggest, made by slices between passes, or not at all where it does not fit or would not pay */
	int draft_bits;
	/* Share of those weights that a draft step reads, where they are stored by input channel (on a CPU), in
	 * (0, 1]; 0: .43, from where a search goes on. */
	double draft_read;
	/* Pages of 64 positions that a draft's attention reads of a long text, by block those that verified tokens
	 * looked at most, beside the first page and the newest tokens (on a CPU), at most 64; 0: it reads all;
	 * -1: 16, where that saves time. */
	int draft_pages;
	bool draft_wait;     /* the latter, too, is made while the engine opens */
	double draft_memory; /* bytes that it may take; 0: a quarter of the memory that is available */
	void (*progress)(void* user, double share); /* of making it while the engine opens; NULL: not told */
	void* progress_user;
	bool bank;                        /* for streams/ */
	uint64_t seed;                    /* of the search and of sampling */
	double temperature, top_p, min_p; /* the default request's */
	int top_k;
	/* seconds; NULL: the monotonic clock. With another the search has no thread of its own, so that all
	 * repeats */
	double (*clock)(void* user);
	void* clock_user;
};

/* The defaults of the paper and the published code, as `swiftlet run --help` prints them. */
SWIFTLET_API void swiftlet_options_default(struct swiftlet_options*);
/* "auto", "swift", "layerskip"… */
SWIFTLET_API const char* swiftlet_method_name(enum swiftlet_method);
/* Sets one option by its command-line name without dashes ("window", "32"; "preset", "paper"). Returns 1
 * when set, 0 when there is no such option, -1 with the message when the value is out of range. */
SWIFTLET_API int swiftlet_options_set(struct swiftlet_options*, const char* name, const char* value,
                                      char* message, size_t size);
/* One option's value as text that swiftlet_options_set takes, by its command-line name. False when there is
 * no such option, or when it is not a single value (drafters, tree-top-k, preset). */
SWIFTLET_API bool swiftlet_options_get(const struct swiftlet_options*, const char* name, char* text,
                                       size_t size);

/* ---- model, engine, session --------------------------------------------------------------- */

/* spec as MODEL on the command line. The options say which backend it is for (synth: weights for a GPU
 * are made on the GPU, unless draft_bits asks for a copy of them); NULL: the CPU. */
SWIFTLET_API swiftlet_model* swiftlet_model_open(const char* spec, const struct swiftlet_options*,
                                                 char* message, size_t size);
SWIFTLET_API void swiftlet_model_close(swiftlet_model*);
SWIFTLET_API const char* swiftlet_model_name(const swiftlet_model*);
SWIFTLET_API int swiftlet_model_dim(const swiftlet_model*); /* of its states */
/* Ids of a prompt, BOS as the model's rules say; malloc'd, NULL on no memory. */
SWIFTLET_API int32_t* swiftlet_tokenize(const swiftlet_model*, const char* text, size_t size, int* n);

/* The model must outlive the engine, the engine its sessions. */
SWIFTLET_API swiftlet_engine* swiftlet_engine_open(swiftlet_model*, const struct swiftlet_options*,
                                                   char* message, size_t size);
SWIFTLET_API void swiftlet_engine_close(swiftlet_engine*);
SWIFTLET_API const char* swiftlet_engine_name(const swiftlet_engine*); /* "cpu (avx512)" */
/* A line on why the CPU runs the model where a GPU was found and left to choose ("auto"), and one on the copy
 * of the weights for drafting as it is now: its memory, how far it is made, what went wrong with its file, or
 * why there is none; "" where there is nothing to say. The engine's, until it is asked again. */
SWIFTLET_API const char* swiftlet_engine_note(swiftlet_engine*);

/* The other ranks: does what rank 0's engines need until it dismisses them. False with the message. */
SWIFTLET_API bool swiftlet_follow(struct process_group*, char* message, size_t size);
/* Rank 0, at the end. */
SWIFTLET_API void swiftlet_dismiss(struct process_group*);

SWIFTLET_API swiftlet_session* swiftlet_session_open(swiftlet_engine*, const struct swiftlet_options*,
                                                     char* message, size_t size);
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
SWIFTLET_API void swiftlet_request_default(struct swiftlet_request*, const struct swiftlet_options*);

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
	int n_attention, n_mlp;   /* the mask at the end, 0-based blocks, ascending */
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
