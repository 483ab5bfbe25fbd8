/* The bank's entries in the store; store.h says what is kept and what is promised. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "streams/memory/store_internal.h"

/* ---- masks as text ------------------------------------------------------------------------ */

static char* write_blocks(char* at, const uint64_t* set, int half) {
	const char* separator = "";
	*at++ = half ? 'm' : 'a';
	for (int s = half; s < 2 * MAX_BLOCKS; s += 2)
		if (set[s >> 6] >> (s & 63) & 1u) {
			at += sprintf(at, "%s%d", separator, s / 2);
			separator = ",";
		}
	return at;
}

void store_mask_text(const struct mask* m, char text[STORE_MASK_TEXT]) {
	text = write_blocks(write_blocks(text, m->word, 0), m->word, 1);
	if (mask_says_stored(m)) {
		*text++ = 's';
		text = write_blocks(write_blocks(text, m->stored, 0), m->stored, 1);
	}
	if (m->stored_head)
		*text++ = 'h';
	*text = '\0';
}

static const char* read_blocks(const char* at, uint64_t* set, int half) {
	if (*at++ != (half ? 'm' : 'a'))
		return NULL;
	if (*at < '0' || *at > '9')
		return at; /* none */
	for (;; at++) {
		int block = 0, digits = 0;
		for (; *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
			block = block * 10 + (*at - '0');
		if (digits == 0 || block >= MAX_BLOCKS)
			return NULL;
		set[block >> 5] |= (uint64_t)1 << (2 * (block & 31) + half);
		if (*at != ',')
			return at;
	}
}

static const char* read_lists(const char* at, uint64_t* set) {
	at = read_blocks(at, set, 0);
	return at ? read_blocks(at, set, 1) : NULL;
}

bool store_mask_parse(const char* text, struct mask* m) {
	memset(m, 0, sizeof *m);
	text = text ? read_lists(text, m->word) : NULL;
	if (!text || *text != 's')
		return text && *text == '\0';
	text = read_lists(text + 1, m->stored);
	m->stored_head = text && *text == 'h';
	for (int i = 0; i < MASK_WORDS; i++)
		if (m->word[i] & m->stored[i])
			return false;
	return text && text[m->stored_head] == '\0';
}

/* ---- writing ------------------------------------------------------------------------------ */

/* From this column and the next. False: there is none, or of another size. */
static bool read_signature(struct sql_query* q, int column, struct bank_signature* out) {
	const struct sql_value v = q->store->driver->column(q, column);
	if (v.kind != SQL_BLOB || !v.data || v.size != sizeof out->value)
		return false;
	memcpy(out->value, v.data, v.size);
	out->prompts = sql_real(q, column + 1);
	return true;
}

/* The signature on file plus what is new of it. */
static bool add_signature(struct store* s, int64_t row, const struct bank_signature* more, struct error* e) {
	const char* doing = "storing a signature";
	struct bank_signature sum = *more;
	struct sql_query* q = sql_open(s, "SELECT signature, signature_prompts FROM mask WHERE id = ?1", doing, e,
	                               sql_with(sql_of_int(row)));
	if (!q)
		return false;
	struct bank_signature old;
	if (sql_step(q, e) == SQL_ROW && read_signature(q, 0, &old)) {
		for (int i = 0; i < BANK_SIGNATURE; i++)
			sum.value[i] += old.value[i];
		sum.prompts += old.prompts;
	}
	sql_finish(q);
	return sql_run(
	    s, "UPDATE mask SET signature = ?2, signature_prompts = ?3 WHERE id = ?1", doing, e,
	    sql_with(sql_of_int(row), sql_of_blob(sum.value, sizeof sum.value), sql_of_real(sum.prompts)));
}

/* Where no label tells the kind and none is given, it is that of a row with this mask, else a new one. */
#define INSERT_MASK                                                                                          \
	"INSERT INTO mask(model, task, skipped, skip_ratio, settled, matches, rows, accepted, draft_steps,"      \
	" trials, rounds, round_tokens, tokens, instances, steps, held, created, updated, kind)"                 \
	" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17,"               \
	" CASE WHEN ?2 <> '' THEN 0 WHEN ?18 > 0 THEN ?18 ELSE"                                                  \
	" coalesce((SELECT kind FROM mask WHERE model = ?1 AND task = '' AND skipped = ?3 ORDER BY id LIMIT 1)," \
	" ?19) END)"                                                                                             \
	" ON CONFLICT(model, task, kind, skipped) DO UPDATE SET skip_ratio = ?4, settled = ?5,"
static const char add_sql[] = INSERT_MASK
    " matches = mask.matches + ?6, rows = mask.rows + ?7, accepted = mask.accepted + ?8,"
    " draft_steps = mask.draft_steps + ?9, trials = mask.trials + ?10, rounds = mask.rounds + ?11,"
    " round_tokens = mask.round_tokens + ?12, tokens = mask.tokens + ?13,"
    " instances = mask.instances + ?14, steps = mask.steps + ?15,"
    " held = CASE WHEN mask.held + ?16 > 0 THEN mask.held + ?16 ELSE 0 END, updated = ?17 RETURNING id";
static const char put_sql[] =
    INSERT_MASK " matches = ?6, rows = ?7, accepted = ?8, draft_steps = ?9, trials = ?10, rounds = ?11, "
                "round_tokens = ?12,"
                " tokens = ?13, instances = ?14, steps = ?15, held = ?16, updated = ?17 RETURNING id";

static int64_t new_kind(void) {
	uint64_t number = 0;
	(void)!getrandom(&number, sizeof number, 0);
	return 1 + (int64_t)(number >> 3);
}

/* The row's id, or -1 with the error set. */
static int64_t write_row(struct store* s, const char* sql, int64_t model, const struct bank_entry* entry,
                         const struct bank_record* r, struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&entry->mask, text);
	return sql_number(s, sql, "storing a mask", e,
	                  sql_with(sql_of_int(model), sql_of_text(entry->task), sql_of_text(text),
	                           sql_of_real(isfinite(entry->skip_ratio) ? entry->skip_ratio : 0),
	                           sql_of_int(entry->settled), sql_of_int(r->matches), sql_of_int(r->rows),
	                           sql_of_int(r->accepted), sql_of_int(r->draft_steps), sql_of_int(r->trials),
	                           sql_of_int(r->rounds), sql_of_int(r->round_tokens), sql_of_int(r->tokens),
	                           sql_of_int(r->instances), sql_of_int(r->steps), sql_of_int(r->held),
	                           sql_of_int(time(NULL)), sql_of_int(entry->kind), sql_of_int(new_kind())));
}

bool run_add(struct store* s, const struct store_job* job, int64_t model, struct error* e) {
	bool good = true;
	for (const struct bank_entry* entry = job->entry; good && entry < job->entry + job->n; entry++) {
		const int64_t id = write_row(s, add_sql, model, entry, &entry->unsaved, e);
		good = id >= 0 && (!(entry->unsaved_signature.prompts > 0) ||
		                   add_signature(s, id, &entry->unsaved_signature, e));
		if (job->id)
			*job->id = id;
	}
	return good;
}

bool run_put(struct store* s, const struct store_job* job, int64_t model, struct error* e) {
	const int64_t id = write_row(s, put_sql, model, job->entry, &job->entry->record, e);
	if (job->id)
		*job->id = id;
	return id >= 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

#define MASK_COLUMNS                                                                                         \
	"SELECT mask.id, fingerprint, name, blocks, task, skipped, skip_ratio, settled, signature,"              \
	" signature_prompts, matches, rows, accepted, draft_steps, trials, rounds, round_tokens, tokens,"        \
	" instances, steps, held, created, updated, kind FROM mask JOIN model ON model.id = mask.model "

/* What a row holds is checked like any other file: a mask with a block the model lacks is damage. */
static bool read_row(const struct store* s, struct sql_query* q, struct store_mask* m, struct error* e) {
	memset(m, 0, sizeof *m);
	m->id = sql_int(q, 0);
	sql_copy_text(q, 1, m->model.fingerprint, sizeof m->model.fingerprint);
	sql_copy_text(q, 2, m->model.name, sizeof m->model.name);
	const int64_t blocks = sql_int(q, 3);
	sql_copy_text(q, 4, m->entry.task, sizeof m->entry.task);
	char text[STORE_MASK_TEXT + 1];
	sql_copy_text(q, 5, text, sizeof text);
	bool good = blocks >= 1 && blocks <= MAX_BLOCKS && store_mask_parse(text, &m->entry.mask);
	for (int i = good ? 2 * (int)blocks : 2 * MAX_BLOCKS; i < 2 * MAX_BLOCKS && good; i++)
		good = !mask_has(&m->entry.mask, i) && !mask_stores(&m->entry.mask, i);
	if (!good)
		return error_set(e, "%s: mask %lld is damaged: \"%.80s\" for a model of %lld blocks", s->path,
		                 (long long)m->id, text, (long long)blocks);
	m->model.blocks = (int)blocks;
	m->entry.skip_ratio = sql_real(q, 6);
	m->entry.settled = sql_int(q, 7) != 0;
	read_signature(q, 8, &m->entry.signature);
	struct bank_record* r = &m->entry.record;
	int64_t* const sums[] = {&r->matches,   &r->rows,   &r->accepted,     &r->draft_steps,
	                         &r->trials,    &r->rounds, &r->round_tokens, &r->tokens,
	                         &r->instances, &r->steps,  &r->held};
	for (int i = 0; i < 11; i++)
		*sums[i] = sql_int(q, 10 + i);
	m->created = sql_int(q, 21);
	m->updated = sql_int(q, 22);
	m->entry.kind = sql_int(q, 23);
	return true;
}

bool store_each(struct store* s, const char* fingerprint, bool (*visit)(void*, const struct store_mask*),
                void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	struct sql_query* q =
	    sql_open(s, MASK_COLUMNS "WHERE ?1 IS NULL OR fingerprint = ?1 ORDER BY tokens DESC, mask.id",
	             "reading masks", e, sql_with(sql_of_text(fingerprint)));
	struct store_mask* m = malloc(sizeof *m);
	bool good = q && (m || error_set(e, "out of memory"));
	enum sql_step step = SQL_DONE;
	while (good && (step = sql_step(q, e)) == SQL_ROW) {
		good = read_row(s, q, m, e);
		if (good && !visit(user, m)) {
			step = SQL_DONE;
			break;
		}
	}
	free(m);
	sql_finish(q);
	pthread_mutex_unlock(&s->lock);
	return good && step == SQL_DONE;
}

int store_get(struct store* s, int64_t id, struct store_mask* out, struct error* e) {
	pthread_mutex_lock(&s->lock);
	struct sql_query* q =
	    sql_open(s, MASK_COLUMNS "WHERE mask.id = ?1", "reading a mask", e, sql_with(sql_of_int(id)));
	const enum sql_step step = q ? sql_step(q, e) : SQL_FAILED;
	const bool found = step == SQL_ROW && read_row(s, q, out, e);
	sql_finish(q);
	pthread_mutex_unlock(&s->lock);
	return found ? 1 : step == SQL_DONE ? 0 : -1;
}

/* ---- deleting ----------------------------------------------------------------------------- */

bool run_delete(struct store* s, const struct store_job* job, struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&job->entry->mask, text);
	return sql_run(
	    s,
	    "DELETE FROM mask WHERE model IN (SELECT id FROM model WHERE fingerprint = ?1) AND task = ?2"
	    " AND kind = ?3 AND skipped = ?4",
	    "deleting a mask", e,
	    sql_with(sql_of_text(job->model.fingerprint), sql_of_text(job->entry->task),
	             sql_of_int(*job->entry->task ? 0 : job->entry->kind), sql_of_text(text)));
}

/* A settled mask outranks all others: it is what its kind of text is served with. */
bool run_trim(struct store* s, const struct store_job* job, struct error* e) {
	return sql_run(
	    s,
	    "DELETE FROM mask WHERE id IN (SELECT id FROM (SELECT mask.id AS id,"
	    " row_number() OVER (ORDER BY settled DESC, tokens DESC) AS rank,"
	    " row_number() OVER (PARTITION BY task, kind ORDER BY settled DESC, tokens DESC) AS kind_rank"
	    " FROM mask JOIN model ON model.id = mask.model WHERE fingerprint = ?1) AS ranked"
	    " WHERE rank > ?2 OR kind_rank > ?3)",
	    "trimming masks", e,
	    sql_with(sql_of_text(job->model.fingerprint), sql_of_int(job->capacity), sql_of_int(job->a_kind)));
}
