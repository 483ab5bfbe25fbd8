/* The harness of the benches that compare speeds: contenders on one engine, in one process, take turns, so
 * that all of them see the same machine, and every token is compared with plain decoding's.
 *
 * By prompt (bench real, bench methods): each prompt is answered by every contender before the next one's
 * turn comes, in an order that moves on by one; a session keeps from prompt to prompt what it learns. By
 * slices (bench swift): texts go on, a few tokens a turn. Decoding alone is timed, on the session's clock. */
#ifndef SWIFTLET_TOOLS_LAB_CONTEST_H
#define SWIFTLET_TOOLS_LAB_CONTEST_H

#include "tools/lab/bench.h"

/* ---- by prompt ---------------------------------------------------------------------------- */

enum { MOST_CONTENDERS = 64, MOST_TASKS = 32, MOST_SLICES = 64 };

/* To one prompt, or the sums over some: numbers, all of one type, so that they are added in a row. */
struct answer {
	double prompts, tokens, timed; /* timed: after the first, which comes with the prefill */
	double differing, rounds, round_tokens, draft_steps, accepted, full_passes, verify_passes, rows;
	double plain_steps, ctar[SWIFTLET_CTAR], source_rows[SWIFTLET_SOURCES], source_accepted[SWIFTLET_SOURCES];
	double seconds, cpu; /* of decoding */
	double draft, plain, search,
	    host; /* of it: draft steps, plain steps, scoring proposals, outside of passes */
};

/* A session and the texts that it writes. */
struct way {
	char name[40];
	const struct runtime* bench;
	swiftlet_session* session; /* owned; NULL: takes no part */
	bool running;
	int exit_block; /* of the last text; 0: none */
	struct answer ended, now,
	    before;               /* of the texts that are over; of the one at hand; what is not counted */
	double seconds, cpu;      /* of decoding the text at hand */
	struct token_list tokens; /* those that were emitted */
	/* by prompt alone */
	struct cost_model cost;
	struct answer* answer; /* (prompts) owned */
	/* by slices alone */
	uint64_t prompt;           /* number of the next text's */
	double ratio[MOST_SLICES]; /* plain decoding's time a token over its own */
};

struct contest {
	const struct runtime* bench;
	struct prompt_list prompts;
	struct way way[MOST_CONTENDERS]; /* (n) the first decodes plainly */
	int n, asked;                    /* asked: prompts that were answered */
	bool apart;                      /* a contender has costs of its own, a prompt is a sequence of its own */
	double temperature;              /* of requests */
	int most_prompts;                /* 0: all */
	bool loops[MOST_PROMPTS];        /* the plain answer's last tokens stand earlier in it */
	const char* task[MOST_TASKS];
	int tasks;
};

/* Which prompts: of a task (NULL: any), looping or not (-1: either). */
struct choice {
	const char* task;
	int loops;
};
extern const struct choice every_prompt;

/* Adds one; its session may be missing, with the reason in `why`. False on no memory, with the error set. */
bool contest_enter(struct contest*, const char* name, const struct swiftlet_options*, struct error* why,
                   struct error*);
/* Ends early, as far as it came, where it is interrupted. */
bool contest_run(struct contest*, struct error*);
void contest_close(struct contest*); /* all but the bench */
/* Sums over what was answered by more than the prefill. */
struct answer contest_sum(const struct contest*, int which, struct choice);
/* Tokens a second of them over plain decoding's: of all together, and the median over prompts. */
double contest_over_plain(const struct contest*, int which, struct choice);
double contest_median_over_plain(const struct contest*, int which, struct choice);
double answer_speed(const struct answer*);
/* M, alpha, c (a draft step over a plain one of so many seconds), and the speed-up that they promise (SWIFT
 * Eq. 6). */
void answer_json(const struct answer*, double plain_step_seconds, cJSON* out);

/* ---- by slices ---------------------------------------------------------------------------- */

enum { MOST_WAYS = 4, WAY_PROMPT = 32 };

/* `prompt`: number of its first text's; texts have 512 tokens. */
bool way_open(struct way*, const struct runtime*, const struct swiftlet_options*, uint64_t prompt,
              struct error*);
/* At least n tokens more; `taken` gets what they took. */
bool way_advance(struct way*, int n, struct answer* taken, struct error*);
/* Since it was opened, or reset. Host seconds are with the search's own thread. */
struct answer way_sum(const struct way*);
/* A turn of each of n ways, the last of them plain decoding, of so many tokens; who begins moves on with the
 * turns. slice: the ratios' place. */
bool ways_turn(struct way*, int n, int tokens, int turn, int slice, struct error*);
void ways_reset(struct way*, int n);
/* Adds to `compared` the tokens of all but the last, and to `differing` those that are not the last's. */
void ways_compare(const struct way*, int n, int64_t* compared, int64_t* differing);
void ways_close(struct way*, int n);
/* Speed-up over that many slices (sorted), its quartiles, M, alpha, c and what they promise. */
void way_json(struct way*, const struct way* plain, int slices, cJSON* out);

#endif
