/* Preloaded into a server: it is killed in the midst of writing a file of the prompt cache, the first one or
 * that after SWIFTLET_KILL_AFTER whole ones, at the call that SWIFTLET_KILL_AT names: write (half of it is
 * written), fsync, rename or renamed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_page(int fd) {
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	return strstr(path, "/page.new") != NULL;
}

static int whole; /* files so far; one thread writes them */

static int is_time(const char* call) {
	const char *at = getenv("SWIFTLET_KILL_AT"), *after = getenv("SWIFTLET_KILL_AFTER");
	return at && strcmp(at, call) == 0 && whole >= (after ? atoi(after) : 0);
}

static void die_at(const char* call) {
	if (is_time(call))
		kill(getpid(), SIGKILL);
}

ssize_t write(int fd, const void* from, size_t n) {
	ssize_t (*real)(int, const void*, size_t) =
	    (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
	const int here = is_time("write") && is_page(fd);
	const ssize_t done = real(fd, from, here ? n / 2 : n);
	if (here)
		die_at("write");
	return done;
}

int fsync(int fd) {
	if (is_page(fd))
		die_at("fsync");
	return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
	const int page = strcmp(from, "page.new") == 0;
	if (page)
		die_at("rename");
	const int done = ((int (*)(int, const char*, int, const char*))dlsym(RTLD_NEXT, "renameat"))(
	    from_folder, from, to_folder, to);
	if (page)
		die_at("renamed");
	whole += page;
	return done;
}
