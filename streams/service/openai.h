/* A request for OpenAI's completions or chat completions.
 *
 * The readers take a body and give a request with OpenAI's defaults filled in (temperature 1, max_tokens 16
 * for a completion and the rest of the context for a chat; the model that is served), or a 400 that names the
 * field. A field of OpenAI that is not supported and would change the answer is accepted only with the value
 * that changes nothing. Unknown fields are ignored and listed in `ignored`. null counts as absent. */
#pragma once

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
	API_MAX_SHOWN = 64, /* paths of response_fields */
	API_MAX_BIASES = API_MAX_NUMBERS,
	API_MAX_GUIDED = 1 << 16 /* strings of guided_choice */
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
	/* whether the answer may or must call one of parts.tools; TOOLS_NONE without tools */
	enum { TOOLS_NONE, TOOLS_AUTO, TOOLS_REQUIRED } tool_choice;
	char* tool_name;       /* TOOLS_REQUIRED: this one, NULL any */
	bool legacy_functions; /* they came as `functions`, so the call is answered as function_call */
	bool one_tool_call, parallel_tool_calls; /* at most one; several are asked for */
	/* The sampling numbers; max_tokens 0: the rest of the context. Its pointers lead to the fields below and
	 * to the generation's. */
	struct swiftlet_request ask;
	struct swiftlet_bias* bias; /* (n_bias) by ascending token */
	int n_bias;
	int n; /* choices a prompt */
	bool stream, include_usage, continuous_usage, echo;
	bool has_temperature, has_top_p, has_top_k, has_min_p; /* else the server's */
	bool prompt_only;  /* max_tokens was 0: one token is computed, but not sent */
	bool include_stop; /* a stop string that ended the text stays in it */
	bool token_ids;    /* the answer has the token ids of prompt and output */
	bool logprobs;     /* wanted at all */
	bool with_ids;     /* log probabilities name the ids of their tokens, as llama-server's do */
	int top_logprobs;
	bool has_seed;
	char* stop[API_MAX_STOPS];
	int n_stop;
	int32_t end_token[SWIFTLET_END_TOKENS]; /* that end the answer too */
	char* task;                             /* metadata.task, or NULL */
	struct grammar* grammar;                /* that the answer has to keep, or NULL */
	char* prediction;                       /* a text that the output is likely to follow, or NULL */
	int dimensions;                         /* of a vector, at most; 0: all */
	bool embedding, base64; /* the answer is the prompts' vectors in this encoding, not text */
	char* schema;           /* the grammar's JSON schema, "": any object; NULL: another kind of grammar */
	char* extra_files;      /* of /infill: [{"filename", "text"}, …], JSON; or NULL */
	char* shown_fields;    /* of /infill and /completion: the answer's paths that are sent, JSON; NULL: all */
	int least_indent;      /* the answer ends at a line that is indented less; 0: at none */
	int line_milliseconds; /* the answer ends after this time, if it has a line feed; 0: it goes on */
	char* suffix;          /* the text goes between the prompt and this suffix; NULL: none */
	char* custom_tools;  /* names of functions that stand for tools with free text, blanks between; or NULL */
	char* allowed_tools; /* the parts.tools that may be called, as JSON; NULL: all */
	bool literal_schemas;  /* set before reading: see grammar_from_json_schema */
	const char* variables; /* set before reading: the template's, where the request gives none; or NULL */
	struct text ignored;   /* unknown fields, separated by commas */
	char* echoed;          /* members that the answer repeats, each as `, "name": value`; or NULL */
};

/* False with the error set; the request is then empty. Free in any case. The request is zeroed before, but
 * for literal_schemas and variables. vocab: token ids in a prompt or in logit_bias must lie below it. */
bool api_read_completion(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool api_read_chat(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
void api_request_free(struct api_request*);
/* Adds a field, a member of `within` ("stream_options."), to the ignored ones, unless it is null. */
void api_ignore(struct text* ignored, const char* within, const cJSON* field);
void api_ignore_name(struct text* ignored, const char* within, const char* name);
