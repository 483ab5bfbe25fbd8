/* Valid JSON may contain an escaped NUL, or one half of a surrogate pair: clients cut texts within an emoji.
 * Each becomes U+FFFD, so that one such text in a history does not end the conversation. */
#include "streams/service/body_text.h"

#include <string.h>

#include "core/files/utf8.h"

enum { ESCAPE = 6 }; /* bytes of \u0000 */

/* The unit of a \u escape at `at`; -1: there is none. */
static int unit_at(const char* at, const char* end) {
	int unit = 0;
	if (end - at < ESCAPE || at[0] != '\\' || at[1] != 'u')
		return -1;
	for (int i = 2; i < ESCAPE; i++) {
		const int digit = hexadecimal_digit(at[i]);
		if (digit < 0)
			return -1;
		unit = unit * 16 + digit;
	}
	return unit;
}

static bool is_high(int unit) { return unit >= 0xd800 && unit <= 0xdbff; }
static bool is_low(int unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

/* Mends the escape at `at`, and returns where the text goes on. */
static char* mend_escape(char* at, const char* end) {
	const int unit = unit_at(at, end);
	if (unit < 0)
		return at + (end - at < 2 ? 1 : 2);
	if (is_high(unit) && is_low(unit_at(at + ESCAPE, end)))
		return at + 2 * ESCAPE;
	if (unit == 0 || is_high(unit) || is_low(unit))
		memcpy(at, "\\ufffd", ESCAPE);
	return at + ESCAPE;
}

void body_text_mend(struct text* body) {
	static const char mark[] = "\xef\xbb\xbf";
	char *at = body->data, *const end = at ? at + body->size : NULL;
	if (body->size >= 3 && memcmp(at, mark, 3) == 0)
		memset(at, ' ', 3);
	while (at && at < end && (at = memchr(at, '\\', (size_t)(end - at))))
		at = mend_escape(at, end);
}
