/* The bank's entries in the store; store.h describes the format and its guarantees. */
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
	if (m->has_levels) {
		*text++ = 'l';
		for (int i = 0; i < LEVEL_DEPTHS * COLUMN_KINDS; i++)
			text +=
			    sprintf(text, "%s%d", i ? "," : "", m->levels.left_out[i / COLUMN_KINDS][i % COLUMN_KINDS]);
	}
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

/* Per cents that levels leave out, by depth and kind. NULL: not such a list. */
static const char* read_levels(const char* at, struct levels* levels) {
	for (int i = 0; i < LEVEL_DEPTHS * COLUMN_KINDS; i++) {
		int percent = 0, digits = 0;
		if (i > 0 && *at++ != ',')
			return NULL;
		for (; *at >= '0' && *at <= '9' && digits < 2; at++, digits++)
			percent = percent * 10 + (*at - '0');
		if (digits == 0 || percent > LEVEL_MOST)
			return NULL;
		levels->left_out[i / COLUMN_KINDS][i % COLUMN_KINDS] = (uint8_t)percent;
	}
	return at;
}

bool store_mask_parse(const char* text, struct mask* m) {
	memset(m, 0, sizeof *m);
	text = text ? read_blocks(text, m->word, 0) : NULL;
	text = text ? read_blocks(text, m->word, 1) : NULL;
	if (text && *text == 's') /* what earlier versions kept with stored weights */
		text += strspn(text, "sam0123456789,h");
	m->has_levels = text && *text == 'l';
	if (m->has_levels)
		text = read_levels(text + 1, &m->levels);
	return text && *text == '\0';
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Reads a signature from this column and the next. False: there is none, or it has another size. */
static bool read_signature(const struct sql_value* column, struct bank_signature* out) {
	if (column[0].kind != SQL_BLOB || !column[0].data || column[0].size != sizeof out->value)
		return false;
	memcpy(out->value, column[0].data, column[0].size);
	out->prompts = column[1].real;
	return true;
}

static bool add_to_sum(void* user, const struct sql_value* column, struct error* e) {
	struct bank_signature *sum = user, old;
	(void)e;
	if (read_signature(column, &old))
		bank_signature_add(sum, &old);
	return true;
}

/* Adds the new part of a signature to the stored one. */
static bool add_signature(struct store* s, int64_t row, const struct bank_signature* more, struct error* e) {
	const char* doing = "storing a signature";
	struct bank_signature sum = *more;
	return s->driver->run(s, "SELECT signature, signature_prompts FROM mask WHERE id = ?1", doing,
	                      sql_with(sql_of_int(row)), add_to_sum, &sum, e) &&
	       sql_run(s, "UPDATE mask SET signature = ?2, signature_prompts = ?3 WHERE id = ?1", doing, e,
	               sql_of_int(row), sql_of_blob(sum.value, sizeof sum.value), sql_of_real(sum.prompts));
}

/* Without a label and a cluster, the cluster is that of a row with this mask, else a new one. ?22: 1 adds to
 * the stored sums, 0 replaces them. */
static const char write_sql[] =
    "INSERT INTO mask(model, task, skipped, skip_ratio, settled, " RECORD_COLUMNS ", created, updated, kind)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?19,"
    " CASE WHEN ?2 <> '' THEN 0 WHEN ?20 > 0 THEN ?20 ELSE"
    " coalesce((SELECT kind FROM mask WHERE model = ?1 AND task = '' AND skipped = ?3 ORDER BY id LIMIT 1),"
    " ?21) END)"
    " ON CONFLICT(model, task, kind, skipped) DO UPDATE SET skip_ratio = ?4, settled = ?5, updated = ?19,"
    " matches = ?22 * mask.matches + ?6, rows = ?22 * mask.rows + ?7, accepted = ?22 * mask.accepted + ?8,"
    " draft_steps = ?22 * mask.draft_steps + ?9, trials = ?22 * mask.trials + ?10,"
    " rounds = ?22 * mask.rounds + ?11, round_tokens = ?22 * mask.round_tokens + ?12,"
    " tokens = ?22 * mask.tokens + ?13, instances = ?22 * mask.instances + ?14,"
    " steps = ?22 * mask.steps + ?15, micros = ?22 * mask.micros + ?17,"
    " plain_micros = ?22 * mask.plain_micros + ?18,"
    " held = CASE WHEN ?22 * mask.held + ?16 > 0 THEN ?22 * mask.held + ?16 ELSE 0 END RETURNING id";

static int64_t new_cluster(void) {
	uint64_t number = 0;
	(void)!getrandom(&number, sizeof number, 0);
	return 1 + (int64_t)(number >> 3);
}

/* The row's id, or -1 with the error set. */
static int64_t write_row(struct store* s, int64_t model, const struct bank_entry* entry, bool put,
                         struct error* e) {
	const struct bank_record* r = put ? &entry->record : &entry->unsaved;
	char text[STORE_MASK_TEXT];
	store_mask_text(&entry->mask, text);
	struct sql_value value[22] = {sql_of_int(model), sql_of_text(entry->task), sql_of_text(text),
	                              sql_of_real(isfinite(entry->skip_ratio) ? entry->skip_ratio : 0),
	                              sql_of_int(entry->converged)};
	for (int i = 0; i < BANK_SUMS; i++)
		value[5 + i] = sql_of_int(r->sum[i]);
	value[18] = sql_of_int(time(NULL));
	value[19] = sql_of_int(entry->cluster);
	value[20] = sql_of_int(new_cluster());
	value[21] = sql_of_int(!put);
	return sql_number(s, write_sql, "storing a mask", e, value, 22);
}

bool run_masks(struct store* s, const struct store_job* job, int64_t model, struct error* e) {
	bool good = true;
	for (const struct bank_entry* entry = job->entry; good && entry < job->entry + job->n; entry++) {
		const int64_t id = write_row(s, model, entry, job->anew, e);
		const bool signs = !job->anew && entry->unsaved_signature.prompts > 0;
		good = id >= 0 && (!signs || add_signature(s, id, &entry->unsaved_signature, e));
		if (job->id)
			*job->id = id;
	}
	return good;
}

/* ---- reading ------------------------------------------------------------------------------ */

#define MASK_COLUMNS                                                                                         \
	"SELECT mask.id, fingerprint, name, blocks, task, skipped, skip_ratio, settled, signature,"              \
	" signature_prompts, " RECORD_COLUMNS ", kind, updated FROM mask JOIN model"                             \
	" ON model.id = mask.model "

struct mask_visit {
	const struct store* store;
	bool (*visit)(void* user, const struct store_mask*);
	void* user;
	struct store_mask* mask; /* the last one */
	int n;
	bool stopped;
};

/* Checks a row like any other input. A mask with a block that the model lacks is damaged. */
static bool see_mask(void* user, const struct sql_value* column, struct error* e) {
	struct mask_visit* v = user;
	struct store_mask* m = v->mask;
	char text[STORE_MASK_TEXT + 1];
	const int64_t blocks = column[3].number;
	memset(m, 0, sizeof *m);
	m->id = column[0].number;
	sql_copy_text(&column[1], m->model.fingerprint, sizeof m->model.fingerprint);
	sql_copy_text(&column[2], m->model.name, sizeof m->model.name);
	sql_copy_text(&column[4], m->entry.task, sizeof m->entry.task);
	sql_copy_text(&column[5], text, sizeof text);
	bool good = blocks >= 1 && blocks <= MAX_BLOCKS && store_mask_parse(text, &m->entry.mask);
	for (int i = good ? 2 * (int)blocks : 2 * MAX_BLOCKS; i < 2 * MAX_BLOCKS && good; i++)
		good = !mask_has(&m->entry.mask, i);
	if (!good)
		return error_set(e, "%s: mask %lld is damaged: \"%.80s\" for a model of %lld blocks", v->store->path,
		                 (long long)m->id, text, (long long)blocks);
	m->model.blocks = (int)blocks;
	m->entry.skip_ratio = column[6].real;
	m->entry.converged = column[7].number != 0;
	read_signature(&column[8], &m->entry.signature);
	for (int i = 0; i < BANK_SUMS; i++)
		m->entry.record.sum[i] = column[10 + i].number;
	m->entry.cluster = column[10 + BANK_SUMS].number;
	m->updated = column[11 + BANK_SUMS].number;
	v->n++;
	v->stopped = v->visit && !v->visit(v->user, m);
	return !v->stopped;
}

bool store_each(struct store* s, const char* fingerprint, bool (*visit)(void*, const struct store_mask*),
                void* user, struct error* e) {
	struct mask_visit v = {s, visit, user, malloc(sizeof *v.mask), 0, false};
	if (!v.mask)
		return error_set(e, "out of memory");
	pthread_mutex_lock(&s->lock);
	const bool good =
	    s->driver->run(s, MASK_COLUMNS "WHERE ?1 IS NULL OR fingerprint = ?1 ORDER BY tokens DESC, mask.id",
	                   "reading masks", sql_with(sql_of_text(fingerprint)), see_mask, &v, e);
	pthread_mutex_unlock(&s->lock);
	free(v.mask);
	return good || v.stopped;
}

int store_get(struct store* s, int64_t id, struct store_mask* out, struct error* e) {
	struct mask_visit v = {.store = s, .mask = out};
	pthread_mutex_lock(&s->lock);
	const bool good = s->driver->run(s, MASK_COLUMNS "WHERE mask.id = ?1", "reading a mask",
	                                 sql_with(sql_of_int(id)), see_mask, &v, e);
	pthread_mutex_unlock(&s->lock);
	return good ? v.n : -1;
}

/* ---- deleting ----------------------------------------------------------------------------- */

bool run_delete(struct store* s, const struct store_job* job, struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&job->entry->mask, text);
	return sql_run(
	    s,
	    "DELETE FROM mask WHERE model IN (SELECT id FROM model WHERE fingerprint = ?1) AND task = ?2"
	    " AND kind = ?3 AND skipped = ?4",
	    "deleting a mask", e, sql_of_text(job->model.fingerprint), sql_of_text(job->entry->task),
	    sql_of_int(*job->entry->task ? 0 : job->entry->cluster), sql_of_text(text));
}

/* A converged mask comes first, because its workload cluster is served with it. */
bool run_trim(struct store* s, const struct store_job* job, struct error* e) {
	return sql_run(
	    s,
	    "DELETE FROM mask WHERE id IN (SELECT id FROM (SELECT mask.id AS id,"
	    " row_number() OVER (ORDER BY settled DESC, tokens DESC) AS rank,"
	    " row_number() OVER (PARTITION BY task, kind ORDER BY settled DESC, tokens DESC) AS kind_rank"
	    " FROM mask JOIN model ON model.id = mask.model WHERE fingerprint = ?1) AS ranked"
	    " WHERE rank > ?2 OR kind_rank > ?3)",
	    "trimming masks", e, sql_of_text(job->model.fingerprint), sql_of_int(job->capacity),
	    sql_of_int(job->per_cluster));
}
