/* Connections that keep the service waiting for a request's headers, silently or byte by byte.
 *
 * libmicrohttpd ends a connection that is silent; one that sends a header now and then it would keep for
 * ever. Each has until a deadline for all its headers, and while places are scarce hardly any time; who has
 * had an answer keeps his until there is none left for others. While a request is answered its connection is
 * never closed. One address, this machine's own apart, has so many places and no more: a further connection
 * is told so (429) and closed. */
#ifndef SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H
#define SWIFTLET_STREAMS_SERVICE_SERVER_DOORMAN_H

#include <microhttpd.h>
#include <stdbool.h>

struct doorman;

struct doorman_options {
	int connections, an_address; /* in all; of one address that is not this machine's (0: any number) */
	double header_seconds;       /* for a first request's headers */
	double idle_seconds;         /* more for a further one's on the same connection */
};
/* NULL on no memory, or no thread. */
struct doorman* doorman_open(const struct doorman_options*);
/* After the daemon has been stopped. */
void doorman_close(struct doorman*);
/* MHD's callback for connections that come and go. */
void doorman_on_connection(void* doorman, struct MHD_Connection*, void** context,
                           enum MHD_ConnectionNotificationCode);
/* A request's headers are all there; it has been answered. */
void doorman_headers_came(struct doorman*, struct MHD_Connection*);
void doorman_answered(struct doorman*, struct MHD_Connection*);

#endif
