/* Prints a session's answers to the prompts on standard input, to the last bit: for same_bits.py, which
 * builds this against two versions of the library.
 *
 *     same_bits MODEL LOGPROBS ATTENTION MLP [NAME VALUE]…     blocks to skip as "3,4", or "-"
 *
 * Input: MAX_TOKENS SIZE\n and SIZE bytes of a prompt, again and again. Output: three lines a prompt, of its
 * tokens, of their log probabilities, of the figures that no clock has a part in. The session's own clock
 * counts its calls, so that the decisions by measured cost repeat, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "swiftlet.h"

static char message[2048];

static int fail_usage(void) {
	fprintf(stderr, "%s\n", message);
	return 1;
}

/* From one call to the next 1 to 1.5 ms pass, as a hash of the call's number has it. */
struct calls {
	uint64_t n;
	double seconds;
};

static double counted_clock(void* user) {
	struct calls* calls = user;
	const uint64_t hash = ++calls->n * 0x9e3779b97f4a7c15u;
	return calls->seconds += 1e-3 + 5e-4 * (double)(hash >> 40) * 0x1p-24;
}

static bool collect_tokens(void* user, const struct swiftlet_step* step) {
	for (int i = 0; i < step->n; i++) {
		const struct swiftlet_token* t = &step->token[i];
		printf(" %d", t->id);
		fprintf(user, " %a", (double)t->logprob);
		for (int k = 0; k < t->n_top; k++)
			fprintf(user, " %d:%a", t->top_id[k], (double)t->top_logprob[k]);
	}
	return true;
}

static void report_figures(const struct swiftlet_figures* f) {
	printf("\n%d %d %s, passes %lld %lld %lld, drafts %lld %lld %lld, rounds %lld, rows %lld, exit %d",
	       f->cached_tokens, f->tokens, swiftlet_stop_name(f->stop), (long long)f->full_passes,
	       (long long)f->verify_passes, (long long)f->plain_steps, (long long)f->draft_steps,
	       (long long)f->accepted, (long long)f->draft_accepted, (long long)f->round_tokens,
	       (long long)f->verified_rows, f->exit_block);
	printf(", M %a, alpha %a, matchness %a %a, proposals %lld %s", f->mean_generated, f->alpha, f->matchness,
	       f->chosen_by, (long long)f->optimize_steps, f->search_state);
	for (int i = 0; swiftlet_source_name(i); i++)
		printf(", %s %lld %lld %a", swiftlet_source_name(i), (long long)f->source[i].rows,
		       (long long)f->source[i].accepted, f->source[i].predicted);
	printf(", skips");
	for (int i = 0; i < f->n_attention; i++)
		printf(" a%d", f->attention[i]);
	for (int i = 0; i < f->n_mlp; i++)
		printf(" m%d", f->mlp[i]);
	printf(", low %d %d %d\n", f->n_quantized_attention, f->n_quantized_mlp, f->quantized_head);
}

static int read_blocks(char* list, int* out) {
	int n = 0;
	for (char* word = strtok(list, ",-"); word && n < 256; word = strtok(NULL, ",-"))
		out[n++] = atoi(word);
	return n;
}

int main(int argc, char** argv) {
	struct swiftlet_request request;
	struct swiftlet_figures figures;
	struct calls calls = {0};
	int attention[256], mlp[256], max_tokens;
	size_t size;
#if SWIFTLET_API_VERSION >= 2
	swiftlet_options* options = swiftlet_options_new();
	swiftlet_options_set_clock(options, counted_clock, &calls);
#else
	struct swiftlet_options whole, *options = &whole;
	swiftlet_options_default(options);
	options->clock = counted_clock;
	options->clock_user = &calls;
#endif
	for (int i = 5; i + 1 < argc; i += 2)
		if (swiftlet_options_set(options, argv[i], argv[i + 1], message, sizeof message) != 1)
			return fprintf(stderr, "%s: ", argv[i]), fail_usage();
	swiftlet_model* model = swiftlet_model_open(argv[1], options, message, sizeof message);
	swiftlet_engine* engine = model ? swiftlet_engine_open(model, options, message, sizeof message) : NULL;
	swiftlet_session* session =
	    engine ? swiftlet_session_open(engine, options, message, sizeof message) : NULL;
	const int n_attention = read_blocks(argv[3], attention), n_mlp = read_blocks(argv[4], mlp);
	if (!session ||
	    (n_attention + n_mlp > 0 &&
	     !swiftlet_session_set_mask(session, attention, n_attention, mlp, n_mlp, message, sizeof message)))
		return fail_usage();
	while (scanf("%d %zu%*c", &max_tokens, &size) == 2) {
		char *text = malloc(size + 1), *logits = NULL;
		size_t logits_size;
		int n;
		if (!text || fread(text, 1, size, stdin) != size)
			return 1;
		int32_t* prompt = swiftlet_tokenize(model, text, size, &n);
		FILE* to = open_memstream(&logits, &logits_size);
		swiftlet_request_default(&request, options);
		request.prompt = prompt;
		request.n_prompt = n;
		request.max_tokens = max_tokens;
		request.logprobs = atoi(argv[2]);
		if (!swiftlet_session_generate(session, &request, collect_tokens, to, &figures, message,
		                               sizeof message))
			return fail_usage();
		fclose(to);
		printf("\n%s", request.logprobs > 0 ? logits : "");
		report_figures(&figures);
		free(logits);
		free(prompt);
		free(text);
	}
	swiftlet_session_close(session);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
	return 0;
}
