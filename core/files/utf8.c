#include "core/files/utf8.h"

#include <utf8proc.h>

/* The allowed second bytes depend on the first (Unicode 15, table 3-7). */
struct lead {
	uint8_t length, low, high;
};

static struct lead lead_of(uint8_t first) {
	if (first < 0x80)
		return (struct lead){1, 0, 0};
	if (first >= 0xC2 && first <= 0xDF)
		return (struct lead){2, 0x80, 0xBF};
	if (first >= 0xE0 && first <= 0xEF)
		return (struct lead){3, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
	if (first >= 0xF0 && first <= 0xF4)
		return (struct lead){4, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
	return (struct lead){0, 0, 0};
}

/* How many bytes from the first on could stand in one well-formed character. */
static size_t good_bytes(const uint8_t* s, size_t size, struct lead lead) {
	size_t n = 1;
	while (n < lead.length && n < size) {
		uint8_t low = n == 1 ? lead.low : 0x80;
		uint8_t high = n == 1 ? lead.high : 0xBF;
		if (s[n] < low || s[n] > high)
			break;
		n++;
	}
	return n;
}

size_t utf8_character(const char* text, size_t size, uint32_t* code) {
	const uint8_t* s = (const uint8_t*)text;
	struct lead lead = lead_of(s[0]);
	if (lead.length == 0 || good_bytes(s, size, lead) < lead.length)
		return 0;
	if (code) {
		static const uint8_t bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
		uint32_t value = s[0] & bits[lead.length];
		for (size_t i = 1; i < lead.length; i++)
			value = value << 6 | (s[i] & 0x3Fu);
		*code = value;
	}
	return lead.length;
}

bool utf8_is_beginning(const char* text, size_t size) {
	if (size == 0)
		return false;
	struct lead lead = lead_of((uint8_t)text[0]);
	return size < lead.length && good_bytes((const uint8_t*)text, size, lead) == size;
}

size_t utf8_malformed(const char* text, size_t size) {
	struct lead lead = lead_of((uint8_t)text[0]);
	return lead.length < 2 ? 1 : good_bytes((const uint8_t*)text, size, lead);
}

size_t utf8_put(uint32_t code, char out[4]) {
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const uint8_t mark[5] = {0, 0, 0xC0, 0xE0, 0xF0};
	for (size_t i = length - 1; i > 0; i--) {
		out[i] = (char)(0x80u | (code & 0x3Fu));
		code >>= 6;
	}
	out[0] = (char)(mark[length] | code);
	return length;
}

int hexadecimal_digit(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	const char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool utf8_is_white(uint32_t code) {
	if (code < 0x80)
		return code == ' ' || (code >= 9 && code <= 13);
	utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
	return code == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
	       category == UTF8PROC_CATEGORY_ZP;
}

bool utf8_is_word(uint32_t code) {
	if (code < 0x80)
		return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
		       code == '_';
	switch (utf8proc_category((utf8proc_int32_t)code)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_PC:
		return true;
	case UTF8PROC_CATEGORY_SO: /* letters in circles and squares are Alphabetic, though no letters */
		return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
		       (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
	case UTF8PROC_CATEGORY_CF: /* Join_Control */
		return code == 0x200c || code == 0x200d;
	default:
		return false;
	}
}
