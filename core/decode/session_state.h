/* The session's state, shared by the files of this room that make it up: session.c (opening, requests),
 * flow.c (which work comes next), plan.c (whether and how far to draft), emit.c (tokens to text), penalties.c
 * and constraint.c (what may follow the text so far). */
#pragma once

#include "core/decode/draft_pages.h"
#include "core/decode/draft_states.h"
#include "core/decode/draft_trial.h"
#include "core/decode/driver.h"
#include "core/decode/session.h"
#include "core/decode/speculate.h"
#include "core/draft/mask.h"
#include "core/draft/retrieval.h"
#include "core/grammar/acceptor.h"
#include "core/text/tokenizer.h"

enum phase {
	PHASE_DONE,
	PHASE_PREFILL,
	PHASE_ROUND,
	PHASE_FOLLOW, /* the draft model reads the prompt */
	PHASE_LEARN,  /* a pass of the learner, or of a driver before its round */
	PHASE_READ,   /* a driver sees what was prefilled */
	PHASE_PLAN,
	PHASE_DRAFT,
	PHASE_VERIFY,
	PHASE_IDLE /* done, and learning from the last text while no request waits */
};

enum { MAX_STOPS = 16, MAX_STOP_BYTES = 1024, LOGPROB_ROWS = 16 };

/* Tokens becoming text: whole characters only, without what may begin a stop string. */
struct emitter {
	struct text_stream stream;
	char* text; /* (capacity) held bytes first, then what this step added */
	size_t capacity, n, shown;
	char (*stop)[MAX_STOP_BYTES]; /* (n_stops) the stop strings */
	size_t stop_size[MAX_STOPS];
	int n_stops;
	int stopped_by; /* the stop string that ended the text, or -1 */
};

/* The history that penalties look at. The first request with penalties makes the arrays. */
struct history {
	bool on;
	struct penalties penalties;
	uint8_t* in_prompt; /* (vocab) */
	int32_t* generated; /* (vocab) */
	int32_t* bias_token;
	float* bias;
	int counted; /* tokens of the text seen so far, the prompt included */
};

/* The grammar that an answer has to keep. */
struct constraint_state {
	struct acceptor* acceptor; /* NULL: the answer is free */
	struct acceptor* kept;     /* of the last constrained answer, and its tenant */
	int kept_tenant;
	const uint64_t* allowed[MAX_ROWS];
};

/* The mean state of the prompt, where a request wants it. */
struct embedding {
	float* out;         /* (dim) the caller's, NULL: not wanted */
	float *norm, *bias; /* (dim) NULL until one was wanted */
	int n;              /* tokens of the prompt that are added */
};

/* The log probabilities that a request wants. */
struct log_probs {
	int top;                                        /* alternatives a token; 0: none are wanted */
	bool of_prompt;                                 /* of the prompt's tokens too */
	int prompt_reported;                            /* of these, how many were given */
	float* logits;                                  /* (LOGPROB_ROWS, vocab) once a request wanted some */
	float* scratch;                                 /* (2·vocab) likewise */
	struct swiftlet_token prompt[LOGPROB_ROWS + 1]; /* (n_prompt) of the step */
	int n_prompt;
};

/* The prompt's mean state in the middle of the model. */
struct signature {
	float* mean; /* (dim) the sum while the prompt is computed; NULL: not wanted */
	int rows;    /* that are in it */
};

/* The last verified round that had a draft step. */
struct last_round {
	int64_t count; /* of such rounds */
	int draft_steps, accepted;
};

/* The input of the MTP layer, or of an assistant in its place (mtp.c). */
struct mtp {
	struct cache* cache; /* the layer's; NULL: it does not draft */
	bool outside; /* an assistant: its rows read the model's cache, and its own holds none of the text */
	int start;    /* the token of the text that the cache's first row holds */
	float* state; /* (ROOM, dim) the model's states of n tokens from `first` on, as its head reads them */
	int first, n;
	float* rows; /* (MAX_ROWS, dim) states of the rows of a pass, of the layer's own or of the model */
	struct penalties penalties;
};

struct plan {
	enum { RULE_PLAIN, RULE_FIXED, RULE_GAIN, RULE_DRIVEN } rule;
	struct plan_action action; /* the pass that comes next, of RULE_FIXED and RULE_GAIN */
	struct draft_policy draft; /* RULE_FIXED, and of a device's loop */
	bool looped;               /* a device's loop has drafted in this round */
	bool goes_on;              /* RULE_DRIVEN: another draft pass comes */
};

struct session {
	struct engine* engine;
	struct swiftlet_options options;
	struct cache* cache;
	int tenant;                                    /* of the requests */
	struct learner* learner;                       /* NULL: masks are given */
	struct speculation_budget own_budget, *budget; /* the latter what it draws on */
	struct drafter_set drafters;
	struct acceptance acceptance;
	struct planner planner;
	struct cache* draft_cache;                             /* the draft model's; NULL: none drafts */
	enum { READING_WAITS, READING, READING_DONE } reading; /* of the prompt, by the draft model */
	struct mtp mtp;
	struct driver* driver;       /* makes the rounds; NULL: they are planned */
	struct retrieval_pool* pool; /* of the session's own earlier requests; NULL: none are kept */
	struct mask mask;
	const struct draft_weights* draft_weights; /* the quantized draft weights, once they are ready and where
	                                              they are wanted; else NULL */
	struct draft_states drafts;                /* of the draft at hand */
	struct draft_pages pages;                  /* that drafts read */
	struct draft_trial trial;                  /* of draft weights that are not made yet */
	double matchness;
	struct batch batch;
	int prefill_rows; /* of a prompt in one pass; 0: whole chunks */

	/* the request */
	enum phase phase;
	enum swiftlet_stop stop;
	struct error failure; /* of what ended the request; "": nothing failed */
	bool cancelled;
	int32_t* text; /* (cache capacity + 1) the prompt and what was generated */
	int n_prompt, n_text;
	int end;                                                 /* n_text at which the limit is reached */
	int32_t end_token[MAX_END_TOKENS + SWIFTLET_END_TOKENS]; /* that end this text */
	int n_end_tokens;
	int again;        /* tokens that are computed again after a release; 0: the prompt is computed */
	int chunk_tokens; /* leading cache positions that whole prefill chunks have filled */
	bool sampled;
	struct sampler sampler;
	struct history history;
	struct constraint_state constraint;
	struct embedding embedding;
	struct log_probs log_probs;
	struct emitter emitter;
	struct swiftlet_token token[MAX_DRAFT + 1];
	int n_tokens;

	/* the work at hand */
	struct round round;
	struct plan plan;
	struct segment segment;
	uint8_t want[MAX_ROWS];
	struct result result[MAX_ROWS];
	double round_cost, round_seconds; /* of the round at hand: in plain steps, and as measured */

	/* deciding */
	int64_t rounds, rounds_since_plain;
	double cost_since_plain; /* of those rounds */
	struct last_round last_round;

	float* tap; /* (PREFILL_CHUNK, dim) states of the prompt's rows, for an embedding or the signature; NULL
	               until then */
	struct signature signature;
	struct swiftlet_figures figures;
	double started;
};

enum { CALIBRATE_FIRST = 8 }; /* full passes after which costs are known */

static inline struct variant session_drafts_with(const struct session* s) {
	struct variant v = states_variant(&s->drafts, &s->mask);
	v.unread = s->pages.unread;
	return v;
}

/* session.c */
/* True if a driver has to see every row of the prompt. */
static inline bool session_reads_prompt(const struct session* s) {
	return s->driver && s->driver->sees_prompt;
}
/* True if a key's rotation depends on the length of the prompt. */
bool session_length_matters(const struct session*, int n_prompt);

/* emit.c */
bool emitter_open(struct emitter*, const struct tokenizer*);
void emitter_close(struct emitter*);
bool emitter_start(struct emitter*, const struct tokenizer*, const struct swiftlet_request*, struct error*);
void emitter_step(struct emitter*);
/* Adds one token's text. True when a stop string is complete: the text then ends before it. */
bool emitter_add(struct emitter*, int32_t token);
void emitter_end(struct emitter*);

/* flow.c */
/* True if a device drafts in a loop of its own, which knows no penalties. */
static inline bool session_loops(const struct session* s) {
	return s->engine->backend->draft && !s->history.on && s->plan.action.source == SOURCE_mask;
}

/* penalties.c */
bool penalties_check(const struct session*, const struct swiftlet_request*, struct error*);
bool penalties_start(struct session*, const struct swiftlet_request*, struct error*); /* checked ones */
/* Penalties for the rows after the committed tokens; NULL if the request has none. */
const struct penalties* penalties_now(struct session*);
void penalties_close(struct session*);

/* embedding.c */
/* Makes room for s->tap; false on no memory. */
bool session_open_tap(struct session*);
bool embedding_start(struct session*, const struct swiftlet_request*, struct error*);
/* The rows of a pass over the prompt, from its token `first` on. */
void embedding_add(struct session*, int first, int n);
void embedding_close(struct embedding*);

/* constraint.c */
bool constraint_start(struct session*, const struct swiftlet_request*, struct error*);
void constraint_close(struct session*);
/* The tokens that may follow the last of n rows; those that may follow each row of a tree, which is cut if
 * that is unknown. NULL: any token. Valid until a token is emitted. */
const uint64_t* const* constraint_last(struct session*, int n);
const uint64_t* const* constraint_rows(struct session*, struct tree*);
void constraint_emitted(struct session*, int32_t id);
/* No token may follow, not even an end token: sets `stop`. */
bool constraint_is_over(struct session*);

/* draft_model.c */
/* Opens a session's cache in the draft model, if that drafter takes part. */
bool draft_model_join(struct session*, struct error*);
/* A request's text begins. The cache's part of it stays. */
void draft_model_begin(struct session*);
/* Before its first round the draft model reads the prompt, if the tokens that may still be emitted can earn
 * that. Gives its next pass, or false; takes a pass that ran as one of some rows, with this session's
 * seconds. */
bool draft_model_reads(struct session*, struct pass*);
void draft_model_take(struct session*, const struct pass*, int rows, double seconds);
/* A round begins: gives the planner the present cost of its passes, if it has made one or none. */
void draft_model_round(struct session*);
void draft_model_set_costs(struct session*, bool passed);
/* Another tenant's requests come; or the cache's memory is needed. */
void draft_model_forget(struct session*, int tenant);
void draft_model_release(struct session*);

/* mtp.c */
/* Opens a session's cache for the MTP layer, if that drafts. */
bool mtp_join(struct session*, struct error*);
void mtp_close(struct mtp*);
/* A request's text begins; the states are lost. */
void mtp_begin(struct session*);
void mtp_forget(struct session*);
/* A full pass has left its rows' states in mtp.rows. Keeps those of the path (NULL: of all, in order), n
 * tokens of the text from `at` on. */
void mtp_keep(struct session*, int at, const int32_t* path, int n);
/* As draft_model_round and draft_model_set_costs. */
void mtp_round(struct session*);
void mtp_set_costs(struct session*, bool passed);

/* session_cost.c */
/* Bytes of keys and values that a row reads after the cache's committed tokens, if attention without a window
 * reads `read` of them. */
double session_cache_bytes(const struct cache*, int read);
/* Costs are from now on those after this session's text. In a batch the scheduler sets them for the mean
 * text. */
void session_set_length(const struct session*);
/* The cost of a plain step of the batch for each of its sequences, in plain steps of one sequence. It is the
 * unit of costs and accounts, and 1 for a sequence alone. */
double session_cost_unit(const struct session*);
/* The cost of n rows of this sequence beside `beside` rows of others, in units. */
double session_rows_cost(const struct session*, double beside, int n);

/* plan.c */
void plan_round(struct session*);
/* True if another draft pass comes first; otherwise the planner's tree is verified. */
bool plan_goes_on(struct session*);
/* A plain step took this long. If the machine is faster than it seemed, rounds since the last plain step cost
 * more than they were charged: half of the difference, because the speed changed somewhere in between.
 * (Without this, drafts that are right at random, with expensive rows, slowed decoding by 4.3 % where memory
 * swings every 500 steps.) */
void plan_settle(struct session*, double seconds);
void plan_learn(struct session*, int emitted, int accepted);
void plan_new_mask(struct session*);
/* True if the round made no draft pass and drafted nothing else. */
bool plan_is_plain(const struct session*);

/* A slice of the draft weights, if the budget allows one. */
void plan_make_draft_weights(struct session*);
