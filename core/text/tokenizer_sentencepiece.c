/* A sentencepiece model file (tokenizer.model): pieces with scores, and how text is normalized.
 *
 * The file is one protobuf message, ModelProto: 1 = pieces (1 piece, 2 score, 3 type), 2 = trainer_spec
 * (3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback, 40.. ids), 3 = normalizer_spec (1 name,
 * 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces). */
#include <stddef.h>
#include <string.h>

#include "core/text/tokenizer_json.h"

/* ---- protobuf's wire format: a cursor over bytes that yields one field at a time --------------- */

struct protobuf {
	const uint8_t* at;
	const uint8_t* end;
	const char* wrong; /* why reading stopped early; NULL: it did not */
};

enum { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
	uint32_t number, wire;
	uint64_t value;       /* of a varint or a fixed number */
	const uint8_t* bytes; /* (size) of a PROTOBUF_BYTES field; into the data */
	size_t size;
};

static bool stop_reading(struct protobuf* p, const char* why) {
	p->wrong = why;
	p->at = p->end;
	return false;
}

/* Seven bits a byte, lowest first; ten bytes hold 64 bits. */
static bool read_varint(struct protobuf* p, uint64_t* value) {
	*value = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (p->at == p->end)
			return stop_reading(p, "a number is cut off");
		uint8_t byte = *p->at++;
		if (shift == 63 && byte > 1)
			return stop_reading(p, "a number is longer than 64 bits");
		*value |= (uint64_t)(byte & 0x7F) << shift;
		if (byte < 0x80)
			return true;
	}
	return stop_reading(p, "a number is longer than 64 bits");
}

static bool read_fixed(struct protobuf* p, unsigned bytes, uint64_t* value) {
	if ((size_t)(p->end - p->at) < bytes)
		return stop_reading(p, "a number is cut off");
	*value = 0;
	for (unsigned i = 0; i < bytes; i++)
		*value |= (uint64_t)p->at[i] << (8 * i);
	p->at += bytes;
	return true;
}

/* False at the end, and on broken data, with `wrong` set. */
static bool protobuf_next(struct protobuf* p, struct protobuf_field* field) {
	uint64_t key;
	if (p->at == p->end || !read_varint(p, &key))
		return false;
	if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
		return stop_reading(p, "a field has an impossible number");
	*field = (struct protobuf_field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
	switch (field->wire) {
	case PROTOBUF_VARINT:
		return read_varint(p, &field->value);
	case PROTOBUF_FIXED64:
		return read_fixed(p, 8, &field->value);
	case PROTOBUF_FIXED32:
		return read_fixed(p, 4, &field->value);
	case PROTOBUF_BYTES:
		if (!read_varint(p, &field->value))
			return false;
		if (field->value > (uint64_t)(p->end - p->at))
			return stop_reading(p, "a field reaches past the end");
		field->bytes = p->at;
		field->size = (size_t)field->value;
		p->at += field->size;
		return true;
	default:
		return stop_reading(p, "a field has a wire type that protobuf does not use");
	}
}

/* ---- the model ------------------------------------------------------------------------------ */

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

struct specification {
	uint64_t model_type;
	bool byte_fallback, suffix, dummy_prefix, squeeze, escape;
	bool charsmap;
	char normalizer[64];
};

static bool read_piece(struct tokenizer* t, const struct protobuf_field* message, struct error* error) {
	struct protobuf p = {message->bytes, message->bytes + message->size, NULL};
	struct protobuf_field f;
	const uint8_t* text = (const uint8_t*)"";
	size_t size = 0;
	float score = 0;
	uint64_t type = PIECE_NORMAL;
	while (protobuf_next(&p, &f)) {
		if (f.number == 1 && f.wire == PROTOBUF_BYTES) {
			text = f.bytes;
			size = f.size;
		} else if (f.number == 2 && f.wire == PROTOBUF_FIXED32) {
			uint32_t bits = (uint32_t)f.value;
			memcpy(&score, &bits, sizeof score);
		} else if (f.number == 3 && f.wire == PROTOBUF_VARINT) {
			type = f.value;
		}
	}
	int id = t->vocabulary.n;
	if (p.wrong)
		return error_set(error, "tokenizer.model: piece %d: %s", id, p.wrong);
	if (type < PIECE_NORMAL || type > PIECE_BYTE)
		return error_set(error, "tokenizer.model: piece %d has type %llu, expected 1 to 6", id,
		                 (unsigned long long)type);
	if (type == PIECE_UNKNOWN)
		t->unknown = id;
	return vocabulary_set(&t->vocabulary, id, (const char*)text, size, (enum piece_type)type, (double)score,
	                      error);
}

/* trainer_spec or normalizer_spec. */
static bool read_specification(struct specification* s, const struct protobuf_field* message,
                               struct error* error) {
	static const struct {
		uint32_t message, number;
		size_t place;
	} flags[] = {{2, 24, offsetof(struct specification, suffix)},
	             {2, 35, offsetof(struct specification, byte_fallback)},
	             {3, 3, offsetof(struct specification, dummy_prefix)},
	             {3, 4, offsetof(struct specification, squeeze)},
	             {3, 5, offsetof(struct specification, escape)}};
	struct protobuf p = {message->bytes, message->bytes + message->size, NULL};
	struct protobuf_field f;
	const bool trainer = message->number == 2;
	while (protobuf_next(&p, &f)) {
		const bool bytes = !trainer && f.wire == PROTOBUF_BYTES, number = f.wire == PROTOBUF_VARINT;
		if (trainer && number && f.number == 3)
			s->model_type = f.value;
		if (bytes && f.number == 1 && f.size < sizeof s->normalizer)
			memcpy(s->normalizer, f.bytes, f.size);
		if (bytes && f.number == 2)
			s->charsmap = f.size > 0;
		for (size_t i = 0; number && i < sizeof flags / sizeof flags[0]; i++)
			if (flags[i].message == message->number && flags[i].number == f.number)
				*(bool*)((char*)s + flags[i].place) = f.value != 0;
	}
	return !p.wrong ||
	       error_set(error, "tokenizer.model: %s: %s", trainer ? "trainer_spec" : "normalizer_spec", p.wrong);
}

static bool read_model(struct tokenizer* t, struct specification* s, const uint8_t* data, size_t size,
                       struct error* error) {
	struct protobuf p = {data, data + size, NULL};
	struct protobuf_field f;
	while (protobuf_next(&p, &f)) {
		if (f.wire != PROTOBUF_BYTES)
			continue;
		if (f.number == 1 && !read_piece(t, &f, error))
			return false;
		if ((f.number == 2 || f.number == 3) && !read_specification(s, &f, error))
			return false;
	}
	if (p.wrong)
		return error_set(error, "tokenizer.model: not a sentencepiece model: %s", p.wrong);
	if (t->vocabulary.n == 0)
		return error_set(error, "tokenizer.model: not a sentencepiece model: it holds no pieces");
	return true;
}

static bool set_up(struct tokenizer* t, const struct specification* s, const cJSON* config,
                   struct error* error) {
	if (s->model_type != MODEL_BPE && s->model_type != MODEL_UNIGRAM)
		return error_set(error, "tokenizer.model: model_type is %llu, expected 1 (unigram) or 2 (BPE)",
		                 (unsigned long long)s->model_type);
	if (s->suffix)
		return error_set(error, "tokenizer.model: treat_whitespace_as_suffix is not supported");
	if (s->charsmap)
		return error_set(error,
		                 "tokenizer.model: normalizer \"%s\" with a precompiled_charsmap is not supported, "
		                 "expected \"identity\"",
		                 s->normalizer);
	t->kind = s->model_type == MODEL_BPE ? TOKENIZER_SCORED : TOKENIZER_UNIGRAM;
	t->byte_fallback = s->byte_fallback;
	t->fuse_unknown = true;
	t->single_precision = true;
	const bool prefix = tokenizer_json_flag(config, "add_prefix_space", s->dummy_prefix);
	const enum prefix_scheme scheme = !prefix                                       ? PREFIX_NEVER
	                                  : tokenizer_json_flag(config, "legacy", true) ? PREFIX_ALWAYS
	                                                                                : PREFIX_FIRST;
	if (!s->escape)
		return error_set(error, "tokenizer.model: escape_whitespaces is false, which is not supported");
	if (!tokenizer_space_as_block(t, scheme, s->squeeze, error))
		return false;
	return tokenizer_print_sentencepiece(t, error) && tokenizer_config_add_tokens(config, t, error);
}

static bool read_tokenizer(struct tokenizer* t, const cJSON* config, const void* source, size_t size,
                           struct error* error) {
	struct specification s = {
	    .model_type = MODEL_UNIGRAM, .dummy_prefix = true, .squeeze = true, .escape = true};
	if (!read_model(t, &s, source, size, error) || !set_up(t, &s, config, error) ||
	    !vocabulary_seal(&t->vocabulary, error))
		return false;
	/* Names of BOS and EOS in sentencepiece models of these families, for configs that do not name them. */
	tokenizer_default_end(t, &t->bos, "<s>", "<bos>");
	tokenizer_default_end(t, &t->eos, "</s>", "<eos>");
	/* Llama's tokenizer classes prepend a BOS by default. */
	if (t->bos >= 0 && tokenizer_json_flag(config, "add_bos_token", true))
		t->before = (struct id_list){.id = {t->bos}, .n = 1};
	return true;
}

struct tokenizer* tokenizer_from_sentencepiece(const void* data, size_t size, const char* config,
                                               struct error* error) {
	return tokenizer_make(config, read_tokenizer, data, size, error);
}
