/* swiftlet: finds the command and passes it the rest of the line. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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
    {"run", command_run, "answer one prompt"},
    {"chat", command_chat, "hold a conversation in the terminal"},
    {"serve", command_serve, "serve the interfaces of OpenAI, Anthropic and Ollama, and a page"},
    {"pull", command_pull, "fetch a model by its name"},
    {"list", command_list, "list the models that have a name here"},
    {"stream", command_stream, "answer the prompts of a file, one JSON object a line"},
    {"learn", command_learn, "search for layers that drafts can skip, ahead of time"},
    {"masks", command_masks, "list, show, export, import and delete what was learned"},
    {"inspect", command_inspect, "show a model's shape, and check its files"},
    {"tokenize", command_tokenize, "turn text into token ids and back"},
    {"bench", command_bench, "measure speed"},
};
enum { COMMANDS = sizeof command / sizeof *command };

static int print_help(void) {
	puts("usage: swiftlet COMMAND [options]\n\n"
	     "Runs large language models, several tokens a pass, with exactly the text that\n"
	     "ordinary decoding gives. It drafts tokens cheaply, from earlier text or from\n"
	     "the model itself with quantized weights or with layers skipped, and verifies\n"
	     "them with the full model.\n\n"
	     "Commands");
	for (int i = 0; i < COMMANDS; i++)
		printf("  %-9s %s\n", command[i].name, command[i].about);
	puts("\nExamples\n"
	     "  swiftlet pull smollm2-135m\n"
	     "  swiftlet run smollm2-135m \"Why is the sky blue?\"\n"
	     "  swiftlet chat model.gguf\n"
	     "  swiftlet serve model.gguf --port 8080\n\n"
	     "A model is a GGUF file, a Hugging Face folder, or a name that `swiftlet list`\n"
	     "prints. swiftlet COMMAND --help explains a command.");
	return output_written(STATUS_DONE);
}

/* What these commands are called in other programs. */
static const char* const others[][2] = {
    {"ls", "list"},      {"models", "list"}, {"download", "pull"}, {"get", "pull"},     {"install", "pull"},
    {"generate", "run"}, {"ask", "run"},     {"complete", "run"},  {"show", "inspect"}, {"info", "inspect"},
};

static int refuse_command(const char* name) {
	const char* known[COMMANDS + 2] = {"--help", "--version"};
	for (int i = 0; i < COMMANDS; i++)
		known[2 + i] = command[i].name;
	const char* near = nearest_name(name, known, COMMANDS + 2);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcmp(name, others[i][0]) == 0)
			near = others[i][1];
	if (near)
		return complain(STATUS_USAGE, "no command \"%s\"; did you mean %s?", name, near);
	return complain(STATUS_USAGE, "no command \"%s\" (swiftlet --help lists them)", name);
}

static int run_program(int argc, char** argv) {
	if (argc < 2) {
		fputs("swiftlet: no command was given\n\n", stderr);
		fputs("usage: swiftlet run|chat|serve|pull|list|stream|learn|masks|inspect|tokenize|bench ... "
		      "(swiftlet "
		      "--help)\n",
		      stderr);
		return STATUS_USAGE;
	}
	const char* const name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return argc > 2 && name[0] == 'h'
		           ? run_program(3, (char*[]){argv[0], argv[2], (char[]){"--help"}, NULL})
		           : print_help();
	if (strcmp(name, "--version") == 0 || strcmp(name, "-v") == 0 || strcmp(name, "version") == 0) {
		puts("swiftlet " SWIFTLET_VERSION);
		return output_written(STATUS_DONE);
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

int main(int argc, char** argv) {
	struct rlimit memory;
	const int status = run_program(argc, argv);
	/* With limited address space (ulimit -v) a thread of OpenBLAS may wait for its buffer forever, and exit()
	 * would wait for the thread. */
	if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY) {
		fflush(NULL);
		_exit(status);
	}
	return status;
}
