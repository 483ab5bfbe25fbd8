/* Reads `synth:SHAPE[,key=value…]`: a published shape by name, or its numbers. */
#include "core/model/synth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As their config.json files say. */
static const struct {
	const char *name, *numbers;
} published[] = {
    {"tinyllama-1.1b",
     "layers=22,dim=2048,heads=32,kv-heads=4,head-dim=64,ffn=5632,vocab=32000,context=2048,theta=1e4"},
    {"llama-2-7b",
     "layers=32,dim=4096,heads=32,kv-heads=32,head-dim=128,ffn=11008,vocab=32000,context=4096,theta=1e4"},
    {"llama-2-13b",
     "layers=40,dim=5120,heads=40,kv-heads=40,head-dim=128,ffn=13824,vocab=32000,context=4096,theta=1e4"},
    {"llama-2-70b",
     "layers=80,dim=8192,heads=64,kv-heads=8,head-dim=128,ffn=28672,vocab=32000,context=4096,theta=1e4"},
    {"llama-3-8b",
     "layers=32,dim=4096,heads=32,kv-heads=8,head-dim=128,ffn=14336,vocab=128256,context=8192,theta=5e5"},
    {"mixtral-8x7b", "layers=32,dim=4096,heads=32,kv-heads=8,head-dim=128,ffn=14336,vocab=32000,context="
                     "32768,theta=1e6,experts=8,experts-used=2,expert-ffn=14336"},
    {"qwen3-30b-a3b", "layers=48,dim=2048,heads=32,kv-heads=4,head-dim=128,ffn=6144,vocab=151936,context="
                      "40960,theta=1e6,experts=128,experts-used=8,expert-ffn=768"},
    {"qwen3.5-0.8b", "layers=24,dim=1024,heads=8,kv-heads=2,head-dim=256,ffn=3584,vocab=248320,context="
                     "262144,theta=1e7,attention-every=4,key-heads=16,value-heads=16"},
    {"qwen3.5-4b", "layers=32,dim=2560,heads=16,kv-heads=4,head-dim=256,ffn=9216,vocab=248320,context="
                   "262144,theta=1e7,attention-every=4,key-heads=16,value-heads=32"},
    {"qwen3.5-35b-a3b", "layers=40,dim=2048,heads=16,kv-heads=2,head-dim=256,ffn=512,vocab=248320,context="
                        "262144,theta=1e7,attention-every=4,key-heads=16,value-heads=32,experts=256,"
                        "experts-used=8,expert-ffn=512"},
    {"gemma-4-e4b",
     "layers=42,dim=2560,heads=8,kv-heads=2,head-dim=256,ffn=10240,vocab=262144,context="
     "131072,theta=1e6,window=512,full-every=6,full-head-dim=512,shared=0.4286,token-input=256"},
};
enum { PUBLISHED = sizeof published / sizeof *published, TEXT_SIZE = 1024 };

static bool take_all(struct synth_spec*, const char* text, struct error*);

static bool take_shape(struct synth_spec* s, const char* name, struct error* error) {
	for (int i = 0; i < PUBLISHED; i++)
		if (strcmp(published[i].name, name) == 0)
			return take_all(s, published[i].numbers, error);
	char list[400] = "";
	for (int i = 0; i < PUBLISHED; i++) {
		strncat(list, published[i].name, sizeof list - strlen(list) - 1);
		strncat(list, i + 1 < PUBLISHED ? ", " : "", sizeof list - strlen(list) - 1);
	}
	return error_set(error,
	                 "synth: no shape \"%.60s\"; known are %s, or give layers= dim= heads= ffn= vocab=", name,
	                 list);
}

/* ---- one key ------------------------------------------------------------------------------ */

static bool take_count(int* out, const char* key, const char* value, long least, long most,
                       struct error* error) {
	char* end;
	errno = 0;
	const long v = strtol(value, &end, 10);
	if (end == value || *end || errno || v < least || v > most)
		return error_set(error, "synth: %s=%.40s, expected a whole number from %ld to %ld", key, value, least,
		                 most);
	*out = (int)v;
	return true;
}

static bool take_number(double* out, const char* key, const char* value, double least, double most,
                        struct error* error) {
	char* end;
	const double v = strtod(value, &end);
	if (end == value || *end || !isfinite(v) || v < least || v > most)
		return error_set(error, "synth: %s=%.40s, expected a number from %g to %g", key, value, least, most);
	*out = v;
	return true;
}

static bool take_seed(uint64_t* out, const char* value, struct error* error) {
	char* end;
	errno = 0;
	const unsigned long long v = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end || errno)
		return error_set(error, "synth: seed=%.40s, expected a whole number from 0 to 2^64 - 1", value);
	*out = v;
	return true;
}

static bool take_dtype(enum dtype* out, const char* value, struct error* error) {
	static const enum dtype known[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,
	                                   DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q4_K, DTYPE_Q6_K};
	enum dtype type;
	for (size_t i = 0; dtype_parse(value, &type) && i < sizeof known / sizeof *known; i++)
		if (type == known[i]) {
			*out = type;
			return true;
		}
	return error_set(
	    error, "synth: dtype=%.40s, expected one of f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q6_k", value);
}

static bool take_field(struct synth_spec* s, const char* key, const char* value, struct error* error) {
	const struct {
		const char* key;
		int* out;
		long least, most;
	} counts[] = {
	    {"layers", &s->layers, 1, MAX_BLOCKS},
	    {"dim", &s->dim, 8, 65536},
	    {"heads", &s->heads, 1, 1024},
	    {"kv-heads", &s->kv_heads, 1, 1024},
	    {"head-dim", &s->head_dim, 2, 1024},
	    {"ffn", &s->ffn, 1, 1 << 20},
	    {"vocab", &s->vocab, 16, 1 << 20},
	    {"context", &s->context, 64, 1 << 20},
	    {"tasks", &s->tasks, 1, 2},
	    {"experts", &s->experts, 1, 256},
	    {"experts-used", &s->experts_used, 1, 256},
	    {"expert-ffn", &s->expert_ffn, 1, 1 << 20},
	    {"attention-every", &s->attention_every, 1, MAX_BLOCKS},
	    {"key-heads", &s->key_heads, 1, 1024},
	    {"value-heads", &s->value_heads, 1, 1024},
	    {"key-dim", &s->key_dim, 1, 1024},
	    {"value-dim", &s->value_dim, 1, 1024},
	    {"taps", &s->taps, 1, 16},
	    {"mtp", &s->mtp, 0, 1},
	    {"window", &s->window, 1, 1 << 20},
	    {"full-every", &s->full_every, 2, MAX_BLOCKS},
	    {"full-head-dim", &s->full_head_dim, 2, 1024},
	    {"token-input", &s->token_input, 1, 4096},
	};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		if (strcmp(key, counts[i].key) == 0)
			return take_count(counts[i].out, key, value, counts[i].least, counts[i].most, error);
	if (strcmp(key, "plant") == 0)
		return take_number(&s->plant, key, value, 0, 1, error);
	if (strcmp(key, "epsilon") == 0)
		return take_number(&s->epsilon, key, value, 0, 1, error);
	if (strcmp(key, "shared") == 0)
		return take_number(&s->shared, key, value, 0, 1, error);
	if (strcmp(key, "theta") == 0)
		return take_number(&s->theta, key, value, 1, 1e9, error);
	if (strcmp(key, "seed") == 0)
		return take_seed(&s->seed, value, error);
	if (strcmp(key, "dtype") == 0)
		return take_dtype(&s->dtype, value, error);
	return error_set(error,
	                 "synth: no key \"%.40s\"; known are layers, dim, heads, kv-heads, head-dim, ffn, vocab, "
	                 "context, theta, dtype, seed, plant, epsilon, tasks, experts, experts-used, "
	                 "expert-ffn, attention-every, key-heads, value-heads, key-dim, value-dim, taps, mtp, "
	                 "window, full-every, full-head-dim, shared, token-input",
	                 key);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool check_divides(const char* key, int part, const char* of, int whole, struct error* error) {
	if (whole % part == 0)
		return true;
	return error_set(error, "synth: %s=%d does not divide %s=%d", key, part, of, whole);
}

static bool check_blocks(const struct synth_spec* s, const char* key, int cols, struct error* error) {
	const int block = dtype_block(s->dtype);
	if (cols % block == 0)
		return true;
	return error_set(error, "synth: %s=%d is not a multiple of %d, the block of dtype=%s", key, cols, block,
	                 dtype_name(s->dtype));
}

static bool check_halves(const struct synth_spec* s, struct error* error) {
	const struct {
		const char* key;
		int value, multiple;
	} needs[] = {
	    {"dim", s->dim, 2}, {"heads", s->heads, 2},   {"kv-heads", s->kv_heads, 2},
	    {"ffn", s->ffn, 2}, {"vocab", s->vocab, 256},
	};
	for (size_t i = 0; s->tasks == 2 && i < sizeof needs / sizeof *needs; i++)
		if (needs[i].value % needs[i].multiple != 0)
			return error_set(error, "synth: %s=%d, expected a multiple of %d with tasks=2", needs[i].key,
			                 needs[i].value, needs[i].multiple);
	return true;
}

static bool check_experts(struct synth_spec* s, struct error* error) {
	if (s->experts == 0) {
		if (s->experts_used || s->expert_ffn)
			return error_set(error, "synth: experts-used= and expert-ffn= need experts=");
		return true;
	}
	if (s->experts_used == 0)
		s->experts_used = s->experts < 2 ? 1 : 2;
	if (s->expert_ffn == 0)
		s->expert_ffn = s->ffn;
	if (s->experts_used > s->experts)
		return error_set(error, "synth: experts-used=%d, expected at most experts=%d", s->experts_used,
		                 s->experts);
	if (s->tasks == 2)
		return error_set(error, "synth: experts=%d and tasks=2 do not go together", s->experts);
	return check_blocks(s, "expert-ffn", s->expert_ffn, error);
}

static bool check_recurrent(struct synth_spec* s, struct error* error) {
	if (!s->attention_every && (s->key_heads || s->value_heads || s->key_dim || s->value_dim || s->taps))
		return error_set(
		    error, "synth: key-heads=, value-heads=, key-dim=, value-dim= and taps= need attention-every=");
	if (s->attention_every <= 1)
		return true;
	s->key_heads = s->key_heads ? s->key_heads : 16;
	s->value_heads = s->value_heads ? s->value_heads : s->key_heads;
	s->key_dim = s->key_dim ? s->key_dim : 128;
	s->value_dim = s->value_dim ? s->value_dim : 128;
	s->taps = s->taps ? s->taps : 4;
	if (s->attention_every > s->layers)
		return error_set(error, "synth: attention-every=%d, expected at most layers=%d", s->attention_every,
		                 s->layers);
	if (s->tasks == 2)
		return error_set(error, "synth: attention-every=%d and tasks=2 do not go together",
		                 s->attention_every);
	return check_divides("key-heads", s->key_heads, "value-heads", s->value_heads, error) &&
	       check_blocks(s, "value-heads x value-dim", s->value_heads * s->value_dim, error);
}

int synth_shared_blocks(const struct synth_spec* s) {
	const int wanted = (int)lround(s->shared * s->layers), most = s->layers - s->full_every;
	return most < 0 ? 0 : least(wanted, most);
}

static bool check_window(struct synth_spec* s, struct error* error) {
	if (s->window == 0)
		return (s->full_every == 0 && s->full_head_dim == 0 && s->shared <= 0 && s->token_input == 0) ||
		       error_set(error, "synth: full-every=, full-head-dim=, shared= and token-input= need window=");
	s->full_every = s->full_every ? s->full_every : 6;
	s->full_head_dim = s->full_head_dim ? s->full_head_dim : s->head_dim;
	if (s->experts > 0 || s->attention_every > 1 || s->mtp || s->tasks == 2)
		return error_set(error,
		                 "synth: window=%d does not go with experts=, attention-every=, mtp= or tasks=2",
		                 s->window);
	if (s->full_head_dim % 2 != 0)
		return error_set(error, "synth: full-head-dim=%d, expected an even number", s->full_head_dim);
	return check_blocks(s, "heads x full-head-dim", s->heads * s->full_head_dim, error) &&
	       check_blocks(s, "token-input", s->token_input, error);
}

static bool check_spec(struct synth_spec* s, struct error* error) {
	const struct {
		const char* key;
		int value;
	} needs[] = {
	    {"layers", s->layers}, {"dim", s->dim}, {"heads", s->heads}, {"ffn", s->ffn}, {"vocab", s->vocab}};
	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
		if (needs[i].value == 0)
			return error_set(error, "synth: %s= is missing, and no published shape is named", needs[i].key);
	if (s->kv_heads == 0)
		s->kv_heads = s->heads;
	if (s->head_dim == 0) {
		if (!check_divides("heads", s->heads, "dim", s->dim, error))
			return false;
		s->head_dim = s->dim / s->heads;
	}
	if (!check_divides("kv-heads", s->kv_heads, "heads", s->heads, error))
		return false;
	if (s->head_dim % 2 != 0)
		return error_set(error, "synth: head-dim=%d (dim/heads), expected an even number", s->head_dim);
	if (s->head_dim > 1024)
		return error_set(error, "synth: head-dim=%d (dim/heads), expected at most 1024", s->head_dim);
	if (s->plant > 0 && s->layers < 3)
		return error_set(error, "synth: layers=%d, expected at least 3 with plant=", s->layers);
	return check_halves(s, error) && check_blocks(s, "dim", s->dim, error) &&
	       check_blocks(s, "heads x head-dim", s->heads * s->head_dim, error) &&
	       check_blocks(s, "ffn", s->ffn, error) && check_experts(s, error) && check_recurrent(s, error) &&
	       check_window(s, error);
}

static bool take_all(struct synth_spec* s, const char* text, struct error* error) {
	char copy[TEXT_SIZE];
	if (strlen(text) >= sizeof copy)
		return error_set(error, "synth: the text is longer than %d bytes", TEXT_SIZE - 1);
	memcpy(copy, text, strlen(text) + 1);
	bool first = true;
	for (char* part = copy; part; first = false) {
		char* comma = strchr(part, ',');
		if (comma)
			*comma = '\0';
		char* equals = strchr(part, '=');
		if (equals)
			*equals = '\0';
		if (!equals && !first)
			return error_set(error, "synth: \"%.60s\" has no value, expected key=value", part);
		if (!(equals ? take_field(s, part, equals + 1, error) : take_shape(s, part, error)))
			return false;
		part = comma ? comma + 1 : NULL;
	}
	return true;
}

bool synth_spec_parse(struct synth_spec* s, const char* text, struct error* error) {
	*s = (struct synth_spec){
	    .context = 4096, .theta = 1e4, .dtype = DTYPE_F16, .seed = 1, .epsilon = 0.02, .tasks = 1};
	return take_all(s, text, error) && check_spec(s, error);
}
