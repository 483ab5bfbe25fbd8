/* Normalizers that look at one character after another. */
#include <utf8proc.h>

#include "core/files/utf8.h"
#include "core/text/steps.h"

static bool is_mark(uint32_t c) {
	const utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
	return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

/* What BERT's cleaning drops: controls but for white space, formats, private characters. */
static bool is_dirt(uint32_t c) {
	const utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
	if (c == '\t' || c == '\n' || c == '\r')
		return false;
	return c == 0xfffd || kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
	       kind == UTF8PROC_CATEGORY_CO;
}

static bool is_between(uint32_t c, const uint32_t (*range)[2], size_t n) {
	for (size_t i = 0; i < n; i++)
		if (c >= range[i][0] && c <= range[i][1])
			return true;
	return false;
}
#define IS_IN(c, list) is_between(c, list, sizeof list / sizeof *list)

/* Those around which BERT writes spaces, its gap at U+2B820 included. */
static const uint32_t ideographs[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},
                                         {0x2f800, 0x2fa1f}};
/* What sentencepiece's rules for machine translation drop, and what becomes a space. */
static const uint32_t nmt_dropped[][2] = {{1, 8},       {0xb, 0xb},   {0xe, 0x1f},
                                          {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
static const uint32_t nmt_spaces[][2] = {{9, 0xa},         {0xc, 0xd},       {0x1680, 0x1680},
                                         {0x200b, 0x200f}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                         {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};

static void add_code(struct buffer* out, uint32_t c) {
	utf8proc_uint8_t bytes[4];
	buffer_add(out, bytes, (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes));
}

static void add_small(struct buffer* out, uint32_t c) {
	add_code(out, c == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
	if (c == 0x130) /* the one capital whose small letter is two characters */
		add_code(out, 0x307);
}

static void add_character(enum step_kind kind, uint32_t c, struct buffer* out) {
	const bool spaced = kind == STEP_SPACED_IDEOGRAPHS && IS_IN(c, ideographs);
	if (kind == STEP_LOWERCASE) {
		add_small(out, c);
		return;
	}
	if ((kind == STEP_NO_MARKS && is_mark(c)) || (kind == STEP_CLEAN && (c == 0 || is_dirt(c))) ||
	    (kind == STEP_NO_ACCENTS && utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN) ||
	    (kind == STEP_NMT && IS_IN(c, nmt_dropped)))
		return;
	if ((kind == STEP_CLEAN && utf8_is_white(c)) || (kind == STEP_NMT && IS_IN(c, nmt_spaces)))
		c = ' ';
	if (spaced)
		buffer_add(out, " ", 1);
	add_code(out, c);
	if (spaced)
		buffer_add(out, " ", 1);
}

void steps_rewrite_characters(enum step_kind kind, const char* text, size_t size, struct buffer* out) {
	uint32_t c;
	for (size_t at = 0, length; at < size; at += length) {
		length = utf8_character(text + at, size - at, &c);
		if (length == 0)
			return; /* never: the text is well-formed */
		add_character(kind, c, out);
	}
}
