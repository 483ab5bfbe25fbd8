/* Renders a template with variables to marked text: one machine for each rendering. */
#include "core/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/jinja/library.h"

void jinja_text_free(struct jinja_text* text) {
	free(text->data);
	free(text->foreign);
	*text = (struct jinja_text){0};
}

static struct scope* make_globals(struct machine* m) {
	struct scope* const s = MACHINE_NEW(m, struct scope, .outer = NULL);
	for (const struct routine* f = global_functions; f->name; f++)
		scope_set(m, s, string_of(m, f->name), value_function(m, value_none(), f));
	return s;
}

static struct scope* make_variables(struct machine* m, const struct jinja_call* call) {
	struct scope* const s = MACHINE_NEW(m, struct scope, .outer = make_globals(m));
	for (int i = 0; i < call->n_variables; i++) {
		const struct jinja_variable* const v = &call->variable[i];
		struct value value;
		if (v->form == JINJA_WORDS)
			value = value_string(string_new(m, v->text, v->size));
		else
			value = json_value(m, v->text, v->size, v->name, call->trusted_member, call->trusted_words);
		if (v->form == JINJA_MEMBERS && value.kind != DICT)
			machine_fail(m, "%s: expected a JSON object", v->name);
		if (v->form == JINJA_MEMBERS)
			dict_set_all(m, &s->names, value.dict);
		else
			scope_set(m, s, string_of(m, v->name), value);
	}
	return s;
}

static bool hand_over(const struct string* s, struct jinja_text* out) {
	bool good = (out->data = malloc(s->size + 1)) != NULL;
	for (size_t at = 0; good && at < s->size; at++) {
		if (!string_foreign_at(s, at))
			continue;
		if (out->n_foreign && out->foreign[out->n_foreign - 1].end == at) {
			out->foreign[out->n_foreign - 1].end++;
			continue;
		}
		good = grow_by_one(&out->foreign, out->n_foreign, sizeof *out->foreign);
		if (good)
			out->foreign[out->n_foreign++] = (struct text_range){at, at + 1};
	}
	if (!good) {
		jinja_text_free(out);
		return false;
	}
	memcpy(out->data, s->data, s->size);
	out->data[s->size] = 0;
	out->size = s->size;
	return true;
}

/* Parses, and with `out` runs. False with the error set, from wherever it was raised. */
static bool render_work(struct machine* m, const struct jinja_call* call, struct jinja_text* out) {
	if (setjmp(m->escape))
		return false;
	const struct node* const body = parse(m, call->source, call->size);
	if (!out)
		return true;
	struct scope* const s = MACHINE_NEW(m, struct scope, .outer = make_variables(m, call));
	struct builder b = {.machine = m};
	m->depth = 0;
	execute(m, s, body, &b);
	if (!hand_over(builder_end(&b), out))
		machine_fail(m, "out of memory");
	return true;
}

static enum jinja_outcome render_template(const struct jinja_call* call, struct jinja_text* out,
                                          struct error* error) {
	struct machine m = {.steps = MACHINE_STEPS, .line = 1, .error = error, .now = call->now};
	const bool good = render_work(&m, call, out);
	machine_close(&m);
	return good ? JINJA_DONE : m.raised ? JINJA_RAISED : JINJA_FAILED;
}

enum jinja_outcome jinja_render(const struct jinja_call* call, struct jinja_text* out, struct error* error) {
	*out = (struct jinja_text){0};
	return render_template(call, out, error);
}

bool jinja_check(const char* source, size_t size, struct error* error) {
	const struct jinja_call call = {.source = source, .size = size};
	return render_template(&call, NULL, error) == JINJA_DONE;
}
