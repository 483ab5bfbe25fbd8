/* The resources of one rendering: memory that is freed at once, and budgets that end what does not end.
 *
 * Everything that a rendering makes lies in the machine's arena, so an error leaves from anywhere by longjmp
 * and nothing leaks. Budgets are counted, not timed: the same template fails at the same place on any
 * machine. */
#ifndef SWIFTLET_CORE_JINJA_MACHINE_H
#define SWIFTLET_CORE_JINJA_MACHINE_H

#include <setjmp.h>
#include <time.h>

#include "kernels/backend.h"

enum {
	MACHINE_STEPS = 8 << 20,    /* evaluations; 64 bytes of text moved or compared are one too */
	MACHINE_MEMORY = 256 << 20, /* bytes */
	MACHINE_TEXT = 32 << 20,    /* bytes of one string, the output included */
	MACHINE_DEPTH = 1200,       /* evaluations within evaluations */
	MACHINE_NESTING = 100       /* brackets and blocks within each other in the source */
};

struct chunk;

struct machine {
	struct chunk* chunk;
	char *at, *end; /* what is left of the newest chunk */
	size_t memory;  /* bytes taken from the system */
	int64_t steps;  /* left */
	int depth, line;
	const char* reading; /* the variable whose JSON is read, or NULL: the template */
	bool raised;         /* the error is raise_exception's */
	struct error* error;
	jmp_buf escape;
	time_t now;
};

void machine_close(struct machine*);

/* Never NULL; not zeroed; aligned for anything. Fails when the budget is spent. */
void* machine_alloc(struct machine*, size_t size);
#define MACHINE_NEW(m, type, ...) machine_new(m, &(type){__VA_ARGS__}, sizeof(type))
/* A copy of what is given. */
void* machine_new(struct machine*, const void* from, size_t size);
/* An array of at least n elements that holds the old ones; *capacity is updated. */
void* machine_grow(struct machine*, void* old, int* capacity, int n, size_t element);

/* Counts the work of n bytes. */
void machine_charge(struct machine*, size_t n);
/* One evaluation deeper; `leave` comes back. Both are for whatever calls itself. */
void machine_enter(struct machine*);
static inline void machine_leave(struct machine* m) { m->depth--; }

/* Leaves with "line N: …". */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), noreturn))
#endif
void machine_fail(struct machine*, const char* format, ...);
/* Leaves with raise_exception's message. */
_Noreturn void machine_raise(struct machine*, const char* message, size_t size);

#endif
