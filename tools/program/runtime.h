/* Shared by the commands: a model, an engine and a session opened as the command line asks, and the mask that
 * is read and written. */
#pragma once

#include <stdio.h>

#include "core/decode/options.h"
#include "core/decode/session.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "kernels/clock.h"
#include "streams/jsonl.h"
#include "tools/program/options.h"

struct memory;
struct memory_watch;

struct runtime_wish {
	const char* model; /* -m */
	const char* alias; /* the name reports give the model */
	const char*
	    chat_template;     /* a file, or the name of one of the model's templates; it replaces the default */
	const char* mask;      /* a file to start from */
	const char* key;       /* which mask of it */
	bool force;            /* also a mask learned on another model */
	const char* save_mask; /* a file to leave the mask in */
	const char* store;     /* the store of learned masks; NULL: the usual one */
	bool no_store;
	bool shared; /* sequences share the memory of caches: by default four contexts */
};

/* Rows of a command's option table that fill a struct runtime_wish `w`. */
#define MODEL_OPTION(w)                                                                                      \
	TEXT(                                                                                                    \
	    "model", 'm', "MODEL",                                                                               \
	    "a GGUF file, a Hugging Face folder, a name that `swiftlet list`\nprints, or synth:SHAPE (builtin)", \
	    &(w).model)
#define TEMPLATE_OPTION(target)                                                                              \
	TEXT("chat-template", 0, "FILE|NAME",                                                                    \
	     "use this chat template, or the one of this name in the model,\ninstead of the model's own",        \
	     target)
#define RUNTIME_OPTIONS(w)                                                                                   \
	TEMPLATE_OPTION(&(w).chat_template),                                                                     \
	    TEXT("alias", 0, "NAME", "the model's name in reports", &(w).alias),                                 \
	    TEXT("mask", 0, "FILE", "start from the mask in this file (either format)", &(w).mask),              \
	    TEXT("key", 0, "KEY", "the key or task of the mask to take from the file", &(w).key),                \
	    FLAG("force", "take a mask even if it was learned on another model", &(w).force),                    \
	    TEXT("store", 0, "FILE",                                                                             \
	         "keep what is learned in this file, and begin with what it holds\n"                             \
	         "(~/.local/state/swiftlet/masks.db)",                                                           \
	         &(w).store),                                                                                    \
	    FLAG("no-store", "read and write no store", &(w).no_store),                                          \
	    TEXT("save-mask", 0, "FILE", "write the learned mask to this file", &(w).save_mask)

struct runtime {
	/* in */
	struct runtime_wish wish;
	struct swiftlet_options options;
	/* while it is open, else NULL */
	swiftlet_model* model;
	swiftlet_engine* engine;
	swiftlet_session* session;
	struct memory* memory; /* earlier masks; NULL with --bank off, with a given mask or without a search */
	struct memory_watch* watch; /* on the session */
	const char* name;           /* the alias, or the model's own */
	double load_seconds;
};

/* Logs the state of the quantized draft weights: always if the user asked for them or making them failed,
 * otherwise only to a terminal. */
void report_draft_weights(const struct runtime*, bool at_end);

/* Opens the model and the engine, with a progress line of draft weights if standard error is a terminal.
 * False with the error set; close in any case. */
bool runtime_open_engine(struct runtime*, struct error*);
/* Then opens the memory: with the store of --store, the usual one, or none. False with the error set. */
bool runtime_open_memory(struct runtime*, struct error*);
/* Opens both, and a session that the memory watches. OPTIONS_GO_ON, or the exit status with a message
 * printed. */
int runtime_open(struct runtime*);
/* Stores what was learned and closes; the struct can be opened again. Returns the status, or STATUS_FAILED
 * with a message if that was STATUS_DONE and storing failed. */
int runtime_close(struct runtime*, int status);

/* A line for people: the model, the backend and the size of the cache. */
void runtime_print(FILE*, const struct runtime*);

/* Writes the file of --save-mask from the run's figures; true also if there is nothing to write. */
bool runtime_save_mask(const struct runtime*, const struct swiftlet_figures*, const char* task,
                       int64_t tokens_served);

/* The mask in a file, the one of `key` if it holds several. With `force` also another model's. False with the
 * error set. */
bool mask_of_file(const char* path, const char* key, const struct model*, bool force, struct mask*,
                  struct error*);

/* ---- prompts -------------------------------------------------------------------------------- */

/* These add ids to a list; false with the error set. */

/* The ids of a prompt; BOS alone when it is empty. */
bool prompt_tokens(const swiftlet_model*, const char* text, size_t size, bool no_special, struct token_list*,
                   struct error*);
/* The ids of a text that the output is likely to follow, without the leading tokens of a prompt. */
bool expected_tokens(const swiftlet_model*, const char* text, size_t size, struct token_list*, struct error*);
struct chat_message {
	const char* role;
	const char* content;
	size_t content_size;
};
/* The ids of messages through the model's chat template. variables: the JSON text of chat_template_kwargs, or
 * NULL. */
bool chat_tokens(const swiftlet_model*, const struct chat_message*, int n_messages, const char* variables,
                 struct token_list*, struct error*);
/* The ids of a stream's line: of its prompt, or of its messages through the chat template. */
bool instance_tokens(const swiftlet_model*, const struct instance*, bool no_special, struct token_list*,
                     struct error*);

/* True when text is JSON that begins with the bracket `first`; the message calls it `what`. */
bool check_json(const char* what, const char* text, size_t size, char first, struct error*);
/* A whole file ("-": standard input) in memory, malloc'd and NUL-terminated; NULL with the error set. */
char* read_whole(const char* path, size_t* size, struct error*);
