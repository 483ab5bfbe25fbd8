/* Resolves references. Before a schema is compiled every $ref becomes a pointer from the root (RFC 6901),
 * whatever it was: relative to an $id (RFC 3986), an $anchor, an escaped pointer. So schemas may be copied
 * and joined. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/grammar/json_compiler.h"

enum { MAX_URI = 1024, MAX_DEPTH = 256, MAX_SEARCHED = 1024 };
enum { SEEN = 1 << 16 }; /* a bit of cJSON's type that is free */

struct referenced_place {
	const cJSON* schema;
	char* base;         /* its resource's URI, without a fragment */
	const char* anchor; /* NULL: the resource itself */
	bool dynamic;
};

struct schema_places {
	struct referenced_place* of; /* (n) */
	int n;
	const cJSON** later; /* (n_later) targets, which may lie where no keyword states that there are schemas */
	int n_later;
	int searched; /* references, each through the whole schema */
	cJSON* root;
	bool old; /* a draft, to 7, in which $ref stands alone: an $id beside it means nothing */
	struct compiler* c;
};

/* ---- pointers --------------------------------------------------------------------------------- */

static int decode_character(const char** at) {
	const char* from = *at;
	if (from[0] == '%' && hexadecimal_digit(from[1]) >= 0 && hexadecimal_digit(from[2]) >= 0) {
		*at += 3;
		return hexadecimal_digit(from[1]) << 4 | hexadecimal_digit(from[2]);
	}
	return (uint8_t) * (*at)++;
}

static const cJSON* child_of(const cJSON* of, const char* name) {
	if (!cJSON_IsArray(of))
		return cJSON_GetObjectItemCaseSensitive(of, name);
	const size_t digits = strspn(name, "0123456789");
	return digits > 0 && digits < 8 && !name[digits] && (digits == 1 || name[0] != '0')
	           ? cJSON_GetArrayItem(of, atoi(name))
	           : NULL;
}

/* A pointer's text, which begins with / or is empty. */
static const cJSON* find_pointed(const cJSON* at, const char* from) {
	char* name = malloc(strlen(from) + 1);
	while (at && *from && name) {
		size_t n = 0;
		at = *from++ == '/' ? at : NULL;
		while (*from && *from != '/') {
			int letter = decode_character(&from);
			if (letter == '~')
				letter = *from == '1' ? '/' : '~', from += *from == '0' || *from == '1';
			name[n++] = (char)letter;
		}
		name[n] = 0;
		at = at ? child_of(at, name) : NULL;
	}
	free(name);
	return name ? at : NULL;
}

const cJSON* schema_resolve(const cJSON* root, const cJSON* reference) {
	return cJSON_IsString(reference) && reference->valuestring[0] == '#'
	           ? find_pointed(root, reference->valuestring + 1)
	           : NULL;
}

/* The way from `at` to a value, as a pointer that is written to `to`. False: it is not below, or has no room.
 */
static bool find_way(const cJSON* at, const cJSON* value, char* to, size_t size, int depth) {
	const cJSON* one;
	int index = 0;
	if (at == value)
		return true;
	if (depth == MAX_DEPTH || !(cJSON_IsObject(at) || cJSON_IsArray(at)))
		return false;
	cJSON_ArrayForEach (one, at) {
		char number[16];
		size_t n = 0;
		snprintf(number, sizeof number, "%d", index++);
		to[n++] = '/';
		for (const char* name = one->string ? one->string : number; *name && n + 4 < size; name++) {
			const char* escape = *name == '~' ? "~0" : *name == '/' ? "~1" : *name == '%' ? "%25" : NULL;
			const size_t m = escape ? strlen(escape) : 1;
			memcpy(to + n, escape ? escape : name, m);
			n += m;
		}
		to[n] = 0;
		if (n + 8 < size && find_way(one, value, to + n, size - n, depth + 1))
			return true;
	}
	to[0] = 0;
	return false;
}

/* ---- URIs ------------------------------------------------------------------------------------- */

static size_t scheme_of(const char* uri) {
	const size_t n = strcspn(uri, ":/?#");
	return uri[n] == ':' && n > 0 ? n + 1 : 0;
}

/* Removes the dots of a path, in place. */
static void remove_dots(char* path) {
	char *to = path, *from = path;
	while (*from) {
		const size_t n = strcspn(from, "/"), rest = from[n] == '/';
		if (n == 2 && memcmp(from, "..", 2) == 0) {
			for (to -= to > path; to > path && to[-1] != '/'; to--)
				;
		} else if (!(n == 1 && *from == '.')) {
			memmove(to, from, n + rest);
			to += n + rest;
		}
		from += n + rest;
	}
	*to = 0;
}

/* RFC 3986, section 5.2, without queries of the base. to: (MAX_URI) */
static void resolve_reference(const char* base, const char* reference, char* to) {
	size_t keep = strcspn(base, "#"), path = scheme_of(base);
	if (strncmp(base + path, "//", 2) == 0)
		path += 2 + strcspn(base + path + 2, "/?#");
	if (scheme_of(reference) > 0)
		keep = 0;
	else if (strncmp(reference, "//", 2) == 0)
		keep = scheme_of(base);
	else if (*reference == '/')
		keep = path;
	else if (*reference && *reference != '#')
		for (; keep > path && base[keep - 1] != '/'; keep--)
			;
	const bool slash =
	    keep == path && path > 0 && *reference && !strchr("/#", *reference) && scheme_of(reference) == 0;
	snprintf(to, MAX_URI, "%.*s%s%s", (int)keep, base, slash ? "/" : "", reference);
	size_t start = scheme_of(to);
	if (strncmp(to + start, "//", 2) == 0) {
		start += 2;
		start += strcspn(to + start, "/?#");
		start += to[start] == '/';
		char fragment[MAX_URI];
		const size_t end = start + strcspn(to + start, "?#");
		snprintf(fragment, sizeof fragment, "%s", to + end);
		to[end] = 0;
		remove_dots(to + start);
		strcat(to, fragment);
	}
}

/* ---- schemas within the schema ---------------------------------------------------------------- */

static const char of_schemas[] =
    "additionalItems additionalProperties contains else if items not propertyNames then "
    "unevaluatedItems unevaluatedProperties contentSchema";
static const char of_lists[] = "allOf anyOf oneOf prefixItems items";
static const char of_maps[] = "$defs definitions dependencies dependentSchemas patternProperties properties";

static void add_place(struct schema_places* p, const cJSON* schema, const char* base, const char* anchor,
                      bool dynamic) {
	char* kept = grow_by_one(&p->of, (size_t)p->n, sizeof *p->of) ? strdup(base) : NULL;
	if (kept)
		p->of[p->n++] = (struct referenced_place){schema, kept, anchor, dynamic};
	else
		schema_refuse(p->c, "out of memory");
}

static const char* text_of(const cJSON* schema, const char* keyword) {
	const cJSON* value = cJSON_GetObjectItemCaseSensitive(schema, keyword);
	return cJSON_IsString(value) ? value->valuestring : NULL;
}

/* The base within a schema that lies within another's. inner: (MAX_URI) */
static const char* base_within(bool old, const cJSON* schema, const char* base, char* inner) {
	const char* id = text_of(schema, "$id");
	if (!id || *id == '#' || (old && text_of(schema, "$ref")))
		return base;
	resolve_reference(base, id, inner);
	inner[strcspn(inner, "#")] = 0;
	return inner;
}

static void point_places(struct schema_places*, cJSON*, const char* base);

/* Visits every schema below, with its base. */
static void visit_schema(struct schema_places* p, cJSON* schema, const char* base, int depth,
                         void (*each)(struct schema_places*, cJSON*, const char* base)) {
	char inner[MAX_URI];
	cJSON *field, *one;
	if (!cJSON_IsObject(schema) || depth == MAX_DEPTH || p->c->failed)
		return;
	if (schema->type & SEEN && each == point_places)
		return;
	base = base_within(p->old, schema, base, inner);
	each(p, schema, base);
	cJSON_ArrayForEach (field, schema) {
		const bool map = json_lists(of_maps, field->string) && cJSON_IsObject(field);
		if (map || (json_lists(of_lists, field->string) && cJSON_IsArray(field)))
			cJSON_ArrayForEach (one, field)
				visit_schema(p, one, base, depth + 1, each);
		else if (json_lists(of_schemas, field->string))
			visit_schema(p, field, base, depth + 1, each);
	}
}

static void collect_places(struct schema_places* p, cJSON* schema, const char* base) {
	const char *id = text_of(schema, "$id"), *anchor = text_of(schema, "$anchor"),
	           *dynamic = text_of(schema, "$dynamicAnchor");
	p->c->evaluates |= schema_has(schema, "unevaluatedProperties unevaluatedItems");
	if (schema == p->root || (id && *id != '#'))
		add_place(p, schema, base, NULL, false);
	if (id && *id == '#') /* draft 7's anchors */
		add_place(p, schema, base, id + 1, false);
	if (anchor)
		add_place(p, schema, base, anchor, false);
	if (dynamic)
		add_place(p, schema, base, dynamic, true);
}

static const struct referenced_place* find_place(const struct schema_places* p, const char* base,
                                                 const char* anchor) {
	for (int i = 0; i < p->n; i++) {
		const struct referenced_place* at = &p->of[i];
		if (strcmp(at->base, base) == 0 &&
		    (anchor ? at->anchor && strcmp(at->anchor, anchor) == 0 : !at->anchor))
			return at;
	}
	return NULL;
}

/* *dynamic: it led to a $dynamicAnchor. */
static const cJSON* find_target(const struct schema_places* p, const char* base, const char* reference,
                                bool* dynamic) {
	char uri[MAX_URI];
	resolve_reference(base, reference, uri);
	char* fragment = strchr(uri, '#');
	if (fragment)
		*fragment++ = 0;
	*dynamic = false;
	if (fragment && *fragment && *fragment != '/') {
		char name[MAX_URI];
		size_t n = 0;
		for (const char* at = fragment; *at;)
			name[n++] = (char)decode_character(&at);
		name[n] = 0;
		const struct referenced_place* anchor = find_place(p, uri, name);
		*dynamic = anchor && anchor->dynamic;
		return anchor ? anchor->schema : NULL;
	}
	const struct referenced_place* resource = find_place(p, uri, NULL);
	return resource ? find_pointed(resource->schema, fragment ? fragment : "") : NULL;
}

/* The outermost resource's anchor is the one that is meant; where the root has none that is not known. */
static const cJSON* find_outermost(const struct schema_places* p, const char* reference) {
	const char* name = strchr(reference, '#') + 1;
	const cJSON* only = NULL;
	int n = 0;
	for (int i = 0; i < p->n; i++)
		if (p->of[i].dynamic && strcmp(p->of[i].anchor, name) == 0) {
			if (strcmp(p->of[i].base, p->of[0].base) == 0)
				return p->of[i].schema;
			only = p->of[i].schema;
			n++;
		}
	return n == 1 ? only : NULL;
}

static void add_later(struct schema_places* p, const cJSON* target) {
	if (grow_by_one(&p->later, (size_t)p->n_later, sizeof *p->later))
		p->later[p->n_later++] = target;
	else
		schema_refuse(p->c, "out of memory");
}

/* It is already as it is to be. */
static bool is_from_root(const struct schema_places* p, const char* base, const char* reference) {
	return reference[0] == '#' && (reference[1] == '/' || !reference[1]) && p->n > 0 &&
	       strcmp(base, p->of[0].base) == 0;
}

static void point_places(struct schema_places* p, cJSON* schema, const char* base) {
	static const char* const keywords[] = {"$ref", "$dynamicRef"};
	schema->type |= SEEN;
	if (schema != p->root && !text_of(p->root, "$schema") && text_of(schema, "$id") &&
	    text_of(schema, "$ref"))
		schema_refuse(p->c,
		              "\"$id\" beside \"$ref\" needs a \"$schema\" that names the draft of JSON Schema");
	for (int i = 0; i < 2; i++) {
		const char* reference = text_of(schema, keywords[i]);
		char way[2 * MAX_URI] = "#";
		bool dynamic;
		if (!reference || strlen(reference) >= MAX_URI / 2 || p->c->failed)
			continue;
		if (i == 0 && is_from_root(p, base, reference)) {
			const cJSON* there = find_pointed(p->root, reference + 1);
			if (there && !(there->type & SEEN))
				add_later(p, there);
			continue;
		}
		if (++p->searched > MAX_SEARCHED) {
			schema_refuse(p->c, "more than 1024 references that do not start at the root are not supported");
			return;
		}
		const cJSON* target = find_target(p, base, reference, &dynamic);
		if (target && i == 1 && dynamic)
			target = find_outermost(p, reference);
		if (!target || !find_way(p->root, target, way + 1, sizeof way - 1, 0))
			continue; /* an error where it is needed */
		if (!(target->type & SEEN))
			add_later(p, target);
		if (i == 1 && text_of(schema, "$ref"))
			schema_refuse_keyword(p->c, "$dynamicRef", "beside \"$ref\" is not supported");
		else {
			cJSON_DeleteItemFromObjectCaseSensitive(schema, keywords[i]);
			cJSON_AddStringToObject(schema, "$ref", way);
		}
	}
}

void schema_point(struct compiler* c, cJSON* root) {
	const char* draft = text_of(root, "$schema");
	struct schema_places p = {.root = root, .c = c, .old = draft && strstr(draft, "/draft-0")};
	visit_schema(&p, root, "", 0, collect_places);
	visit_schema(&p, root, "", 0, point_places);
	for (int i = 0; i < p.n_later; i++)
		visit_schema(&p, (cJSON*)(uintptr_t)p.later[i], p.n > 0 ? p.of[0].base : "", 0, point_places);
	free(p.later);
	for (int i = 0; i < p.n; i++)
		free(p.of[i].base);
	free(p.of);
}
