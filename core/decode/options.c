/* The table of options, and reading and writing them by name. */
#include "core/decode/options.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"

#define AT(field) offsetof(struct swiftlet_options, field)
#define ROOM(field) sizeof((struct swiftlet_options*)0)->field
#define HEADING_ROW(text)                                                                                    \
	{ .name = text, .type = OPTION_HEADING }

/* Sets the C locale while numbers are read and written, because a host program may use decimal commas. */
static locale_t use_points(locale_t* before) {
	const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
	*before = plain ? uselocale(plain) : (locale_t)0;
	return plain;
}

static void leave_points(locale_t plain, locale_t before) {
	if (plain) {
		uselocale(before);
		freelocale(plain);
	}
}

/* The value after `word=` in a list such as "auto=0 paper=-1"; NULL without one. */
static const char* find_word(const char* words, const char* word) {
	const size_t n = strlen(word);
	if (n == 0 || word[strcspn(word, "= ")]) /* one word, no piece of the list */
		return NULL;
	for (const char* p = words; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
		if (strncmp(p, word, n) == 0 && (p[n] == '=' || p[n] == ' ' || p[n] == 0))
			return p[n] == '=' ? p + n + 1 : p;
	return NULL;
}

/* The names in a list of words, without their values. */
static void list_words(const char* words, char between, char* out, size_t size) {
	size_t n = 0;
	bool name = true;
	for (; *words && n + 1 < size; words++) {
		name = *words != '=' && (name || *words == ' ');
		if (name)
			out[n++] = *words == ' ' ? between : *words;
	}
	out[n] = 0;
}

static bool set_top_k(struct swiftlet_options* options, const char* value, struct error* error) {
	int k[4];
	char rest;
	bool good = sscanf(value, "%d,%d,%d,%d%c", &k[0], &k[1], &k[2], &k[3], &rest) == 4;
	for (int i = 0; i < 4; i++)
		good = good && k[i] >= 1 && k[i] <= 10;
	if (!good)
		return error_set(
		    error, "--tree-top-k %.100s: expected four whole numbers from 1 to 10, as in 10,5,3,1", value);
	memcpy(options->drafting.tree_top_k, k, sizeof k);
	return true;
}

static bool set_drafters(struct swiftlet_options* options, const char* value, struct error* error) {
	return drafter_parse(value, &options->drafting.drafters, error);
}

static bool set_preset(struct swiftlet_options* options, const char* value, struct error* error) {
	if (strcmp(value, "paper") != 0)
		return error_set(error, "--preset %.100s: expected one of: paper", value);
	options->drafting.when = SWIFTLET_DRAFT_ALWAYS;
	options->drafting.max_tree = SWIFTLET_TREE_PAPER;
	options->learning.budget = INFINITY;
	options->learning.published = true;
	options->draft_weights.bits = 0;
	options->learning.bank = false;
	return true;
}

/* A row: name, letter, whether --help shows it; type, field, range, words; value, help and default. */
const struct option option_table[] = {
    HEADING_ROW("Engine"),
    {"backend", 0, true, TAKES_NAME, AT(engine.backend), 0, 0, "auto cpu cuda", NULL,
     "where the model runs; auto prefers a GPU", "auto", NULL},
    {"threads", 't', true, TAKES_INTEGER, AT(engine.threads), 0, 1024, NULL, "N",
     "CPU threads; 0 takes one for each CPU that the process may use", "0", NULL},
    {"context", 'c', true, TAKES_INTEGER, AT(cache.context), 2, 1 << 24, "auto=0", "N",
     "size of the KV cache in tokens (the model's limit, or less if half of the free memory holds less; on a "
     "GPU at most 4096)",
     NULL, NULL},
    {"cache-type", 0, false, TAKES_NAME, AT(cache.type), 0, 0, "auto f16 f32 q8_0", NULL,
     "element type of the KV cache; auto is f32 for F32 models and f16 for others; q8_0 takes half the "
     "memory of f16, but changes the tokens (CPU only)",
     "auto", NULL},
    {"cache-memory", 0, false, TAKES_SIZE, AT(cache.memory), 0, 0, NULL, "SIZE",
     "memory for all KV caches together, such as 800M or 1.5G (one full context for each cache; serve: four "
     "full contexts in all)",
     NULL, NULL},
    {"isa", 0, false, TAKES_NAME, AT(engine.isa), 0, 0,
     "auto reference avx2 avx-vnni avx512 neon dotprod i8mm", NULL, "instruction set; auto takes the best",
     "auto", NULL},
    {"devices", 0, false, TAKES_INTEGER, AT(engine.devices), 1, 16, NULL, "N",
     "share the model over N GPUs through NCCL; every N gives the same tokens (without the option, one GPU "
     "runs the model and may use cuBLAS for prompts)",
     NULL, NULL},
    {"screened-head", 0, false, TAKES_CHOICE, AT(engine.screened_head), 0, 0, "auto=-1 on=1 off=0", NULL,
     "use a 4-bit copy of the output head to find the tokens that can win, and compute only these exactly: "
     "the bits stay the same and fewer bytes are read; auto does so where it saves time",
     "auto", NULL},
    {"interleave", 0, false, TAKES_CHOICE, AT(engine.interleave), 0, 0, "auto=-1 on=1 off=0", NULL,
     "keep a second copy of quantized weights, in the order in which the processor multiplies them: the bits "
     "stay the same, and passes of several rows take about 0.8 of the time; auto does so if the memory "
     "suffices (CPU with AVX2)",
     "auto", NULL},

    HEADING_ROW("Sampling"),
    {"temp", 0, true, TAKES_REAL, AT(sampling.temperature), 0, 100, NULL, "T",
     "temperature; 0 always takes the likeliest token", "0", NULL},
    {"top-p", 0, true, TAKES_REAL, AT(sampling.top_p), 1e-9, 1, NULL, "P",
     "sample from the likeliest tokens whose probabilities add up to P", "1", NULL},
    {"top-k", 0, false, TAKES_INTEGER, AT(sampling.top_k), 0, 1 << 24, NULL, "N",
     "sample from the N likeliest tokens; 0 is off", "0", NULL},
    {"min-p", 0, false, TAKES_REAL, AT(sampling.min_p), 0, 1, NULL, "P",
     "leave out tokens that are less than P times as likely as the likeliest one; 0 is off", "0", NULL},
    {"seed", 0, true, TAKES_SEED, AT(sampling.seed), 0, 0, NULL, "N", "seed for sampling and for the search",
     "0", NULL},

    HEADING_ROW("Drafting"),
    {"method", 0, true, TAKES_CHOICE, AT(drafting.method), 0, 0,
     "auto=2 swift=0 vanilla=1 ngram=3 jacobi=4 lookahead=5 uniform=6 random=7 self-spec=8 clasp=9 "
     "layerskip=10 adaspeed=11 kangaroo=12 ppd=13",
     NULL,
     "how tokens are drafted; auto drafts where it pays, vanilla decodes plainly; the output is the same",
     "auto", NULL},
    {"drafters", 0, false, TAKES_OWN, 0, 0, 0, NULL, "LIST|none",
     "which drafters auto may use: mask, model, mtp, prediction, retrieval, recycle, form, or all (all; "
     "recycle "
     "on a GPU only)",
     NULL, set_drafters},
    {"draft-model", 0, false, TAKES_PATH, AT(drafting.model), 0, ROOM(drafting.model), "a model", "MODEL",
     "let a smaller model with the same vocabulary draft too, or Gemma 4's assistant", NULL, NULL},
    {"draft-bits", 0, false, TAKES_CHOICE, AT(draft_weights.bits), 0, 0, "auto=-1 off=0 4=4 8=8", NULL,
     "draft with weights quantized to this many bits; 4 and 8 make them before the first token, auto makes "
     "them after the first tokens if they pay",
     "auto", NULL},
    {"draft-read", 0, false, TAKES_REAL, AT(draft_weights.read), 0.05, 1, "auto=0", "auto|SHARE",
     "share of the quantized draft weights that a draft step reads, on a CPU or one GPU (auto: 0.43)", NULL,
     NULL},
    {"draft-pages", 0, false, TAKES_INTEGER, AT(drafting.pages), 1, MAX_LISTED, "auto=-1 off=0", "auto|off|N",
     "how many pages of 64 tokens a draft reads of a long text, on a CPU or one GPU: the pages that verified "
     "tokens attended to most (auto: 16 where that saves time; off: the whole text)",
     "auto", NULL},
    {"draft-memory", 0, false, TAKES_SIZE, AT(draft_weights.memory), 0, 0, NULL, "SIZE",
     "limit for the quantized draft weights (a quarter of the free memory)", NULL, NULL},
    {"pool", 0, false, TAKES_INTEGER, AT(drafting.pool), 0, 1 << 24, NULL, "N",
     "how many tokens of earlier requests are kept to look drafts up in", "65536", NULL},

    HEADING_ROW("Learning"),
    {"search", 0, false, TAKES_FLAG, AT(learning.search), 0, 0, "on=1 off=0", NULL,
     "search for layers or input channels that drafts can leave out; off keeps the mask as it is", "on",
     NULL},
    {"opt-budget", 0, false, TAKES_REAL, AT(learning.budget), 0, 1e9, "inf=inf", "X",
     "share of decoding time that learning may take, or inf (0.01; by default learning may also take up to "
     "32 steps of the time that drafts have saved)",
     NULL, NULL},
    {"idle-learning", 0, false, TAKES_REAL, AT(learning.idle), 0, 1e9, "off=0 inf=inf", "off|SHARE|inf",
     "let chat and serve make draft weights and learn while no request runs; learning runs at idle priority, "
     "for at most SHARE of the seconds that requests took",
     "1", NULL},
    {"bank", 0, false, TAKES_FLAG, AT(learning.bank), 0, 0, "on=1 off=0", NULL,
     "keep a mask for each workload, and start later prompts of that workload with it", "on", NULL},

    HEADING_ROW("Research: SWIFT as published"),
    {"preset", 0, false, TAKES_OWN, 0, 0, 0, NULL, "paper",
     "run SWIFT as the paper does: propose a mask before every round, every 25th by Bayesian optimization "
     "and the others at random; score it on the first 32 tokens of each text; draft with the mask of the "
     "best raw score; verify the whole tree in every round. Two things differ from the paper: the KV cache "
     "is not copied, and sampling is coupled, so the text equals plain decoding's",
     NULL, set_preset},

    HEADING_ROW("Research: how a round drafts (docs/methods.md explains the methods)"),
    {"draft", 0, false, TAKES_CHOICE, AT(drafting.when), 0, 0, "auto=0 always=1 never=2", NULL,
     "when to draft: where it pays (auto), in every round (always), or in no round (never)", "auto", NULL},
    {"max-draft", 0, false, TAKES_INTEGER, AT(drafting.max_draft), 1, 64, NULL, "N",
     "draft steps in a round, at most", "25", NULL},
    {"threshold", 0, false, TAKES_REAL, AT(drafting.threshold), 0, 1, NULL, "P",
     "stop drafting for this round after a token with a probability under P", "0.8", NULL},
    {"max-tree", 0, false, TAKES_INTEGER, AT(drafting.max_tree), 2, 256, "auto=0 paper=-1", "auto|paper|N",
     "rows in the tree of drafts, at most, with its root", "auto", NULL},
    {"tree-top-k", 0, false, TAKES_OWN, 0, 0, 0, NULL, "A,B,C,D",
     "how many alternatives a step adds to the tree if its top probability is at most 0.5, at most 0.8, at "
     "most 0.95, or higher (10,8,5,3 when greedy, 10,5,3,1 when sampled)",
     NULL, set_top_k},
    {"stop-rule", 0, false, TAKES_CHOICE, AT(standalone.stop_rule), 0, 0,
     "own=-1 fixed=0 marginal=1 product=2 probe=3 gain=4", NULL,
     "which rule ends a chain of drafts; own is the method's", "own", NULL},
    {"stop-threshold", 0, false, TAKES_REAL, AT(standalone.stop_threshold), 0, 1, "own=-1", "P",
     "end a chain under this probability; own is the method's", "own", NULL},
    {"stop-adapts", 0, false, TAKES_FLAG, AT(standalone.stop_fixed), 0, 0, "on=0 off=1", NULL,
     "let the threshold follow how many drafts are accepted", "on", NULL},
    {"acceptance", 0, false, TAKES_FLAG, AT(standalone.rejection), 0, 0, "coupled=0 rejection=1", NULL,
     "how sampled drafts are verified: coupled gives plain decoding's tokens, rejection only its "
     "distribution",
     "coupled", NULL},
    {"exit-block", 0, false, TAKES_INTEGER, AT(standalone.exit_block), 1, MAX_BLOCKS - 1, "auto=0", "E",
     "layerskip, adaspeed, ppd: draft with the first E blocks", "auto", NULL},
    {"speculations", 0, false, TAKES_INTEGER, AT(standalone.speculations), 1, MAX_DRAFT, "auto=0", "N",
     "draft steps in a round for these methods; auto is the method's number, or chosen by cost", "auto",
     NULL},
    {"children", 0, false, TAKES_INTEGER, AT(standalone.children), 1, TREE_RANKS, "auto=0", "K",
     "ppd: how many tokens to predict for the next position", "auto", NULL},
    {"reuse", 0, false, TAKES_FLAG, AT(standalone.reuse), 0, 0, "on=1 off=0", NULL,
     "continue verification from the exit block, instead of starting again from the first block", "on", NULL},
    {"adapter", 0, false, TAKES_PATH, AT(standalone.adapter), 0, ROOM(standalone.adapter), "a file", "FILE",
     "the adapter of kangaroo (tools/train/kangaroo.py makes one)", NULL, NULL},
    {"heads", 0, false, TAKES_PATH, AT(standalone.heads), 0, ROOM(standalone.heads), "a file", "FILE",
     "the heads of ppd, one for each exit block (tools/train/ppd.py makes them)", NULL, NULL},
    {"probe", 0, false, TAKES_PATH, AT(standalone.probe), 0, ROOM(standalone.probe), "a file", "FILE",
     "the probe of adaspeed (tools/train/probe.py makes one)", NULL, NULL},

    HEADING_ROW("Research: the search for layers to skip"),
    {"skip-ratio", 0, false, TAKES_REAL, AT(learning.skip_ratio), 0.01, 0.99, "auto=0", "R",
     "share of the skippable layers to skip; auto skips 0.45, or searches for shares of input channels "
     "instead if drafts read weights by channel",
     "auto", NULL},
    {"window", 0, false, TAKES_INTEGER, AT(learning.window), 1, 256, NULL, "N",
     "tokens that a mask is scored on", "32", NULL},
    {"window-min", 0, false, TAKES_INTEGER, AT(learning.window_min), 1, 256, NULL, "N",
     "fewest tokens that a mask is scored on", "8", NULL},
    {"max-steps", 0, false, TAKES_INTEGER, AT(learning.max_steps), 0, 1 << 20, NULL, "N",
     "end the search after N masks", "1000", NULL},
    {"patience", 0, false, TAKES_INTEGER, AT(learning.patience), 1, 1 << 20, NULL, "N",
     "end the search after N masks without improvement", "300", NULL},
    {"max-matchness", 0, false, TAKES_REAL, AT(learning.max_matchness), 0, 1, NULL, "X",
     "end the search when a mask's matchness is above X", "0.95", NULL},
    {"bayes-interval", 0, false, TAKES_INTEGER, AT(learning.bayes_interval), 0, 1 << 20, NULL, "N",
     "propose every N-th mask by Bayesian optimization (every second one when channels are searched); 0: "
     "none",
     "25", NULL},
    {"acquisition", 0, false, TAKES_FLAG, AT(learning.expected_improvement), 0, 0, "ucb=0 ei=1", NULL,
     "acquisition function of Bayesian optimization: upper confidence bound or expected improvement", "ucb",
     NULL},
    {"kernel", 0, false, TAKES_FLAG, AT(learning.hamming), 0, 0, "matern52=0 hamming=1", NULL,
     "kernel of the Gaussian process over masks", "matern52", NULL},
    {"kappa", 0, false, TAKES_REAL, AT(learning.kappa), 0, 1e6, NULL, "X",
     "weight of uncertainty in ucb: a larger value explores more", "2.5", NULL},
};
const int n_options = sizeof option_table / sizeof *option_table;

const struct option* option_named(const char* name, char letter) {
	for (int i = 0; i < n_options; i++) {
		const struct option* const o = &option_table[i];
		if (o->type != OPTION_HEADING &&
		    (name ? strcmp(o->name, name) == 0 : o->letter && o->letter == letter))
			return o;
	}
	return NULL;
}

void option_value(const struct option* option, char* text, size_t size) {
	if (option->value)
		snprintf(text, size, "%s", option->value);
	else
		list_words(option->words, '|', text, size);
}

static bool refuse_value(const struct option* option, const char* value, struct error* error) {
	char words[160];
	list_words(option->words ? option->words : "", ' ', words, sizeof words);
	if (option->type == TAKES_INTEGER || option->type == TAKES_REAL)
		return error_set(error, "--%s %.100s: expected %s from %.15g to %.15g%s%s", option->name, value,
		                 option->type == TAKES_INTEGER ? "a whole number" : "a number", option->low,
		                 option->high, words[0] ? ", or " : "", words);
	if (option->type == TAKES_SEED)
		return error_set(error, "--%s %.100s: expected a whole number from 0 to 2^64 - 1", option->name,
		                 value);
	if (option->type == TAKES_PATH)
		return error_set(error, "--%s: %zu characters, expected %s of 1 to %g", option->name, strlen(value),
		                 words, option->high - 1);
	if (option->type == TAKES_SIZE)
		return error_set(error, "--%s %.100s: expected a size such as 800M or 1.5G", option->name, value);
	return error_set(error, "--%s %.100s: expected one of: %s", option->name, value, words);
}

/* A number of bytes, or of powers of 1,024 with K, M, G or T. */
static bool read_size(const char* value, double* to) {
	static const char units[] = "KMGT";
	char* end;
	double bytes = strtod(value, &end);
	const char* const unit = *end ? strchr(units, *end) : NULL;
	for (const char* u = units; unit && u <= unit; u++)
		bytes *= 1024;
	if (end == value || !(bytes > 0 && bytes < 1e18) || (unit ? end[1] : *end) != 0)
		return false;
	*to = bytes;
	return true;
}

static bool read_seed(const char* value, uint64_t* to) {
	char* end;
	errno = 0;
	const unsigned long long seed = strtoull(value, &end, 10);
	if (errno || *end || *value < '0' || *value > '9')
		return false;
	*to = seed;
	return true;
}

/* A word's value, or a number if the option also takes numbers. */
static bool read_number(const struct option* option, const char* value, double* number) {
	const char* word = option->words ? find_word(option->words, value) : NULL;
	char* end;
	*number = strtod(word ? word : value, &end);
	if (word)
		return true;
	return option->type != TAKES_CHOICE && option->type != TAKES_FLAG && end != value && !*end &&
	       *number >= option->low && *number <= option->high &&
	       (option->type == TAKES_REAL || *number == floor(*number));
}

static bool set_field(const struct option* option, void* field, const char* value) {
	double number;
	switch (option->type) {
	case TAKES_NAME: /* every word of the table fits its field */
	case TAKES_PATH:
		if (option->type == TAKES_NAME ? !find_word(option->words, value)
		                               : !value[0] || strlen(value) >= (size_t)option->high)
			return false;
		memcpy(field, value, strlen(value) + 1);
		return true;
	case TAKES_SIZE:
		return read_size(value, field);
	case TAKES_SEED:
		return read_seed(value, field);
	default:
		break;
	}
	if (!read_number(option, value, &number))
		return false;
	if (option->type == TAKES_REAL)
		*(double*)field = number;
	else if (option->type == TAKES_FLAG)
		*(bool*)field = number != 0;
	else
		*(int*)field = (int)number; /* an enum is an int */
	return true;
}

static bool set_typed(const struct option* option, void* field, const char* value) {
	locale_t before;
	const locale_t plain = use_points(&before);
	const bool good = set_field(option, field, value);
	leave_points(plain, before);
	return good;
}

void options_default(struct swiftlet_options* options) {
	*options = (struct swiftlet_options){.drafting.drafters = SWIFTLET_ALL_DRAFTERS, .learning.budget = -1};
	for (int i = 0; i < n_options; i++)
		if (option_table[i].fallback)
			set_typed(&option_table[i], (char*)options + option_table[i].offset, option_table[i].fallback);
}

const char* method_name(enum swiftlet_method method) {
	static const char* const name[SWIFTLET_METHODS] = {
	    "swift",  "vanilla",   "auto",  "ngram",     "jacobi",   "lookahead", "uniform",
	    "random", "self-spec", "clasp", "layerskip", "adaspeed", "kangaroo",  "ppd"};
	return name[method];
}

const int* options_top_k(const struct swiftlet_options* options, bool sampled) {
	static const int published[2][4] = {{10, 8, 5, 3}, {10, 5, 3, 1}};
	return options->drafting.tree_top_k[0] > 0 ? options->drafting.tree_top_k : published[sampled];
}

bool option_set(struct swiftlet_options* options, const struct option* option, const char* value,
                struct error* error) {
	if (option->set)
		return option->set(options, value, error);
	return set_typed(option, (char*)options + option->offset, value) || refuse_value(option, value, error);
}

/* ---- getting ------------------------------------------------------------------------------------ */

/* The word that stands for a number in a list such as "auto=0 paper=-1". False if none does. */
static bool find_word_of(const char* words, double number, char* text, size_t size) {
	for (const char* p = words; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
		const size_t n = strcspn(p, "= ");
		char* end;
		if (p[n] == '=' && !(strtod(p + n + 1, &end) < number) && !(strtod(p + n + 1, &end) > number)) {
			snprintf(text, size, "%.*s", (int)n, p);
			return true;
		}
	}
	return false;
}

static double number_in(const struct option* option, const void* field) {
	switch (option->type) {
	case TAKES_REAL:
	case TAKES_SIZE:
		return *(const double*)field;
	case TAKES_FLAG:
		return *(const bool*)field;
	default:
		return *(const int*)field;
	}
}

static void write_field(const struct option* option, const void* field, char* text, size_t size) {
	if (option->type == TAKES_NAME || option->type == TAKES_PATH)
		snprintf(text, size, "%s", (const char*)field);
	else if (option->type == TAKES_SEED)
		snprintf(text, size, "%" PRIu64, *(const uint64_t*)field);
	else if (!find_word_of(option->words, number_in(option, field), text, size))
		snprintf(text, size, "%.15g", number_in(option, field));
}

bool option_get(const struct swiftlet_options* options, const struct option* option, char* text,
                size_t size) {
	locale_t before;
	if (option->type == TAKES_OWN)
		return false;
	const locale_t plain = use_points(&before);
	write_field(option, (const char*)options + option->offset, text, size);
	leave_points(plain, before);
	return true;
}
