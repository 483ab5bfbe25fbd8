/* swiftlet-bench, which `swiftlet bench PART` starts: which part, and its help. */
#include "tools/lab/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/program/ranks.h"

static const struct {
	const char* name;
	int (*run)(int argc, char** argv);
	const char* about; /* lines after the first are indented by hand */
} part[] = {
    {"decode", bench_decode_main,
     "tokens per second of plain decoding, as a share of what the memory can give; with\n"
     "            --rows, what a pass of more rows costs"},
    {"swift", bench_swift_main,
     "the whole method: how long the search for a mask takes, the speed-up with the mask\n"
     "            that was found beside what its figures promise, that a cold start costs nothing, and what\n"
     "            a copy of the weights in few bits adds"},
    {"methods", bench_methods_main, "every method side by side on one stream of prompts"},
    {"match-rate", bench_match_rate_main, "how often an early exit is right, by block, rank and position"},
    {"real", bench_real_main,
     "what a user gets on real models and prompts: the defaults, and each drafter left out, over\n"
     "            plain decoding"},
    {"search", bench_search_main,
     "which ways of proposing masks find good ones: made-up models and trained ones"},
    {"replay", bench_replay_main,
     "what drafting would bring on a stream of prompts, at stated prices of passes"},
    {"screened", bench_screened_head_main,
     "the screened head against the whole one, on text: tokens, bits, survivors"},
    {"kernels", bench_kernels_main, "each matrix kernel against the time that reading its weights takes"},
    {"gp", bench_gp_main, "the Gaussian process at its largest: 1,000 observations in 156 dimensions"},
};
enum { PARTS = sizeof part / sizeof *part };

static int print_help(void) {
	fputs("usage: swiftlet bench PART [-m MODEL] [--json] [options]\n\n"
	      "Measures on this machine. Each part tells more with --help.\n\n",
	      stdout);
	for (int i = 0; i < PARTS; i++)
		printf("  %-10s %s\n", part[i].name, part[i].about);
	puts("\nMade-up models (synth:…) stand in for those that are not at hand:\n"
	     "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16\n"
	     "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --json");
	return STATUS_DONE;
}

int main(int argc, char** argv) {
	const int joined = ranks_join();
	if (joined != OPTIONS_GO_ON)
		return joined;
	if (argc < 2)
		return complain(STATUS_USAGE, "bench: which part? (swiftlet bench --help)");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	for (int i = 0; i < PARTS; i++)
		if (strcmp(argv[1], part[i].name) == 0)
			return part[i].run(argc - 1, argv + 1);
	return complain(STATUS_USAGE, "bench: no part \"%s\" (swiftlet bench --help lists them)", argv[1]);
}
