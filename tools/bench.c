/* `swiftlet bench PART`: which part, and its help. */
#include "tools/bench.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench_gp.h"

static int print_help(void) {
	puts("usage: swiftlet bench decode|swift|gp [-m MODEL] [--json] [options]\n\n"
	     "Measures on this machine. Each part tells more with --help.\n\n"
	     "  decode    tokens per second of plain decoding, as a share of what the memory can give; with\n"
	     "            --rows, what a pass of more rows costs\n"
	     "  swift     the whole method: how long the search for a mask takes, the speed-up with the mask\n"
	     "            that was found beside what its figures promise, and that a cold start costs nothing\n"
	     "  gp        the Gaussian process at its largest: 1,000 observations in 156 dimensions\n\n"
	     "Made-up models (synth:…) stand in for those that are not at hand:\n"
	     "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16\n"
	     "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --json");
	return STATUS_DONE;
}

/* Parts without a model take --json alone. */
static int run_plain(int argc, char** argv, const char* about, int (*part)(bool json)) {
	bool json = false;
	char name[32];
	snprintf(name, sizeof name, "bench %s", argv[0]);
	const struct option option[] = {
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0}};
	struct command_line line = {
	    .name = name, .usage = "[--json]", .about = about, .option = option, .n_options = 1};
	const int status = options_parse(&line, argc, argv);
	return status == OPTIONS_GO_ON ? part(json) : status;
}

int bench_main(int argc, char** argv) {
	if (argc < 2)
		return complain(STATUS_USAGE, "bench: decode, swift or gp? (swiftlet bench --help)");
	const char* const part = argv[1];
	argc--;
	argv++;
	if (strcmp(part, "--help") == 0 || strcmp(part, "-h") == 0)
		return print_help();
	if (strcmp(part, "decode") == 0)
		return bench_decode_main(argc, argv);
	if (strcmp(part, "swift") == 0)
		return bench_swift_main(argc, argv);
	if (strcmp(part, "gp") == 0)
		return run_plain(
		    argc, argv,
		    "Times, with 1,000 observations in 156 dimensions: adding one, a Bayesian proposal, a\n"
		    "fit of the hyper-parameters.",
		    bench_gp);
	return complain(STATUS_USAGE, "bench: no part \"%s\"; expected decode, swift or gp", part);
}
