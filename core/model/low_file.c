/* Checking and writing the file of a low-bit copy. */
#include "core/model/low_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct head {
	char magic[8];
	uint64_t version, type, items;
	char fingerprint[64];
	uint64_t bytes, layout, content;
	uint64_t check; /* of all before it */
};
_Static_assert(sizeof(struct head) == LOW_FILE_HEAD, "the head has no gaps");

static const char MAGIC[8] = {'s', 'w', 'i', 'f', 't', 'l', 'o', 'w'};

/* ---- checksums ------------------------------------------------------------------------------ */

static const uint64_t ODD = 0x9e3779b97f4a7c15u;

/* Eight running words, each a bijection of what it takes in, so that no single damaged word goes unseen. n
 * in words. */
static uint64_t checksum(const void* bytes, size_t n) {
	const uint64_t* word = bytes;
	uint64_t lane[8] = {1, 2, 3, 4, 5, 6, 7, 8}, all = n;
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		for (size_t l = 0; l < 8; l++) {
			lane[l] = (lane[l] ^ word[i + l]) * ODD;
			lane[l] ^= lane[l] >> 29;
		}
	for (; i < n; i++)
		lane[i % 8] = (lane[i % 8] ^ word[i]) * ODD;
	for (size_t l = 0; l < 8; l++) {
		all = (all ^ lane[l]) * ODD;
		all ^= all >> 32;
	}
	return all;
}

static uint64_t layout_of(const struct low_table* low) {
	uint64_t all = (uint64_t)low->n_items;
	for (int i = 0; i < low->n_items; i++) {
		const struct low_item* item = &low->item[i];
		const uint64_t words[] = {all,
		                          (uint64_t)item->copy->type | (uint64_t)item->copy->woven << 32,
		                          (uint64_t)item->copy->rows,
		                          (uint64_t)item->copy->cols,
		                          item->offset,
		                          item->bytes};
		all = checksum(words, sizeof words / sizeof *words);
	}
	return all;
}

/* What the file's head has to be, but for the content's checksum. */
static struct head head_of(const struct low_table* low, const char fingerprint[65]) {
	struct head h = {.version = LOW_VERSION,
	                 .type = (uint64_t)low->type,
	                 .items = (uint64_t)low->n_items,
	                 .bytes = low->bytes};
	memcpy(h.magic, MAGIC, sizeof h.magic);
	memcpy(h.fingerprint, fingerprint, sizeof h.fingerprint);
	h.layout = layout_of(low);
	return h;
}

static uint64_t head_check(const struct head* h) { return checksum(h, sizeof *h / 8 - 1); }

/* ---- checking ------------------------------------------------------------------------------- */

static bool number_is(uint64_t found, uint64_t expected, const char* field, const char* path,
                      struct error* error) {
	return found == expected ||
	       error_set(error, "%.300s: its %s is %" PRIu64 ", expected %" PRIu64, path, field, found, expected);
}

bool low_file_check(const void* file, size_t size, const struct low_table* low, const char fingerprint[65],
                    const char* path, struct error* error) {
	struct head h;
	const struct head expected = head_of(low, fingerprint);
	if (size < sizeof h)
		return error_set(error, "%.300s: %zu bytes, expected a head of %zu", path, size, sizeof h);
	memcpy(&h, file, sizeof h);
	if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0)
		return error_set(error, "%.300s: not a low-bit copy of a model", path);
	if (memcmp(h.fingerprint, expected.fingerprint, sizeof h.fingerprint) != 0)
		return error_set(error, "%.300s: made of another model", path);
	return number_is(h.check, head_check(&h), "head's checksum", path, error) &&
	       number_is(h.version, expected.version, "version", path, error) &&
	       number_is(h.type, expected.type, "type", path, error) &&
	       number_is(h.items, expected.items, "number of matrices", path, error) &&
	       number_is(h.bytes, expected.bytes, "size of the copy", path, error) &&
	       number_is(h.layout, expected.layout, "layout's checksum", path, error) &&
	       number_is(size, sizeof h + low->bytes, "size", path, error) &&
	       number_is(h.content, checksum((const unsigned char*)file + sizeof h, low->bytes / 8),
	                 "content's checksum", path, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The file in the making, locked; -1 with errno: 0 when another process has it. A leftover of a process that
 * died is taken over. */
static int open_part(const char* part) {
	for (;;) {
		struct stat mine, there;
		const int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			const int why = errno == EWOULDBLOCK ? 0 : errno;
			close(fd);
			errno = why;
			return -1;
		}
		/* the one who had the lock may have renamed the file meanwhile: it is finished, not to be touched */
		if (fstat(fd, &mine) == 0 && stat(part, &there) == 0 && mine.st_ino == there.st_ino &&
		    mine.st_dev == there.st_dev)
			return fd;
		close(fd);
	}
}

static bool write_all(int fd, const void* bytes, size_t n) {
	const unsigned char* at = bytes;
	while (n > 0) {
		const ssize_t wrote = write(fd, at, n < (size_t)64 << 20 ? n : (size_t)64 << 20);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return false;
		at += wrote;
		n -= (size_t)wrote;
	}
	return true;
}

/* A limit on file sizes raises a signal that would end the program: here it is an error like others. */
static bool write_copy(int fd, const struct head* h, const void* data, size_t bytes) {
	sigset_t limit, before;
	sigemptyset(&limit);
	sigaddset(&limit, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &limit, &before);
	const bool wrote =
	    ftruncate(fd, 0) == 0 && write_all(fd, h, sizeof *h) && write_all(fd, data, bytes) && fsync(fd) == 0;
	const int why = errno;
	if (!wrote && why == EFBIG)
		(void)sigtimedwait(&limit, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = why;
	return wrote;
}

bool low_file_write(const char* path, const struct low_table* low, const char fingerprint[65],
                    const void* data, struct error* error) {
	char part[1100];
	struct head h = head_of(low, fingerprint);
	h.content = checksum(data, low->bytes / 8);
	h.check = head_check(&h);
	if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
		return error_set(error, "%.300s…: the path is too long", path);
	const int fd = open_part(part);
	if (fd < 0)
		return errno == 0 || error_set(error, "%.300s: %s", part, strerror(errno));
	bool done = write_copy(fd, &h, data, low->bytes);
	done = done && rename(part, path) == 0;
	if (!done) {
		error_set(error, "%.300s: %s", part, strerror(errno));
		unlink(part);
	}
	close(fd);
	return done;
}
