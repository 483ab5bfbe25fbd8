/* The life of a request from its first header to its answer's last byte: MHD's callbacks, routing, and what
 * is refused by headers alone. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "streams/log.h"
#include "streams/service/body_coding.h"
#include "streams/service/body_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/generation.h"
#include "streams/service/ollama.h"
#include "streams/service/server_head.h"
#include "streams/service/server_internal.h"

enum { SWALLOW = 2 * SERVER_BODY };

/* ---- answers ------------------------------------------------------------------------------ */

const char* call_header(const struct http_call* c, const char* name) {
	return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* Clients in browsers send headers of their own, so all requested headers are allowed. */
static void add_cors_headers(const struct http_call* c, struct MHD_Response* r) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ";
	const char* asked = call_header(c, "Access-Control-Request-Headers");
	const bool plain = asked && *asked && !asked[strspn(asked, letters)];
	MHD_add_response_header(r, "Vary", "Origin");
	if (!call_cors_allowed(c))
		return;
	MHD_add_response_header(r, "Access-Control-Allow-Origin", call_header(c, "Origin"));
	MHD_add_response_header(r, "Access-Control-Allow-Headers",
	                        plain ? asked : "Authorization, Content-Type, X-Api-Key, Anthropic-Version");
	MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE");
	MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Request-Id, Swiftlet-Ignored-Fields");
	MHD_add_response_header(r, "Access-Control-Max-Age", "600");
}

static void add_headers(const struct http_call* c, struct MHD_Response* r) {
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(r, "X-Request-Id", c->id);
	if (c->last)
		MHD_add_response_header(r, "Connection", "close");
	if (c->ignored && *c->ignored)
		MHD_add_response_header(r, "Swiftlet-Ignored-Fields", c->ignored);
	if (c->server->option.n_cors > 0)
		add_cors_headers(c, r);
}

bool call_queue(struct http_call* c, int status, struct MHD_Response* r) {
	if (c->work == CALL_WORKING) {
		c->response = r;
		c->status = status;
		return true;
	}
	add_headers(c, r);
	const bool queued = MHD_queue_response(c->connection, (unsigned)status, r) == MHD_YES;
	MHD_destroy_response(r);
	c->status = status;
	return queued;
}

/* Takes `data`. NULL when memory runs out; `data` is freed then. */
static struct MHD_Response* response_of(const char* type, char* data, size_t size) {
	struct MHD_Response* r = data ? MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE) : NULL;
	if (r)
		MHD_add_response_header(r, "Content-Type", type);
	else
		free(data);
	return r;
}

bool call_reply(struct http_call* c, int status, const char* type, struct text* text) {
	const size_t size = text->size;
	struct MHD_Response* r = response_of(type, text_take(text), size);
	return r && call_queue(c, status, r);
}

bool call_reply_json(struct http_call* c, struct text* text) {
	if (!text->failed)
		return call_reply(c, 200, "application/json", text);
	text_free(text);
	return api_no_memory(&c->error);
}

struct MHD_Response* event_stream(const char* type, MHD_ContentReaderCallback read, void* user,
                                  MHD_ContentReaderFreeCallback freed) {
	struct MHD_Response* r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read, user, freed);
	if (r) {
		MHD_add_response_header(r, "Content-Type", type ? type : "text/event-stream");
		MHD_add_response_header(r, "X-Accel-Buffering", "no");
	}
	return r;
}

static char* error_text(const struct http_call* c, const struct api_error* e) {
	const char* path = c->route && c->route->path ? c->route->path : c->path;
	if (strncmp(path, "/v1/messages", strlen("/v1/messages")) == 0)
		return messages_error_text(e);
	return strncmp(path, "/api/", strlen("/api/")) == 0 ? ollama_error_text(e) : api_error_text(e);
}

bool call_reply_error(struct http_call* c, const struct api_error* e) {
	char* text = error_text(c, e);
	struct MHD_Response* r = response_of("application/json", text, text ? strlen(text) : 0);
	if (!r)
		return false;
	if (e->status == 503 || e->status == 429)
		MHD_add_response_header(r, "Retry-After", e->status == 503 ? "1" : "10");
	if (e->status == 401)
		MHD_add_response_header(r, "WWW-Authenticate",
		                        c->route && strcmp(c->route->path, "/") == 0
		                            ? "Basic realm=\"swiftlet: any name, the API key as password\""
		                            : "Bearer");
	if (e->status == 415)
		MHD_add_response_header(r, "Accept-Encoding", "identity");
	if (e->status == 405 && e->param[0])
		MHD_add_response_header(r, "Allow", e->param);
	return call_queue(c, e->status, r);
}

bool call_abandoned(struct http_call* c) {
	return api_fail(&c->error, 499, "cancelled", "The client has closed its connection.");
}

/* ---- where it goes ------------------------------------------------------------------------ */

static bool match_route(const struct route* r, const char* path, const char** rest) {
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

/* True when other servers have an endpoint at this path. The error then lists this server's endpoints. */
static bool not_built(struct http_call* c) {
	static const char* const known[][2] = {{"/v1/audio/", "audio"},
	                                       {"/v1/images/", "images"},
	                                       {"/v1/moderations", "moderation"},
	                                       {"/v1/responses/", "stored responses"},
	                                       {"/v1/messages/batches", "batches"},
	                                       {"/v1/complete", "old completions"},
	                                       {"/v1/files", "files"},
	                                       {"/v1/batches", "batches"},
	                                       {"/v1/fine_tuning/", "fine-tuning"},
	                                       {"/v1/assistants", "assistants"},
	                                       {"/v1/threads", "threads"},
	                                       {"/v1/vector_stores", "vector stores"},
	                                       {"/v1/uploads", "uploads"},
	                                       {"/v1/realtime", "realtime sessions"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strncmp(c->path, known[i][0], strlen(known[i][0])) == 0)
			return !api_fail(&c->error, 404, "unsupported_endpoint",
			                 "This server has no %s. It answers /v1/chat/completions, /v1/responses, "
			                 "/v1/messages and /v1/completions.",
			                 known[i][1]);
	return false;
}

/* HEAD is a GET whose body MHD leaves out. The browser's request before a cross-origin call (OPTIONS) is
 * answered for all paths that need no admin. */
static bool look_up(struct http_call* c, const char* path, char allowed[96]) {
	const char* method = strcmp(c->method, "HEAD") == 0 ? "GET" : c->method;
	const bool asks = strcmp(method, "OPTIONS") == 0;
	for (const struct route* r = server_routes; r->method; r++) {
		const char* rest;
		if (!match_route(r, path, &rest))
			continue;
		if (asks && !r->admin)
			c->route = &server_preflight;
		if (strcmp(r->method, method) == 0) {
			c->route = r;
			c->rest = rest;
			return true;
		}
		if (!strstr(allowed, r->method)) {
			strcat(allowed, allowed[0] ? ", " : "");
			strcat(allowed, r->method);
		}
	}
	return c->route != NULL;
}

/* Clients may leave out /v1. */
static bool find_route(struct http_call* c) {
	char allowed[96] = "";
	if (look_up(c, c->path, allowed))
		return true;
	if (!allowed[0] && strlen(c->path) + 4 < sizeof c->path && strncmp(c->path, "/v1/", 4) != 0) {
		char path[sizeof c->path];
		snprintf(path, sizeof path, "/v1%.*s", (int)sizeof path - 4, c->path);
		if (look_up(c, path, allowed)) {
			const char* rest = c->rest ? c->path + strlen(c->path) - strlen(c->rest) : NULL;
			c->rest = rest;
			return true;
		}
	}
	if (!allowed[0])
		return !not_built(c) &&
		       api_fail(&c->error, 404, "not_found",
		                "%s %.200s is not a path of this server; it answers /v1/chat/completions, "
		                "/v1/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/models and "
		                "/api/chat.",
		                c->method, c->path);
	api_fail(&c->error, 405, "method_not_allowed", "This path does not take the method %.20s. It takes %s.",
	         c->method, allowed);
	snprintf(c->error.param, sizeof c->error.param, "%s", allowed);
	return false;
}

static bool check_body_headers(struct http_call* c) {
	const bool takes_body = strcmp(c->method, "POST") == 0 || strcmp(c->method, "PUT") == 0;
	const char* length = call_header(c, "Content-Length");
	const char* type = call_header(c, "Content-Type");
	if (length && strtoull(length, NULL, 10) > SERVER_BODY)
		return api_fail(&c->error, 413, "too_large", "The body is larger than %d bytes.", SERVER_BODY);
	const bool has_body = (length && strcmp(length, "0") != 0) || call_header(c, "Transfer-Encoding");
	const char* coding = call_header(c, "Content-Encoding");
	if (takes_body && has_body && coding && *coding && strcasecmp(coding, "identity") != 0 &&
	    !body_coding_known(coding))
		return api_fail(
		    &c->error, 415, "unsupported_content_encoding",
		    "The body is encoded as '%.40s': send it without compression, or with gzip or deflate.", coding);
	/* a page's plain form post is no call; curl names its bodies a form, and some clients name none */
	return !takes_body || !has_body || !call_header(c, "Origin") ||
	       (type && strncasecmp(type, "application/json", 16) == 0) ||
	       api_fail(&c->error, 415, "unsupported_media_type",
	                "The body must be JSON: Content-Type is '%.60s', expected application/json (curl: -H "
	                "'Content-Type: application/json').",
	                type ? type : "");
}

/* Called when the headers have arrived. An error found here is sent after the body, so that a client that is
 * still writing can read it. */
static bool first_look(struct http_call* c) {
	if (!call_origin_allowed(c))
		return false;
	const bool found = find_route(c);
	if ((!found || !c->route->open) && !call_authorized(c))
		return api_fail(&c->error, 401, "invalid_api_key",
		                "The request has no valid API key: send one as Authorization: Bearer KEY.");
	if (!found)
		return false;
	if (c->route->admin && !c->admin)
		return api_fail(&c->error, 403, "admin_key_needed",
		                "This request needs an admin key, one that the key file marks with the word admin.");
	return (c->route->open || call_enter(c)) && check_body_headers(c);
}

/* ---- a request's life --------------------------------------------------------------------- */

static enum MHD_Result take_field(void* head, enum MHD_ValueKind kind, const char* name, size_t name_size,
                                  const char* value, size_t value_size) {
	(void)kind;
	head_field(head, name, name_size, value, value_size);
	return MHD_YES;
}

static bool head_is_good(struct http_call* c, const char* version) {
	struct head head = {0};
	MHD_get_connection_values_n(c->connection, MHD_HEADER_KIND, take_field, &head);
	return head_allowed(&head, strcmp(version, "HTTP/1.0") == 0, &c->error);
}

/* Decodes escapes except those that would change the path itself: a NUL, which ends it, and a slash. */
size_t server_unescape(void* user, struct MHD_Connection* connection, char* text) {
	char* to = text;
	(void)user, (void)connection;
	for (const char* from = text; *from; from++) {
		const char digits[] = {from[1], from[1] ? from[2] : 0, 0};
		char* end;
		const long code = *from == '%' && isxdigit((unsigned char)digits[0]) ? strtol(digits, &end, 16) : 0;
		if (*from == '%' && code > 0 && end == digits + 2 && code != '/') {
			*to++ = (char)code;
			from += 2;
		} else
			*to++ = *from;
	}
	*to = 0;
	return (size_t)(to - text);
}

/* Clients join a base address and a path: a slash may come twice or at the end, and so may /v1. */
static void tidy_path(char* to, const char* url) {
	char* const begin = to;
	if (strncmp(url, "/v1/v1/", 7) == 0)
		url += 3;
	for (; *url; url++)
		if (*url != '/' || to == begin || to[-1] != '/')
			*to++ = *url;
	*(to > begin + 1 && to[-1] == '/' ? to - 1 : to) = 0;
}

static void name_call(struct http_call* c) {
	uint64_t random = 0;
	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		random = (uint64_t)(c->began * 1e9);
	snprintf(c->id, sizeof c->id, "req_%016llx", (unsigned long long)random);
}

static struct http_call* begin_call(struct server* s, struct MHD_Connection* connection, const char* url,
                                    const char* method, const char* version) {
	struct http_call* c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->connection = connection;
	c->began = seconds_now();
	c->last = gate_is_own(s, connection);
	gate_awaits(s->gate, connection, GATE_BODY);
	snprintf(c->method, sizeof c->method, "%s", method);
	name_call(c);
	if (strlen(url) >= sizeof c->path)
		api_fail(&c->error, 414, "too_long", "The path is longer than %d bytes.", MAX_PATH - 1);
	else if (head_is_good(c, version)) {
		tidy_path(c->path, url);
		first_look(c);
	}
	return c;
}

/* Answers a client that is still sending. MHD takes no response in the middle of a body, so this function
 * writes it to the socket. */
static bool give_up(struct http_call* c, int status, const char* message) {
	struct api_error e;
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	api_fail(&e, status, NULL, "%s", message);
	char* body = error_text(c, &e);
	if (info && body)
		head_answer(info->connect_fd, status, body);
	free(body);
	c->status = status;
	return false;
}

static bool too_slow(struct http_call* c) { return give_up(c, 408, "The body took too long."); }

static bool take_body(struct http_call* c, const char* data, size_t* size) {
	if (seconds_now() - c->began > c->server->option.body_seconds)
		return too_slow(c);
	if (c->error.status) {
		c->body.size += *size; /* counted, not kept */
		if (c->body.size > SWALLOW)
			return give_up(c, c->error.status,
			               c->error.status == 413 ? "The body is too large."
			                                      : "The body is too large for a request that is refused.");
	} else if (c->body.size + *size > SERVER_BODY) {
		api_fail(&c->error, 413, "too_large", "The body is larger than %d bytes.", SERVER_BODY);
		text_free(&c->body);
		c->body.size = SERVER_BODY; /* bytes that were discarded so far */
	} else {
		text_add(&c->body, data, *size);
	}
	*size = 0;
	return true;
}

static bool reply_failure(struct http_call* c) {
	if (!c->error.status)
		api_fail(&c->error, 500, NULL, "The server could not make an answer: it may be out of memory.");
	return call_reply_error(c, &c->error);
}

bool call_answer(struct http_call* c) {
	const char* coding = call_header(c, "Content-Encoding");
	if (c->body.size > 0 && coding && body_coding_known(coding) &&
	    !body_decompress(&c->body, coding, SERVER_BODY, &c->error))
		return false;
	body_text_mend(&c->body);
	return c->route->answer(c);
}

static bool answer_call(struct http_call* c) {
	gate_awaits(c->server->gate, c->connection, GATE_ANSWER);
	if (!c->error.status && c->body.failed)
		api_no_memory(&c->error);
	if (!c->error.status && c->route->worked) {
		if (workers_take(c->server->workers, c))
			return true;
		api_fail(&c->error, 503, "stopping", "The server is stopping.");
	} else if (!c->error.status && c->route->answer(c))
		return true;
	return reply_failure(c);
}

/* A worker has done its part. */
static bool answer_worked(struct http_call* c) {
	struct MHD_Response* const r = c->response;
	if (!workers_done(c->server->workers, c)) /* not woken by a worker: wait on */
		return true;
	c->work = CALL_NEW;
	c->response = NULL;
	if (r)
		return call_queue(c, c->status, r);
	return (c->opened && generate_begin(c)) || reply_failure(c);
}

/* Refuses a body that is far too large before it is sent, and one of unknown length at once. */
static bool ends_at_once(const struct http_call* c) {
	const char* length = call_header(c, "Content-Length");
	return c->error.status == 400 ||
	       (c->error.status == 413 && length && strtoull(length, NULL, 10) > SWALLOW);
}

enum MHD_Result server_on_request(void* user, struct MHD_Connection* connection, const char* url,
                                  const char* method, const char* version, const char* data, size_t* size,
                                  void** state) {
	struct http_call* c = *state;
	bool good;
	if (!c) {
		*state = c = begin_call(user, connection, url, method, version);
		good = c && (!ends_at_once(c) || call_reply_error(c, &c->error));
	} else if (*size)
		good = take_body(c, data, size);
	else
		good = c->generation ? generate_resumed(c) : c->work == CALL_NEW ? answer_call(c) : answer_worked(c);
	return good ? MHD_YES : MHD_NO;
}

void server_on_completed(void* user, struct MHD_Connection* connection, void** state,
                         enum MHD_RequestTerminationCode how) {
	struct server* s = user;
	struct http_call* c = *state;
	gate_awaits(s->gate, connection, GATE_NEXT);
	if (!c)
		return;
	*state = NULL;
	if (c->generation)
		generate_finished(c);
	if (c->opened)
		generation_let_go(c->opened);
	if (c->response)
		MHD_destroy_response(c->response);
	if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED && !c->status)
		too_slow(c);
	const char* route = c->route ? c->route->path : "(other)";
	const int status = c->status ? c->status : 499;
	metrics_request(&s->metrics[0], route, status);
	if (c->tenant > 0)
		metrics_request(&s->metrics[c->tenant], route, status);
	if (s->option.log_requests)
		log_line("%s %s %d %.3f s %s", c->method, c->path, status, seconds_now() - c->began, c->id);
	call_leave(c);
	free(c->ignored);
	text_free(&c->body);
	free(c);
}
