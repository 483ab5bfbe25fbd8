/* See server_doorman.h. A thread looks at the waiting ones four times a second; it shuts a socket down, and
 * the daemon finds it at its end and closes it. */
#include "streams/service/server_doorman.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "streams/service/server_internal.h"

struct visitor {
	int fd;       /* -1: the place is free */
	bool waiting; /* for headers */
	bool known;   /* has had an answer */
	double since;
	uint8_t address[16]; /* all zero: this machine's own */
};

struct doorman {
	pthread_mutex_t lock;
	pthread_cond_t closing;
	pthread_t thread;
	bool closed;
	struct doorman_options option;
	int n, present;
	struct visitor visitor[]; /* (n) */
};

static const double pressed_seconds = 1; /* for headers, while places are scarce */

static double patience(const struct doorman* d, const struct visitor* v) {
	const bool scarce = 4 * d->present > 3 * d->n, none_left = 32 * (d->n - d->present) <= d->n;
	if (v->known ? none_left : scarce)
		return pressed_seconds;
	return d->option.header_seconds + (v->known ? d->option.idle_seconds : 0);
}

static void* watch(void* user) {
	struct doorman* d = user;
	pthread_mutex_lock(&d->lock);
	while (!d->closed) {
		const double now = server_clock();
		for (int i = 0; i < d->n; i++) {
			const struct visitor* v = &d->visitor[i];
			if (v->fd >= 0 && v->waiting && now - v->since > patience(d, v))
				shutdown(v->fd, SHUT_RDWR);
		}
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 250000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&d->closing, &d->lock, &until);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

struct doorman* doorman_open(const struct doorman_options* o) {
	struct doorman* d = calloc(1, sizeof *d + (size_t)o->connections * sizeof d->visitor[0]);
	if (!d)
		return NULL;
	d->option = *o;
	d->n = o->connections;
	for (int i = 0; i < d->n; i++)
		d->visitor[i].fd = -1;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->closing, NULL);
	if (pthread_create(&d->thread, NULL, watch, d) == 0)
		return d;
	pthread_cond_destroy(&d->closing);
	pthread_mutex_destroy(&d->lock);
	free(d);
	return NULL;
}

void doorman_close(struct doorman* d) {
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->closed = true;
	pthread_cond_signal(&d->closing);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	pthread_cond_destroy(&d->closing);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* An IPv6 client is its /64: the rest is its own to choose. */
static void address_of(const struct sockaddr* from, uint8_t out[16]) {
	memset(out, 0, 16);
	if (from->sa_family == AF_INET) {
		const struct in_addr four = ((const struct sockaddr_in*)(const void*)from)->sin_addr;
		if (ntohl(four.s_addr) >> 24 != 127)
			memcpy(out, &four, 4);
	} else if (from->sa_family == AF_INET6) {
		const struct in6_addr* six = &((const struct sockaddr_in6*)(const void*)from)->sin6_addr;
		if (!IN6_IS_ADDR_LOOPBACK(six))
			memcpy(out, six, IN6_IS_ADDR_V4MAPPED(six) ? 16 : 8);
	}
}

static bool too_many(const struct doorman* d, const uint8_t address[16]) {
	static const uint8_t own[16];
	int n = 0;
	for (int i = 0; i < d->n; i++)
		n += d->visitor[i].fd >= 0 && memcmp(d->visitor[i].address, address, 16) == 0;
	return d->option.an_address > 0 && n > d->option.an_address && memcmp(address, own, 16) != 0;
}

static void turn_away(int fd) {
	static const char body[] =
	    "{\"error\": {\"message\": \"Too many connections from this address.\", \"type\": "
	    "\"rate_limit_error\", \"param\": null, \"code\": \"too_many_connections\"}}\n";
	char answer[512];
	const int n = snprintf(answer, sizeof answer,
	                       "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 10\r\n"
	                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
	                       sizeof body - 1, body);
	(void)!send(fd, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_RDWR);
}

static struct visitor* seat(struct doorman* d, int fd, const struct sockaddr* from) {
	for (int i = 0; i < d->n; i++)
		if (d->visitor[i].fd < 0) {
			d->visitor[i] = (struct visitor){.fd = fd, .waiting = true, .since = server_clock()};
			address_of(from, d->visitor[i].address);
			d->present++;
			if (too_many(d, d->visitor[i].address))
				turn_away(fd);
			return &d->visitor[i];
		}
	return NULL; /* more than there were to be: it goes unwatched */
}

void doorman_on_connection(void* user, struct MHD_Connection* connection, void** context,
                           enum MHD_ConnectionNotificationCode code) {
	struct doorman* d = user;
	pthread_mutex_lock(&d->lock);
	struct visitor* v = *context;
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*context = seat(d, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
		                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
	else if (v) {
		v->fd = -1;
		d->present--;
		*context = NULL;
	}
	pthread_mutex_unlock(&d->lock);
}

static void set_waiting(struct doorman* d, struct MHD_Connection* connection, bool waiting) {
	pthread_mutex_lock(&d->lock);
	struct visitor* v =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	if (v) {
		v->waiting = waiting;
		v->known = true;
		v->since = server_clock();
	}
	pthread_mutex_unlock(&d->lock);
}

void doorman_headers_came(struct doorman* d, struct MHD_Connection* connection) {
	set_waiting(d, connection, false);
}

void doorman_answered(struct doorman* d, struct MHD_Connection* connection) {
	set_waiting(d, connection, true);
}
