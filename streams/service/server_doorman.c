/* See server_doorman.h. A thread looks at the waiting ones four times a second; it shuts a socket down, and
 * the daemon finds it at its end and closes it. */
#include "streams/service/server_doorman.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "streams/service/server_internal.h"

struct visitor {
	int fd;       /* -1: the place is free */
	bool waiting; /* for headers */
	bool known;   /* has had an answer */
	double since;
};

struct doorman {
	pthread_mutex_t lock;
	pthread_cond_t closing;
	pthread_t thread;
	bool closed;
	double header_seconds, idle_seconds;
	int n, present;
	struct visitor visitor[]; /* (n) */
};

static const double pressed_seconds = 1; /* for headers, while three quarters of the places are taken */

static double patience(const struct doorman* d, const struct visitor* v) {
	if (4 * d->present > 3 * d->n)
		return pressed_seconds;
	return v->known ? d->idle_seconds + d->header_seconds : d->header_seconds;
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

struct doorman* doorman_open(int connections, double header_seconds, double idle_seconds) {
	struct doorman* d = calloc(1, sizeof *d + (size_t)connections * sizeof d->visitor[0]);
	if (!d)
		return NULL;
	d->n = connections;
	d->header_seconds = header_seconds;
	d->idle_seconds = idle_seconds;
	for (int i = 0; i < connections; i++)
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

static struct visitor* seat(struct doorman* d, int fd) {
	for (int i = 0; i < d->n; i++)
		if (d->visitor[i].fd < 0) {
			d->visitor[i] = (struct visitor){.fd = fd, .waiting = true, .since = server_clock()};
			d->present++;
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
		*context =
		    seat(d, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
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
