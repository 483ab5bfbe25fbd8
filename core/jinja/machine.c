#include "core/jinja/machine.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chunk {
	struct chunk* before;
	alignas(max_align_t) char data[];
};

void machine_close(struct machine* m) {
	while (m->chunk) {
		struct chunk* const before = m->chunk->before;
		free(m->chunk);
		m->chunk = before;
	}
}

static void add_chunk(struct machine* m, size_t size) {
	size_t room = m->memory < (1 << 20) ? (64 << 10) : (1 << 20);
	if (room < size)
		room = size;
	if (room > MACHINE_MEMORY || m->memory > MACHINE_MEMORY - room)
		machine_fail(m, "the template takes more than %d MiB of memory", MACHINE_MEMORY >> 20);
	struct chunk* const chunk = malloc(sizeof *chunk + room);
	if (!chunk)
		machine_fail(m, "out of memory");
	chunk->before = m->chunk;
	m->chunk = chunk;
	m->memory += room;
	m->at = chunk->data;
	m->end = chunk->data + room;
}

void* machine_alloc(struct machine* m, size_t size) {
	const size_t align = alignof(max_align_t);
	if (size > MACHINE_MEMORY)
		machine_fail(m, "the template takes more than %d MiB of memory", MACHINE_MEMORY >> 20);
	size = size ? (size + align - 1) / align * align : align; /* nothing, too, has a place of its own */
	machine_charge(m, size);
	if ((size_t)(m->end - m->at) < size)
		add_chunk(m, size);
	void* const out = m->at;
	m->at += size;
	return out;
}

void* machine_new(struct machine* m, const void* from, size_t size) {
	return memcpy(machine_alloc(m, size), from, size);
}

void* machine_grow(struct machine* m, void* old, int* capacity, int n, size_t element) {
	if (n <= *capacity)
		return old;
	const int before = *capacity;
	int wanted = before ? before : 4;
	while (wanted < n && wanted < (1 << 29))
		wanted *= 2;
	if (wanted < n)
		machine_fail(m, "a list of more than %d elements", 1 << 29);
	void* const grown = machine_alloc(m, (size_t)wanted * element);
	if (before)
		memcpy(grown, old, (size_t)before * element);
	*capacity = wanted;
	return grown;
}

void machine_charge(struct machine* m, size_t n) {
	m->steps -= (int64_t)(n / 64) + 1;
	if (m->steps < 0)
		machine_fail(m, "the template takes more than %d steps; does it end?", MACHINE_STEPS);
}

void machine_enter(struct machine* m) {
	machine_charge(m, 0);
	if (++m->depth > MACHINE_DEPTH)
		machine_fail(m, "the template nests its calls or values deeper than %d", MACHINE_DEPTH);
}

void machine_fail(struct machine* m, const char* format, ...) {
	char text[400];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	error_set(m->error, "%s%sline %d: %s", m->reading ? m->reading : "", m->reading ? ": JSON, " : "",
	          m->line, text);
	longjmp(m->escape, 1);
}

void machine_raise(struct machine* m, const char* message, size_t size) {
	m->raised = true;
	error_set(m->error, "%.*s", (int)(size < 500 ? size : 500), message);
	longjmp(m->escape, 1);
}
