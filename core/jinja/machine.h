/* The resources of one rendering: memory that is freed at once, and budgets that stop endless templates.
 *
 * All values of a rendering lie in the machine's arena. So an error can leave by longjmp without a leak.
 * Budgets are counted, not timed, so that a template fails at the same place on any machine. */
#pragma once

#include <setjmp.h>
#include <time.h>

#include "kernels/backend.h"

enum {
	MACHINE_STEPS = 8 << 20,    /* evaluations; 64 bytes of moved or compared text count as one */
	MACHINE_MEMORY = 256 << 20, /* bytes */
	MACHINE_TEXT = 32 << 20,    /* bytes of one string, such as the output */
	MACHINE_DEPTH = 1200,       /* evaluations within evaluations */
	MACHINE_NESTING = 100       /* nested brackets and blocks in the source */
};

struct chunk;

struct machine {
	struct chunk* chunk;
	char *at, *end; /* what is left of the newest chunk */
	size_t memory;  /* bytes taken from the system */
	int64_t steps;  /* left */
	int depth, line;
	const char* reading; /* the variable whose JSON is being read, or NULL: the template */
	bool raised;         /* the error is raise_exception's */
	struct error* error;
	jmp_buf escape;
	time_t now;
};

void machine_close(struct machine*);

/* Never NULL; not zeroed; aligned for any type. Fails when the budget is spent. */
void* machine_alloc(struct machine*, size_t size);
#define MACHINE_NEW(m, type, ...) machine_new(m, &(type){__VA_ARGS__}, sizeof(type))
/* A copy of what is given. */
void* machine_new(struct machine*, const void* from, size_t size);
/* An array of at least n elements with the old ones' contents; updates *capacity. */
void* machine_grow(struct machine*, void* old, int* capacity, int n, size_t element);

/* Counts the work of n bytes. */
void machine_charge(struct machine*, size_t n);
/* Enters one more level of evaluation; `leave` returns. Every recursive function calls both. */
void machine_enter(struct machine*);
static inline void machine_leave(struct machine* m) { m->depth--; }

/* Leaves with "line N: …". */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), noreturn))
#endif
void machine_fail(struct machine*, const char* format, ...);
/* Leaves with raise_exception's message. */
_Noreturn void machine_raise(struct machine*, const char* message, size_t size);
