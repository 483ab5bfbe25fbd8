/* The PostgreSQL driver: it connects, reconnects and words failures. Values and results travel as text,
 * except blobs. */
#include "streams/memory/store_postgres.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "streams/memory/store_internal.h"

enum { PATIENCE = 5000 };
enum { INT8 = 20, FLOAT8 = 701, TEXT = 25, BYTEA = 17 };

struct postgres_values { /* (n) parameters of a statement */
	int n;
	const Oid* type;
	const char* const* value;
	const int *length, *format;
};

/* ---- errors ------------------------------------------------------------------------------- */

static void drop_connection(struct postgres* p) {
	PQfinish(p->connection);
	p->connection = NULL;
}

/* libpq's messages have several lines. The first has the reason. */
static int first_line(const char* words) { return (int)strcspn(words, "\n"); }

static bool report_away(struct store* s, const char* why, struct error* e) {
	error_set(e, "%s cannot be reached: %.*s", s->path, first_line(why), why);
	drop_connection(s->postgres);
	return false;
}

static bool report_timeout(struct store* s, const char* doing, struct error* e) {
	error_set(e, "%s did not answer within %d ms while %s", s->path, s->postgres->patience, doing);
	drop_connection(s->postgres);
	return false;
}

static bool report_refusal(struct store* s, const PGresult* result, const char* doing, struct error* e) {
	const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char* words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	if (!state || !words)
		return report_away(s, PQerrorMessage(s->postgres->connection), e);
	/* classes of https://www.postgresql.org/docs/current/errcodes-appendix.html */
	s->postgres->blames_data = strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0;
	if (strcmp(state, "53100") == 0)
		error_set(e, "%s: the disk is full while %s; what was stored before is kept", s->path, doing);
	else if (strcmp(state, "25006") == 0 || strcmp(state, "42501") == 0)
		error_set(e, "%s cannot be written by this user while %s: %s", s->path, doing, words);
	else
		error_set(e, "%s: %s (%s) while %s", s->path, words, state, doing);
	if (PQstatus(s->postgres->connection) == CONNECTION_BAD)
		drop_connection(s->postgres);
	return false;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static bool wait_until(const PGconn* c, short events, int64_t until) {
	const int64_t left = until - milliseconds_now();
	struct pollfd p = {.fd = PQsocket(c), .events = events};
	return left > 0 && poll(&p, 1, (int)left) > 0;
}

static bool receive_result(struct store* s, PGresult** last, const char* doing, int64_t until,
                           struct error* e) {
	PGconn* c = s->postgres->connection;
	for (;;) {
		while (PQisBusy(c)) {
			if (!wait_until(c, POLLIN, until))
				return report_timeout(s, doing, e);
			if (!PQconsumeInput(c))
				return report_away(s, PQerrorMessage(c), e);
		}
		PGresult* result = PQgetResult(c);
		if (!result)
			return true;
		const ExecStatusType had = PQresultStatus(*last);
		if (*last && had != PGRES_COMMAND_OK && had != PGRES_TUPLES_OK) {
			PQclear(result); /* the first failure is the one to report */
			continue;
		}
		PQclear(*last);
		*last = result;
	}
}

/* The statement's last result, which the caller clears; NULL with the error set. */
static PGresult* send_query(struct store* s, const char* sql, const struct postgres_values* v,
                            const char* doing, struct error* e) {
	PGconn* c = s->postgres->connection;
	const int64_t until = milliseconds_now() + s->postgres->patience;
	PGresult* result = NULL;
	if (!c) {
		error_set(e, "%s: the connection was lost while %s", s->path, doing);
		return NULL;
	}
	const int sent =
	    v ? PQsendQueryParams(c, sql, v->n, v->type, v->value, v->length, v->format, 0) : PQsendQuery(c, sql);
	if (!sent) {
		report_away(s, PQerrorMessage(c), e);
		return NULL;
	}
	for (int more; (more = PQflush(c)) != 0;)
		if (more < 0 || !wait_until(c, POLLOUT, until)) {
			report_timeout(s, doing, e);
			return NULL;
		}
	const bool received = receive_result(s, &result, doing, until, e);
	const ExecStatusType status = PQresultStatus(result);
	if (received && (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK))
		return result;
	if (received)
		report_refusal(s, result, doing, e);
	PQclear(result);
	return NULL;
}

/* ---- connecting --------------------------------------------------------------------------- */

static void no_notice(void* unused, const PGresult* result) { (void)unused, (void)result; }

static bool establish_connection(struct store* s, struct error* e) {
	struct postgres* p = s->postgres;
	const int64_t until = milliseconds_now() + p->patience;
	/* these parameters override the address's own */
	const char* const key[] = {"dbname", "fallback_application_name", p->tls ? "sslmode" : NULL, NULL};
	const char* const value[] = {p->address, "swiftlet", p->tls, NULL};
	p->connection = PQconnectStartParams(key, value, 1);
	if (!p->connection)
		return error_set(e, "out of memory");
	if (PQstatus(p->connection) == CONNECTION_BAD)
		return report_away(s, PQerrorMessage(p->connection), e);
	PQsetNoticeReceiver(p->connection, no_notice, NULL);
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;
	while (next != PGRES_POLLING_OK) {
		if (!wait_until(p->connection, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until))
			return report_timeout(s, "connecting", e);
		next = PQconnectPoll(p->connection);
		if (next == PGRES_POLLING_FAILED)
			return report_away(s, PQerrorMessage(p->connection), e);
	}
	PQsetnonblocking(p->connection, 1);
	return true;
}

/* ---- schema ------------------------------------------------------------------------------- */

/* All tables are in a schema of their own, "swiftlet", in the database that the address names. */

/* The version; 0 if the database has none of our tables, -1 with the error set. */
static int64_t read_version(struct store* s, const char* doing, struct error* e) {
	enum { NO_TABLES, OURS, OTHERS };
	const int64_t whose = sql_number(
	    s,
	    "SELECT CASE WHEN count(*) = 0 THEN 0 WHEN bool_or(tablename = 'version') THEN 1 ELSE 2 END"
	    " :: BIGINT FROM pg_catalog.pg_tables WHERE schemaname = 'swiftlet'",
	    doing, e, NULL, 0);
	if (whose == OURS)
		return sql_number(s, "SELECT number FROM version", doing, e, NULL, 0);
	if (whose != OTHERS)
		return whose; /* no tables, or an error */
	s->postgres->unfit = true;
	error_set(e, "%s: its schema \"swiftlet\" belongs to another program (left as it is)", s->path);
	return -1;
}

/* Makes the tables, or takes over the masks of an earlier version. One process does it at a time; the others
 * find it done. */
static bool set_up(struct store* s, struct error* e) {
	static const char tables[] =
	    "CREATE SCHEMA IF NOT EXISTS swiftlet; CREATE TABLE IF NOT EXISTS version(number BIGINT NOT NULL);"
	    "CREATE TABLE IF NOT EXISTS writer(id TEXT PRIMARY KEY, number BIGINT NOT NULL,"
	    " seen TIMESTAMPTZ NOT NULL DEFAULT now());" STORE_TABLES(
	        "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY") STORE_TIME_COLUMNS("IF NOT EXISTS")
	        STORE_FORGOTTEN;
	const char* doing = "bringing its schema up to date";
	char header[128];
	snprintf(header, sizeof header, "DELETE FROM version; INSERT INTO version VALUES(%d)", STORE_SCHEMA);
	if (!s->driver->execute(s, "BEGIN; SELECT pg_advisory_xact_lock(1937204852)", doing, e))
		return false;
	s->postgres->in_transaction = true;
	const int64_t version = read_version(s, doing, e);
	const bool good = version >= 0 && store_check_schema(s, version, 1, e) &&
	                  (version == STORE_SCHEMA ||
	                   (s->driver->execute(s, tables, doing, e) && s->driver->execute(s, header, doing, e)));
	if (!s->driver->end(s, good, doing, e))
		return false;
	store_log_upgrade(s, version);
	return true;
}

/* Lets this connection read a schema of an earlier version as if it were today's. The database stays as it is
 * for programs of that version. PostgreSQL looks for a table among temporary ones first. */
static bool view_earlier(struct store* s, int64_t version, struct error* e) {
	static const char times[] = "CREATE OR REPLACE TEMPORARY VIEW mask AS SELECT *, 0::BIGINT AS micros,"
	                            " 0::BIGINT AS plain_micros FROM swiftlet.mask";
	return version >= STORE_TIMES || s->driver->execute(s, times, "reading an earlier version", e);
}

/* Brings the schema up to date, or reports why the database cannot be used. */
static bool check_schema(struct store* s, struct error* e) {
	s->postgres->in_transaction = true; /* reading the version must not reconnect */
	const int64_t version = read_version(s, "reading its version", e);
	s->postgres->in_transaction = false;
	const enum store_mode mode = s->postgres->mode;
	if (version < 0)
		return false;
	s->postgres->unfit = true;
	if (!store_check_schema(s, version, 1, e))
		return false;
	if (version == 0 && (mode == STORE_READ || mode == STORE_EDIT))
		return error_set(e, "%s: there is no such mask store", s->path);
	s->postgres->unfit = false;
	return version == STORE_SCHEMA || (mode == STORE_READ ? view_earlier(s, version, e) : set_up(s, e));
}

bool postgres_connect(struct store* s, struct error* e) {
	struct postgres* p = s->postgres;
	if (p->connection && PQstatus(p->connection) == CONNECTION_OK)
		return true;
	drop_connection(p);
	p->unfit = false;
	if (!establish_connection(s, e))
		return false;
	char sql[256];
	snprintf(sql, sizeof sql,
	         "SET search_path = swiftlet; SET client_min_messages = warning; SET statement_timeout = %d;"
	         "SET synchronous_commit = on; %s",
	         p->patience, p->listens ? "LISTEN swiftlet" : "");
	PGresult* result = send_query(s, sql, NULL, "setting up the connection", e);
	PQclear(result);
	if (result && check_schema(s, e))
		return true;
	drop_connection(p);
	return false;
}

bool postgres_news(struct postgres* p, int wake, int milliseconds) {
	struct pollfd of[2] = {{.fd = wake, .events = POLLIN},
	                       {.fd = p->connection ? PQsocket(p->connection) : -1, .events = POLLIN}};
	poll(of, 2, milliseconds);
	if (!p->connection)
		return false;
	if (!PQconsumeInput(p->connection)) {
		drop_connection(p);
		return false;
	}
	bool others = false;
	for (PGnotify* n; (n = PQnotifies(p->connection)); PQfreemem(n))
		others |= n->be_pid != PQbackendPID(p->connection);
	return others;
}

/* ---- the driver --------------------------------------------------------------------------- */

static void close_connection(struct store* s) {
	if (!s->postgres)
		return;
	PQfinish(s->postgres->connection);
	free(s->postgres->address);
	free(s->postgres);
}

static void set_patience(struct store* s, int milliseconds) { s->postgres->patience = milliseconds; }

static bool execute_sql(struct store* s, const char* sql, const char* doing, struct error* e) {
	PGresult* result = send_query(s, sql, NULL, doing, e);
	PQclear(result);
	return result != NULL;
}

/* ---- transactions ------------------------------------------------------------------------- */

/* Records a stamped write together with its data. False: it is there already, or the statement failed. */
static bool note_stamp(struct store* s, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	char sql[320];
	snprintf(sql, sizeof sql,
	         "INSERT INTO writer(id, number) VALUES('%s', %lld) ON CONFLICT(id) DO UPDATE SET"
	         " number = excluded.number, seen = now() WHERE writer.number < excluded.number RETURNING number",
	         p->writer, (long long)p->number);
	PGresult* result = send_query(s, sql, NULL, doing, e);
	p->has_it = result && PQntuples(result) == 0;
	const bool fresh = result && !p->has_it;
	PQclear(result);
	if (p->has_it)
		error_set(e, "%s: this was stored already", s->path);
	return fresh;
}

static bool begin_transaction(struct store* s, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	if (!postgres_connect(s, e))
		return false;
	if (p->mode == STORE_READ)
		return error_set(e, "%s is opened for reading", s->path);
	if (!execute_sql(s, "BEGIN", doing, e))
		return false;
	p->in_transaction = true;
	return p->number == 0 || note_stamp(s, doing, e) || s->driver->end(s, false, doing, e);
}

static bool end_transaction(struct store* s, bool good, const char* doing, struct error* e) {
	struct postgres* p = s->postgres;
	p->in_transaction = false;
	if (good && execute_sql(s, "NOTIFY swiftlet; COMMIT", doing, e))
		return true;
	struct error ignored;
	if (p->connection)
		execute_sql(s, "ROLLBACK", doing, &ignored);
	return false;
}

/* ---- statements --------------------------------------------------------------------------- */

static struct sql_value read_column(const PGresult* result, int row, int i) {
	struct sql_value v = {.kind = SQL_TEXT};
	if (PQgetisnull(result, row, i))
		return v;
	const char* text = PQgetvalue(result, row, i);
	const Oid type = PQftype(result, i);
	if (type == BYTEA) {
		v.kind = SQL_BLOB;
		v.data = PQunescapeBytea((const unsigned char*)text, &v.size);
		return v;
	}
	v.kind = type == INT8 ? SQL_INT : type == FLOAT8 ? SQL_REAL : SQL_TEXT;
	v.number = strtoll(text, NULL, 10);
	v.real = strtod(text, NULL);
	v.data = text;
	return v;
}

static bool visit_rows(const PGresult* result, sql_visit* visit, void* user, struct error* e) {
	bool good = true;
	const int n = PQnfields(result) < SQL_MOST ? PQnfields(result) : SQL_MOST;
	for (int row = 0; good && row < PQntuples(result); row++) {
		struct sql_value value[SQL_MOST];
		for (int i = 0; i < n; i++)
			value[i] = read_column(result, row, i);
		good = visit(user, value, e);
		for (int i = 0; i < n; i++)
			if (value[i].kind == SQL_BLOB)
				PQfreemem((void*)(uintptr_t)value[i].data);
	}
	return good;
}

static bool run_sql(struct store* s, const char* sql, const char* doing, const struct sql_value* value, int n,
                    sql_visit* visit, void* user, struct error* e) {
	static const Oid types[] = {[SQL_INT] = INT8, [SQL_REAL] = FLOAT8, [SQL_TEXT] = TEXT, [SQL_BLOB] = BYTEA};
	char number[SQL_MOST][32];
	const char* text[SQL_MOST];
	Oid type[SQL_MOST];
	int length[SQL_MOST], format[SQL_MOST];
	if (!s->postgres->in_transaction && !postgres_connect(s, e))
		return false;
	for (int i = 0; i < n; i++) {
		const bool counts = value[i].kind == SQL_INT;
		if (counts)
			snprintf(number[i], sizeof number[i], "%lld", (long long)value[i].number);
		else if (value[i].kind == SQL_REAL)
			snprintf(number[i], sizeof number[i], "%.17g", value[i].real);
		type[i] = types[value[i].kind];
		text[i] = counts || value[i].kind == SQL_REAL ? number[i] : value[i].data;
		length[i] = (int)value[i].size;
		format[i] = value[i].kind == SQL_BLOB;
	}
	char* dollars = strdup(sql);
	if (!dollars)
		return error_set(e, "out of memory");
	for (char* at = dollars; (at = strchr(at, '?')); at++)
		*at = '$';
	PGresult* result =
	    send_query(s, dollars, &(struct postgres_values){n, type, text, length, format}, doing, e);
	const bool good = result && (!visit || visit_rows(result, visit, user, e));
	PQclear(result);
	free(dollars);
	return good;
}

static const struct sql_driver postgres_driver = {.close = close_connection,
                                                  .set_patience = set_patience,
                                                  .execute = execute_sql,
                                                  .begin = begin_transaction,
                                                  .end = end_transaction,
                                                  .run = run_sql};

/* ---- opening ------------------------------------------------------------------------------ */

/* The next of a list of hosts: a socket's folder, or this machine. */
static bool is_here(const char* hosts) {
	char host[256];
	for (const char* at = hosts; *at; at += *at == ',') {
		const size_t n = strcspn(at, ",");
		snprintf(host, sizeof host, "%.*s", (int)n, at);
		struct in_addr four;
		const bool here = n == 0 || *host == '/' || *host == '@' || strcmp(host, "localhost") == 0 ||
		                  strcmp(host, "::1") == 0 ||
		                  (inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
		if (!here)
			return false;
		at += n;
	}
	return true;
}

static const char* find_option(const PQconninfoOption* o, const char* name) {
	while (o->keyword && strcmp(o->keyword, name) != 0)
		o++;
	return o->keyword && o->val ? o->val : "";
}

/* The address's value, else the environment's, which libpq reads too. */
static const char* find_either(const PQconninfoOption* o, const char* name, const char* variable) {
	const char* const given = find_option(o, name);
	const char* const around = getenv(variable);
	return *given || !around ? given : around;
}

/* Requires TLS for a database on another machine: libpq would fall back to plain text if the server has no
 * TLS. NULL when the address decides; false with the error set when it allows a connection without TLS. */
static bool choose_tls(const PQconninfoOption* option, const char** tls, struct error* e) {
	const char* const host = find_either(option, "host", "PGHOST");
	const char* const address = find_either(option, "hostaddr", "PGHOSTADDR");
	const char* const mode = find_either(option, "sslmode", "PGSSLMODE");
	/* a service names hosts and addresses that libpq reads later */
	const bool here = is_here(*address ? address : host) && !*find_either(option, "service", "PGSERVICE"),
	           strict = strcmp(mode, "require") == 0 || strncmp(mode, "verify-", 7) == 0;
	*tls = here || strict ? NULL : "require";
	return here || strict || !*mode ||
	       error_set(e, "--store: a database on another machine needs TLS: set sslmode=require, verify-ca or "
	                    "verify-full");
}

/* The address for messages: host and database, without user and password. */
static struct store* new_store(const PQconninfoOption* option, struct error* e) {
	const char *host = find_option(option, "host"), *port = find_option(option, "port");
	char label[1024];
	snprintf(label, sizeof label, "postgresql://%s%s%s/%s", host, *port ? ":" : "", port,
	         find_option(option, "dbname"));
	return store_new(label, e);
}

struct store* postgres_prepare(const char* path, enum store_mode mode, struct error* e) {
	char* words = NULL;
	const char* tls;
	PQconninfoOption* option = PQconninfoParse(path, &words);
	if (!option) {
		error_set(e, "--store: expected an address of PostgreSQL: %.*s",
		          first_line(words ? words : "out of memory"), words ? words : "out of memory");
		PQfreemem(words);
		return NULL;
	}
	struct store* s = choose_tls(option, &tls, e) ? new_store(option, e) : NULL;
	PQconninfoFree(option);
	if (!s)
		return NULL;
	s->postgres = calloc(1, sizeof *s->postgres);
	if (s->postgres)
		s->driver = &postgres_driver; /* which closes it */
	if (!s->postgres || !(s->postgres->address = strdup(path))) {
		error_set(e, "out of memory");
		store_close(s);
		return NULL;
	}
	s->postgres->tls = tls;
	s->postgres->mode = mode;
	s->postgres->patience = PATIENCE;
	return s;
}
