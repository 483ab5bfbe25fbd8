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
	    .certified_head = -1,
	    .drafters = ~0u,
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
	    .distance = true,
	    .opt_budget = -1,
	    .idle_learning = 1,
	    .objective_speedup = true,
	    .kappa = 2.5,
	    .bank = true,
	    .draft_bits = -1,
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
    {"isa", NAME, AT(isa), 0, 0, "auto reference avx2 avx-vnni avx512 neon dotprod i8mm"},
    {"threads", INTEGER, AT(threads), 1, 1024, NULL},
    {"devices", INTEGER, AT(devices), 1, 16, NULL},
    {"certified-head", CHOICE, AT(certified_head), 0, 0, "auto=-1 off=0 on=1"},
    {"context", INTEGER, AT(context), 2, 1 << 24, NULL},
    {"cache-type", NAME, AT(cache_type), 0, 0, "auto f16 f32 q8_0"},
    {"stop-threshold", REAL, AT(stop_threshold), 0, 1, "own=-1"},
    {"stop-adapts", FLAG, AT(stop_fixed), 0, 0, "on=0 off=1"},
    {"acceptance", FLAG, AT(rejection), 0, 0, "coupled=0 rejection=1"},
    {"reuse", FLAG, AT(reuse), 0, 0, "on=1 off=0"},
    {"exit-block", INTEGER, AT(exit_block), 1, MAX_BLOCKS - 1, "auto=0"},
    {"speculations", INTEGER, AT(speculations), 1, MAX_DRAFT, "auto=0"},
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
    {"distance", FLAG, AT(distance), 0, 0, "on=1 off=0"},
    {"opt-budget", REAL, AT(opt_budget), 0, 1e9, "inf=inf"},
    {"idle-learning", REAL, AT(idle_learning), 0, 1e9, "off=0 inf=inf"},
    {"objective", FLAG, AT(objective_speedup), 0, 0, "matchness=0 speedup=1"},
    {"acquisition", FLAG, AT(expected_improvement), 0, 0, "ucb=0 ei=1"},
    {"kernel", FLAG, AT(hamming), 0, 0, "matern52=0 hamming=1"},
    {"kappa", REAL, AT(kappa), 0, 1e6, NULL},
    {"draft-bits", CHOICE, AT(draft_bits), 0, 0, "auto=-1 off=0 3=3 4=4 8=8"},
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
	options->draft_bits = 0;
	options->distance = false;
	options->bank = false;
	return 1;
}

/* A path; `what` says what may be given. */
static int set_path(char* field, size_t room, const char* name, const char* what, const char* value,
                    char* message, size_t size) {
	const size_t n = strlen(value);
	if (n > 0 && n < room) {
		memcpy(field, value, n + 1);
		return 1;
	}
	if (message && size > 0)
		snprintf(message, size, "--%s: %zu characters, expected %s of 1 to %zu", name, n, what, room - 1);
	return -1;
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
	if (message && size > 0)
		snprintf(message, size, "--method %s: expected one of: %s", value, known);
	return -1;
}

/* (--stop is taken: the text that ends an output.) */
static int set_stop_rule(struct swiftlet_options* options, const char* value, char* message, size_t size) {
	for (int i = 0; i < STOP_RULES; i++)
		if (strcmp(value, stop_rule_name((enum stop_rule)i)) == 0) {
			options->stop_rule = (enum swiftlet_stop_rule)(i + 1);
			return 1;
		}
	if (strcmp(value, "own") == 0) {
		options->stop_rule = SWIFTLET_STOP_OWN;
		return 1;
	}
	if (message && size > 0)
		snprintf(message, size, "--stop-rule %s: expected one of: own, fixed, marginal, product, probe, gain",
		         value);
	return -1;
}

/* Bytes, or with K, M, G or T behind the number, in powers of 1,024. */
static int set_size(double* to, const char* name, const char* value, char* message, size_t size) {
	static const char units[] = "KMGT";
	char* end;
	double bytes = strtod(value, &end);
	const char* const unit = *end ? strchr(units, *end) : NULL;
	for (const char* u = units; unit && u <= unit; u++)
		bytes *= 1024;
	if (end != value && bytes > 0 && bytes < 1e18 && (unit ? end[1] == 0 : *end == 0)) {
		*to = bytes;
		return 1;
	}
	if (message && size > 0)
		snprintf(message, size, "--%s %s: expected a size such as 800M or 1.5G", name, value);
	return -1;
}

int swiftlet_options_set(struct swiftlet_options* options, const char* name, const char* value, char* message,
                         size_t size) {
	if (strcmp(name, "tree-top-k") == 0)
		return set_top_k(options, value, message, size);
	if (strcmp(name, "drafters") == 0)
		return set_drafters(options, value, message, size);
	if (strcmp(name, "method") == 0)
		return set_method(options, value, message, size);
	if (strcmp(name, "stop-rule") == 0)
		return set_stop_rule(options, value, message, size);
	if (strcmp(name, "draft-cache") == 0)
		return set_path(options->draft_cache, sizeof options->draft_cache, name, "off or a folder", value,
		                message, size);
	if (strcmp(name, "adapter") == 0)
		return set_path(options->adapter, sizeof options->adapter, name, "a file", value, message, size);
	if (strcmp(name, "heads") == 0)
		return set_path(options->heads, sizeof options->heads, name, "a file", value, message, size);
	if (strcmp(name, "probe") == 0)
		return set_path(options->probe, sizeof options->probe, name, "a file", value, message, size);
	if (strcmp(name, "draft-model") == 0)
		return set_path(options->draft_model, sizeof options->draft_model, name, "a model", value, message,
		                size);
	if (strcmp(name, "draft-memory") == 0)
		return set_size(&options->draft_memory, name, value, message, size);
	if (strcmp(name, "cache-memory") == 0)
		return set_size(&options->cache_memory, name, value, message, size);
	if (strcmp(name, "preset") == 0)
		return set_preset(options, value, message, size);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(table[i].name, name) == 0)
			return set(&table[i], (char*)options + table[i].offset, value, message, size);
	return 0;
}

bool give_message(char* message, size_t size, const struct error* error) {
	if (message && size > 0)
		snprintf(message, size, "%s", error->message);
	return false;
}
