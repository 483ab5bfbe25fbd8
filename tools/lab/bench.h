/* `swiftlet bench`: the parts, and what they share. A part puts its figures into one JSON object. --json
 * prints it; otherwise a table shows it. */
#pragma once

#include <cjson/cJSON.h>

#include "optimizer/optimizer.h"
#include "tools/program/progress.h"
#include "tools/program/prompt_list.h"
#include "tools/program/runtime.h"
#include "tools/program/tables.h"

/* argv[0] is the part's name. The exit status. */
int bench_decode_main(int argc, char** argv);
int bench_swift_main(int argc, char** argv);
int bench_replay_main(int argc, char** argv);
int bench_real_main(int argc, char** argv);
int bench_search_main(int argc, char** argv);
int bench_methods_main(int argc, char** argv);
int bench_levels_main(int argc, char** argv);
int bench_pages_main(int argc, char** argv);
int bench_match_rate_main(int argc, char** argv);
int bench_kernels_main(int argc, char** argv);
int bench_gp_main(int argc, char** argv);
int bench_tokenize_main(int argc, char** argv);
int bench_masks_main(int argc, char** argv);

/* ---- a model on a backend ----------------------------------------------------------------- */

/* Ids of prompt number `index`, n of them: random ones for synthetic models, otherwise from a text that ships
 * here. */
bool bench_prompt(const struct runtime*, uint64_t index, int32_t* id, int n, struct error*);
/* Tokens that a text may have. */
int bench_context(const struct runtime*);
/* The prompts of a file, or the usual ones, that fit the context with answers of most_tokens. False with the
 * error set; free in any case. */
bool bench_prompts(const struct runtime*, struct prompt_list*, const char* input, int most_tokens,
                   struct error*);

/* ---- a part that measures one model ------------------------------------------------------- */

struct bench_part {
	struct runtime bench; /* the options of the command line; open while it measures */
	bool json;
	bool as_run; /* true: draft weights are made as for a user; false: only if they were asked for, because
	                draft weights that become ready at some moment make figures that do not repeat */
	cJSON* runs; /* a list that takes the figures instead of printing them, or NULL */
	/* Called before the model is opened, or NULL: OPTIONS_GO_ON, or the exit status with a message
	 * printed. */
	int (*prepare)(struct bench_part*);
	/* Writes the figures into `out`; false with the error set. */
	bool (*measure)(struct bench_part*, cJSON* out, struct error*);
};

/* Rows of its option table. */
#define BENCH_OPTIONS(part)                                                                                  \
	TEXT("model", 'm', "MODEL", "a model, or synth:SHAPE (builtin)", &(part).bench.wish.model),              \
	    FLAG("json", "print one JSON object instead of tables", &(part).json)

/* Runs a part from the command line to the exit status, which is 1 if "tokens_differing" is above 0. */
int bench_part_main(struct bench_part*, struct command_line*, int argc, char** argv);
/* From the opening of the model on. */
int bench_part_run(struct bench_part*);

/* ---- v(n) --------------------------------------------------------------------------------- */

/* Adds "rows": the cost of full passes of 1 to 64 rows over `committed` tokens, medians of `repeats`
 * alternations. */
bool bench_measure_rows(const struct runtime*, int committed, int repeats, cJSON* out, struct error*);

/* ---- printing ----------------------------------------------------------------------------- */

double bench_median(double* value, int n); /* sorts; NaN of none */
/* Reads numbers with commas between them; how many, 0 for a text that is something else or has more than
 * `most`. */
int bench_read_numbers(const char* text, double* number, int most);
/* Compares two doubles for qsort. */
int bench_ascending(const void*, const void*);
/* Numbers that are not finite become null in JSON. */
void bench_json_numbers(cJSON* out, const char* name, const double* value, int n);
/* Appends an object. */
cJSON* bench_json_row(cJSON* list);
