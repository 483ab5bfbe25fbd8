/* The session from inside: what streams/ needs beyond swiftlet.h.
 *
 * A session never runs a model itself. It asks for work (a pass, or a device's draft loop) and takes the
 * results, so that a scheduler may run the work of several sessions in one pass:
 *
 *     session_begin_step(s);
 *     while (session_next(s, &work)) {
 *         run it, in whatever company; measure
 *         if (session_absorb(s, &work, rows, seconds)) … a step's output is in session_output(s)
 *     }
 */
#ifndef SWIFTLET_CORE_DECODE_SESSION_H
#define SWIFTLET_CORE_DECODE_SESSION_H

#include "core/decode/budget.h"
#include "core/decode/driver.h"
#include "core/decode/engine.h"
#include "core/decode/learner.h"
#include "core/draft/acceptance.h"
#include "core/draft/retrieval.h"
#include "core/draft/round.h"

enum work_kind { WORK_PREFILL, WORK_PLAIN, WORK_DRAFT, WORK_DRAFT_LOOP, WORK_VERIFY, WORK_MATCHNESS };

struct session_work {
	enum work_kind kind;
	struct pass pass; /* everything but a draft loop; its arrays are the session's */
};

/* The other sequences of a batch, whose rows share this one's passes; all zero: it is alone. In company a row
 * costs what it adds to a pass that runs anyway, and a token is worth its part of a pass in which every
 * sequence takes a plain step: that is then the unit of costs and accounts. */
struct batch {
	int sequences; /* others that decode */
	double rows;   /* theirs in a full pass, lately */
	int drafting;  /* others whose draft steps share its own */
	bool hurried;  /* a plain step at most: someone waits for a first token */
};
void session_set_batch(struct session*, const struct batch*);
/* Draws on an account that several share, the caller's, in place of one of its own: sequences of a batch that
 * each had an opening allowance could lose it eightfold, and what one earns may be another's to try with. */
void session_share_budget(struct session*, struct speculation_budget*);
/* Seconds that this request's grammar has taken so far; 0 without one. */
double session_constraint_seconds(const struct session*);
/* Tokens of the prompt, or of a text that is computed again, that no pass has computed yet; 0 once it
 * decodes, or is over. */
int session_prefill_left(const struct session*);
/* Rows of the prompt that one pass may take, where the backend's prefill leaves the same bits however it is
 * cut; 0: whole chunks. */
void session_limit_prefill(struct session*, int rows);

/* A session whose masks are given; NULL with the error set. A learner may be put in place before its first
 * request (s->learner, the session's from then on). */
struct session* session_open(struct engine*, const struct swiftlet_options*, struct error*);
void session_close(struct session*);
/* As the public functions of these names. */
bool session_start(struct session*, const struct swiftlet_request*, struct error*);
bool session_step(struct session*, struct swiftlet_step*, struct error*);
void session_cancel(struct session*);
void session_figures(const struct session*, struct swiftlet_figures*);

/* Takes the learner's mask, and what it knows of its matchness (NaN: nothing). */
void session_adopt(struct session*, const struct mask*, double matchness);

/* Makes sure that a work's rows find memory; false when other sessions hold it all. */
bool session_reserve(struct session*, const struct session_work*);
/* Tokens that sessions like this one can still take; INT_MAX where each has its own memory. */
int session_room(const struct session*);
/* Gives the cache's memory to others, between any two passes. A generation goes on as if nothing had been:
 * its text is computed again, to the same bits. */
void session_release(struct session*);

/* Before the first session_next of a step: drops the last step's output, honours a cancellation. */
void session_begin_step(struct session*);
/* The next work; false when the generation is over (or none was started). */
bool session_next(struct session*, struct session_work*);
/* While no request runs: the next pass of a proposal's scoring on the text of the last one, on no account;
 * false when there is nothing to learn from it. A request may be started between any two passes. */
bool session_next_idle(struct session*, struct session_work*);
/* Runs the work alone. False with the error set; the generation is then over. */
bool session_run(struct session*, const struct session_work*, struct error*);
/* Takes the results of a pass of `rows` rows that took so long as a whole (of a draft loop both are its own).
 * Where some are other sequences', whoever ran it tells the engine what it cost. True when a step ended: its
 * output is ready (tokens, a chunk of the prefill, or the end). */
bool session_absorb(struct session*, const struct session_work*, int rows, double seconds);
/* The output of the step that ended. */
void session_output(struct session*, struct swiftlet_step*);
/* Ends the generation after a failure of the backend. */
void session_fail(struct session*, const struct error*);
/* What the generation failed by; NULL: it has not. */
const struct error* session_failure(const struct session*);

struct engine* session_engine(struct session*);
/* What the session has learned of its drafters. */
struct acceptance* session_acceptance(struct session*);
const struct swiftlet_options* session_options(const struct session*);
/* Earlier texts that retrieval looks in from now on, in place of the session's own (NULL: none). The pool is
 * the caller's, and may grow only between rounds. */
void session_use_pool(struct session*, const struct retrieval_pool*);
/* The prompt and what was generated, (*n) tokens: the session's, until the next request. */
const int32_t* session_text(const struct session*, int* n);
/* Its cache, for whoever has prefixes of texts from elsewhere; changed only between requests. */
struct cache* session_cache(struct session*);
/* Adds the text of the request that is over to a pool. */
void session_remember(struct session*, struct retrieval_pool*);
/* The mask that drafts now, and its matchness (NaN before any). */
struct mask session_mask(const struct session*, double* matchness);
void session_set_mask(struct session*, const struct mask*);
/* The sub-layers that drafts run with the quantized draft weights now, and whether the head does. */
struct mask session_quantized(const struct session*, bool* head);
/* What the mask's matchness is known to be from elsewhere: drafting starts from that expectation. */
void session_expect(struct session*, double matchness);
/* Whose requests come from now on: nothing that was kept of another's text is drafted from, nor, unless
 * prefixes are shared, found. Between requests. */
void session_set_tenant(struct session*, int tenant, bool shares_prefixes);
/* Tokens that a request with this prompt would find in the cache (whole chunks). */
int session_common_prefix(const struct session*, const int32_t* prompt, int n);
/* Mean hidden state in the middle of the model over the prompt's rows that were computed, (dim), once the
 * prefill is done; NULL before, or where it was not asked for. */
const float* session_signature(const struct session*);
void session_want_signature(struct session*); /* no memory is silent: no signature */
/* The last verified round that had a draft step: draft steps taken and accepted; and a count of such rounds,
 * so that a caller can tell a new one. */
int64_t session_last_round(const struct session*, int* draft_steps, int* accepted);
void session_trace(const struct session*, struct round_trace*);

#endif
