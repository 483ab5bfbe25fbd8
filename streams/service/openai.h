/* A request for OpenAI's completions or chat completions.
 *
 * The readers take a body and give a request with OpenAI's defaults filled in (an omitted temperature is
 * 1, max_tokens of a completion 16, of a chat whatever the context leaves; the model is the one that is
 * served), or a 400 that names the field. A field OpenAI has and we have not is accepted at the value that
 * changes nothing and refused at any other, where it would change the answer; a field that nobody knows is
 * ignored, and named in `ignored`. null is as if a field were not there. */
#ifndef SWIFTLET_STREAMS_SERVICE_OPENAI_H
#define SWIFTLET_STREAMS_SERVICE_OPENAI_H

#include "core/decode/options.h"
#include "streams/chat_parts.h"
#include "streams/service/api_json.h"

enum {
	API_MAX_STOPS = 16,
	API_MAX_STOP_BYTES = 256,
	API_MAX_CHOICES = 2048, /* prompts times n */
	API_MAX_N = 128,
	API_MAX_TASK = 127,
	API_MAX_TOP = 20,
	API_MAX_BIASES = 300
};

struct api_prompt { /* text, or ids where id is not NULL */
	char* text;
	size_t text_size;
	int32_t* id; /* (n) */
	int n;
};

struct api_request {
	bool chat;
	char* model;               /* NULL: the one there is */
	struct api_prompt* prompt; /* (n_prompts) completions */
	int n_prompts;
	struct chat_parts parts; /* chat */
	/* whether the answer may, or must, call one of parts.tools; without any it is TOOLS_NONE */
	enum { TOOLS_NONE, TOOLS_AUTO, TOOLS_REQUIRED } tool_choice;
	char* tool_name;       /* TOOLS_REQUIRED: this one, NULL any */
	bool legacy_functions; /* they came as `functions`: the call is answered as function_call */
	bool one_tool_call, parallel_tool_calls; /* at most one; several are asked for */
	/* Its numbers; max_tokens 0: what the context leaves. What it points to is below and the generation's. */
	struct swiftlet_request ask;
	struct swiftlet_bias* bias; /* (n_bias) by ascending token */
	int n_bias;
	int n; /* choices a prompt */
	bool stream, include_usage, continuous_usage, echo;
	bool has_temperature, has_top_p, has_top_k, has_min_p; /* else the server's */
	bool prompt_only;  /* max_tokens was 0: a token is computed, and not sent */
	bool include_stop; /* a stop string that ended the text is part of it */
	bool token_ids;    /* the answer has those of prompt and output */
	bool logprobs;     /* wanted at all */
	int top_logprobs;
	bool has_seed;
	char* stop[API_MAX_STOPS];
	int n_stop;
	int32_t end_token[SWIFTLET_END_TOKENS]; /* that end the answer too */
	char* task;                             /* metadata.task, or NULL */
	struct grammar* grammar;                /* that the answer has to keep, or NULL */
	char* prediction;                       /* a text that the output is expected to follow, or NULL */
	int dimensions;                         /* of a vector, at most; 0: all */
	bool embedding, base64; /* the prompts' vectors, and how they are written, instead of texts */
	char* form;             /* the grammar's JSON schema, "": any object; NULL: it is of another kind */
	char* extra_files;      /* of /infill: [{"filename", "text"}, …], JSON; or NULL */
	char* suffix;           /* the text is to go between the prompt and this; NULL: none */
	char* custom_tools; /* functions that stand for tools of free text, names with a blank between; or NULL */
	char* allowed_tools; /* those of parts.tools that may be called, JSON; NULL: all */
	struct text ignored; /* fields that nobody read, with a comma between */
	char* echoed;        /* members that the answer repeats, each as `, "name": value`; or NULL */
};

/* False with the error; the request is then empty. Free in any case. vocab: ids of a prompt or of logit_bias
 * given as numbers lie below it. */
bool api_read_completion(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool api_read_chat(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
void api_request_free(struct api_request*);
/* Adds a field, a member of `within` ("stream_options."), to those that are ignored; null is none. */
void api_ignore(struct text* ignored, const char* within, const cJSON* field);
void api_ignore_name(struct text* ignored, const char* within, const char* name);

#endif
