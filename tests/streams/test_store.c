/* The store: what was committed is there, whatever dies; what is not a good store is named and kept. */
#include "streams/memory/store.h"
#include "streams/memory/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_model model = {.fingerprint = "00ff", .name = "a-model", .blocks = 20};
static char folder[64];
static struct error e;

static int make_folder(void** unused) {
	(void)unused;
	strcpy(folder, "/tmp/swiftlet-store-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void** unused) {
	(void)unused;
	char command[256];
	snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", folder, folder);
	return system(command);
}

static const char* path_of(const char* name) {
	static char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static struct bank_entry entry_of(int which, int64_t tokens) {
	struct bank_entry entry = {.skip_ratio = 0.45};
	snprintf(entry.task, sizeof entry.task, "task-%d", which % 3);
	mask_set(&entry.mask, 2 * (1 + which), true);
	mask_set(&entry.mask, 2 * 17 + 1, true);
	entry.record = entry.unsaved = (struct bank_record){
	    .matches = 30, .rows = 32, .accepted = 8, .draft_steps = 10, .tokens = tokens, .instances = 1};
	return entry;
}

struct seen {
	int n;
	int64_t tokens;
	struct store_mask last, masks[64];
};
static bool see(void* user, const struct store_mask* m) {
	struct seen* s = user;
	s->masks[s->n++ % 64] = *m;
	s->tokens += m->entry.record.tokens;
	s->last = *m;
	return true;
}

static struct store* must_open(const char* name, enum store_mode mode) {
	struct store* s = store_open(path_of(name), mode, &e);
	if (!s)
		print_error("%s\n", e.message);
	assert_non_null(s);
	return s;
}

/* Opens a store; log (512): what it reports on standard error. */
static struct store* open_logged(const char* name, enum store_mode mode, char* log) {
	const int was = dup(STDERR_FILENO);
	char path[160];
	snprintf(path, sizeof path, "%s/log", folder);
	const int to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(was >= 0 && to >= 0 && dup2(to, STDERR_FILENO) >= 0);
	struct store* s = store_open(path_of(name), mode, &e);
	fflush(stderr);
	dup2(was, STDERR_FILENO);
	const ssize_t n = pread(to, log, 511, 0);
	log[n > 0 ? n : 0] = '\0';
	close(was);
	close(to);
	assert_non_null(s);
	return s;
}

static void what_is_stored_comes_back(void** unused) {
	(void)unused;
	for (int mode = STORE_READ; mode <= STORE_SERVE; mode++)
		assert_null(store_open("", (enum store_mode)mode, &e));
	assert_non_null(strstr(e.message, "--no-store"));
	assert_null(store_open(path_of("deep/er/masks.db"), STORE_READ, &e));
	assert_non_null(strstr(e.message, "no such mask store"));
	struct store* s = must_open("deep/er/masks.db", STORE_WRITE);
	struct bank_entry entry = entry_of(1, 100);
	float state[40];
	for (int i = 0; i < 40; i++)
		state[i] = (float)i;
	bank_signature(&entry.unsaved_signature, state, 40);
	int64_t id = 0, again = 0;
	assert_true(store_add(s, &model, &entry, 1, &id, &e));
	entry.converged = true;
	assert_true(store_add(s, &model, &entry, 1, &again, &e));
	assert_int_equal(id, again);
	store_close(s);

	s = must_open("deep/er/masks.db", STORE_READ);
	static struct seen seen;
	memset(&seen, 0, sizeof seen);
	assert_true(store_each(s, "00ff", see, &seen, &e));
	assert_int_equal(seen.n, 1);
	assert_true(mask_equal(&seen.last.entry.mask, &entry.mask));
	assert_string_equal(seen.last.entry.task, "task-1");
	assert_string_equal(seen.last.model.name, "a-model");
	assert_int_equal(seen.last.model.blocks, 20);
	assert_int_equal(seen.last.entry.record.tokens, 200);
	assert_int_equal(seen.last.entry.record.rows, 64);
	assert_true(seen.last.entry.converged);
	assert_true(seen.last.entry.signature.prompts > 1.5 && seen.last.entry.signature.prompts < 2.5);
	assert_true(seen.last.entry.signature.value[39] > 0.5f);
	assert_true(store_each(s, "other", see, &seen, &e));
	assert_int_equal(seen.n, 1);
	assert_false(store_add(s, &model, &entry, 1, NULL, &e)); /* opened for reading */
	struct store_mask one;
	assert_int_equal(store_get(s, id, &one, &e), 1);
	assert_int_equal(store_get(s, id + 1, &one, &e), 0);
	store_close(s);

	s = must_open("deep/er/masks.db", STORE_EDIT);
	entry.record.tokens = 7;
	assert_true(store_put(s, &model, &entry, &again, &e)); /* an import sets */
	assert_int_equal(store_get(s, id, &one, &e), 1);
	assert_int_equal(one.entry.record.tokens, 7);
	assert_int_equal(store_delete(s, id, &e), 1);
	assert_int_equal(store_delete(s, id, &e), 0);
	struct bank_entry two[2] = {entry_of(2, 1), entry_of(3, 1)};
	assert_true(store_add(s, &model, two, 2, NULL, &e));
	seen.n = 0;
	assert_true(store_each(s, NULL, see, &seen, &e));
	assert_int_equal(seen.n, 2);
	store_close(s);
}

/* One mask serves two workload clusters, and each has its own row; where the kind is not known it is found.
 */
static void clusters_without_a_label_are_separated(void** unused) {
	(void)unused;
	struct store* s = must_open("kinds.db", STORE_WRITE);
	struct bank_entry entry = entry_of(1, 100);
	entry.task[0] = '\0';
	int64_t first = 0, second = 0, third = 0;
	entry.cluster = 11;
	assert_true(store_add(s, &model, &entry, 1, &first, &e));
	entry.cluster = 12;
	assert_true(store_add(s, &model, &entry, 1, &second, &e));
	assert_true(store_add(s, &model, &entry, 1, &third, &e));
	assert_int_equal(second, third);
	assert_int_not_equal(first, second);
	entry.cluster = 0;
	assert_true(store_put(s, &model, &entry, &third, &e));
	assert_int_equal(first, third);
	entry.mask = entry_of(2, 1).mask;
	assert_true(store_put(s, &model, &entry, &third, &e));
	struct store_mask m;
	assert_int_equal(store_get(s, second, &m, &e), 1);
	assert_int_equal(m.entry.cluster, 12);
	assert_int_equal(m.entry.record.tokens, 200);
	assert_int_equal(store_get(s, third, &m, &e), 1);
	assert_true(m.entry.cluster > 12);
	strcpy(entry.task, "code");
	entry.cluster = 5;
	assert_true(store_add(s, &model, &entry, 1, &first, &e));
	entry.cluster = 6; /* another process's number for the same label */
	assert_true(store_add(s, &model, &entry, 1, &second, &e));
	assert_int_equal(first, second);
	/* each kind keeps its best few */
	entry.task[0] = '\0';
	for (int i = 0; i < 16; i++) {
		entry = entry_of(i, i);
		entry.task[0] = '\0';
		entry.cluster = 20 + i % 2;
		assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	}
	assert_true(store_trim(s, "00ff", 64, 3, &e));
	static struct seen seen;
	memset(&seen, 0, sizeof seen);
	assert_true(store_each(s, "00ff", see, &seen, &e));
	int even = 0, odd = 0;
	for (int i = 0; i < seen.n; i++) {
		even += seen.masks[i].entry.cluster == 20 && seen.masks[i].entry.record.tokens >= 10;
		odd += seen.masks[i].entry.cluster == 21 && seen.masks[i].entry.record.tokens >= 11;
	}
	assert_int_equal(even, 3);
	assert_int_equal(odd, 3);
	assert_int_equal(seen.n, 4 + 6);
	store_close(s);
}

static void masks_as_text(void** unused) {
	(void)unused;
	char text[STORE_MASK_TEXT];
	struct mask m = {.word = {0}}, back;
	store_mask_text(&m, text);
	assert_string_equal(text, "am");
	assert_true(store_mask_parse(text, &back) && mask_equal(&m, &back));
	for (int i = 0; i < 2 * MAX_BLOCKS; i++)
		mask_set(&m, i, true);
	store_mask_text(&m, text);
	assert_true(strlen(text) < STORE_MASK_TEXT);
	assert_true(store_mask_parse(text, &back) && mask_equal(&m, &back));
	m = (struct mask){.word = {0}};
	mask_set(&m, 2, true);
	/* what earlier versions kept with stored weights is passed over */
	assert_true(store_mask_parse("a1msa0m255h", &back) && mask_equal(&m, &back));
	m.has_levels = true;
	for (int i = 0; i < LEVEL_DEPTHS * COLUMN_KINDS; i++)
		m.levels.left_out[i / COLUMN_KINDS][i % COLUMN_KINDS] = (uint8_t)(LEVEL_MOST - i);
	store_mask_text(&m, text);
	assert_true(strlen(text) < STORE_MASK_TEXT);
	assert_true(store_mask_parse(text, &back) && mask_equal(&m, &back));
	assert_true(store_mask_parse("a1ml0,1,2,3,4,5,6,7,8,9,10,99", &back) && back.has_levels &&
	            back.levels.left_out[1][0] == 4 && back.levels.left_out[2][3] == 99);
	const char* bad[] = {"aml",
	                     "aml1,2,3,4,5,6,7,8,9,10,11",
	                     "aml1,2,3,4,5,6,7,8,9,10,11,100",
	                     "aml1,2,3,4,5,6,7,8,9,10,11,12,",
	                     "aml1,2,3,4,5,6,7,8,9,10,11,-1",
	                     "aml1,2,3,4,5,6,7,8,9,10,11,12x",
	                     "",
	                     "a",
	                     "m",
	                     "a1",
	                     "a1,m",
	                     "a1m2x",
	                     "a256m",
	                     "a99999999999m",
	                     "a-1m",
	                     "a1 m2",
	                     "b1m2",
	                     "a1msamhx",
	                     "a1mh"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(store_mask_parse(bad[i], &back));
}

/* ---- several processes -------------------------------------------------------------------- */

static void processes_share_a_file(void** unused) {
	(void)unused;
	store_close(must_open("shared.db", STORE_WRITE));
	enum { PROCESSES = 4, ADDS = 25 };
	for (int p = 0; p < PROCESSES; p++)
		if (fork() == 0) {
			struct store* s = NULL;
			for (int i = 0; i < 60 && !s; i++) /* each time with the store's own patience */
				s = store_open(path_of("shared.db"), STORE_WRITE, &e);
			bool good = s != NULL;
			if (good)
				store_set_patience(s, 600000); /* all wait for one another, and for the disk */
			for (int i = 0; i < ADDS && good; i++) {
				const struct bank_entry entry = entry_of(i % 5, 1);
				good = store_add(s, &model, &entry, 1, NULL, &e);
			}
			_exit(good ? 0 : 1);
		}
	for (int p = 0; p < PROCESSES; p++) {
		int status;
		wait(&status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	struct store* s = must_open("shared.db", STORE_READ);
	static struct seen seen;
	memset(&seen, 0, sizeof seen);
	assert_true(store_each(s, NULL, see, &seen, &e));
	assert_int_equal(seen.n, 5);
	assert_int_equal(seen.tokens, PROCESSES * ADDS); /* no addition is lost */
	store_close(s);
}

/* A child stores and reports each commit through a pipe; it is killed at a random instant. */
static void writer(int out, int start) {
	struct store* s = store_open(path_of("killed.db"), STORE_WRITE, &e);
	if (!s)
		_exit(1);
	for (int i = start;; i++) {
		const struct bank_entry entry = entry_of(i % 12, 1);
		if (!store_add(s, &model, &entry, 1, NULL, &e))
			_exit(1);
		const char which = (char)(i % 12);
		if (write(out, &which, 1) != 1)
			_exit(1);
	}
}

static void committed_entries_survive_kills(void** unused) {
	(void)unused;
	enum { KILLS = 200 };
	int64_t reported[12] = {0}, total = 0;
	srand(1);
	for (int k = 0; k < KILLS; k++) {
		int ends[2];
		assert_int_equal(pipe(ends), 0);
		const pid_t child = fork();
		if (child == 0) {
			close(ends[0]);
			writer(ends[1], k);
		}
		close(ends[1]);
		/* every other time not before the first commit, so that a slow machine's kills hit commits too */
		struct pollfd first = {.fd = ends[0], .events = POLLIN};
		if (k % 2)
			poll(&first, 1, 300000);
		const struct timespec instant = {.tv_nsec = 1000L * (500 + rand() % 25000)};
		nanosleep(&instant, NULL);
		kill(child, SIGKILL);
		int status;
		waitpid(child, &status, 0);
		assert_true(WIFSIGNALED(status)); /* it did not give up by itself */
		char which;
		while (read(ends[0], &which, 1) == 1) {
			reported[(int)which]++;
			total++;
		}
		close(ends[0]);
		struct store* s = must_open("killed.db", STORE_WRITE);
		static struct seen seen;
		memset(&seen, 0, sizeof seen);
		assert_true(store_each(s, NULL, see, &seen, &e));
		for (int i = 0; i < 12; i++) {
			const struct bank_entry entry = entry_of(i, 1);
			int64_t kept = 0;
			for (int j = 0; j < seen.n; j++)
				if (mask_equal(&seen.masks[j].entry.mask, &entry.mask))
					kept = seen.masks[j].entry.record.tokens;
			assert_true(kept >= reported[i]);
			assert_true(kept <= reported[i] + k + 1); /* at most one unreported commit a kill */
		}
		store_close(s);
	}
	print_message("%d kills, %lld commits reported, every one there\n", KILLS, (long long)total);
	assert_true(total >= KILLS / 2);
}

/* ---- files that are not good stores -------------------------------------------------------- */

static char* read_whole(const char* path, size_t* size) {
	FILE* f = fopen(path, "rb");
	assert_non_null(f);
	char* data = malloc(1 << 20);
	*size = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

static void write_whole(const char* path, const void* data, size_t size) {
	FILE* f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

/* Refused with these words, in all modes, and not a byte of it changed. */
static void refused(const char* name, const char* words) {
	size_t size, after;
	char* before = read_whole(path_of(name), &size);
	for (int mode = STORE_READ; mode <= STORE_EDIT; mode++) {
		struct store* s = store_open(path_of(name), (enum store_mode)mode, &e);
		assert_null(s);
		if (!strstr(e.message, words))
			print_error("expected \"%s\" in: %s\n", words, e.message);
		assert_non_null(strstr(e.message, words));
		assert_non_null(strstr(e.message, name));
	}
	char* now = read_whole(path_of(name), &after);
	assert_int_equal(size, after);
	assert_memory_equal(before, now, size);
	free(before);
	free(now);
}

static void sql(const char* name, const char* text) {
	sqlite3* db;
	assert_int_equal(sqlite3_open(path_of(name), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void bad_files_are_named_and_kept(void** unused) {
	(void)unused;
	write_whole(path_of("text.db"), "These are notes, not a database, and dear to somebody.\n", 55);
	refused("text.db", "not an SQLite database");

	sql("other.db", "CREATE TABLE recipes(id)");
	refused("other.db", "database of another program");
	sql("newer.db", "PRAGMA application_id = 1937204852; PRAGMA user_version = 99; CREATE TABLE x(y)");
	refused("newer.db", "newer than this program's");

	struct store* s = must_open("whole.db", STORE_WRITE);
	for (int i = 0; i < 12; i++) {
		const struct bank_entry entry = entry_of(i, 1);
		assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	}
	store_close(s);
	size_t size;
	char* data = read_whole(path_of("whole.db"), &size);
	write_whole(path_of("cut.db"), data, size / 2);
	refused("cut.db", "damaged");
	memset(data + 4096, 0x5a, 8192); /* two pages of rubbish */
	write_whole(path_of("rubbish.db"), data, size);
	refused("rubbish.db", "damaged");
	free(data);

	assert_null(store_open(folder, STORE_WRITE, &e));
	assert_non_null(strstr(e.message, "not a regular file"));
	/* a row that no bank would write is damage as well */
	sql("whole.db", "UPDATE mask SET skipped = 'a25m' WHERE id = 3");
	s = must_open("whole.db", STORE_READ);
	static struct seen seen;
	memset(&seen, 0, sizeof seen);
	assert_false(store_each(s, NULL, see, &seen, &e));
	assert_non_null(strstr(e.message, "mask 3 is damaged"));
	store_close(s);
}

static void locked_and_read_only(void** unused) {
	(void)unused;
	struct store* s = must_open("locked.db", STORE_WRITE);
	store_set_patience(s, 50);
	sqlite3* db;
	assert_int_equal(sqlite3_open(path_of("locked.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	const struct bank_entry entry = entry_of(1, 1);
	assert_false(store_add(s, &model, &entry, 1, NULL, &e));
	assert_non_null(strstr(e.message, "locked by another process"));
	sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_close(db);
	assert_true(store_add(s, &model, &entry, 1, NULL, &e)); /* and it goes on */
	store_close(s);

	/* root may write anything, so the rest is done as nobody */
	s = must_open("ea?r%6c#y.db", STORE_WRITE);
	assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	store_close(s);
	sql("ea?r%6c#y.db", "ALTER TABLE mask DROP COLUMN micros; ALTER TABLE mask DROP COLUMN plain_micros;"
	                    "PRAGMA user_version = 11");
	chmod(folder, 0755);
	chmod(path_of("locked.db"), 0444);
	const pid_t child = fork();
	if (child == 0) {
		if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
			_exit(0);
		struct store* mine = store_open(path_of("locked.db"), STORE_WRITE, &e);
		if (mine || !strstr(e.message, "read-only"))
			_exit(1);
		mine = store_open(path_of("not/there.db"), STORE_WRITE, &e);
		if (mine || !strstr(e.message, "cannot be made"))
			_exit(2);
		static const char* const readable[] = {"locked.db",
		                                       "ea?r%6c#y.db"}; /* the other of an earlier version */
		for (int i = 0; i < 2; i++) {
			static struct seen seen;
			memset(&seen, 0, sizeof seen);
			mine = store_open(path_of(readable[i]), STORE_READ, &e);
			if (!mine || !store_each(mine, NULL, see, &seen, &e) || seen.tokens != 1)
				_exit(3 + i);
			store_close(mine);
		}
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_full_disk_loses_nothing(void** unused) {
	(void)unused;
	struct store* s = must_open("full.db", STORE_WRITE);
	struct bank_entry entry = entry_of(1, 5);
	assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	store_close(s);
	const pid_t child = fork();
	if (child == 0) { /* a file size limit stands for the disk */
		signal(SIGXFSZ, SIG_IGN);
		s = store_open(path_of("full.db"), STORE_WRITE, &e);
		const struct rlimit limit = {.rlim_cur = 60000, .rlim_max = 60000};
		setrlimit(RLIMIT_FSIZE, &limit);
		for (int i = 0; s && i < 200; i++) {
			static struct store_figure f[200];
			for (int j = 0; j < 200; j++) {
				snprintf(f[j].what, sizeof f[j].what, "figure %d", 200 * i + j);
				f[j].total = f[j].samples = 1;
			}
			if (!store_add_figures(s, &model, "", f, 200, &e))
				_exit(strstr(e.message, "what was stored before is kept") ? 0 : 2);
		}
		_exit(1);
	}
	int status;
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	s = must_open("full.db", STORE_WRITE);
	static struct seen seen;
	memset(&seen, 0, sizeof seen);
	assert_true(store_each(s, NULL, see, &seen, &e));
	assert_int_equal(seen.tokens, 5);
	store_close(s);
}

struct seen_figures {
	int n;
	struct store_figure last;
};
static void see_figure(void* user, const struct store_figure* f) {
	struct seen_figures* seen = user;
	seen->n++;
	seen->last = *f;
}

/* A store whose masks have another format is left as it is. */
static void the_oldest_schemas_are_refused(void** unused) {
	(void)unused;
	sql("old.db",
	    "PRAGMA application_id = 1937204852; PRAGMA user_version = 2;"
	    "CREATE TABLE model(id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
	    " blocks INTEGER NOT NULL);");
	refused("old.db", "schema version 2, which is too old");
}

/* Reading finds one mask that served 7 tokens, says nothing, and leaves the file as it was. */
static void read_unchanged(const char* name, const struct mask* mask) {
	static struct seen seen;
	size_t size, after;
	char log[512], *before = read_whole(path_of(name), &size);
	struct store* s = open_logged(name, STORE_READ, log);
	assert_string_equal(log, "");
	memset(&seen, 0, sizeof seen);
	assert_true(store_each(s, NULL, see, &seen, &e));
	assert_int_equal(seen.tokens, 7);
	assert_true(mask_equal(&seen.last.entry.mask, mask));
	struct seen_figures figures = {0};
	assert_true(store_each_figure(s, &model, "a cpu", see_figure, &figures, &e));
	store_close(s);
	char* now = read_whole(path_of(name), &after);
	assert_int_equal(size, after);
	assert_memory_equal(before, now, size);
	free(before);
	free(now);
}

/* From each version on: a store of today, taken back to it, comes forward again with its masks. */
static void every_later_schema_keeps_its_masks(void** unused) {
	(void)unused;
	static const char* const back[] = {
	    [11] = "ALTER TABLE mask DROP COLUMN micros; ALTER TABLE mask DROP COLUMN plain_micros",
	    [10] = "INSERT INTO figure VALUES(1, 'a cpu', '', 0, 'rows-9', 0.5, 8), (1, 'a cpu', '', 0, 'plain', "
	           "1, 8)",
	    [9] = "INSERT INTO figure VALUES(1, '', 'math', 0, 'influence 3', 0.5, 8)",
	    [8] = "CREATE TABLE text(model INTEGER NOT NULL REFERENCES model(id), tenant TEXT NOT NULL,"
	          " number INTEGER NOT NULL, writer TEXT NOT NULL, length INTEGER NOT NULL, tokens BLOB NOT NULL,"
	          " made INTEGER NOT NULL, PRIMARY KEY(model, tenant, number)) WITHOUT ROWID",
	    [7] = "CREATE TABLE observation(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	          " model INTEGER NOT NULL REFERENCES model(id), task TEXT NOT NULL, skipped TEXT NOT NULL,"
	          " matches INTEGER NOT NULL, rows INTEGER NOT NULL, window INTEGER NOT NULL, made INTEGER NOT"
	          " NULL, kind INTEGER NOT NULL DEFAULT 0, low INTEGER NOT NULL DEFAULT 0);"
	          "CREATE TABLE influence(model INTEGER NOT NULL REFERENCES model(id), task TEXT NOT NULL,"
	          " kind INTEGER NOT NULL, rows REAL NOT NULL, sums BLOB NOT NULL, updated INTEGER NOT NULL,"
	          " PRIMARY KEY(model, task, kind)) WITHOUT ROWID;"
	          "CREATE TABLE chance(model INTEGER NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
	          " task TEXT NOT NULL, kind INTEGER NOT NULL, source TEXT NOT NULL, bin INTEGER NOT NULL,"
	          " rank INTEGER NOT NULL, hits REAL NOT NULL, trials REAL NOT NULL,"
	          " PRIMARY KEY(model, device, task, kind, source, bin, rank)) WITHOUT ROWID;"
	          "CREATE TABLE cost(model INTEGER NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
	          " what TEXT NOT NULL, total REAL NOT NULL, samples REAL NOT NULL,"
	          " PRIMARY KEY(model, device, what)) WITHOUT ROWID;"
	          "INSERT INTO cost VALUES(1, 'a cpu', 'rows-9', 0.5, 2);"
	          "DROP TABLE figure",
	    [6] = "ALTER TABLE observation DROP COLUMN low",
	    [5] = "DROP TABLE text",
	    [4] = "DROP TABLE chance; DROP TABLE cost",
	    [3] = "DROP TABLE influence"};
	for (int version = STORE_SCHEMA - 1; version >= 3; version--) {
		char name[32], statement[64];
		snprintf(name, sizeof name, "from-%d.db", version);
		struct store* s = must_open(name, STORE_WRITE);
		const char* const here = "a cpu";
		const struct store_figure cost = {"v-8", 0.5, 2};
		const struct bank_entry entry = entry_of(1, 7);
		assert_true(store_add(s, &model, &entry, 1, NULL, &e));
		assert_true(store_add_figures(s, &model, here, &cost, 1, &e));
		store_close(s);
		for (int v = STORE_SCHEMA - 1; v >= version; v--)
			sql(name, back[v]);
		snprintf(statement, sizeof statement, "PRAGMA user_version = %d", version);
		sql(name, statement);
		read_unchanged(name, &entry.mask);
		char log[512], expected[64];
		s = open_logged(name, STORE_WRITE, log);
		snprintf(expected, sizeof expected, "had schema version %d: its masks are kept", version);
		assert_non_null(strstr(log, expected));
		assert_ptr_equal(strchr(log, '\n'), log + strlen(log) - 1); /* one line */
		static struct seen seen;
		memset(&seen, 0, sizeof seen);
		assert_true(store_each(s, NULL, see, &seen, &e));
		assert_int_equal(seen.tokens, 7);
		assert_true(mask_equal(&seen.last.entry.mask, &entry.mask));
		struct seen_figures figures = {0};
		assert_true(store_each_figure(s, &model, here, see_figure, &figures, &e));
		assert_int_equal(figures.n, version >= 8); /* else measured anew */
		assert_true(version < 8 || (strcmp(figures.last.what, "v-8") == 0 && figures.last.samples == 2));
		figures.n = 0;
		assert_true(store_each_figure(s, &model, "", see_figure, &figures, &e));
		assert_int_equal(figures.n, 0); /* nothing reads it any more */
		assert_true(store_add_figures(s, &model, here, &cost, 1, &e));
		assert_true(store_add(s, &model, &entry, 1, NULL, &e));
		store_close(s);
		store_close(must_open(name, STORE_READ));
		store_close(open_logged(name, STORE_WRITE, log));
		assert_string_equal(log, ""); /* it is of today's schema now */
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(masks_as_text),
	    cmocka_unit_test(what_is_stored_comes_back),
	    cmocka_unit_test(clusters_without_a_label_are_separated),
	    cmocka_unit_test(processes_share_a_file),
	    cmocka_unit_test(committed_entries_survive_kills),
	    cmocka_unit_test(bad_files_are_named_and_kept),
	    cmocka_unit_test(locked_and_read_only),
	    cmocka_unit_test(a_full_disk_loses_nothing),
	    cmocka_unit_test(the_oldest_schemas_are_refused),
	    cmocka_unit_test(every_later_schema_keeps_its_masks),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
