/* The connection gate: it accepts connections and closes those that are slow to send a request's headers.
 *
 * A connection is pending until all headers of its first request have arrived and are HTTP (server_head.h).
 * Then libmicrohttpd gets it. So a silent, slow or malformed client takes no place in the server, and gets an
 * error in JSON. A pending connection has a deadline, which is short for those of an address that crowds the
 * others; when all places are taken, one of the address that takes most of them is closed. So a client that
 * is slow, and no more, keeps its place whatever other addresses do. An open connection that is idle between
 * two requests is closed at its deadline, or sooner when new connections find no place; it is never closed
 * while a request is answered. Each address may hold a limited number of connections, except the loopback
 * address. A further connection gets a 429.
 *
 * A connection whose client has hung up is given back at the next check, because libmicrohttpd does not
 * notice a hang-up that came together with the last bytes, nor one while the answer is prepared.
 *
 * A connection whose first request has a thread of its own (struct route) goes there. It carries that request
 * alone, so that no other one is served by that thread, and these connections have places of their own.
 *
 * One thread accepts connections and checks all deadlines four times a second. It peeks at the bytes of
 * pending connections and leaves them in the socket, for libmicrohttpd to read. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "streams/service/server_head.h"
#include "streams/service/server_internal.h"

enum {
	PLACES = SERVER_CONNECTIONS + (ALL_THREADS - HTTP_THREADS) * SERVER_OWN_CONNECTIONS + SERVER_PENDING,
	FAIR_SHARE = SERVER_PENDING / 16, /* of an address, while places are scarce */
	MAX_READS = 64,                   /* of a head as its bytes arrive; after that only four times a second */
	CHECK_INTERVAL = 250,             /* milliseconds */
	BATCH = 64
};

struct pending_connection {
	int fd;
	enum { GATE_FREE, GATE_READING, GATE_READY, GATE_CLOSING, GATE_OPEN } state;
	enum gate_phase phase; /* open: what of a request is awaited */
	int reads;
	int daemon; /* 0 until it is handed over, or the number of its route's own thread */
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
	int open_in[ALL_THREADS]; /* connections of each daemon */
	char bytes[SERVER_HEADERS + 1];
	int n_open, n_pending;
	struct pending_connection pending[PLACES];
};

_Static_assert(SERVER_CONNECTIONS / HTTP_THREADS < 126 && SERVER_OWN_CONNECTIONS < 126,
               "a daemon may get 128 events at once");

static const double short_seconds = 1; /* deadline while places are scarce; time to read a refusal */

/* ---- closing ------------------------------------------------------------------------------ */

static void release_place(struct connection_gate* d, struct pending_connection* v) {
	if (v->state == GATE_OPEN) {
		d->n_open--;
		d->open_in[v->daemon]--;
	} else
		d->n_pending--;
	*v = (struct pending_connection){.state = GATE_FREE};
}

static void close_connection(struct connection_gate* d, struct pending_connection* v) {
	close(v->fd);
	release_place(d, v);
}

/* n: the result of recv(). */
static bool is_closed(ssize_t n) { return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR); }

static void discard_input(struct connection_gate* d, struct pending_connection* v) {
	ssize_t n = 1;
	for (int i = 0; i < BATCH && n > 0; i++)
		n = recv(v->fd, d->bytes, sizeof d->bytes, MSG_DONTWAIT);
	if (is_closed(n))
		close_connection(d, v);
}

/* Sends the error and closes the connection once the client has closed its side, or after a while. Input that
 * arrives meanwhile is read, because closing a socket with unread bytes would discard the answer. */
static void refuse_connection(struct connection_gate* d, struct pending_connection* v,
                              const struct api_error* e) {
	char* body = api_error_text(e);
	if (body)
		head_answer(v->fd, e->status, body);
	free(body);
	shutdown(v->fd, SHUT_WR);
	metrics_request(&d->server->metrics[0], "(other)", e->status);
	v->state = GATE_CLOSING;
	v->since = seconds_now();
	discard_input(d, v);
}

/* A client that has sent nothing gets no answer. */
static void refuse_slow(struct connection_gate* d, struct pending_connection* v) {
	struct api_error e;
	if (recv(v->fd, d->bytes, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
		close_connection(d, v);
		return;
	}
	api_fail(&e, 408, NULL, "The request's headers took too long to arrive: send them at once.");
	refuse_connection(d, v, &e);
}

static bool is_pending(const struct pending_connection* v) {
	return v->state != GATE_FREE && v->state != GATE_OPEN;
}

/* Pending connections of the same address. */
static int count_pending(const struct connection_gate* d, const uint8_t address[16]) {
	int n = 0;
	for (const struct pending_connection* v = d->pending; v < d->pending + PLACES; v++)
		n += is_pending(v) && memcmp(v->address, address, 16) == 0;
	return n;
}

/* Open connections that the threads share which serve all requests. */
static int count_shared(const struct connection_gate* d) {
	int n = 0;
	for (int i = 0; i < HTTP_THREADS; i++)
		n += d->open_in[i];
	return n;
}

static bool can_open(const struct connection_gate* d, const struct pending_connection* v) {
	return v->state == GATE_READY && (v->daemon ? d->open_in[v->daemon] < SERVER_OWN_CONNECTIONS
	                                            : count_shared(d) < SERVER_CONNECTIONS);
}

/* The oldest connection that can be opened now. NULL: there is none. */
static struct pending_connection* find_opening(struct connection_gate* d) {
	struct pending_connection* first = NULL;
	for (struct pending_connection* v = d->pending; v < d->pending + PLACES; v++)
		if (can_open(d, v) && (!first || v->since < first->since))
			first = v;
	return first;
}

/* The pending connection that can be spared most. One that has its answer; else of the address that has most
 * of them: one that is slow before one whose request waits for a place, and the oldest. NULL: there is none.
 */
static struct pending_connection* find_spare(struct connection_gate* d) {
	struct pending_connection *pending[PLACES], *best = NULL;
	int n = 0, best_rank = 0;
	for (struct pending_connection* v = d->pending; v < d->pending + PLACES; v++)
		if (is_pending(v))
			pending[n++] = v;
	for (int i = 0; i < n; i++) {
		struct pending_connection* const v = pending[i];
		int rank = v->state == GATE_CLOSING ? 2 * PLACES : v->state == GATE_READING;
		for (int k = 0; k < n && rank < 2 * PLACES; k++)
			rank += memcmp(pending[k]->address, v->address, 16) == 0 ? 2 : 0;
		if (!best || rank > best_rank || (rank == best_rank && v->since < best->since)) {
			best = v;
			best_rank = rank;
		}
	}
	return best;
}

static void refuse_waiting(struct connection_gate* d, struct pending_connection* v) {
	struct api_error e;
	api_fail(&e, 503, "no_connection_free", "The server has no free connection: try again later.");
	refuse_connection(d, v, &e);
}

/* Closes a pending connection. False: there is none. */
static bool make_room(struct connection_gate* d) {
	struct pending_connection* const spare = find_spare(d);
	if (spare && spare->state == GATE_READING)
		refuse_slow(d, spare);
	else if (spare && spare->state == GATE_READY)
		refuse_waiting(d, spare);
	if (spare && spare->state != GATE_FREE)
		close_connection(d, spare);
	return spare;
}

/* ---- accepting ---------------------------------------------------------------------------- */

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
		n += d->pending[i].state != GATE_FREE && memcmp(d->pending[i].address, address, 16) == 0;
	return most > 0 && n > most && memcmp(address, own, 16) != 0;
}

static void accept_connection(struct connection_gate* d, int fd, const struct sockaddr_storage* from) {
	struct api_error e;
	struct pending_connection* v = NULL; /* one is free: there are more places than connections */
	for (struct pending_connection* other = d->pending; other < d->pending + PLACES; other++) {
		if (other->state != GATE_FREE && other->fd == fd) /* libmicrohttpd closed it without a notice */
			release_place(d, other);
		if (other->state == GATE_FREE)
			v = other;
	}
	*v = (struct pending_connection){.fd = fd, .state = GATE_READING, .since = seconds_now(), .from = *from};
	gate_address((const struct sockaddr*)from, v->address);
	d->n_pending++;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = v};
	if (epoll_ctl(d->poll, EPOLL_CTL_ADD, fd, &event) != 0) {
		close_connection(d, v);
	} else if (too_many(d, v->address)) {
		api_fail(
		    &e, 429, "too_many_connections",
		    "Too many connections are open from this address: close some, or use one for several requests.");
		refuse_connection(d, v, &e);
	}
}

static void accept_all(struct connection_gate* d) {
	for (int i = 0; i < BATCH; i++) {
		struct sockaddr_storage from = {0};
		socklen_t size = sizeof from;
		const int fd = accept4(d->listening, (struct sockaddr*)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			if (d->n_pending >= SERVER_PENDING)
				make_room(d);
			accept_connection(d, fd, &from);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (!make_room(d))
				nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* The thread of its own that the route of this request has; 0: none. */
static int own_thread(const char* head, size_t size) {
	for (const struct route* r = server_routes; r->method; r++)
		if (r->thread && head_gets(head, size, r->path))
			return r->thread;
	return 0;
}

static void read_head(struct connection_gate* d, struct pending_connection* v) {
	struct api_error e;
	const ssize_t n = recv(v->fd, d->bytes, sizeof d->bytes, MSG_PEEK | MSG_DONTWAIT);
	v->reads++;
	if (is_closed(n)) {
		close_connection(d, v);
		return;
	}
	const enum head_state head = n > 0 ? head_read(d->bytes, (size_t)n, &e) : HEAD_PART;
	if (head == HEAD_WHOLE) {
		v->state = GATE_READY;
		v->daemon = own_thread(d->bytes, (size_t)n);
	} else if (head == HEAD_REFUSED)
		refuse_connection(d, v, &e);
}

/* ---- handing over ------------------------------------------------------------------------- */

/* Call with the lock held. It is released meanwhile, because libmicrohttpd reports the new connection from
 * within the call. */
static void hand_over(struct connection_gate* d, struct pending_connection* v) {
	int to = v->daemon;
	for (int i = 1; i < HTTP_THREADS && !v->daemon; i++)
		to = d->open_in[i] < d->open_in[to] ? i : to;
	const int fd = v->fd;
	const struct sockaddr_storage from = v->from;
	epoll_ctl(d->poll, EPOLL_CTL_DEL, fd, NULL);
	v->state = GATE_OPEN;
	v->phase = GATE_HEADERS;
	v->daemon = to;
	d->n_pending--;
	d->n_open++;
	d->open_in[to]++;
	pthread_mutex_unlock(&d->lock);
	const bool in = MHD_add_connection(d->server->daemon[to], fd, (const struct sockaddr*)&from,
	                                   from.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                              : sizeof(struct sockaddr_in)) == MHD_YES;
	pthread_mutex_lock(&d->lock);
	if (!in) /* libmicrohttpd has closed it */
		release_place(d, v);
}

/* Hands over the connections that are ready, oldest first. */
static void hand_over_ready(struct connection_gate* d) {
	for (struct pending_connection* v; (v = find_opening(d));)
		hand_over(d, v);
}

/* ---- deadlines ---------------------------------------------------------------------------- */

/* Seconds to send a request's headers. */
static double header_seconds(const struct connection_gate* d, const struct pending_connection* v) {
	const bool scarce = 4 * d->n_pending > 3 * SERVER_PENDING;
	return scarce && count_pending(d, v->address) > FAIR_SHARE ? short_seconds
	                                                           : d->server->option.header_seconds;
}

static void check_deadline(struct connection_gate* d, struct pending_connection* v, double now) {
	const struct server_options* o = &d->server->option;
	const bool none_left = 32 * (SERVER_CONNECTIONS - count_shared(d)) <= SERVER_CONNECTIONS;
	const double waits = now - v->since;
	switch (v->state) {
	case GATE_FREE:
		break;
	case GATE_READING:
		if (v->reads > MAX_READS)
			read_head(d, v);
		if (v->state == GATE_READING && waits > header_seconds(d, v))
			refuse_slow(d, v);
		break;
	case GATE_READY:
		if (waits > o->header_seconds)
			refuse_waiting(d, v);
		break;
	case GATE_CLOSING:
		if (waits > short_seconds)
			close_connection(d, v);
		break;
	case GATE_OPEN: /* the daemon sees the end of the stream and closes it */
		if (v->phase == GATE_NEXT &&
		    waits > (none_left ? short_seconds : o->header_seconds + o->idle_seconds))
			shutdown(v->fd, SHUT_RDWR);
		break;
	}
}

/* Nothing more will come, and nothing of it is unread. */
static bool has_hung_up(int fd) {
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	int unread = 0;
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) &&
	       ((p.revents & (POLLHUP | POLLERR)) || ioctl(fd, FIONREAD, &unread) != 0 || unread == 0);
}

/* Unread bytes do not count: a client that has sent them and closed its side is gone. */
bool gate_client_left(int fd) {
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* The daemon gets a moment to begin the answer of a request that it has read. */
static void check_client(struct connection_gate* d, struct pending_connection* v, double now) {
	if (v->state == GATE_READY && gate_client_left(v->fd))
		close_connection(d, v);
	else if (v->state == GATE_READING && gate_client_left(v->fd)) {
		read_head(d, v); /* a client may close its side behind a whole request, and is answered then */
		if (v->state == GATE_READING)
			close_connection(d, v);
	} else if (v->state == GATE_OPEN && v->phase != GATE_ANSWER && now - v->since > 1e-3 * CHECK_INTERVAL &&
	           has_hung_up(v->fd))
		shutdown(v->fd, SHUT_RDWR); /* the daemon sees it and closes it */
}

static void handle_event(struct connection_gate* d, struct pending_connection* v) {
	if (!v)
		accept_all(d);
	else if (v->state == GATE_CLOSING)
		discard_input(d, v);
	else if (v->state == GATE_READING && v->reads <= MAX_READS)
		read_head(d, v);
}

/* Calls that wait suspended are woken by those for whom they wait. */
static void drop_gone(struct server* s) {
	workers_drop_gone(s->workers);
	generations_drop_gone(s);
	events_drop_gone(&s->events);
}

static void* run_thread(void* user) {
	struct connection_gate* d = user;
	struct epoll_event event[64];
	double beaten = 0;
	while (!atomic_load(&d->shut)) {
		const int n = epoll_wait(d->poll, event, 64, CHECK_INTERVAL);
		const double now = seconds_now();
		pthread_mutex_lock(&d->lock);
		for (int i = 0; i < n; i++)
			handle_event(d, event[i].data.ptr);
		const bool checks = now - beaten >= 1e-3 * CHECK_INTERVAL;
		for (int i = 0; i < PLACES && checks; i++) {
			check_client(d, &d->pending[i], now);
			check_deadline(d, &d->pending[i], now);
		}
		hand_over_ready(d);
		pthread_mutex_unlock(&d->lock);
		if (checks) {
			drop_gone(d->server);
			beaten = now;
		}
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
	for (struct pending_connection* v = d->pending; v < d->pending + PLACES; v++)
		if (is_pending(v))
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
	const int n = d->n_open;
	pthread_mutex_unlock(&d->lock);
	return n;
}

int gate_pending(struct connection_gate* d) {
	pthread_mutex_lock(&d->lock);
	const int n = d->n_pending;
	pthread_mutex_unlock(&d->lock);
	return n;
}

/* ---- callbacks of the server -------------------------------------------------------------- */

bool gate_is_own(const struct server* s, struct MHD_Connection* connection) {
	const struct MHD_Daemon* at = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON)->daemon;
	bool own = false;
	for (int i = HTTP_THREADS; i < ALL_THREADS; i++)
		own |= s->daemon[i] == at;
	return own;
}

void gate_on_connection(void* user, struct MHD_Connection* connection, void** context,
                        enum MHD_ConnectionNotificationCode code) {
	struct connection_gate* d = user;
	pthread_mutex_lock(&d->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		for (int i = 0; i < PLACES && !*context; i++)
			if (d->pending[i].state == GATE_OPEN && d->pending[i].fd == fd)
				*context = &d->pending[i];
	} else if (*context) {
		release_place(d, *context);
		*context = NULL;
	}
	pthread_mutex_unlock(&d->lock);
}

void gate_awaits(struct connection_gate* d, struct MHD_Connection* connection, enum gate_phase phase) {
	pthread_mutex_lock(&d->lock);
	struct pending_connection* v =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	if (v) {
		v->phase = phase;
		v->since = seconds_now();
	}
	pthread_mutex_unlock(&d->lock);
}
