/* All of one store into another that is empty. */
#include <stdio.h>

#include "streams/memory/store_internal.h"

/* A table's columns, and of each what it holds: i integer, r real, t text, b blob. */
static const struct table {
	const char *name, *columns, *type, *parameters;
} tables[] = {
    {"model", "id, fingerprint, name, blocks", "itti", "?1, ?2, ?3, ?4"},
    {"mask",
     "id, model, task, kind, skipped, skip_ratio, settled, signature, signature_prompts, matches, rows,"
     " accepted, draft_steps, trials, rounds, round_tokens, tokens, instances, steps, held, created, updated",
     "iititribriiiiiiiiiiiii",
     "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22"},
    {"figure", "model, device, task, kind, what, total, samples", "ittitrr", "?1, ?2, ?3, ?4, ?5, ?6, ?7"},
};

static struct sql_value column_of(struct sql_query* from, int column, char type) {
	size_t size = 0;
	switch (type) {
	case 'i':
		return sql_of_int(sql_int(from, column));
	case 'r':
		return sql_of_real(sql_real(from, column));
	case 't':
		return sql_of_text(sql_text(from, column));
	default:;
		const void* blob = sql_blob(from, column, &size);
		return sql_of_blob(blob, size);
	}
}

static bool copy_table(struct store* to, struct store* from, const struct table* t, struct error* e) {
	const char* doing = "copying a store";
	char read[512], write[768];
	snprintf(read, sizeof read, "SELECT %s FROM %s", t->columns, t->name);
	snprintf(write, sizeof write, "INSERT INTO %s(%s) VALUES(%s)", t->name, t->columns, t->parameters);
	struct sql_query* in = sql_prepare(from, read, doing, e);
	struct sql_query* out = in ? sql_prepare(to, write, doing, e) : NULL;
	bool good = out != NULL;
	enum sql_step step = SQL_FAILED;
	while (good && (step = sql_step(in, e)) == SQL_ROW) {
		struct sql_value value[32];
		int n = 0;
		for (; t->type[n]; n++)
			value[n] = column_of(in, n, t->type[n]);
		sql_bind_all(out, value, n);
		good = sql_step(out, e) != SQL_FAILED;
	}
	sql_finish(in);
	sql_finish(out);
	return good && step == SQL_DONE;
}

bool store_copy(struct store* to, struct store* from, struct error* e) {
	const char* doing = "copying a store";
	if (!sql_begin(to, doing, e))
		return false;
	bool good = true;
	for (size_t i = 0; i < sizeof tables / sizeof *tables && good; i++)
		good = copy_table(to, from, &tables[i], e);
	return sql_end(to, good, doing, e);
}
