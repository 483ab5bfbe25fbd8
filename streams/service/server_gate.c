/* The door: who comes in, and who has to go because he keeps the service waiting for a request's headers.
 *
 * A connection waits outside until all headers of its first request are there and are HTTP (server_head.h);
 * then libmicrohttpd gets it. So whoever is silent, slow or writes nonsense takes no place inside, and is
 * told so in JSON. Outside each has until a deadline, while it is crowded hardly any time, and beyond that
 * who has waited longest goes first. Inside, a connection between two requests is closed at its deadline, or
 * sooner where others find no place; while a request is answered it never is. One address, this machine's own
 * apart, has so many places and no more: a further connection is told so (429).
 *
 * A thread waits for what comes to the door, and looks at all who wait four times a second. Bytes outside are
 * looked at and left where they are, for libmicrohttpd to read. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "streams/service/server_head.h"
#include "streams/service/server_internal.h"

enum {
	OUTSIDE = 256, /* places before the door */
	PLACES = SERVER_CONNECTIONS + OUTSIDE,
	LOOKS = 64, /* at bytes as they come; after that only four times a second */
	BEAT = 250, /* milliseconds */
	AT_ONCE = 64
};

struct pending_connection {
	int fd;
	enum { NOBODY, KNOCKING, READY, LEAVING, INSIDE } where;
	bool waiting; /* inside: for a further request's headers */
	int looks, daemon;
	double since;
	uint8_t address[16]; /* all zero: this machine's own */
	struct sockaddr_storage from;
};

struct connection_gate {
	pthread_mutex_t lock; /* of pending connections */
	pthread_t thread;
	bool begun;
	atomic_bool shut;
	struct server* server;
	int listening, poll;
	int inside_of[HTTP_THREADS]; /* its daemons */
	char bytes[SERVER_HEADERS + 1];
	int inside, outside;
	struct pending_connection pending[PLACES];
};

static const double pressed_seconds = 1; /* for headers, while places are scarce; to read a refusal */

/* ---- leaving ------------------------------------------------------------------------------ */

static void release_place(struct connection_gate* d, struct pending_connection* v) {
	if (v->where == INSIDE) {
		d->inside--;
		d->inside_of[v->daemon]--;
	} else
		d->outside--;
	*v = (struct pending_connection){.where = NOBODY};
}

static void close_connection(struct connection_gate* d, struct pending_connection* v) {
	close(v->fd);
	release_place(d, v);
}

/* By what recv() returned. */
static bool is_closed(ssize_t n) { return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR); }

static void discard_input(struct connection_gate* d, struct pending_connection* v) {
	ssize_t n = 1;
	for (int i = 0; i < AT_ONCE && n > 0; i++)
		n = recv(v->fd, d->bytes, sizeof d->bytes, MSG_DONTWAIT);
	if (is_closed(n))
		close_connection(d, v);
}

/* Once he has read it he goes, or is sent; what he sends meanwhile is read, since closing before would undo
 * the answer. */
static void refuse_connection(struct connection_gate* d, struct pending_connection* v,
                              const struct api_error* e) {
	char* body = api_error_text(e);
	if (body)
		head_answer(v->fd, e->status, body);
	free(body);
	shutdown(v->fd, SHUT_WR);
	metrics_request(&d->server->metrics[0], "(other)", e->status);
	v->where = LEAVING;
	v->since = seconds_now();
	discard_input(d, v);
}

/* Who has said nothing is told nothing. */
static void refuse_slow(struct connection_gate* d, struct pending_connection* v) {
	struct api_error e;
	if (recv(v->fd, d->bytes, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
		close_connection(d, v);
		return;
	}
	api_fail(&e, 408, NULL, "The request's headers took too long.");
	refuse_connection(d, v, &e);
}

/* Of those outside, or of those who are ready, who has waited longest; NULL: nobody. */
static struct pending_connection* find_oldest(struct connection_gate* d, bool ready) {
	struct pending_connection* first = NULL;
	for (struct pending_connection* v = d->pending; v < d->pending + PLACES; v++) {
		const bool one = ready ? v->where == READY : v->where != NOBODY && v->where != INSIDE;
		if (one && (!first || v->since < first->since))
			first = v;
	}
	return first;
}

/* Who has waited longest goes; whether there was one. */
static bool make_room(struct connection_gate* d) {
	struct pending_connection* first = find_oldest(d, false);
	if (first && first->where == KNOCKING)
		refuse_slow(d, first);
	if (first && first->where != NOBODY)
		close_connection(d, first);
	return first;
}

/* ---- coming ------------------------------------------------------------------------------- */

void gate_address(const struct sockaddr* from, uint8_t out[16]) {
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

static bool too_many(const struct connection_gate* d, const uint8_t address[16]) {
	static const uint8_t own[16];
	const int most = d->server->option.address_connections;
	int n = 0;
	for (int i = 0; i < PLACES; i++)
		n += d->pending[i].where != NOBODY && memcmp(d->pending[i].address, address, 16) == 0;
	return most > 0 && n > most && memcmp(address, own, 16) != 0;
}

static void accept_connection(struct connection_gate* d, int fd, const struct sockaddr_storage* from) {
	struct api_error e;
	struct pending_connection* v = NULL; /* there are more than may be inside and outside */
	for (struct pending_connection* other = d->pending; other < d->pending + PLACES; other++) {
		if (other->where != NOBODY && other->fd == fd) /* libmicrohttpd closed it and could not say so */
			release_place(d, other);
		if (other->where == NOBODY)
			v = other;
	}
	*v = (struct pending_connection){.fd = fd, .where = KNOCKING, .since = seconds_now(), .from = *from};
	gate_address((const struct sockaddr*)from, v->address);
	d->outside++;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = v};
	if (epoll_ctl(d->poll, EPOLL_CTL_ADD, fd, &event) != 0) {
		close_connection(d, v);
	} else if (too_many(d, v->address)) {
		api_fail(&e, 429, "too_many_connections", "Too many connections from this address.");
		refuse_connection(d, v, &e);
	}
}

static void accept_all(struct connection_gate* d) {
	for (int i = 0; i < AT_ONCE; i++) {
		struct sockaddr_storage from = {0};
		socklen_t size = sizeof from;
		if (d->outside >= OUTSIDE)
			make_room(d);
		const int fd = accept4(d->listening, (struct sockaddr*)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			accept_connection(d, fd, &from);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (!make_room(d))
				nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

static void read_head(struct connection_gate* d, struct pending_connection* v) {
	struct api_error e;
	const ssize_t n = recv(v->fd, d->bytes, sizeof d->bytes, MSG_PEEK | MSG_DONTWAIT);
	v->looks++;
	if (is_closed(n)) {
		close_connection(d, v);
		return;
	}
	const enum head_state head = n > 0 ? head_read(d->bytes, (size_t)n, &e) : HEAD_PART;
	if (head == HEAD_WHOLE)
		v->where = READY;
	else if (head == HEAD_REFUSED)
		refuse_connection(d, v, &e);
}

/* ---- going in ----------------------------------------------------------------------------- */

/* With the lock, which is given up meanwhile: libmicrohttpd says at once that the connection has come. */
static void hand_over(struct connection_gate* d, struct pending_connection* v) {
	int to = 0;
	for (int i = 1; i < HTTP_THREADS; i++)
		to = d->inside_of[i] < d->inside_of[to] ? i : to;
	const int fd = v->fd;
	const struct sockaddr_storage from = v->from;
	epoll_ctl(d->poll, EPOLL_CTL_DEL, fd, NULL);
	v->where = INSIDE;
	v->daemon = to;
	d->outside--;
	d->inside++;
	d->inside_of[to]++;
	pthread_mutex_unlock(&d->lock);
	const bool in = MHD_add_connection(d->server->daemon[to], fd, (const struct sockaddr*)&from,
	                                   from.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                              : sizeof(struct sockaddr_in)) == MHD_YES;
	pthread_mutex_lock(&d->lock);
	if (!in) /* it has closed it */
		release_place(d, v);
}

/* Those who are ready, first come first. */
static void hand_over_ready(struct connection_gate* d) {
	for (struct pending_connection* v; d->inside < SERVER_CONNECTIONS && (v = find_oldest(d, true));)
		hand_over(d, v);
}

/* ---- waiting ------------------------------------------------------------------------------ */

static void check_deadline(struct connection_gate* d, struct pending_connection* v, double now) {
	const struct server_options* o = &d->server->option;
	const bool crowded = 4 * d->outside > 3 * OUTSIDE;
	const bool none_left = 32 * (SERVER_CONNECTIONS - d->inside) <= SERVER_CONNECTIONS;
	const double waits = now - v->since;
	struct api_error e;
	switch (v->where) {
	case NOBODY:
		break;
	case KNOCKING:
		if (v->looks > LOOKS)
			read_head(d, v);
		if (v->where == KNOCKING && waits > (crowded ? pressed_seconds : o->header_seconds))
			refuse_slow(d, v);
		break;
	case READY:
		if (waits <= o->header_seconds)
			break;
		api_fail(&e, 503, "no_connection_free", "The server is busy: no connection is free.");
		refuse_connection(d, v, &e);
		break;
	case LEAVING:
		if (waits > pressed_seconds)
			close_connection(d, v);
		break;
	case INSIDE: /* the daemon finds it at its end, and closes it */
		if (v->waiting && waits > (none_left ? pressed_seconds : o->header_seconds + o->idle_seconds))
			shutdown(v->fd, SHUT_RDWR);
		break;
	}
}

static void handle_event(struct connection_gate* d, struct pending_connection* v) {
	if (!v)
		accept_all(d);
	else if (v->where == LEAVING)
		discard_input(d, v);
	else if (v->where == KNOCKING && v->looks <= LOOKS)
		read_head(d, v);
}

static void* run_thread(void* user) {
	struct connection_gate* d = user;
	struct epoll_event event[64];
	double beaten = 0;
	while (!atomic_load(&d->shut)) {
		const int n = epoll_wait(d->poll, event, 64, BEAT);
		const double now = seconds_now();
		pthread_mutex_lock(&d->lock);
		for (int i = 0; i < n; i++)
			handle_event(d, event[i].data.ptr);
		if (now - beaten >= 1e-3 * BEAT) {
			beaten = now;
			for (int i = 0; i < PLACES; i++)
				check_deadline(d, &d->pending[i], now);
		}
		hand_over_ready(d);
		pthread_mutex_unlock(&d->lock);
	}
	return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------ */

struct connection_gate* gate_open(struct server* s) {
	struct connection_gate* d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->server = s;
	d->listening = -1;
	d->poll = epoll_create1(EPOLL_CLOEXEC);
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

bool gate_begin(struct connection_gate* d, int listening) {
	struct epoll_event event = {.events = EPOLLIN};
	d->listening = listening;
	return d->begun = epoll_ctl(d->poll, EPOLL_CTL_ADD, listening, &event) == 0 &&
	                  pthread_create(&d->thread, NULL, run_thread, d) == 0;
}

void gate_shut(struct connection_gate* d) {
	atomic_store(&d->shut, true);
	if (d->begun)
		pthread_join(d->thread, NULL);
	d->begun = false;
	if (d->listening >= 0)
		close(d->listening);
	d->listening = -1;
	pthread_mutex_lock(&d->lock);
	for (struct pending_connection* v; (v = find_oldest(d, false));)
		close_connection(d, v);
	pthread_mutex_unlock(&d->lock);
}

void gate_close(struct connection_gate* d) {
	if (!d)
		return;
	gate_shut(d);
	if (d->poll >= 0)
		close(d->poll);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

int gate_present(struct connection_gate* d) {
	pthread_mutex_lock(&d->lock);
	const int n = d->inside;
	pthread_mutex_unlock(&d->lock);
	return n;
}

/* ---- what goes on inside ------------------------------------------------------------------ */

void gate_on_connection(void* user, struct MHD_Connection* connection, void** context,
                        enum MHD_ConnectionNotificationCode code) {
	struct connection_gate* d = user;
	pthread_mutex_lock(&d->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		for (int i = 0; i < PLACES && !*context; i++)
			if (d->pending[i].where == INSIDE && d->pending[i].fd == fd)
				*context = &d->pending[i];
	} else if (*context) {
		release_place(d, *context);
		*context = NULL;
	}
	pthread_mutex_unlock(&d->lock);
}

void gate_waits(struct connection_gate* d, struct MHD_Connection* connection, bool waiting) {
	pthread_mutex_lock(&d->lock);
	struct pending_connection* v =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	if (v) {
		v->waiting = waiting;
		v->since = seconds_now();
	}
	pthread_mutex_unlock(&d->lock);
}
