/* The HTTP service: OpenAI's completions and chat, health, metrics, masks, the optimizer, and a page.
 *
 * libmicrohttpd's threads read requests, check them and hand them to the scheduler. They write answers as the
 * scheduler's thread produces them. Everything that a client could make large or slow is limited here. */
#pragma once

#include "core/model/model.h"
#include "streams/service/scheduler.h"

enum {
	SERVER_BODY = 8 << 20,
	SERVER_HEADERS = 32 << 10,
	SERVER_CONNECTIONS = 512,
	SERVER_OWN_CONNECTIONS = 32, /* more of them for health checks, and for metrics */
	SERVER_PENDING = 256,        /* more of them whose headers are awaited */
	SERVER_KEYS = 64,
	SERVER_GROUP = 64
};

struct server_options {
	const char* host;    /* an address, or "localhost" */
	int port;            /* 0: any that is free */
	const char* version; /* of the program */
	/* API keys, one a line: KEY [group=NAME] [admin]. Keys of one group are one tenant. If all keys belong to
	 * one tenant and none is marked, all are admins. NULL: no keys, which is allowed on loopback only. */
	const char* key_file;
	const char* key; /* one more key, without a group; NULL: none */
	const char* const*
	    cors;   /* (n_cors) origins that browsers may call from; "*": any; "localhost": this machine's */
	int n_cors; /* this machine's, by any port */
	const char* const* alias; /* (n_aliases) the model's other names */
	int n_aliases;
	bool has_temperature;  /* work.session's temperature applies to requests without one; otherwise it is 1 */
	bool has_seed;         /* likewise the seed; otherwise it is random */
	bool strict_model;     /* refuses other names of the model */
	bool literal_schemas;  /* what schemas leave open is allowed */
	const char* variables; /* of the chat template, a JSON object; those of a request go before; NULL: none */
	bool strict_fields;    /* refuses fields that nobody knows */
	const char* prompt_cache;   /* a folder; NULL: none */
	int64_t prompt_cache_bytes; /* of its files at most */
	int rate;                   /* requests a minute and client; 0: unlimited */
	int address_connections;    /* of one remote address at most; 0: no limit */
	bool forwarded;             /* a proxy on this machine names the client in X-Forwarded-For */
	int idle_seconds;           /* until a silent connection is closed */
	int header_seconds;         /* time limit for a request's headers */
	int body_seconds;           /* until a request's body must be there */
	bool report_speculation;    /* answers have vLLM's metrics.speculative_decoding */
	bool log_requests;          /* method, route, status and seconds, on standard error; never text */
	struct scheduler_options
	    work; /* responses that the server makes itself (prompts, metrics, events) are left open */
};

struct server;
/* Opens the port and begins to serve. All arguments must outlive the server. NULL with the error set. */
struct server* server_open(const struct server_options*, struct model*, swiftlet_engine*, struct error*);
int server_port(const struct server*);
/* True when a host is only this machine: "localhost", ::1, or an address in 127.0.0.0/8, and not a name that
 * begins like one. */
bool server_is_loopback(const char* host);
/* Refuses new requests, finishes running ones for at most `grace` seconds, and closes. */
void server_close(struct server*, double grace);
