/* Changes an input as a template: what stands between its braces, a run of text, or a block with its end is
 * removed, repeated, moved, nested, or put in place of another; an expression gets a filter, an index, an
 * operator or an extreme operand. Changed bytes seldom leave a template that is compiled. The variables
 * behind the template (fuzz_jinja.c) are changed as JSON. */
#pragma once

#include "tests/fuzz/mutate_json.h"

enum { JINJA_PARTS = 512, JINJA_MOST = 1 << 16 };

struct jinja_part {
	size_t from, until;
	int end; /* the part that ends its block, or itself */
};

struct jinja_parts {
	const char* text;
	size_t size;
	struct jinja_part part[JINJA_PARTS];
	int n;
};

static bool begins_with(const char* text, size_t size, const char* word) {
	const size_t n = strlen(word);
	return n <= size && memcmp(text, word, n) == 0;
}

/* The first word between the braces. */
static const char* word_of(const struct jinja_parts* p, int i, size_t* size) {
	size_t at = p->part[i].from;
	const size_t until = p->part[i].until;
	*size = 0;
	if (!begins_with(p->text + at, until - at, "{%"))
		return "";
	for (at += 2; at < until && strchr(" -+\n\t", p->text[at]); at++)
		;
	while (at + *size < until && p->text[at + *size] >= 'a' && p->text[at + *size] <= 'z')
		++*size;
	return p->text + at;
}

static void match_blocks(struct jinja_parts* p) {
	int open[JINJA_PARTS], depth = 0;
	for (int i = 0; i < p->n; i++) {
		size_t size, begun;
		const char* word = word_of(p, i, &size);
		p->part[i].end = i;
		if (size > 3 && memcmp(word, "end", 3) == 0) {
			while (depth > 0) {
				const int at = open[--depth];
				const char* const first = word_of(p, at, &begun);
				if (begun == size - 3 && memcmp(first, word + 3, begun) == 0) {
					p->part[at].end = i;
					break;
				}
			}
		} else if (size > 0)
			open[depth++] = i;
	}
}

static void split_template(const char* text, size_t size, struct jinja_parts* p) {
	*p = (struct jinja_parts){.text = text, .size = size};
	for (size_t at = 0; at < size && p->n < JINJA_PARTS;) {
		const bool braces = at + 1 < size && text[at] == '{' && text[at + 1] && strchr("{%#", text[at + 1]);
		size_t until = at + 1;
		if (braces) {
			const char close[] = {text[at + 1] == '{' ? '}' : text[at + 1], '}', 0};
			const char* const end = at + 2 < size ? memmem(text + at + 2, size - at - 2, close, 2) : NULL;
			until = end ? (size_t)(end - text) + 2 : size;
		} else
			while (until < size && text[until] != '{')
				until++;
		p->part[p->n++] = (struct jinja_part){at, until, 0};
		at = until;
	}
	match_blocks(p);
}

/* What is put in place of a part of the template. */
struct jinja_piece {
	char text[JINJA_MOST];
	size_t size;
};

static void add_piece(struct jinja_piece* to, const char* text, size_t size) {
	if (size > sizeof to->text - to->size)
		size = sizeof to->text - to->size;
	memcpy(to->text + to->size, text, size);
	to->size += size;
}

static void add_word(struct jinja_piece* to, const char* word) { add_piece(to, word, strlen(word)); }

static const char* draw_word(uint32_t* random, const char* const* word, size_t n) {
	return word[draw_number(random, (uint32_t)n)];
}
#define DRAW(random, words) draw_word(random, words, sizeof(words) / sizeof *(words))

/* A block around what is given, once or several times. */
static void nest_block(uint32_t* random, struct jinja_piece* to, const char* text, size_t size) {
	static const char* const begin[] = {"{% if true %}",
	                                    "{% for x in [1, 2] %}",
	                                    "{% set y %}",
	                                    "{% filter trim %}",
	                                    "{% with x = messages %}",
	                                    "{% macro m(a, b=1) %}",
	                                    "{% raw %}",
	                                    "{% for m in messages recursive %}{{ loop(m) }}",
	                                    "{% call(x) m(1) %}"};
	static const char* const end[] = {"{% endif %}",     "{% endfor %}",  "{% endset %}",
	                                  "{% endfilter %}", "{% endwith %}", "{% endmacro %}{{ m(1) }}",
	                                  "{% endraw %}",    "{% endfor %}",  "{% endcall %}"};
	const uint32_t what = draw_number(random, sizeof begin / sizeof *begin), n = 1 + draw_number(random, 12);
	for (uint32_t i = 0; i < n; i++)
		add_word(to, begin[what]);
	add_piece(to, text, size);
	for (uint32_t i = 0; i < n; i++)
		add_word(to, end[what]);
}

static bool is_expression(const struct jinja_parts* p, int i) {
	return p->part[i].until - p->part[i].from > 4 && p->text[p->part[i].from] == '{' &&
	       p->text[p->part[i].from + 1] == '{';
}

/* {{ what it was, and more }} */
static void extend_expression(uint32_t* random, struct jinja_piece* to, const char* text, size_t size) {
	static const char* const more[] = {" | tojson",
	                                   " | length",
	                                   " | join(messages)",
	                                   " | default(none, true)",
	                                   " | map(attribute='content') | list",
	                                   " | items",
	                                   " | dictsort",
	                                   " | batch(3) | list",
	                                   " | unique | list",
	                                   " | selectattr('role', 'eq', 'user') | list",
	                                   " | indent(4)",
	                                   " | truncate(1)",
	                                   " | round(9)",
	                                   " | int",
	                                   " | sort(attribute='role')",
	                                   "[::-1]",
	                                   "[-1:1]",
	                                   "[9223372036854775807]",
	                                   "[messages]",
	                                   ".content.role",
	                                   ".split('')",
	                                   ".strip(none)",
	                                   ".replace('', 'aa')",
	                                   ".format(*messages)",
	                                   "()",
	                                   " ~ messages",
	                                   " * 99",
	                                   " // 0",
	                                   " % 0",
	                                   " ** 99",
	                                   " + -9223372036854775808",
	                                   " in messages",
	                                   " is mapping",
	                                   " if messages else none",
	                                   " == messages",
	                                   " and not none",
	                                   " % ('a', 1)",
	                                   " | replace('a', 'a' * 99)",
	                                   " | sum",
	                                   " | e | safe"};
	const uint32_t deep = draw_number(random, 8) == 0 ? 1 + draw_number(random, 60) : 0;
	add_word(to, "{{ ");
	for (uint32_t i = 0; i < deep; i++)
		add_word(to, "(");
	add_piece(to, text + 2, size - 4);
	for (uint32_t i = 0; i < deep; i++)
		add_word(to, ")");
	for (uint32_t n = 1 + draw_number(random, 3); n > 0; n--)
		add_word(to, DRAW(random, more));
	add_word(to, " }}");
}

/* One change; the new text in *to. */
static void change_template(uint32_t* random, const struct jinja_parts* p, struct jinja_piece* to) {
	const int at = (int)draw_number(random, (uint32_t)p->n), other = (int)draw_number(random, (uint32_t)p->n);
	const size_t from = p->part[at].from, until = p->part[p->part[at].end].until;
	const char* const text = p->text + from;
	const char* const piece = p->text + p->part[other].from;
	const size_t size = until - from, piece_size = p->part[p->part[other].end].until - p->part[other].from;
	add_piece(to, p->text, from);
	switch (draw_number(random, 6)) {
	case 0: /* it goes */
		break;
	case 1:
		add_piece(to, piece, piece_size);
		break;
	case 2:
		add_piece(to, piece, piece_size);
		add_piece(to, text, size);
		break;
	case 3:
		nest_block(random, to, text, size);
		break;
	default:
		if (is_expression(p, at))
			extend_expression(random, to, text, size);
		else { /* one pair of braces alone, so that blocks cross */
			add_piece(to, piece, p->part[other].until - p->part[other].from);
			add_piece(to, text, size);
		}
	}
	add_piece(to, p->text + until, p->size - until);
}

/* The variables begin behind this many bytes; the size when there are none. */
static size_t template_size(const uint8_t* data, size_t size) {
	const uint8_t* const rest = memmem(data, size, "\n%%\n", 4);
	return rest ? (size_t)(rest - data) : size;
}

static size_t mutate_template(uint8_t* data, size_t size, size_t most, unsigned seed) {
	uint32_t random = seed;
	const size_t n = template_size(data, size), rest = size - n;
	const uint32_t what = draw_number(&random, 6);
	if (what == 0 || n == 0)
		return LLVMFuzzerMutate(data, size, most);
	if (what == 1 && rest > 4)
		return mutate_json(data, size, most, n + 4, seed);
	struct jinja_parts* const p = malloc(sizeof *p);
	struct jinja_piece* const to = malloc(2 * sizeof *to);
	int held = 0;
	add_piece((to[0].size = 0, &to[0]), (const char*)data, n);
	for (uint32_t changes = 1 + draw_number(&random, 3); changes > 0 && to[held].size > 0;
	     changes--, held ^= 1) {
		split_template(to[held].text, to[held].size, p);
		to[held ^ 1].size = 0;
		change_template(&random, p, &to[held ^ 1]);
	}
	const size_t changed = to[held].size;
	const bool fits = changed + rest <= most;
	if (fits) {
		memmove(data + changed, data + n, rest);
		memcpy(data, to[held].text, changed);
	}
	free(p);
	free(to);
	return fits ? changed + rest : LLVMFuzzerMutate(data, size, most);
}
