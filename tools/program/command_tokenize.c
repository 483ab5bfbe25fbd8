/* swiftlet tokenize: text to ids and back. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "streams/chat_shape.h"
#include "streams/text.h"
#include "tools/program/command.h"
#include "tools/program/options.h"
#include "tools/program/runtime.h"

struct tokenize {
	const char* model;
	const char* text;
	const char* file;
	const char *messages, *chat_template, *tools, *documents, *variables;
	bool decode, add_special, no_special, json, as_text, no_generation_prompt;
};

static void print_ids(const struct token_list* list, bool json) {
	if (json)
		fputs("{\"tokens\": [", stdout);
	for (int i = 0; i < list->n; i++)
		printf("%s%" PRId32, i == 0 ? "" : json ? ", " : " ", list->id[i]);
	puts(json ? "]}" : "");
}

static bool encode_text(const struct tokenize* t, const struct tokenizer* tokenizer, const char* text,
                        size_t size, struct token_list* list, struct error* error) {
	const int flags = (t->add_special ? TOKENIZE_ADD_SPECIAL : 0) | (t->no_special ? TOKENIZE_NO_SPECIAL : 0);
	return tokenizer_encode(tokenizer, text, size, flags, list) ||
	       error_set(error, "out of memory for a text of %zu bytes", size);
}

/* Reads ids between white space, commas and brackets; {"tokens": …} too. */
static bool read_ids(const char* text, size_t size, int vocab, struct token_list* list, struct error* error) {
	const char* const end = text + size;
	const char* const member = "\"tokens\"";
	for (const char* at = text; at < end;) {
		if (*at && strchr(" \t\r\n,[]{}:", *at)) {
			at++;
		} else if ((size_t)(end - at) >= strlen(member) && memcmp(at, member, strlen(member)) == 0) {
			at += strlen(member);
		} else {
			int64_t id = 0;
			const char* const start = at;
			for (; at < end && isdigit((unsigned char)*at) && id < vocab; at++)
				id = 10 * id + (*at - '0');
			if (at == start || id >= vocab)
				return error_set(error, "--decode: \"%.20s\" is not an id, expected numbers from 0 to %d",
				                 start, vocab - 1);
			if (!token_list_append(list, (int32_t)id))
				return error_set(error, "out of memory");
		}
	}
	return true;
}

static bool decode_ids(const struct tokenize* t, const struct tokenizer* tokenizer, const char* text,
                       size_t size, struct error* error) {
	struct token_list list = {0};
	bool good = read_ids(text, size, tokenizer_size(tokenizer), &list, error);
	size_t decoded_size = 0;
	char* const decoded =
	    good ? tokenizer_decode(tokenizer, list.id, list.n, !t->no_special, true, &decoded_size) : NULL;
	if (good && !decoded)
		good = error_set(error, "out of memory");
	struct text line = {0};
	if (good && t->json)
		text_json(&line, "{'text': %Q}\n", decoded, decoded_size);
	if (line.failed)
		good = error_set(error, "out of memory");
	if (good && t->json)
		fwrite(line.data, 1, line.size, stdout);
	else if (good)
		fwrite(decoded, 1, decoded_size, stdout);
	text_free(&line);
	free(decoded);
	token_list_free(&list);
	return good;
}

/* ---- chats ---------------------------------------------------------------------------------- */

/* Every JSON text that was given. */
static bool check_given(const struct tokenize* t, const struct chat_json* messages, struct error* error) {
	const struct {
		const char *option, *text;
		char first;
	} given[] = {{"--tools", t->tools, '['},
	             {"--documents", t->documents, '['},
	             {"--chat-template-kwargs", t->variables, '{'}};
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		if (given[i].text &&
		    !check_json(given[i].option, given[i].text, strlen(given[i].text), given[i].first, error))
			return false;
	return check_json("--messages", messages->text, messages->size, '[', error);
}

/* Prints the prompt that the chat template makes of messages: its ids, or with --text its text. */
static bool encode_chat(const struct tokenize* t, const struct model* model, const char* text, size_t size,
                        struct token_list* list, struct error* error) {
	const struct chat_request request = {.messages = {text, size},
	                                     .tools = chat_json(t->tools),
	                                     .documents = chat_json(t->documents),
	                                     .variables = chat_json(t->variables),
	                                     .no_generation_prompt = t->no_generation_prompt};
	const char* const template_text = model_chat_template(model, t->tools != NULL);
	if (!check_given(t, &request.messages, error))
		return false;
	if (t->as_text) {
		size_t n = 0;
		char* const prompt = chat_template_text(template_text, model->tokenizer, &request, &n, error);
		if (prompt)
			fwrite(prompt, 1, n, stdout);
		free(prompt);
		return prompt != NULL;
	}
	return chat_template_encode(template_text, model->tokenizer, &request, list, error);
}

/* ---- one text ------------------------------------------------------------------------------- */

static bool tokenize_input(const struct tokenize* t, struct model* model, const char* text, size_t size,
                           struct error* error) {
	if (t->chat_template && !model_take_template(model, t->chat_template, error))
		return false;
	if (t->decode && !t->messages)
		return decode_ids(t, model->tokenizer, text, size, error);
	struct token_list list = {0};
	const bool good = t->messages ? encode_chat(t, model, text, size, &list, error)
	                              : encode_text(t, model->tokenizer, text, size, &list, error);
	if (good && !(t->messages && t->as_text))
		print_ids(&list, t->json);
	token_list_free(&list);
	return good;
}

static int tokenize_text(const struct tokenize* t, const char* text, size_t size) {
	struct error error = {{0}};
	const struct model_options options = {.vocabulary_only = true};
	struct model* const model = model_open(t->model, &options, &error);
	if (!model)
		return complain(STATUS_FAILED, "%s", error.message);
	const bool good = tokenize_input(t, model, text, size, &error);
	model_close(model);
	return good ? output_written(STATUS_DONE) : complain(STATUS_FAILED, "%s", error.message);
}

int command_tokenize(int argc, char** argv) {
	struct tokenize t = {0};
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL",
	         "the model whose tokenizer is used (builtin); a GGUF file with only a vocabulary is enough",
	         &t.model),
	    TEXT("prompt", 'p', "TEXT", "the text, or with --decode the ids", &t.text),
	    TEXT("file", 'f', "FILE", "read it from a file, byte for byte (-: standard input)", &t.file),
	    FLAG("decode", "turn ids into text", &t.decode),
	    FLAG("add-special", "add BOS and EOS as the model does", &t.add_special),
	    FLAG("no-special",
	         "read special tokens that are written in the text as plain text; with --decode, "
	         "leave them out",
	         &t.no_special),
	    FLAG("json", "print {\"tokens\": [...]}, with --decode {\"text\": \"...\"}", &t.json),
	    TEXT("messages", 0, "JSON",
	         "put a chat's messages through the chat template; @FILE reads them from a "
	         "file (@-: standard input)",
	         &t.messages),
	    FLAG("text", "with --messages: print the prompt's text, not its ids", &t.as_text),
	    TEXT("tools", 0, "JSON", "with --messages: a list of tools", &t.tools),
	    TEXT("documents", 0, "JSON", "with --messages: a list of documents", &t.documents),
	    TEXT("chat-template-kwargs", 0, "JSON", "with --messages: an object with the template's variables",
	         &t.variables),
	    FLAG("no-generation-prompt", "with --messages: end with the last message", &t.no_generation_prompt),
	    TEMPLATE_OPTION(&t.chat_template),
	};
	struct command_line line = {
	    .name = "tokenize",
	    .usage = "[MODEL] (\"TEXT\" | -f FILE | --messages JSON) [options]",
	    .about = "Prints the ids of a text on one line, or the text of ids. The text may be empty.",
	    .examples = "  swiftlet tokenize smollm2-135m \"Hello, world\"\n"
	                "  swiftlet tokenize model.gguf -f notes.txt --json\n"
	                "  swiftlet tokenize model.gguf --decode \"1 2 3\"\n"
	                "  swiftlet tokenize model.gguf --text \\\n"
	                "    --messages '[{\"role\": \"user\", \"content\": \"Hello\"}]'",
	    OPTIONS(option),
	    .max_words = 3,
	};
	int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	const int first = t.model ? 0 : 1; /* the word that is the text */
	if (line.n_words > first + 1)
		return complain(STATUS_USAGE, "tokenize: \"%s\" was not expected: quote a text of several words",
		                line.word[first + 1]);
	if (line.n_words > first && t.text)
		return complain(STATUS_USAGE, "tokenize: the text is given twice, \"%s\" and by -p",
		                line.word[first]);
	if (line.n_words > first)
		t.text = line.word[first];
	if (!t.model)
		t.model = line.n_words > 0 ? line.word[0] : "builtin";
	const int given = (t.text != NULL) + (t.file != NULL) + (t.messages != NULL);
	if (given != 1)
		return complain(STATUS_USAGE, "tokenize: %s (swiftlet tokenize --help)",
		                given ? "two of TEXT, -f and --messages were given"
		                      : "no text: swiftlet tokenize MODEL \"TEXT\", or -f FILE or --messages JSON");
	if (t.messages && *t.messages == '@')
		t.file = t.messages + 1;
	else if (t.messages)
		t.text = t.messages;
	struct error error = {{0}};
	size_t size = t.text ? strlen(t.text) : 0;
	char* const file_text = t.text ? NULL : read_whole(t.file, &size, &error);
	if (!t.text && !file_text)
		return complain(STATUS_FAILED, "%s", error.message);
	status = tokenize_text(&t, t.text ? t.text : file_text, size);
	free(file_text);
	return status;
}
