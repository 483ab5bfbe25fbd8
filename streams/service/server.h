/* The HTTP service: OpenAI's completions and chat, health, metrics, masks, the optimizer, and a page.
 *
 * libmicrohttpd's threads read requests, check them and hand them to the scheduler; answers are written as
 * the scheduler's thread brings them. Everything a client can make large or slow has a limit here. */
#ifndef SWIFTLET_STREAMS_SERVICE_SERVER_H
#define SWIFTLET_STREAMS_SERVICE_SERVER_H

#include "core/model/model.h"
#include "streams/service/scheduler.h"

enum {
	SERVER_BODY = 8 << 20,
	SERVER_HEADERS = 32 << 10,
	SERVER_CONNECTIONS = 512,
	SERVER_KEYS = 64,
	SERVER_GROUP = 64
};

struct server_options {
	const char* host;    /* an address, or "localhost" */
	int port;            /* 0: any that is free */
	const char* version; /* of the program */
	/* API keys, one a line: KEY [group=NAME] [admin]. Keys of one group are one tenant. Where all are one
	 * tenant's and none is marked, all are admins. NULL: no keys, allowed on loopback alone. */
	const char* key_file;
	const char* key;          /* one more, as a line of that file; NULL: none */
	const char* const* cors;  /* (n_cors) origins that browsers may call from; "*": any, "localhost" */
	int n_cors;               /* this machine's, by any port */
	const char* const* alias; /* (n_aliases) the model's other names */
	int n_aliases;
	bool has_temperature;          /* work.session's is that of requests that say none; else it is 1 */
	bool strict_model;             /* refuses other names of the model */
	bool strict_fields;            /* refuses fields that nobody knows */
	const char* prompt_cache;      /* a folder; NULL: none */
	int64_t prompt_cache_bytes;    /* of its files at most */
	int rate;                      /* requests a minute and client; 0: unlimited */
	int address_connections;       /* of one address that is not this machine's, at most; 0: any number */
	bool forwarded;                /* a proxy on this machine says whose a request is, in X-Forwarded-For */
	int idle_seconds;              /* until a silent connection is closed */
	int header_seconds;            /* until a request's headers must be there */
	int body_seconds;              /* until a request's body must be there */
	bool tell_speculation;         /* answers have vLLM's metrics.speculative_decoding */
	bool log_requests;             /* method, route, status and seconds, on standard error; never text */
	struct scheduler_options work; /* what the server makes itself (prompts, metrics, events) is left open */
};

struct server;
/* Opens the port and begins to serve. All that is given must outlive the server. NULL with the error set. */
struct server* server_open(const struct server_options*, struct model*, swiftlet_engine*, struct error*);
int server_port(const struct server*);
/* True when a host is the machine's own alone: "localhost", ::1, or an address in 127.0.0.0/8, and no name
 * that begins like one. */
bool server_is_loopback(const char* host);
/* Refuses what comes, finishes what runs for at most `grace` seconds, closes. */
void server_close(struct server*, double grace);

#endif
