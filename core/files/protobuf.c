#include "core/files/protobuf.h"

static bool stop(struct protobuf* p, const char* why) {
	p->wrong = why;
	p->at = p->end;
	return false;
}

/* Seven bits a byte, lowest first; ten bytes hold 64 bits. */
static bool read_varint(struct protobuf* p, uint64_t* value) {
	*value = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (p->at == p->end)
			return stop(p, "a number is cut off");
		uint8_t byte = *p->at++;
		if (shift == 63 && byte > 1)
			return stop(p, "a number is longer than 64 bits");
		*value |= (uint64_t)(byte & 0x7F) << shift;
		if (byte < 0x80)
			return true;
	}
	return stop(p, "a number is longer than 64 bits");
}

static bool read_fixed(struct protobuf* p, unsigned bytes, uint64_t* value) {
	if ((size_t)(p->end - p->at) < bytes)
		return stop(p, "a number is cut off");
	*value = 0;
	for (unsigned i = 0; i < bytes; i++)
		*value |= (uint64_t)p->at[i] << (8 * i);
	p->at += bytes;
	return true;
}

bool protobuf_next(struct protobuf* p, struct protobuf_field* field) {
	uint64_t key;
	if (p->at == p->end || !read_varint(p, &key))
		return false;
	if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
		return stop(p, "a field has an impossible number");
	*field = (struct protobuf_field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
	switch (field->wire) {
	case PROTOBUF_VARINT:
		return read_varint(p, &field->value);
	case PROTOBUF_FIXED64:
		return read_fixed(p, 8, &field->value);
	case PROTOBUF_FIXED32:
		return read_fixed(p, 4, &field->value);
	case PROTOBUF_BYTES:
		if (!read_varint(p, &field->value))
			return false;
		if (field->value > (uint64_t)(p->end - p->at))
			return stop(p, "a field reaches past the end");
		field->bytes = p->at;
		field->size = (size_t)field->value;
		p->at += field->size;
		return true;
	default:
		return stop(p, "a field has a wire type that protobuf does not use");
	}
}
