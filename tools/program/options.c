/* The command line: the session's options, the parser and the help. */
#include "tools/program/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/program/ranks.h"

struct session_option {
	const char* name;
	const char* value; /* NULL: a heading, in `name` */
	const char* help;
};

/* swiftlet_options_set parses them; this is their help. */
static const struct session_option session_option[] = {
    {"Engine", NULL, NULL},
    {"backend", "auto|cpu|cuda", "where the model runs (auto: a GPU when there is one)"},
    {"devices", "N",
     "GPUs that share the model, by NCCL: each has 1/N of weights,\ncache and draft weights. The same "
     "tokens for every N from 1\non; a prompt's bits differ from those without the option, which\nmay use "
     "cuBLAS. Draft steps are passes, not a loop on the device"},
    {"threads", "N", "CPU threads (0: one for each CPU that it may use)"},
    {"isa", "NAME", "auto, reference, avx2, avx-vnni, avx512, neon, dotprod or i8mm"},
    {"context", "N", "tokens the cache holds (default min(the model's, 4096))"},
    {"cache-type", "f16|f32|q8_0",
     "keys and values (default f32 for F32 models, else f16); q8_0, on\n"
     "a CPU, takes half of f16's memory and gives other tokens"},
    {"cache-memory", "SIZE",
     "of all caches, as in 800M or 1.5G, in pages that sequences share\n(default: full contexts for all, "
     "serve: for four)"},
    {"Sampling", NULL, NULL},
    {"temp", "T", "temperature; 0 is greedy (0)"},
    {"top-p", "P", "keep the likeliest tokens up to P of probability (1: off)"},
    {"top-k", "N", "keep the N likeliest tokens (0: off)"},
    {"min-p", "P", "drop tokens under P times the likeliest (0: off)"},
    {"seed", "N", "of the sampling and of the search (0)"},
    {"Drafting", NULL, NULL},
    {"method", "NAME",
     "who drafts (auto): auto, swift, ngram, jacobi, lookahead,\nuniform, random, self-spec, clasp, "
     "layerskip, "
     "adaspeed,\nkangaroo, ppd; vanilla decodes plainly. docs/methods.md\ntells them apart"},
    {"draft", "auto|always|never", "always never falls back to plain steps (auto)"},
    {"drafters", "LIST|none",
     "who may draft: mask, model, prediction, retrieval, recycle,\nform, or all (all, recycle on a GPU "
     "alone)"},
    {"draft-model", "MODEL",
     "another model, a smaller one of the same vocabulary, drafts too\nwhere that pays; it reads the prompt "
     "as well"},
    {"pool", "N", "tokens of earlier requests that drafts may come from (65536)"},
    {"max-draft", "N", "draft steps a round at most (25)"},
    {"threshold", "P", "a step less sure than this is the round's last (0.8)"},
    {"max-tree", "auto|paper|N", "rows of the draft tree, root counted (auto)"},
    {"tree-top-k", "A,B,C,D",
     "alternatives by the step's confidence (10,8,5,3 when\ngreedy, 10,5,3,1 when sampled)"},
    {"stop-rule", "RULE",
     "when a method's chain of drafts ends (own): fixed, marginal,\nproduct, probe or gain"},
    {"stop-threshold", "P", "the chance under which it does (own)"},
    {"stop-adapts", "on|off", "the threshold moves with what is accepted (on)"},
    {"acceptance", "coupled|rejection",
     "how samples are verified: rejection is lossless in\ndistribution only (coupled)"},
    {"exit-block", "E", "layerskip, adaspeed, ppd: draft with the first E blocks (auto)"},
    {"speculations", "N", "draft steps a round of a method (auto)"},
    {"children", "K", "ppd: tokens predicted for the next position (auto)"},
    {"reuse", "on|off", "verify from the exit on what was drafted up to it (on)"},
    {"adapter", "FILE", "kangaroo's adapter (safetensors;\ntools/train/kangaroo.py)"},
    {"heads", "FILE", "ppd's heads by block (safetensors;\ntools/train/ppd.py)"},
    {"probe", "FILE", "adaspeed's probe (safetensors; tools/train/probe.py)"},
    {"screened-head", "auto|on|off",
     "read the output head as a copy in four bits, made before the\nfirst token, and exactly what may be the "
     "next "
     "token; auto: where\nthe head is a good part of a step's bytes (auto)"},
    {"draft-bits", "auto|off|4|8",
     "draft with a copy of the weights in so many bits. A number:\nmade before the first token. auto: made "
     "between the first tokens,\nwhere the stored weights are large enough (auto)"},
    {"draft-memory", "SIZE",
     "make no larger copy, as in 800M or 1.5G (a quarter of the\nmemory that is available)"},
    {"Search for the layers to skip", NULL, NULL},
    {"search", "on|off", "off keeps the mask as it is (on)"},
    {"skip-cost", "SHARE",
     "share of a plain step's cost that skipping saves at least, before\n--skip-ratio; the preset knows none "
     "(auto: what pays)"},
    {"skip-ratio", "R", "share of skippable sub-layers to skip, or auto (auto)"},
    {"window", "N", "tokens a proposal is scored on (32)"},
    {"window-min", "N", "shortest window that is scored (8)"},
    {"bayes-interval", "N", "as published: every N-th proposal is Bayesian (25)"},
    {"max-steps", "N", "the search ends after so many proposals (1000)"},
    {"patience", "N", "or after so many without improvement (300)"},
    {"max-matchness", "X", "or above this matchness (0.95)"},
    {"confirm", "N", "windows more that must agree on that (1)"},
    {"opt-budget", "X",
     "share of plain time that learning spends, or inf (0.01, and at\nfirst up to 32 steps of what drafting "
     "earned)"},
    {"idle-learning", "off|SHARE|inf",
     "learn while no request runs, at idle priority: at most SHARE of\nthe seconds that requests took (1)"},
    {"objective", "speedup|matchness", "what the search maximises (speedup)"},
    {"acquisition", "ucb|ei", "as published: how Bayesian proposals are chosen (ucb)"},
    {"kernel", "matern52|hamming", "as published: of the Gaussian process (matern52)"},
    {"kappa", "X", "as published: how much ucb explores (2.5)"},
    {"bank", "on|off", "keep masks by task and try them first (on)"},
    {"preset", "paper",
     "SWIFT as published: a proposal before every round, uniformly\nrandom but for a Bayesian one "
     "each 25th; windows of 32 from\neach text's first tokens; the best raw score drafts; every\nround "
     "drafts, its whole tree is verified. What differs all the\nsame: no copies of the cache, and sampling "
     "that is coupled, so\nthat the text is plain decoding's"},
};
enum { SESSION_OPTIONS = sizeof session_option / sizeof *session_option };

int complain(int status, const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fflush(stdout);
	fputs("swiftlet: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return status;
}

int output_written(int status) {
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return complain(STATUS_FAILED, "standard output could not be written");
}

/* ---- the nearest name ---------------------------------------------------------------------- */

enum { LONGEST_NAME = 40 };

/* Levenshtein's distance. */
static int edit_distance(const char* a, const char* b) {
	int row[LONGEST_NAME + 1];
	const int n = (int)strlen(b);
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 0; a[i]; i++) {
		int diagonal = row[0];
		row[0] = i + 1;
		for (int j = 0; j < n; j++) {
			const int change = diagonal + (a[i] != b[j]);
			const int shorter = row[j] < row[j + 1] ? row[j] : row[j + 1];
			diagonal = row[j + 1];
			row[j + 1] = change < shorter + 1 ? change : shorter + 1;
		}
	}
	return row[n];
}

const char* nearest_name(const char* mistyped, const char* const* name, int n) {
	if (strlen(mistyped) > LONGEST_NAME)
		return NULL;
	const char* best = NULL;
	int least = (int)strlen(mistyped) / 3 + 1;
	for (int i = 0; i < n; i++) {
		const bool begins = strlen(mistyped) >= 3 && strncmp(name[i], mistyped, strlen(mistyped)) == 0;
		const int far = begins ? 0 : edit_distance(mistyped, name[i]);
		if (strlen(name[i]) <= LONGEST_NAME && far <= least) {
			least = far - 1;
			best = name[i];
		}
	}
	return best;
}

/* ---- help ---------------------------------------------------------------------------------- */

/* A line of help: the left column, then the text, its further lines indented. */
static void print_entry(const char* left, const char* help) {
	enum { COLUMN = 30 };
	printf("  %-*s", COLUMN - 2, left);
	if (strlen(left) > COLUMN - 3)
		printf("\n%*s", COLUMN, "");
	for (const char* at = help; *at; at++) {
		putchar(*at);
		if (*at == '\n')
			printf("%*s", COLUMN, "");
	}
	putchar('\n');
}

static void print_help(const struct command_line* line) {
	char left[80];
	printf("usage: swiftlet %s %s\n\n%s\n", line->name, line->usage, line->about);
	if (line->examples)
		printf("\nExamples\n%s\n", line->examples);
	printf("\nOptions (defaults in parentheses)\n");
	for (int i = 0; i < line->n_options; i++) {
		const struct command_option* const o = &line->option[i];
		const char letter[] = {'-', o->letter, ',', ' ', 0};
		snprintf(left, sizeof left, "%s--%s%s%s", o->letter ? letter : "", o->name, o->value ? " " : "",
		         o->value ? o->value : "");
		print_entry(left, o->help);
	}
	print_entry("-h, --help", "this text");
	if (!line->session)
		return;
	for (int i = 0; i < SESSION_OPTIONS; i++) {
		const struct session_option* const o = &session_option[i];
		if (!o->value) {
			printf("\n%s\n", o->name);
			continue;
		}
		snprintf(left, sizeof left, "--%s %s", o->name, o->value);
		print_entry(left, o->help);
	}
}

/* ---- parsing ------------------------------------------------------------------------------- */

static int refuse_unknown(const struct command_line* line, const char* name) {
	const char* known[64 + SESSION_OPTIONS];
	int n = 0;
	for (int i = 0; i < line->n_options && n < 64; i++)
		known[n++] = line->option[i].name;
	for (int i = 0; i < SESSION_OPTIONS && line->session; i++)
		if (session_option[i].value)
			known[n++] = session_option[i].name;
	const char* const near = nearest_name(name, known, n);
	if (near)
		return complain(STATUS_USAGE, "%s: no option --%s; did you mean --%s?", line->name, name, near);
	return complain(STATUS_USAGE, "%s: no option --%s (swiftlet %s --help lists them)", line->name, name,
	                line->name);
}

static bool is_session_option(const char* name) {
	for (int i = 0; i < SESSION_OPTIONS; i++)
		if (session_option[i].value && strcmp(session_option[i].name, name) == 0)
			return true;
	return strcmp(name, "certified-head") == 0; /* an earlier name of screened-head */
}

static int take_count(const struct command_line* line, const struct command_option* o, const char* value) {
	char* end;
	errno = 0;
	const long long n = strtoll(value, &end, 10);
	if (end == value || *end || errno == ERANGE || n < o->least || n > o->most)
		return complain(STATUS_USAGE,
		                "%s: --%s is \"%s\", expected a whole number from %" PRId64 " to %" PRId64,
		                line->name, o->name, value, o->least, o->most);
	if (o->size == sizeof(int))
		*(int*)o->target = (int)n;
	else
		*(int64_t*)o->target = n;
	return OPTIONS_GO_ON;
}

/* value is NULL for a flag. */
static int take_option(const struct command_line* line, const struct command_option* o, const char* value) {
	if (o->kind == OPTION_FLAG) {
		*(bool*)o->target = true;
	} else if (o->kind == OPTION_TEXT) {
		*(const char**)o->target = value;
	} else if (o->kind == OPTION_COUNT) {
		return take_count(line, o, value);
	} else {
		struct text_list* const list = o->target;
		if (list->n == (int)(sizeof list->text / sizeof *list->text))
			return complain(STATUS_USAGE, "%s: more than %d times --%s", line->name, list->n, o->name);
		list->text[list->n++] = value;
	}
	return OPTIONS_GO_ON;
}

static int take_session_option(const struct command_line* line, const char* name, const char* value) {
	char message[300] = "";
	const int result = swiftlet_options_set(line->session, name, value, message, sizeof message);
	if (result < 0)
		return complain(STATUS_USAGE, "%s: %s", line->name, message);
	return result > 0 ? OPTIONS_GO_ON : refuse_unknown(line, name);
}

static const struct command_option* find_option(const struct command_line* line, const char* name,
                                                char letter) {
	for (int i = 0; i < line->n_options; i++)
		if (name ? strcmp(line->option[i].name, name) == 0 : line->option[i].letter == letter)
			return &line->option[i];
	return NULL;
}

/* One option at argv[*at], its value perhaps in the next. */
static int parse_option(const struct command_line* line, int argc, char** argv, int* at) {
	const char* const text = argv[*at];
	const bool is_long = text[1] == '-';
	char name[64] = "";
	const char* value = NULL;
	if (is_long) {
		const char* const equals = strchr(text, '=');
		const size_t length = equals ? (size_t)(equals - text) - 2 : strlen(text) - 2;
		if (length >= sizeof name)
			return refuse_unknown(line, text + 2);
		memcpy(name, text + 2, length);
		value = equals ? equals + 1 : NULL;
	} else if (text[2]) {
		value = text + 2;
	}
	const struct command_option* const o = find_option(line, is_long ? name : NULL, text[1]);
	const bool of_session = !o && is_long && line->session && is_session_option(name);
	if (!o && !of_session) {
		if (is_long)
			return refuse_unknown(line, name);
		return complain(STATUS_USAGE, "%s: no option %s (swiftlet %s --help lists them)", line->name, text,
		                line->name);
	}
	const bool flag = o && o->kind == OPTION_FLAG;
	if (flag && value)
		return complain(STATUS_USAGE, "%s: --%s takes no value", line->name, o->name);
	if (!flag && !value) {
		if (*at + 1 >= argc)
			return complain(STATUS_USAGE, "%s: %s needs a value", line->name, text);
		value = argv[++*at];
	}
	return o ? take_option(line, o, value) : take_session_option(line, name, value);
}

static int take_word(struct command_line* line, const char* word) {
	if (line->n_words == line->max_words)
		return complain(STATUS_USAGE, "%s: \"%s\" was not expected: swiftlet %s %s", line->name, word,
		                line->name, line->usage);
	line->word[line->n_words++] = word;
	return OPTIONS_GO_ON;
}

int options_parse(struct command_line* line, int argc, char** argv) {
	if (line->session) {
		swiftlet_options_default(line->session);
		line->session->exchange = ranks_exchange();
	}
	line->n_words = 0;
	bool only_words = false;
	for (int i = 1; i < argc; i++) {
		const bool option = !only_words && argv[i][0] == '-' && argv[i][1];
		int status = OPTIONS_GO_ON;
		if (option && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (option && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
			print_help(line);
			return STATUS_DONE;
		} else {
			status = option ? parse_option(line, argc, argv, &i) : take_word(line, argv[i]);
		}
		if (status != OPTIONS_GO_ON)
			return status;
	}
	return OPTIONS_GO_ON;
}

const char* options_model(const struct command_line* line, const char* model_option) {
	if (model_option && line->n_words > 0) {
		complain(STATUS_USAGE, "%s: the model is named twice, \"%s\" and \"%s\"", line->name, line->word[0],
		         model_option);
		return NULL;
	}
	return model_option ? model_option : line->n_words > 0 ? line->word[0] : "builtin";
}

int options_parse_model(struct command_line* line, int argc, char** argv, const char** model) {
	const int status = options_parse(line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	*model = options_model(line, *model);
	return *model ? OPTIONS_GO_ON : STATUS_USAGE;
}
