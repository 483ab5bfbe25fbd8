/* A model as swiftlet has opened it: its weight table, its tokenizer and its defaults for generation.
 *
 * model_open takes MODEL of the command line: a GGUF file (recognized by content), a Hugging Face folder,
 * org/name in the local Hugging Face cache, `builtin`, or `synth:SHAPE[,key=value…]`. Weights stay in
 * the mapped files, as stored. */
#pragma once

#include "kernels/backend.h"

struct tokenizer;
struct gguf; /* core/files/gguf.h */

enum { MAX_END_TOKENS = 48 };

struct named_template {
	char *name, *text;
};

struct model {
	char name[128];  /* what the user called it, without folders */
	char path[1024]; /* resolved, or the synth: text */
	struct weight_table weights;
	/* A layer beside the model that predicts the token after the next one (multi-token prediction, MTP), with
	 * the model's embedding and head; shape.n_blocks 0: there is none that runs. */
	struct weight_table mtp;
	char mtp_note[256]; /* why a layer that the files hold does not run; empty: it does, or there is none */
	enum dtype dtype;   /* of most weight bytes: F32 models get an F32 cache */
	struct tokenizer* tokenizer;
	char* chat_template;                   /* the file's own template text, NULL when none */
	struct named_template* named_template; /* (n_named_templates) others that it has */
	int n_named_templates;
	int32_t end_token[MAX_END_TOKENS];
	int n_end_tokens;
	/* Defaults for requests that set no sampling options (generation_config.json). */
	float repetition_penalty;  /* 0: nothing */
	int no_repeat;             /* sequences of this many tokens may not occur twice; 0: they may */
	const int32_t* suppressed; /* (n_suppressed) owned by `owned`: tokens that are never generated */
	int n_suppressed;
	char fingerprint[65]; /* hex SHA-256 over shape, tokenizer and weight samples */
	size_t weight_bytes;  /* in the files */
	double parameters;
	double memory_left; /* bytes of memory that were free beside the weights when it was opened; 0: unknown */
	struct mask planted[2]; /* synth: what was planted, per task half */
	int n_planted;          /* 0 unless synth with plant= */
	const char* family;     /* "llama", "qwen2", …; NULL for synth */
	char warning[512];      /* a warning for the user when the files contradict themselves; empty for most */
	struct opened* owned;   /* the opener's mappings and arrays: core/model/bind.h */
};

struct model_options {
	bool vocabulary_only; /* for `tokenize`: a GGUF file without weights is accepted */
	/* synth: the backend makes the weights (tensor.data NULL), on a GPU */
	bool synth_on_device;
	const struct model* target; /* the one to draft for, which outlives it: a drafter is accepted that reads
	                               that model's keys (weight_table.shape.keys_outside) and has no tokenizer */
};

/* NULL with the error set. Close with model_close. */
struct model* model_open(const char* spec, const struct model_options*, struct error*);
void model_close(struct model*);
/* True when the token ends a generation. */
bool model_is_end(const struct model*, int32_t token);

/* The template for a chat, or NULL when there is none. With tools it is the template named tool_use, if there
 * is one. */
const char* model_chat_template(const struct model*, bool tools);
/* Replaces the templates by one: a template of the model by its name, or else the text of a file. */
bool model_take_template(struct model*, const char* file_or_name, struct error*);

/* The openers behind model_open. Each fills a zeroed model (weights, tokenizer, template, end tokens) and
 * stores what it allocates in model->owned, which is empty before. `path` is resolved. */
bool model_open_folder(struct model*, const char* path, const struct model_options*, struct error*);
bool model_open_gguf(struct model*, const char* path, const struct model_options*, struct error*);
bool model_open_synth(struct model*, const char* text, const struct model_options*, struct error*);
/* Frees model->owned. */
void model_free_owned(struct model*);

/* The templates of a folder (tokenizer_config.json, chat_template.jinja, additional_chat_templates/) and of a
 * GGUF file (tokenizer.chat_template, tokenizer.chat_template.NAME). None is no error. */
bool model_read_templates(struct model*, const char* folder, struct error*);
bool model_read_gguf_templates(struct model*, const struct gguf*, struct error*);
void model_free_templates(struct model*);

/* Fingerprint over shape, tokenizer pieces and a hash of weight samples. Called by model_open. */
void model_fingerprint(struct model*);
/* True when the same ids are the same pieces. Rows of the embedding beyond the pieces are padding, whose
 * number differs within a family. */
bool model_same_vocabulary(const struct model*, const struct model*);
