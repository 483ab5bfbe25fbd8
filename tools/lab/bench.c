/* swiftlet-bench, which `swiftlet bench PART` starts: chooses the part and prints its help. */
#include "tools/lab/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/program/help.h"
#include "tools/program/ranks.h"

static const struct {
	const char* name;
	int (*run)(int argc, char** argv);
	const char* about;
} part[] = {
    {"real", bench_real_main,
     "compare the default settings with plain decoding on real models and prompts, also with each drafter "
     "left out"},
    {"decode", bench_decode_main,
     "plain decoding: tokens a second, and the share of the memory's bandwidth; with --rows the cost of "
     "passes with more rows"},
    {"methods", bench_methods_main, "every method on the same prompts"},
    {"swift", bench_swift_main,
     "SWIFT as a whole: seconds until the search ends, the speed-up with its mask, the "
     "loss of a cold start, and quantized draft weights"},
    {"replay", bench_replay_main, "how much drafting would bring at costs that you state"},
    {"search", bench_search_main,
     "how much the search for levels improves on the levels that it starts from"},
    {"levels", bench_levels_main,
     "draft steps that leave out input channels: how often they are right, and their cost"},
    {"pages", bench_pages_main,
     "draft steps that read few pages of a long text: how often they are right, and their cost"},
    {"match-rate", bench_match_rate_main, "how often an early exit predicts the model's token"},
    {"kernels", bench_kernels_main, "each matrix kernel against the time that reading its weights takes"},
    {"tokenize", bench_tokenize_main, "a tokenizer on text and on long runs, in MB/s"},
    {"masks", bench_masks_main, "grammars: compiling schemas, and each mask on a real vocabulary"},
    {"gp", bench_gp_main, "the Gaussian process at its largest: 1,000 observations in 156 dimensions"},
};
enum { PARTS = sizeof part / sizeof *part };

static int print_help(void) {
	fputs("usage: swiftlet bench PART [-m MODEL] [--json] [options]\n\n"
	      "Measures on this machine. `swiftlet bench PART --help` explains a part.\n\n",
	      stdout);
	for (int i = 0; i < PARTS; i++) {
		printf("  %-10s ", part[i].name);
		help_words(part[i].about, 13, 13);
		putchar('\n');
	}
	puts("\nSynthetic models (synth:SHAPE) measure the speed of shapes that are not at hand:\n"
	     "  swiftlet bench real smollm2-135m -i prompts.jsonl\n"
	     "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16\n"
	     "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --json");
	return STATUS_DONE;
}

static int refuse_part(const char* name) {
	const char* known[PARTS];
	for (int i = 0; i < PARTS; i++)
		known[i] = part[i].name;
	const char* near = nearest_name(name, known, PARTS);
	if (near)
		return complain(STATUS_USAGE, "bench: no part \"%s\"; did you mean %s?", name, near);
	return complain(STATUS_USAGE, "bench: no part \"%s\" (swiftlet bench --help lists them)", name);
}

int main(int argc, char** argv) {
	const int joined = ranks_join();
	if (joined != OPTIONS_GO_ON)
		return joined;
	if (argc < 2)
		return complain(STATUS_USAGE, "bench: no part was given (swiftlet bench --help lists them)");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	for (int i = 0; i < PARTS; i++)
		if (strcmp(argv[1], part[i].name) == 0)
			return part[i].run(argc - 1, argv + 1);
	return refuse_part(argv[1]);
}
