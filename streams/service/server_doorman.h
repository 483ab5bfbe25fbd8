/* The door: who comes in, and who has to go because he keeps the service waiting for a request's headers.
 *
 * A connection waits outside until all headers of its first request are there and are HTTP (server_head.h);
 * then libmicrohttpd gets it. So whoever is silent, slow or writes nonsense takes no place inside, and is
 * told so in JSON. Outside each has until a deadline, while it is crowded hardly any time, and beyond that
 * who has waited longest goes first. Inside, a connection between two requests is closed at its deadline, or
 * sooner where others find no place; while a request is answered it never is. One address, this machine's own
 * apart, has so many places and no more: a further connection is told so (429). */
#ifndef SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H
#define SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H

#include <microhttpd.h>
#include <stdbool.h>

struct doorman;

struct server_options;
struct metrics;
/* The options' address_connections, header_seconds and, for a further request's headers on the same
 * connection, idle_seconds more. Metrics count who is turned away. NULL on no memory. */
struct doorman* doorman_open(const struct server_options*, struct metrics*);
/* Begins to let in: from a socket that listens, which is the doorman's then, to daemons (HTTP_THREADS), each
 * where there are fewest. False where no thread can be had. */
bool doorman_begin(struct doorman*, int listening, struct MHD_Daemon* const* daemon);
/* Lets nobody in any more: before daemons are stopped. */
void doorman_shut(struct doorman*);
/* After that. NULL is nothing. */
void doorman_close(struct doorman*);
/* What tells clients apart: all zero for this machine's own; an IPv6 client is its /64, the rest is its own
 * to choose. */
void doorman_address(const struct sockaddr*, uint8_t out[16]);
/* Connections inside. */
int doorman_present(struct doorman*);
/* MHD's callback for connections that come and go. */
void doorman_on_connection(void* doorman, struct MHD_Connection*, void** context,
                           enum MHD_ConnectionNotificationCode);
/* A request's headers are all there (false), or it has been answered and another's are waited for. */
void doorman_waits(struct doorman*, struct MHD_Connection*, bool waiting);

#endif
