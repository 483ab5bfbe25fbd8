/* A request's life, from its first header to its answer's last byte: what MHD calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "streams/service/server_internal.h"

enum { SWALLOW = 2 * SERVER_BODY };

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
		call_first_look(c);
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

enum MHD_Result server_on_request(void* user, struct MHD_Connection* connection, const char* url,
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

void server_on_completed(void* user, struct MHD_Connection* connection, void** state,
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
