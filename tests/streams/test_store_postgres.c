/* The store in PostgreSQL: what was committed is there, once, whatever dies; a server waits for nothing. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "streams/memory/store.h"
#include "streams/memory/store_internal.h"

static const struct store_model model = {.fingerprint = "00ff", .name = "a-model", .blocks = 20};
static char folder[64], address[160];
static struct error e;

static int postgres(const char* what) {
	const char* source = getenv("SWIFTLET_SOURCE");
	char command[512];
	snprintf(command, sizeof command, "%s/tests/postgres.sh %s %s", source ? source : ".", folder, what);
	const int code = system(command);
	return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

/* One statement of the test's own; its result is ignored. */
static void sql(const char* text) {
	char command[8192];
	snprintf(
	    command, sizeof command,
	    "PGOPTIONS=--client-min-messages=warning psql -q -X -v ON_ERROR_STOP=1 '%s' -c \"%s\" > /dev/null",
	    address, text);
	assert_int_equal(system(command), 0);
}

static int open_database(void** unused) {
	(void)unused;
	assert_int_equal(postgres("start"), 0);
	sql("DROP SCHEMA IF EXISTS swiftlet CASCADE");
	return 0;
}

static struct store* must_open(enum store_mode mode) {
	struct store* s = store_open(address, mode, &e);
	if (!s)
		print_error("%s\n", e.message);
	assert_non_null(s);
	return s;
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
	int64_t tokens, of[12];
	struct store_mask last;
};
static bool see(void* user, const struct store_mask* m) {
	struct seen* s = user;
	s->n++;
	s->tokens += m->entry.record.tokens;
	s->last = *m;
	for (int i = 0; i < 12; i++) {
		const struct bank_entry entry = entry_of(i, 1);
		if (mask_equal(&m->entry.mask, &entry.mask))
			s->of[i] += m->entry.record.tokens;
	}
	return true;
}
static struct seen look(struct store* s) {
	struct seen seen = {.n = 0};
	const bool good = store_each(s, "00ff", see, &seen, &e);
	if (!good)
		print_error("%s\n", e.message);
	assert_true(good);
	return seen;
}

static void pause_ms(int milliseconds) {
	nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L},
	          NULL);
}

/* Waits for what an outbox's thread does, at most five minutes. */
static struct store_state wait_for(struct store* s, bool (*is_so)(const struct store_state*)) {
	struct store_state state;
	for (int i = 0; i < 15000; i++) {
		store_state(s, &state);
		if (is_so(&state))
			return state;
		pause_ms(20);
	}
	fail_msg("waited in vain: %d writes wait, away %d, %s", state.waiting, state.away, state.message);
	return state;
}
static bool all_stored(const struct store_state* s) { return s->waiting == 0 && !s->away; }
static bool is_away(const struct store_state* s) { return s->away; }

/* ---- what is kept ------------------------------------------------------------------------- */

static void sum_cost(void* user, const struct store_figure* c) {
	assert_string_equal(c->what, "v-8");
	*(double*)user += c->total * 1000 + c->samples;
}
static const char costs_here[] = "a cpu", costs_there[] = "another";

/* Run over either kind of store, so that they agree. */
static void keeps_everything(const char* path) {
	struct store* s = store_open(path, STORE_WRITE, &e);
	assert_non_null(s);
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
	for (int i = 0; i < 2; i++) {
		const struct store_figure cost = {"v-8", 0.5, 2};
		assert_true(store_add_figures(s, &model, costs_here, &cost, 1, &e));
	}
	store_close(s);

	s = store_open(path, STORE_READ, &e);
	assert_non_null(s);
	const struct seen seen = look(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.tokens, 200);
	assert_true(mask_equal(&seen.last.entry.mask, &entry.mask));
	assert_string_equal(seen.last.entry.task, "task-1");
	assert_string_equal(seen.last.model.name, "a-model");
	assert_true(seen.last.entry.converged);
	assert_true(seen.last.entry.signature.prompts > 1.5 && seen.last.entry.signature.prompts < 2.5);
	assert_memory_equal(&seen.last.entry.signature.value[39], &(float){2 * entry.unsaved_signature.value[39]},
	                    sizeof(float));
	double costs = 0;
	assert_true(store_each_figure(s, &model, costs_here, sum_cost, &costs, &e));
	assert_true(store_each_figure(s, &model, costs_there, sum_cost, &costs, &e));
	assert_true(costs > 1003.9 && costs < 1004.1);
	assert_false(store_add(s, &model, &entry, 1, NULL, &e)); /* opened for reading */
	store_close(s);

	s = store_open(path, STORE_EDIT, &e);
	assert_non_null(s);
	struct store_mask one;
	entry.record.tokens = 7;
	assert_true(store_put(s, &model, &entry, &again, &e)); /* an import sets */
	assert_int_equal(store_get(s, id, &one, &e), 1);
	assert_int_equal(one.entry.record.tokens, 7);
	assert_int_equal(store_get(s, id + 1, &one, &e), 0);
	assert_true(store_trim(s, "00ff", 0, 0, &e));
	assert_int_equal(look(s).n, 0);
	assert_true(store_add(s, &model, &entry, 1, &id, &e));
	assert_int_equal(store_delete(s, id, &e), 1);
	assert_int_equal(store_delete(s, id, &e), 0);
	struct bank_entry two[2] = {entry_of(2, 1), entry_of(3, 1)};
	assert_true(store_add(s, &model, two, 2, NULL, &e));
	assert_int_equal(look(s).n, 2);
	store_close(s);
}

static void both_stores_keep_the_same(void** unused) {
	(void)unused;
	char file[128];
	snprintf(file, sizeof file, "%s.db", folder);
	assert_null(store_open(address, STORE_READ, &e));
	assert_non_null(strstr(e.message, "no such mask store"));
	keeps_everything(address);
	keeps_everything(file);
	remove(file);
}

/* ---- kills -------------------------------------------------------------------------------- */

static void writer(int out, int start) {
	struct store* s = store_open(address, STORE_WRITE, &e);
	if (!s)
		_exit(1);
	for (int i = start;; i++) {
		const struct bank_entry entry = entry_of(i % 12, 1);
		const char which = (char)(i % 12);
		if (!store_add(s, &model, &entry, 1, NULL, &e) || write(out, &which, 1) != 1)
			_exit(1);
	}
}

/* One writer, which is killed after a while; the commits that it reported are counted. */
static void run_writer(int k, int64_t reported[12]) {
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		writer(ends[1], k);
	}
	close(ends[1]);
	struct pollfd first = {.fd = ends[0], .events = POLLIN};
	if (k % 2)
		poll(&first, 1, 300000);
	nanosleep(&(struct timespec){.tv_nsec = 1000L * (500 + rand() % 15000)}, NULL);
	kill(child, SIGKILL);
	int status;
	waitpid(child, &status, 0);
	assert_true(WIFSIGNALED(status)); /* it did not give up by itself */
	char which;
	while (read(ends[0], &which, 1) == 1)
		reported[(int)which]++;
	close(ends[0]);
}

static void check_reported(const int64_t reported[12], int kills) {
	struct store* s = must_open(STORE_WRITE);
	const struct seen seen = look(s);
	store_close(s);
	for (int i = 0; i < 12; i++) {
		assert_true(seen.of[i] >= reported[i]);
		assert_true(seen.of[i] <= reported[i] + kills + 1); /* at most one unreported commit a kill */
	}
}

/* Kills the writers, and every fortieth time the database under a writer. */
static void committed_entries_survive_kills(void** unused) {
	(void)unused;
	enum { KILLS = 200 };
	int64_t reported[12] = {0}, total = 0;
	srand(1);
	store_close(must_open(STORE_WRITE));
	for (int k = 0; k < KILLS; k++) {
		run_writer(k, reported);
		if (k % 40 != 39)
			continue;
		check_reported(reported, k);
		assert_int_equal(postgres("kill"), 0);
		assert_int_equal(postgres("start"), 0);
		check_reported(reported, k);
	}
	for (int i = 0; i < 12; i++)
		total += reported[i];
	print_message("%d kills of a writer, %d of the database, %lld commits reported, every one there\n", KILLS,
	              KILLS / 40, (long long)total);
	assert_true(total >= KILLS / 2);
}

/* The answer to a commit may be lost with the database: the write is sent again and counted once. */
static void each_write_is_stored_once(void** unused) {
	(void)unused;
	struct store* s = must_open(STORE_SERVE);
	int64_t added = 0;
	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < 30; i++, added++) {
			const struct bank_entry entry = entry_of(i % 12, 1);
			assert_true(store_add(s, &model, &entry, 1, NULL, &e));
			if (i == 10)
				assert_int_equal(postgres("kill"), 0);
		}
		assert_int_equal(look(s).tokens, added); /* what is served with does not wait */
		assert_int_equal(postgres("start"), 0);
	}
	assert_int_equal(wait_for(s, all_stored).stored, added);
	store_close(s);
	s = must_open(STORE_READ);
	assert_int_equal(look(s).tokens, added);
	store_close(s);
}

/* ---- replicas ----------------------------------------------------------------------------- */

static bool has_news(const struct store_state* s) { return s->generation >= 2; }

static void replicas_hear_of_each_other(void** unused) {
	(void)unused;
	struct store* first = must_open(STORE_SERVE);
	struct store* second = must_open(STORE_SERVE);
	assert_string_equal(strstr(store_path(first), "/postgres"), "/postgres");
	assert_null(strstr(store_path(first), "swiftlet@"));
	const struct bank_entry entry = entry_of(1, 100), other = entry_of(2, 50);
	assert_true(store_add(first, &model, &entry, 1, NULL, &e));
	wait_for(second, has_news); /* by notification: nothing else makes it read */
	assert_int_equal(look(second).tokens, 100);
	assert_true(store_add(second, &model, &entry, 1, NULL, &e));
	assert_true(store_add(second, &model, &other, 1, NULL, &e));
	wait_for(second, all_stored);
	for (int i = 0; i < 15000 && look(first).tokens < 250; i++)
		pause_ms(20);
	assert_int_equal(look(first).tokens, 250); /* sums of both */
	struct store* third = must_open(STORE_SERVE);
	assert_int_equal(look(third).tokens, 250); /* at once: a newcomer reads before it serves */
	store_close(third);
	struct seen seen = look(first);
	assert_int_equal(store_delete(first, seen.last.id, &e), 1);
	store_close(first);
	store_close(second);
	second = must_open(STORE_READ);
	assert_int_equal(look(second).n, 1);
	store_close(second);
}

static void add_many(struct store* s, int n) {
	for (int i = 0; i < n; i++) {
		const struct bank_entry entry = entry_of(i % 12, 1);
		assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	}
}

static void a_database_that_is_away_is_waited_for(void** unused) {
	(void)unused;
	assert_int_equal(postgres("stop"), 0);
	assert_null(store_open(address, STORE_WRITE, &e)); /* a caller that must have it gets an error */
	assert_non_null(strstr(e.message, "cannot be reached"));
	struct store* s = must_open(STORE_SERVE); /* who serves goes on */
	add_many(s, 40);
	assert_int_equal(wait_for(s, is_away).waiting, 40);
	const struct bank_entry entry = entry_of(1, 1);
	int refused = 0;
	for (int i = 0; i < 300; i++)
		refused += !store_add(s, &model, &entry, 1, NULL, &e);
	assert_in_range(refused, 40, 100); /* the queue is bounded: 256 */
	assert_non_null(strstr(e.message, "the queue of writes is full"));
	assert_int_equal(postgres("start"), 0);
	wait_for(s, all_stored);
	store_close(s);
	s = must_open(STORE_READ);
	assert_int_equal(look(s).tokens, 340 - refused);
	store_close(s);
}

static void a_slow_database_delays_nobody(void** unused) {
	(void)unused;
	struct store* s = must_open(STORE_SERVE);
	store_set_patience(s, 100);
	char command[512];
	snprintf(command, sizeof command,
	         "psql -q -X '%s' -c 'BEGIN; LOCK TABLE swiftlet.mask IN ACCESS EXCLUSIVE MODE; SELECT "
	         "pg_advisory_lock(7), pg_sleep(600)' > /dev/null 2>&1 &",
	         address);
	assert_int_equal(system(command), 0);
	sql("DO 'BEGIN WHILE NOT EXISTS(SELECT FROM pg_locks WHERE locktype = ''advisory'' AND objid = 7) LOOP "
	    "PERFORM pg_sleep(0.02); END LOOP; END'");
	add_many(s, 20); /* would not return before the lock's end, did it wait */
	assert_int_equal(look(s).tokens, 20);
	const struct store_state state = wait_for(s, is_away);
	assert_int_equal(state.waiting, 20);
	store_set_patience(s, 60000); /* what is stored now may take its time */
	sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7");
	wait_for(s, all_stored);
	store_close(s);
	s = must_open(STORE_READ);
	assert_int_equal(look(s).tokens, 20);
	store_close(s);
}

/* The error of a server whose disk is full, raised by a trigger. */
static void a_full_database_loses_nothing(void** unused) {
	(void)unused;
	struct store* s = must_open(STORE_SERVE);
	sql("CREATE FUNCTION swiftlet.full() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no "
	    "space"
	    "'' USING ERRCODE = ''disk_full''; END'; CREATE TRIGGER full_ BEFORE INSERT ON swiftlet.mask EXECUTE "
	    "FUNCTION swiftlet.full()");
	add_many(s, 10);
	assert_non_null(strstr(wait_for(s, is_away).message, "the disk is full while storing"));
	sql("DROP TRIGGER full_ ON swiftlet.mask");
	wait_for(s, all_stored);
	store_close(s);
	s = must_open(STORE_READ);
	assert_int_equal(look(s).tokens, 10);
	store_close(s);
}

static void a_write_that_cannot_be_is_left_out(void** unused) {
	(void)unused;
	struct store* s = must_open(STORE_SERVE);
	struct bank_entry entry = entry_of(1, 1);
	strcpy(entry.task, "\xff no UTF-8");
	assert_true(store_add(s, &model, &entry, 1, NULL, &e));
	add_many(s, 3);
	wait_for(s, all_stored);
	store_close(s);
	s = must_open(STORE_READ);
	assert_int_equal(look(s).tokens, 3);
	store_close(s);
}

/* ---- schemas ------------------------------------------------------------------------------ */

static void newer_and_others_schemas_are_refused(void** unused) {
	(void)unused;
	static const enum store_mode modes[] = {STORE_READ, STORE_WRITE, STORE_EDIT, STORE_SERVE};
	store_close(must_open(STORE_WRITE));
	sql("UPDATE swiftlet.version SET number = 99");
	for (int i = 0; i < 4; i++) {
		assert_null(store_open(address, modes[i], &e));
		assert_non_null(strstr(e.message, "schema version 99, newer than this program's"));
	}
	sql("DROP TABLE swiftlet.version");
	for (int i = 0; i < 4; i++) {
		assert_null(store_open(address, modes[i], &e));
		assert_non_null(strstr(e.message, "belongs to another program"));
	}
	assert_null(store_open("postgresql://?nonsense=1", STORE_SERVE, &e));
	assert_non_null(strstr(e.message, "expected an address of PostgreSQL"));
}

/* The tables of version 1, and what each later one added, as they were released. */
static const char* const released[] = {
    "CREATE SCHEMA swiftlet; SET search_path = swiftlet;"
    "CREATE TABLE version(number BIGINT NOT NULL); INSERT INTO version VALUES(1);"
    "CREATE TABLE model(id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
    " fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL, blocks BIGINT NOT NULL);"
    "CREATE TABLE mask(id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
    " model BIGINT NOT NULL REFERENCES model(id), task TEXT NOT NULL, kind BIGINT NOT NULL,"
    " skipped TEXT NOT NULL, skip_ratio DOUBLE PRECISION NOT NULL, settled BIGINT NOT NULL, signature BYTEA,"
    " signature_prompts DOUBLE PRECISION NOT NULL DEFAULT 0, matches BIGINT NOT NULL, rows BIGINT NOT NULL,"
    " accepted BIGINT NOT NULL, draft_steps BIGINT NOT NULL, trials BIGINT NOT NULL, rounds BIGINT NOT NULL,"
    " round_tokens BIGINT NOT NULL, tokens BIGINT NOT NULL, instances BIGINT NOT NULL, steps BIGINT NOT NULL,"
    " held BIGINT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL,"
    " UNIQUE(model, task, kind, skipped));"
    "CREATE TABLE observation(id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
    " model BIGINT NOT NULL REFERENCES model(id), task TEXT NOT NULL, skipped TEXT NOT NULL,"
    " matches BIGINT NOT NULL, rows BIGINT NOT NULL, \\\"window\\\" BIGINT NOT NULL, made BIGINT NOT NULL,"
    " kind BIGINT NOT NULL DEFAULT 0);"
    "INSERT INTO model(fingerprint, name, blocks) VALUES('00ff', 'a-model', 20);"
    "INSERT INTO mask(model, task, kind, skipped, skip_ratio, settled, matches, rows, accepted, draft_steps,"
    " trials, rounds, round_tokens, tokens, instances, steps, held, created, updated) VALUES(1, 'math', 0,"
    " 'a1,3m5', 0.45, 1, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 1, 1)",
    "SET search_path = swiftlet; UPDATE version SET number = 2;"
    "CREATE TABLE influence(model BIGINT NOT NULL REFERENCES model(id), task TEXT NOT NULL,"
    " kind BIGINT NOT NULL, rows DOUBLE PRECISION NOT NULL, sums BYTEA NOT NULL, updated BIGINT NOT NULL,"
    " PRIMARY KEY(model, task, kind))",
    "SET search_path = swiftlet; UPDATE version SET number = 3;"
    "CREATE TABLE chance(model BIGINT NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
    " task TEXT NOT NULL, kind BIGINT NOT NULL, source TEXT NOT NULL, bin BIGINT NOT NULL,"
    " rank BIGINT NOT NULL, hits DOUBLE PRECISION NOT NULL, trials DOUBLE PRECISION NOT NULL,"
    " PRIMARY KEY(model, device, task, kind, source, bin, rank));"
    "CREATE TABLE cost(model BIGINT NOT NULL REFERENCES model(id), device TEXT NOT NULL, what TEXT NOT NULL,"
    " total DOUBLE PRECISION NOT NULL, samples DOUBLE PRECISION NOT NULL,"
    " PRIMARY KEY(model, device, what))",
    "SET search_path = swiftlet; UPDATE version SET number = 4;"
    "CREATE TABLE writer(id TEXT PRIMARY KEY, number BIGINT NOT NULL,"
    " seen TIMESTAMPTZ NOT NULL DEFAULT now());"
    "INSERT INTO chance VALUES(1, 'a cpu', '', 77, 'mask/2', 3, 1, 2.5, 4);"
    "INSERT INTO cost VALUES(1, 'a cpu', 'rows-8', 0.5, 2);"
    "INSERT INTO influence VALUES(1, 'code', 0, 8, decode(repeat('000000000000f83f', 40), 'hex'), 1)"};

static void older_schemas_keep_their_masks(void** unused) {
	(void)unused;
	for (size_t version = 1; version <= sizeof released / sizeof *released; version++) {
		sql("DROP SCHEMA IF EXISTS swiftlet CASCADE");
		for (size_t i = 0; i < version; i++)
			sql(released[i]);
		struct store* s = must_open(STORE_READ);
		assert_int_equal(look(s).tokens, 77); /* without a change to the database, which stays readable */
		store_close(s);
		s = must_open(STORE_READ);
		assert_int_equal(look(s).tokens, 77);
		store_close(s);
		s = must_open(STORE_WRITE);
		assert_int_equal(look(s).tokens, 77);
		assert_true(look(s).last.entry.converged);
		add_many(s, 2);
		const struct store_figure cost = {"v-8", 0.5, 2};
		assert_true(store_add_figures(s, &model, costs_here, &cost, 1, &e));
		store_close(s);
		s = must_open(STORE_READ);
		assert_int_equal(look(s).tokens, 79);
		store_close(s);
	}
}

/* Off this machine there is TLS or nothing. */
static void by_tls_alone(void** unused) {
	static const char* const lax[] = {"disable", "allow", "prefer"};
	(void)unused;
	for (int i = 0; i < 3; i++) {
		char other[512];
		snprintf(other, sizeof other, "postgresql://someone@db.example:5432/x?sslmode=%s", lax[i]);
		assert_null(store_open(other, STORE_SERVE, &e));
		assert_non_null(strstr(e.message, "needs TLS"));
	}
	/* what leads off this machine another way */
	assert_null(store_open("postgresql://?service=elsewhere&sslmode=disable", STORE_SERVE, &e));
	assert_non_null(strstr(e.message, "needs TLS"));
	setenv("PGHOSTADDR", "203.0.113.7", 1);
	assert_null(store_open("postgresql://localhost/x?sslmode=disable", STORE_SERVE, &e));
	assert_non_null(strstr(e.message, "needs TLS"));
	unsetenv("PGHOSTADDR");
	setenv("PGSERVICE", "elsewhere", 1);
	assert_null(store_open("postgresql://localhost/x?sslmode=prefer", STORE_SERVE, &e));
	assert_non_null(strstr(e.message, "needs TLS"));
	unsetenv("PGSERVICE");
}

static int erase(void** unused) {
	(void)unused;
	return postgres("erase");
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(both_stores_keep_the_same, open_database),
	    cmocka_unit_test_setup(committed_entries_survive_kills, open_database),
	    cmocka_unit_test_setup(each_write_is_stored_once, open_database),
	    cmocka_unit_test_setup(replicas_hear_of_each_other, open_database),
	    cmocka_unit_test_setup(a_database_that_is_away_is_waited_for, open_database),
	    cmocka_unit_test_setup(a_slow_database_delays_nobody, open_database),
	    cmocka_unit_test_setup(a_full_database_loses_nothing, open_database),
	    cmocka_unit_test_setup(a_write_that_cannot_be_is_left_out, open_database),
	    cmocka_unit_test_setup(newer_and_others_schemas_are_refused, open_database),
	    cmocka_unit_test_setup(older_schemas_keep_their_masks, open_database),
	    cmocka_unit_test(by_tls_alone),
	};
	strcpy(folder, "/tmp/swiftlet-postgres-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(address, sizeof address, "postgresql://swiftlet@/postgres?host=%s", folder);
	if (store_open("postgresql://?nonsense=1", STORE_READ, &e) || strstr(e.message, "built without")) {
		fprintf(stderr, "skipped: %s\n", e.message);
		rmdir(folder);
		return 77;
	}
	const int started = postgres("start");
	if (started == 0)
		return cmocka_run_group_tests(tests, NULL, erase);
	postgres("erase");
	return started;
}
