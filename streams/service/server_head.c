/* See server_head.h. */
#include "streams/service/server_head.h"

#include <ctype.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "streams/service/server.h"

static bool is_token(const char* text, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i])))
			return false;
	return n > 0;
}

static bool is_shown(const char* text, size_t n, bool blanks) {
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)text[i];
		if (c < ' ' || c == 0x7f ? !(blanks && c == '\t') : c == ' ' && !blanks)
			return false;
	}
	return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool has_name(const char* text, size_t n, const char* word) {
	return n == strlen(word) && strncasecmp(text, word, n) == 0;
}

/* Two lengths, a length beside chunks, or a length that is no number: if a proxy in front reads it
 * differently, one request can hide in another. */
void head_field(struct head* h, const char* name, size_t name_size, const char* value, size_t value_size) {
	while (value_size > 0 && is_blank(value[value_size - 1]))
		value_size--;
	for (; value_size > 0 && is_blank(*value); value_size--)
		value++;
	h->fields++;
	h->bad_name |= !is_token(name, name_size);
	h->bad_value |= !is_shown(value, value_size, true);
	h->hosts += has_name(name, name_size, "Host");
	if (has_name(name, name_size, "Content-Length")) {
		size_t digits = 0;
		while (digits < value_size && isdigit((unsigned char)value[digits]))
			digits++;
		h->lengths++;
		h->bad_length |= digits == 0 || digits < value_size;
		h->huge_length |= digits > 18;
	} else if (has_name(name, name_size, "Transfer-Encoding")) {
		h->codings++;
		h->other_coding |= !has_name(value, value_size, "chunked");
	}
}

static bool refuse_head(struct api_error* e, int status, const char* code, const char* message) {
	return api_fail(e, status, code, "%s", message);
}

bool head_allowed(const struct head* h, bool old, struct api_error* e) {
	if (h->fields > HEAD_FIELDS)
		return refuse_head(e, 431, "too_large", "The request has more than 128 headers: send fewer.");
	if (h->bad_name || h->bad_value)
		return refuse_head(e, 400, NULL,
		                   "A header's name or value holds a character that HTTP does not allow there.");
	if (h->hosts != 1 && !(old && h->hosts == 0))
		return refuse_head(e, 400, NULL, "The request must have exactly one Host header.");
	if (h->lengths + h->codings > 1 || h->other_coding)
		return refuse_head(
		    e, 400, NULL,
		    "Content-Length and Transfer-Encoding contradict each other: send one of them, once.");
	if (h->bad_length)
		return refuse_head(e, 400, NULL, "Content-Length is not a number: send the body's size in bytes.");
	return !h->huge_length || refuse_head(e, 413, "too_large", "The body is too large.");
}

/* METHOD target HTTP/1.x */
static bool read_request_line(const char* line, size_t n, bool* old, struct api_error* e) {
	const char* target = memchr(line, ' ', n);
	const size_t method = target ? (size_t)(target - line) : n;
	const size_t rest = target ? n - method - 1 : 0;
	const char* version = target ? memchr(target + 1, ' ', rest) : NULL;
	const size_t size = version ? (size_t)(version - target) - 1 : 0;
	if (!is_token(line, method) || size == 0 || !is_shown(target + 1, size, false))
		return refuse_head(e, 400, NULL,
		                   "The request's first line does not have the format METHOD PATH HTTP/1.1.");
	const size_t left = rest - size - 1;
	version++;
	if (left != 8 || memcmp(version, "HTTP/", 5) != 0 || !isdigit((unsigned char)version[5]) ||
	    version[6] != '.' || !isdigit((unsigned char)version[7]))
		return refuse_head(e, 400, NULL,
		                   "The request's first line does not have the format METHOD PATH HTTP/1.1.");
	*old = version[7] == '0';
	return (version[5] == '1' && version[7] < '2') ||
	       refuse_head(e, 505, NULL, "This server speaks HTTP/1.1 and HTTP/1.0.");
}

static bool read_field(struct head* h, const char* line, size_t n, struct api_error* e) {
	const char* colon = memchr(line, ':', n);
	if (!colon)
		return refuse_head(e, 400, NULL, "A header does not have the format NAME: VALUE.");
	head_field(h, line, (size_t)(colon - line), colon + 1, (size_t)(line + n - colon) - 1);
	return true;
}

enum head_state head_read(const char* bytes, size_t size, struct api_error* e) {
	const char *at = bytes, *const end = bytes + size;
	struct head head = {0};
	bool old = false;
	int lines = 0;
	for (const char* feed; (feed = memchr(at, '\n', (size_t)(end - at))); at = feed + 1) {
		const size_t n = (size_t)(feed - at) - (feed > at && feed[-1] == '\r');
		if (n == 0 && lines == 0)
			continue; /* The standard allows an empty line before a request. */
		if (n == 0)
			return head_allowed(&head, old, e) ? HEAD_WHOLE : HEAD_REFUSED;
		if (!(lines++ ? read_field(&head, at, n, e) : read_request_line(at, n, &old, e)))
			return HEAD_REFUSED;
	}
	if (lines == 0 && at < end && *at != '\r' && !is_token(at, 1)) { /* TLS, as a rule */
		refuse_head(e, 400, NULL, "The request is not HTTP: send METHOD PATH HTTP/1.1 and headers.");
		return HEAD_REFUSED;
	}
	if (size <= SERVER_HEADERS)
		return HEAD_PART;
	if (lines)
		refuse_head(e, 431, "too_large", "The request's headers are too large.");
	else
		refuse_head(e, 414, "too_long", "The request's first line is too long.");
	return HEAD_REFUSED;
}

/* The text's size if it begins the bytes; else 0. */
static size_t match_start(const char* bytes, size_t size, const char* text) {
	const size_t n = strlen(text);
	return n <= size && memcmp(bytes, text, n) == 0 ? n : 0;
}

/* True for a field of a body that has bytes, or may have. */
static bool announces_body(const char* line, size_t n) {
	struct head head = {0};
	struct api_error e;
	return read_field(&head, line, n, &e) && head.lengths + head.codings > 0;
}

bool head_gets(const char* bytes, size_t size, const char* path) {
	const size_t head = match_start(bytes, size, "HEAD "),
	             method = head ? head : match_start(bytes, size, "GET ");
	const size_t n = method ? match_start(bytes + method, size - method, path) : 0;
	const char *at = bytes + method + n, *const end = bytes + size;
	if (n == 0 || at == end || (*at != ' ' && *at != '?'))
		return false;
	for (const char* feed; (feed = memchr(at, '\n', (size_t)(end - at))); at = feed + 1)
		if (feed - at - (feed > at && feed[-1] == '\r') == 0)
			return feed + 1 == end;
		else if (announces_body(at, (size_t)(feed - at)))
			return false;
	return false;
}

void head_answer(int socket, int status, const char* body) {
	char head[256];
	const int n = snprintf(head, sizeof head,
	                       "HTTP/1.1 %d %s\r\nConnection: close\r\n%sContent-Type: application/json\r\n"
	                       "Content-Length: %zu\r\n\r\n",
	                       status, MHD_get_reason_phrase_for((unsigned)status),
	                       status == 429   ? "Retry-After: 10\r\n"
	                       : status == 503 ? "Retry-After: 1\r\n"
	                                       : "",
	                       strlen(body));
	(void)!send(socket, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE);
	(void)!send(socket, body, strlen(body), MSG_NOSIGNAL | MSG_DONTWAIT);
}
