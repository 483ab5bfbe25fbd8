/* Changes an input as a JSON document: a value is removed, repeated, nested, put in place of another, or made
 * an extreme one, or a member gets another's name. Changed bytes seldom leave a document that a reader goes
 * far with. A harness includes this and says how many bytes stand before the document; what follows it is
 * kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/fuzz/mutator.h"

struct json_place {
	cJSON *parent, *item; /* parent: NULL at the root */
};

struct json_choice {
	uint32_t random;
	int seen;
	struct json_place place;
};

/* Every value is chosen with the same chance. */
static void choose_below(struct json_choice* c, cJSON* parent, cJSON* item) {
	for (; item; item = item->next) {
		if (draw_number(&c->random, (uint32_t)++c->seen) == 0)
			c->place = (struct json_place){parent, item};
		choose_below(c, item, item->child);
	}
}

static struct json_place choose_value(uint32_t* random, cJSON* root) {
	struct json_choice c = {.random = *random};
	choose_below(&c, NULL, root);
	*random = c.random;
	return c.place;
}

/* Takes `value`. */
static void put_at(struct json_place at, cJSON* value) {
	if (!at.parent || !value) {
		cJSON_Delete(value);
		return;
	}
	cJSON_free(value->string);
	value->string = at.item->string ? strdup(at.item->string) : NULL;
	cJSON_ReplaceItemViaPointer(at.parent, at.item, value);
}

static cJSON* make_extreme(uint32_t* random) {
	static const char* const text[] = {"null",
	                                   "true",
	                                   "false",
	                                   "[]",
	                                   "{}",
	                                   "\"\"",
	                                   "0",
	                                   "-1",
	                                   "-0.0",
	                                   "1e308",
	                                   "1e-320",
	                                   "2147483648",
	                                   "9007199254740993",
	                                   "[[]]",
	                                   "[null]",
	                                   "{\"\": 0}",
	                                   "\"\\ud83d\\ude00\"",
	                                   "\"a\\tb\""};
	return cJSON_Parse(text[draw_number(random, sizeof text / sizeof *text)]);
}

static cJSON* nest_value(uint32_t* random, const cJSON* value) {
	cJSON* nested = cJSON_Duplicate(value, 1);
	const char* const name = value->string ? value->string : "a";
	for (uint32_t n = 1 + draw_number(random, 40); n > 0; n--) {
		cJSON* const around = value->string ? cJSON_CreateObject() : cJSON_CreateArray();
		if (value->string)
			cJSON_AddItemToObject(around, name, nested);
		else
			cJSON_AddItemToArray(around, nested);
		nested = around;
	}
	return nested;
}

static void add_to(cJSON* container, const cJSON* value) {
	if (cJSON_IsObject(container))
		cJSON_AddItemToObject(container, value->string ? value->string : "a", cJSON_Duplicate(value, 1));
	else if (cJSON_IsArray(container))
		cJSON_AddItemToArray(container, cJSON_Duplicate(value, 1));
}

static void change_value(uint32_t* random, cJSON* root) {
	const struct json_place at = choose_value(random, root), other = choose_value(random, root);
	switch (draw_number(random, 7)) {
	case 0:
		if (at.parent)
			cJSON_Delete(cJSON_DetachItemViaPointer(at.parent, at.item));
		break;
	case 1:
		put_at(at, cJSON_Duplicate(other.item, 1));
		break;
	case 2:
		put_at(at, make_extreme(random));
		break;
	case 3:
		put_at(at, nest_value(random, at.item));
		break;
	case 4:
		if (at.item->string && other.item->string) {
			char* const name = strdup(other.item->string);
			cJSON_free(at.item->string);
			at.item->string = name;
		}
		break;
	default:
		add_to(at.item, other.item);
	}
}

static size_t mutate_json(uint8_t* data, size_t size, size_t most, size_t before, unsigned seed) {
	uint32_t random = seed;
	char* const text = calloc(size + 1, 1);
	const char* end = NULL;
	cJSON* root = NULL;
	if (size > before && draw_number(&random, 4) > 0) {
		memcpy(text, data + before, size - before);
		root = cJSON_ParseWithOpts(text, &end, 0);
	}
	for (uint32_t n = 1 + draw_number(&random, 4); root && n > 0; n--)
		change_value(&random, root);
	char* const changed = root ? cJSON_PrintUnformatted(root) : NULL;
	const size_t length = changed ? strlen(changed) : 0,
	             rest = end ? size - before - (size_t)(end - text) : 0;
	const bool fits = changed && before + length + rest <= most;
	if (fits) {
		memcpy(data + before, changed, length);
		memcpy(data + before + length, end, rest);
	}
	cJSON_free(changed);
	cJSON_Delete(root);
	free(text);
	return fits ? before + length + rest : LLVMFuzzerMutate(data, size, most);
}
