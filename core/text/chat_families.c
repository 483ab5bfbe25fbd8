#include "core/text/chat_families.h"

#include <stdlib.h>
#include <string.h>

#include "core/text/utf8.h"

/* ---- writing ------------------------------------------------------------------------------ */

static void say(struct chat_prompt* p, const char* text) { buffer_add(&p->text, text, strlen(text)); }
static void say_bos(struct chat_prompt* p) { buffer_add(&p->text, p->bos, p->bos_size); }
static void say_eos(struct chat_prompt* p) { buffer_add(&p->text, p->eos, p->eos_size); }

/* What comes from a message: no special token is recognised in it. */
static void quote(struct chat_prompt* p, const char* text, size_t size) {
	if (size == 0 || p->text.failed)
		return;
	if (!encoder_reserve((void**)&p->content, &p->capacity, p->n_content + 1, sizeof *p->content)) {
		p->text.failed = true;
		return;
	}
	size_t start = p->text.size;
	buffer_add(&p->text, text, size);
	p->content[p->n_content++] = (struct plain_range){.start = start, .end = p->text.size};
}

static void quote_role(struct chat_prompt* p, const struct chat_message* m) {
	quote(p, m->role, strlen(m->role));
}
static void quote_content(struct chat_prompt* p, const struct chat_message* m) {
	quote(p, m->content, m->content_size);
}

/* ---- text --------------------------------------------------------------------------------- */

struct part {
	const char* text;
	size_t size;
};

static struct part whole(const struct chat_message* m) { return (struct part){m->content, m->content_size}; }

/* What Python's str.strip() takes. */
static bool strips(uint32_t code) { return utf8_is_white(code) || (code >= 0x1C && code <= 0x1F); }

static struct part trim_left(struct part p) {
	uint32_t code;
	while (p.size > 0) {
		size_t length = utf8_character(p.text, p.size, &code);
		if (length == 0 || !strips(code))
			break;
		p.text += length;
		p.size -= length;
	}
	return p;
}

static struct part trim_right(struct part p) {
	uint32_t code;
	for (size_t length = 1; length <= 4 && length <= p.size;) {
		if (utf8_character(p.text + p.size - length, length, &code) != length) {
			length++;
			continue;
		}
		if (!strips(code))
			break;
		p.size -= length;
		length = 1;
	}
	return p;
}

static struct part trim(struct part p) { return trim_right(trim_left(p)); }

static struct part strip_newlines(struct part p, bool left, bool right) {
	for (; left && p.size > 0 && p.text[0] == '\n'; p.text++)
		p.size--;
	while (right && p.size > 0 && p.text[p.size - 1] == '\n')
		p.size--;
	return p;
}

static void quote_part(struct chat_prompt* p, struct part part) { quote(p, part.text, part.size); }

static const char* find(struct part in, const char* what) {
	return in.size == 0 ? NULL : memmem(in.text, in.size, what, strlen(what));
}

static bool is_role(const struct chat_message* m, const char* role) { return strcmp(m->role, role) == 0; }

/* ---- conversations ------------------------------------------------------------------------ */

static const char alternate[] = "conversation roles must alternate user/assistant/user/assistant/...";
static const char two_roles[] = "only user and assistant roles are supported";

/* Whether the message at an even place is the user's and at an odd one is not. */
static bool in_turn(struct chat_prompt* p, const struct chat_message* m, int index) {
	if (is_role(m, "user") == (index % 2 == 0))
		return true;
	p->refused = alternate;
	return false;
}

/* Takes a leading system message off the conversation. */
static const struct chat_message* take_system(const struct chat_message** m, int* n) {
	if (*n == 0 || !is_role(&(*m)[0], "system"))
		return NULL;
	(*n)--;
	return (*m)++;
}

/* ---- Llama -------------------------------------------------------------------------------- */

/* The system text stands inside the first user turn, and the two are trimmed as one. */
static void llama2_user(struct chat_prompt* p, const struct chat_message* m,
                        const struct chat_message* system) {
	say_bos(p);
	say(p, "[INST] ");
	if (system) {
		say(p, "<<SYS>>\n");
		quote_content(p, system);
		say(p, "\n<</SYS>>\n\n");
		struct part text = trim_right(whole(m));
		quote_part(p, text);
		if (text.size == 0 && p->text.size >= 2)
			p->text.size -= 2; /* the template's own line breaks are trimmed with it */
	} else {
		quote_part(p, trim(whole(m)));
	}
	say(p, " [/INST]");
}

static void render_llama2(struct chat_prompt* p, const struct chat_message* m, int n) {
	const struct chat_message* system = take_system(&m, &n);
	for (int i = 0; i < n && in_turn(p, &m[i], i); i++) {
		if (is_role(&m[i], "user")) {
			llama2_user(p, &m[i], i == 0 ? system : NULL);
		} else if (is_role(&m[i], "assistant")) {
			say(p, " ");
			quote_part(p, trim(whole(&m[i])));
			say(p, " ");
			say_eos(p);
		}
	}
}

static void llama3_turn(struct chat_prompt* p, const struct chat_message* m) {
	say(p, "<|start_header_id|>");
	quote_role(p, m);
	say(p, "<|end_header_id|>\n\n");
	quote_part(p, trim(whole(m)));
	say(p, "<|eot_id|>");
}

static void render_llama3(struct chat_prompt* p, const struct chat_message* m, int n) {
	for (int i = 0; i < n; i++) {
		if (i == 0)
			say_bos(p);
		llama3_turn(p, &m[i]);
	}
	say(p, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* The date is the one the template falls back to; the day's own would make prompts differ from one day
 * to the next. */
static void render_llama31(struct chat_prompt* p, const struct chat_message* m, int n) {
	const struct chat_message* system = take_system(&m, &n);
	say_bos(p);
	say(p, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
	       "26 Jul "
	       "2024\n\n");
	if (system)
		quote_part(p, trim(whole(system)));
	say(p, "<|eot_id|>");
	for (int i = 0; i < n; i++)
		if (!is_role(&m[i], "tool") && !is_role(&m[i], "ipython"))
			llama3_turn(p, &m[i]);
	say(p, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* ---- Mistral ------------------------------------------------------------------------------ */

struct mistral {
	const char *open, *close;       /* around a user turn */
	const char *before, *after_eos; /* around an assistant turn */
	bool system, system_last;       /* taken at all; in the last user turn, else in the first */
	bool trims;                     /* the assistant's text */
};

static void mistral_turn(struct chat_prompt* p, const struct mistral* style, const struct chat_message* m,
                         const struct chat_message* system) {
	if (is_role(m, "user")) {
		say(p, style->open);
		if (system) {
			quote_content(p, system);
			say(p, "\n\n");
		}
		quote_content(p, m);
		say(p, style->close);
	} else if (is_role(m, "assistant")) {
		say(p, style->before);
		quote_part(p, style->trims ? trim(whole(m)) : whole(m));
		say_eos(p);
		say(p, style->after_eos);
	} else {
		p->refused = two_roles;
	}
}

static void render_mistral(struct chat_prompt* p, const struct mistral* style, const struct chat_message* m,
                           int n) {
	const struct chat_message* system = style->system ? take_system(&m, &n) : NULL;
	say_bos(p);
	for (int i = 0; i < n && !p->refused && in_turn(p, &m[i], i); i++) {
		bool here = style->system_last ? i == n - 1 : i == 0;
		mistral_turn(p, style, &m[i], here ? system : NULL);
	}
}

static void render_mistral_v1(struct chat_prompt* p, const struct chat_message* m, int n) {
	static const struct mistral style = {"[INST] ", " [/INST]", "", " ", .system = false};
	render_mistral(p, &style, m, n);
}

static void render_mistral_v2(struct chat_prompt* p, const struct chat_message* m, int n) {
	static const struct mistral style = {"[INST] ", " [/INST]", "", "", .system = false};
	render_mistral(p, &style, m, n);
}

static void render_mistral_v1_system(struct chat_prompt* p, const struct chat_message* m, int n) {
	static const struct mistral style = {" [INST] ", " [/INST]", " ", "", .system = true};
	render_mistral(p, &style, m, n);
}

static void render_mistral_v3(struct chat_prompt* p, const struct chat_message* m, int n) {
	struct mistral style = {"[INST] ", "[/INST]", " ", "", .system = true, .system_last = true};
	style.trims = strstr(p->template_text, "message[\"content\"]|trim + eos_token") != NULL;
	render_mistral(p, &style, m, n);
}

static void render_mistral_nemo(struct chat_prompt* p, const struct chat_message* m, int n) {
	static const struct mistral style = {"[INST]", "[/INST]", "", "", .system = true, .system_last = true};
	render_mistral(p, &style, m, n);
}

/* ---- ChatML ------------------------------------------------------------------------------- */

/* The system text a ChatML template gives conversations that have none: the string literal that goes
 * from "<|im_start|>system" to "<|im_end|>" without a break. */
static void say_default_system(struct chat_prompt* p) {
	static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
	const char* at = p->template_text;
	while ((at = strstr(at, open)) != NULL) {
		char mark = at > p->template_text ? at[-1] : 0;
		const char* end = strstr(at, close);
		const char* broken = mark ? strchr(at, mark) : NULL;
		if (!end || (mark != '\'' && mark != '"') || (broken && broken < end)) {
			at += sizeof open - 1;
			continue;
		}
		for (; at < end; at++) {
			bool escape = at[0] == '\\' && at[1] == 'n';
			buffer_add(&p->text, escape ? "\n" : at, 1);
			at += escape ? 1 : 0;
		}
		say(p, "<|im_end|>\n");
		return;
	}
}

static void chatml_open(struct chat_prompt* p, const struct chat_message* m) {
	say(p, "<|im_start|>");
	quote_role(p, m);
	say(p, "\n");
}

static void render_chatml(struct chat_prompt* p, const struct chat_message* m, int n) {
	if (n > 0 && !is_role(&m[0], "system"))
		say_default_system(p);
	for (int i = 0; i < n; i++) {
		chatml_open(p, &m[i]);
		quote_content(p, &m[i]);
		say(p, "<|im_end|>\n");
	}
	say(p, "<|im_start|>assistant\n");
}

static bool is_tool_response(struct part p) {
	static const char open[] = "<tool_response>", close[] = "</tool_response>";
	return p.size >= sizeof close - 1 && memcmp(p.text, open, sizeof open - 1) == 0 &&
	       memcmp(p.text + p.size - (sizeof close - 1), close, sizeof close - 1) == 0;
}

/* Splits "<think>…</think>answer" as Qwen3's template does: the last of each mark counts for the answer,
 * the first end for the thought. */
static void split_thought(struct part* thought, struct part* answer) {
	const char* end = find(*answer, "</think>");
	*thought = (struct part){"", 0};
	if (!end)
		return;
	struct part before = {answer->text, (size_t)(end - answer->text)};
	struct part inner = strip_newlines(before, false, true);
	for (const char* open; (open = find(inner, "<think>")) != NULL;) {
		inner.size -= (size_t)(open + 7 - inner.text);
		inner.text = open + 7;
	}
	*thought = strip_newlines(inner, true, false);
	for (const char* close; (close = find(*answer, "</think>")) != NULL;) {
		answer->size -= (size_t)(close + 8 - answer->text);
		answer->text = close + 8;
	}
	*answer = strip_newlines(*answer, true, false);
}

static void qwen3_answer(struct chat_prompt* p, const struct chat_message* m, bool after_query, bool last) {
	struct part answer = whole(m), thought;
	split_thought(&thought, &answer);
	chatml_open(p, m);
	if (after_query && (last || thought.size > 0)) {
		say(p, "<think>\n");
		quote_part(p, strip_newlines(thought, true, true));
		say(p, "\n</think>\n\n");
		answer = strip_newlines(answer, true, false);
	}
	quote_part(p, answer);
	say(p, "<|im_end|>\n");
}

static void render_qwen3(struct chat_prompt* p, const struct chat_message* m, int n) {
	int query = n - 1;
	for (int i = n - 1; i >= 0; i--) {
		if (is_role(&m[i], "user") && !is_tool_response(whole(&m[i]))) {
			query = i;
			break;
		}
	}
	for (int i = 0; i < n; i++) {
		if (is_role(&m[i], "user") || is_role(&m[i], "system")) {
			chatml_open(p, &m[i]);
			quote_content(p, &m[i]);
			say(p, "<|im_end|>\n");
		} else if (is_role(&m[i], "assistant")) {
			qwen3_answer(p, &m[i], i > query, i == n - 1);
		}
	}
	say(p, "<|im_start|>assistant\n");
}

static void render_yi15(struct chat_prompt* p, const struct chat_message* m, int n) {
	if (n > 0 && is_role(&m[0], "system"))
		quote_content(p, &m[0]);
	for (int i = 0; i < n; i++) {
		bool user = is_role(&m[i], "user");
		if (user)
			say(p, "<|im_start|>user\n");
		if (user || is_role(&m[i], "assistant")) {
			quote_content(p, &m[i]);
			say(p, "<|im_end|>\n");
		}
		if (user)
			say(p, "<|im_start|>assistant\n");
	}
}

/* ---- Phi-3, Gemma, DeepSeek, Zephyr -------------------------------------------------------- */

static void render_phi3(struct chat_prompt* p, const struct chat_message* m, int n) {
	bool skips_empty_system = strstr(p->template_text, "== 'system' and message['content']") != NULL;
	for (int i = 0; i < n; i++) {
		bool system = is_role(&m[i], "system");
		if (system && skips_empty_system && m[i].content_size == 0)
			continue;
		if (!system && !is_role(&m[i], "user") && !is_role(&m[i], "assistant"))
			continue;
		say(p, system ? "<|system|>\n" : is_role(&m[i], "user") ? "<|user|>\n" : "<|assistant|>\n");
		quote_content(p, &m[i]);
		say(p, "<|end|>\n");
	}
	say(p, "<|assistant|>\n");
}

static void render_phi3_first(struct chat_prompt* p, const struct chat_message* m, int n) {
	if (strstr(p->template_text, "bos_token"))
		say_bos(p);
	for (int i = 0; i < n; i++) {
		bool user = is_role(&m[i], "user");
		if (!user && !is_role(&m[i], "assistant"))
			continue;
		say(p, user ? "<|user|>\n" : "");
		quote_content(p, &m[i]);
		say(p, user ? "<|end|>\n<|assistant|>\n" : "<|end|>\n");
	}
}

static void render_gemma(struct chat_prompt* p, const struct chat_message* m, int n) {
	if (n > 0 && is_role(&m[0], "system"))
		p->refused = "system role not supported";
	say_bos(p);
	for (int i = 0; i < n && !p->refused && in_turn(p, &m[i], i); i++) {
		say(p, "<start_of_turn>");
		if (is_role(&m[i], "assistant"))
			say(p, "model");
		else
			quote_role(p, &m[i]);
		say(p, "\n");
		quote_part(p, trim(whole(&m[i])));
		say(p, "<end_of_turn>\n");
	}
	say(p, "<start_of_turn>model\n");
}

/* The template's own system text is its only literal that begins so. */
static void say_deepseek_system(struct chat_prompt* p) {
	const char* at = strstr(p->template_text, "{{'You are ");
	const char* end = at ? strstr(at, "\\n'}}") : NULL;
	if (at && !end)
		end = strstr(at, "\n'}}");
	if (end) {
		buffer_add(&p->text, at + 3, (size_t)(end - at) - 3);
		say(p, "\n");
	}
}

static void render_deepseek_coder(struct chat_prompt* p, const struct chat_message* m, int n) {
	bool system = false;
	for (int i = 0; i < n; i++)
		system |= is_role(&m[i], "system");
	say_bos(p);
	if (!system)
		say_deepseek_system(p);
	for (int i = 0; i < n; i++) {
		bool user = is_role(&m[i], "user");
		bool plain = is_role(&m[i], "system");
		say(p, plain ? "" : user ? "### Instruction:\n" : "### Response:\n");
		quote_content(p, &m[i]);
		say(p, plain ? "" : user ? "\n" : "\n<|EOT|>\n");
	}
	say(p, "### Response:\n");
}

static void render_deepseek_llm(struct chat_prompt* p, const struct chat_message* m, int n) {
	say_bos(p);
	for (int i = 0; i < n; i++) {
		bool answer = is_role(&m[i], "assistant");
		if (!answer && !is_role(&m[i], "user") && !is_role(&m[i], "system"))
			continue;
		say(p, answer ? "Assistant: " : is_role(&m[i], "user") ? "User: " : "");
		quote_content(p, &m[i]);
		if (answer)
			say_eos(p);
		else
			say(p, "\n\n");
	}
	say(p, "Assistant:");
}

static void render_zephyr(struct chat_prompt* p, const struct chat_message* m, int n) {
	for (int i = 0; i < n; i++) {
		static const char* const role[] = {"user", "system", "assistant"};
		for (size_t r = 0; r < sizeof role / sizeof role[0]; r++) {
			if (!is_role(&m[i], role[r]))
				continue;
			say(p, "<|");
			say(p, role[r]);
			say(p, "|>\n");
			quote_content(p, &m[i]);
			say_eos(p);
			say(p, "\n");
		}
	}
	if (n > 0)
		say(p, "<|assistant|>\n");
}

static void render_question_answer(struct chat_prompt* p, const struct chat_message* m, int n) {
	for (int i = 0; i < n; i++) {
		bool system = is_role(&m[i], "system"), user = is_role(&m[i], "user");
		if (!system && !user && !is_role(&m[i], "assistant"))
			continue;
		say(p, system ? "" : user ? "Question: " : "Answer: ");
		quote_content(p, &m[i]);
		say(p, "\n");
	}
	say(p, "Answer:");
}

/* ---- telling them apart -------------------------------------------------------------------- */

enum { MAX_MARKS = 4 };

/* The first entry of which the template has every `with` and no `without`. */
static const struct {
	struct chat_family family;
	const char* with[MAX_MARKS];
	const char* without[MAX_MARKS];
} known[] = {
    {{"llama-3.1", render_llama31}, {"<|start_header_id|>", "Cutting Knowledge Date: December 2023"}, {0}},
    {{"llama-3", render_llama3},
     {"<|start_header_id|>", "bos_token + content", "| trim + '<|eot_id|>'"},
     {"tool"}},
    {{"yi-1.5", render_yi15},
     {"'<|im_start|>user\\n' + content + '<|im_end|>\\n<|im_start|>assistant\\n'"},
     {0}},
    {{"qwen-3", render_qwen3},
     {"<|im_start|>", "reasoning_content", "loop.index0 > ns.last_query_index", "'\\n<think>\\n'"},
     {"bos_token"}},
    {{"chatml", render_chatml},
     {"'<|im_start|>' + message", "<|im_end|>", "add_generation_prompt", "<|im_start|>assistant"},
     {"bos_token", "</think>", "trim", "eos_token"}},
    {{"mistral-nemo", render_mistral_nemo},
     {"\"[INST]\" + message[\"content\"] + \"[/INST]\"", "message[\"content\"] + eos_token"},
     {0}},
    {{"mistral-v3", render_mistral_v3},
     {"\"[INST] \" + message[\"content\"] + \"[/INST]\"", "\" \" + message[\"content\"]|trim + eos_token"},
     {0}},
    {{"mistral-v3", render_mistral_v3},
     {"\"[INST] \" + message[\"content\"] + \"[/INST]\"", "\" \" + message[\"content\"] + eos_token"},
     {0}},
    {{"mistral-v1-system", render_mistral_v1_system},
     {"' [INST] ' + system_message", "' ' + message['content'] + eos_token"},
     {0}},
    {{"mistral-v1", render_mistral_v1},
     {"'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token + ' '"},
     {"<<SYS>>"}},
    {{"mistral-v2", render_mistral_v2},
     {"'[INST] ' + message['content'] + ' [/INST]'", "message['content'] + eos_token"},
     {"<<SYS>>"}},
    {{"llama-2", render_llama2}, {"bos_token + '[INST] ' + content", "<<SYS>>", "' ' + eos_token"}, {0}},
    {{"phi-3-first", render_phi3_first}, {"'<|end|>' + '\n' + '<|assistant|>'"}, {0}},
    {{"phi-3-first", render_phi3_first}, {"'<|end|>' + '\\n' + '<|assistant|>'"}, {0}},
    {{"phi-3", render_phi3},
     {"<|user|>", "<|end|>", "<|assistant|>", "'system'"},
     {"bos_token", "tool", "trim"}},
    {{"zephyr", render_zephyr},
     {"<|user|>", "+ eos_token", "<|assistant|>"},
     {"bos_token", "trim", "<|end|>"}},
    {{"gemma", render_gemma}, {"<start_of_turn>", "System role not supported", "| trim"}, {0}},
    {{"deepseek-coder", render_deepseek_coder},
     {"### Instruction:", "### Response:", "<|EOT|>", "ns.found"},
     {0}},
    {{"deepseek-llm", render_deepseek_llm},
     {"'User: ' + message['content'] + '", "'Assistant: ' + message['content'] + eos_token"},
     {"trim"}},
    {{"question-answer", render_question_answer},
     {"'Question: ' + message['content']", "'Answer: ' + message['content']", "'Answer:'"},
     {0}},
};

static bool has_all(const char* text, const char* const marks[MAX_MARKS]) {
	for (int i = 0; i < MAX_MARKS && marks[i]; i++)
		if (!strstr(text, marks[i]))
			return false;
	return true;
}

static bool has_none(const char* text, const char* const marks[MAX_MARKS]) {
	for (int i = 0; i < MAX_MARKS && marks[i]; i++)
		if (strstr(text, marks[i]))
			return false;
	return true;
}

const struct chat_family* chat_family_of(const char* template_text) {
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (has_all(template_text, known[i].with) && has_none(template_text, known[i].without))
			return &known[i].family;
	return NULL;
}
