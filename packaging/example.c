/* A prompt continued with libswiftlet: cc example.c $(pkg-config --cflags --libs swiftlet) -o example */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <swiftlet.h>

static bool show(void* user, const struct swiftlet_step* step) {
	(void)user;
	fwrite(step->text, 1, step->text_size, stdout);
	return true; /* false cancels */
}

int main(int argc, char** argv) {
	char message[512];
	const char* prompt = argc > 1 ? argv[1] : "Once upon a time";
	swiftlet_options* options = swiftlet_options_new();
	swiftlet_model* model =
	    swiftlet_model_open(argc > 2 ? argv[2] : "builtin", options, message, sizeof message);
	swiftlet_engine* engine = model ? swiftlet_engine_open(model, options, message, sizeof message) : NULL;
	swiftlet_session* session =
	    engine ? swiftlet_session_open(engine, options, message, sizeof message) : NULL;
	if (!session)
		return fprintf(stderr, "example: %s\n", message), 1;
	struct swiftlet_request request;
	struct swiftlet_figures figures;
	swiftlet_request_default(&request, options);
	int32_t* ids = swiftlet_tokenize(model, prompt, strlen(prompt), &request.n_prompt);
	request.prompt = ids;
	request.max_tokens = 64;
	if (!ids || !swiftlet_session_generate(session, &request, show, NULL, &figures, message, sizeof message))
		return fprintf(stderr, "example: %s\n", ids ? message : "out of memory"), 1;
	printf("\n%d tokens, %.1f a second, M %.2f\n", figures.tokens, figures.tokens_per_second,
	       figures.mean_generated);
	free(ids);
	swiftlet_session_close(session);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
	swiftlet_options_free(options);
	return 0;
}
