/* Builds a tokenizer from GGUF metadata: tokenizer.ggml.model names the kind, tokenizer.ggml.pre the split
 * into words. */
#include <string.h>

#include "core/text/tokenizer_parts.h"

static bool read_pieces(struct tokenizer* t, const struct gguf_vocabulary* g, struct error* error) {
	for (int id = 0; id < g->n; id++) {
		int32_t type = g->type ? g->type[id] : PIECE_NORMAL;
		const double score = g->score ? (double)g->score[id] : 0;
		if (type < PIECE_NORMAL || type > PIECE_BYTE)
			return error_set(error, "tokenizer.ggml.token_type: entry %d is %d, expected 1 to 6", id,
			                 (int)type);
		if (!vocabulary_set(&t->vocabulary, id, g->piece[id], g->piece_size[id], (enum piece_type)type, score,
		                    error))
			return false;
	}
	return true;
}

/* Ids that the file names must be there. */
static bool check_id(const char* field, int32_t id, const struct gguf_vocabulary* g, struct error* error) {
	if (id >= -1 && id < g->n)
		return true;
	return error_set(error, "tokenizer.ggml.%s_token_id is %d, but the vocabulary has %d pieces", field,
	                 (int)id, g->n);
}

/* ---- marked pieces ---------------------------------------------------------------------------- */

/* Phi-3's special tokens include the white space after them, for which GGUF has no field. These pieces
 * identify its vocabulary. */
static bool is_phi3(const struct vocabulary* v) {
	return vocabulary_find(v, "<|assistant|>", 13) >= 0 && vocabulary_find(v, "<|end|>", 7) >= 0 &&
	       vocabulary_find(v, "<|placeholder6|>", 16) >= 0;
}

static bool strips_after(const char* text, size_t size) {
	static const char* const plain[] = {"<s>", "<unk>", "<|endoftext|>"};
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		if (size == strlen(plain[i]) && memcmp(text, plain[i], size) == 0)
			return false;
	return true;
}

/* User-defined pieces are written with spaces or with U+2581. They are matched after normalizing. */
static bool add_user_defined(struct tokenizer* t, int32_t id, struct error* error) {
	const char* text = vocabulary_text(&t->vocabulary, id);
	size_t size = t->vocabulary.piece[id].text_size;
	struct buffer escaped = {0};
	for (size_t i = 0; i < size; i++)
		buffer_add(&escaped, text[i] == ' ' ? "\xe2\x96\x81" : text + i, text[i] == ' ' ? 3 : 1);
	bool good = escaped.failed ? error_set(error, "out of memory for added tokens")
	                           : added_tokens_add(&t->normalized, escaped.data, escaped.size,
	                                              (struct added_token){.id = id}, error);
	buffer_free(&escaped);
	return good;
}

/* Pieces that the file marks are added tokens. They are matched before normalizing, and sentencepiece's
 * user-defined ones after it. Sealed vocabulary only. */
static bool add_marked(struct tokenizer* t, struct error* error) {
	struct vocabulary* v = &t->vocabulary;
	const bool ranked = t->kind == TOKENIZER_RANKED, phi3 = !ranked && is_phi3(v);
	for (int32_t id = 0; id < v->n; id++) {
		struct piece* p = &v->piece[id];
		const char* text = vocabulary_text(v, id);
		/* Phi-3's </s> is a user-defined piece that is matched before normalizing, as its special ones
		 * are. */
		const bool marks_end = phi3 && p->text_size == 4 && memcmp(text, "</s>", 4) == 0;
		const bool special = piece_is_special(p);
		const bool user = p->type == PIECE_USER_DEFINED && !marks_end;
		const bool raw = special || marks_end || (user && ranked);
		struct added_token token = {.id = id, .special = special};
		token.rstrip = phi3 && raw && strips_after(text, p->text_size);
		p->added = raw && ranked;
		if (raw && !tokenizer_add_token(t, text, p->text_size, token, false, error))
			return false;
		if (user && !ranked && !add_user_defined(t, id, error))
			return false;
	}
	return true;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Sets the steps and the printed pieces, and whether a BOS precedes a text if the file does not say. */
typedef bool kind_setter(struct tokenizer*, const struct gguf_vocabulary*, bool* adds_bos, struct error*);

static bool set_sentencepiece(struct tokenizer* t, const struct gguf_vocabulary* g, bool* adds_bos,
                              struct error* error) {
	if (!g->score)
		return error_set(error, "tokenizer.ggml.scores is missing, expected %d scores for model \"%s\"", g->n,
		                 g->model);
	t->byte_fallback = true;
	t->fuse_unknown = true;
	*adds_bos = true;
	enum prefix_scheme prefix = g->add_space_prefix == 0 ? PREFIX_NEVER : PREFIX_ALWAYS;
	return tokenizer_space_as_block(t, prefix, g->remove_extra_whitespaces == 1, error) &&
	       tokenizer_print_sentencepiece(t, error);
}

static bool set_byte_level(struct tokenizer* t, const struct gguf_vocabulary* g, bool* adds_bos,
                           struct error* error) {
	t->drops_unknown = true; /* as in llama.cpp: a file's unknown token is often <|endoftext|> */
	return steps_add_named(&t->pretokenizer, g->pre, &t->ignore_merges, adds_bos, error) &&
	       tokenizer_print_byte_level(t, error);
}

/* Merges by rank, with sentencepiece's spaces and bytes. No piece crosses the end of a line. */
static bool set_characters(struct tokenizer* t, const struct gguf_vocabulary* g, bool* adds_bos,
                           struct error* error) {
	(void)g;
	t->byte_fallback = true;
	t->fuse_unknown = true;
	*adds_bos = false;
	return tokenizer_space_as_block(t, PREFIX_NEVER, false, error) &&
	       steps_add_split(&t->pretokenizer, "\\n+", true, SPLIT_ISOLATED, error) &&
	       tokenizer_print_sentencepiece(t, error);
}

static const struct model {
	const char* name;
	enum tokenizer_kind kind;
	kind_setter* set;
} models[] = {{"llama", TOKENIZER_SCORED, set_sentencepiece},
              {"gpt2", TOKENIZER_RANKED, set_byte_level},
              {"gemma4", TOKENIZER_RANKED, set_characters}};

/* ---- the whole ------------------------------------------------------------------------------ */

static bool add_merges(struct tokenizer* t, const struct gguf_vocabulary* g, struct error* error) {
	if (!tokenizer_start_merges(t, (size_t)g->n_merges, error))
		return false;
	for (int i = 0; i < g->n_merges; i++) {
		if (!tokenizer_add_merge_line(t, g->merge[i], g->merge_size[i], error))
			return tokenizer_fail_in("tokenizer.ggml.merges", error);
	}
	return true;
}

static void set_ends(struct tokenizer* t, const struct gguf_vocabulary* g, bool adds_bos) {
	t->bos = g->bos;
	t->eos = g->eos;
	t->unknown = g->unknown;
	for (int32_t id = 0; id < t->vocabulary.n && t->unknown < 0; id++)
		if (t->vocabulary.piece[id].type == PIECE_UNKNOWN)
			t->unknown = id;
	if (t->bos >= 0 && (g->add_bos < 0 ? adds_bos : g->add_bos == 1))
		t->before = (struct id_list){.id = {t->bos}, .n = 1};
	if (t->eos >= 0 && g->add_eos == 1)
		t->after = (struct id_list){.id = {t->eos}, .n = 1};
}

static bool fill_vocabulary(struct tokenizer* t, const struct gguf_vocabulary* g, const struct model* model,
                            struct error* error) {
	bool adds_bos;
	t->kind = model->kind;
	t->lists_added = true;
	if (!check_id("bos", g->bos, g, error) || !check_id("eos", g->eos, g, error) ||
	    !check_id("unknown", g->unknown, g, error) || !read_pieces(t, g, error) ||
	    !model->set(t, g, &adds_bos, error))
		return false;
	set_ends(t, g, adds_bos);
	if (!vocabulary_seal(&t->vocabulary, error))
		return tokenizer_fail_in("tokenizer.ggml.tokens", error);
	return add_marked(t, error) && (t->kind == TOKENIZER_SCORED || add_merges(t, g, error));
}

static bool read_tokenizer(struct tokenizer* t, const struct cJSON* config, const void* source, size_t size,
                           struct error* error) {
	const struct gguf_vocabulary* g = source;
	(void)config;
	(void)size;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		if (g->model && strcmp(g->model, models[i].name) == 0)
			return fill_vocabulary(t, g, &models[i], error);
	return error_set(error,
	                 "tokenizer.ggml.model: \"%.40s\" is not supported, expected llama, gpt2 or gemma4",
	                 g->model ? g->model : "");
}

struct tokenizer* tokenizer_from_gguf(const struct gguf_vocabulary* g, struct error* error) {
	return tokenizer_make(NULL, read_tokenizer, g, sizeof *g, error);
}
