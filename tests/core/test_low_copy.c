/* The file of a low-bit copy: found again as it was made, made anew when anything about it is wrong, and
 * never needed: what cannot be written stays in memory. */
#include "core/model/low_maker.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/model/low_file.h"

static const char MODEL[] = "synth:layers=3,dim=64,heads=2,kv-heads=2,ffn=96,vocab=64,dtype=f16";
static const char OTHER[] = "synth:layers=3,dim=64,heads=2,kv-heads=2,ffn=96,vocab=64,dtype=f16,seed=2";

struct fixture {
	struct model *model, *other;
	char folder[64];
	struct low_copy made; /* without a file: what every copy has to be */
};

static struct model* opened(const char* spec) {
	struct error error = {""};
	struct model* m = model_open(spec, NULL, &error);
	if (!m)
		fail_msg("%s", error.message);
	return m;
}

static struct low_copy copy_of(const struct model* model, const char* folder) {
	struct low_copy copy;
	struct error error = {""};
	const struct low_wish wish = {.form = {.bits = 4}, .folder = folder, .threads = 2};
	if (!low_copy_open(&copy, model, &wish, &error))
		fail_msg("%s", error.message);
	return copy;
}

static const void* bytes_of(const struct low_copy* copy) { return copy->table.item[0].copy->data; }

static int open_all(void** state) {
	static struct fixture f;
	f.model = opened(MODEL);
	f.other = opened(OTHER);
	f.made = copy_of(f.model, NULL);
	*state = &f;
	return 0;
}

static int close_all(void** state) {
	struct fixture* f = *state;
	low_copy_close(&f->made);
	model_close(f->model);
	model_close(f->other);
	return 0;
}

static int new_folder(void** state) {
	struct fixture* f = *state;
	snprintf(f->folder, sizeof f->folder, "/tmp/swiftlet-low-XXXXXX");
	return mkdtemp(f->folder) ? 0 : -1;
}

static int drop_folder(void** state) {
	struct fixture* f = *state;
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", f->folder);
	return system(command);
}

/* A copy asked for with this folder is the right one; found there or made, and warned about or not. */
static void expect(const struct fixture* f, bool found, const char* warning) {
	struct low_copy copy = copy_of(f->model, f->folder);
	assert_int_equal(copy.table.bytes, f->made.table.bytes);
	assert_memory_equal(bytes_of(&copy), bytes_of(&f->made), f->made.table.bytes);
	assert_int_equal(copy.found, found);
	if (warning ? !strstr(copy.warning, warning) : copy.warning[0] != 0)
		fail_msg("warning \"%s\", expected \"%s\"", copy.warning, warning ? warning : "");
	low_copy_close(&copy);
}

static void path_of(const struct fixture* f, const struct model* model, char path[256]) {
	snprintf(path, 256, "%s/%s-%s.low", f->folder, model->fingerprint, dtype_name(f->made.table.type));
}

static void write_file(const char* path, const void* bytes, size_t n) {
	FILE* file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static unsigned char* read_file(const char* path, size_t* n) {
	FILE* file = fopen(path, "rb");
	assert_non_null(file);
	unsigned char* bytes = malloc(1 << 20);
	*n = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void made_once_then_found(void** state) {
	const struct fixture* f = *state;
	expect(f, false, NULL);
	expect(f, true, NULL);
	expect(f, true, NULL);
}

static void folders_are_made(void** state) {
	struct fixture f = *(struct fixture*)*state;
	strcat(f.folder, "/a/b");
	expect(&f, false, NULL);
	expect(&f, true, NULL);
}

static void the_users_cache_is_the_default(void** state) {
	(void)state;
	char folder[1024];
	setenv("HOME", "/home/someone", 1);
	setenv("XDG_CACHE_HOME", "/elsewhere", 1);
	assert_true(low_copy_folder(folder));
	assert_string_equal(folder, "/elsewhere/swiftlet");
	unsetenv("XDG_CACHE_HOME");
	assert_true(low_copy_folder(folder));
	assert_string_equal(folder, "/home/someone/.cache/swiftlet");
	unsetenv("HOME");
	assert_false(low_copy_folder(folder));
}

/* Every byte of the head and every eleventh of the copy. */
static void damage_is_seen(void** state) {
	const struct fixture* f = *state;
	char path[256];
	size_t n;
	expect(f, false, NULL);
	path_of(f, f->model, path);
	unsigned char* bytes = read_file(path, &n);
	struct error error;
	assert_int_equal(n, LOW_FILE_HEAD + f->made.table.bytes);
	if (!low_file_check(bytes, n, &f->made.table, f->model->fingerprint, path, &error))
		fail_msg("%s", error.message);
	for (size_t i = 0; i < n; i += i < LOW_FILE_HEAD ? 1 : 11) {
		bytes[i] ^= (unsigned char)(1 << i % 8);
		if (low_file_check(bytes, n, &f->made.table, f->model->fingerprint, path, &error))
			fail_msg("byte %zu was damaged, and the file is taken all the same", i);
		assert_non_null(strstr(error.message, path));
		bytes[i] ^= (unsigned char)(1 << i % 8);
	}
	bytes[n / 2] ^= 4;
	write_file(path, bytes, n);
	free(bytes);
	expect(f, false, "content's checksum");
	expect(f, true, NULL);
}

static void cut_files_are_seen(void** state) {
	const struct fixture* f = *state;
	char path[256];
	size_t n;
	expect(f, false, NULL);
	path_of(f, f->model, path);
	unsigned char* bytes = read_file(path, &n);
	const size_t lengths[] = {0, 1, LOW_FILE_HEAD - 1, LOW_FILE_HEAD, n / 2, n - 1};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		write_file(path, bytes, lengths[i]);
		expect(f, false, "made anew");
		expect(f, true, NULL);
	}
	bytes[n] = 0;
	write_file(path, bytes, n + 1);
	expect(f, false, "its size is");
	expect(f, true, NULL);
	free(bytes);
}

static void other_files_are_seen(void** state) {
	const struct fixture* f = *state;
	char path[256], others[256], command[600];
	path_of(f, f->model, path);
	path_of(f, f->other, others);
	struct low_copy copy = copy_of(f->other, f->folder);
	low_copy_close(&copy);
	assert_int_equal(rename(others, path), 0);
	expect(f, false, "another model");
	expect(f, true, NULL);
	write_file(path, MODEL, sizeof MODEL);
	expect(f, false, "expected a head");
	snprintf(command, sizeof command, "rm %s && mkfifo %s", path, path);
	assert_int_equal(system(command), 0);
	expect(f, false, "not a regular file");
	expect(f, true, NULL);
	/* a folder in the file's place stays, and the copy in memory */
	snprintf(command, sizeof command, "rm %s && mkdir %s", path, path);
	assert_int_equal(system(command), 0);
	expect(f, false, "not kept");
	expect(f, false, "not kept");
}

static void what_cannot_be_written_stays_in_memory(void** state) {
	struct fixture f = *(struct fixture*)*state;
	char path[200];
	snprintf(path, sizeof path, "%s/file", f.folder);
	write_file(path, "x", 1);
	strcat(f.folder, "/file/below");
	expect(&f, false, "not kept");
	if (geteuid() != 0) {
		f = *(struct fixture*)*state;
		assert_int_equal(chmod(f.folder, 0500), 0);
		expect(&f, false, "Permission denied");
		assert_int_equal(chmod(f.folder, 0700), 0);
	}
}

/* A disk without room: nothing is left behind, and a limit's signal ends nothing. */
static void a_full_disk(void** state) {
	const struct fixture* f = *state;
	char path[256], part[300];
	const pid_t child = fork();
	if (child == 0) {
		const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
		struct error error = {""};
		struct low_copy copy;
		const struct low_wish wish = {.form = {.bits = 4}, .folder = f->folder, .threads = 1};
		signal(SIGXFSZ, SIG_DFL);
		if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || !low_copy_open(&copy, f->model, &wish, &error))
			_exit(2);
		const bool same = memcmp(bytes_of(&copy), bytes_of(&f->made), f->made.table.bytes) == 0;
		_exit(same && strstr(copy.warning, "File too large") ? 0 : 3);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	path_of(f, f->model, path);
	snprintf(part, sizeof part, "%s.part", path);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_not_equal(access(part, F_OK), 0);
	expect(f, false, NULL);
}

/* Processes that start together each have a right copy, and leave a right file. */
static void several_at_once(void** state) {
	const struct fixture* f = *state;
	enum { PROCESSES = 4, TIMES = 25 };
	pid_t child[PROCESSES];
	char path[256];
	path_of(f, f->model, path);
	for (int i = 0; i < PROCESSES; i++) {
		child[i] = fork();
		if (child[i] != 0)
			continue;
		for (int t = 0; t < TIMES; t++) {
			struct error error;
			struct low_copy copy;
			const struct low_wish wish = {.form = {.bits = 4}, .folder = f->folder, .threads = 1};
			if (!low_copy_open(&copy, f->model, &wish, &error) || copy.warning[0] ||
			    memcmp(bytes_of(&copy), bytes_of(&f->made), f->made.table.bytes) != 0)
				_exit(1);
			low_copy_close(&copy);
			if ((t + i) % 3 == 0)
				unlink(path);
		}
		_exit(0);
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status;
		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	unlink(path);
	expect(f, false, NULL);
	expect(f, true, NULL);
}

/* A leftover of a process that died is written over; one that is being written is left to its writer. */
static void files_in_the_making(void** state) {
	const struct fixture* f = *state;
	char path[256], part[300];
	path_of(f, f->model, path);
	snprintf(part, sizeof part, "%s.part", path);
	write_file(part, MODEL, sizeof MODEL);
	const int fd = open(part, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	expect(f, false, NULL);
	assert_int_not_equal(access(path, F_OK), 0);
	close(fd);
	expect(f, false, NULL);
	expect(f, true, NULL);
	assert_int_not_equal(access(part, F_OK), 0);
}

static void too_large_is_refused(void** state) {
	const struct fixture* f = *state;
	struct low_copy copy;
	struct error error = {""};
	struct low_wish wish = {
	    .form = {.bits = 4}, .folder = f->folder, .most_bytes = (double)f->made.table.bytes - 1};
	assert_false(low_copy_open(&copy, f->model, &wish, &error));
	assert_non_null(strstr(error.message, "allowed"));
	low_copy_close(&copy);
	wish.most_bytes++;
	assert_true(low_copy_open(&copy, f->model, &wish, &error));
	low_copy_close(&copy);
}

/* ---- in the background ---------------------------------------------------------------------- */

/* Like `expect`, of a copy that threads find or make while another one waits, or helps. */
static void expect_behind(const struct fixture* f, int threads, bool help, bool found, const char* warning) {
	struct low_copy copy;
	struct error error = {""};
	const struct low_wish wish = {.form = {.bits = 4}, .folder = f->folder};
	assert_true(low_copy_plan(&copy, f->model, &wish, &error));
	struct low_maker* maker = low_maker_open(&copy, f->model, threads, &error);
	assert_non_null(maker);
	while (low_maker_progress(maker) == LOW_MAKING) {
		if (help)
			low_maker_help(maker, 0.001);
		assert_true(low_maker_share(maker) >= 0 && low_maker_share(maker) <= 1);
	}
	assert_true(low_maker_share(maker) == 1);
	assert_memory_equal(bytes_of(&copy), bytes_of(&f->made), f->made.table.bytes);
	while (low_maker_progress(maker) == LOW_READY)
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	assert_int_equal(low_maker_progress(maker), LOW_DONE);
	assert_int_equal(copy.found, found);
	if (warning ? !strstr(copy.warning, warning) : copy.warning[0] != 0)
		fail_msg("warning \"%s\", expected \"%s\"", copy.warning, warning ? warning : "");
	low_maker_help(maker, 1); /* there is nothing to do */
	low_maker_close(maker);
	low_copy_close(&copy);
}

static void made_behind_by_any_number(void** state) {
	struct fixture f = *(struct fixture*)*state;
	char path[256];
	path_of(&f, f.model, path);
	for (int threads = 1; threads <= 4; threads++)
		for (int help = 0; help < 2; help++) {
			unlink(path);
			expect_behind(&f, threads, help, false, NULL);
			expect_behind(&f, threads, help, true, NULL);
			expect(&f, true, NULL);
		}
	write_file(path, MODEL, sizeof MODEL);
	expect_behind(&f, 2, false, false, "made anew");
	expect_behind(&f, 2, false, true, NULL);
	snprintf(path, sizeof path, "%s/file", f.folder);
	write_file(path, "x", 1);
	strcat(f.folder, "/file/below");
	expect_behind(&f, 2, true, false, "not kept");
}

/* Seconds that were missed add up, until there is a copy; nonsense in their file is none. */
static void what_is_missed_adds_up(void** state) {
	const struct fixture* f = *state;
	struct low_copy copy;
	struct error error = {""};
	char path[300];
	const struct low_wish wish = {.form = {.bits = 4}, .folder = f->folder}, nowhere = {.form = {.bits = 4}};
	path_of(f, f->model, path);
	strcat(path, ".missed");
	assert_true(low_copy_plan(&copy, f->model, &wish, &error));
	assert_true(low_copy_missed(&copy) == 0);
	low_copy_miss(&copy, 1.5);
	low_copy_miss(&copy, 2);
	low_copy_miss(&copy, -1);
	low_copy_miss(&copy, (double)NAN);
	assert_true(low_copy_missed(&copy) == 3.5);
	assert_true(low_copy_effort(&copy, 1) > 0);
	assert_true(low_copy_effort(&copy, 4) == low_copy_effort(&copy, 1) / 4);
	static const char* const nonsense[] = {"", "x", "-5", "nan", "inf", "1e300"};
	for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		write_file(path, nonsense[i], strlen(nonsense[i]));
		assert_true(low_copy_missed(&copy) == 0);
	}
	low_copy_miss(&copy, 1);
	low_copy_close(&copy);
	expect(f, false, NULL);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_true(low_copy_plan(&copy, f->model, &nowhere, &error));
	low_copy_miss(&copy, 1);
	assert_true(low_copy_missed(&copy) == 0);
	low_copy_close(&copy);
}

/* Whoever ends before the copy is ready leaves a whole file or none. */
static void ended_at_any_time(void** state) {
	const struct fixture* f = *state;
	char path[256];
	path_of(f, f->model, path);
	for (int i = 0; i < 200; i++) {
		struct low_copy copy;
		struct error error = {""};
		const struct low_wish wish = {.form = {.bits = 4}, .folder = f->folder};
		if (i % 2)
			unlink(path);
		assert_true(low_copy_plan(&copy, f->model, &wish, &error));
		struct low_maker* maker = low_maker_open(&copy, f->model, 1 + i % 3, &error);
		assert_non_null(maker);
		nanosleep(&(struct timespec){.tv_nsec = i % 20 * 20000}, NULL);
		low_maker_close(maker);
		low_copy_close(&copy);
		if (access(path, F_OK) == 0)
			expect(f, true, NULL);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(made_once_then_found, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(folders_are_made, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(damage_is_seen, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(cut_files_are_seen, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(other_files_are_seen, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(what_cannot_be_written_stays_in_memory, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(a_full_disk, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(several_at_once, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(files_in_the_making, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(too_large_is_refused, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(made_behind_by_any_number, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(what_is_missed_adds_up, new_folder, drop_folder),
	    cmocka_unit_test_setup_teardown(ended_at_any_time, new_folder, drop_folder),
	    cmocka_unit_test(the_users_cache_is_the_default),
	};
	return cmocka_run_group_tests(tests, open_all, close_all);
}
