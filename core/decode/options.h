/* The options of engines and sessions, and the one table that knows them by name: the command line's parser,
 * --help, shell completion, defaults and the public interface all read it. */
#pragma once

#include "swiftlet.h"

struct error;
struct process_group; /* kernels/process_group.h */

/* How tokens are drafted. core/methods/method.c describes all but the first three. */
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
/* When a chain of draft steps ends (core/methods/stop.h). OWN: by the method's rule. */
enum stop_rule { STOP_OWN = -1, STOP_FIXED, STOP_MARGINAL, STOP_PRODUCT, STOP_PROBE, STOP_GAIN };
enum swiftlet_draft { SWIFTLET_DRAFT_AUTO, SWIFTLET_DRAFT_ALWAYS, SWIFTLET_DRAFT_NEVER };
#define SWIFTLET_ALL_DRAFTERS (~0u)                        /* all that can pay on this backend */
enum { SWIFTLET_TREE_AUTO = 0, SWIFTLET_TREE_PAPER = -1 }; /* max_tree; else a number of rows */

/* The weights on their backend. */
struct engine_options {
	char backend[16];  /* "auto", "cpu", "cuda" */
	char isa[16];      /* "auto", "reference", "avx2", "avx-vnni", "avx512", "neon", "dotprod", "i8mm" */
	int threads;       /* 0: one for each CPU that the process may use */
	int devices;       /* GPUs that share the model; 0: one, if a GPU is used */
	int interleave;    /* the CPU's weights in the order of products: 1, 0; -1: where they fit */
	int screened_head; /* the CPU's: 1, 0; -1: if the head is a large part of a step's bytes */
	/* set in rank 0 when several processes share the model; NULL: this process has all of it */
	struct process_group* group;
};

/* The KV caches. */
struct cache_options {
	int context;   /* tokens of one; 0: options_context chooses */
	char type[8];  /* "auto", "f16", "f32", "q8_0" */
	double memory; /* bytes that the caches of all sessions share; 0: as much as each can need */
};

/* How rounds draft. */
struct drafting_options {
	enum swiftlet_method method;
	enum swiftlet_draft when;
	unsigned drafters; /* of SWIFTLET_DRAFT_AUTO: a bit by swiftlet_source_name's number, or
	                      SWIFTLET_ALL_DRAFTERS */
	/* A separate draft model, as MODEL on the command line. It needs the same vocabulary, and is opened with
	 * the engine. "": none */
	char model[512];
	/* Pages of 64 positions that a draft's attention reads of a long text, by block those that verified
	 * tokens looked at most, beside the first page and the newest tokens (on a CPU), at most MAX_LISTED; 0:
	 * it reads all; -1: 16, where that saves time. */
	int pages;
	int pool;     /* tokens of the session's earlier requests that drafts may use; 0: none. Only for sessions
	                 that serve one tenant */
	int max_tree; /* rows of a tree with its root; or SWIFTLET_TREE_AUTO or _PAPER */
	/* alternatives for top-1 probability in (0, .5], (.5, .8], (.8, .95], (.95, 1]; zeros: 10, 8, 5, 3 when
	 * greedy, 10, 5, 3, 1 when sampled (published code) */
	int tree_top_k[4];
	int max_draft;    /* N_D */
	double threshold; /* epsilon */
};

/* The quantized draft weights. */
struct draft_weights_options {
	/* 4 or 8: made while the engine opens; 0: none; -1: chosen by the stored weights, made in slices between
	 * passes, and not made if they do not fit or would not pay */
	int bits;
	/* Share of them that a draft step reads, where they are stored by input channel (on a CPU), in (0, 1]; 0:
	 * DRAFT_READ, from where a search goes on. */
	double read;
	bool wait;     /* these, too, are made while the engine opens */
	double memory; /* bytes that they may take; 0: a quarter of the memory that is available */
	void (*progress)(void* user, double share); /* of making them while the engine opens; may be NULL */
	void* progress_user;
};

/* Methods that do not plan by cost (core/methods). */
struct standalone_options {
	enum stop_rule stop_rule;
	double stop_threshold; /* a chain ends below it; negative: the method's own value */
	bool stop_fixed;       /* the threshold stays fixed in methods that adapt it */
	bool rejection;        /* acceptance by rejection sampling: lossless in distribution */
	bool reuse;            /* verification of drafted rows continues from the exit */
	int exit_block;        /* blocks before an exit; 0: chosen by cost */
	int speculations;      /* draft steps a round; 0: the method's own number, or by cost */
	int children;          /* ppd: tokens predicted for the next position; 0: chosen by cost */
	char adapter[512], heads[512], probe[512]; /* files of auxiliary weights; "": none */
};

/* The search for what drafts leave out. */
struct learning_options {
	bool search; /* false: the mask stays as given */
	/* Learning's share of plain time; infinity: a proposal before every round; negative (the default): 0.01,
	 * and at first up to 32 plain steps of what drafting has earned. */
	double budget;
	/* Seconds of idle learning, at idle priority, for each second that requests took; 0: none, infinity:
	 * until it brings nothing more. With 0 no draft weights are made then either. */
	double idle;
	bool bank;              /* keep masks by workload; for streams/ */
	bool published;         /* the search as published in SWIFT; set by `preset` */
	double skip_ratio;      /* 0: auto */
	int window, window_min; /* gamma, and the shortest scored */
	int bayes_interval, max_steps, patience;
	double max_matchness;
	bool expected_improvement; /* else UCB */
	bool hamming;              /* else Matérn 5/2 */
	double kappa;
};

/* The default request's; the seed is the search's too. */
struct sampling_options {
	uint64_t seed;
	double temperature, top_p, min_p;
	int top_k;
};

struct swiftlet_options {
	struct engine_options engine;
	struct cache_options cache;
	struct drafting_options drafting;
	struct draft_weights_options draft_weights;
	struct standalone_options standalone;
	struct learning_options learning;
	struct sampling_options sampling;
	/* seconds; NULL: the monotonic clock. With another clock the search has no thread of its own, so that
	 * results repeat */
	double (*clock)(void* user);
	void* clock_user;
};

/* Sets the values of the paper and the published code. */
void options_default(struct swiftlet_options*);
/* "auto", "swift", "layerskip"… */
const char* method_name(enum swiftlet_method);
/* True when rounds are planned by cost. Otherwise they are plain steps, or a method makes them
 * (core/methods). */
static inline bool options_plan(const struct swiftlet_options* options) {
	return options->drafting.method == SWIFTLET_SWIFT || options->drafting.method == SWIFTLET_AUTO;
}
/* (4) Alternatives by top-1 probability in SWIFT's tree: the published numbers unless the options set
 * others. */
const int* options_top_k(const struct swiftlet_options*, bool sampled);
/* The options' clock, or the monotonic one. Seconds. */
double options_clock(const struct swiftlet_options*);

enum option_type {
	OPTION_HEADING,
	TAKES_INTEGER,
	TAKES_REAL,
	TAKES_SEED,
	TAKES_CHOICE,
	TAKES_FLAG,
	TAKES_NAME,
	TAKES_PATH,
	TAKES_SIZE,
	TAKES_OWN /* set reads it */
};

/* A row of the table. */
struct option {
	const char* name; /* without dashes; of an OPTION_HEADING its text */
	char letter;      /* short form, or 0 */
	bool usual;       /* --help shows it; the others only --help-all */
	enum option_type type;
	size_t offset;
	double low, high;  /* TAKES_PATH: high is the field's room */
	const char* words; /* TAKES_CHOICE, TAKES_FLAG: "word=value word=value…"; NAME: the words allowed;
	                      REAL, INTEGER: one more word; PATH: what may be given */
	const char* value; /* what stands for the value in the help; NULL: the words */
	const char* help;
	const char* fallback; /* the default as a text; "": `help` names it; NULL: as options_default has it */
	bool (*set)(struct swiftlet_options*, const char* value, struct error*); /* OWN */
};
extern const struct option option_table[];
extern const int n_options;

/* By name, or where that is NULL by letter; NULL: none. */
const struct option* option_named(const char* name, char letter);
/* Sets an option from a text. False with the error set for a value out of range. */
bool option_set(struct swiftlet_options*, const struct option*, const char* value, struct error*);
/* An option's value as a text that option_set takes. False for one without a single value. */
bool option_get(const struct swiftlet_options*, const struct option*, char* text, size_t size);
/* The name of its values in help: "auto|on|off", "N". */
void option_value(const struct option*, char* text, size_t size);
