/* Maps a file as read-only memory. The mapping is private, so its pages are the page cache's. */
#include "core/files/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool map_descriptor(struct mapping* m, int descriptor, struct error* error) {
	struct stat status;
	if (fstat(descriptor, &status) != 0)
		return error_set(error, "%s: %s", m->path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return error_set(error, "%s: not a regular file", m->path);
	if (status.st_size == 0)
		return error_set(error, "%s: the file is empty", m->path);
	if ((uintmax_t)status.st_size > SIZE_MAX)
		return error_set(error, "%s: %jd bytes do not fit the address space", m->path,
		                 (intmax_t)status.st_size);
	m->size = (size_t)status.st_size;
	void* data = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
	if (data == MAP_FAILED)
		return error_set(error, "%s: could not be mapped: %s", m->path, strerror(errno));
	m->data = data;
	return true;
}

bool mapping_open(struct mapping* m, const char* path, struct error* error) {
	*m = (struct mapping){0};
	/* Without O_NONBLOCK, opening a FIFO would wait until somebody writes to it. */
	const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (descriptor < 0)
		return error_set(error, "%s: %s", path, strerror(errno));
	m->path = strdup(path);
	const bool mapped = m->path ? map_descriptor(m, descriptor, error) : error_set(error, "out of memory");
	close(descriptor);
	if (!mapped)
		mapping_close(m);
	return mapped;
}

void mapping_close(struct mapping* m) {
	if (m->data)
		munmap((void*)(uintptr_t)m->data, m->size);
	free(m->path);
	*m = (struct mapping){0};
}

void mapping_will_need(const struct mapping* m) {
	if (m->data)
		(void)madvise((void*)(uintptr_t)m->data, m->size, MADV_WILLNEED);
}
