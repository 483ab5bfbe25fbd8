/* The options that all commands share, as the help shows them. swiftlet_options_set knows what they do, and
 * swiftlet_options_get their defaults. */
#include "tools/program/shared_options.h"

#include <string.h>

/* A row's last three: what stands for the default, a letter, whether --help shows it. */
#define HEADING(name)                                                                                        \
	{ name, NULL, NULL, NULL, 0, false }

const struct shared_option shared_options[] = {
    HEADING("Engine"),
    {"backend", "auto|cpu|cuda", "where the model runs; auto takes a GPU if there is one", NULL, 0, true},
    {"threads", "N", "CPU threads; 0 takes one for each CPU that the process may use", NULL, 0, true},
    {"context", "N", "size of the KV cache in tokens (the model's limit, at most 4096)", "", 'c', true},
    {"cache-type", "auto|f16|f32|q8_0",
     "element type of the KV cache; auto is f32 for F32 models and f16\nfor others; q8_0 takes half the "
     "memory of f16 and gives other\ntokens (CPU only)",
     NULL, 0, false},
    {"cache-memory", "SIZE",
     "memory of all KV caches together, such as 800M or 1.5G (enough\nfor every context; serve: for four)",
     "", 0, false},
    {"isa", "auto|reference|avx2|avx-vnni|avx512|neon|dotprod|i8mm", "instruction set; auto takes the best",
     NULL, 0, false},
    {"devices", "N",
     "share the model over N GPUs by NCCL; every N gives the same tokens\n(one GPU, whose prompts may use "
     "cuBLAS)",
     "", 0, false},
    {"screened-head", "auto|on|off",
     "read the output head as a 4-bit copy, and compute exactly only the\ntokens that can win: the same "
     "bits, fewer bytes; auto does so\nwhere it saves time",
     NULL, 0, false},

    HEADING("Sampling"),
    {"temp", "T", "temperature; 0 always takes the likeliest token", NULL, 0, true},
    {"top-p", "P", "sample from the likeliest tokens that hold P of the probability", NULL, 0, true},
    {"top-k", "N", "sample from the N likeliest tokens; 0 is off", NULL, 0, false},
    {"min-p", "P", "leave out tokens under P times the likeliest; 0 is off", NULL, 0, false},
    {"seed", "N", "seed of sampling and of the search", NULL, 0, true},

    HEADING("Drafting"),
    {"method",
     "auto|swift|vanilla|ngram|jacobi|lookahead|uniform|random|self-spec|clasp|layerskip|adaspeed|kangaroo|"
     "ppd",
     "how tokens are drafted; auto drafts where it pays, vanilla decodes\nplainly; the output is the same",
     NULL, 0, true},
    {"drafters", "LIST|none",
     "which drafters auto may use: mask, model, prediction, retrieval,\nrecycle, form, or all (all; recycle "
     "on a GPU only)",
     "", 0, false},
    {"draft-model", "MODEL", "let another, smaller model of the same vocabulary draft too", "", 0, false},
    {"draft-bits", "auto|off|4|8",
     "draft with weights quantized to so many bits; a number makes them\nbefore the first token, auto after "
     "the first tokens where it pays",
     NULL, 0, false},
    {"draft-read", "auto|SHARE",
     "share of the quantized draft weights that a draft step reads,\non a CPU (auto: 0.43)", "", 0, false},
    {"draft-pages", "auto|off|N",
     "pages of 64 tokens that drafts read of a long text, on a CPU: those\nthat verified tokens looked at "
     "most "
     "(auto: 16, where that saves time)",
     "", 0, false},
    {"draft-memory", "SIZE", "limit for the quantized draft weights (a quarter of what is free)", "", 0,
     false},
    {"pool", "N", "tokens of earlier requests that drafts may be looked up in", NULL, 0, false},

    HEADING("Learning"),
    {"search", "on|off", "search for layers that drafts can skip; off keeps the mask as it is", NULL, 0,
     false},
    {"opt-budget", "X",
     "share of decoding time that learning may take, or inf (0.01; at\nfirst up to 32 steps of the time that "
     "drafts saved)",
     "", 0, false},
    {"idle-learning", "off|SHARE|inf",
     "let chat and serve learn while no request runs, at idle priority,\nfor at most SHARE of the seconds "
     "that requests took",
     NULL, 0, false},
    {"bank", "on|off", "keep masks by workload and try them first", NULL, 0, false},

    HEADING("Research: SWIFT as published"),
    {"preset", "paper",
     "proposes a mask before every round, at random but for a Bayesian\none each 25th; scores it on 32 "
     "tokens from the start of each text;\nthe best raw score drafts; every round drafts and verifies "
     "its\nwhole tree. Two things differ: the KV cache is not copied, and\nsampling is coupled, so that the "
     "text is plain decoding's",
     "", 0, false},

    HEADING("Research: how a round drafts (docs/methods.md explains the methods)"),
    {"draft", "auto|always|never", "always never falls back to plain steps", NULL, 0, false},
    {"max-draft", "N", "most draft steps of a round", NULL, 0, false},
    {"threshold", "P", "a draft step less sure than this is the round's last", NULL, 0, false},
    {"max-tree", "auto|paper|N", "rows of the tree of drafts, the root included", NULL, 0, false},
    {"tree-top-k", "A,B,C,D",
     "alternatives by a step's confidence (10,8,5,3 when greedy,\n10,5,3,1 when sampled)", "", 0, false},
    {"stop-rule", "own|fixed|marginal|product|probe|gain", "when a chain of drafts ends", NULL, 0, false},
    {"stop-threshold", "P", "the probability under which it ends; own is the method's", NULL, 0, false},
    {"stop-adapts", "on|off", "the threshold follows what is accepted", NULL, 0, false},
    {"acceptance", "coupled|rejection",
     "how samples are verified; rejection is lossless in distribution\nonly", NULL, 0, false},
    {"exit-block", "E", "layerskip, adaspeed, ppd: draft with the first E blocks", NULL, 0, false},
    {"speculations", "N", "draft steps of a round", NULL, 0, false},
    {"children", "K", "ppd: tokens predicted for the next position", NULL, 0, false},
    {"reuse", "on|off", "verification goes on from the exit", NULL, 0, false},
    {"adapter", "FILE", "kangaroo's adapter (tools/train/kangaroo.py makes one)", "", 0, false},
    {"heads", "FILE", "ppd's heads by block (tools/train/ppd.py)", "", 0, false},
    {"probe", "FILE", "adaspeed's probe (tools/train/probe.py)", "", 0, false},

    HEADING("Research: the search for layers to skip"),
    {"skip-ratio", "R", "share of the skippable layers to skip; auto skips what pays", NULL, 0, false},
    {"skip-cost", "SHARE", "share of a plain step's cost that skipping saves at least", NULL, 0, false},
    {"window", "N", "tokens that a mask is scored on", NULL, 0, false},
    {"window-min", "N", "fewest tokens that a mask is scored on", NULL, 0, false},
    {"max-steps", "N", "the search ends after so many masks", NULL, 0, false},
    {"patience", "N", "or after so many masks without improvement", NULL, 0, false},
    {"max-matchness", "X", "or above this matchness", NULL, 0, false},
    {"confirm", "N", "further windows that must agree on that", NULL, 0, false},
    {"objective", "speedup|matchness", "what the search maximises", NULL, 0, false},
    {"bayes-interval", "N", "with --preset paper: every N-th mask is Bayesian", NULL, 0, false},
    {"acquisition", "ucb|ei", "with --preset paper: how Bayesian masks are chosen", NULL, 0, false},
    {"kernel", "matern52|hamming", "with --preset paper: of the Gaussian process", NULL, 0, false},
    {"kappa", "X", "with --preset paper: how far ucb explores", NULL, 0, false},
};
const int n_shared_options = sizeof shared_options / sizeof *shared_options;

const char* const help_terms =
    "  draft, verify  guess tokens cheaply; check them all in one pass of the full model\n"
    "  round          some draft steps and one verification; a plain step is a pass for one token\n"
    "  mask           the attention and MLP layers that drafts skip\n"
    "  matchness      share of recent tokens that the model with a mask predicts\n"
    "  alpha          share of drafted tokens that verification keeps\n"
    "  M              tokens that one verification brings, on average\n"
    "  c              cost of a draft step over the cost of a plain step\n"
    "  rows           tokens that one pass computes side by side\n"
    "  kappa          weight of uncertainty when ucb chooses a mask: mean + kappa * deviation";

/* Names that other programs give to these options. */
const struct option_synonym option_synonyms[] = {
    {"temperature", "temp"},
    {"certified-head", "screened-head"}, /* its earlier name */
    {"ctx-size", "context"},
    {"n-predict", "max-tokens"},
    {"predict", "max-tokens"},
    {"system-prompt", "system"},
    {"top_p", "top-p"},
    {"top_k", "top-k"},
    {"min_p", "min-p"},
    {"cache-type-k", "cache-type"},
    {"model-draft", "draft-model"},
    {NULL, NULL},
};

const struct shared_option* shared_option_named(const char* name, char letter) {
	for (int i = 0; i < n_shared_options; i++) {
		const struct shared_option* const o = &shared_options[i];
		if (o->value && (name ? strcmp(o->name, name) == 0 : o->letter && o->letter == letter))
			return o;
	}
	return NULL;
}
