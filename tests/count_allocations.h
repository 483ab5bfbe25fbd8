/* Counts the calls of malloc and its kin, for tests that forbid them: included once by a test program, whose
 * own malloc then stands before the C library's. If that cannot be done (a sanitizer or another C library
 * has the allocator) ALLOCATIONS_COUNTED is 0 and the test skips itself. */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ALLOCATIONS_COUNTED 0
#else
#define ALLOCATIONS_COUNTED 1

static atomic_int allocations;

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

/* Seen by the C library's own functions too (qsort, strdup), though the project's symbols are hidden. */
#pragma GCC visibility push(default)
void* malloc(size_t bytes) {
	atomic_fetch_add(&allocations, 1);
	return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
	atomic_fetch_add(&allocations, 1);
	return __libc_calloc(n, bytes);
}
void* realloc(void* p, size_t bytes) {
	atomic_fetch_add(&allocations, 1);
	return __libc_realloc(p, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
	atomic_fetch_add(&allocations, 1);
	return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** p, size_t alignment, size_t bytes) {
	atomic_fetch_add(&allocations, 1);
	*p = __libc_memalign(alignment, bytes);
	return *p ? 0 : ENOMEM;
}
void free(void* p) {
	if (p)
		atomic_fetch_add(&allocations, 1);
	__libc_free(p);
}
#pragma GCC visibility pop

/* Whether the count sees what the C library itself allocates; else a test that finds nothing shows nothing.
 */
static inline int allocations_are_seen(void) {
	const int before = atomic_load(&allocations);
	free(strdup("a string"));
	return atomic_load(&allocations) - before == 2;
}
#endif

static inline int allocations_not_counted(void) {
	puts("skipped: the allocator cannot be counted here (a sanitizer or another C library has it)");
	return 77;
}
