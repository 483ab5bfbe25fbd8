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
    {"observation", "id, model, task, skipped, matches, rows, \"window\", made, kind, low", "iittiiiiii",
     "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10"},
    {"influence", "model, task, kind, rows, sums, updated", "itirbi", "?1, ?2, ?3, ?4, ?5, ?6"},
    {"chance", "model, device, task, kind, source, bin, rank, hits, trials", "ittitiirr",
     "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9"},
    {"cost", "model, device, what, total, samples", "ittrr", "?1, ?2, ?3, ?4, ?5"},
};

static void copy_column(struct sql_query* to, struct sql_query* from, int column, char type) {
	size_t size = 0;
	const void* blob;
	switch (type) {
	case 'i':
		sql_bind_int(to, column + 1, sql_int(from, column));
		break;
	case 'r':
		sql_bind_real(to, column + 1, sql_real(from, column));
		break;
	case 't':
		sql_bind_text(to, column + 1, sql_text(from, column));
		break;
	default:
		blob = sql_blob(from, column, &size);
		sql_bind_blob(to, column + 1, blob, size);
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
		sql_reset(out);
		for (int i = 0; t->type[i]; i++)
			copy_column(out, in, i, t->type[i]);
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
