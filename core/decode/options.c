/* Options by their command-line names: one table for the program, the service and other callers. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/engine.h"
#include "core/draft/drafter.h"
#include "core/draft/stop.h"

void swiftlet_options_default(struct swiftlet_options* options) {
	*options = (struct swiftlet_options){
	    .backend = "auto",
	    .isa = "auto",
	    .cache_type = "auto",
	    .screened_head = -1,
	    .drafters = SWIFTLET_WHOEVER_PAYS,
	    .pool = 1 << 16,
	    .max_draft = 25,
	    .threshold = 0.8,
	    .method = SWIFTLET_AUTO,
	    .stop_threshold = -1,
	    .reuse = true,
	    .window = 32,
	    .window_min = 8,
	    .bayes_interval = 25,
	    .max_steps = 1000,
	    .patience = 300,
	    .confirm = 1,
	    .max_matchness = 0.95,
	    .search = true,
	    .opt_budget = -1,
	    .idle_learning = 1,
	    .objective_speedup = true,
	    .kappa = 2.5,
	    .bank = true,
	    .draft_bits = -1,
	    .draft_pages = -1,
	    .top_p = 1,
	};
}

enum kind { INTEGER, REAL, SEED, CHOICE, FLAG, NAME, PATH, SIZE };

struct option {
	const char* name;
	enum kind kind;
	size_t offset;
	double low, high;  /* PATH: the field's room */
	const char* words; /* CHOICE: "word=value word=value…" (FLAG: a bool); NAME: the words allowed; REAL: one
	                      more word; PATH: what may be given */
};

#define AT(field) offsetof(struct swiftlet_options, field)
#define ROOM(field) sizeof((struct swiftlet_options*)0)->field

static const struct option table[] = {
    {"backend", NAME, AT(backend), 0, 0, "auto cpu cuda"},
    {"isa", NAME, AT(isa), 0, 0, "auto reference avx2 avx-vnni avx512 neon dotprod i8mm"},
    {"threads", INTEGER, AT(threads), 0, 1024, NULL},
    {"devices", INTEGER, AT(devices), 1, 16, NULL},
    {"screened-head", CHOICE, AT(screened_head), 0, 0, "auto=-1 off=0 on=1"},
    {"context", INTEGER, AT(context), 2, 1 << 24, "auto=0"},
    {"cache-type", NAME, AT(cache_type), 0, 0, "auto f16 f32 q8_0"},
    {"stop-threshold", REAL, AT(stop_threshold), 0, 1, "own=-1"},
    {"stop-adapts", FLAG, AT(stop_fixed), 0, 0, "on=0 off=1"},
    {"acceptance", FLAG, AT(rejection), 0, 0, "coupled=0 rejection=1"},
    {"reuse", FLAG, AT(reuse), 0, 0, "on=1 off=0"},
    {"exit-block", INTEGER, AT(exit_block), 1, MAX_BLOCKS - 1, "auto=0"},
    {"speculations", INTEGER, AT(speculations), 1, MAX_DRAFT, "auto=0"},
    {"stop-rule", CHOICE, AT(stop_rule), 0, 0, "own=0 fixed=1 marginal=2 product=3 probe=4 gain=5"},
    {"adapter", PATH, AT(adapter), 0, ROOM(adapter), "a file"},
    {"heads", PATH, AT(heads), 0, ROOM(heads), "a file"},
    {"probe", PATH, AT(probe), 0, ROOM(probe), "a file"},
    {"draft-model", PATH, AT(draft_model), 0, ROOM(draft_model), "a model"},
    {"draft-memory", SIZE, AT(draft_memory), 0, 0, NULL},
    {"cache-memory", SIZE, AT(cache_memory), 0, 0, NULL},
    {"children", INTEGER, AT(children), 1, TREE_RANKS, "auto=0"},
    {"draft", CHOICE, AT(draft), 0, 0, "auto=0 always=1 never=2"},
    {"pool", INTEGER, AT(pool), 0, 1 << 24, NULL},
    {"max-tree", INTEGER, AT(max_tree), 2, 256, "auto=0 paper=-1"},
    {"max-draft", INTEGER, AT(max_draft), 1, 64, NULL},
    {"threshold", REAL, AT(threshold), 0, 1, NULL},
    {"window", INTEGER, AT(window), 1, 256, NULL},
    {"window-min", INTEGER, AT(window_min), 1, 256, NULL},
    {"bayes-interval", INTEGER, AT(bayes_interval), 0, 1 << 20, NULL},
    {"max-steps", INTEGER, AT(max_steps), 0, 1 << 20, NULL},
    {"patience", INTEGER, AT(patience), 1, 1 << 20, NULL},
    {"confirm", INTEGER, AT(confirm), 0, 16, NULL},
    {"max-matchness", REAL, AT(max_matchness), 0, 1, NULL},
    {"skip-cost", REAL, AT(skip_cost), 0.01, 0.99, "auto=0"},
    {"skip-ratio", REAL, AT(skip_ratio), 0.01, 0.99, "auto=0"},
    {"search", FLAG, AT(search), 0, 0, "on=1 off=0"},
    {"opt-budget", REAL, AT(opt_budget), 0, 1e9, "inf=inf"},
    {"idle-learning", REAL, AT(idle_learning), 0, 1e9, "off=0 inf=inf"},
    {"objective", FLAG, AT(objective_speedup), 0, 0, "matchness=0 speedup=1"},
    {"acquisition", FLAG, AT(expected_improvement), 0, 0, "ucb=0 ei=1"},
    {"kernel", FLAG, AT(hamming), 0, 0, "matern52=0 hamming=1"},
    {"kappa", REAL, AT(kappa), 0, 1e6, NULL},
    {"draft-bits", CHOICE, AT(draft_bits), 0, 0, "auto=-1 off=0 4=4 8=8"},
    {"draft-pages", INTEGER, AT(draft_pages), 1, MAX_LISTED, "auto=-1 off=0"},
    {"draft-read", REAL, AT(draft_read), 0.05, 1, "auto=0"},
    {"bank", FLAG, AT(bank), 0, 0, "on=1 off=0"},
    {"seed", SEED, AT(seed), 0, 0, NULL},
    {"temp", REAL, AT(temperature), 0, 100, NULL},
    {"top-p", REAL, AT(top_p), 1e-9, 1, NULL},
    {"min-p", REAL, AT(min_p), 0, 1, NULL},
    {"top-k", INTEGER, AT(top_k), 0, 1 << 24, NULL},
};

/* The value behind `word=` in a list such as "auto=0 paper=-1"; NULL when it is not there. */
static const char* find_word(const char* words, const char* word) {
	const size_t n = strlen(word);
	for (const char* p = words; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
		if (n > 0 && strncmp(p, word, n) == 0 && (p[n] == '=' || p[n] == ' ' || p[n] == 0))
			return p[n] == '=' ? p + n + 1 : p;
	return NULL;
}

/* The names in a list of words, without the values behind them. */
static void list_words(const char* words, char* out, size_t size) {
	size_t n = 0;
	bool name = true;
	for (; *words && n + 1 < size; words++) {
		name = *words != '=' && (name || *words == ' ');
		if (name)
			out[n++] = *words;
	}
	out[n] = 0;
}

static int refuse(char* message, size_t size, const struct option* option, const char* value) {
	char words[96];
	list_words(option->words ? option->words : "", words, sizeof words);
	if (option->kind == INTEGER || option->kind == REAL)
		snprintf(message, size, "--%s %s: expected %s from %.15g to %.15g%s%s", option->name, value,
		         option->kind == INTEGER ? "a whole number" : "a number", option->low, option->high,
		         words[0] ? ", or " : "", words);
	else if (option->kind == SEED)
		snprintf(message, size, "--%s %s: expected a whole number from 0 to 2^64 - 1", option->name, value);
	else if (option->kind == PATH)
		snprintf(message, size, "--%s: %zu characters, expected %s of 1 to %g", option->name, strlen(value),
		         words, option->high - 1);
	else if (option->kind == SIZE)
		snprintf(message, size, "--%s %s: expected a size such as 800M or 1.5G", option->name, value);
	else
		snprintf(message, size, "--%s %s: expected one of: %s", option->name, value, words);
	return -1;
}

/* Bytes, or with K, M, G or T behind the number, in powers of 1,024. */
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
	if (errno || end == value || *end || *value == '-')
		return false;
	*to = seed;
	return true;
}

/* A word's value, or a number where words are not all that may be given. */
static bool read_number(const struct option* option, const char* value, double* number) {
	const char* word = option->words ? find_word(option->words, value) : NULL;
	char* end;
	*number = strtod(word ? word : value, &end);
	if (word)
		return true;
	return option->kind != CHOICE && option->kind != FLAG && end != value && !*end &&
	       *number >= option->low && *number <= option->high &&
	       (option->kind == REAL || *number == floor(*number));
}

static bool set(const struct option* option, void* field, const char* value) {
	double number;
	switch (option->kind) {
	case NAME: /* every word of the table fits its field */
	case PATH:
		if (option->kind == NAME ? !find_word(option->words, value)
		                         : !value[0] || strlen(value) >= (size_t)option->high)
			return false;
		memcpy(field, value, strlen(value) + 1);
		return true;
	case SIZE:
		return read_size(value, field);
	case SEED:
		return read_seed(value, field);
	default:
		break;
	}
	if (!read_number(option, value, &number))
		return false;
	if (option->kind == REAL)
		*(double*)field = number;
	else if (option->kind == FLAG)
		*(bool*)field = number != 0;
	else
		*(int*)field = (int)number; /* an enum is an int */
	return true;
}

static int set_top_k(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	int k[4];
	char rest;
	bool good = sscanf(value, "%d,%d,%d,%d%c", &k[0], &k[1], &k[2], &k[3], &rest) == 4;
	for (int i = 0; i < 4; i++)
		good = good && k[i] >= 1 && k[i] <= 10;
	if (!good) {
		snprintf(message, size, "--tree-top-k %s: expected four whole numbers from 1 to 10, as in 10,5,3,1",
		         value);
		return -1;
	}
	memcpy(options->tree_top_k, k, sizeof k);
	return 1;
}

static int set_drafters(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	struct error error;
	if (drafter_parse(value, &options->drafters, &error))
		return 1;
	give_message(message, size, &error);
	return -1;
}

static int set_preset(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	if (strcmp(value, "paper") != 0) {
		snprintf(message, size, "--preset %s: expected one of: paper", value);
		return -1;
	}
	options->draft = SWIFTLET_DRAFT_ALWAYS;
	options->max_tree = SWIFTLET_TREE_PAPER;
	options->opt_budget = INFINITY;
	options->confirm = 0;
	options->objective_speedup = false;
	options->published = true;
	options->draft_bits = 0;
	options->bank = false;
	return 1;
}

/* One of a table's names; those known in the message. */
static int set_method(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	char known[256] = "";
	for (int i = 0; i < SWIFTLET_METHODS; i++) {
		const char* const name = swiftlet_method_name((enum swiftlet_method)i);
		if (strcmp(name, value) == 0) {
			options->method = (enum swiftlet_method)i;
			return 1;
		}
		strcat(strcat(known, i > 0 ? ", " : ""), name); /* all names: 105 characters */
	}
	snprintf(message, size, "--method %s: expected one of: %s", value, known);
	return -1;
}

int swiftlet_options_set(struct swiftlet_options* options, const char* name, const char* value, char* message,
                         size_t size) {
	static const struct {
		const char* name;
		int (*set)(struct swiftlet_options*, const char* value, char* message, size_t size);
	} other[] = {{"tree-top-k", set_top_k},
	             {"drafters", set_drafters},
	             {"method", set_method},
	             {"preset", set_preset}};
	for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
		if (strcmp(other[i].name, name) == 0)
			return other[i].set(options, value, message, size);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(table[i].name, name) == 0)
			return set(&table[i], (char*)options + table[i].offset, value)
			           ? 1
			           : refuse(message, size, &table[i], value);
	return 0;
}

/* ---- getting ------------------------------------------------------------------------------------ */

/* The word of a list such as "auto=0 paper=-1" that stands for a number. False where none does. */
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
	switch (option->kind) {
	case REAL:
	case SIZE:
		return *(const double*)field;
	case FLAG:
		return *(const bool*)field;
	case SEED:
		return (double)*(const uint64_t*)field;
	default:
		return *(const int*)field;
	}
}

bool swiftlet_options_get(const struct swiftlet_options* options, const char* name, char* text, size_t size) {
	if (strcmp(name, "method") == 0) {
		snprintf(text, size, "%s", swiftlet_method_name(options->method));
		return true;
	}
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		const struct option* const option = &table[i];
		const void* const field = (const char*)options + option->offset;
		if (strcmp(option->name, name) != 0)
			continue;
		if (option->kind == NAME || option->kind == PATH)
			snprintf(text, size, "%s", (const char*)field);
		else if (!find_word_of(option->words, number_in(option, field), text, size))
			snprintf(text, size, "%.15g", number_in(option, field));
		return true;
	}
	return false;
}

bool give_message(char* message, size_t size, const struct error* error) {
	snprintf(message, size, "%s", error->message);
	return false;
}
