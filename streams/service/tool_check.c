/* A grammar takes the members of an object in its schema's order only. So arguments that it does not take are
 * judged again with their members in that order. */
#include "streams/service/tool_check.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/json.h"

enum { MAX_DEPTH = 64, MAX_WORK = 1 << 16 };

bool tool_checks_add(struct tool_checks* c, const char* name, const char* schema, struct grammar* grammar) {
	struct tool_check one = {.name = strdup(name), .schema = strdup(schema), .grammar = grammar};
	if (one.name && one.schema && grow_by_one(&c->check, (size_t)c->n, sizeof *c->check)) {
		c->check[c->n++] = one;
		return true;
	}
	free(one.name);
	free(one.schema);
	grammar_free(grammar);
	return false;
}

void tool_checks_free(struct tool_checks* c) {
	for (int i = 0; i < c->n; i++) {
		free(c->check[i].name);
		free(c->check[i].schema);
		grammar_free(c->check[i].grammar);
	}
	free(c->check);
	*c = (struct tool_checks){0};
}

const struct tool_check* tool_check_of(const struct tool_checks* c, const char* name) {
	for (int i = 0; c && i < c->n; i++)
		if (strcmp(c->check[i].name, name) == 0)
			return &c->check[i];
	return NULL;
}

/* ---- order of members ----------------------------------------------------------------------------- */

/* The schema that a reference within the document names: "#/$defs/NAME". */
static const cJSON* find_referred(const cJSON* schema, const cJSON* root) {
	const char* path = cJSON_GetStringValue(json_field(schema, "$ref"));
	const cJSON* at = root;
	if (!path || *path != '#')
		return NULL;
	for (path++; at && *path == '/';) {
		char name[128];
		const size_t n = strcspn(++path, "/");
		if (n >= sizeof name)
			return NULL;
		memcpy(name, path, n);
		name[n] = '\0';
		at = json_field(at, name);
		path += n;
	}
	return at;
}

struct ordering {
	const cJSON* root; /* schema */
	int work;          /* left */
};

static void order_value(struct ordering*, cJSON* value, const cJSON* schema, int depth);

/* The schema's last property comes to the front first. */
static void order_members(struct ordering* o, cJSON* object, const cJSON* schema, int depth) {
	const cJSON *const properties = json_field(schema, "properties"), *const first =
	                                                                      cJSON_IsObject(properties)
	                                                                          ? properties->child
	                                                                          : NULL;
	for (const cJSON* p = first ? first->prev : NULL; p && o->work > 0; p = p == first ? NULL : p->prev) {
		cJSON* const member = cJSON_GetObjectItemCaseSensitive(object, p->string);
		o->work--;
		if (!member)
			continue;
		order_value(o, member, p, depth);
		cJSON_InsertItemInArray(object, 0, cJSON_DetachItemViaPointer(object, member));
	}
}

/* Puts the members of all objects into the order of their schemas. */
static void order_value(struct ordering* o, cJSON* value, const cJSON* schema, int depth) {
	static const char* const unions[] = {"anyOf", "oneOf", "allOf"};
	if (!cJSON_IsObject(schema) || depth > MAX_DEPTH || o->work-- <= 0)
		return;
	order_value(o, value, find_referred(schema, o->root), depth + 1);
	for (size_t i = 0; i < sizeof unions / sizeof *unions; i++) {
		const cJSON* const list = json_field(schema, unions[i]);
		for (const cJSON* one = cJSON_IsArray(list) ? list->child : NULL; one; one = one->next)
			order_value(o, value, one, depth + 1);
	}
	if (cJSON_IsObject(value))
		order_members(o, value, schema, depth + 1);
	for (cJSON* item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next)
		order_value(o, item, json_field(schema, "items"), depth + 1);
}

bool tool_check_fits(const struct tool_check* c, const char* arguments, size_t size) {
	if (grammar_accepts(c->grammar, arguments, size))
		return true;
	struct error ignored;
	cJSON *const value = json_parse(arguments, size, "the arguments", &ignored), *const schema = json_parse(
	                                                                                 c->schema,
	                                                                                 strlen(c->schema),
	                                                                                 "the schema", &ignored);
	struct ordering o = {schema, MAX_WORK};
	if (value && schema)
		order_value(&o, value, schema, 0);
	char* const text = value && schema ? json_print(value) : NULL;
	const bool fits = text && grammar_accepts(c->grammar, text, strlen(text));
	cJSON_free(text);
	cJSON_Delete(value);
	cJSON_Delete(schema);
	return fits;
}
