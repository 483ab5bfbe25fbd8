/* A request's head, read by the letter of RFC 9112 before anybody acts on it.
 *
 * libmicrohttpd forgives much that another reader in front of it may see otherwise, and says in HTML what it
 * does not forgive. A connection's first head is read here before it is handed over (server_gate.c); the
 * fields of later ones are looked at as they come. What is wrong is said in JSON. */
#ifndef SWIFTLET_STREAMS_SERVICE_SERVER_HEAD_H
#define SWIFTLET_STREAMS_SERVICE_SERVER_HEAD_H

#include "streams/service/api_json.h"

enum { HEAD_FIELDS = 128 };

/* What a head's fields have said so far. Zeroed to begin with. */
struct head {
	int fields, hosts, lengths, codings;
	bool bad_name, bad_value, bad_length, huge_length, other_coding;
};
void head_field(struct head*, const char* name, size_t name_size, const char* value, size_t value_size);
/* False with the error where the fields contradict each other, or say what is no HTTP. old: HTTP/1.0, which
 * needs no Host. */
bool head_allowed(const struct head*, bool old, struct api_error*);

/* The first bytes of a connection: its head is not all there, fine, or refused with the error. */
enum head_state { HEAD_PART, HEAD_WHOLE, HEAD_REFUSED };
enum head_state head_read(const char* bytes, size_t size, struct api_error*);

/* Writes an answer that closes the connection to its socket, as far as it takes it without waiting: for where
 * libmicrohttpd takes none. body: JSON. */
void head_answer(int socket, int status, const char* body);

#endif
