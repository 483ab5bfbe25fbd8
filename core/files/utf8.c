#include "core/files/utf8.h"

#include <string.h>

#include <utf8proc.h>

size_t utf8_character(const char* text, size_t size, uint32_t* code) {
	const uint8_t* const b = (const uint8_t*)text;
	uint32_t value = b[0];
	size_t length = 1;
	if (value >= 0x80) {
		static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
		length = value >= 0xF0 ? 4 : value >= 0xE0 ? 3 : 2;
		if (value < 0xC2 || value > 0xF4 || length > size)
			return 0;
		value &= 0xFFu >> (length + 1);
		for (size_t i = 1; i < length; i++) {
			if ((b[i] & 0xC0) != 0x80)
				return 0;
			value = value << 6 | (b[i] & 0x3F);
		}
		if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
			return 0;
	}
	if (code)
		*code = value;
	return length;
}

size_t utf8_character_before(const char* text, size_t end, uint32_t* code) {
	for (size_t length = 1; length <= 4 && length <= end; length++)
		if (utf8_character(text + end - length, length, code) == length)
			return length;
	return 0;
}

/* If any continuation byte is valid, so is the least or the greatest one. */
bool utf8_is_beginning(const char* text, size_t size) {
	char whole[4];
	for (size_t length = size + 1; size > 0 && length <= sizeof whole; length++)
		for (int greatest = 0; greatest < 2; greatest++) {
			memset(whole, greatest ? 0xBF : 0x80, sizeof whole);
			memcpy(whole, text, size);
			if (utf8_character(whole, length, NULL) == length)
				return true;
		}
	return false;
}

size_t utf8_malformed(const char* text, size_t size) {
	size_t n = size < 4 ? size : 3;
	while (n > 1 && !utf8_is_beginning(text, n))
		n--;
	return n;
}

size_t utf8_put(uint32_t code, char out[4]) {
	return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t*)out);
}

int hexadecimal_digit(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	const char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

uint32_t utf8_category(uint32_t code) {
	return code > 0x10FFFF ? 0 : UINT32_C(1) << utf8proc_category((utf8proc_int32_t)code);
}

bool utf8_is_white(uint32_t code) {
	if (code < 0x80)
		return code == ' ' || (code >= 9 && code <= 13);
	return code == 0x85 || utf8_category(code) & (UTF8_CATEGORY(ZS) | UTF8_CATEGORY(ZL) | UTF8_CATEGORY(ZP));
}

bool utf8_is_word(uint32_t code) {
	static const uint32_t words = UTF8_CATEGORY(LU) | UTF8_CATEGORY(LL) | UTF8_CATEGORY(LT) |
	                              UTF8_CATEGORY(LM) | UTF8_CATEGORY(LO) | UTF8_CATEGORY(MN) |
	                              UTF8_CATEGORY(MC) | UTF8_CATEGORY(ME) | UTF8_CATEGORY(ND) |
	                              UTF8_CATEGORY(NL) | UTF8_CATEGORY(PC);
	if (utf8_category(code) & words)
		return true;
	/* Circled and squared letters are Alphabetic, though no letters. The last two are Join_Control. */
	return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
	       (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189) || code == 0x200c ||
	       code == 0x200d;
}
