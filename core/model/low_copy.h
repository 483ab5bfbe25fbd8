/* A model's low-bit copy for drafting, found in its cache file or made.
 *
 * Files lie in one folder, <fingerprint>-<type>.low, and woven ones, and those without a head,
 * …-woven.low and …-blocks.low. What is in one is copied
 * to huge pages, which are read a fifth faster than a mapped file's; where there is no memory for that it
 * stays mapped. One that is damaged or of another make is made anew. What cannot be written stays in memory,
 * with a warning. */
#ifndef SWIFTLET_CORE_MODEL_LOW_COPY_H
#define SWIFTLET_CORE_MODEL_LOW_COPY_H

#include "core/files/mapping.h"
#include "core/model/model.h"
#include "kernels/low.h"

struct low_copy {
	struct low_table table; /* placed and filled; bytes 0: the weights are as small already */
	bool found;             /* in its file, not made */
	void* memory;           /* its bytes; NULL when they are mapped */
	struct mapping file;
	double seconds;    /* that finding or making it took */
	char folder[900];  /* of its file */
	char path[1024];   /* of its file; "" without one */
	char warning[512]; /* why a file was not used or not written; "" */
};

struct low_wish {
	struct low_form form; /* woven and coarse_head as the backend says that runs it */
	double most_bytes;    /* a larger copy is refused; 0: a quarter of the memory that is available */
	const char* folder;   /* of the files, made when missing; NULL: nothing is kept */
	int threads;          /* that make it; 0: one for each CPU that the process may use */
	void (*progress)(void* user, double share); /* of making it; may be NULL */
	void* user;
};

/* Plans the copy and names its file. The model must outlive the copy. False with the error set when it does
 * not fit. Close in any case. */
bool low_copy_plan(struct low_copy*, const struct model*, const struct low_wish*, struct error*);
/* What comes after the plan, each at most once, from whatever thread: taking the file's bytes, where there is
 * a good one; memory to make it in, false with the error set when there is none; keeping in the file what was
 * made there. */
bool low_copy_find(struct low_copy*, const struct model*);
bool low_copy_take_memory(struct low_copy*, struct error*);
void low_copy_keep(struct low_copy*, const struct model*);
/* All of it at once: planned, and found or made on all threads. False with the error set when it does not
 * fit, or there is no memory for it. Close in any case. */
bool low_copy_open(struct low_copy*, const struct model*, const struct low_wish*, struct error*);
void low_copy_close(struct low_copy*);

/* Starts that end before a copy was made in the background leave a word: the seconds that they decoded
 * without it, beside where its file would be. The sum of those, 0 where nothing is kept; and adding to it. */
double low_copy_missed(const struct low_copy*);
void low_copy_miss(const struct low_copy*, double seconds);
/* Seconds that making it on so many threads (0: one for each CPU that the process may use) takes, about. */
double low_copy_effort(const struct low_copy*, int threads);

/* Where files are kept when nothing else is said: swiftlet in $XDG_CACHE_HOME, else in ~/.cache. False when
 * neither is known. */
bool low_copy_folder(char out[1024]);
/* Bytes that programs may still take, of the machine and of the process's control group, by the system's own
 * estimate; 0: unknown. */
double low_memory_available(void);
/* The bits that a model's copy should have; 0: none, since its weights are as small already, or lie in the
 * processor's cache, where fewer bytes are not less time. */
int low_bits_for(const struct model*);
/* Whether a copy of the head in four bits is worth its memory for the certified head: a step reads no little
 * part of its bytes there, and not from the processor's cache. */
bool low_head_pays(const struct weight_table*);

#endif
