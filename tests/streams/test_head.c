/* A request's head by the letter: what is HTTP, what waits for more, and what is refused with which status.
 */
#include "streams/service/server_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "streams/service/server.h"

#define HOST "Host: a\r\n"

static const struct {
	const char* text;
	int status; /* 200: fine, 0: not all there */
} cases[] = {
    {"GET / HTTP/1.1\r\n" HOST "\r\n", 200},
    {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 200},
    {"GET / HTTP/1.1\nHost: a\n\n", 200},
    {"GET / HTTP/1.0\r\n\r\n", 200},
    {"GET /\xc3\xa4 HTTP/1.1\r\nhost:a\r\nX:\r\nY: \xc3\xa4\t1 \r\n\r\n", 200},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 12 \r\n\r\n{}", 200},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n", 200},
    {"", 0},
    {"\r", 0},
    {"GET / HTTP/1.1\r\n" HOST "\r", 0},
    {"GET / HTTP/1.1\r\n" HOST "X", 0},
    {"\x16\x03\x01", 400},
    {"GET /\r\n", 400},
    {"GET  / HTTP/1.1\r\n", 400},
    {" GET / HTTP/1.1\r\n", 400},
    {"GET / HTTP/1.1 \r\n", 400},
    {"GET / http/1.1\r\n", 400},
    {"G@T / HTTP/1.1\r\n", 400},
    {"GET /\x7f HTTP/1.1\r\n", 400},
    {"GET / HTTP/1.2\r\n", 505},
    {"PRI * HTTP/2.0\r\n", 505},
    {"GET / HTTP/0.9\r\n", 505},
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
    {"GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "X\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "X : 1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "X: 1\r\n folded: 2\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST ": 1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "X: 1\r2\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "X: \x01\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 2, 2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: -2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 9999999999999999999\r\n\r\n", 413},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
};

static int status_of(const char* bytes, size_t size) {
	struct api_error e = {0};
	switch (head_read(bytes, size, &e)) {
	case HEAD_PART:
		return 0;
	case HEAD_WHOLE:
		return 200;
	case HEAD_REFUSED:
		assert_true(e.message[0]);
		return e.status;
	}
	return -1;
}

static void known_heads(void** state) {
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (status_of(cases[i].text, strlen(cases[i].text)) != cases[i].status)
			print_error("%s", cases[i].text);
		assert_int_equal(status_of(cases[i].text, strlen(cases[i].text)), cases[i].status);
	}
	static const char nul[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
	assert_int_equal(status_of(nul, sizeof nul - 1), 400);
}

/* However much of it has come, what is fine in the end was never refused, and what was refused stays so. */
static void prefixes(void** state) {
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool refused = false;
		for (size_t n = 0; n <= strlen(cases[i].text); n++) {
			const int said = status_of(cases[i].text, n);
			assert_false(refused && said < 400);
			refused |= said >= 400;
		}
		assert_true(refused == (cases[i].status >= 400));
	}
}

static void large_ones(void** state) {
	(void)state;
	static char text[SERVER_HEADERS + 100];
	memset(text, 'x', sizeof text);
	assert_int_equal(status_of(text, SERVER_HEADERS), 0);
	assert_int_equal(status_of(text, SERVER_HEADERS + 1), 414);
	memcpy(text, "GET / HTTP/1.1\r\n", 16);
	assert_int_equal(status_of(text, SERVER_HEADERS + 1), 431);
	size_t n = 16;
	for (int i = 0; i <= HEAD_FIELDS; i++, n += 6)
		memcpy(text + n, "a: b\r\n", 6);
	memcpy(text + n, "\r\n", 2);
	assert_int_equal(status_of(text, n + 2), 431);
}

/* A head that goes to the thread of its path alone. */
static void heads_of_a_path(void** state) {
	(void)state;
	static const struct {
		const char* text;
		bool gets;
	} head[] = {
	    {"GET /health HTTP/1.1\r\n" HOST "\r\n", true},
	    {"HEAD /health?a=b HTTP/1.1\n" HOST "\n", true},
	    {"GET /healthy HTTP/1.1\r\n" HOST "\r\n", false},
	    {"GET /health/ HTTP/1.1\r\n" HOST "\r\n", false},
	    {"GET /v1/health HTTP/1.1\r\n" HOST "\r\n", false},
	    {"POST /health HTTP/1.1\r\n" HOST "\r\n", false},
	    {"GET /health HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", false},
	    {"GET /health HTTP/1.1\r\n" HOST "transfer-encoding:chunked\r\n\r\n", false},
	    {"GET /health HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n", false},
	};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
		if (head_gets(head[i].text, strlen(head[i].text), "/health") != head[i].gets)
			print_error("%s", head[i].text);
		assert_int_equal(head_gets(head[i].text, strlen(head[i].text), "/health"), head[i].gets);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(known_heads), cmocka_unit_test(prefixes),
	                                   cmocka_unit_test(large_ones), cmocka_unit_test(heads_of_a_path)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
