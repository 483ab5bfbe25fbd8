/* Reading protobuf's wire format within bounds: a cursor over bytes that yields one field at a time. */
#ifndef SWIFTLET_CORE_FILES_PROTOBUF_H
#define SWIFTLET_CORE_FILES_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
	const uint8_t* at;
	const uint8_t* end;
	const char* wrong; /* why reading stopped early, NULL when it did not */
};

enum { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
	uint32_t number, wire;
	uint64_t value;       /* of a varint or a fixed number */
	const uint8_t* bytes; /* (size) of a PROTOBUF_BYTES field; into the data */
	size_t size;
};

/* False at the end, and on broken data with `wrong` set. */
bool protobuf_next(struct protobuf*, struct protobuf_field*);

#endif
