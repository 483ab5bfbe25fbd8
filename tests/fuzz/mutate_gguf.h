/* Changes an input as a GGUF file: a value or a tensor is removed, repeated, moved, or gets another's key,
 * type, number, shape or place; a string or an array becomes longer or shorter. Counts and lengths follow, or
 * sometimes lie. Changed bytes seldom leave a file that a reader goes far with. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/mutator.h"

enum { GGUF_PARTS = 1024, GGUF_HEAD = 24 };

struct gguf_part {
	uint8_t* data; /* owned */
	size_t size;
};

/* The values, then the tensors, and the bytes behind them. */
struct gguf_parts {
	struct gguf_part part[GGUF_PARTS];
	int n, values;
	const uint8_t* rest;
	size_t rest_size;
};

static uint64_t number_at(const uint8_t* data, int bytes) {
	uint64_t number = 0;
	memcpy(&number, data, (size_t)bytes);
	return number;
}

/* The bytes of a string, an element or an array; 0: they do not lie within `left`. */
static size_t element_size(const uint8_t* data, size_t left, uint32_t type) {
	static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
	size_t at = 12;
	if (type < sizeof size && size[type])
		return size[type] <= left ? size[type] : 0;
	if (type == 8)
		return left >= 8 && number_at(data, 8) <= left - 8 ? 8 + (size_t)number_at(data, 8) : 0;
	if (type != 9 || left < at)
		return 0;
	const uint32_t element = (uint32_t)number_at(data, 4);
	for (uint64_t n = number_at(data + 4, 8); n > 0; n--) {
		const size_t one = element == 9 ? 0 : element_size(data + at, left - at, element);
		if (!one)
			return 0;
		at += one;
	}
	return at;
}

static size_t part_size(const uint8_t* data, size_t left, bool tensor) {
	const size_t name = element_size(data, left, 8);
	if (!name || left - name < 4)
		return 0;
	const uint32_t kind = (uint32_t)number_at(data + name, 4);
	const size_t rest = left - name - 4;
	if (!tensor) {
		const size_t value = element_size(data + name + 4, rest, kind);
		return value ? name + 4 + value : 0;
	}
	return kind <= 8 && rest >= 8 * kind + 12 ? name + 4 + 8 * kind + 12 : 0;
}

static bool is_whole(const struct gguf_part* part, bool tensor) {
	return part_size(part->data, part->size, tensor) == part->size;
}

static struct gguf_part copy_part(const uint8_t* data, size_t size) {
	struct gguf_part part = {malloc(size ? size : 1), size};
	memcpy(part.data, data, size);
	return part;
}

static bool split_gguf(const uint8_t* data, size_t size, struct gguf_parts* p) {
	if (size < GGUF_HEAD || memcmp(data, "GGUF", 4) != 0)
		return false;
	const uint64_t tensors = number_at(data + 8, 8), values = number_at(data + 16, 8);
	size_t at = GGUF_HEAD;
	if (tensors > GGUF_PARTS / 2 || values > GGUF_PARTS / 2 - 8)
		return false;
	p->values = (int)values;
	while ((uint64_t)p->n < values + tensors) {
		const size_t one = part_size(data + at, size - at, p->n >= p->values);
		if (!one)
			return false;
		p->part[p->n++] = copy_part(data + at, one);
		at += one;
	}
	p->rest = data + at;
	p->rest_size = size - at;
	return true;
}

static size_t name_size(const struct gguf_part* part) { return 8 + (size_t)number_at(part->data, 8); }

/* Puts `size` bytes in place of `old` bytes. */
static void put_bytes(struct gguf_part* part, size_t at, size_t old, const uint8_t* bytes, size_t size) {
	uint8_t* const data = malloc(part->size - old + size + 1);
	memcpy(data, part->data, at);
	memcpy(data + at, bytes, size);
	memcpy(data + at + size, part->data + at + old, part->size - at - old);
	free(part->data);
	*part = (struct gguf_part){data, part->size - old + size};
}

static uint64_t extreme_number(uint32_t* random) {
	static const uint64_t number[] = {
	    0,          1,          2,          3,          4,          7,           8,          31,
	    32,         33,         255,        4096,       0x7fffffff, 0x80000000u, 0xffffffff, 1ull << 32,
	    1ull << 62, 1ull << 63, UINT64_MAX, 0x7f800000, 0x7fc00000, 0x3f800000,  0x00000001, UINT64_MAX - 31};
	return number[draw_number(random, sizeof number / sizeof *number)];
}

/* Of a length, an array's count or a number. */
static void put_number(struct gguf_part* part, size_t at, size_t bytes, uint64_t number) {
	if (at + bytes <= part->size)
		memcpy(part->data + at, &number, bytes);
}

/* A string gets bytes of its own again or loses some; its length says so. */
static void change_string(uint32_t* random, struct gguf_part* part, size_t at) {
	const size_t size = (size_t)number_at(part->data + at, 8);
	const size_t from = size ? draw_number(random, (uint32_t)size) : 0, n = size - from;
	uint8_t* const bytes = copy_part(part->data + at + 8 + from, n).data;
	const bool longer = draw_number(random, 2) == 0;
	put_bytes(part, at + 8 + (longer ? size : from), longer ? 0 : n, bytes, longer ? n : 0);
	put_number(part, at, 8, longer ? size + n : from);
	free(bytes);
}

/* An array's last elements go, or are there twice; its count says so. */
static void change_array(uint32_t* random, struct gguf_part* part, size_t at) {
	const uint32_t type = (uint32_t)number_at(part->data + at, 4);
	const uint64_t count = number_at(part->data + at + 4, 8);
	size_t from = at + 12;
	const uint32_t keep = count ? draw_number(random, (uint32_t)count) : 0;
	for (uint32_t i = 0; i < keep; i++)
		from += element_size(part->data + from, part->size - from, type);
	const size_t n = part->size - from;
	const struct gguf_part tail = copy_part(part->data + from, n);
	const uint32_t what = draw_number(random, 3);
	if (what == 0) {
		put_bytes(part, from, n, tail.data, 0);
		put_number(part, at + 4, 8, keep);
	} else if (what == 1) {
		put_bytes(part, part->size, 0, tail.data, n);
		put_number(part, at + 4, 8, count + count - keep);
	} else if (type == 8 && n > 8) {
		change_string(random, part, from);
	} else if (n > 0) {
		const size_t one = element_size(part->data + from, n, type);
		put_number(part, from, one < 8 ? one : 8, extreme_number(random));
	}
	free(tail.data);
}

static void change_metadata(uint32_t* random, struct gguf_part* part) {
	const size_t at = name_size(part) + 4;
	const uint32_t type = (uint32_t)number_at(part->data + at - 4, 4);
	if (draw_number(random, 12) == 0)
		put_number(part, at - 4, 4, draw_number(random, 14));
	else if (draw_number(random, 12) == 0 && (type == 8 || type == 9))
		put_number(part, type == 8 ? at : at + 4, 8, extreme_number(random));
	else if (type == 8)
		change_string(random, part, at);
	else if (type == 9)
		change_array(random, part, at);
	else
		put_number(part, at, part->size - at < 8 ? part->size - at : 8, extreme_number(random));
}

static void change_tensor(uint32_t* random, struct gguf_part* part, const struct gguf_part* other) {
	const size_t at = name_size(part) + 4, from = name_size(other);
	const uint32_t dims = (uint32_t)number_at(part->data + at - 4, 4);
	switch (draw_number(random, 5)) {
	case 0: /* another's shape, type and place */
		put_bytes(part, at - 4, part->size - at + 4, other->data + from, other->size - from);
		break;
	case 1:
		put_number(part, part->size - 12, 4, draw_number(random, 44));
		break;
	case 2:
		put_number(part, part->size - 8, 8, 32 * extreme_number(random));
		break;
	case 3: { /* one dimension more, or one less */
		const uint64_t one = 1;
		const bool more = dims == 0 || draw_number(random, 2) == 0;
		put_bytes(part, at, more ? 0 : 8, (const uint8_t*)&one, more ? 8 : 0);
		put_number(part, at - 4, 4, more ? dims + 1 : dims - 1);
		break;
	}
	default:
		if (dims > 0)
			put_number(part, at + 8 * draw_number(random, dims), 8, extreme_number(random));
	}
}

static void insert_part(struct gguf_parts* p, int at, struct gguf_part part) {
	memmove(p->part + at + 1, p->part + at, (size_t)(p->n - at) * sizeof *p->part);
	p->part[at] = part;
	p->n++;
}

static void remove_part(struct gguf_parts* p, int at) {
	free(p->part[at].data);
	p->n--;
	memmove(p->part + at, p->part + at + 1, (size_t)(p->n - at) * sizeof *p->part);
}

static void change_part(uint32_t* random, struct gguf_parts* p) {
	const bool tensor = draw_number(random, 3) == 0;
	const int first = tensor ? p->values : 0, n = tensor ? p->n - p->values : p->values;
	if (n == 0 || p->n >= GGUF_PARTS - 1)
		return;
	const int at = first + (int)draw_number(random, (uint32_t)n);
	const int other = first + (int)draw_number(random, (uint32_t)n);
	struct gguf_part* const part = &p->part[at];
	if (!is_whole(part, tensor) || !is_whole(&p->part[other], tensor))
		return; /* it was made to lie */
	switch (draw_number(random, 8)) {
	case 0:
		remove_part(p, at);
		p->values -= !tensor;
		break;
	case 1: /* under its own name still, or another's */
		insert_part(p, at, copy_part(p->part[other].data, p->part[other].size));
		p->values += !tensor;
		break;
	case 2: { /* another's name */
		const struct gguf_part name = copy_part(p->part[other].data, name_size(&p->part[other]));
		put_bytes(part, 0, name_size(part), name.data, name.size);
		free(name.data);
		break;
	}
	case 3: { /* another's place in the file */
		const struct gguf_part moved = *part;
		*part = p->part[other];
		p->part[other] = moved;
		break;
	}
	default:
		if (tensor)
			change_tensor(random, part, &p->part[other]);
		else
			change_metadata(random, part);
	}
}

/* The file again; its size, or 0 when it is too long. */
static size_t join_gguf(uint32_t* random, const struct gguf_parts* p, uint8_t* data, size_t most) {
	const bool lies = draw_number(random, 40) == 0;
	const uint64_t tensors = lies ? extreme_number(random) : (uint64_t)(p->n - p->values);
	const uint64_t values = (uint64_t)p->values;
	size_t at = GGUF_HEAD, size = GGUF_HEAD + 32 + p->rest_size;
	uint8_t* const rest = copy_part(p->rest, p->rest_size).data;
	for (int i = 0; i < p->n; i++)
		size += p->part[i].size;
	if (size > most) {
		free(rest);
		return 0;
	}
	memcpy(data + 8, &tensors, 8);
	memcpy(data + 16, &values, 8);
	for (int i = 0; i < p->n; i++) {
		memcpy(data + at, p->part[i].data, p->part[i].size);
		at += p->part[i].size;
	}
	/* the data begin at a multiple of 32, as before */
	size_t skip = 0;
	while (skip < p->rest_size && skip < 31 && rest[skip] == 0)
		skip++;
	for (; at % 32; at++)
		data[at] = 0;
	memcpy(data + at, rest + skip, p->rest_size - skip);
	at += p->rest_size - skip;
	free(rest);
	return at;
}

static size_t mutate_gguf(uint8_t* data, size_t size, size_t most, unsigned seed) {
	uint32_t random = seed;
	struct gguf_parts* const p = calloc(1, sizeof *p);
	size_t changed = 0;
	if (draw_number(&random, 5) > 0 && split_gguf(data, size, p)) {
		for (uint32_t n = 1 + draw_number(&random, 4); n > 0; n--)
			change_part(&random, p);
		changed = join_gguf(&random, p, data, most);
	}
	for (int i = 0; i < p->n; i++)
		free(p->part[i].data);
	free(p);
	return changed ? changed : LLVMFuzzerMutate(data, size, most);
}
