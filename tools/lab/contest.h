/* The harness of the benches that compare speeds. Contenders on one engine, in one process, take turns, so
 * that all of them see the same machine, and every token is compared with plain decoding's.
 *
 * By prompt (bench real, bench methods): every contender answers a prompt before the next prompt's turn, in
 * an order that moves on by one. A session keeps what it learns from prompt to prompt. By slices (bench
 * swift): texts continue, a few tokens a turn. Only decoding is timed, on the session's clock. */
#pragma once

#include "tools/lab/bench.h"

/* ---- by prompt ---------------------------------------------------------------------------- */

enum { MOST_CONTENDERS = 64, MOST_TASKS = 32, MOST_SLICES = 64 };

/* Figures of one prompt, or sums over some: numbers of one type, so that they can be added in a loop. */
struct answer {
	double prompts, tokens, timed; /* timed tokens: those after the first, which comes with the prefill */
	double differing, rounds, round_tokens, draft_steps, accepted, full_passes, verify_passes, rows;
	double plain_steps, ctar[SWIFTLET_CTAR], source_rows[SWIFTLET_SOURCES], source_accepted[SWIFTLET_SOURCES];
	double seconds, cpu; /* of decoding */
	double draft, plain, search,
	    host; /* parts of it: draft steps, plain steps, scoring proposals, outside of passes */
};

/* A session and the texts that it writes. */
struct way {
	char name[40];
	const struct runtime* bench;
	swiftlet_session* session; /* owned; NULL: takes no part */
	bool running;
	int exit_block;                   /* of the last text; 0: none */
	struct answer ended, now, before; /* of finished texts; of the present one; not counted */
	double seconds, cpu;              /* of decoding the text at hand */
	struct token_list tokens;         /* those that were emitted */
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
	bool apart;               /* contenders have costs of their own, and prompts are sequences of their own */
	double temperature;       /* of requests */
	int most_prompts;         /* 0: all */
	bool loops[MOST_PROMPTS]; /* the plain answer's last tokens occur earlier in it */
	const char* task[MOST_TASKS];
	int tasks;
};

/* Selects prompts: of a task (NULL: any), looping or not (-1: either). */
struct prompt_choice {
	const char* task;
	int loops;
};
extern const struct prompt_choice every_prompt;

/* Adds a contender. Its session may be missing, with the reason in `why`. False on no memory, with the error
 * set. */
bool contest_enter(struct contest*, const char* name, const struct swiftlet_options*, struct error* why,
                   struct error*);
/* Ends early when it is interrupted, with the figures so far. */
bool contest_run(struct contest*, struct error*);
void contest_close(struct contest*); /* all but the bench */
/* Sums over prompts whose answers have tokens after the prefill. */
struct answer contest_sum(const struct contest*, int which, struct prompt_choice);
/* Tokens a second over plain decoding's: of all together, and the median over prompts. */
double contest_over_plain(const struct contest*, int which, struct prompt_choice);
double contest_median_over_plain(const struct contest*, int which, struct prompt_choice);
double answer_speed(const struct answer*);
/* M, alpha, c (a draft step over a plain step of so many seconds), and the speed-up that they promise (SWIFT
 * Eq. 6). */
void answer_json(const struct answer*, double plain_step_seconds, cJSON* out);

/* ---- by slices ---------------------------------------------------------------------------- */

enum { MOST_WAYS = 4, WAY_PROMPT = 32 };

/* `prompt`: number of its first text's prompt; texts have 512 tokens. */
bool way_open(struct way*, const struct runtime*, const struct swiftlet_options*, uint64_t prompt,
              struct error*);
/* Generates at least n more tokens; `taken` gets what they took. */
bool way_advance(struct way*, int n, struct answer* taken, struct error*);
/* Since it was opened, or reset. Host seconds include the search's own thread. */
struct answer way_sum(const struct way*);
/* One turn of n ways, the last of them plain decoding, of so many tokens. Another way begins in each turn.
 * slice: where the ratios go. */
bool ways_turn(struct way*, int n, int tokens, int turn, int slice, struct error*);
void ways_reset(struct way*, int n);
/* Adds the tokens of all ways but the last to `compared`, and those that differ from the last way's to
 * `differing`. */
void ways_compare(const struct way*, int n, int64_t* compared, int64_t* differing);
void ways_close(struct way*, int n);
/* Speed-up over that many slices (sorted), its quartiles, M, alpha, c and what they promise. */
void way_json(struct way*, const struct way* plain, int slices, cJSON* out);
