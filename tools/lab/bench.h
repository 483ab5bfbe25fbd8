/* `swiftlet bench`: the parts, and what they share.
 *
 * A `runner` drives a session through its inner door (core/decode/session.h), so that every second is known
 * to be of a model pass of some kind, or of the host between passes. Two runners on one engine, advanced in
 * turns, see the same machine. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_H
#define SWIFTLET_TOOLS_LAB_BENCH_H

#include <cjson/cJSON.h>

#include "optimizer/optimizer.h"
#include "tools/program/options.h"

/* argv[0] is the part's name. The exit status. */
int bench_decode_main(int argc, char** argv);
int bench_swift_main(int argc, char** argv);
int bench_replay_main(int argc, char** argv);
int bench_real_main(int argc, char** argv);
int bench_bridge_main(int argc, char** argv);
int bench_search_main(int argc, char** argv);
int bench_methods_main(int argc, char** argv);
int bench_match_rate_main(int argc, char** argv);

/* ---- a model on a backend ----------------------------------------------------------------- */

struct bench {
	swiftlet_model* model;
	swiftlet_engine* engine;
	struct swiftlet_options options;
	bool json;
	double load_seconds;
};

/* OPTIONS_GO_ON, or the exit status with the message printed. Close in any case. A low-bit copy is made only
 * where one was asked for: one that joins at some time or other makes figures that do not repeat. */
int bench_open(struct bench*, const char* model, const struct swiftlet_options*, bool json);
/* Likewise, with the options as they are. */
int bench_open_as_run(struct bench*, const char* model, const struct swiftlet_options*, bool json);
void bench_close(struct bench*);
/* Prompt number `index`, n ids: of made-up models random ones, else from a text that ships here. */
bool bench_prompt(const struct bench*, uint64_t index, int32_t* id, int n, struct error*);
/* Adds what was measured on: model, backend, threads, parameters, load_seconds. */
void bench_describe(const struct bench*, cJSON* out);

/* ---- a session that is timed -------------------------------------------------------------- */

enum { WORK_KINDS = WORK_MATCHNESS + 1, BENCH_PROMPT = 32 };

struct runner {
	const struct bench* bench;
	struct session* session;
	uint64_t prompt; /* number of the next prompt */
	int max_tokens;  /* a request's */
	/* (n_given) the caller's: the one prompt of a runner that stops with its first request; NULL: prompts
	 * follow one another */
	const int32_t* given;
	int n_given;
	bool started, prefilled;
	/* since runner_open or runner_reset; prefills and their tokens are left out of all but `token` */
	double pass_seconds[WORK_KINDS];
	double seconds; /* all of it */
	int64_t tokens, draft_steps, accepted, rounds, round_tokens, proposals;
	struct swiftlet_figures last; /* of the request at hand, already counted above */
	/* every token emitted since runner_open */
	int32_t* token; /* (n_token) malloc'd */
	int n_token, capacity;
};

bool runner_open(struct runner*, const struct bench*, const struct swiftlet_options*, uint64_t first_prompt,
                 int max_tokens, struct error*);
void runner_close(struct runner*);
/* Forgets the figures, not the session's state nor its text. */
void runner_reset(struct runner*);
/* At least n tokens more (a round is not cut), less where its one request is over; the seconds and tokens of
 * this call are added to what `seconds` and `tokens` point at. */
bool runner_advance(struct runner*, int n, double* seconds, int64_t* tokens, struct error*);
/* Seconds in passes; and outside of them. */
double runner_pass_seconds(const struct runner*);
double runner_host_seconds(const struct runner*);
/* Tokens of the texts' common length, and how many of them differ. */
int64_t runner_compare(const struct runner*, const struct runner*, int64_t* differing);

/* ---- v(n) --------------------------------------------------------------------------------- */

enum { ROW_COUNTS = 7 };
extern const int bench_rows[ROW_COUNTS]; /* 1, 2, 4, 8, 16, 32, 64 */
/* Seconds of a full pass by rows, medians of `repeats` alternations over `committed` tokens. */
bool bench_measure_rows(const struct bench*, int committed, int repeats, double seconds[ROW_COUNTS],
                        struct error*);
void bench_print_rows(const double seconds[ROW_COUNTS]);
void bench_json_rows(cJSON* out, const double seconds[ROW_COUNTS]);

/* ---- printing ----------------------------------------------------------------------------- */

double bench_median(double* value, int n); /* sorts; NaN of none */
/* A bar on standard error, where that is a terminal: share in [0, 1] and what is going on. */
void bench_progress(double share, const char* format, ...) __attribute__((format(printf, 2, 3)));
void bench_progress_end(void);
/* A number or, where it is not one, null. */
void bench_json_number(cJSON* out, const char* name, double value);
/* Prints and frees. The exit status. */
int bench_print_json(cJSON* out);

#endif
