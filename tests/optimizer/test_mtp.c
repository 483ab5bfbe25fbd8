/* An MTP layer that drafts: the text is plain decoding's, greedy and sampled, with penalties, a grammar and
 * memory that was given away meanwhile, whether it drafts well or not; acceptance is counted right; a good
 * one pays, a useless one costs next to nothing, by a clock that passes alone move; its steps allocate
 * nothing; its cache holds the text's tokens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The layer's cache holds all of SEEN tokens but the first. */
enum { PROMPT = 300, SEEN = 40, TOKENS = 600, REQUESTS = 7 };

#include "core/files/gguf.h"
#include "core/files/mapping.h"
#include "kernels/dtype_blocks.h"
#include "tests/optimizer/timed_drafts.h"

/* The layer's block is the model's only one, so that it predicts what the model does: nearly always where the
 * model is wide; and one of four blocks, of which the layer is a poor copy. */
#define SHAPE "heads=4,kv-heads=2,vocab=512,dtype=f16,seed=3,mtp=1,"
static const char COPY[] = "synth:" SHAPE "layers=1,dim=512,ffn=512",
                  GOOD[] = "synth:" SHAPE "layers=1,dim=64,ffn=128",
                  POOR[] = "synth:" SHAPE "layers=4,dim=64,ffn=128";

/* ---- sessions ----------------------------------------------------------------------------- */

/* Bytes predict what the clock measures, whatever the layer's share of so small a model is. */
static void price_layer(swiftlet_engine* engine) {
	struct layer_bytes* bytes = &engine->mtp_cost.bytes.stored;
	const double scale = 0.25 * pass_bytes_all(&engine->cost.bytes) / pass_bytes_all(&engine->mtp_cost.bytes);
	*bytes = (struct layer_bytes){scale * bytes->attention, scale * bytes->mlp, scale * bytes->head};
	time_drafts(engine->mtp);
}

/* which: 0 is plain decoding */
static void open_bench(struct bench* b, const char* spec, unsigned which) {
	struct swiftlet_options options;
	set_options(&options, "cpu", which);
	options.drafting.method = which ? SWIFTLET_AUTO : SWIFTLET_VANILLA;
	open_engine(b, spec, &options);
	assert_true(!which == !b->engine->mtp);
	if (b->engine->mtp)
		price_layer(b->engine);
	open_session(b, &options);
}

/* One generation, after which the layer's cache holds a row for each token of some end of the text but its
 * last ones. */
static struct text* generate_checked(struct bench* b, const struct swiftlet_request* request, int given) {
	struct text* text = generate(b, request, given);
	const struct mtp* m = &b->session->mtp;
	assert_true(!m->cache || (m->cache->pending == 0 && m->start > 0 &&
	                          m->start + m->cache->committed <= PROMPT + text->n + 1));
	return text;
}

/* ---- the same text ------------------------------------------------------------------------ */

static void lossless(const char* spec, bool helps) {
	struct bench plain, bench;
	swiftlet_grammar* grammar = open_grammar();
	int64_t accepted = 0, rows = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request request = request_of(i, grammar);
		request.max_tokens = TOKENS / 3;
		for (int given = 0; given < 2; given++) {
			request.n_prompt = given ? PROMPT / 4 : PROMPT;
			open_bench(&plain, spec, 0);
			request.prompt = plain.prompt;
			struct text* expected = generate_checked(&plain, &request, 0);
			close_bench(&plain);
			open_bench(&bench, spec, given ? ~0u : 1u << SOURCE_mtp);
			request.prompt = bench.prompt;
			struct text* text = generate_checked(&bench, &request, given ? 12 : 0);
			same_text(expected, text);
			accepted += text->figures.source[SOURCE_mtp].accepted;
			rows += text->figures.source[SOURCE_mtp].rows;
			if (!given)
				assert_int_equal(text->allocated, 0);
			assert_true(!given || text->releases > 0);
			struct text* again = generate_checked(&bench, &request, 0); /* what was kept of it is a prefix */
			same_text(expected, again);
			close_bench(&bench);
			free(expected);
			free(text);
			free(again);
		}
	}
	print_message("%s: %lld of %lld rows accepted\n", spec, (long long)accepted, (long long)rows);
	assert_true(rows > 0 && (!helps || accepted > REQUESTS * TOKENS / 20));
	swiftlet_grammar_free(grammar);
}

static void a_good_layer_changes_nothing(void** state) {
	(void)state;
	lossless(GOOD, true);
}

static void a_poor_layer_changes_nothing(void** state) {
	(void)state;
	lossless(POOR, false);
}

/* ---- what it costs and brings --------------------------------------------------------------- */

/* *first: the share of the layer's first choices that were right, lately. */
static double seconds_of(const char* spec, unsigned which, double temperature, struct text** out,
                         double* first) {
	struct bench b;
	open_bench(&b, spec, which);
	struct swiftlet_request request = {.prompt = b.prompt,
	                                   .n_prompt = SEEN,
	                                   .max_tokens = TOKENS,
	                                   .temperature = temperature,
	                                   .top_p = 1,
	                                   .seed = 5,
	                                   .ignore_eos = true};
	*out = generate_checked(&b, &request, 0);
	*first = (double)acceptance_first(session_acceptance(b.session), SOURCE_mtp);
	close_bench(&b);
	return (*out)->seconds;
}

/* The layer and the model agree but where the first tokens, which its cache lacks, decide. Sampled drafts add
 * the noise of the model's own position, or they would be right by chance alone. At c = 0.25 the planner
 * takes rounds of several steps. */
static void a_copy_of_the_model_is_right(void** state) {
	(void)state;
	for (int sampled = 0; sampled < 2; sampled++) {
		struct text *plain, *drafted;
		double first;
		const double without = seconds_of(COPY, 0, 0.7 * sampled, &plain, &first);
		const double with = seconds_of(COPY, 1u << SOURCE_mtp, 0.7 * sampled, &drafted, &first);
		same_text(plain, drafted);
		const double rows = (double)drafted->figures.source[SOURCE_mtp].rows,
		             right = (double)drafted->figures.source[SOURCE_mtp].accepted;
		print_message("%s: first choices %.3f, %g of %g rows accepted, %.2f times as fast\n",
		              sampled ? "sampled" : "greedy", first, right, rows, without / with);
		assert_true(right > TOKENS / 2 && first > 0.95);
		assert_true(with < without / 2);
		free(plain);
		free(drafted);
	}
}

/* ---- a copy of the next step, by family ----------------------------------------------------- */

/* GGUF files of core/mtp are rewritten: the layer gets the tensors of one block, and reads the embedding
 * alone; the other blocks add nothing, and each embedding has a mean square of 1, so that the layer's norm
 * keeps it. Then the layer takes the model's own next step. */
struct copy {
	const char* name;
	int blocks, block; /* of the model; the one that lives */
	bool attention;    /* with its attention, which looks at tokens before the last */
};

static bool ends(const char* name, const char* ending) {
	const size_t n = strlen(name), m = strlen(ending);
	return n >= m && strcmp(name + n - m, ending) == 0;
}

static float number_of(const struct named_tensor* t, size_t i) {
	float out;
	dtype_to_float(t->type, t->data + i * (t->type == DTYPE_F32 ? 4 : 2), &out, 1);
	return out;
}

static void put_number(struct named_tensor* t, size_t i, float value) {
	uint8_t* data = (uint8_t*)(uintptr_t)t->data;
	const uint16_t half = half_from_float(value);
	assert_true(t->type == DTYPE_F32 || t->type == DTYPE_F16);
	if (t->type == DTYPE_F32)
		memcpy(data + 4 * i, &value, 4);
	else
		memcpy(data + 2 * i, &half, 2);
}

static void normalise_rows(struct named_tensor* t) {
	const size_t rows = (size_t)t->dim[0], dim = (size_t)t->dim[1];
	for (size_t r = 0; r < rows; r++) {
		double squares = 0;
		for (size_t i = r * dim; i < (r + 1) * dim; i++)
			squares += (double)number_of(t, i) * (double)number_of(t, i);
		const double scale = sqrt((double)dim / squares);
		for (size_t i = r * dim; i < (r + 1) * dim; i++)
			put_number(t, i, (float)(scale * (double)number_of(t, i)));
	}
}

/* (dim, 2·dim): the token's part is kept, the state's is not. */
static void join_by_token(struct named_tensor* t) {
	for (int64_t r = 0; r < t->dim[0]; r++)
		for (int64_t i = 0; i < t->dim[1]; i++)
			put_number(t, (size_t)(r * t->dim[1] + i), r == i);
}

static void copy_tensor(struct named_tensor* to, const struct named_tensor* from) {
	assert_non_null(from);
	assert_true(to->bytes == from->bytes && to->type == from->type);
	memcpy((uint8_t*)(uintptr_t)to->data, from->data, to->bytes);
}

static void rewrite_tensor(const struct copy* c, struct tensor_table* table, struct named_tensor* t) {
	char name[128], layer[16], lives[16];
	const int n = snprintf(layer, sizeof layer, "blk.%d.", c->blocks);
	snprintf(lives, sizeof lives, "blk.%d.", c->block);
	const bool attends = ends(t->name, "attn_output.weight");
	const bool adds = attends || ends(t->name, "ssm_out.weight") || strstr(t->name, "ffn_down");
	if (strcmp(t->name, "token_embd.weight") == 0)
		normalise_rows(t);
	else if (ends(t->name, "nextn.eh_proj.weight"))
		join_by_token(t);
	else if (ends(t->name, "nextn.shared_head_norm.weight"))
		copy_tensor(t, tensor_table_find(table, "output_norm.weight"));
	else if (strstr(t->name, "nextn."))
		for (int64_t i = 0; i < t->dim[0]; i++)
			put_number(t, (size_t)i, 1);
	else if (strncmp(t->name, layer, (size_t)n) == 0) {
		snprintf(name, sizeof name, "%s%s", lives, t->name + n);
		copy_tensor(t, tensor_table_find(table, name));
	} else if (adds && (strncmp(t->name, lives, strlen(lives)) != 0 || (attends && !c->attention)))
		memset((uint8_t*)(uintptr_t)t->data, 0, t->bytes);
}

/* Tensors of the layer are copied last: from a block that has been rewritten. */
static void write_copy(const struct copy* c, const char* path) {
	char from[1200];
	struct error error = {""};
	struct mapping file;
	struct gguf gguf = {0};
	struct tensor_table table = {0};
	snprintf(from, sizeof from, "%s/tests/core/golden/mtp/%s/model.gguf", getenv("SWIFTLET_SOURCE"), c->name);
	if (!mapping_open(&file, from, &error))
		fail_msg("%s", error.message);
	uint8_t* bytes = malloc(file.size);
	memcpy(bytes, file.data, file.size);
	if (!gguf_read(&gguf, &table, bytes, file.size, from, &error) || !tensor_table_seal(&table, &error))
		fail_msg("%s", error.message);
	for (int last = 0; last < 2; last++)
		for (size_t i = 0; i < table.n; i++)
			if ((strtol(table.item[i].name + 4, NULL, 10) == c->blocks) == last)
				rewrite_tensor(c, &table, &table.item[i]);
	FILE* out = fopen(path, "wbe");
	assert_true(out && fwrite(bytes, 1, file.size, out) == file.size && fclose(out) == 0);
	tensor_table_free(&table);
	gguf_free(&gguf);
	mapping_close(&file);
	free(bytes);
}

static const struct copy copies[] = {
    {"qwen3-5", 4, 2, false},       {"qwen3-5-moe", 4, 2, false}, {"qwen3-next", 4, 2, false},
    {"glm4-moe-lite", 4, 3, false}, {"deepseek-v3", 4, 3, false}, {"glm4-moe", 4, 3, false},
};

/* A layer whose head costs nothing chooses among all tokens, not among those that were likely before. */
static void price_head(swiftlet_engine* engine) {
	struct layer_bytes* bytes = &engine->mtp_cost.bytes.stored;
	bytes->mlp += bytes->head;
	bytes->head = 0;
}

/* The share of the layer's first choices that the model chose too, in the tree or not; older ones count less.
 */
static double share_right(const struct acceptance* acceptance) {
	double right = 0, trials = 0;
	for (int bin = 0; bin < EVIDENCE_BINS; bin++) {
		const struct tally* first = &acceptance->seen[SOURCE_mtp][bin][0];
		right += (double)first->right;
		trials += (double)first->trials;
	}
	assert_true(trials > TOKENS / 20);
	return right / trials;
}

/* A tree of two rows holds one draft a round. */
static double judge_copy(const struct copy* copy, const char* path, double temperature) {
	struct swiftlet_options options;
	struct bench b;
	set_options(&options, "cpu", 1u << SOURCE_mtp);
	options.drafting.max_tree = 2;
	open_engine(&b, path, &options);
	assert_non_null(b.engine->mtp);
	price_layer(b.engine);
	price_head(b.engine);
	open_session(&b, &options);
	const struct swiftlet_request request = {.prompt = b.prompt,
	                                         .n_prompt = SEEN,
	                                         .max_tokens = TOKENS / 3,
	                                         .temperature = temperature,
	                                         .top_p = 1,
	                                         .seed = 5,
	                                         .ignore_eos = true};
	struct text* text = generate_checked(&b, &request, 0);
	const double share = share_right(session_acceptance(b.session));
	print_message("%s, %s, %s: first choices %.3f, %lld of %lld rows accepted\n", copy->name,
	              copy->attention ? "with attention" : "MLP alone", temperature > 0 ? "sampled" : "greedy",
	              share, (long long)text->figures.source[SOURCE_mtp].accepted,
	              (long long)text->figures.source[SOURCE_mtp].rows);
	free(text);
	close_bench(&b);
	return share;
}

/* Without attention each first choice is right. With attention the layer lacks the text's first token, which
 * no state comes before. */
static void a_copy_is_right_in_every_family(void** state) {
	(void)state;
	char path[] = "/tmp/swiftlet-mtp-XXXXXX";
	if (!getenv("SWIFTLET_SOURCE"))
		skip();
	const int file = mkstemp(path);
	assert_true(file >= 0);
	close(file);
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
		for (int attention = 0; attention < 2; attention++)
			for (int sampled = 0; sampled < 2; sampled++) {
				struct copy copy = copies[i];
				copy.attention = attention;
				write_copy(&copy, path);
				const double share = judge_copy(&copy, path, 0.7 * sampled);
				assert_true(attention ? share > 0.9 : share >= 1);
			}
	unlink(path);
}

/* Design, promise 3: 2 % of plain time, and 8 steps to begin with. */
static void a_useless_one_rests(void** state) {
	(void)state;
	struct text *plain, *drafted;
	double first;
	const double without = seconds_of(POOR, 0, 0, &plain, &first);
	const double with = seconds_of(POOR, 1u << SOURCE_mtp, 0, &drafted, &first);
	same_text(plain, drafted);
	print_message("useless: %.3f s, %.3f s without\n", with, without);
	if (with > 1.02 * without + 8e-3)
		fail_msg("%.3f s with the layer, %.3f s without", with, without);
	free(plain);
	free(drafted);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_good_layer_changes_nothing),    cmocka_unit_test(a_poor_layer_changes_nothing),
	    cmocka_unit_test(a_copy_of_the_model_is_right),    cmocka_unit_test(a_useless_one_rests),
	    cmocka_unit_test(a_copy_is_right_in_every_family),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
