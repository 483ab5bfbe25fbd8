/* Reads GGUF from front to back. Every count is compared with the bytes that are left. */
#include "core/files/gguf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/error_in.h"
#include "core/files/grow.h"

enum { MAX_NESTING = 4, MAX_ALIGNMENT = 1 << 20 };

/* ---- a cursor over the file's bytes ------------------------------------------------------- */

struct cursor {
	const uint8_t *start, *at, *end;
	const char* file;
	struct error* error;
};
#define fail(c, ...) error_in((c)->error, (c)->file, __VA_ARGS__)

static size_t bytes_left(const struct cursor* c) { return (size_t)(c->end - c->at); }

static bool report_end(const struct cursor* c, const char* what) {
	return fail(c, "the file ends within %s, at byte %zu of %zu", what, (size_t)(c->at - c->start),
	            (size_t)(c->end - c->start));
}

static uint64_t load_number(const uint8_t* data, size_t bytes) {
	uint64_t value = 0;
	for (size_t i = bytes; i-- > 0;)
		value = value << 8 | data[i];
	return value;
}

static bool take_number(struct cursor* c, size_t bytes, uint64_t* out, const char* what) {
	if (bytes_left(c) < bytes)
		return report_end(c, what);
	*out = load_number(c->at, bytes);
	c->at += bytes;
	return true;
}

static bool take_string(struct cursor* c, const char** out, size_t* size, const char* what) {
	uint64_t n = 0;
	if (!take_number(c, 8, &n, what))
		return false;
	if (n > bytes_left(c))
		return fail(c, "the length of %s is %llu, but the file has %zu bytes left", what,
		            (unsigned long long)n, bytes_left(c));
	*out = (const char*)c->at;
	*size = (size_t)n;
	c->at += n;
	return true;
}

/* ---- values ------------------------------------------------------------------------------- */

/* Bytes of a scalar; 0 for strings and arrays. */
static size_t scalar_bytes(enum gguf_type type) {
	static const uint8_t bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
	return bytes[type];
}

static bool take_type(struct cursor* c, enum gguf_type* out, const char* key) {
	uint64_t type = 0;
	if (!take_number(c, 4, &type, key))
		return false;
	if (type >= GGUF_TYPES)
		return fail(c, "%s has value type %u, expected 0 to %d", key, (unsigned)type, GGUF_TYPES - 1);
	*out = (enum gguf_type)type;
	return true;
}

/* Passes over n values of a type. */
static bool skip_values(struct cursor* c, enum gguf_type type, uint64_t n, int depth, const char* key) {
	/* The fewest bytes that one value takes: a scalar itself, a string its length, an array its type and
	 * count. */
	const size_t least = type == GGUF_STRING ? 8 : type == GGUF_ARRAY ? 12 : scalar_bytes(type);
	if (n > bytes_left(c) / least)
		return fail(c, "%s has %llu elements, more than the file's %zu bytes left can hold", key,
		            (unsigned long long)n, bytes_left(c));
	if (type != GGUF_STRING && type != GGUF_ARRAY) {
		c->at += n * least;
		return true;
	}
	if (type == GGUF_ARRAY && depth == MAX_NESTING)
		return fail(c, "%s nests arrays deeper than %d", key, MAX_NESTING);
	for (uint64_t i = 0; i < n; i++) {
		const char* text;
		size_t size;
		enum gguf_type inner = GGUF_U8;
		uint64_t count = 0;
		const bool good = type == GGUF_STRING ? take_string(c, &text, &size, key)
		                                      : take_type(c, &inner, key) && take_number(c, 8, &count, key) &&
		                                            skip_values(c, inner, count, depth + 1, key);
		if (!good)
			return false;
	}
	return true;
}

static bool take_value(struct gguf* g, struct cursor* c) {
	struct gguf_value v = {.n = 1};
	char key[80];
	if (!take_string(c, &v.key, &v.key_size, "a key"))
		return false;
	if (v.key_size == 0)
		return fail(c, "metadata value %zu has an empty key", g->n);
	snprintf(key, sizeof key, "%.*s", (int)(v.key_size < sizeof key ? v.key_size : sizeof key - 1), v.key);
	if (!take_type(c, &v.type, key))
		return false;
	v.element = v.type;
	if (v.type == GGUF_ARRAY && (!take_type(c, &v.element, key) || !take_number(c, 8, &v.n, key)))
		return false;
	v.data = c->at;
	if (!skip_values(c, v.element, v.n, v.type == GGUF_ARRAY, key))
		return false;
	if (!grow_by_one(&g->value, g->n, sizeof *g->value))
		return fail(c, "out of memory");
	g->value[g->n++] = v;
	return true;
}

static int by_key(const void* a, const void* b) {
	const struct gguf_value *x = a, *y = b;
	const int order = memcmp(x->key, y->key, x->key_size < y->key_size ? x->key_size : y->key_size);
	return order ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

static bool take_values(struct gguf* g, struct cursor* c, uint64_t n) {
	for (uint64_t i = 0; i < n; i++)
		if (!take_value(g, c))
			return false;
	if (g->n)
		qsort(g->value, g->n, sizeof *g->value, by_key);
	for (size_t i = 1; i < g->n; i++)
		if (by_key(&g->value[i - 1], &g->value[i]) == 0)
			return fail(c, "key %.*s occurs twice",
			            (int)(g->value[i].key_size < 120 ? g->value[i].key_size : 120), g->value[i].key);
	return true;
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* ggml's types by number. Types without kernels are listed so that messages can name them. */
static const char* const tensor_types[] = {
    "F32",    "F16",   "Q4_0",         "Q4_1",   [6] = "Q5_0",   "Q5_1",    "Q8_0",   "Q8_1",    "Q2_K",
    "Q3_K",   "Q4_K",  "Q5_K",         "Q6_K",   "Q8_K",         "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S",        "IQ4_XS", "I8",           "I16",     "I32",    "I64",     "F64",
    "IQ1_M",  "BF16",  [34] = "TQ1_0", "TQ2_0",  [39] = "MXFP4", "NVFP4",   "Q1_0",   "Q2_0"};

/* Types that are converted when a model is opened (core/model/repack.h): elements and bytes of a block. */
static const struct few_bits {
	const char* name;
	int elements, bytes;
} few_bits[] = {{"Q1_0", 128, 18}, {"Q2_0", 64, 18}, {"NVFP4", 64, 36}};

static const struct few_bits* find_few_bits(const char* type) {
	for (size_t i = 0; i < sizeof few_bits / sizeof *few_bits; i++)
		if (strcmp(few_bits[i].name, type) == 0)
			return &few_bits[i];
	return NULL;
}

static size_t row_bytes(const struct named_tensor* t, int64_t cols) {
	const struct few_bits* few = find_few_bits(t->type_name);
	if (!few)
		return dtype_row_bytes(t->type, cols);
	return cols % few->elements ? 0 : (size_t)(cols / few->elements) * (size_t)few->bytes;
}

static void set_type(struct named_tensor* t, uint32_t number) {
	const bool known = number < sizeof tensor_types / sizeof *tensor_types && tensor_types[number];
	if (known)
		snprintf(t->type_name, sizeof t->type_name, "%s", tensor_types[number]);
	else
		snprintf(t->type_name, sizeof t->type_name, "number %u", number);
	t->supported = known && dtype_parse(t->type_name, &t->type);
}

/* The tensor's bytes; 0 if its type is unknown. */
static bool count_bytes(struct named_tensor* t, const char* name, struct error* error) {
	int64_t rows = 1;
	for (int i = 0; i + 1 < t->n_dims; i++)
		if (__builtin_mul_overflow(rows, t->dim[i], &rows))
			return error_set(error, "%s: tensor %s is larger than any file", t->file, name);
	t->bytes = 0;
	const struct few_bits* few = find_few_bits(t->type_name);
	if (!t->supported && !few)
		return true;
	const int64_t cols = t->dim[t->n_dims - 1];
	/* More than 2^48 elements are refused; up to that, bytes cannot overflow. */
	const size_t row = cols < (int64_t)1 << 48 ? row_bytes(t, cols) : 0;
	if (row == 0)
		return error_set(error, "%s: tensor %s has rows of %lld elements, expected whole blocks of %d for %s",
		                 t->file, name, (long long)cols, few ? few->elements : dtype_block(t->type),
		                 t->type_name);
	if (__builtin_mul_overflow((size_t)rows, row, &t->bytes))
		return error_set(error, "%s: tensor %s is larger than any file", t->file, name);
	return true;
}

/* Reads one tensor's description. `data` holds its offset until the data's start is known. */
static bool take_tensor(struct cursor* c, struct tensor_table* table) {
	struct named_tensor t = {.file = c->file};
	const char* text = "";
	size_t size = 0;
	uint64_t dims = 0, dim = 0, type = 0, offset = 0;
	char name[80];
	if (!take_string(c, &text, &size, "a tensor's name"))
		return false;
	snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), text);
	if (size == 0 || size >= sizeof name || strlen(name) != size)
		return fail(c, "a tensor's name is empty, longer than %zu bytes or holds a NUL", sizeof name - 1);
	if (!take_number(c, 4, &dims, name))
		return false;
	if (dims < 1 || dims > GGUF_DIMS)
		return fail(c, "tensor %s has %u dimensions, expected 1 to %d", name, (unsigned)dims, GGUF_DIMS);
	t.n_dims = (int)dims;
	for (int i = t.n_dims; i-- > 0;) {
		if (!take_number(c, 8, &dim, name))
			return false;
		if (dim < 1 || dim > INT64_MAX)
			return fail(c, "tensor %s has a size of %llu", name, (unsigned long long)dim);
		t.dim[i] = (int64_t)dim;
	}
	if (!take_number(c, 4, &type, name) || !take_number(c, 8, &offset, name))
		return false;
	set_type(&t, (uint32_t)type);
	if (!count_bytes(&t, name, c->error))
		return false;
	if (offset > (uint64_t)(c->end - c->start))
		return fail(
		    c,
		    "tensor %s begins at byte %llu of the data, past the end of the file: it is cut short or broken",
		    name, (unsigned long long)offset);
	t.data = c->start + offset;
	return tensor_table_add(table, &t, name, size) || fail(c, "out of memory");
}

/* Turns offsets into addresses, and checks that each tensor is aligned, lies in the file and overlaps no
 * other. */
static bool place_tensors(struct cursor* c, struct named_tensor* item, size_t n, uint64_t alignment) {
	const size_t at = (size_t)(c->at - c->start), size = (size_t)(c->end - c->start);
	const size_t padding = (size_t)((alignment - at % alignment) % alignment);
	if (n && padding > bytes_left(c))
		return report_end(c, "the padding before the tensor data");
	for (size_t i = 0; i < n; i++) {
		const size_t offset = (size_t)(item[i].data - c->start), room = size - at - padding;
		if (offset % alignment)
			return fail(c,
			            "tensor %s begins at byte %zu of the data, not a multiple of the "
			            "alignment %llu",
			            item[i].name, offset, (unsigned long long)alignment);
		if (offset > room || item[i].bytes > room - offset)
			return fail(c,
			            "tensor %s takes %zu bytes from byte %zu of the data, but the data has %zu: the file "
			            "is cut short",
			            item[i].name, item[i].bytes, offset, room);
		item[i].data += at + padding;
	}
	return tensors_apart(item, n, c->error);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool take_head(struct cursor* c, uint64_t* n_tensors, uint64_t* n_values) {
	uint64_t version = 0;
	if (bytes_left(c) < 4 || memcmp(c->at, "GGUF", 4) != 0)
		return fail(c, "does not begin with GGUF");
	c->at += 4;
	if (!take_number(c, 4, &version, "the header"))
		return false;
	if (version == 1)
		return fail(
		    c, "GGUF version 1, which is not supported; convert it with a newer program to version 2 or 3");
	if (version >= 1u << 24)
		return fail(c, "a GGUF file with its bytes in big-endian order, which is not supported");
	if (version != 2 && version != 3)
		return fail(c, "GGUF version %u, expected 2 or 3", (unsigned)version);
	if (!take_number(c, 8, n_tensors, "the header") || !take_number(c, 8, n_values, "the header"))
		return false;
	/* A value takes at least 13 bytes, a tensor at least 32. */
	if (*n_values > bytes_left(c) / 13)
		return fail(
		    c,
		    "the header counts %llu metadata values, more than the file can hold: it is cut short or broken",
		    (unsigned long long)*n_values);
	if (*n_tensors > bytes_left(c) / 32)
		return fail(c,
		            "the header counts %llu tensors, more than the file can hold: it is cut short or broken",
		            (unsigned long long)*n_tensors);
	return true;
}

bool gguf_read(struct gguf* g, struct tensor_table* table, const uint8_t* data, size_t size, const char* file,
               struct error* error) {
	struct cursor c = {data, data, data + size, file, error};
	uint64_t n_tensors = 0, n_values = 0;
	*g = (struct gguf){.file = file};
	if (!take_head(&c, &n_tensors, &n_values) || !take_values(g, &c, n_values))
		return false;
	int64_t alignment = 32;
	if (!gguf_int(g, "general.alignment", 1, INT64_MAX, &alignment, error))
		return false;
	if (alignment & (alignment - 1) || alignment > MAX_ALIGNMENT)
		return error_set(error, "%s: general.alignment is %lld, expected a power of two up to %d", file,
		                 (long long)alignment, MAX_ALIGNMENT);
	const size_t first = table->n;
	for (uint64_t i = 0; i < n_tensors; i++)
		if (!take_tensor(&c, table))
			return false;
	return place_tensors(&c, n_tensors ? table->item + first : NULL, table->n - first, (uint64_t)alignment);
}

void gguf_free(struct gguf* g) {
	free(g->value);
	*g = (struct gguf){0};
}

/* ---- looking up --------------------------------------------------------------------------- */

const struct gguf_value* gguf_find(const struct gguf* g, const char* key) {
	const struct gguf_value wanted = {.key = key, .key_size = strlen(key)};
	return g->n ? bsearch(&wanted, g->value, g->n, sizeof wanted, by_key) : NULL;
}

static bool report_wrong(const struct gguf* g, const char* key, const char* expected, struct error* error) {
	return error_set(error, "%s: %s is not %s", g->file, key, expected);
}

struct number {
	double real;
	int64_t whole;
	bool is_whole;
};

/* Element i as a number; false when it is not one. */
static bool number_at(const struct gguf_value* v, uint64_t i, struct number* out) {
	const size_t bytes = scalar_bytes(v->element);
	if (bytes == 0)
		return false;
	const uint64_t raw = load_number(v->data + i * bytes, bytes);
	const uint32_t raw32 = (uint32_t)raw;
	const unsigned unused = 64 - 8 * (unsigned)bytes;
	float single;
	out->is_whole = v->element != GGUF_F32 && v->element != GGUF_F64;
	switch (v->element) {
	case GGUF_F32:
		memcpy(&single, &raw32, sizeof single);
		out->real = (double)single;
		return true;
	case GGUF_F64:
		memcpy(&out->real, &raw, sizeof out->real);
		return true;
	case GGUF_I8:
	case GGUF_I16:
	case GGUF_I32:
	case GGUF_I64: /* the sign is brought down from the top */
		out->whole = (int64_t)(raw << unused) >> unused;
		break;
	default:
		if (raw > INT64_MAX)
			return false;
		out->whole = (int64_t)raw;
	}
	out->real = (double)out->whole;
	return true;
}

/* The value as one number: itself, or an array whose elements are all equal. */
static bool one_number(const struct gguf_value* v, struct number* out) {
	struct number other;
	if (v->element == GGUF_BOOL || v->n == 0 || v->n > 65536 || !number_at(v, 0, out))
		return false;
	for (uint64_t i = 1; i < v->n; i++)
		if (!number_at(v, i, &other) || other.real != out->real)
			return false;
	return true;
}

bool gguf_int(const struct gguf* g, const char* key, int64_t low, int64_t high, int64_t* out,
              struct error* error) {
	const struct gguf_value* v = gguf_find(g, key);
	struct number x;
	if (!v)
		return true;
	if (!one_number(v, &x) || !x.is_whole)
		return report_wrong(
		    g, key, v->type == GGUF_ARRAY ? "a whole number, the same for every block" : "a whole number",
		    error);
	if (x.whole < low || x.whole > high)
		return error_set(error, "%s: %s is %lld, expected %lld to %lld", g->file, key, (long long)x.whole,
		                 (long long)low, (long long)high);
	*out = x.whole;
	return true;
}

bool gguf_float(const struct gguf* g, const char* key, double low, double high, float* out,
                struct error* error) {
	const struct gguf_value* v = gguf_find(g, key);
	struct number x;
	if (!v)
		return true;
	if (!one_number(v, &x))
		return report_wrong(g, key, "a number", error);
	if (!(x.real >= low) || !(x.real <= high))
		return error_set(error, "%s: %s is %g, expected %g to %g", g->file, key, x.real, low, high);
	*out = (float)x.real;
	return true;
}

bool gguf_bool(const struct gguf* g, const char* key, bool* out, struct error* error) {
	const struct gguf_value* v = gguf_find(g, key);
	if (!v)
		return true;
	if (v->type != GGUF_BOOL)
		return report_wrong(g, key, "true or false", error);
	*out = v->data[0] != 0;
	return true;
}

/* The string at `at`, which was checked to lie in the file; returns what follows it. */
static const uint8_t* string_at(const uint8_t* at, const char** text, size_t* size) {
	*size = (size_t)load_number(at, 8);
	*text = (const char*)at + 8;
	return at + 8 + *size;
}

bool gguf_string(const struct gguf* g, const char* key, const char** out, size_t* size, struct error* error) {
	const struct gguf_value* v = gguf_find(g, key);
	if (!v)
		return true;
	if (v->type != GGUF_STRING)
		return report_wrong(g, key, "a string", error);
	string_at(v->data, out, size);
	return true;
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* Finds the array of that key, and allocates zeroed memory for its *n elements; NULL and 0 without one. */
static bool open_array(const struct gguf* g, const char* key, size_t element, const struct gguf_value** v,
                       void** out, int* n, struct error* error) {
	*v = gguf_find(g, key);
	*out = NULL;
	*n = 0;
	if (!*v)
		return true;
	if ((*v)->type != GGUF_ARRAY)
		return report_wrong(g, key, "an array", error);
	if ((*v)->n > INT_MAX / 16)
		return error_set(error, "%s: %s has %llu elements", g->file, key, (unsigned long long)(*v)->n);
	*n = (int)(*v)->n;
	*out = *n ? calloc((size_t)*n, element) : NULL;
	return *out || !*n || error_set(error, "%s: out of memory", g->file);
}

bool gguf_strings(const struct gguf* g, const char* key, const char*** out, size_t** size, int* n,
                  struct error* error) {
	const struct gguf_value* v;
	void* made;
	*size = NULL;
	const bool good = open_array(g, key, sizeof **out, &v, &made, n, error);
	*out = made;
	if (!good || *n == 0)
		return good;
	if (v->element != GGUF_STRING)
		return report_wrong(g, key, "an array of strings", error);
	*size = calloc((size_t)*n, sizeof **size);
	if (!*size)
		return error_set(error, "%s: out of memory", g->file);
	const uint8_t* at = v->data;
	for (int i = 0; i < *n; i++)
		at = string_at(at, &(*out)[i], &(*size)[i]);
	return true;
}

bool gguf_floats(const struct gguf* g, const char* key, float** out, int* n, struct error* error) {
	const struct gguf_value* v;
	struct number x;
	void* made;
	bool good = open_array(g, key, sizeof **out, &v, &made, n, error);
	*out = made;
	for (int i = 0; good && i < *n; i++) {
		good = number_at(v, (uint64_t)i, &x) || report_wrong(g, key, "an array of numbers", error);
		(*out)[i] = good ? (float)x.real : 0;
	}
	return good;
}

bool gguf_ints(const struct gguf* g, const char* key, int32_t** out, int* n, struct error* error) {
	const struct gguf_value* v;
	struct number x;
	void* made;
	bool good = open_array(g, key, sizeof **out, &v, &made, n, error);
	*out = made;
	for (int i = 0; good && i < *n; i++) {
		good =
		    (number_at(v, (uint64_t)i, &x) && x.is_whole && x.whole >= INT32_MIN && x.whole <= INT32_MAX) ||
		    report_wrong(g, key, "an array of whole numbers", error);
		(*out)[i] = good ? (int32_t)x.whole : 0;
	}
	return good;
}
