/* Options by their command-line names: one table for the program, the service and other callers. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"
#include "optimizer/engine.h"

void swiftlet_options_default(struct swiftlet_options* options) {
	*options = (struct swiftlet_options){
	    .backend = "auto",
	    .isa = "auto",
	    .cache_type = "auto",
	    .drafters = ~0u,
	    .pool = 1 << 16,
	    .max_draft = 25,
	    .threshold = 0.8,
	    .window = 32,
	    .window_min = 8,
	    .bayes_interval = 25,
	    .max_steps = 1000,
	    .patience = 300,
	    .confirm = 1,
	    .max_matchness = 0.95,
	    .search = true,
	    .distance = true,
	    .opt_budget = 0.01,
	    .idle_search = true,
	    .objective_speedup = true,
	    .kappa = 2.5,
	    .bank = true,
	    .top_p = 1,
	};
}

enum kind { INTEGER, REAL, SEED, CHOICE, FLAG, NAME };

struct option {
	const char* name;
	enum kind kind;
	size_t offset;
	double low, high;
	const char* words; /* CHOICE: "word=value word=value…" (FLAG: a bool); NAME: the words allowed; REAL: one
	                      more word */
};

#define AT(field) offsetof(struct swiftlet_options, field)

static const struct option table[] = {
    {"backend", NAME, AT(backend), 0, 0, "auto cpu cuda"},
    {"isa", NAME, AT(isa), 0, 0, "auto reference avx2 avx512"},
    {"threads", INTEGER, AT(threads), 1, 1024, NULL},
    {"context", INTEGER, AT(context), 2, 1 << 24, NULL},
    {"cache-type", NAME, AT(cache_type), 0, 0, "auto f16 f32"},
    {"method", CHOICE, AT(method), 0, 0, "swift=0 vanilla=1"},
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
    {"skip-ratio", REAL, AT(skip_ratio), 0.01, 0.99, "auto=0"},
    {"search", FLAG, AT(search), 0, 0, "on=1 off=0"},
    {"distance", FLAG, AT(distance), 0, 0, "on=1 off=0"},
    {"opt-budget", REAL, AT(opt_budget), 0, 1e9, "inf=inf"},
    {"idle-search", FLAG, AT(idle_search), 0, 0, "on=1 off=0"},
    {"objective", FLAG, AT(objective_speedup), 0, 0, "matchness=0 speedup=1"},
    {"acquisition", FLAG, AT(expected_improvement), 0, 0, "ucb=0 ei=1"},
    {"kernel", FLAG, AT(hamming), 0, 0, "matern52=0 hamming=1"},
    {"kappa", REAL, AT(kappa), 0, 1e6, NULL},
    {"draft-bits", CHOICE, AT(draft_bits), 0, 0, "off=0 3=3 4=4 8=8"},
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

static int refuse(char* message, size_t size, const struct option* option, const char* value) {
	if (!message || size == 0)
		return -1;
	char words[96] = "";
	size_t n = 0;
	bool skip = false;
	for (const char* p = option->words ? option->words : ""; *p && n + 1 < sizeof words; p++) {
		skip = *p == '=' ? true : *p == ' ' ? false : skip; /* names only, not the values behind them */
		if (!skip) {
			words[n++] = *p;
			words[n] = 0;
		}
	}
	if (option->kind == INTEGER || option->kind == REAL)
		snprintf(message, size, "--%s %s: expected %s from %g to %g%s%s", option->name, value,
		         option->kind == INTEGER ? "a whole number" : "a number", option->low, option->high,
		         words[0] ? ", or " : "", words);
	else if (option->kind == SEED)
		snprintf(message, size, "--%s %s: expected a whole number from 0 to 2^64 - 1", option->name, value);
	else
		snprintf(message, size, "--%s %s: expected one of: %s", option->name, value, words);
	return -1;
}

static int set(const struct option* option, void* field, const char* value, char* message, size_t size) {
	const char* word = option->words ? find_word(option->words, value) : NULL;
	const char* text = word ? word : value;
	char* end = NULL;
	errno = 0;
	if (option->kind == NAME) {
		if (!word)
			return refuse(message, size, option, value);
		memcpy(field, value, strlen(value) + 1); /* every word of the table fits its field */
		return 1;
	}
	if (option->kind == SEED) {
		const unsigned long long seed = strtoull(text, &end, 10);
		if (errno || end == text || *end || *text == '-')
			return refuse(message, size, option, value);
		*(uint64_t*)field = seed;
		return 1;
	}
	const double number = strtod(text, &end);
	if (end == text || (!word && (*end || isnan(number) || number < option->low || number > option->high)))
		return refuse(message, size, option, value);
	if (option->kind == REAL) {
		*(double*)field = number;
		return 1;
	}
	if (((option->kind == CHOICE || option->kind == FLAG) && !word) || number != floor(number))
		return refuse(message, size, option, value);
	if (option->kind == FLAG)
		*(bool*)field = number != 0;
	else
		*(int*)field = (int)number; /* an enum is an int */
	return 1;
}

static int set_top_k(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	int k[4];
	char rest;
	if (sscanf(value, "%d,%d,%d,%d%c", &k[0], &k[1], &k[2], &k[3], &rest) == 4) {
		bool good = true;
		for (int i = 0; i < 4; i++)
			good = good && k[i] >= 1 && k[i] <= 10;
		if (good) {
			memcpy(options->tree_top_k, k, sizeof k);
			return 1;
		}
	}
	if (message && size > 0)
		snprintf(message, size, "--tree-top-k %s: expected four whole numbers from 1 to 10, as in 10,5,3,1",
		         value);
	return -1;
}

static int set_drafters(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	struct error error = {""};
	if (drafter_parse(value, &options->drafters, &error))
		return 1;
	give_message(message, size, &error);
	return -1;
}

static int set_preset(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	if (strcmp(value, "paper") != 0) {
		if (message && size > 0)
			snprintf(message, size, "--preset %s: expected one of: paper", value);
		return -1;
	}
	options->draft = SWIFTLET_DRAFT_ALWAYS;
	options->max_tree = SWIFTLET_TREE_PAPER;
	options->opt_budget = INFINITY;
	options->confirm = 0;
	options->objective_speedup = false;
	options->published = true;
	options->distance = false;
	options->bank = false;
	return 1;
}

static int set_draft_cache(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	const size_t n = strlen(value);
	if (n > 0 && n < sizeof options->draft_cache) {
		memcpy(options->draft_cache, value, n + 1);
		return 1;
	}
	if (message && size > 0)
		snprintf(message, size, "--draft-cache: %zu characters, expected off or a folder of 1 to %zu", n,
		         sizeof options->draft_cache - 1);
	return -1;
}

/* Bytes, or with K, M, G or T behind the number, in powers of 1,024. */
static int set_draft_memory(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	static const char units[] = "KMGT";
	char* end;
	double bytes = strtod(value, &end);
	const char* const unit = *end ? strchr(units, *end) : NULL;
	for (const char* u = units; unit && u <= unit; u++)
		bytes *= 1024;
	if (end != value && bytes > 0 && bytes < 1e18 && (unit ? end[1] == 0 : *end == 0)) {
		options->draft_memory = bytes;
		return 1;
	}
	if (message && size > 0)
		snprintf(message, size, "--draft-memory %s: expected a size such as 800M or 1.5G", value);
	return -1;
}

int swiftlet_options_set(struct swiftlet_options* options, const char* name, const char* value, char* message,
                         size_t size) {
	if (strcmp(name, "tree-top-k") == 0)
		return set_top_k(options, value, message, size);
	if (strcmp(name, "drafters") == 0)
		return set_drafters(options, value, message, size);
	if (strcmp(name, "draft-cache") == 0)
		return set_draft_cache(options, value, message, size);
	if (strcmp(name, "draft-memory") == 0)
		return set_draft_memory(options, value, message, size);
	if (strcmp(name, "preset") == 0)
		return set_preset(options, value, message, size);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(table[i].name, name) == 0)
			return set(&table[i], (char*)options + table[i].offset, value, message, size);
	return 0;
}
