/* Connections that keep the service waiting for a request's headers, silently or byte by byte.
 *
 * libmicrohttpd ends a connection that is silent; one that sends a header now and then it would keep for
 * ever. Each has until a deadline for all its headers, and while connections are nearly used up hardly any
 * time: who has sent a whole request is never closed. */
#ifndef SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H
#define SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H

#include <microhttpd.h>
#include <stdbool.h>

struct doorman;

/* For so many connections. header_seconds: for a first request's headers; a further one on the same
 * connection has idle_seconds beside. NULL on no memory, or no thread. */
struct doorman* doorman_open(int connections, double header_seconds, double idle_seconds);
/* After the daemon has been stopped. */
void doorman_close(struct doorman*);
/* MHD's callback for connections that come and go. */
void doorman_on_connection(void* doorman, struct MHD_Connection*, void** context,
                           enum MHD_ConnectionNotificationCode);
/* A request's headers are all there; it has been answered. */
void doorman_headers_came(struct doorman*, struct MHD_Connection*);
void doorman_answered(struct doorman*, struct MHD_Connection*);

#endif
