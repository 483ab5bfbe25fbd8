/* An engine: a model's weights on a backend, and the measured cost of its passes. Sessions share it. */
#pragma once

#include "core/decode/cost.h"
#include "core/decode/draft_trial.h"
#include "core/decode/options.h"
#include "core/grammar/token_trie.h"
#include "core/model/auxiliary_weights.h"
#include "core/model/draft_weights_memory.h"
#include "core/model/model.h"

struct engine {
	struct model* model;
	struct backend* backend;
	struct draft_weights_memory draft_weights; /* for drafting; without bytes if there are none */
	struct draft_weights_job*
	    making;                   /* made in slices; NULL: made before the first token, or there are none */
	double draft_weights_seconds; /* that making it has taken so far */
	double draft_weights_steps;   /* the lowest estimate of what making all of them takes, in plain steps; 0:
	                                 unknown */
	int draft_weights_slices;     /* made between rounds */
	struct draft_trials trials;   /* of what drafts with them would say */
	bool draft_weights_ready;     /* passes may run with it */
	struct levels levels;         /* the levels at which drafts read draft weights by input channel */
	char note[1900]; /* for people: why the wished backend does not run, and the state of the draft weights */
	size_t note_on_draft_weights; /* where the latter begins */
	struct cost_model cost;
	struct token_trie* trie; /* for grammars; NULL until one is kept */
	struct adapter adapter;  /* auxiliary weights named by the options */
	struct backend* side;    /* runs the adapter; NULL: none was given */
	struct heads heads;
	struct probe_weights probe;
	struct backend* mtp; /* runs the model's MTP layer or the assistant; NULL: neither drafts */
	struct cost_model mtp_cost;
	struct engine* drafting; /* of a separate draft model (draft_model.c), owned with the model; NULL: none */
	struct model* assistant; /* a draft model that reads the model's cache, as its MTP layer; NULL: none */
};

/* Opens the model that a spec names, for the options' backend (NULL: the CPU). NULL with the error set. */
struct model* engine_model_open(const char* spec, const struct swiftlet_options*, struct error*);
/* As the public swiftlet_engine_open and _close. */
struct engine* engine_open(struct model*, const struct swiftlet_options*, struct error*);
void engine_close(struct engine*);
/* As swiftlet_engine_note. */
const char* engine_note(struct engine*);
/* The vocabulary's bytes in a trie, made at the first call; NULL on no memory. One thread at a time. */
const struct token_trie* engine_trie(struct engine*);
/* The draft weights once they are ready; NULL before, and if there are none. */
const struct draft_weights* engine_draft_weights(struct engine*);
/* Goes on making draft weights for some milliseconds, while no request runs. True while some are left. On the
 * thread that runs passes. */
bool engine_make_draft_weights(struct engine*);
/* The share of the draft weights that is made; NaN: there are none. */
double engine_draft_weights_made(const struct engine*);
/* Opens the same in the processes that share the model. From then on the engine's backend leads them. */
bool engine_lead(struct engine*, const struct backend_options*, struct error*);
/* In other ranks: does what rank 0's engines ask for until it dismisses them. False with the error set. */
bool engine_follow(struct process_group*, struct error*);
/* Rank 0, at the end. */
void engine_dismiss(struct process_group*);
/* The costs of the draft model or the MTP layer, whichever this backend runs; NULL: it runs neither. */
struct cost_model* draft_model_costs(struct engine*, const struct backend*);
/* Cost of a pass of n rows by such costs, in plain steps; and a measurement of the last pass of its backend.
 */
double draft_model_cost(const struct engine*, const struct cost_model*, double rows);
void draft_model_see(struct cost_model*, const struct backend*, int rows, double seconds);
/* Costs are learned anew. */
void engine_forget_costs(struct engine*);
/* The element type of caches. */
enum dtype options_cache_type(const struct swiftlet_options*, const struct model*);
/* Bytes that all caches together may take by default: half of what was free when the model was opened. */
double options_cache_memory(const struct model*);
/* Tokens of context: the requested number, else the model's own, if one such cache fits in that memory, else
 * what fits, at least 4,096. On a GPU and with several processes: the model's own, at most 4,096. */
int options_context(const struct swiftlet_options*, const struct model*);
