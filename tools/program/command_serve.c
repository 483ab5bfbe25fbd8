/* swiftlet serve: the HTTP service, until SIGTERM or Ctrl-C. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/decode/engine.h"
#include "streams/service/server.h"
#include "tools/program/command.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"

struct serve {
	struct runtime runtime;
	struct server_options option;
	int prompt_mib, grace;
	const char* speculation;
	struct text_list cors, alias;
	struct server* server;
};

static bool open_server(struct serve* s, struct error* e) {
	struct runtime* const r = &s->runtime;
	struct server_options* o = &s->option;
	if (!runtime_open_engine(r, e) || !runtime_open_memory(r, e))
		return false;
	if (o->work.sessions == 0)
		o->work.sessions = r->engine->backend->adopt ? 32 : 4;
	o->prompt_cache_bytes = (int64_t)s->prompt_mib << 20;
	o->tell_speculation = s->speculation && strcmp(s->speculation, "summary") == 0;
	o->cors = s->cors.text;
	o->n_cors = s->cors.n;
	o->alias = s->alias.text;
	o->n_aliases = s->alias.n;
	o->work.session = r->options;
	o->work.model_name = r->name;
	o->work.memory = r->memory;
	s->server = server_open(o, r->model, r->engine, e);
	return s->server != NULL;
}

static void say_ready(const struct serve* s) {
	const struct runtime* const r = &s->runtime;
	const char* open = strchr(s->option.host, ':') ? "[" : "";
	printf("swiftlet serves %s on %s at http://%s%s%s:%d/\n", r->name, swiftlet_engine_name(r->engine), open,
	       s->option.host, *open ? "]" : "", server_port(s->server));
	if (r->memory && memory_store(r->memory))
		printf("masks are kept in %s\n", store_path(memory_store(r->memory)));
	fflush(stdout);
	report_draft_weights(r, false);
}

/* A handler and a glance now and then, not sigwait: libraries have threads of their own, which do not
 * block what we block. */
static void wait_for_end(void) {
	while (!interrupted())
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static int run_server(struct serve* s) {
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a store that may not grow is reported; the server goes on */
	interrupt_watch();
	struct error e = {{0}};
	int status = STATUS_DONE;
	s->runtime.wish.shared = true;
	if (open_server(s, &e)) {
		say_ready(s);
		wait_for_end();
	} else {
		status = complain(STATUS_FAILED, "%s", e.message);
	}
	server_close(s->server, (double)s->grace);
	return runtime_close(&s->runtime, status);
}

int command_serve(int argc, char** argv) {
	struct serve s = {.option = {.host = "127.0.0.1",
	                             .port = 8080,
	                             .version = SWIFTLET_VERSION,
	                             .address_connections = 128,
	                             .idle_seconds = 60,
	                             .header_seconds = 10,
	                             .body_seconds = 60,
	                             .work = {.queue = 64}},
	                  .prompt_mib = 1024,
	                  .grace = 10};
	const struct command_option option[] = {
	    TEXT("host", 0, "ADDRESS",
	         "where to listen (127.0.0.1); any but this machine's own\nneeds --api-key-file", &s.option.host),
	    COUNT("port", 0, "N", "8080; 0 takes a free one and prints it", &s.option.port, 0, 65535),
	    COUNT("sessions", 0, "N", "sequences at once at most (32; 4 where processes share the model)",
	          &s.option.work.sessions, 1, 256),
	    COUNT("queue", 0, "N", "generations that may wait (64), then 503", &s.option.work.queue, 1, 65536),
	    COUNT("prefill-chunk", 0, "N",
	          "tokens of waiting prompts that are computed between two tokens of\n"
	          "the others (0: as many as cost eight plain steps, 32 to 256)",
	          &s.option.work.prefill_chunk, 0, PREFILL_CHUNK),
	    COUNT("grace", 0, "SECONDS", "after SIGTERM, for what runs (10)", &s.grace, 0, 86400),
	    COUNT("rate", 0, "N", "requests a minute and client (0: unlimited)", &s.option.rate, 0, 1000000),
	    COUNT(
	        "address-connections", 0, "N",
	        "connections of one address at most, of 512 in all; this machine's\nown are not counted (128; 0: "
	        "any number)",
	        &s.option.address_connections, 0, 512),
	    COUNT("idle", 0, "SECONDS", "until a silent connection is closed (60)", &s.option.idle_seconds, 1,
	          3600),
	    COUNT("header-seconds", 0, "SECONDS", "until all of a request's headers must be there (10)",
	          &s.option.header_seconds, 1, 3600),
	    FLAG("share-prefixes",
	         "keys share the cached prefixes of prompts: faster where they\n"
	         "have a system prompt in common, but each can find out what others sent",
	         &s.option.work.share_prefixes),
	    TEXT("prompt-cache", 0, "DIR",
	         "keep prefixes of prompts that came more than once on disk, by\n"
	         "key: a long system prompt survives a restart (off)",
	         &s.option.prompt_cache),
	    COUNT("prompt-cache-size", 0, "MIB", "of all its files at most (1024)", &s.prompt_mib, 1, 1 << 20),
	    COUNT("body-seconds", 0, "SECONDS", "until a request's body must be there, else 408 (60)",
	          &s.option.body_seconds, 1, 3600),
	    TEXT("api-key-file", 0, "FILE",
	         "keys, one a line; asked of every request but /health and /ready.\n"
	         "Behind a key: group=NAME (keys of one tenant), admin (may change masks\n"
	         "and read the metrics of all; where there is one tenant, all may)",
	         &s.option.key_file),
	    LIST("cors", 0, "ORIGIN",
	         "let pages of this origin call: https://app.example.com, localhost\n(this machine's, by any "
	         "port), * "
	         "(all); may be repeated (none)",
	         &s.cors),
	    TEXT("store", 0, "FILE|URL",
	         "what is learned: a file (~/.local/state/swiftlet/masks.db), or\n"
	         "postgresql://USER@HOST/DATABASE, which any number of replicas\n"
	         "share: what one learns all draft with; no request waits for it",
	         &s.runtime.wish.store),
	    FLAG("no-store", "keep nothing on disk", &s.runtime.wish.no_store),
	    TEXT("per-request-spec-decode-metrics", 0, "none|summary",
	         "summary: answers report speculative decoding in vLLM's\nfield "
	         "metrics.speculative_decoding (none)",
	         &s.speculation),
	    FLAG("log-requests", "method, path, status and seconds on standard error;\nnever text",
	         &s.option.log_requests),
	    MODEL_OPTION(s.runtime.wish),
	    TEMPLATE_OPTION(&s.runtime.wish.chat_template),
	    LIST("alias", 0, "NAME", "the model's name for clients; may be repeated: the first is told",
	         &s.alias),
	    FLAG("strict-model", "refuse requests that name another model (any name is served)",
	         &s.option.strict_model),
	    FLAG("strict-fields",
	         "refuse requests with fields that nobody knows (they are ignored, each\nnamed once in the log, "
	         "and in the "
	         "header Swiftlet-Ignored-Fields)",
	         &s.option.strict_fields),
	};
	struct command_line line = {
	    .name = "serve",
	    .usage = "[-m MODEL] [--host ADDRESS] [--port N] [--store FILE] [options]",
	    .about =
	        "Serves OpenAI's /v1/chat/completions, /v1/completions, /v1/responses and /v1/embeddings,\n"
	        "Anthropic's /v1/messages, Ollama's /api/chat, /api/generate, /api/embed, /api/tags and\n"
	        "/api/show, llama.cpp's /infill and /props, and a page at / to watch it learn. Also: /tokenize,\n"
	        "/detokenize, /tokenizer_info, /version, /v1/models, /health, /ready, /metrics,\n"
	        "/v1/swiftlet/state, /v1/swiftlet/masks and /v1/swiftlet/optimizer (the layer-set search for a\n"
	        "model that runs elsewhere).",
	    .examples = "  swiftlet serve --port 8080\n"
	                "  swiftlet serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
	                "  swiftlet serve --store postgresql://swiftlet@db.internal/swiftlet\n"
	                "  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n"
	                "    -d '{\"model\": \"builtin\", \"prompt\": \"Once\", \"max_tokens\": 32}'",
	    OPTIONS(option),
	    .session = &s.runtime.options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &s.runtime.wish.model);
	s.runtime.wish.alias = s.alias.n ? s.alias.text[0] : NULL;
	if (status == OPTIONS_GO_ON && s.speculation && strcmp(s.speculation, "none") != 0 &&
	    strcmp(s.speculation, "summary") != 0)
		status =
		    complain(STATUS_USAGE, "serve: --per-request-spec-decode-metrics %s: expected none or summary",
		             s.speculation);
	return status == OPTIONS_GO_ON ? run_server(&s) : status;
}
