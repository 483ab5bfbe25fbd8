/* Emits objects: first the members that the schema names, in its order, then others. Patterns divide the
 * names of the others into classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

enum { MAX_CLASSES = 64, MAX_COUNTED = 1 << 13, MAX_SOME = 4 };

struct object_member {
	const char* name;
	const cJSON* schema; /* NULL: any value */
	bool required;
	/* where members are counted: of its name, without the first quote, and a value that keeps a set of
	 * `some`; 0: none */
	int rule[1 << MAX_SOME];
	int rank; /* where each value has one text: of its name in all objects */
};

/* Names that the schema does not have, which match the same patterns. */
struct name_class {
	struct language* names;
	bool matches[MAX_GROUPS]; /* a pattern of the group */
	cJSON* values;            /* schemas, all of which hold */
};

/* A member of which there has to be one. */
struct some_member {
	struct language* names;
	const cJSON* value;
};

struct object {
	struct compiler* c;
	const cJSON *schema, *group[MAX_GROUPS], *unevaluated;
	int n_groups;
	bool named; /* a group has properties that count as evaluated: others come only where the schema allows it
	             */
	struct object_member member[MAX_PROPERTIES];
	int n;
	struct name_class class[MAX_CLASSES];
	int n_classes;
	struct language* names; /* that propertyNames allows; NULL: any */
	struct some_member some[MAX_SOME];
	int n_some;
	/* of each set of `some` the rule of another member that keeps them, without its first quote; 0: none */
	int others[1 << MAX_SOME];
	int least, most; /* members; most -1: any number */
	bool counts;     /* members have rules of their own */
};

/* ---- which values a name has ------------------------------------------------------------------ */

static struct language* pattern_of(struct compiler* c, const char* pattern) {
	struct language* l = language_of_pattern(pattern, strlen(pattern), false, c->error);
	c->failed |= !l;
	return l;
}

/* All of the list's schemas at once; NULL: any value. Takes the list over. */
static const cJSON* all_of(struct compiler* c, cJSON* list) {
	const int n = cJSON_GetArraySize(list);
	if (n > 1)
		return schema_kept(c, schema_wrapped(c, "allOf", list));
	cJSON* one = n == 1 ? cJSON_DetachItemFromArray(list, 0) : NULL;
	cJSON_Delete(list);
	return one ? schema_kept(c, one) : NULL;
}

static void add_value(struct compiler* c, cJSON* list, const cJSON* schema) {
	if (!cJSON_IsTrue(schema))
		schema_append(c, list, cJSON_Duplicate(schema, true));
}

/* The groups' schema for a name that one of them has. */
static const cJSON* schema_of_name(struct object* o, const char* name) {
	struct compiler* c = o->c;
	cJSON* list = cJSON_CreateArray();
	bool evaluated = false;
	for (int i = 0; i < o->n_groups && !c->failed; i++) {
		const cJSON *own = cJSON_GetObjectItemCaseSensitive(json_field(o->group[i], "properties"), name),
		            *pattern;
		const cJSON* others = json_field(o->group[i], "additionalProperties");
		bool matched = own != NULL;
		if (own)
			add_value(c, list, own);
		cJSON_ArrayForEach (pattern, json_field(o->group[i], "patternProperties")) {
			struct language* l = c->failed ? NULL : pattern_of(c, pattern->string);
			if (l && language_takes(l, name)) {
				add_value(c, list, pattern);
				matched = true;
			}
			language_free(l);
		}
		if (!matched && others)
			add_value(c, list, others);
		evaluated |= (matched || others) && !json_field(o->group[i], SCHEMA_UNSEEN);
	}
	if (o->unevaluated && !evaluated)
		add_value(c, list, o->unevaluated);
	if (o->names && !language_takes(o->names, name))
		schema_append(c, list, cJSON_CreateFalse());
	return all_of(c, list);
}

static int find_member(const struct object* o, const char* name) {
	for (int i = 0; i < o->n; i++)
		if (strcmp(o->member[i].name, name) == 0)
			return i;
	return -1;
}

static bool add_member(struct object* o, const char* name, bool required) {
	const int found = find_member(o, name);
	if (found >= 0)
		o->member[found].required |= required;
	else if (o->n == MAX_PROPERTIES)
		return schema_refuse(o->c, "more than 1024 properties are not supported"), false;
	else
		o->member[o->n++] =
		    (struct object_member){.name = name, .schema = schema_of_name(o, name), .required = required};
	return !o->c->failed;
}

/* Whether the schema plainly allows no value. */
static bool is_never(const cJSON* schema) {
	const cJSON *one, *not = json_field(schema, "not");
	cJSON_ArrayForEach (one, json_field(schema, "allOf")) {
		if (is_never(one))
			return true;
	}
	return cJSON_IsFalse(schema) || cJSON_IsTrue(not ) || (cJSON_IsObject(not ) && !not ->child);
}

/* Sorts by insertion: as a rule they are in order. */
static void sort_members(struct object* o) {
	for (int i = 0; i < o->n && !o->c->failed; i++) {
		struct object_member moved = o->member[i];
		int to = i;
		moved.rank = schema_rank(o->c, moved.name);
		for (; to > 0 && o->member[to - 1].rank > moved.rank; to--)
			o->member[to] = o->member[to - 1];
		o->member[to] = moved;
	}
}

/* The members that the schema names, then those that it only requires. */
static void list_members(struct object* o) {
	const cJSON *required = json_field(o->schema, "required"), *field;
	if (required && !cJSON_IsArray(required))
		schema_refuse(o->c, "\"required\" is not an array");
	for (int i = 0; i < o->n_groups; i++) {
		const cJSON* properties = json_field(o->group[i], "properties");
		if (properties && !cJSON_IsObject(properties))
			schema_refuse(o->c, "\"properties\" is not an object");
		cJSON_ArrayForEach (field, properties) {
			if (o->c->failed || !add_member(o, field->string, false))
				return;
			o->named = o->named || (!o->c->literal && !json_field(o->group[i], SCHEMA_UNSEEN) &&
			                        !is_never(o->member[find_member(o, field->string)].schema));
		}
	}
	cJSON_ArrayForEach (field, required) {
		if (!cJSON_IsString(field))
			schema_refuse(o->c, "\"required\" holds a value that is not a string");
		if (o->c->failed || !add_member(o, field->valuestring, true))
			return;
	}
}

/* ---- other names ------------------------------------------------------------------------------ */

static void free_class(struct name_class* class) {
	language_free(class->names);
	cJSON_Delete(class->values);
}

/* Cuts every class in two: names that the pattern matches, whose values keep its schema, and others. */
static void split_classes(struct object* o, int group, const cJSON* pattern) {
	struct compiler* c = o->c;
	struct language* l = pattern_of(c, pattern->string);
	for (int i = 0, n = o->n_classes; i < n && !c->failed; i++) {
		struct name_class* class = &o->class[i], *within = &o->class[o->n_classes];
		struct language* matching = schema_keep_language(c, language_product(class->names, l, BOTH));
		struct language* left = schema_keep_language(c, language_product(class->names, l, ONLY_FIRST));
		language_free(class->names);
		class->names = language_smallest(left);
		if (c->failed || matching->n == 0) {
			language_free(matching);
			continue;
		}
		if (o->n_classes == MAX_CLASSES) {
			schema_refuse_keyword(c, "patternProperties", "overlap in more than 64 ways");
			language_free(matching);
			break;
		}
		*within = *class;
		within->names = language_smallest(matching);
		within->values = cJSON_Duplicate(class->values, true);
		within->matches[group] = true;
		add_value(c, within->values, pattern);
		o->n_classes++;
	}
	language_free(l);
}

/* Whether a group describes the members that no group names. */
static bool has_others(const struct object* o) {
	bool some = o->unevaluated || !o->named;
	for (int i = 0; i < o->n_groups; i++) {
		const cJSON* patterns = json_field(o->group[i], "patternProperties");
		some = some || (patterns && patterns->child) || json_field(o->group[i], "additionalProperties");
	}
	return some;
}

/* Whether members of this class of names may come. They may if the schema describes them, or if it names no
 * members at all. */
static bool close_class(struct object* o, struct name_class* class) {
	bool evaluated = false, allowed = !o->named;
	for (int i = 0; i < o->n_groups; i++) {
		const cJSON* others = json_field(o->group[i], "additionalProperties");
		if (!class->matches[i] && others)
			add_value(o->c, class->values, others);
		allowed = allowed || class->matches[i] || others;
		evaluated |= (class->matches[i] || others) && !json_field(o->group[i], SCHEMA_UNSEEN);
	}
	if (o->unevaluated && !evaluated)
		add_value(o->c, class->values, o->unevaluated);
	const cJSON* value;
	cJSON_ArrayForEach (value, class->values)
		allowed = allowed && !cJSON_IsFalse(value);
	return allowed || (o->unevaluated && !evaluated && !cJSON_IsFalse(o->unevaluated));
}

/* The names of n members from one on. Halves are joined, so that many names take few steps. */
static struct language* member_names(struct object* o, int from, int n) {
	return n == 1 ? language_of_text(o->member[from].name)
	              : schema_product(o->c, member_names(o, from, n / 2),
	                               member_names(o, from + n / 2, n - n / 2), EITHER);
}

static struct language* other_names(struct object* o) {
	struct language* all = o->names ? language_product(o->names, o->names, BOTH) : language_all();
	return o->n == 0 ? schema_keep_language(o->c, all)
	                 : schema_product(o->c, all, member_names(o, 0, o->n), ONLY_FIRST);
}

/* A name and a value that keep a set of `some`; the rule, or 0. */
static int class_rule(struct object* o, const struct name_class* class, int set) {
	struct compiler* c = o->c;
	cJSON* list = cJSON_Duplicate(class->values, true);
	struct language* names = language_product(class->names, class->names, BOTH);
	for (int j = 0; j < o->n_some && !c->failed; j++)
		if (set >> j & 1) {
			add_value(c, list, o->some[j].value);
			names =
			    schema_product(c, names, language_product(o->some[j].names, o->some[j].names, BOTH), BOTH);
		}
	const cJSON* value = all_of(c, list);
	int rule = 0;
	if (schema_keep_language(c, names) && !c->failed && names->n > 0) {
		const int32_t at = value ? schema_emit(c, value, RETURNS) : schema_emit_any(c, RETURNS);
		const int32_t named =
		    at == NOWHERE ? NOWHERE : emit_text(c->grammar, "\"", 1, schema_emit_colon(c, at));
		if (named != NOWHERE)
			rule = schema_rule(
			    c, program_rule(c->grammar),
			    language_emit(c->grammar, names, schema_characters(c), &c->rules.classes, -1, named));
	}
	language_free(names);
	return rule;
}

static void make_others(struct object* o) {
	struct compiler* c = o->c;
	const cJSON* pattern;
	/* two members that the schema does not name could come in either order */
	if (c->failed || !has_others(o) || o->most == 0 || (c->once && o->n > 0))
		return;
	o->class[o->n_classes++] = (struct name_class){.names = other_names(o), .values = cJSON_CreateArray()};
	for (int i = 0; i < o->n_groups; i++)
		cJSON_ArrayForEach (pattern, json_field(o->group[i], "patternProperties")) {
			if (!c->failed)
				split_classes(o, i, pattern);
		}
	for (int i = 0, kept = 0, n = o->n_classes; i < n; i++) {
		if (!c->failed && close_class(o, &o->class[i]))
			o->class[kept++] = o->class[i];
		else
			free_class(&o->class[i]);
		o->n_classes = kept;
	}
	for (int set = 0; set < 1 << o->n_some && !c->failed; set++) {
		int32_t all = NOWHERE;
		for (int i = 0; i < o->n_classes && !c->failed; i++) {
			const int rule = class_rule(o, &o->class[i], set);
			all = rule > 0 ? emit_split(c->grammar, emit_call(c->grammar, rule, RETURNS), all) : all;
		}
		if (all != NOWHERE)
			o->others[set] = schema_rule(c, program_rule(c->grammar), all);
	}
	for (int i = 0; i < o->n_classes; i++)
		free_class(&o->class[i]);
}

/* ---- emission --------------------------------------------------------------------------------- */

/* Without the first quote. of NULL: any value. */
static int32_t emit_member(struct compiler* c, const struct object_member* member, const cJSON* of,
                           int32_t next) {
	const size_t before = c->path_size;
	const int written = snprintf(c->path + before, PATH_SIZE - before, "/properties/%.40s", member->name);
	if (written > 0 && (size_t)written < PATH_SIZE - before)
		c->path_size += (size_t)written;
	const int32_t value = of ? schema_emit(c, of, next) : schema_emit_any(c, next);
	if (!c->failed) {
		c->path_size = before;
		c->path[before] = 0;
	}
	if (value == NOWHERE)
		return NOWHERE;
	const cJSON name = {.type = cJSON_String, .valuestring = (char*)(uintptr_t)member->name};
	char* text = json_print(&name);
	if (!text)
		return schema_refuse(c, "out of memory");
	const char* quoted = text + 1;
	const int32_t at =
	    emit_choices(c->grammar, &quoted, 1, schema_characters(c), schema_emit_colon(c, value));
	free(text);
	return at;
}

static int32_t emit_quote(struct compiler* c, int32_t next) {
	return next == NOWHERE ? NOWHERE : schema_emit_space(c, schema_emit_literal(c, "\"", next));
}

/* Others after k members, after a quote. */
static int32_t emit_others(struct object* o, int k, int32_t end) {
	struct compiler* c = o->c;
	const int least = o->least > k + 1 ? o->least - k - 1 : 0;
	if (o->others[0] == 0 || (o->most >= 0 && k >= o->most) || least > 0)
		return NOWHERE; /* a name may come twice: no number of others is sure but one */
	struct grammar* g = c->grammar;
	if (c->once)
		return emit_call(g, o->others[0], end);
	const int rule = program_rule(g);
	const int quoted =
	    schema_rule(c, rule, schema_emit_literal(c, "\"", emit_call(g, o->others[0], RETURNS)));
	return emit_call(g, o->others[0],
	                 schema_emit_more(c, quoted, 0, o->most < 0 ? -1 : o->most - k - 1, end));
}

/* The same where some of `some` have still to come: the last one keeps them. After it a name might come
 * again, with another value. */
static int32_t emit_some_others(struct object* o, int k, int missing, int32_t end) {
	struct compiler* c = o->c;
	struct grammar* g = c->grammar;
	if (o->others[missing] == 0 || (o->most >= 0 && k >= o->most) || o->least > k + 1)
		return NOWHERE;
	const int32_t last = emit_call(g, o->others[missing], end);
	if (o->others[0] == 0 || o->most >= 0 || c->once)
		return last;
	const int32_t loop = emit_loop(g, last);
	loop_close(g, loop, emit_call(g, o->others[0], schema_emit_comma(c, emit_quote(c, loop))));
	return loop;
}

/* The state after a member's name and value, after k members of which a set of `some` has come. */
static int32_t emit_named(struct object* o, const struct object_member* member, bool counted, int set,
                          int sets, const int32_t* begun) {
	struct compiler* c = o->c;
	int32_t all = NOWHERE;
	for (int kept = 0; kept < sets && !c->failed && !c->grammar->failed; kept++) {
		const int32_t next = (kept & set) ? NOWHERE : begun[set | kept];
		if (next == NOWHERE)
			continue;
		const int32_t at = !counted                 ? emit_member(c, member, member->schema, next)
		                   : member->rule[kept] > 0 ? emit_call(c->grammar, member->rule[kept], next)
		                                            : NOWHERE;
		all = emit_split(c->grammar, at, all);
	}
	return all;
}

/* Every member in its order, present or, if allowed, absent. If members are counted, there is a state for
 * each number and each set of `some` that has come; otherwise there is one. */
static int32_t emit_members(struct object* o, bool counted, int32_t close) {
	struct compiler* c = o->c;
	struct grammar* g = c->grammar;
	const int sets = 1 << o->n_some, counts = counted ? o->n + 1 : 1, states = counts * sets;
	const int32_t end = schema_emit_space(c, close);
	int32_t *begun = malloc((size_t)states * sizeof *begun), *named = malloc((size_t)states * sizeof *named);
	int32_t fresh = NOWHERE;
	bool may_end = true;
	c->grammar->failed |= !begun || !named;
	for (int i = 0; i < states && !g->failed; i++) {
		const int k = i / sets, set = i % sets;
		const bool enough = set == sets - 1 && (!counted || (k >= o->least && (o->most < 0 || k <= o->most)));
		named[i] = set == sets - 1 ? emit_others(o, counted ? k : o->n, end)
		                           : emit_some_others(o, counted ? k : o->n, sets - 1 - set, end);
		begun[i] = enough ? end : NOWHERE;
		if (named[i] != NOWHERE)
			begun[i] = emit_split(g, schema_emit_comma(c, emit_quote(c, named[i])), begun[i]);
	}
	for (int m = o->n - 1; m >= 0 && !c->failed && !g->failed; m--) {
		const struct object_member* member = &o->member[m];
		may_end = may_end && !member->required;
		for (int i = 0; i < (counted ? m + 1 : 1) * sets && !g->failed; i++) {
			const int k = i / sets, set = i % sets;
			int32_t at = emit_named(o, member, o->counts, set, sets, begun + (counted ? k + 1 : 0) * sets);
			if (!member->required)
				at = emit_split(g, at, named[i]);
			named[i] = at;
			const bool enough =
			    may_end && set == sets - 1 && (!counted || (k >= o->least && (o->most < 0 || k <= o->most)));
			const int32_t ends = enough ? end : NOWHERE;
			begun[i] = at == NOWHERE ? ends : emit_split(g, schema_emit_comma(c, emit_quote(c, at)), ends);
		}
	}
	if (!g->failed && !c->failed) {
		fresh = emit_quote(c, named[0]);
		if (may_end && o->least == 0 && o->n_some == 0)
			fresh = emit_split(g, fresh, close);
	}
	free(begun);
	free(named);
	return fresh;
}

/* The rule of each set of `some` that the member may keep. */
static void make_member_rules(struct object* o, struct object_member* member) {
	struct compiler* c = o->c;
	int possible = 0;
	for (int j = 0; j < o->n_some; j++)
		possible |= language_takes(o->some[j].names, member->name) << j;
	for (int set = 0; set < 1 << o->n_some && !c->failed; set++) {
		if (set & ~possible)
			continue;
		cJSON* list = cJSON_CreateArray();
		if (member->schema)
			add_value(c, list, member->schema);
		for (int j = 0; j < o->n_some; j++)
			if (set >> j & 1)
				add_value(c, list, o->some[j].value);
		const cJSON* of = all_of(c, list);
		const int rule = program_rule(c->grammar);
		member->rule[set] = schema_rule(c, rule, emit_member(c, member, of, RETURNS));
	}
}

static int32_t emit_object(struct object* o, int32_t next) {
	struct compiler* c = o->c;
	const bool counted = o->n > 0 && (o->least > 0 || o->most >= 0);
	int required = 0;
	for (int i = 0; i < o->n; i++)
		required += o->member[i].required;
	const bool counts =
	    counted && (o->least > required || (o->most >= 0 && (o->most < o->n || o->others[0])));
	if (counts && (int64_t)o->n * o->n > MAX_COUNTED)
		return schema_refuse(
		    c, "\"minProperties\" and \"maxProperties\" are not supported beside so many named properties");
	o->counts = counts || o->n_some > 0;
	for (int i = 0; i < o->n && o->counts && !c->failed; i++)
		make_member_rules(o, &o->member[i]);
	if (!counts && o->n > 0)
		o->least = 0, o->most = -1;
	if (o->n == 0 && o->least > 1)
		return schema_refuse(c, "\"minProperties\" over 1 is not supported where no property is named");
	const int32_t close = schema_emit_literal(c, "}", next);
	const int32_t at = c->failed ? NOWHERE : emit_members(o, counts || o->n == 0, close);
	return c->failed || at == NOWHERE ? NOWHERE : schema_emit_literal(c, "{", at);
}

static void read_some(struct object* o) {
	const cJSON* one;
	cJSON_ArrayForEach (one, json_field(o->schema, SCHEMA_SOME)) {
		if (o->c->failed)
			return;
		if (o->n_some == MAX_SOME) {
			schema_refuse(o->c, "more than 4 conditions that some member must break are not supported");
			return;
		}
		struct language* names = schema_names(o->c, json_field(one, "propertyNames"), 0);
		if (names)
			o->some[o->n_some++] = (struct some_member){names, json_field(one, "additionalProperties")};
	}
}

int32_t schema_emit_object(struct compiler* c, const cJSON* schema, int32_t next) {
	struct object* o = calloc(1, sizeof *o);
	const cJSON* names = json_field(schema, "propertyNames");
	int32_t at = NOWHERE;
	if (!o)
		return schema_refuse(c, "out of memory");
	o->c = c;
	o->schema = schema;
	o->unevaluated = json_field(schema, "unevaluatedProperties");
	o->n_groups =
	    schema_groups(schema, SCHEMA_MEMBERS, "properties patternProperties additionalProperties", o->group);
	o->least = schema_count_of(c, schema, "minProperties", 0);
	o->most = schema_count_of(c, schema, "maxProperties", -1);
	if (names)
		o->names = schema_names(c, names, 0);
	read_some(o);
	if (!c->failed && (o->most < 0 || o->least <= o->most)) {
		list_members(o);
		if (c->once)
			sort_members(o);
		make_others(o);
		if (!c->failed)
			at = emit_object(o, next);
	}
	language_free(o->names);
	for (int i = 0; i < o->n_some; i++)
		language_free(o->some[i].names);
	free(o);
	return at;
}
