/* swiftlet: the program. Finds the command and hands it the rest of the line. */
#include <stdio.h>
#include <string.h>

#include "swiftlet.h"
#include "tools/program/command.h"
#include "tools/program/options.h"
#include "tools/program/ranks.h"

struct command {
	const char* name;
	int (*run)(int argc, char** argv);
	const char* about;
};

static const struct command command[] = {
    {"run", command_run, "continue one prompt"},
    {"chat", command_chat, "a conversation in the terminal"},
    {"stream", command_stream, "serve prompts from a file of JSON lines, one mask carried along"},
    {"serve", command_serve, "an OpenAI-compatible HTTP service, and a page to watch it learn"},
    {"learn", command_learn, "search for the layers to skip before one serves"},
    {"masks", command_masks, "list, show, export, import and delete what was learned"},
    {"bench", command_bench, "measure: what passes cost, what a cold start brings, the search, the kernels"},
    {"inspect", command_inspect, "what a model is made of, and whether its files are sound"},
    {"tokenize", command_tokenize, "text to ids and back"},
};
enum { COMMANDS = sizeof command / sizeof *command };

static int print_help(void) {
	puts("usage: swiftlet COMMAND [options]\n\n"
	     "Runs an off-the-shelf language model and makes it emit several tokens per full pass, with\n"
	     "exactly the text it would have produced alone: while it serves, it learns which attention and\n"
	     "MLP sub-layers it can do without, drafts with those skipped, and verifies every draft with the\n"
	     "full model. No training, no second model.\n\n"
	     "Commands");
	for (int i = 0; i < COMMANDS; i++)
		printf("  %-9s %s\n", command[i].name, command[i].about);
	puts("\nExamples\n"
	     "  swiftlet run -p 'def fibonacci(n):'         the small model that ships with swiftlet\n"
	     "  swiftlet run model.gguf --chat -p 'Hello'  your own\n"
	     "  swiftlet stream -i prompts.jsonl -o results.jsonl\n  swiftlet inspect model.gguf\n\n"
	     "swiftlet COMMAND --help tells more; swiftlet --version gives the version.");
	return STATUS_DONE;
}

static int refuse_command(const char* name) {
	const char* known[COMMANDS];
	for (int i = 0; i < COMMANDS; i++)
		known[i] = command[i].name;
	const char* const near = nearest_name(name, known, COMMANDS);
	if (near)
		return complain(STATUS_USAGE, "no command \"%s\"; did you mean %s?", name, near);
	return complain(STATUS_USAGE, "no command \"%s\" (swiftlet --help lists them)", name);
}

int main(int argc, char** argv) {
	if (argc < 2) {
		fputs("swiftlet: no command was given\n\n", stderr);
		fputs("usage: swiftlet run|chat|stream|serve|learn|masks|bench|inspect|tokenize ... (swiftlet "
		      "--help)\n",
		      stderr);
		return STATUS_USAGE;
	}
	const char* const name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return argc > 2 && name[0] == 'h' ? main(3, (char*[]){argv[0], argv[2], (char[]){"--help"}, NULL})
		                                  : print_help();
	if (strcmp(name, "--version") == 0) {
		puts("swiftlet " SWIFTLET_VERSION);
		return STATUS_DONE;
	}
	if (strcmp(name, "bench") == 0)
		return command_bench(argc - 1, argv + 1); /* joins others by itself */
	const int status = ranks_join();
	if (status != OPTIONS_GO_ON)
		return status;
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(name, command[i].name) == 0)
			return command[i].run(argc - 1, argv + 1);
	return refuse_command(name);
}
