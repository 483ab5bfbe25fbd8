/* Decompresses request bodies by zlib. A small body may expand to a huge one, so output stops at the
 * limit. */
#include "streams/service/body_coding.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

bool body_coding_known(const char* coding) {
	return strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0 ||
	       strcasecmp(coding, "deflate") == 0;
}

/* Decompresses the whole stream, a part at a time. Z_STREAM_END when it was whole, Z_BUF_ERROR when it is cut
 * short. A gzip body may have several members. */
static int inflate_all(z_stream* stream, size_t most, struct text* out) {
	unsigned char part[16384];
	int status = Z_OK;
	while (status == Z_OK && out->size <= most && !out->failed) {
		stream->next_out = part;
		stream->avail_out = sizeof part;
		status = inflate(stream, Z_NO_FLUSH);
		text_add(out, part, sizeof part - stream->avail_out);
		if (status == Z_STREAM_END && stream->avail_in > 0)
			status = inflateReset(stream);
	}
	return status;
}

/* Some clients send deflate without zlib's header, of which the check is a multiple of 31. */
static bool is_bare(const struct text* body, const char* coding) {
	const unsigned char* b = (const unsigned char*)body->data;
	return strcasecmp(coding, "deflate") == 0 && body->size >= 2 &&
	       ((b[0] & 15) != Z_DEFLATED || (b[0] * 256 + b[1]) % 31 != 0);
}

bool body_decompress(struct text* body, const char* coding, size_t most, struct api_error* e) {
	enum { GZIP_OR_ZLIB = 32 }; /* the header names it */
	z_stream stream = {.next_in = (unsigned char*)body->data, .avail_in = (unsigned)body->size};
	struct text out = {0};
	if (inflateInit2(&stream, is_bare(body, coding) ? -MAX_WBITS : MAX_WBITS + GZIP_OR_ZLIB) != Z_OK)
		return api_no_memory(e);
	const int status = inflate_all(&stream, most, &out);
	inflateEnd(&stream);
	text_free(body);
	if (status == Z_STREAM_END && out.size <= most && !out.failed) {
		*body = out;
		return true;
	}
	const bool large = out.size > most, failed = out.failed;
	text_free(&out);
	if (failed)
		return api_no_memory(e);
	return large ? api_fail(e, 413, "too_large", "The body, decompressed, is larger than %zu bytes.", most)
	             : api_fail(
	                   e, 400, "invalid_body",
	                   "The body does not match its Content-Encoding, or it is cut short: send it whole, or "
	                   "without compression.");
}
