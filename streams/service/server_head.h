/* Checks a request's head against RFC 9112 before the server acts on it.
 *
 * libmicrohttpd accepts malformed heads that a proxy in front of it may read differently, and answers others
 * with HTML. A connection's first head is checked here before libmicrohttpd gets it (server_gate.c); the
 * fields of later heads are checked as they arrive. Errors are JSON. */
#pragma once

#include "streams/service/api_json.h"

enum { HEAD_FIELDS = 128 };

/* The fields of a head that are known so far. Start with zeros. */
struct head {
	int fields, hosts, lengths, codings;
	bool bad_name, bad_value, bad_length, huge_length, other_coding;
};
void head_field(struct head*, const char* name, size_t name_size, const char* value, size_t value_size);
/* False with the error set when the fields contradict each other or are not HTTP. old: HTTP/1.0, which needs
 * no Host. */
bool head_allowed(const struct head*, bool old, struct api_error*);

/* Checks the first bytes of a connection: the head is incomplete, accepted, or refused with the error set. */
enum head_state { HEAD_PART, HEAD_WHOLE, HEAD_REFUSED };
enum head_state head_read(const char* bytes, size_t size, struct api_error*);
/* True when the bytes, an accepted head, are a GET or HEAD of exactly this path, with or without a query, and
 * nothing is sent with it: no body, and no further request. */
bool head_gets(const char* bytes, size_t size, const char* path);

/* Writes a response that closes the connection to the socket itself, as much as it takes without blocking. It
 * is used when libmicrohttpd cannot send one. body: JSON. */
void head_answer(int socket, int status, const char* body);
