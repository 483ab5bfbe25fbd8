/* The file names, the thread that writes, and reading. The folder itself is the index. */
#include "streams/memory/prompt_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include "core/model/sha256.h"
#include "kernels/pages.h"
#include "streams/log.h"

enum {
	NAME = 64,
	QUEUED_BYTES = 64 << 20,
	/* Other requests wait while pages are read. So reading takes no longer than this, beyond a few pages that
	 * are always worth it. */
	READ_BYTES = 16 << 20,
	READ_TIME = 100000000 /* nanoseconds */
};

/* A file, in the machine's byte order. Another byte order gives another program hash, and so another name. */
struct page_file {
	char magic[8];
	uint64_t bytes, check; /* of the content after the header; hash over all that follows */
	char name[NAME];
	int32_t token[PAGE_SLOTS];
	unsigned char content[];
};
static const char magic[8] = {'s', 'w', 'p', 'a', 'g', 'e', '2', '\n'};

struct waiting_page {
	struct waiting_page* next;
	size_t size;
	char name[NAME + 1];
	struct page_file* file;
};

struct prompt_cache {
	int folder, lock_file;
	char* path;
	int64_t limit;
	char program[65], model[65];
	const char (*tenant)[PROMPT_CACHE_NAME]; /* the caller's */
	struct page_file* read;                  /* a file that is looked at, of at most read_size bytes */
	size_t read_size;
	pthread_t thread;
	bool started, failed; /* failed: the thread's */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t work;
	struct waiting_page *first, *last;
	size_t waiting_bytes;
	bool stop;
	struct prompt_cache_counts counts;
};

/* ---- names and checks --------------------------------------------------------------------- */

/* Hashes the program's own file: another build may compute other bits. */
static bool name_program(char name[65]) {
	unsigned char buffer[65536];
	struct sha256 hash;
	sha256_start(&hash);
	FILE* f = fopen("/proc/self/exe", "rb");
	for (size_t n; f && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
		sha256_add(&hash, buffer, n);
	sha256_end(&hash, name);
	const bool whole = f && !ferror(f);
	if (f)
		fclose(f);
	return whole;
}

static void name_both(char name[65], const void* first, size_t n, const void* second, size_t m) {
	struct sha256 hash;
	sha256_start(&hash);
	sha256_add(&hash, first, n);
	sha256_add(&hash, second, m);
	sha256_end(&hash, name);
}

static void name_start(const struct prompt_cache* p, const struct cache* cache, int tenant,
                       char name[NAME + 1]) {
	char text[512];
	const int n = snprintf(text, sizeof text, "swiftlet page 1\n%s\n%s\n%s\n%s\n%s\n", p->program, p->model,
	                       cache->backend->name, dtype_name(cache->type), p->tenant[tenant]);
	name_both(name, text, (size_t)n, "", 0);
}

void prompt_cache_tenant(const char* key, char name[PROMPT_CACHE_NAME]) {
	static const char purpose[] = "swiftlet tenant: ";
	name_both(name, purpose, sizeof purpose - 1, key, strlen(key));
}

/* The name of a page, from the name of the page before it and its tokens. */
static void name_next(char name[NAME + 1], const int32_t* token) {
	name_both(name, name, NAME, token, PAGE_SLOTS * sizeof *token);
}

/* The name of the state behind a page of that name. */
static void name_state(char name[NAME + 1], const char* page) {
	static const char kind[] = "swiftlet state: ";
	name_both(name, kind, sizeof kind - 1, page, NAME);
}

static bool is_name(const char* text) { return strspn(text, "0123456789abcdef") == NAME && !text[NAME]; }

/* Guards against damage, not against malice: only the folder's user can write to it. */
static uint64_t compute_checksum(const unsigned char* bytes, size_t size) {
	uint64_t h = 0x9e3779b97f4a7c15u ^ size;
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

static uint64_t check_of(const struct page_file* f) {
	const unsigned char* from = (const unsigned char*)f->name;
	return compute_checksum(from, sizeof *f - offsetof(struct page_file, name) + f->bytes);
}

static bool file_is_good(const struct page_file* f, size_t size, size_t bytes, const char* name,
                         const int32_t* token) {
	return size == sizeof *f + bytes && memcmp(f->magic, magic, sizeof magic) == 0 && f->bytes == bytes &&
	       memcmp(f->name, name, NAME) == 0 && memcmp(f->token, token, sizeof f->token) == 0 &&
	       f->check == check_of(f);
}

/* ---- the folder --------------------------------------------------------------------------- */

struct kept_file {
	char name[NAME + 1];
	int64_t bytes, used; /* the file's time of change, in nanoseconds */
};

static int by_use(const void* a, const void* b) {
	const int64_t x = ((const struct kept_file*)a)->used, y = ((const struct kept_file*)b)->used;
	return (x > y) - (x < y);
}

static int is_page(const struct dirent* d) { return is_name(d->d_name); }

/* Counts the files. Above the size limit it removes those unused the longest, and some more to have room. A
 * half-written file of a killed process is replaced by the next write to it. */
static bool keep_to_size(struct prompt_cache* p, struct error* e) {
	struct dirent** found;
	const int n = scandir(p->path, &found, is_page, NULL);
	if (n < 0)
		return error_set(e, "%s cannot be read: %s", p->path, strerror(errno));
	struct kept_file* list = calloc((size_t)n + 1, sizeof *list);
	int64_t bytes = 0;
	for (int i = 0; i < n; i++) {
		struct stat s;
		if (list && fstatat(p->folder, found[i]->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0) {
			memcpy(list[i].name, found[i]->d_name, sizeof list[i].name);
			list[i].used = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
			bytes += list[i].bytes = s.st_size;
		}
		free(found[i]);
	}
	free(found);
	if (!list)
		return error_set(e, "out of memory");
	qsort(list, (size_t)n, sizeof *list, by_use);
	const int64_t most = bytes > p->limit ? p->limit - p->limit / 16 : p->limit;
	for (int i = 0; i < n && bytes > most; i++) {
		unlinkat(p->folder, list[i].name, 0);
		bytes -= list[i].bytes;
	}
	free(list);
	pthread_mutex_lock(&p->lock);
	p->counts.bytes = bytes;
	pthread_mutex_unlock(&p->lock);
	return true;
}

static int64_t clock_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A prefix counts as used later than the pages after it, which are useless without it. */
static void touch_file(const struct prompt_cache* p, const char* name, int64_t used) {
	const struct timespec t = {.tv_sec = (time_t)(used / 1000000000), .tv_nsec = (long)(used % 1000000000)};
	utimensat(p->folder, name, (const struct timespec[2]){t, t}, 0);
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool write_all(int to, const void* from, size_t size) {
	for (const char* at = from; size > 0;) {
		const ssize_t n = write(to, at, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

static bool write_file(const struct prompt_cache* p, const struct waiting_page* w) {
	static const char fresh[] = "page.new";
	const int to = openat(p->folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return false;
	w->file->check = check_of(w->file);
	bool good = write_all(to, w->file, w->size) && fsync(to) == 0;
	good &= close(to) == 0;
	good = good && renameat(p->folder, fresh, p->folder, w->name) == 0;
	if (!good)
		unlinkat(p->folder, fresh, 0);
	return good;
}

/* Logs a problem once each time that it begins. */
static void note_written(struct prompt_cache* p, const struct waiting_page* w, const char* problem) {
	struct error ignored;
	pthread_mutex_lock(&p->lock);
	if (!problem)
		p->counts.bytes += (int64_t)w->size;
	const bool over = p->counts.bytes > p->limit;
	pthread_mutex_unlock(&p->lock);
	if (over)
		keep_to_size(p, &ignored);
	if (problem && !p->failed)
		log_line("swiftlet: the prompt cache in %s cannot be written: %s", p->path, problem);
	p->failed = problem != NULL;
	pthread_mutex_lock(&p->lock);
	p->counts.kept += !problem;
	p->waiting_bytes -= w->size;
	p->first = w->next;
	pthread_mutex_unlock(&p->lock);
}

/* Only this thread removes from the queue, so the first job stays there while it is written. */
static void* write_what_waits(void* user) {
	struct prompt_cache* p = user;
	for (;;) {
		pthread_mutex_lock(&p->lock);
		while (!p->first && !p->stop)
			pthread_cond_wait(&p->work, &p->lock);
		struct waiting_page* w = p->first;
		pthread_mutex_unlock(&p->lock);
		if (!w)
			return NULL;
		note_written(p, w, write_file(p, w) ? NULL : strerror(errno));
		free(w->file);
		free(w);
	}
}

/* A copy of a page, or of the state behind it; NULL: there is none, or no memory. */
static struct waiting_page* copy_part(const struct cache* cache, int page, bool state, const char* name,
                                      const int32_t* token) {
	const struct backend* b = cache->backend;
	const size_t bytes = (state ? b->state_bytes : b->page_bytes)(cache);
	struct waiting_page* w = calloc(1, sizeof *w);
	struct page_file* f = w ? malloc(sizeof *f + bytes) : NULL;
	if (!f || !(state ? b->state_save : b->page_save)(cache, page, f->content)) {
		free(f);
		free(w);
		return NULL;
	}
	memcpy(f->magic, magic, sizeof magic);
	f->bytes = bytes;
	memcpy(f->name, name, NAME);
	memcpy(f->token, token, sizeof f->token);
	memcpy(w->name, name, NAME + 1);
	w->file = f;
	w->size = sizeof *f + bytes;
	return w;
}

/* True when there is a file of that name or it waits to be written. *room: whether the queue has any. */
static bool is_taken(struct prompt_cache* p, const char* name, bool* room) {
	pthread_mutex_lock(&p->lock);
	const struct waiting_page* w = p->first;
	while (w && strcmp(w->name, name) != 0)
		w = w->next;
	*room = p->waiting_bytes < QUEUED_BYTES;
	pthread_mutex_unlock(&p->lock);
	return w || faccessat(p->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Queues a page, or the state behind it, unless it has a file. False where no more can be queued. */
static bool keep_part(struct prompt_cache* p, const struct cache* cache, int page, bool state,
                      const char* name, const int32_t* token) {
	bool room;
	if (is_taken(p, name, &room))
		return true;
	struct waiting_page* w = room ? copy_part(cache, page, state, name, token + page * PAGE_SLOTS) : NULL;
	if (!w)
		return false;
	pthread_mutex_lock(&p->lock);
	*(p->first ? &p->last->next : &p->first) = w;
	p->last = w;
	p->waiting_bytes += w->size;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
	return true;
}

/* Pages of the prefix that are of use: with recurrent blocks those up to the last state. */
static int count_useful(const struct cache* cache, int n) {
	int pages = n / PAGE_SLOTS;
	while (cache->backend->state_save && pages > 0 && !cache->backend->state_save(cache, pages - 1, NULL))
		pages--;
	return pages;
}

void prompt_cache_keep(struct prompt_cache* p, struct cache* cache, int tenant, const int32_t* token, int n) {
	const int pages = count_useful(cache, n);
	char name[NAME + 1], state[NAME + 1];
	name_start(p, cache, tenant, name);
	for (int page = 0; page < pages; page++) {
		name_next(name, token + page * PAGE_SLOTS);
		if (!keep_part(p, cache, page, false, name, token))
			return;
	}
	if (pages == 0 || !cache->backend->state_save)
		return;
	name_state(state, name);
	keep_part(p, cache, pages - 1, true, state, token);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Reads as much of the file as fits; -1 when there is no file. */
static ssize_t read_file(struct prompt_cache* p, const char* name) {
	struct stat s;
	size_t have = 0;
	const int from = openat(p->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (from < 0)
		return -1;
	bool more = fstat(from, &s) == 0 && S_ISREG(s.st_mode) && (uint64_t)s.st_size <= p->read_size;
	while (more && have < p->read_size) {
		const ssize_t n = read(from, (char*)p->read + have, p->read_size - have);
		more = n > 0;
		have += more ? (size_t)n : 0;
	}
	close(from);
	return (ssize_t)have;
}

/* Reads a whole file's content, of so many bytes, to p->read. False where there is none, or a damaged one,
 * which is removed. token (PAGE_SLOTS) */
static bool read_content(struct prompt_cache* p, const char* name, const int32_t* token, size_t bytes) {
	const size_t size = sizeof *p->read + bytes;
	struct error ignored;
	if (p->read_size < size + 1) { /* one more, so that a longer file shows */
		free(p->read);
		p->read = malloc(size + 1);
		p->read_size = p->read ? size + 1 : 0;
	}
	const ssize_t had = p->read ? read_file(p, name) : -1;
	if (had < 0)
		return false;
	if (file_is_good(p->read, (size_t)had, bytes, name, token))
		return true;
	log_line("swiftlet: %s/%s was damaged and has been removed", p->path, name);
	unlinkat(p->folder, name, 0);
	pthread_mutex_lock(&p->lock);
	p->counts.damaged++;
	pthread_mutex_unlock(&p->lock);
	keep_to_size(p, &ignored);
	return false;
}

static bool bring_page(struct prompt_cache* p, struct cache* cache, const char* name, const int32_t* token) {
	if (!read_content(p, name, token, cache->backend->page_bytes(cache)))
		return false;
	if (cache->committed % PAGE_SLOTS != 0)
		cache->backend->truncate(cache, cache->committed / PAGE_SLOTS * PAGE_SLOTS);
	return cache->backend->page_restore(cache, token, p->read->content);
}

static bool has_file(const struct prompt_cache* p, const char* name) {
	return faccessat(p->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The pages of a text up to the last state that has a file, if all pages before it have files. */
static int find_state(const struct prompt_cache* p, const struct cache* cache, int tenant,
                      const int32_t* token, int n) {
	char name[NAME + 1], state[NAME + 1];
	int pages = 0;
	name_start(p, cache, tenant, name);
	for (int page = 0; (page + 1) * PAGE_SLOTS <= n; page++) {
		name_next(name, token + page * PAGE_SLOTS);
		name_state(state, name);
		if (!has_file(p, name))
			break;
		if (has_file(p, state))
			pages = page + 1;
	}
	return pages;
}

/* The same as prompt_cache_bring where pages are of use only down to one with a state. What was read of the
 * pages stays in memory if there is no time for the others, so that the next request gets on. Returns how
 * many files were read. */
static int64_t bring_to_state(struct prompt_cache* p, struct cache* cache, int tenant, const int32_t* token,
                              int n) {
	const struct backend* b = cache->backend;
	const int64_t now = clock_now();
	const int pages = find_state(p, cache, tenant, token, n);
	const bool needed = pages * PAGE_SLOTS > cache->committed;
	char name[NAME + 1], state[NAME + 1];
	int64_t found = 0;
	name_start(p, cache, tenant, name);
	if (needed)
		b->truncate(cache, cache->committed / PAGE_SLOTS * PAGE_SLOTS);
	const int held = cache->committed;
	bool good = true;
	for (int page = 0; page < pages && good; page++) {
		const int32_t* of_page = token + page * PAGE_SLOTS;
		name_next(name, of_page);
		touch_file(p, name, now - page);
		if (!needed || page * PAGE_SLOTS < held || b->page_restore(cache, of_page, NULL))
			continue;
		good = (found * (int64_t)b->page_bytes(cache) <= READ_BYTES || clock_now() - now <= READ_TIME) &&
		       bring_page(p, cache, name, of_page);
		found += good;
	}
	name_state(state, name);
	if (good && pages > 0)
		touch_file(p, state, now - pages);
	good = good && needed && read_content(p, state, token + (pages - 1) * PAGE_SLOTS, b->state_bytes(cache));
	if (good)
		b->state_restore(cache, p->read->content);
	else if (needed)
		b->truncate(cache, held);
	return found + good;
}

/* The pages that the cache does not hold; returns how many were read. */
static int64_t bring_pages(struct prompt_cache* p, struct cache* cache, int tenant, const int32_t* token,
                           int n) {
	char name[NAME + 1];
	const int64_t now = clock_now();
	const int held = cache->committed / PAGE_SLOTS;
	int64_t found = 0;
	name_start(p, cache, tenant, name);
	for (int page = 0; (page + 1) * PAGE_SLOTS <= n; page++) {
		const int32_t* of_page = token + page * PAGE_SLOTS;
		if (found * (int64_t)cache->backend->page_bytes(cache) > READ_BYTES && clock_now() - now > READ_TIME)
			break;
		name_next(name, of_page);
		if (page >= held && !bring_page(p, cache, name, of_page))
			break;
		found += page >= held;
		touch_file(p, name, now - page);
	}
	return found;
}

void prompt_cache_bring(struct prompt_cache* p, struct cache* cache, int tenant, const int32_t* token,
                        int n) {
	if (cache->pending > 0)
		cache->backend->discard(cache);
	/* pages in memory need no files; the last row has to be computed anyway */
	cache->backend->adopt(cache, token, n - 1);
	const int64_t found =
	    (cache->backend->state_save ? bring_to_state : bring_pages)(p, cache, tenant, token, n - 1);
	pthread_mutex_lock(&p->lock);
	p->counts.found += found;
	pthread_mutex_unlock(&p->lock);
}

void prompt_cache_count(struct prompt_cache* p, struct prompt_cache_counts* out) {
	pthread_mutex_lock(&p->lock);
	*out = p->counts;
	pthread_mutex_unlock(&p->lock);
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool open_folder(struct prompt_cache* p, struct error* e) {
	if (mkdir(p->path, 0700) != 0 && errno != EEXIST)
		return error_set(e, "--prompt-cache: %s cannot be made: %s", p->path, strerror(errno));
	p->folder = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->lock_file =
	    p->folder < 0 ? -1 : openat(p->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->lock_file < 0)
		return error_set(e, "--prompt-cache: %s cannot be used: %s", p->path, strerror(errno));
	if (flock(p->lock_file, LOCK_EX | LOCK_NB) != 0)
		return error_set(e, "--prompt-cache: another server uses %s", p->path);
	return keep_to_size(p, e);
}

struct prompt_cache* prompt_cache_open(const char* folder, int64_t bytes, const char* model,
                                       const char (*tenant)[PROMPT_CACHE_NAME], struct error* e) {
	struct prompt_cache* p = calloc(1, sizeof *p);
	if (!p) {
		error_set(e, "out of memory");
		return NULL;
	}
	p->folder = p->lock_file = -1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	p->limit = bytes;
	p->path = strdup(folder);
	p->tenant = tenant;
	snprintf(p->model, sizeof p->model, "%s", model);
	if (!p->path)
		error_set(e, "out of memory");
	else if (!name_program(p->program))
		error_set(e, "--prompt-cache: the program cannot read its own file, whose hash is part of the cached "
		             "files' names");
	else if (open_folder(p, e)) {
		p->started = pthread_create(&p->thread, NULL, write_what_waits, p) == 0;
		if (p->started)
			return p;
		error_set(e, "--prompt-cache: the thread that writes the files could not be started");
	}
	prompt_cache_close(p);
	return NULL;
}

void prompt_cache_close(struct prompt_cache* p) {
	if (!p)
		return;
	if (p->started) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_signal(&p->work);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	if (p->lock_file >= 0)
		close(p->lock_file);
	if (p->folder >= 0)
		close(p->folder);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->work);
	free(p->path);
	free(p->read);
	free(p);
}
