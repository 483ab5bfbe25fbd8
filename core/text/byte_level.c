#include "core/text/byte_level.h"

#include "core/files/utf8.h"

static bool is_printable(unsigned byte) {
	return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The bytes that do not print, in order: 0x00-0x20 are the first 33, then 0x7F-0xA0, then 0xAD. */
static uint32_t character_of(unsigned byte) {
	if (is_printable(byte))
		return byte;
	if (byte <= 0x20)
		return 0x100 + byte;
	return byte == 0xAD ? 0x100 + 67 : 0x100 + 33 + (byte - 0x7F);
}

static int byte_of(uint32_t code) {
	if (code < 0x100)
		return is_printable(code) ? (int)code : -1;
	if (code <= 0x120)
		return (int)(code - 0x100);
	if (code < 0x100 + 67)
		return (int)(code - 0x121 + 0x7F);
	return code == 0x100 + 67 ? 0xAD : -1;
}

void byte_level_write(struct buffer* out, const char* bytes, size_t size) {
	char text[256];
	size_t n = 0;
	for (size_t i = 0; i < size; i++) {
		const unsigned byte = (uint8_t)bytes[i];
		if (byte >= 0x21 && byte <= 0x7E)
			text[n++] = bytes[i];
		else
			n += utf8_put(character_of(byte), text + n);
		if (n > sizeof text - 4 || i + 1 == size) {
			buffer_add(out, text, n);
			n = 0;
		}
	}
}

bool byte_level_read(struct buffer* out, const char* text, size_t size) {
	size_t before = out->size;
	for (size_t at = 0; at < size;) {
		uint32_t code;
		size_t length = utf8_character(text + at, size - at, &code);
		int byte = length > 0 ? byte_of(code) : -1;
		if (byte < 0) {
			out->size = before;
			return false;
		}
		char c = (char)(uint8_t)byte;
		buffer_add(out, &c, 1);
		at += length;
	}
	return true;
}
