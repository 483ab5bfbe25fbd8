/* Python's operators on values. Whole numbers have 64 bits, and an overflow is an error. */
#include <math.h>
#include <string.h>

#include "core/jinja/library.h"

const char* sign_text(int sign) {
	static const char* const text[] = {
	    ['+'] = "+",    ['-'] = "-",        ['*'] = "*",         ['/'] = "/",
	    ['%'] = "%",    ['~'] = "~",        ['<'] = "<",         ['>'] = ">",
	    [POWER] = "**", [EQUAL] = "==",     [LESS_EQUAL] = "<=", [FLOOR_DIVIDE] = "//",
	    [IN] = "in",    [AND] = "and",      [NOT_EQUAL] = "!=",  [GREATER_EQUAL] = ">=",
	    [OR] = "or",    [NOT_IN] = "not in"};
	return text[sign];
}

/* ---- numbers ------------------------------------------------------------------------------ */

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static struct value divide_integers(struct machine* m, int sign, int64_t a, int64_t b) {
	int64_t out = 0;
	bool fits = true;
	if ((sign == '/' || sign == FLOOR_DIVIDE || sign == '%') && b == 0)
		machine_fail(m, "division by zero");
	if ((sign == FLOOR_DIVIDE || sign == '%') && b == -1) { /* the one quotient that may not fit */
		a = sign == '%' ? 0 : a;
		sign = '*';
	}
	switch (sign) {
	case '+':
		fits = !__builtin_add_overflow(a, b, &out);
		break;
	case '-':
		fits = !__builtin_sub_overflow(a, b, &out);
		break;
	case '*':
		fits = !__builtin_mul_overflow(a, b, &out);
		break;
	case '/':
		return value_float((double)a / (double)b);
	case FLOOR_DIVIDE:
		out = floor_divide(a, b);
		break;
	case '%':
		out = a - floor_divide(a, b) * b;
		break;
	default:
		if (b < 0)
			return value_float(pow((double)a, (double)b));
		fits = fabs(pow((double)a, (double)b)) < 0x1p53;
		out = fits ? (int64_t)pow((double)a, (double)b) : 0;
		break;
	}
	if (!fits)
		machine_fail(m, "a whole number of more than 64 bits");
	return value_integer(out);
}

static struct value divide_floats(struct machine* m, int sign, double a, double b) {
	const bool divides = sign == '/' || sign == FLOOR_DIVIDE || sign == '%';
	if (divides && !(b < 0) && !(b > 0) && !isnan(b))
		machine_fail(m, "float division by zero");
	double rest;
	switch (sign) {
	case '+':
		return value_float(a + b);
	case '-':
		return value_float(a - b);
	case '*':
		return value_float(a * b);
	case '/':
		return value_float(a / b);
	case POWER:
		return value_float(pow(a, b));
	default: /* the rest has the divisor's sign */
		rest = fmod(a, b);
		if ((rest < 0 && b > 0) || (rest > 0 && b < 0))
			rest += b;
		return value_float(sign == '%' ? rest : floor((a - rest) / b + 0.5));
	}
}

/* ---- sequences ---------------------------------------------------------------------------- */

const struct string* escape_markup(struct machine* m, const struct string* s) {
	static const char from[] = "&<>\"'";
	static const char* const to[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
	if (s->markup)
		return s;
	struct builder b = {.machine = m};
	size_t written = 0;
	for (size_t at = 0; at < s->size; at++) {
		const char* const found = s->data[at] ? strchr(from, s->data[at]) : NULL;
		if (!found)
			continue;
		builder_part(&b, s, written, at);
		builder_add(&b, to[found - from], strlen(to[found - from]), string_foreign_at(s, at));
		written = at + 1;
	}
	builder_part(&b, s, written, s->size);
	return string_markup(m, builder_end(&b), true);
}

static struct value join_strings(struct machine* m, const struct string* a, const struct string* b) {
	const bool markup = a->markup || b->markup;
	struct builder out = {.machine = m};
	builder_string(&out, markup ? escape_markup(m, a) : a);
	builder_string(&out, markup ? escape_markup(m, b) : b);
	return value_string(string_markup(m, builder_end(&out), markup));
}

static struct value join_lists(struct machine* m, struct value a, struct value b) {
	struct value out = value_list(m, a.kind);
	list_add_all(m, out.list, a.list);
	list_add_all(m, out.list, b.list);
	return out;
}

static struct value repeat_value(struct machine* m, struct value v, int64_t n) {
	if (v.kind == STRING) {
		struct builder out = {.machine = m};
		if (v.string->size && n > (int64_t)(MACHINE_TEXT / v.string->size))
			machine_fail(m, "the template writes more than %d MiB", MACHINE_TEXT >> 20);
		for (const struct string* unit = v.string; n > 0; n >>= 1) {
			if (n & 1)
				builder_string(&out, unit);
			if (n > 1)
				unit = join_strings(m, unit, unit).string;
		}
		return value_string(builder_end(&out));
	}
	struct value out = value_list(m, v.kind);
	for (int64_t i = 0; i < n && v.list->n; i++) {
		machine_charge(m, 0);
		list_add_all(m, out.list, v.list);
	}
	return out;
}

static bool is_repetition(struct value v, struct value n) {
	return (v.kind == STRING || v.kind == LIST || v.kind == TUPLE) && value_is_whole(n);
}

struct value operator_binary(struct machine* m, int sign, struct value a, struct value b) {
	struct builder text = {.machine = m};
	if (sign == '~') {
		value_write(&text, a);
		value_write(&text, b);
		return value_string(builder_end(&text));
	}
	if (value_is_number(a) && value_is_number(b)) {
		if (a.kind == FLOAT || b.kind == FLOAT)
			return divide_floats(m, sign, value_number(a), value_number(b));
		return divide_integers(m, sign, value_whole(a), value_whole(b));
	}
	if (sign == '+' && a.kind == STRING && b.kind == STRING)
		return join_strings(m, a.string, b.string);
	if (sign == '+' && a.kind == b.kind && (a.kind == LIST || a.kind == TUPLE))
		return join_lists(m, a, b);
	if (sign == '*' && is_repetition(a, b))
		return repeat_value(m, a, value_whole(b));
	if (sign == '*' && is_repetition(b, a))
		return repeat_value(m, b, value_whole(a));
	if (sign == '%' && a.kind == STRING)
		return format_percent(m, a.string, b);
	value_check_defined(m, a);
	value_check_defined(m, b);
	machine_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'", sign_text(sign), value_type(a),
	             value_type(b));
}

bool operator_compare(struct machine* m, int sign, struct value a, struct value b) {
	if (sign == EQUAL || sign == NOT_EQUAL)
		return value_equal(m, a, b) == (sign == EQUAL);
	if (sign == IN || sign == NOT_IN)
		return value_in(m, a, b) == (sign == IN);
	const int order = value_order(m, a, b, sign_text(sign));
	switch (sign) {
	case '<':
		return order == -1;
	case LESS_EQUAL:
		return order == -1 || order == 0;
	case '>':
		return order == 1;
	default:
		return order == 0 || order == 1;
	}
}
