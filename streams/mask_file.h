/* Mask files: learned masks to keep, to look at and to share.
 *
 * Two formats are read, recognised by content, and written:
 * - ours: {"format": "swiftlet-mask-1", "model", "fingerprint", "blocks", "task", "attention", "mlp",
 *   "matchness", "alpha", "M", "skip_ratio", "tokens_served"}, or an array of these;
 * - the same with "format": "swiftlet-mask-2" and "levels": {"attention": [a, b, c], "attention_output",
 *   "mlp", "down"}, the shares of channels that a draft reads of what it does not skip, in the first, middle
 *   and last third of the blocks;
 * - skip_layers, the published code's: {"<model>_<task>": {"attention": […], "mlp": […]}, …}, where the
 *   name is a key as a whole and never split.
 * Blocks are 0-based. Reading a file does not check its blocks against a model: mask_entry_fits does. */
#pragma once

#include "kernels/backend.h"
#include "streams/text.h"

enum mask_format { MASK_FORMAT_SWIFTLET, MASK_FORMAT_SKIP_LAYERS };

enum { MASK_KEY = 256 }; /* bytes of a key, its NUL counted */

struct mask_entry {
	char key[MASK_KEY];   /* the name in skip_layers; "" in our own format */
	char model[128];      /* "" unknown */
	char fingerprint[65]; /* hex, "" unknown: skip_layers has none */
	char task[256];       /* "" none */
	int blocks;           /* L, 0 unknown */
	struct mask mask;
	double matchness, alpha, mean_generated, skip_ratio; /* NaN unknown; mean_generated is M */
	int64_t tokens_served;
};

struct mask_list {
	struct mask_entry* entry; /* (n) */
	int n;
};

/* An entry without data: NaN figures, no names, an empty mask. */
void mask_entry_start(struct mask_entry*);
void mask_list_free(struct mask_list*);
bool mask_list_append(struct mask_list*, const struct mask_entry*); /* false: out of memory */

/* Reads a text in either format. Messages name the file `name`. Appends to the list, which is unchanged on
 * failure. At most 4,096 masks. */
bool mask_text_read(const char* text, size_t size, const char* name, struct mask_list*, struct error*);
bool mask_file_read(const char* path, struct mask_list*, struct error*);

/* The text of n masks, malloc'd, with a final newline: one mask as an object, several as an array (ours)
 * or one object of all (skip_layers). NULL with the error set (two masks of one key, no memory). */
char* mask_text(const struct mask_entry* entry, int n, enum mask_format, struct error*);
/* Writes the text beside the path and renames it, so that a failure leaves the old file. */
bool mask_file_write(const char* path, const struct mask_entry* entry, int n, enum mask_format,
                     struct error*);

/* The key of the entry: its own, or model_task, or the one of the two that is known, cut to fit. False when
 * it was cut. */
bool mask_entry_key(const struct mask_entry*, char* key, size_t size);
/* Chooses one entry: by `key` (an entry's key or its task) if that is not NULL; else the only one, else the
 * only one with that fingerprint. NULL with an error that lists the keys. */
const struct mask_entry* mask_list_pick(const struct mask_list*, const char* key, const char* fingerprint,
                                        const char* name, struct error*);
/* True when the mask fits a model of `blocks` blocks: it names no block beyond them and neither the first nor
 * the last, its L is the same if given, and so is the fingerprint unless `force`. Messages name `name`. */
bool mask_entry_fits(const struct mask_entry*, int blocks, const char* fingerprint, bool force,
                     const char* name, struct error*);

/* "swiftlet-mask-1", or -2 for a mask with stored sub-layers or levels. */
const char* mask_format_name(const struct mask*);
/* "attention":[…],"mlp":[…] */
void mask_put_blocks(struct text*, const struct mask*);
/* The member "levels" with a comma before it, if the mask has it. */
void mask_put_states(struct text*, const struct mask*);
/* Adds a member that lists blocks from 0 to blocks - 1 (0: MAX_BLOCKS - 1), each once, to what is skipped of
 * a kind (0: attention, 1: MLP). False with the error set. */
struct cJSON;
bool mask_read_blocks(const struct cJSON* object, const char* field, int kind, int blocks, struct mask*,
                      struct error*);
/* Reads the member "levels" into the mask, rounded to per cents; absent and null mean none. False for another
 * shape, or a share under 0.01 or over 1; MASK_LEVELS is the expected form. */
bool mask_read_levels(const struct cJSON* object, struct mask*);
#define MASK_LEVELS                                                                                          \
	"{\"attention\": [a, b, c], \"attention_output\": ..., \"mlp\": ..., \"down\": ...}, each three shares " \
	"from "                                                                                                  \
	"0.01 to 1"

/* Lists blocks of one kind (0 attention, 1 MLP) in ascending order; returns how many. blocks (MAX_BLOCKS) */
int mask_blocks(const struct mask*, int kind, int* blocks);
