/* Shared by the service's files: the server, a request in progress, and the routes. */
#pragma once

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>

#include "kernels/clock.h"
#include "streams/service/api_json.h"
#include "streams/service/events.h"
#include "streams/service/metrics.h"
#include "streams/service/scheduler.h"
#include "streams/service/server.h"
#include "streams/text.h"

enum { RATE_CLIENTS = 1024, MAX_PATH = 512 };

/* Each thread that serves connections has its own daemon. Health checks and metrics have threads of their
 * own, so that no other request delays them; and metrics wait for locks that a health check must not wait
 * for.
 *
 * libmicrohttpd collects 128 events at a time. When it has got exactly as many, it waits for more before it
 * handles them, in silence for as long as a connection may be idle. So no thread has that many connections:
 * the gate gives each to the thread that has fewest. */
enum { HTTP_THREADS = 5, HEALTH_THREAD = HTTP_THREADS, METRICS_THREAD, ALL_THREADS };

struct rate_client { /* a token bucket */
	uint8_t address[16];
	double tokens, at;
	int running; /* requests; counted behind a proxy */
};

struct server_key {
	char text[256];
	int tenant; /* from 1 */
	bool admin;
};

struct server {
	struct server_options option;
	struct model* model;
	swiftlet_engine* engine;
	struct MHD_Daemon* daemon[ALL_THREADS]; /* one daemon a thread, because with a pool they need a port */
	int port;
	struct connection_gate* gate;
	struct workers* workers;
	struct scheduler* scheduler;
	struct optimizer_service* optimizer;
	struct metrics metrics[SERVER_KEYS + 1]; /* of all, then by tenant */
	struct events events;
	bool loopback;
	int context; /* tokens a session holds */
	struct server_key key[SERVER_KEYS];
	struct text ignored; /* names of fields ignored so far, a blank after each; guarded by rate_lock */
	char tenant_name[SERVER_KEYS + 1]
	                [PROMPT_CACHE_NAME]; /* by tenant: its name in the store and for prompts on disk */
	int n_keys, n_tenants;
	double began;
	time_t opened;
	atomic_bool stopping;
	atomic_int answers; /* generations that are not written yet */
	pthread_mutex_t live_lock;
	struct generation* live; /* those that have a connection, linked by next_live */
	pthread_mutex_t rate_lock;
	struct rate_client rate[RATE_CLIENTS]; /* used if option.rate > 0, or behind a proxy */
};

struct generation; /* generation.h */

/* One HTTP request. Only MHD's thread touches it, except while a worker has it. */
struct http_call {
	struct server* server;
	struct MHD_Connection* connection;
	const struct route* route; /* NULL: none fits */
	const char* rest;          /* the part of path after the route's */
	char path[MAX_PATH], method[16];
	struct text body;
	struct api_error error; /* status != 0: refused; the error is sent once the body has been read */
	double began;
	int tenant; /* number of the API key or its group from 1; 0 if the server has none */
	bool admin; /* may see and change what is everybody's */
	bool last;  /* of its connection, which is closed after the answer */
	int status; /* answered with; 0: not yet */
	enum { CALL_NEW, CALL_WORKING, CALL_WORKED } work;
	atomic_bool gone; /* the client, while a worker has the call: what takes long may stop */
	struct http_call* next_work;
	double turn;                   /* in the workers' queue: the earliest goes first */
	bool large;                    /* there: not for every worker */
	struct MHD_Response* response; /* made by a worker, not sent yet; owned */
	struct generation* opened;     /* made by a worker, not begun yet; owned */
	struct generation* generation;
	struct rate_client* client; /* the client whose running request it is; NULL: not counted */
	char* ignored;              /* names of unknown fields, separated by commas; or NULL */
	char id[24];                /* the request's, for logs: x-request-id */
};

/* A route takes a complete request and answers it. */
struct route {
	const char* method;
	const char* path;                  /* ends in '/': the text after it is `rest`, and must not be empty */
	bool (*answer)(struct http_call*); /* false: call->error is to be sent */
	bool worked;                       /* a worker calls `answer`, which may take long */
	bool open;                         /* needs no key */
	bool admin;                        /* needs an admin key */
	int thread;                        /* HEALTH_THREAD or METRICS_THREAD; 0: any of the others */
	const struct response_formatter* formatter; /* of generations: reads requests and writes responses */
};

/* Queues a response; false when that fails. Takes `text`. */
bool call_reply(struct http_call*, int status, const char* type, struct text* text);
/* The same for JSON with status 200; false with the call's error when memory runs out. */
bool call_reply_json(struct http_call*, struct text* text);
bool call_reply_error(struct http_call*, const struct api_error*);
/* False, with the error that the client has gone. */
bool call_abandoned(struct http_call*);
bool call_queue(struct http_call*, int status, struct MHD_Response*);
/* A streamed response, of server-sent events if type is NULL, which MHD reads; NULL on no memory, and then
 * nothing is freed. */
struct MHD_Response* event_stream(const char* type, MHD_ContentReaderCallback, void* user,
                                  MHD_ContentReaderFreeCallback);
/* The header's value, or NULL. */
const char* call_header(const struct http_call*, const char* name);

/* server_gate.c: accepts connections within the limits address_connections and header_seconds. Headers of a
 * further request on the same connection may take idle_seconds longer. Metrics count refused connections. */
struct connection_gate* gate_open(struct server*); /* NULL on no memory */
/* Starts to accept from a listening socket, which the gate then owns. Each connection goes to the daemon of
 * its first request's route, or to the one that has fewest. False when no thread can be started. */
bool gate_begin(struct connection_gate*, int listening);
/* Stops accepting. Call before the daemons are stopped. */
void gate_shut(struct connection_gate*);
/* Call after the daemons are stopped. NULL is allowed. */
void gate_close(struct connection_gate*);
/* The address by which limits count: zero for loopback; the /64 prefix of an IPv6 address, because a client
 * may choose the rest freely. */
void gate_address(const struct sockaddr*, uint8_t out[16]);
/* The numbers of open connections, and of those whose headers are awaited. */
int gate_present(struct connection_gate*);
int gate_pending(struct connection_gate*);
/* The client has closed its side, or has gone. MHD does not watch a connection that is suspended. */
bool gate_client_left(int socket);
/* libmicrohttpd's callback for opened and closed connections. */
void gate_on_connection(void* gate, struct MHD_Connection*, void** context,
                        enum MHD_ConnectionNotificationCode);
/* True for connections of a thread for one kind of requests: each carries one. */
bool gate_is_own(const struct server*, struct MHD_Connection*);
/* The event that an open connection waits for: its client's request, or our response. */
enum gate_phase { GATE_HEADERS, GATE_BODY, GATE_ANSWER, GATE_NEXT }; /* NEXT: the next request's headers */
void gate_awaits(struct connection_gate*, struct MHD_Connection*, enum gate_phase);

/* server_workers.c */
struct workers* workers_open(void); /* NULL when there is no memory, or a thread cannot be started */
/* Suspends the call's connection until a worker has called its route's `answer`. Then MHD asks for the answer
 * again. False: the server is stopping. */
bool workers_take(struct workers*, struct http_call*);
bool workers_done(struct workers*, const struct http_call*);
/* Ends the waiting calls whose clients have gone, and marks those that a worker has. */
void workers_drop_gone(struct workers*);
/* Refuses waiting calls. Call before the daemons are stopped, which must find no connection suspended. */
void workers_stop(struct workers*);
void workers_close(struct workers*); /* NULL is allowed */

/* server_access.c */
bool server_read_keys(struct server*, struct error*);
bool call_origin_allowed(struct http_call*);     /* false with the call's error */
bool call_cors_allowed(const struct http_call*); /* a --cors option lets a browser read the answer */
/* Sets the call's tenant, and whether it is an admin. */
bool call_authorized(struct http_call*);
/* Begins a request. False with the call's error when its client has asked too often, or too much at once. */
bool call_enter(struct http_call*);
/* Ends the request, so that its client's next one may run. */
void call_leave(struct http_call*);

/* server_calls.c: MHD's callbacks; and a worker's part, which decodes the body and calls the route's `answer`
 */
bool call_answer(struct http_call*);
enum MHD_Result server_on_request(void* user, struct MHD_Connection*, const char* url, const char* method,
                                  const char* version, const char* data, size_t* size, void** state);
size_t server_unescape(void* user, struct MHD_Connection*, char* text);
void server_on_completed(void* user, struct MHD_Connection*, void** state, enum MHD_RequestTerminationCode);

/* server.c: the model's name, which is its file's or an alias; and fields that are ignored, each logged
 * once */
bool server_is_model(const struct server*, const char* name);
void server_note_ignored(struct server*, const char* fields);

/* server_generate.c */
bool answer_generation(struct http_call*); /* a worker's part */
bool generate_begin(struct http_call*);    /* then, on the connection's thread */
/* A suspended call has been resumed: its answer is ready. */
bool generate_resumed(struct http_call*);
void generate_finished(struct http_call*); /* the client has its answer, or has gone */
/* Ends the calls that wait for a generation and whose clients have gone. The scheduler ends the generations
 * themselves before their next steps. */
void generations_drop_gone(struct server*);

/* server_metrics.c */
bool answer_metrics(struct http_call*);

/* server_tokens.c */
bool answer_tokenize(struct http_call*);
bool answer_detokenize(struct http_call*);
bool answer_apply_template(struct http_call*);
bool answer_count_tokens(struct http_call*);
bool answer_chat_input_tokens(struct http_call*);
bool answer_input_tokens(struct http_call*);
bool answer_tokenizer_info(struct http_call*);

/* optimizer_service.c: searches for models that run elsewhere; NULL on no memory */
struct optimizer_service* optimizer_service_open(int tenants);
void optimizer_service_close(struct optimizer_service*);
bool answer_optimizer(struct http_call*); /* every request of them */

/* server_watch.c: server-sent events of the live state */
bool watch_begin(struct http_call*);

/* server_routes.c */
extern const struct route server_preflight; /* for every path that browsers may call from other origins */
extern const struct route server_routes[];  /* ends with one without a method */

/* page.c, made from page.html */
extern const unsigned char page_html[];
extern const size_t page_html_size;
