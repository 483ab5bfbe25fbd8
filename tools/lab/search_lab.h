/* A laboratory for the layer-set search: text that a model wrote, cut into windows that masks are scored on
 * as a session scores them, and other text that they are judged on.
 *
 * Every figure comes from real exact passes over the backend; nothing is simulated. Windows come as serving
 * gives them, text after text. */
#ifndef SWIFTLET_TOOLS_LAB_SEARCH_LAB_H
#define SWIFTLET_TOOLS_LAB_SEARCH_LAB_H

#include "optimizer/search.h"
#include "tools/lab/bench.h"

enum { LAB_WINDOW = 32, LAB_FIRST_ROWS = 8 };

struct lab_text {
	struct cache* cache; /* committed: all tokens but the last */
	int32_t* token;      /* (n_prompt + n) */
	int n_prompt, n;
};

struct lab_window {
	int text, base, size; /* predicts token[base + 1 … base + size] from `base` committed tokens */
};

struct lab {
	struct backend* backend;
	int dim;
	float* gain;                        /* (dim) the output norm's weights: states as the head sees them */
	float *full, *draft;                /* (n_windows, LAB_WINDOW, dim) and (LAB_WINDOW, dim) last states */
	struct lab_text *search, *judge;    /* (n_search), (n_judge) */
	struct lab_window *window, *beside; /* (n_windows) to search on, (n_beside) to judge on */
	int n_search, n_judge, n_windows, n_beside;
	double* influence; /* (2L) over the first prompts searched on */
	struct judged {
		struct mask mask;
		double matchness;
	} * judged; /* what was judged before */
	int n_judged, judged_capacity;
};

/* Writes greedy text: prompts 0 … n_search - 1 to search on, the others to judge on; ids (count[i]) a prompt,
 * at most tokens[i] generated ones, up to EOS. False with the error set; close in any case. */
bool lab_open(struct lab*, const struct bench*, int32_t* const* prompt, const int* count, const int* tokens,
              int n, int n_search, struct error*);
void lab_close(struct lab*);
/* Hits of the mask among the first `rows` of window `w`, and the mean distance of those rows' states. */
int lab_score(struct lab*, const struct mask*, int w, int rows, double* distance);
/* The share of hits on all of the text to judge on; of the same mask without another pass. */
double lab_judge(struct lab*, const struct mask*);

#endif
