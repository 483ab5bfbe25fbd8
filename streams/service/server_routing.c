/* Where a request goes, and what is refused when its headers are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/server_internal.h"

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

/* What OpenAI has at a path where there is nothing here; NULL: nothing that is known. */
static const char* not_built(const char* path) {
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
		if (strncmp(path, known[i][0], strlen(known[i][0])) == 0)
			return known[i][1];
	return NULL;
}

/* HEAD is a GET whose body MHD leaves out. */
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
		         "This server has no %s: it answers /v1/chat/completions, /v1/responses, /v1/messages and "
		         "/v1/completions.",
		         other);
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

void call_first_look(struct call* c) {
	if (!call_origin_allowed(c)) {
		api_fail(&c->error, 403, NULL, "origin_not_allowed", "Requests from this origin are not allowed.");
		return;
	}
	find_route(c);
	if ((!c->route || !c->route->open) && !call_authorized(c)) {
		api_fail(&c->error, 401, NULL, "invalid_api_key",
		         "A valid API key is needed: send Authorization: Bearer KEY.");
		return;
	}
	if (c->error.status)
		return;
	if (c->route->admin && !c->admin) {
		api_fail(&c->error, 403, NULL, "admin_key_needed",
		         "This needs an admin key: one that the key file marks with the word admin.");
		return;
	}
	if (!c->route->open && !call_within_rate(c)) {
		api_fail(&c->error, 429, "rate_limit_error", "rate_limit_exceeded",
		         "More than %d requests a minute; try again later.", c->server->option.rate);
		return;
	}
	check_body_headers(c);
}
