/* `swiftlet bench PART`: which part, and its help. */
#include "tools/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench_gp.h"
#include "tools/bench_kernels.h"

static int print_help(void) {
	puts("usage: swiftlet bench decode|swift|replay|kernels|gp [-m MODEL] [--json] [options]\n\n"
	     "Measures on this machine. Each part tells more with --help.\n\n"
	     "  decode    tokens per second of plain decoding, as a share of what the memory can give; with\n"
	     "            --rows, what a pass of more rows costs\n"
	     "  swift     the whole method: how long the search for a mask takes, the speed-up with the mask\n"
	     "            that was found beside what its figures promise, and that a cold start costs nothing\n"
	     "  replay    what drafting would bring on a stream of prompts at given prices of passes\n"
	     "  kernels   each matrix kernel against the time that reading its weights takes\n"
	     "  gp        the Gaussian process at its largest: 1,000 observations in 156 dimensions\n\n"
	     "Made-up models (synth:…) stand in for those that are not at hand:\n"
	     "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16\n"
	     "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --json");
	return STATUS_DONE;
}

/* Parts that need no model. */
static int run_gp(int argc, char** argv) {
	bool json = false;
	const struct option option[] = {
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0}};
	struct command_line line = {
	    .name = "bench gp",
	    .usage = "[--json]",
	    .about = "Times, with 1,000 observations in 156 dimensions (a model of 80 blocks): adding one, a\n"
	             "Bayesian proposal, a fit of the hyper-parameters.",
	    .option = option,
	    .n_options = 1};
	const int status = options_parse(&line, argc, argv);
	return status == OPTIONS_GO_ON ? bench_gp(json) : status;
}

static int run_kernels(int argc, char** argv) {
	bool json = false;
	const char* isa = "auto";
	int64_t threads = 0;
	const struct option option[] = {
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"isa", 0, "NAME", "auto, reference, avx2 or avx512 (auto)", OPTION_TEXT, &isa, 0, 0},
	    {"threads", 0, "N", "CPU threads (0: one for each CPU that it may use)", OPTION_COUNT, &threads, 0,
	     1024}};
	struct command_line line = {
	    .name = "bench kernels",
	    .usage = "[--isa NAME] [--threads N] [--json]",
	    .about = "Times matrix products of every weight type with 1 to 64 rows, the preparation of their\n"
	             "inputs, and attention; each against the time that reading its bytes alone would take at\n"
	             "the bandwidth measured in the same run (share_of_floor: 1 is the memory's speed).",
	    .option = option,
	    .n_options = sizeof option / sizeof *option};
	const int status = options_parse(&line, argc, argv);
	return status == OPTIONS_GO_ON ? bench_kernels(isa, (int)threads, json) : status;
}

int bench_main(int argc, char** argv) {
	if (argc < 2)
		return complain(STATUS_USAGE, "bench: decode, swift, replay, kernels or gp? (swiftlet bench --help)");
	const char* const part = argv[1];
	argc--;
	argv++;
	if (strcmp(part, "--help") == 0 || strcmp(part, "-h") == 0)
		return print_help();
	if (strcmp(part, "decode") == 0)
		return bench_decode_main(argc, argv);
	if (strcmp(part, "swift") == 0)
		return bench_swift_main(argc, argv);
	if (strcmp(part, "replay") == 0)
		return bench_replay_main(argc, argv);
	if (strcmp(part, "kernels") == 0)
		return run_kernels(argc, argv);
	if (strcmp(part, "gp") == 0)
		return run_gp(argc, argv);
	return complain(STATUS_USAGE, "bench: no part \"%s\"; expected decode, swift, replay, kernels or gp",
	                part);
}
