/* Chat prompts: recognise the template, let its family write the prompt, encode it. */
#include "core/text/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "core/text/chat_families.h"

static const struct chat_family* recognise(const char* template_text, struct error* error) {
	const struct chat_family* family = template_text ? chat_family_of(template_text) : NULL;
	if (!template_text)
		error_set(error,
		          "the model has no chat_template; give the whole prompt with -p, or put the template of a "
		          "known family in tokenizer_config.json");
	else if (!family)
		error_set(
		    error,
		    "the model's chat_template (\"%.60s...\") is of no known family; give the whole prompt with "
		    "-p, or put the template of a known family in tokenizer_config.json",
		    template_text);
	return family;
}

const char* chat_template_recognise(const char* template_text, struct error* error) {
	const struct chat_family* family = recognise(template_text, error);
	return family ? family->name : NULL;
}

static void start(struct chat_prompt* p, const char* template_text, const struct tokenizer* t) {
	*p = (struct chat_prompt){.bos = "", .eos = "", .template_text = template_text};
	int32_t bos = tokenizer_bos(t), eos = tokenizer_eos(t);
	if (bos >= 0 && bos < t->vocabulary.n) {
		p->bos = vocabulary_text(&t->vocabulary, bos);
		p->bos_size = t->vocabulary.piece[bos].text_size;
	}
	if (eos >= 0 && eos < t->vocabulary.n) {
		p->eos = vocabulary_text(&t->vocabulary, eos);
		p->eos_size = t->vocabulary.piece[eos].text_size;
	}
}

static void end(struct chat_prompt* p) {
	buffer_free(&p->text);
	free(p->content);
}

static bool render(struct chat_prompt* p, const char* template_text, const struct tokenizer* t,
                   const struct chat_message* messages, int n, struct error* error) {
	const struct chat_family* family = recognise(template_text, error);
	*p = (struct chat_prompt){0};
	if (!family)
		return false;
	if (n < 1)
		return error_set(error, "the conversation has no messages, expected at least one");
	start(p, template_text, t);
	family->render(p, messages, n);
	if (p->refused)
		return error_set(error, "the model's chat_template (%s) does not take this conversation: %s",
		                 family->name, p->refused);
	return p->text.failed ? error_set(error, "no memory for a chat prompt") : true;
}

char* chat_template_text(const char* template_text, const struct tokenizer* t,
                         const struct chat_message* messages, int n, size_t* size, struct error* error) {
	struct chat_prompt p;
	char* text = NULL;
	if (render(&p, template_text, t, messages, n, error)) {
		*size = p.text.size;
		buffer_add(&p.text, "", 1);
		text = p.text.failed ? NULL : p.text.data;
		if (text)
			p.text = (struct buffer){0};
		else
			error_set(error, "no memory for a chat prompt");
	}
	end(&p);
	return text;
}

/* The built-in model's template names no special tokens, and the model saw its texts begin with BOS. */
static bool wants_bos(const char* template_text, const struct tokenizer* t) {
	return tokenizer_adds_bos(t) && strcmp(chat_family_of(template_text)->name, "question-answer") == 0;
}

bool chat_template_encode(const char* template_text, const struct tokenizer* t,
                          const struct chat_message* messages, int n, struct token_list* out,
                          struct error* error) {
	struct chat_prompt p;
	bool good = render(&p, template_text, t, messages, n, error);
	if (good) {
		struct plain_ranges contents = {.range = p.content, .n = p.n_content};
		good = (!wants_bos(template_text, t) || token_list_append(out, tokenizer_bos(t))) &&
		       tokenizer_encode_prompt(t, p.text.data, p.text.size, &contents, out);
		if (!good)
			error_set(error, "no memory for a chat prompt");
	}
	end(&p);
	return good;
}
