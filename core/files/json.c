/* JSON as found in model folders. */
#include "core/files/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/files/mapping.h"

/* Finds the first number from `at` on, outside of strings. */
static const char* next_number(const char* at, const char* end) {
	for (; at < end; at++)
		if (*at == '"')
			for (at++; at < end && *at != '"'; at++)
				at += *at == '\\';
		else if (*at == '-' || (*at >= '0' && *at <= '9'))
			return at;
	return end;
}

/* Replaces numbers by the text they were written as, in order. Returns where the text goes on. */
static const char* keep_numbers(cJSON* value, const char* at, const char* end) {
	if (cJSON_IsNumber(value)) {
		const char* from = next_number(at, end);
		bool plain = true;
		for (at = from; at < end && *at && strchr("+-.eE0123456789", *at); at++)
			plain = plain && (*at == '-' || (*at >= '0' && *at <= '9'));
		if (plain && at - from <= 15)
			return at; /* A double holds this number and prints it in the same way. */
		value->valuestring = cJSON_malloc((size_t)(at - from) + 1);
		if (value->valuestring) {
			memcpy(value->valuestring, from, (size_t)(at - from));
			value->valuestring[at - from] = 0;
		}
	}
	for (cJSON* one = cJSON_IsArray(value) || cJSON_IsObject(value) ? value->child : NULL; one;
	     one = one->next)
		at = keep_numbers(one, at, end);
	return at;
}

cJSON* json_parse(const char* text, size_t size, const char* file, struct error* error) {
	const char* end = NULL;
	cJSON* json = cJSON_ParseWithLengthOpts(text, size, &end, false);
	const size_t at = end && end >= text ? (size_t)(end - text) : 0;
	if (!json) {
		error_set(error, "%s: not JSON, or nested deeper than %d, at byte %zu of %zu", file,
		          CJSON_NESTING_LIMIT, at, size);
		return NULL;
	}
	for (size_t i = at; i < size; i++)
		if (!strchr(" \t\r\n", text[i]) || text[i] == '\0') {
			error_set(error, "%s: more text follows the JSON value, at byte %zu", file, i);
			cJSON_Delete(json);
			return NULL;
		}
	keep_numbers(json, text, text + size);
	return json;
}

static void print_to(FILE* out, const cJSON* value) {
	const cJSON* one;
	char number[40];
	if (cJSON_IsNumber(value)) {
		int digits = 15;
		do
			snprintf(number, sizeof number, "%.*g", digits, value->valuedouble);
		while (++digits <= 17 &&
		       (strtod(number, NULL) < value->valuedouble || strtod(number, NULL) > value->valuedouble));
		fputs(value->valuestring ? value->valuestring : number, out);
	} else if (cJSON_IsArray(value) || cJSON_IsObject(value)) {
		fputc(cJSON_IsArray(value) ? '[' : '{', out);
		cJSON_ArrayForEach (one, value) {
			if (one != value->child)
				fputc(',', out);
			if (cJSON_IsObject(value)) {
				const cJSON name = {.type = cJSON_String, .valuestring = one->string};
				print_to(out, &name);
				fputc(':', out);
			}
			print_to(out, one);
		}
		fputc(cJSON_IsArray(value) ? ']' : '}', out);
	} else {
		char* text = cJSON_PrintUnformatted(value);
		fputs(text ? text : "null", out);
		cJSON_free(text);
	}
}

char* json_print(const cJSON* value) {
	char* text = NULL;
	size_t size;
	FILE* out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	print_to(out, value);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* values: compare them too. That is done in one direction alone: in both, each level would double the work.
 */
static bool has_members_of(const cJSON* a, const cJSON* b, bool values) {
	const cJSON* one;
	cJSON_ArrayForEach (one, b) {
		const cJSON* mine = cJSON_GetObjectItemCaseSensitive(a, one->string);
		if (!mine || (values && !json_same(mine, one)))
			return false;
	}
	return true;
}

/* cJSON's own comparison takes numbers for equal that differ in the last bit. */
bool json_same(const cJSON* a, const cJSON* b) {
	if (!a || !b || ((a->type ^ b->type) & 0xff))
		return false;
	if (cJSON_IsNumber(a))
		return !(a->valuedouble < b->valuedouble) && !(a->valuedouble > b->valuedouble);
	if (cJSON_IsString(a))
		return strcmp(a->valuestring, b->valuestring) == 0;
	if (cJSON_IsObject(a))
		return has_members_of(b, a, false) && has_members_of(a, b, true);
	if (!cJSON_IsArray(a))
		return true;
	const cJSON *x = a->child, *y = b->child;
	for (; x && y; x = x->next, y = y->next)
		if (!json_same(x, y))
			return false;
	return !x && !y;
}

cJSON* json_read(const char* path, struct error* error) {
	struct mapping file;
	if (!mapping_open(&file, path, error))
		return NULL;
	cJSON* json = json_parse((const char*)file.data, file.size, path, error);
	mapping_close(&file);
	return json;
}

bool file_exists(const char* path) {
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool json_lists(const char* words, const char* word) {
	const size_t n = strlen(word);
	if (n == 0 || memchr(word, ' ', n))
		return false;
	for (const char* at = words; (at = strstr(at, word)); at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

const cJSON* json_field(const cJSON* object, const char* field) {
	const cJSON* value = cJSON_GetObjectItemCaseSensitive(object, field);
	return value && !cJSON_IsNull(value) ? value : NULL;
}

const char* json_show(const cJSON* value, char* out, size_t size) {
	if (cJSON_IsString(value))
		snprintf(out, size, "\"%.60s\"", value->valuestring);
	else if (cJSON_IsNumber(value))
		snprintf(out, size, "%.17g", value->valuedouble);
	else
		snprintf(out, size, "%s",
		         cJSON_IsTrue(value)     ? "true"
		         : cJSON_IsFalse(value)  ? "false"
		         : cJSON_IsArray(value)  ? "an array"
		         : cJSON_IsObject(value) ? "an object"
		                                 : "null");
	return out;
}

bool json_whole(const cJSON* value, int64_t low, int64_t high, int64_t* out) {
	/* Doubles hold whole numbers exactly up to 2^53. Larger ones are ambiguous. */
	if (!cJSON_IsNumber(value) || !(fabs(value->valuedouble) <= 9007199254740992.0) ||
	    value->valuedouble != floor(value->valuedouble))
		return false;
	const int64_t whole = (int64_t)value->valuedouble;
	if (whole < low || whole > high)
		return false;
	*out = whole;
	return true;
}

static bool report_wrong(const cJSON* value, const char* file, const char* field, const char* expected,
                         struct error* error) {
	char shown[80];
	return error_set(error, "%s: %s is %s, expected %s", file, field, json_show(value, shown, sizeof shown),
	                 expected);
}

bool json_int(const cJSON* object, const char* file, const char* field, int64_t low, int64_t high,
              int64_t* out, struct error* error) {
	char expected[80];
	const cJSON* value = json_field(object, field);
	snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)low, (long long)high);
	return !value || json_whole(value, low, high, out) || report_wrong(value, file, field, expected, error);
}

bool json_int32(const cJSON* object, const char* file, const char* field, int low, int high, int* out,
                struct error* error) {
	int64_t wide = *out;
	if (!json_int(object, file, field, low, high, &wide, error))
		return false;
	*out = (int)wide;
	return true;
}

bool json_float(const cJSON* object, const char* file, const char* field, double low, double high, float* out,
                struct error* error) {
	char expected[80];
	const cJSON* value = json_field(object, field);
	snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
	if (!value)
		return true;
	if (!cJSON_IsNumber(value) || !(value->valuedouble >= low) || !(value->valuedouble <= high))
		return report_wrong(value, file, field, expected, error);
	*out = (float)value->valuedouble;
	return true;
}

bool json_bool(const cJSON* object, const char* file, const char* field, bool* out, struct error* error) {
	const cJSON* value = json_field(object, field);
	if (value && !cJSON_IsBool(value))
		return report_wrong(value, file, field, "true or false", error);
	if (value)
		*out = cJSON_IsTrue(value);
	return true;
}

bool json_string(const cJSON* object, const char* file, const char* field, const char** out,
                 struct error* error) {
	const cJSON* value = json_field(object, field);
	if (value && !cJSON_IsString(value))
		return report_wrong(value, file, field, "a string", error);
	if (value)
		*out = value->valuestring;
	return true;
}
