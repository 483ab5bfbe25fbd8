/* The session from inside: what streams/ needs beyond swiftlet.h.
 *
 * A session never runs a model itself. It asks for work (a pass, or a device's draft loop) and takes the
 * results. So a scheduler may run the work of several sessions in one pass:
 *
 *     session_begin_step(s);
 *     while (session_next(s, &work)) {
 *         run it, alone or in a batch; measure
 *         if (session_absorb(s, &work, rows, seconds)) … a step's output is in session_output(s)
 *     } */
#pragma once

#include "core/decode/driver.h"
#include "core/decode/engine.h"
#include "core/decode/learner.h"
#include "core/decode/speculate.h"
#include "core/draft/retrieval.h"
#include "core/draft/round.h"

enum work_kind { WORK_PREFILL, WORK_PLAIN, WORK_DRAFT, WORK_DRAFT_LOOP, WORK_VERIFY, WORK_MATCHNESS };

struct session_work {
	enum work_kind kind;
	struct pass pass; /* all work but a draft loop; its arrays are the session's */
};

/* The other sequences of a batch, whose rows share this one's passes; all zero: it is alone. In a batch a row
 * costs what it adds to a pass that runs anyway, and a token is worth its share of a pass in which every
 * sequence takes a plain step. This share is then the unit of costs and accounts. */
struct batch {
	int sequences; /* others that decode */
	double rows;   /* theirs in a full pass, lately */
	int drafting;  /* others whose draft steps share its own */
	bool hurried;  /* a plain step at most, because a request waits for its first token */
};
void session_set_batch(struct session*, const struct batch*);
/* Charges an account that several sessions share, the caller's, in place of the session's own. Eight
 * sequences with an opening allowance each could lose it eightfold, and one's gains may pay for another's
 * trials. */
void session_share_budget(struct session*, struct speculation_budget*);
/* Seconds that this request's grammar has taken; 0 without one. */
double session_constraint_seconds(const struct session*);
/* Draft tokens that may still be of use, at most `most`: a draft never goes beyond what may be emitted. */
int session_useful_depth(const struct session*, int most);
/* Seconds in plain steps of this sequence in its batch; `unknown` if no plain step was measured. */
double session_cost_of(const struct session*, double seconds, double unknown);
/* Tokens of the prompt, or of a text that is computed again, that no pass has computed yet; 0 while it
 * decodes, or when it is over. */
int session_prefill_left(const struct session*);
/* Limits the rows of the prompt in one pass, if the backend's prefill leaves the same bits however it is cut;
 * 0: whole chunks. */
void session_limit_prefill(struct session*, int rows);

/* Opens a session with a fixed mask; NULL with the error set. session_set_learner may follow before its
 * first request. */
struct session* session_open(struct engine*, const struct swiftlet_options*, struct error*);
void session_close(struct session*);
/* As the public functions of these names. */
bool session_start(struct session*, const struct swiftlet_request*, struct error*);
bool session_step(struct session*, struct swiftlet_step*, struct error*);
void session_cancel(struct session*);
void session_figures(const struct session*, struct swiftlet_figures*);

/* Takes the learner's mask and its matchness (NaN: unknown). */
void session_adopt(struct session*, const struct mask*, double matchness);

/* Gets memory for the rows of a work; false when other sessions hold it all. */
bool session_reserve(struct session*, const struct session_work*);
/* Tokens that sessions like this one can still take; INT_MAX if each has memory of its own. */
int session_room(const struct session*);
/* Releases the cache's memory between any two passes. The generation continues later: its text is computed
 * again, to the same bits. */
void session_release(struct session*);

/* Before the first session_next of a step: drops the last step's output, and applies a cancellation. */
void session_begin_step(struct session*);
/* The next work; false when the generation is over (or none was started). */
bool session_next(struct session*, struct session_work*);
/* While no request runs: the next pass that scores a proposal on the last request's text, charged to no
 * account; false when that text has nothing more to teach. A request may start between any two passes. */
bool session_next_idle(struct session*, struct session_work*);
/* Runs the work alone. False with the error set; the generation is over then. */
bool session_run(struct session*, const struct session_work*, struct error*);
/* Takes the results of a pass of `rows` rows in all and its seconds in all (of a draft loop both are its
 * own). If some rows were other sequences', the caller reports the pass's cost to the engine. True when a
 * step ended: its output is ready (tokens, a chunk of the prefill, or the end). */
bool session_absorb(struct session*, const struct session_work*, int rows, double seconds);
/* The output of the step that ended. */
void session_output(struct session*, struct swiftlet_step*);
/* Ends the generation after a failure of the backend. */
void session_fail(struct session*, const struct error*);
/* Why the generation failed; NULL: it did not. */
const struct error* session_failure(const struct session*);

struct engine* session_engine(struct session*);
/* The acceptance estimates of the session's drafters. */
struct acceptance* session_acceptance(struct session*);
const struct swiftlet_options* session_options(const struct session*);
/* Replaces the earlier texts that retrieval looks in (NULL: none). The pool is the caller's, and may grow
 * only between rounds. */
void session_use_pool(struct session*, const struct retrieval_pool*);
/* The prompt and the generated text, (*n) tokens, valid until the next request. */
const int32_t* session_text(const struct session*, int* n);
/* The session's KV cache, for callers that add prefixes to it; changed only between requests. */
struct cache* session_cache(struct session*);
/* Adds the text of the finished request to a pool. */
void session_remember(struct session*, struct retrieval_pool*);
/* The present draft mask, and its matchness (NaN without any). */
struct mask session_mask(const struct session*, double* matchness);
void session_set_mask(struct session*, const struct mask*);
/* The sub-layers that drafts now run with the quantized draft weights, and whether the head does. */
struct mask session_quantized(const struct session*, bool* head);
/* Names the tenant of the following requests. Nothing kept of another tenant's text serves drafts, nor,
 * unless prefixes are shared, is it found in caches. Call between requests. */
void session_set_tenant(struct session*, int tenant, bool shares_prefixes);
/* Tokens of this prompt that a request would find in the session's cache alone: whole chunks; with recurrent
 * blocks whose states any session may find, all that it holds, if the prompt goes on from there. */
int session_common_prefix(const struct session*, const int32_t* prompt, int n);
/* Mean hidden state (dim) in the middle of the model over the prompt's computed rows, once the prefill is
 * done; NULL before, or if it was not requested. */
const float* session_signature(const struct session*);
void session_want_signature(struct session*); /* no memory is silent: no signature */
/* The last verified round with a draft step: draft steps taken and accepted; and a count of such rounds,
 * which shows a new one. */
int64_t session_last_round(const struct session*, int* draft_steps, int* accepted);
void session_trace(const struct session*, struct round_trace*);
