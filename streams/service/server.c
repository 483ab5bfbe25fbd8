/* Opens and closes the service: its port and its parts. */
#include "streams/service/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/decode/engine.h"
#include "streams/chat_parts.h"
#include "streams/log.h"
#include "streams/service/server_internal.h"

bool server_is_loopback(const char* host) {
	struct in_addr four;
	struct in6_addr six;
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, host, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six);
	return strcasecmp(host, "localhost") == 0;
}

/* Opens a listening socket and returns its port in *port. -1 with errno set. */
static int listen_at(const struct addrinfo* at, int* port) {
	const int yes = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage is = {0};
	socklen_t size = sizeof is;
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0 &&
	    getsockname(fd, (struct sockaddr*)&is, &size) == 0) {
		*port = ntohs(is.ss_family == AF_INET6 ? ((struct sockaddr_in6*)(void*)&is)->sin6_port
		                                       : ((struct sockaddr_in*)(void*)&is)->sin_port);
		return fd;
	}
	const int problem = errno;
	close(fd);
	errno = problem;
	return -1;
}

/* A client that does not read an answer soon must not keep the few places of a thread for short answers. */
static struct MHD_Daemon* open_daemon(struct server* s, int thread) {
	const bool own = thread >= HTTP_THREADS;
	const unsigned flags =
	    MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
	return MHD_start_daemon(
	    flags, 0, NULL, NULL, server_on_request, s, MHD_OPTION_NOTIFY_COMPLETED, server_on_completed, s,
	    MHD_OPTION_NOTIFY_CONNECTION, gate_on_connection, s->gate, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)SERVER_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)2 * SERVER_HEADERS,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(own ? s->option.header_seconds : s->option.idle_seconds),
	    MHD_OPTION_UNESCAPE_CALLBACK, server_unescape, s, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

/* The addresses of --host and --port, for freeaddrinfo. */
static bool find_host(const struct server_options* o, struct addrinfo** found, struct error* e) {
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	const char* host = strcmp(o->host, "localhost") == 0 ? "127.0.0.1" : o->host;
	char port[16];
	snprintf(port, sizeof port, "%d", o->port);
	const int code = getaddrinfo(host, port, &hints, found);
	return code == 0 || error_set(e, "--host %s: %s", o->host, gai_strerror(code));
}

static bool open_port(struct server* s, struct error* e) {
	struct addrinfo* found = NULL;
	int port = 0;
	if (!find_host(&s->option, &found, e))
		return false;
	errno = 0;
	const int fd = listen_at(found, &port);
	bool good = fd >= 0;
	for (int i = 0; i < ALL_THREADS && good; i++)
		good = (s->daemon[i] = open_daemon(s, i));
	if (good) {
		s->port = port;
		good = gate_begin(s->gate, fd);
	} else if (fd >= 0)
		close(fd);
	const char* const advice =
	    errno == EADDRINUSE ? "; another program uses this port, and --port 0 takes a free one" : "";
	good = good || error_set(e, "%s port %d cannot be served: %s%s", s->option.host, s->option.port,
	                         strerror(errno ? errno : EADDRNOTAVAIL), advice);
	freeaddrinfo(found);
	return good;
}

static bool open_prompts(struct server* s, struct error* e) {
	if (!s->engine->backend->page_restore)
		return error_set(
		    e, "--prompt-cache: the backend %s does not keep prompts on disk; the CPU does so in one process",
		    s->engine->backend->name);
	s->option.work.prompts =
	    prompt_cache_open(s->option.prompt_cache, s->option.prompt_cache_bytes, s->model->fingerprint,
	                      (const char(*)[PROMPT_CACHE_NAME])s->tenant_name, e);
	return s->option.work.prompts != NULL;
}

static bool open_memories(struct server* s, struct error* e) {
	for (int tenant = 1; s->option.work.memory && tenant <= s->n_tenants; tenant++)
		if (!memory_for(s->option.work.memory, tenant, s->tenant_name[tenant], e))
			return false;
	return true;
}

/* IPv6 addresses have several colons. A mistyped name is reported before a key is asked for. */
static bool check_host(const struct server_options* o, struct error* e) {
	const char* const colon = strchr(o->host, ':');
	struct addrinfo* found = NULL;
	if (colon && !strchr(colon + 1, ':'))
		return error_set(e, "--host %s: expected an address without a port; --port sets the port", o->host);
	if (!find_host(o, &found, e))
		return false;
	freeaddrinfo(found);
	return true;
}

static bool check_variables(const char* variables, struct error* e) {
	struct error why;
	return !variables || chat_variables_check(variables, &why) ||
	       error_set(e, "--chat-template-kwargs: %.400s", why.message);
}

static bool open_parts(struct server* s, struct error* e) {
	if (!check_host(&s->option, e) || !check_variables(s->option.variables, e) || !server_read_keys(s, e) ||
	    !open_memories(s, e) || (s->option.prompt_cache && !open_prompts(s, e)))
		return false;
	s->optimizer = optimizer_service_open(s->n_tenants);
	s->gate = gate_open(s);
	s->workers = workers_open();
	if (!s->optimizer || !s->gate || !s->workers)
		return error_set(e, "out of memory");
	s->option.work.metrics = s->metrics;
	s->option.work.events = &s->events;
	s->scheduler = scheduler_open(s->engine, &s->option.work, e);
	return s->scheduler && open_port(s, e);
}

struct server* server_open(const struct server_options* o, struct model* model, swiftlet_engine* engine,
                           struct error* e) {
	struct server* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(e, "out of memory");
		return NULL;
	}
	s->option = *o;
	s->model = model;
	s->engine = engine;
	s->loopback = server_is_loopback(o->host);
	s->began = seconds_now();
	s->opened = time(NULL);
	s->context = options_context(&o->work.session, model);
	pthread_mutex_init(&s->rate_lock, NULL);
	pthread_mutex_init(&s->live_lock, NULL);
	for (int i = 0; i <= SERVER_KEYS; i++)
		metrics_open(&s->metrics[i]);
	events_open(&s->events);
	if (!open_parts(s, e)) {
		server_close(s, 0);
		return NULL;
	}
	return s;
}

int server_port(const struct server* s) { return s->port; }

bool server_is_model(const struct server* s, const char* name) {
	bool found = strcmp(name, s->option.work.model_name) == 0 || strcmp(name, s->model->name) == 0;
	for (int i = 0; i < s->option.n_aliases; i++)
		found |= strcmp(name, s->option.alias[i]) == 0;
	return found;
}

void server_note_ignored(struct server* s, const char* fields) {
	enum { MOST = 1 << 14 }; /* clients could go on for ever */
	pthread_mutex_lock(&s->rate_lock);
	for (const char* at = fields; at && *at; at += strspn(at, ", ")) {
		char name[160];
		const size_t n = strcspn(at, ",");
		snprintf(name, sizeof name, "%.*s ", n > 150 ? 150 : (int)n, at);
		at += n;
		if ((s->ignored.data && strstr(s->ignored.data, name)) || s->ignored.size > MOST)
			continue;
		text_put(&s->ignored, name);
		log_line("swiftlet: the field '%.*s' of requests is ignored (--strict-fields refuses it)",
		         (int)strlen(name) - 1, name);
	}
	pthread_mutex_unlock(&s->rate_lock);
}

/* Waits a moment, so that finished answers can be written. */
static void wait_for_answers(struct server* s) {
	enum { MOMENT = 2, ANSWERS = 10 }; /* seconds */
	const double began = seconds_now();
	for (;;) {
		const double limit = atomic_load(&s->answers) > 0 ? ANSWERS : MOMENT;
		if (gate_present(s->gate) == 0 || seconds_now() - began > limit)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
}

void server_close(struct server* s, double grace) {
	if (!s)
		return;
	atomic_store(&s->stopping, true);
	if (s->port) {
		scheduler_drain(s->scheduler, grace);
		events_beat(&s->events); /* event streams see that it ends */
		gate_shut(s->gate);
		wait_for_answers(s);
	}
	workers_stop(s->workers);
	for (int i = 0; i < ALL_THREADS; i++)
		if (s->daemon[i])
			MHD_stop_daemon(s->daemon[i]);
	gate_close(s->gate);
	workers_close(s->workers);
	scheduler_close(s->scheduler);
	prompt_cache_close(s->option.work.prompts);
	optimizer_service_close(s->optimizer);
	events_close(&s->events);
	for (int i = 0; i <= SERVER_KEYS; i++)
		metrics_close(&s->metrics[i]);
	pthread_mutex_destroy(&s->rate_lock);
	pthread_mutex_destroy(&s->live_lock);
	text_free(&s->ignored);
	free(s);
}
