/* Connections: limits, keys, origins, routing; what every request passes through before its route. */
#include "streams/service/server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "streams/service/server_internal.h"

enum { SWALLOW = 2 * SERVER_BODY, HTTP_THREADS = 2 };

double server_clock(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- answers ------------------------------------------------------------------------------ */

const char* call_header(const struct call* c, const char* name) {
	return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

static void add_headers(const struct call* c, struct MHD_Response* r) {
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
	if (c->server->option.cors) {
		MHD_add_response_header(r, "Access-Control-Allow-Origin", c->server->option.cors);
		MHD_add_response_header(r, "Access-Control-Allow-Headers", "Authorization, Content-Type");
		MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE");
	}
}

enum MHD_Result call_queue(struct call* c, int status, struct MHD_Response* r) {
	add_headers(c, r);
	const enum MHD_Result queued = MHD_queue_response(c->connection, (unsigned)status, r);
	MHD_destroy_response(r);
	c->status = status;
	return queued;
}

enum MHD_Result call_reply(struct call* c, int status, const char* type, struct text* text) {
	const size_t size = text->size;
	char* data = text_take(text);
	struct MHD_Response* r = data ? MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE) : NULL;
	if (!r) {
		free(data);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", type);
	return call_queue(c, status, r);
}

enum MHD_Result call_reply_error(struct call* c, const struct api_error* e) {
	char* text = api_error_text(e);
	struct MHD_Response* r =
	    text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", "application/json");
	if (e->status == 503 || e->status == 429)
		MHD_add_response_header(r, "Retry-After", e->status == 503 ? "1" : "10");
	if (e->status == 401)
		MHD_add_response_header(r, "WWW-Authenticate",
		                        c->route && strcmp(c->route->path, "/") == 0
		                            ? "Basic realm=\"swiftlet: any name, the API key as password\""
		                            : "Bearer");
	if (e->status == 405 && e->param[0])
		MHD_add_response_header(r, "Allow", e->param);
	return call_queue(c, e->status, r);
}

/* ---- keys --------------------------------------------------------------------------------- */

/* The time depends on the lengths' maximum alone, never on where two keys differ. */
static bool equal_in_constant_time(const char* given, size_t n, const char* key) {
	const size_t m = strlen(key);
	volatile unsigned char differs = n != m;
	for (size_t i = 0; i < 256; i++) {
		const unsigned char a = i < n ? (unsigned char)given[i] : 0;
		const unsigned char b = i < m ? (unsigned char)key[i] : 0;
		differs = (unsigned char)(differs | (a ^ b));
	}
	return !differs;
}

/* The key's number from 1; 0: there is none such. */
static int key_number(const struct server* s, const char* given, size_t n) {
	int found = 0;
	for (int i = 0; i < s->n_keys; i++)
		found += equal_in_constant_time(given, n, s->key[i]) ? i + 1 - found : 0;
	return found;
}

static int base64_digit(char c) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char* at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* The password of "Basic …": what a browser sends for the page. */
static int basic_key(const struct server* s, const char* text) {
	char out[600];
	size_t n = 0;
	unsigned bits = 0, held = 0;
	for (; *text && base64_digit(*text) >= 0 && n < sizeof out; text++) {
		bits = (bits << 6 | (unsigned)base64_digit(*text)) & 0xffffff;
		held += 6;
		if (held >= 8) {
			held -= 8;
			out[n++] = (char)(bits >> held & 0xff);
		}
	}
	const char* colon = memchr(out, ':', n);
	return colon ? key_number(s, colon + 1, n - (size_t)(colon + 1 - out)) : 0;
}

static int owner_of(const struct call* c) {
	const struct server* s = c->server;
	const char* value = call_header(c, "Authorization");
	if (s->n_keys > 0 && value && strncasecmp(value, "Bearer ", 7) == 0)
		return key_number(s, value + 7, strlen(value + 7));
	if (s->n_keys > 0 && value && strncasecmp(value, "Basic ", 6) == 0)
		return basic_key(s, value + 6);
	return 0;
}

static bool authorized(struct call* c) {
	c->owner = owner_of(c);
	return c->server->n_keys == 0 || c->owner > 0;
}

/* ---- origins ------------------------------------------------------------------------------ */

/* "[::1]:80" and "localhost:80" without their port. */
static size_t host_size(const char* host) {
	const char* bracket = host[0] == '[' ? strchr(host, ']') : NULL;
	return bracket ? (size_t)(bracket + 1 - host) : strcspn(host, ":");
}

static bool names_loopback(const char* host) {
	static const char* const name[] = {"localhost", "127.0.0.1", "[::1]"};
	const size_t n = host_size(host);
	for (int i = 0; i < 3; i++)
		if (n == strlen(name[i]) && strncasecmp(host, name[i], n) == 0)
			return true;
	return n > 4 && strncmp(host, "127.", 4) == 0;
}

/* Without keys the machine's own browsers are the way in for others' pages: by a name that resolves to
 * this machine (the Host header tells), or by a plain form post (the Origin header tells). */
static bool origin_allowed(const struct call* c) {
	const char* host = call_header(c, "Host");
	const char* origin = call_header(c, "Origin");
	const char* cors = c->server->option.cors;
	if (c->server->loopback && c->server->n_keys == 0 && host && !names_loopback(host))
		return false;
	if (!origin || (cors && (strcmp(cors, "*") == 0 || strcasecmp(cors, origin) == 0)))
		return true;
	const char* after = strstr(origin, "://");
	return after && host && strcasecmp(after + 3, host) == 0;
}

/* ---- rates -------------------------------------------------------------------------------- */

/* An IPv6 client is its /64: the rest is its own to choose. */
static void client_address(const struct call* c, uint8_t out[16]) {
	memset(out, 0, 16);
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	if (!info)
		return;
	if (info->client_addr->sa_family == AF_INET)
		memcpy(out, &((const struct sockaddr_in*)(const void*)info->client_addr)->sin_addr, 4);
	else if (info->client_addr->sa_family == AF_INET6)
		memcpy(out, &((const struct sockaddr_in6*)(const void*)info->client_addr)->sin6_addr, 8);
}

static bool within_rate(const struct call* c) {
	struct server* s = c->server;
	if (s->option.rate <= 0)
		return true;
	uint8_t address[16];
	client_address(c, address);
	const double now = server_clock(), most = s->option.rate;
	pthread_mutex_lock(&s->rate_lock);
	struct rate_client* mine = &s->rate[0];
	for (int i = 0; i < RATE_CLIENTS; i++) {
		struct rate_client* r = &s->rate[i];
		if (r->at > 0 && memcmp(r->address, address, 16) == 0) {
			mine = r;
			break;
		}
		if (r->at < mine->at)
			mine = r; /* the one longest silent makes room */
	}
	if (!(mine->at > 0) || memcmp(mine->address, address, 16) != 0) {
		memcpy(mine->address, address, 16);
		mine->tokens = most;
		mine->at = now;
	}
	mine->tokens = fmin(most, mine->tokens + (now - mine->at) * most / 60);
	mine->at = now;
	const bool good = mine->tokens >= 1;
	if (good)
		mine->tokens -= 1;
	pthread_mutex_unlock(&s->rate_lock);
	return good;
}

/* ---- routing ------------------------------------------------------------------------------ */

static bool matches(const struct route* r, const char* path, const char** rest) {
	const size_t n = strlen(r->path);
	*rest = NULL;
	if (n > 1 && r->path[n - 1] == '/') {
		if (strncmp(path, r->path, n) != 0 || !path[n])
			return false;
		*rest = path + n;
		return true;
	}
	return strcmp(path, r->path) == 0;
}

/* HEAD is a GET whose body MHD leaves out. */
/* What OpenAI has at a path where there is nothing here; NULL: nothing that is known. */
static const char* not_built(const char* path) {
	static const char* const known[][2] = {{"/v1/embeddings", "embeddings"},
	                                       {"/v1/audio/", "audio"},
	                                       {"/v1/images/", "images"},
	                                       {"/v1/moderations", "moderation"},
	                                       {"/v1/responses", "responses"},
	                                       {"/v1/files", "files"},
	                                       {"/v1/batches", "batches"},
	                                       {"/v1/fine_tuning/", "fine-tuning"},
	                                       {"/v1/assistants", "assistants"},
	                                       {"/v1/threads", "threads"},
	                                       {"/v1/vector_stores", "vector stores"},
	                                       {"/v1/uploads", "uploads"},
	                                       {"/v1/realtime", "realtime sessions"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strncmp(path, known[i][0], strlen(known[i][0])) == 0)
			return known[i][1];
	return NULL;
}

static void find_route(struct call* c) {
	char allowed[96] = "";
	const char* method = strcmp(c->method, "HEAD") == 0 ? "GET" : c->method;
	for (int i = 0; i < server_n_routes; i++) {
		const char* rest;
		const struct route* r = &server_routes[i];
		if (!matches(r, c->path, &rest))
			continue;
		if (strcmp(r->method, method) == 0) {
			c->route = r;
			c->rest = rest;
			return;
		}
		if (!strstr(allowed, r->method)) {
			if (allowed[0])
				strcat(allowed, ", ");
			strcat(allowed, r->method);
		}
	}
	const char* other = allowed[0] ? NULL : not_built(c->path);
	if (other) {
		api_fail(&c->error, 404, NULL, "unsupported_endpoint",
		         "This server has no %s: it answers /v1/completions and /v1/chat/completions.", other);
		return;
	}
	if (!allowed[0]) {
		api_fail(&c->error, 404, NULL, "not_found", "There is nothing at this path.");
		return;
	}
	api_fail(&c->error, 405, NULL, "method_not_allowed", "This path takes %s.", allowed);
	snprintf(c->error.param, sizeof c->error.param, "%s", allowed);
}

static void check_body_headers(struct call* c) {
	const bool takes_body = strcmp(c->method, "POST") == 0 || strcmp(c->method, "PUT") == 0;
	const char* length = call_header(c, "Content-Length");
	const char* type = call_header(c, "Content-Type");
	if (length && strtoull(length, NULL, 10) > SERVER_BODY) {
		api_fail(&c->error, 413, NULL, "too_large", "The body is larger than %d bytes.", SERVER_BODY);
		return;
	}
	const bool has_body = (length && strcmp(length, "0") != 0) || call_header(c, "Transfer-Encoding");
	if (takes_body && has_body && (!type || strncasecmp(type, "application/json", 16) != 0))
		api_fail(&c->error, 415, NULL, "unsupported_media_type",
		         "The body must be JSON: send Content-Type: application/json.");
}

/* The first look at a request, when its headers are there. What is refused here is said at the end of the
 * body, so that a client that is still writing reads it. */
static void first_look(struct call* c) {
	if (!origin_allowed(c)) {
		api_fail(&c->error, 403, NULL, "origin_not_allowed", "Requests from this origin are not allowed.");
		return;
	}
	find_route(c);
	if ((!c->route || !c->route->open) && !authorized(c)) {
		api_fail(&c->error, 401, NULL, "invalid_api_key",
		         "A valid API key is needed: send Authorization: Bearer KEY.");
		return;
	}
	if (c->error.status)
		return;
	if (!c->route->open && !within_rate(c)) {
		api_fail(&c->error, 429, "rate_limit_error", "rate_limit_exceeded",
		         "More than %d requests a minute; try again later.", c->server->option.rate);
		return;
	}
	check_body_headers(c);
}

/* ---- a request's life --------------------------------------------------------------------- */

static struct call* begin_call(struct server* s, struct MHD_Connection* connection, const char* url,
                               const char* method) {
	struct call* c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->connection = connection;
	c->began = server_clock();
	snprintf(c->method, sizeof c->method, "%s", method);
	if (strlen(url) >= sizeof c->path)
		api_fail(&c->error, 414, NULL, "too_long", "The path is longer than %d bytes.", MAX_PATH - 1);
	else {
		snprintf(c->path, sizeof c->path, "%s", url);
		first_look(c);
	}
	return c;
}

/* A slow writer is told so by hand: MHD takes no answer in the middle of a body. */
static enum MHD_Result give_up(struct call* c) {
	static const char late[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: "
	                           "application/json\r\nContent-Length: 112\r\n\r\n"
	                           "{\"error\": {\"message\": \"The body took too long.\", \"type\": "
	                           "\"invalid_request_error\", \"param\": null, \"code\": null}}\n";
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (info)
		(void)!send(info->connect_fd, late, sizeof late - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	c->status = 408;
	return MHD_NO;
}

static enum MHD_Result take_body(struct call* c, const char* data, size_t* size) {
	if (server_clock() - c->began > c->server->option.body_seconds)
		return give_up(c);
	if (c->error.status) {
		c->body.size += *size; /* counted, not kept */
		if (c->body.size > SWALLOW)
			return MHD_NO;
	} else if (c->body.size + *size > SERVER_BODY) {
		api_fail(&c->error, 413, NULL, "too_large", "The body is larger than %d bytes.", SERVER_BODY);
		text_free(&c->body);
	} else {
		text_add(&c->body, data, *size);
	}
	*size = 0;
	return MHD_YES;
}

static enum MHD_Result answer(struct call* c) {
	if (!c->error.status && c->body.failed)
		api_fail(&c->error, 500, "server_error", NULL, "The server is out of memory.");
	if (!c->error.status && c->route->answer(c))
		return MHD_YES;
	if (!c->error.status)
		api_fail(&c->error, 500, "server_error", NULL, "The answer could not be made.");
	return call_reply_error(c, &c->error);
}

static enum MHD_Result on_request(void* user, struct MHD_Connection* connection, const char* url,
                                  const char* method, const char* version, const char* data, size_t* size,
                                  void** state) {
	(void)version;
	struct call* c = *state;
	if (!c) {
		*state = c = begin_call(user, connection, url, method);
		if (!c)
			return MHD_NO;
		/* far too much is refused before it is sent */
		const char* length = call_header(c, "Content-Length");
		if (c->error.status == 413 && length && strtoull(length, NULL, 10) > SWALLOW)
			return call_reply_error(c, &c->error);
		return MHD_YES;
	}
	if (*size)
		return take_body(c, data, size);
	if (c->exchange)
		return generate_resumed(c);
	return answer(c);
}

static void on_completed(void* user, struct MHD_Connection* connection, void** state,
                         enum MHD_RequestTerminationCode how) {
	(void)connection;
	struct server* s = user;
	struct call* c = *state;
	if (!c)
		return;
	*state = NULL;
	if (c->exchange)
		generate_finished(c);
	if (c->watcher)
		watch_finished(c);
	if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED && !c->status)
		give_up(c);
	const char* route = c->route ? c->route->path : "(other)";
	metrics_request(&s->metrics, route, c->status ? c->status : 499);
	if (s->option.log_requests)
		fprintf(stderr, "%s %s %d %.3f s\n", c->method, route, c->status ? c->status : 499,
		        server_clock() - c->began);
	text_free(&c->body);
	free(c);
}

/* ---- keys from a file --------------------------------------------------------------------- */

static bool add_key(struct server* s, char* line, const char* path, int number, struct error* e) {
	char* end = line + strlen(line);
	while (end > line && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return true;
	if (strlen(line) < 8 || strlen(line) > 255)
		return error_set(e, "%s, line %d: a key of %zu bytes, expected 8 to 255", path, number, strlen(line));
	if (s->n_keys == SERVER_KEYS)
		return error_set(e, "%s: more than %d keys", path, SERVER_KEYS);
	s->key[s->n_keys] = strdup(line);
	return s->key[s->n_keys++] || error_set(e, "out of memory");
}

static bool read_keys(struct server* s, struct error* e) {
	const char* path = s->option.key_file;
	if (!path)
		return s->loopback ||
		       error_set(e, "--host %s is not this machine's own alone: an --api-key-file is required then",
		                 s->option.host);
	FILE* f = fopen(path, "r");
	if (!f)
		return error_set(e, "%s: %s", path, strerror(errno));
	char line[1024];
	bool good = true;
	for (int number = 1; good && fgets(line, sizeof line, f); number++)
		good = add_key(s, line, path, number, e);
	fclose(f);
	return good && (s->n_keys > 0 || error_set(e, "%s holds no key, one a line is expected", path));
}

/* ---- opening and closing ------------------------------------------------------------------ */

bool server_is_loopback(const char* host) {
	return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 || strncmp(host, "127.", 4) == 0;
}

static bool resolve(const struct server* s, struct sockaddr_storage* out, struct error* e) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo* found = NULL;
	char port[16];
	snprintf(port, sizeof port, "%d", s->option.port);
	const char* host = strcmp(s->option.host, "localhost") == 0 ? "127.0.0.1" : s->option.host;
	const int code = getaddrinfo(host, port, &hints, &found);
	if (code != 0)
		return error_set(e, "--host %s: %s", s->option.host, gai_strerror(code));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

static bool open_port(struct server* s, struct error* e) {
	struct sockaddr_storage address = {0};
	if (!resolve(s, &address, e))
		return false;
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	s->daemon = MHD_start_daemon(
	    flags, 0, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, (struct sockaddr*)&address,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_THREADS,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    (size_t)SERVER_HEADERS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->option.idle_seconds,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	return s->daemon || error_set(e, "%s port %d cannot be served: %s", s->option.host, s->option.port,
	                              strerror(errno ? errno : EADDRNOTAVAIL));
}

/* Tenants are the keys by their numbers; 0 is who needs none. */
static bool open_texts(struct server* s, struct error* e) {
	char tenant[SERVER_KEYS + 1][TEXTS_NAME];
	texts_tenant("", tenant[0]);
	for (int i = 0; i < s->n_keys; i++)
		texts_tenant(s->key[i], tenant[i + 1]);
	struct texts_options o = {.model = {.blocks = s->model->weights.shape.n_blocks},
	                          .vocab = s->model->weights.shape.vocab,
	                          .capacity = s->option.session.pool,
	                          .n_tenants = s->n_keys + 1,
	                          .tenant = (const char(*)[TEXTS_NAME])tenant};
	snprintf(o.model.fingerprint, sizeof o.model.fingerprint, "%s", s->model->fingerprint);
	snprintf(o.model.name, sizeof o.model.name, "%.127s", s->option.name);
	s->texts = texts_open(s->option.retrieval_store, &o, e);
	return s->texts != NULL;
}

static bool open_parts(struct server* s, struct error* e) {
	if (!read_keys(s, e) || (s->option.retrieval_store && !open_texts(s, e)))
		return false;
	s->rate = s->option.rate > 0 ? calloc(RATE_CLIENTS, sizeof *s->rate) : NULL;
	s->optimizer = optimizer_service_open();
	if (!s->optimizer || (s->option.rate > 0 && !s->rate))
		return error_set(e, "out of memory");
	const struct scheduler_options o = {.sessions = s->option.sessions,
	                                    .queue = s->option.queue,
	                                    .prefill_chunk = s->option.prefill_chunk,
	                                    .session = s->option.session,
	                                    .model_name = s->option.name,
	                                    .memory = s->memory,
	                                    .texts = s->texts,
	                                    .metrics = &s->metrics,
	                                    .events = &s->events};
	s->scheduler = scheduler_open(s->engine, &o, e);
	return s->scheduler && open_port(s, e);
}

struct server* server_open(const struct server_options* o, struct model* model, swiftlet_engine* engine,
                           struct memory* memory, struct error* e) {
	struct server* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(e, "out of memory");
		return NULL;
	}
	s->option = *o;
	s->model = model;
	s->engine = engine;
	s->memory = memory;
	s->loopback = server_is_loopback(o->host);
	s->began = server_clock();
	s->context = o->session.context;
	const int most = model->weights.shape.context;
	if (s->context == 0)
		s->context = most < 4096 ? most : 4096;
	pthread_mutex_init(&s->rate_lock, NULL);
	metrics_open(&s->metrics);
	events_open(&s->events);
	if (!open_parts(s, e)) {
		server_close(s, 0);
		return NULL;
	}
	return s;
}

int server_port(const struct server* s) {
	const union MHD_DaemonInfo* info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
	return info ? info->port : s->option.port;
}

/* Answers that are ready are given a moment to be written. */
static void wait_for_connections(struct server* s) {
	const double until = server_clock() + 2;
	for (;;) {
		struct scheduler_now n;
		scheduler_now(s->scheduler, &n);
		const union MHD_DaemonInfo* info =
		    MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
		if (!info || info->num_connections == 0 || server_clock() > until)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
}

void server_close(struct server* s, double grace) {
	if (!s)
		return;
	atomic_store(&s->stopping, true);
	if (s->daemon) {
		scheduler_drain(s->scheduler, grace);
		events_beat(&s->events); /* event streams see that it ends */
		const MHD_socket listening = MHD_quiesce_daemon(s->daemon);
		wait_for_connections(s);
		MHD_stop_daemon(s->daemon);
		if (listening != MHD_INVALID_SOCKET)
			close(listening);
	}
	scheduler_close(s->scheduler);
	texts_close(s->texts);
	optimizer_service_close(s->optimizer);
	events_close(&s->events);
	metrics_close(&s->metrics);
	pthread_mutex_destroy(&s->rate_lock);
	for (int i = 0; i < s->n_keys; i++)
		free(s->key[i]);
	free(s->rate);
	free(s);
}
