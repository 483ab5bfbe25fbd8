/* swiftlet serve: runs the HTTP service until SIGTERM or Ctrl-C. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/decode/engine.h"
#include "streams/service/server.h"
#include "tools/program/command.h"
#include "tools/program/config_file.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"

struct serve {
	struct runtime runtime;
	struct server_options option;
	int prompt_mib, grace;
	const char *speculation, *config;
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
	o->report_speculation = s->speculation && strcmp(s->speculation, "summary") == 0;
	o->cors = s->cors.text;
	o->n_cors = s->cors.n;
	o->alias = s->alias.text + (s->alias.n > 0); /* the first is the name */
	o->n_aliases = s->alias.n - (s->alias.n > 0);
	o->work.session = r->options;
	o->work.model_name = r->name;
	o->work.memory = r->memory;
	s->server = server_open(o, r->model, r->engine, e);
	return s->server != NULL;
}

static void report_ready(const struct serve* s) {
	const struct runtime* const r = &s->runtime;
	const char* open = strchr(s->option.host, ':') ? "[" : "";
	printf("swiftlet serves %s on %s at http://%s%s%s:%d/\n", r->name, swiftlet_engine_name(r->engine), open,
	       s->option.host, *open ? "]" : "", server_port(s->server));
	puts("a browser shows a page to chat on there; the base URL for OpenAI's clients ends in /v1");
	printf("requests have a context of %d tokens; their KV caches share %.0f MiB\n",
	       options_context(&r->options, r->model), r->options.cache.memory / 0x1p20);
	if (r->memory && memory_store(r->memory))
		printf("masks are kept in %s\n", store_path(memory_store(r->memory)));
	fflush(stdout);
	report_draft_weights(r, false);
}

/* A handler and a check now and then, instead of sigwait: threads of libraries do not block the signals that
 * we block. */
static void wait_for_end(void) {
	while (!interrupted())
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static int run_server(struct serve* s) {
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a store that cannot grow is logged, and the server goes on */
	interrupt_watch();
	struct error e = {{0}};
	int status = STATUS_DONE;
	s->runtime.wish.shared = true;
	if (open_server(s, &e)) {
		report_ready(s);
		wait_for_end();
	} else {
		status = complain(STATUS_FAILED, "%s", e.message);
	}
	server_close(s->server, (double)s->grace);
	return runtime_close(&s->runtime, status);
}

/* True when the option was given; its value may equal the default. */
static bool is_given(int argc, char** argv, const char* name, const char* letter) {
	bool given = false;
	for (int i = 1; i < argc; i++)
		given |= strncmp(argv[i], name, strlen(name)) == 0 || (letter && strncmp(argv[i], letter, 2) == 0);
	return given;
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
	         "listen on this address (127.0.0.1); an address that other machines can reach needs a key",
	         &s.option.host),
	    COUNT("port", 0, "N", "listen on this port; 0 takes a free one", &s.option.port, 0, 65535),
	    TEXT("api-key", 0, "KEY", "ask clients for this key; other users of this machine can see it",
	         &s.option.key),
	    TEXT("api-key-file", 0, "FILE",
	         "ask clients for a key of this file, one a line; group=NAME (one tenant) and admin may follow a "
	         "key",
	         &s.option.key_file),
	    LIST("alias", 0, "NAME", "a name of the model for clients; may be repeated", &s.alias),
	    COUNT("sessions", 0, "N", "requests at once (32; 4 over several processes)", &s.option.work.sessions,
	          1, 256),
	    TEXT("store", 0, "FILE|URL",
	         "keep what is learned in this file (~/.local/state/swiftlet/masks.db), or in "
	         "postgresql://USER@HOST/DATABASE, which replicas share",
	         &s.runtime.wish.store),
	    FLAG("no-store", "keep nothing on disk", &s.runtime.wish.no_store),
	    FLAG("log-requests", "log each request on standard error", &s.option.log_requests),
	    TEXT("config", 0, "FILE", "read options from a file, one a line: port = 8081", &s.config),
	    MODEL_OPTION(s.runtime.wish),
	    MORE_OPTIONS,
	    COUNT("queue", 0, "N", "let at most this many requests wait; further ones get status 503",
	          &s.option.work.queue, 1, 65536),
	    COUNT("prefill-chunk", 0, "N",
	          "how many tokens of a waiting prompt are computed between two tokens of the other requests (0: "
	          "as many as cost eight plain steps, 32 to 256)",
	          &s.option.work.prefill_chunk, 0, PREFILL_CHUNK),
	    FLAG("share-prefixes",
	         "let tenants share the cached prefixes of their prompts: faster with "
	         "one system prompt, but each can find out what others sent",
	         &s.option.work.share_prefixes),
	    TEXT("prompt-cache", 0, "DIR",
	         "keep prefixes that were sent more than once in this folder, separately for each tenant: a long "
	         "system prompt survives a restart (off)",
	         &s.option.prompt_cache),
	    COUNT("prompt-cache-size", 0, "MIB", "limit for the size of all files in that folder", &s.prompt_mib,
	          1, 1 << 20),
	    COUNT("rate", 0, "N", "answer at most this many requests a minute from one client (0: no limit)",
	          &s.option.rate, 0, 1000000),
	    COUNT("address-connections", 0, "N",
	          "accept at most this many of the 512 connections from one other machine; 0: no limit",
	          &s.option.address_connections, 0, 512),
	    FLAG("forwarded",
	         "behind a proxy on this machine: count clients by the address that it adds to X-Forwarded-For",
	         &s.option.forwarded),
	    COUNT("header-seconds", 0, "SECONDS", "seconds that a client has to send a request's headers",
	          &s.option.header_seconds, 1, 3600),
	    COUNT("body-seconds", 0, "SECONDS", "seconds that a client has to send a request's body",
	          &s.option.body_seconds, 1, 3600),
	    COUNT("idle", 0, "SECONDS", "close a connection after this many seconds of silence",
	          &s.option.idle_seconds, 1, 3600),
	    COUNT("grace", 0, "SECONDS", "seconds that running requests have to finish after SIGTERM", &s.grace,
	          0, 86400),
	    LIST("cors", 0, "ORIGIN",
	         "let web pages of this origin call the service: https://app.example.com, localhost (this "
	         "machine, any port) or * (all); may be repeated (none)",
	         &s.cors),
	    FLAG("literal-schemas",
	         "let answers use all that a JSON schema leaves open: members that it neither names nor forbids, "
	         "any type where it gives none, any text under an unknown format (by default they do not)",
	         &s.option.literal_schemas),
	    FLAG("strict-model",
	         "refuse requests that name another model (without the option any name is served)",
	         &s.option.strict_model),
	    FLAG("strict-fields",
	         "refuse requests with unknown fields (without the option unknown fields are ignored, and named "
	         "in the log and in the header Swiftlet-Ignored-Fields)",
	         &s.option.strict_fields),
	    TEXT("per-request-spec-decode-metrics", 0, "none|summary",
	         "add vLLM's field metrics.speculative_decoding to answers (none)", &s.speculation),
	    TEMPLATE_OPTION(&s.runtime.wish.chat_template),
	    TEXT("chat-template-kwargs", 0, "JSON",
	         "variables of the chat template, such as {\"enable_thinking\": false}, where a request gives "
	         "none",
	         &s.option.variables),
	};
	struct command_line line = {
	    .name = "serve",
	    .usage = "MODEL [--host ADDRESS] [--port N] [options]",
	    .about =
	        "Serves the HTTP interfaces of OpenAI, Anthropic and Ollama, and a page at / to chat on, which\n"
	        "also shows the engine at work.",
	    .details =
	        "Paths\n"
	        "  /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings    OpenAI's\n"
	        "  /v1/messages, /v1/messages/count_tokens                                 Anthropic's\n"
	        "  /api/chat, /api/generate, /api/embed, /api/tags, /api/show              Ollama's\n"
	        "  /infill, /props                                                         llama.cpp's\n"
	        "  /tokenize, /detokenize, /tokenizer_info, /version, /v1/models           as vLLM has them\n"
	        "  /health, /ready, /metrics                                               for operators\n"
	        "  /v1/swiftlet/state, /v1/swiftlet/masks, /v1/swiftlet/optimizer          swiftlet's own\n"
	        "Fields of a request that cannot change the answer here are ignored. Unknown fields are "
	        "ignored,\n"
	        "too, and named in the header Swiftlet-Ignored-Fields (--strict-fields refuses them).",
	    .examples = "  swiftlet serve smollm2-135m\n"
	                "  swiftlet serve model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
	                "  curl http://127.0.0.1:8080/v1/chat/completions \\\n"
	                "    -H 'Content-Type: application/json' \\\n"
	                "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'",
	    OPTIONS(option),
	    .session = &s.runtime.options,
	    .without = "Sampling",
	    .max_words = 1,
	};
	struct config_file file;
	int status = config_file_open(&file, &line, argc, argv);
	if (status == OPTIONS_GO_ON)
		status = options_parse_model(&line, file.n_words, file.word, &s.runtime.wish.model);
	s.option.has_temperature = is_given(file.n_words, file.word, "--temp", "-T");
	s.option.has_seed = is_given(file.n_words, file.word, "--seed", NULL);
	s.runtime.wish.alias = s.alias.n ? s.alias.text[0] : NULL;
	if (status == OPTIONS_GO_ON && s.speculation && strcmp(s.speculation, "none") != 0 &&
	    strcmp(s.speculation, "summary") != 0)
		status =
		    complain(STATUS_USAGE, "serve: --per-request-spec-decode-metrics %s: expected none or summary",
		             s.speculation);
	status = status == OPTIONS_GO_ON ? run_server(&s) : status;
	config_file_close(&file);
	return status;
}
