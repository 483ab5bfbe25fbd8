/* Makes one language of a schema's numbers, written without exponents. Bounds become comparisons digit by
 * digit, and multipleOf an automaton of remainders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

enum { MAX_DIGITS = 400, LONGEST = 300, MAX_REMAINDERS = 1 << 12, ROOM = 1 << 17 };
enum { FIRST_MULTIPLES = 200, MAX_DIVISOR_DIGITS = 15 };

/* 0.digits · 10^point; no zeros at its ends. */
struct decimal {
	bool negative;
	char digits[MAX_DIGITS + 1];
	int n, point;
};

/* False: too long. */
static bool read_decimal(const cJSON* value, struct decimal* d) {
	char* text = json_print(value);
	const char* at = text ? text : "";
	int n = 0, point = 0, zeros = 0;
	bool good = text != NULL, fraction = false;
	*d = (struct decimal){.negative = *at == '-'};
	for (at += *at == '-'; *at && (*at == '.' || (*at >= '0' && *at <= '9')) && good; at++) {
		if (*at == '.') {
			fraction = true;
			continue;
		}
		point += fraction ? 0 : (n > 0 || *at != '0');
		if (n == 0 && *at == '0') {
			point -= fraction;
			continue;
		}
		good = n < MAX_DIGITS;
		if (good)
			d->digits[n++] = *at;
		zeros = *at == '0' ? zeros + 1 : 0;
	}
	if (*at)
		point += atoi(at + 1);
	d->n = n - zeros;
	d->digits[d->n] = 0;
	d->point = d->n > 0 ? point : 0;
	d->negative = d->negative && d->n > 0;
	free(text);
	return good && abs(d->point) <= MAX_DIGITS;
}

/* Its whole part, "0" where there is none, and its fraction, which may be empty. */
static void parts_of(const struct decimal* d, char* whole, char* fraction) {
	int n = 0, m = 0;
	for (int i = 0; i < d->point; i++)
		whole[n++] = i < d->n ? d->digits[i] : '0';
	if (n == 0)
		whole[n++] = '0';
	for (int i = d->point; i < d->n; i++)
		fraction[m++] = i < 0 ? '0' : d->digits[i];
	whole[n] = fraction[m] = 0;
}

/* ---- expressions ------------------------------------------------------------------------------ */

struct number_writing {
	char* text; /* (ROOM) */
	size_t n;
};

static void put_text(struct number_writing* w, const char* text) {
	const size_t n = strlen(text);
	if (w->n + n < ROOM) {
		memcpy(w->text + w->n, text, n + 1);
		w->n += n;
	}
}

/* A digit over the one that is given, if there is one. */
static bool put_greater(struct number_writing* w, const char* before, char digit) {
	if (digit == '9')
		return false;
	put_text(w, "|");
	put_text(w, before);
	put_text(w, (const char[]){'[', (char)(digit + 1), '-', '9', ']', 0});
	return true;
}

/* Numbers without sign over a decimal, or equal to it. */
static void put_over(struct number_writing* w, const struct decimal* d, bool equal) {
	char whole[2 * MAX_DIGITS + 2], fraction[2 * MAX_DIGITS + 2], more[32];
	parts_of(d, whole, fraction);
	const int n = (int)strlen(whole), m = (int)strlen(fraction);
	snprintf(more, sizeof more, "[1-9][0-9]{%d,}(\\.[0-9]+)?", n);
	put_text(w, more);
	for (int i = 0; i < n; i++) {
		char before[2 * MAX_DIGITS + 2];
		snprintf(before, sizeof before, "%.*s", i, whole);
		if (!put_greater(w, before, whole[i]))
			continue;
		snprintf(more, sizeof more, "[0-9]{%d}(\\.[0-9]+)?", n - 1 - i);
		put_text(w, more);
	}
	for (int i = 0; i < m; i++) {
		char before[4 * MAX_DIGITS + 8];
		snprintf(before, sizeof before, "%s\\.%.*s", whole, i, fraction);
		if (put_greater(w, before, fraction[i]))
			put_text(w, "[0-9]*");
	}
	put_text(w, "|");
	put_text(w, whole);
	put_text(w, m > 0 ? "\\." : "");
	put_text(w, fraction);
	put_text(w, m > 0   ? equal ? "[0-9]*" : "[0-9]*[1-9][0-9]*"
	            : equal ? "(\\.[0-9]+)?"
	                    : "\\.[0-9]*[1-9][0-9]*");
}

static void put_equal(struct number_writing* w, const struct decimal* d) {
	char whole[2 * MAX_DIGITS + 2], fraction[2 * MAX_DIGITS + 2];
	parts_of(d, whole, fraction);
	put_text(w, d->negative ? "-" : "");
	put_text(w, whole);
	put_text(w, *fraction ? "\\." : "(\\.0+)?");
	put_text(w, fraction);
	put_text(w, *fraction ? "0*" : "");
}

static struct language* language_of_writing(struct compiler* c, struct number_writing* w) {
	struct language* l = w->text ? language_of_pattern(w->text, w->n, true, c->error) : NULL;
	c->failed |= !l;
	free(w->text);
	return l;
}

static struct language* of_expression(struct compiler* c, const char* expression) {
	struct language* l = language_of_pattern(expression, strlen(expression), true, c->error);
	c->failed |= !l;
	return l;
}

#define UNSIGNED "(0|[1-9][0-9]*)(\\.[0-9]+)?"

static struct language* all_numbers(struct compiler* c, bool whole) {
	return of_expression(c, whole ? "0|-?[1-9][0-9]*" : "(?!-0(\\.0+)?$)-?" UNSIGNED);
}

/* ---- keywords --------------------------------------------------------------------------------- */

/* Numbers on one side of a bound. */
static struct language* language_beyond(struct compiler* c, const cJSON* value, bool upper, bool equal) {
	struct decimal d;
	if (!read_decimal(value, &d))
		return schema_refuse_keyword(c, upper ? "maximum" : "minimum", "has too many digits"), NULL;
	if (d.point > LONGEST && upper != d.negative) /* the largest double is no bound: numbers are shorter */
		return of_expression(c, "-?(0|[1-9][0-9]{0,299})(\\.[0-9]+)?");
	/* over a negative one are all that are not below it, which are a mirror */
	const bool inverted = upper != d.negative;
	struct number_writing w = {.text = malloc(ROOM)};
	if (w.text) {
		put_text(&w, d.negative ? "-(" : "(");
		put_over(&w, &d, inverted ? !equal : equal);
		put_text(&w, ")");
	}
	struct language* over = language_of_writing(c, &w);
	return inverted ? schema_product(c, all_numbers(c, false), over, ONLY_FIRST) : over;
}

/* Remainders of what was read: of the whole part, and of each place of the fraction. */
static struct language* language_of_multiples(struct compiler* c, int divisor, int places) {
	struct language* l = language_open();
	int power[32];
	bool good = l != NULL;
	power[places] = 1;
	for (int i = places; i > 0; i--)
		power[i - 1] = (int)((int64_t)power[i] * 10 % divisor);
	/* states: the start, after a sign; (places + 1, divisor) after so many places of the fraction; the same
	 * of places + 1 right after the point, where a digit has to come */
	const int base = 2, stride = divisor, point = base + (places + 1) * stride, zeros = point + stride;
	for (int s = 0; s < base && good; s++) {
		good = language_edge(l, 0, NOWHERE) &&
		       (s > 0 || (language_edge(l, '-', 1) && language_edge(l, '.', NOWHERE)));
		for (int digit = 0; digit < 10 && good; digit++)
			good = language_edge(l, (uint32_t)('0' + digit), base + digit % divisor);
		good = good && language_edge(l, '9' + 1, NOWHERE) && language_state(l, false);
	}
	for (int i = 0; i <= places + 1 && good; i++) { /* places + 1: the point itself */
		const int at = i == places + 1 ? 0 : i;
		for (int r = 0; r < divisor && good; r++) {
			const bool ends = i <= places && (int64_t)r * power[at] % divisor == 0;
			good = language_edge(l, 0, NOWHERE);
			if (good && i == 0)
				good = language_edge(l, '.', point + r) && language_edge(l, '/', NOWHERE);
			for (int digit = 0; digit < 10 && good; digit++) {
				const int next = (int)(((int64_t)r * 10 + digit) % divisor);
				int to = i == 0 ? base + next : at < places ? base + (at + 1) * stride + next : NOWHERE;
				if (i > 0 && at == places && digit == 0 && r == 0)
					to = zeros;
				good = language_edge(l, (uint32_t)('0' + digit), to);
			}
			good = good && language_edge(l, '9' + 1, NOWHERE) && language_state(l, ends);
		}
	}
	good = good && language_edge(l, 0, NOWHERE) && language_edge(l, '0', zeros) &&
	       language_edge(l, '1', NOWHERE) && language_state(l, true);
	return schema_keep_language(c, language_smallest(language_close(l, good)));
}

/* Multiples of divisor · 10^tens: of the digits before the zeros at its end, of which at most `tens` are
 * counted, the remainder. */
static struct language* round_multiples(struct compiler* c, int divisor, int tens) {
	struct language* l = language_open();
	const int base = 2, stride = tens + 1, point = base + divisor * stride;
	bool good = l != NULL;
	for (int s = 0; s < base && good; s++) {
		good = language_edge(l, 0, NOWHERE) &&
		       (s > 0 || (language_edge(l, '-', 1) && language_edge(l, '.', NOWHERE))) &&
		       language_edge(l, '0', base + tens);
		for (int digit = 1; digit < 10 && good; digit++)
			good = language_edge(l, (uint32_t)('0' + digit), base + digit % divisor * stride);
		good = good && language_edge(l, '9' + 1, NOWHERE) && language_state(l, false);
	}
	for (int s = 0; s < divisor * stride && good; s++) {
		const int r = s / stride, zeros = s % stride;
		int64_t before = r;
		for (int i = 0; i <= zeros; i++)
			before = before * 10 % divisor;
		const bool ends = r == 0 && zeros == tens;
		good = language_edge(l, 0, NOWHERE) && language_edge(l, '.', ends ? point : NOWHERE) &&
		       language_edge(l, '/', NOWHERE) &&
		       language_edge(l, '0', base + (zeros < tens ? s + 1 : r * 10 % divisor * stride + tens));
		for (int digit = 1; digit < 10 && good; digit++)
			good =
			    language_edge(l, (uint32_t)('0' + digit), base + (int)((before + digit) % divisor) * stride);
		good = good && language_edge(l, '9' + 1, NOWHERE) && language_state(l, ends);
	}
	for (int s = 0; s < 2 && good; s++) /* after the point, after a zero behind it */
		good = language_edge(l, 0, NOWHERE) && language_edge(l, '0', point + 1) &&
		       language_edge(l, '1', NOWHERE) && language_state(l, s > 0);
	return schema_keep_language(c, language_smallest(language_close(l, good)));
}

/* The first multiples, where an automaton for all of them is too large: of the number, and of the smallest
 * whole number that is one of its multiples. */
static struct language* first_multiples(struct compiler* c, int64_t divisor, int places) {
	struct number_writing w = {.text = malloc(ROOM)};
	int64_t whole = divisor, scale = 1;
	const int width = places < MAX_DIVISOR_DIGITS ? places : MAX_DIVISOR_DIGITS;
	for (int i = 0; i < places; i++)
		scale *= 10;
	for (int i = 0; i < places && whole % 2 == 0; i++)
		whole /= 2;
	for (int i = 0; i < places && whole % 5 == 0; i++)
		whole /= 5;
	if (w.text)
		put_text(&w, "0(\\.0+)?|-?(");
	for (int i = 1; i <= FIRST_MULTIPLES / (places > 0 ? 4 : 1) && w.text; i++) {
		char text[96];
		snprintf(text, sizeof text, "%s%lld(\\.0+)?", i > 1 ? "|" : "", (long long)(whole * i));
		put_text(&w, text);
		if (places > 0) {
			snprintf(text, sizeof text, "|%lld\\.%0*lld0*", (long long)(divisor * i / scale), width,
			         (long long)(divisor * i % scale));
			put_text(&w, text);
		}
	}
	if (w.text)
		put_text(&w, ")");
	return language_of_writing(c, &w);
}

/* all: not only the first of them will do. */
static struct language* of_multiple(struct compiler* c, const cJSON* value, bool all) {
	struct decimal d;
	if (!cJSON_IsNumber(value) || !read_decimal(value, &d) || d.n == 0 || d.negative)
		return schema_refuse(c, "\"multipleOf\" is not a number over 0 of at most 400 digits"), NULL;
	const int places = d.n > d.point ? d.n - d.point : 0, tens = d.point > d.n ? d.point - d.n : 0;
	int64_t divisor = 0;
	for (int i = 0; i < d.n && i < MAX_DIVISOR_DIGITS; i++)
		divisor = divisor * 10 + (d.digits[i] - '0');
	if (d.n <= 4 && tens > 0 && divisor * (tens + 1) + 4 <= LANGUAGE_STATES)
		return round_multiples(c, (int)divisor, tens);
	if (tens == 0 && places <= 30 && divisor <= MAX_REMAINDERS &&
	    divisor * (places + 2) + 3 <= LANGUAGE_STATES && d.n <= 4)
		return language_of_multiples(c, (int)divisor, places);
	for (int i = 0; i < tens && d.n + tens <= MAX_DIVISOR_DIGITS; i++)
		divisor *= 10;
	if (all || d.n + tens > MAX_DIVISOR_DIGITS || places > MAX_DIVISOR_DIGITS)
		return schema_refuse(c, "\"multipleOf\" of so many digits is not supported"), NULL;
	return first_multiples(c, divisor, places);
}

bool schema_is_of_numbers(const char* keyword) {
	return json_lists("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf", keyword);
}

/* strict: a boolean exclusiveMinimum, of draft 4, is in `schema` beside a minimum. */
static struct language* of_keyword(struct compiler* c, const cJSON* schema, const cJSON* field, bool never) {
	const char* name = field->string;
	const bool upper = strstr(name, "aximum") != NULL, exclusive = name[0] == 'e';
	if (strcmp(name, "multipleOf") == 0)
		return of_multiple(c, field, never);
	if (exclusive && cJSON_IsBool(field))
		return NULL;
	if (!cJSON_IsNumber(field))
		return schema_refuse(c, "a bound is not a number"), NULL;
	const bool strict =
	    exclusive || cJSON_IsTrue(json_field(schema, upper ? "exclusiveMaximum" : "exclusiveMinimum"));
	return language_beyond(c, field, upper, !strict);
}

static struct language* make_number_language(struct compiler* c, const cJSON* schema, bool whole) {
	struct language* all = all_numbers(c, whole);
	const cJSON *field, *one;
	cJSON_ArrayForEach (field, schema) {
		if (c->failed)
			break;
		if (schema_is_of_numbers(field->string) && !cJSON_IsNull(field)) {
			struct language* of = of_keyword(c, schema, field, false);
			all = of ? schema_product(c, all, of, BOTH) : all;
		} else if (strcmp(field->string, SCHEMA_EXCEPT) == 0)
			cJSON_ArrayForEach (one, field) {
				struct decimal d;
				struct number_writing w = {.text = malloc(ROOM)};
				if (cJSON_IsNumber(one) && w.text && read_decimal(one, &d)) {
					put_equal(&w, &d);
					all = schema_product(c, all, language_of_writing(c, &w), ONLY_FIRST);
				} else {
					free(w.text);
					if (cJSON_IsNumber(one))
						schema_refuse(c, "a number has too many digits");
				}
			}
		else if (strcmp(field->string, SCHEMA_ALSO) == 0 || strcmp(field->string, SCHEMA_NEVER) == 0)
			cJSON_ArrayForEach (one, field) {
				if (schema_is_of_numbers(one->child->string) && !c->failed) {
					const bool never = field->string[1] == 'n';
					all = schema_product(c, all, of_keyword(c, one, one->child, never),
					                     never ? ONLY_FIRST : BOTH);
				}
			}
	}
	if (!c->failed)
		return all;
	language_free(all);
	return NULL;
}

/* Those without needless zeros. */
static struct language* language_without_zeros(struct compiler* c) {
	static const char text[] = "0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\\.[0-9]*[1-9]";
	struct language* l = language_of_pattern(text, sizeof text - 1, true, c->error);
	c->failed |= !l;
	return l;
}

char* schema_number_text(const cJSON* value) {
	struct decimal d;
	char whole[2 * MAX_DIGITS + 2], fraction[2 * MAX_DIGITS + 2];
	char* text = read_decimal(value, &d) ? malloc(sizeof whole + sizeof fraction + 2) : NULL;
	if (!text)
		return NULL;
	parts_of(&d, whole, fraction);
	sprintf(text, "%s%s%s%s", d.negative ? "-" : "", whole, *fraction ? "." : "", fraction);
	return text;
}

int32_t schema_emit_number(struct compiler* c, const cJSON* schema, bool whole, int32_t next) {
	bool any = true;
	const cJSON* field;
	cJSON_ArrayForEach (field, schema)
		any = any && !schema_is_of_numbers(field->string) &&
		      !json_lists(SCHEMA_EXCEPT " " SCHEMA_ALSO " " SCHEMA_NEVER, field->string);
	if (any)
		return schema_emit_any_number(c, whole, next);
	struct language* l = make_number_language(c, schema, whole);
	if (l && c->once)
		l = schema_product(c, l, language_without_zeros(c), BOTH);
	const int32_t at =
	    l ? language_emit(c->grammar, l, emit_characters, &c->rules.classes, -1, next) : NOWHERE;
	language_free(l);
	return at;
}
