/* An iteration: every sequence takes a step, and rows that can share a pass do.
 *
 *     draft steps, wave by wave, those of one variant together … → one full pass for all: plain steps,
 *     trees, and a chunk of the newcomers' prompts
 *
 * An iteration costs no more than a chunk (streams/service/chunk.h). That bounds how long a long prompt
 * delays the others' tokens, and a new request's first token, which waits for the end of one iteration and
 * then for its own. The waiting prompt with the fewest tokens left goes first; time waited and the tenant's
 * recent use count too. The scheduler measures the cost of a pass, because no sequence sees the whole of it,
 * and charges each sequence for its rows.
 *
 * When caches share memory and it runs out, the youngest sequence is preempted: its cache is dropped, and
 * computed again when there is room. The oldest always goes on, so that all of them finish. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_cost.h"
#include "streams/service/chunk.h"
#include "streams/service/scheduler_internal.h"

/* The share of the time, for which others wait, that costly grammars may take. */
static const double GRAMMAR_SHARE = 0.25;

enum {
	PATIENCE = 4,     /* iterations for which short prompts may go before a long one */
	ROOM_BESIDE = 128 /* tokens that must be free beyond a prompt's own */
};

/* ---- memory ------------------------------------------------------------------------------- */

/* Frees the KV cache of the free session that was unused the longest. False when none holds any. */
static bool release_idle(struct scheduler* s) {
	struct slot* longest = NULL;
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (!slot->job && slot->holds && (!longest || slot->used < longest->used))
			longest = slot;
	}
	if (!longest)
		return false;
	session_release(longest->session);
	longest->holds = false;
	return true;
}

static void preempt_slot(struct scheduler* s, struct slot* slot) {
	session_release(slot->session);
	slot->waits = slot->holds = false;
	s->preempted++;
}

/* The youngest sequence that holds memory and is younger than this one, or this one. */
static struct slot* choose_victim(struct scheduler* s, struct slot* slot) {
	struct slot* youngest = slot;
	for (struct slot* other = s->slot; other < s->end; other++) {
		if (other->job && other->holds && other->used > youngest->used)
			youngest = other;
	}
	return youngest;
}

/* Gets memory for the slot's next pass. False when the slot has to wait. */
static bool find_memory(struct scheduler* s, struct slot* slot) {
	slot->holds = true;
	while (!session_reserve(slot->session, &slot->work)) {
		struct slot* other = release_idle(s) ? NULL : choose_victim(s, slot);
		if (other)
			preempt_slot(s, other);
		if (other == slot)
			return false;
	}
	return true;
}

/* ---- prompts ------------------------------------------------------------------------------ */

int scheduler_chunk(const struct scheduler* s) {
	if (!s->engine->backend->prefill_is_exact)
		return PREFILL_CHUNK;
	return chunk_whole(&s->engine->cost, s->option.prefill_chunk);
}

/* A prompt that gets rows in this iteration, if any are left for it. */
static bool wants_rows(const struct scheduler* s, const struct slot* slot) {
	return slot->job && slot->begun != s->iterations && session_prefill_left(slot->session) > 0;
}

/* Rows that the slot's next pass over its prompt would take, of `most`. */
static int limit_prompt_rows(const struct scheduler* s, const struct slot* slot, int most) {
	const int left = session_prefill_left(slot->session);
	return s->engine->backend->prefill_is_exact ? least(left, most) : least(left, PREFILL_CHUNK);
}

static struct slot* find_oldest(struct scheduler* s) {
	struct slot* oldest = NULL;
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->job && (!oldest || slot->used < oldest->used))
			oldest = slot;
	return oldest;
}

/* A prompt begins when there is memory for all of it. The oldest sequence always goes on. */
static bool may_begin(struct scheduler* s, const struct slot* slot, int room) {
	return session_prefill_left(slot->session) <= room - ROOM_BESIDE || slot == find_oldest(s);
}

static struct slot* choose_prompt(struct scheduler* s, int chunk, int room) {
	struct slot* first = NULL;
	double most = 0;
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (slot->allotted > 0 || !wants_rows(s, slot) || !may_begin(s, slot, room))
			continue;
		const double urgency =
		    0.25 * chunk * slot->passed_over - session_prefill_left(slot->session) - s->spent[slot->tenant];
		if (!first || urgency > most) {
			first = slot;
			most = urgency;
		}
	}
	return first;
}

/* Tokens that prompts may take. Sleeping sequences give way to waiting prompts. */
static int memory_for_prompts(struct scheduler* s) {
	int wanted = 0, room = session_room(s->slot[0].session);
	for (const struct slot* slot = s->slot; slot < s->end && room < INT_MAX; slot++)
		if (slot->job && session_prefill_left(slot->session) > 0)
			wanted += session_prefill_left(slot->session) + ROOM_BESIDE;
	while (room < wanted && release_idle(s))
		room = session_room(s->slot[0].session);
	return room;
}

/* Rows of other sequences in this iteration's full pass. */
static int count_decoding_rows(const struct scheduler* s) {
	int rows = 0;
	for (const struct slot* slot = s->slot; slot < s->end; slot++)
		rows += slot->waits ? slot->work.pass.n : 0;
	return rows;
}

/* The part of the chunk that is left for long prompts after the iteration's drafts and other rows. */
static int chunk_for_long(const struct scheduler* s, int chunk) {
	const double plain = cost_plain_seconds(&s->engine->cost);
	if (!s->engine->backend->prefill_is_exact)
		return chunk;
	return chunk_rest(&s->engine->cost, chunk, plain > 0 ? s->drafted / plain : 0, count_decoding_rows(s));
}

/* Allots each prompt its rows of this iteration: one chunk for all prompts. A prompt that ends in it is not
 * cut. */
static void share_chunk(struct scheduler* s) {
	const int chunk = scheduler_chunk(s), most = chunk_for_long(s, chunk);
	int taken = 0, room = memory_for_prompts(s);
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		slot->allotted = 0;
	bool hurries = false;
	for (;;) {
		struct slot* slot = choose_prompt(s, chunk, room);
		if (!slot)
			break;
		const bool ends = session_prefill_left(slot->session) <= chunk - taken;
		const int left = (ends ? chunk : most) - taken,
		          rows = left > 0 ? limit_prompt_rows(s, slot, left) : 0;
		if (rows == 0 || rows > left)
			break;
		/* a short prompt's first token goes before a long one's rows, except now and then */
		if (hurries && !ends && slot->passed_over < PATIENCE)
			break;
		hurries |= ends;
		slot->allotted = rows;
		taken += rows;
		room -= room < INT_MAX ? session_prefill_left(slot->session) : 0;
	}
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (wants_rows(s, slot))
			slot->passed_over = 4 * slot->allotted >= chunk ? 0 : slot->passed_over + 1;
	}
}

/* ---- the batch ------------------------------------------------------------------------------ */

static bool is_decoding(const struct slot* slot) {
	return slot->job && session_prefill_left(slot->session) == 0;
}

/* Collects other sequences whose draft steps run the same weights. */
static int count_drafting(const struct scheduler* s, const struct slot* slot) {
	int n = 0;
	for (const struct slot* other = s->slot; other < s->end; other++) {
		n += other != slot && is_decoding(other) && mask_equal(&other->mask, &slot->mask);
	}
	return n;
}

/* No sequence drafts while a prompt waits that would end in this iteration. */
static void size_batch(struct scheduler* s) {
	const int chunk = scheduler_chunk(s), room = memory_for_prompts(s);
	int decoding = 0;
	double rows = 0;
	bool hurried = false;
	for (const struct slot* slot = s->slot; slot < s->end; slot++) {
		if (is_decoding(slot)) {
			decoding++;
			rows += slot->rows;
		} else if (wants_rows(s, slot) && may_begin(s, slot, room))
			hurried |= session_prefill_left(slot->session) <= chunk;
	}
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (!is_decoding(slot))
			continue;
		const struct batch batch = {.sequences = decoding - 1,
		                            .rows = rows - slot->rows,
		                            .drafting = count_drafting(s, slot),
		                            .hurried = hurried};
		session_set_batch(slot->session, &batch);
	}
}

/* ---- passes ------------------------------------------------------------------------------- */

/* The step's next work, or its end. */
static void advance_slot(struct scheduler* s, struct slot* slot) {
	slot->waits = session_next(slot->session, &slot->work);
	if (!slot->waits)
		slot_step(s, slot);
}

static bool is_full(const struct session_work* work) {
	return work->kind == WORK_PLAIN || work->kind == WORK_VERIFY || work->kind == WORK_PREFILL;
}

static bool is_draft(const struct session_work* work) { return work->kind == WORK_DRAFT; }
static bool is_own(const struct session_work* work) { return !is_full(work) && !is_draft(work); }

/* The cost of work beside the iteration's full pass. Iterations with prompts leave it out. */
static void note_drafted(struct scheduler* s, const struct session_work* work, double seconds) {
	s->drafted += is_full(work) ? 0 : seconds;
}

static void take_results(struct scheduler* s, struct slot* slot, int rows, double seconds) {
	const struct session_work* work = &slot->work;
	const int n = work->kind == WORK_DRAFT_LOOP ? 1 : work->pass.n;
	if (work->kind == WORK_PLAIN || work->kind == WORK_VERIFY)
		slot->rows += 0.25 * (n - slot->rows);
	s->spent[slot->tenant] += n;
	slot->taken += seconds * n / rows;
	slot->waits = false;
	if (session_absorb(slot->session, work, rows, seconds))
		slot_step(s, slot);
	else
		advance_slot(s, slot);
}

/* Costs of a batch are those after the mean of its texts. */
static void see_full(struct scheduler* s, const struct pass* pass, double seconds) {
	int wanted = 0;
	double bytes = 0;
	for (int i = 0; i < pass->n; i++)
		wanted += pass->head && pass->want[i] != WANT_NOTHING;
	for (int i = 0; i < pass->n_segments; i++)
		bytes += attention_bytes(&s->engine->model->weights.shape, pass->segment[i].cache->type,
		                         pass->segment[i].base, pass->segment[i].base);
	cost_at(&s->engine->cost, bytes / pass->n_segments);
	cost_see_full(&s->engine->cost, (int)lround(cost_rows_with_heads(&s->engine->cost, pass->n, wanted)),
	              seconds, s->engine->backend->attention_share);
}

static void run_alone(struct scheduler* s, struct slot* slot) {
	struct error e = {{0}};
	const struct session_work* work = &slot->work;
	const double before = seconds_now();
	const bool ran = session_run(slot->session, work, &e);
	const double seconds = seconds_now() - before;
	note_drafted(s, work, seconds);
	s->separate++;
	if (!ran) {
		slot->taken += seconds;
		slot_fail(s, slot, &e);
		return;
	}
	/* the first prompts pay for touching new memory, which is no cost of drafts' rows */
	if (work->kind == WORK_PREFILL && work->pass.n >= LEAST_CHUNK_ROWS && s->engine->cost.plain_steps > 0)
		see_full(s, &work->pass, seconds);
	take_results(s, slot, work->kind == WORK_DRAFT_LOOP ? 1 : work->pass.n, seconds);
}

static void see_cost(struct scheduler* s, const struct session_work* work, int rows, double seconds) {
	struct cost_model* cost = &s->engine->cost;
	const struct backend* runs = work->pass.segment->cache->backend;
	struct cost_model* another = draft_model_costs(s->engine, runs);
	if (another) {
		draft_model_see(another, runs, rows, seconds);
		return;
	}
	if (is_full(work)) {
		see_full(s, &s->merged.pass, seconds);
		return;
	}
	const struct variant v = {.skip = work->pass.skip,
	                          .quantized = work->pass.quantized,
	                          .quantized_head = work->pass.quantized_head,
	                          .levels = work->pass.levels};
	if (v.skip || v.quantized || v.quantized_head)
		cost_see_draft(cost, v, seconds / cost_draft_rows(cost, v, rows));
}

/* A pass failed. Its full passes are run again one by one; its drafts have lost what they built on. */
static void run_apart(struct scheduler* s, struct slot** slot, int n, const struct error* e) {
	for (int i = 0; i < n; i++)
		if (is_full(&slot[i]->work))
			run_alone(s, slot[i]);
		else {
			session_fail(slot[i]->session, e);
			slot_fail(s, slot[i], e);
		}
}

static void run_merged(struct scheduler* s, struct slot** slot, int n) {
	struct error e = {{0}};
	struct backend* backend = s->merged.segment[0].cache->backend;
	const int rows = s->merged.pass.n;
	const double before = seconds_now();
	const bool ran = backend->run(backend, &s->merged.pass, &e);
	const double seconds = seconds_now() - before;
	note_drafted(s, &slot[0]->work, seconds);
	s->shared++;
	if (!ran) {
		run_apart(s, slot, n, &e);
		return;
	}
	see_cost(s, &slot[0]->work, rows, seconds);
	for (int i = 0, row = 0; i < n; i++)
		row = merge_take(&s->merged, &slot[i]->work.pass, row);
	for (int i = 0; i < n; i++)
		take_results(s, slot[i], rows, seconds);
}

/* Only whole passes are measured, because a pass that ends at an exit costs less. */
static bool may_share(const struct session_work* work) {
	if (is_own(work) || !merge_may(&work->pass))
		return false;
	const int blocks = work->pass.segment->cache->backend->weights->shape.n_blocks;
	return work->pass.last == 2 * blocks;
}

/* Runs the first of the waiting works together with all that can share its pass. They leave the list. Returns
 * how many are left. */
static int run_group(struct scheduler* s, struct slot** waiting, int n) {
	struct slot* group[MAX_SESSIONS] = {waiting[0]};
	const bool shares = may_share(&waiting[0]->work);
	int members = 1, left = 0;
	if (shares)
		merge_begin(&s->merged, &waiting[0]->work.pass);
	for (int i = 1; i < n; i++)
		if (shares && may_share(&waiting[i]->work) && merge_fits(&s->merged, &waiting[i]->work.pass)) {
			merge_add(&s->merged, &waiting[i]->work.pass);
			group[members++] = waiting[i];
		} else
			waiting[left++] = waiting[i];
	if (members > 1)
		run_merged(s, group, members);
	else
		run_alone(s, group[0]);
	return left;
}

static int by_age(const void* a, const void* b) {
	const struct slot *x = *(struct slot*const*)a, *y = *(struct slot*const*)b;
	return x->used < y->used ? -1 : x->used > y->used;
}

/* Sorts the oldest first, and removes works that must wait or have given way. */
static int keep_those_with_memory(struct scheduler* s, struct slot** waiting, int n) {
	int kept = 0;
	qsort(waiting, (size_t)n, sizeof(struct slot*), by_age);
	for (int i = 0; i < n; i++)
		if (waiting[i]->waits && find_memory(s, waiting[i]))
			waiting[kept++] = waiting[i];
	return kept;
}

/* Runs the waiting works of a kind once each. False when there were none. */
static bool run_waiting(struct scheduler* s, bool (*wanted)(const struct session_work*)) {
	struct slot* waiting[MAX_SESSIONS];
	int n = 0;
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->waits && wanted(&slot->work))
			waiting[n++] = slot;
	if (n == 0)
		return false;
	n = keep_those_with_memory(s, waiting, n);
	while (n > 0)
		n = run_group(s, waiting, n);
	return true;
}

/* ---- grammars ---------------------------------------------------------------------------------- */

/* This thread finds the tokens that a grammar allows, and all sequences wait for it. The time of a costly
 * grammar's step is charged to its slot, which sits out until the debt is paid. Debts are paid one after the
 * other out of a quarter of the passing time, so that costly steps do not come together. */
static void note_grammar(struct slot* slot) {
	const double seconds = session_constraint_seconds(slot->session), more = seconds - slot->grammar;
	slot->grammar = seconds;
	if (more > FREE_GRAMMAR_SECONDS)
		slot->debt += more - FREE_GRAMMAR_SECONDS;
}

static bool has_debt(const struct slot* slot) { return slot->job && slot->debt > 0; }

/* Pays debts with the time since the last iteration, one debt after the other. */
static void pay_debts(struct scheduler* s) {
	const double now = seconds_now();
	double paid = s->iterated > 0 ? GRAMMAR_SHARE * (now - s->iterated) : 0;
	s->iterated = now;
	const int slots = (int)(s->end - s->slot);
	for (int i = 0; i < slots && paid > 0; i++) {
		struct slot* const slot = &s->slot[s->payee];
		const double part = has_debt(slot) ? fmin(paid, slot->debt) : 0;
		slot->debt -= part;
		paid -= part;
		if (!has_debt(slot))
			s->payee = (s->payee + 1) % slots;
	}
}

/* True when a slot without debt runs. Without one nobody has to be spared. */
static bool has_neighbours(const struct scheduler* s) {
	for (const struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->job && !has_debt(slot))
			return true;
	return false;
}

/* ---- the iteration ----------------------------------------------------------------------------- */

static void begin_step(struct scheduler* s, struct slot* slot, bool cancel_all) {
	struct job* job = slot->job;
	const double began = seconds_now();
	slot->begun = s->iterations;
	if (job->calls->gone(job->user) || cancel_all)
		swiftlet_session_cancel(slot->session);
	else if (session_prefill_left(slot->session) > 0 && slot->allotted == 0)
		return;
	session_limit_prefill(slot->session, slot->allotted);
	session_begin_step(slot->session);
	advance_slot(s, slot);
	slot->taken += seconds_now() - began;
}

/* Begins the steps of the slots that prefill, or of those that decode. False when there are none. */
static bool begin_steps(struct scheduler* s, bool prompts, bool cancel_all) {
	const bool spares = has_neighbours(s);
	bool any = false;
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		if (spares && has_debt(slot) && !cancel_all)
			any = true;
		else if (prompts ? wants_rows(s, slot) : is_decoding(slot)) {
			any = true;
			begin_step(s, slot, cancel_all);
		}
	return any;
}

bool scheduler_iterate(struct scheduler* s, bool cancel_all) {
	s->iterations++;
	s->drafted = 0;
	for (int i = 0; i < MAX_TENANTS; i++)
		s->spent[i] *= 0.9;
	pay_debts(s);
	size_batch(s);
	bool any = begin_steps(s, false, cancel_all);
	while (run_waiting(s, is_own) || run_waiting(s, is_draft))
		;
	share_chunk(s);
	any |= begin_steps(s, true, cancel_all);
	run_waiting(s, is_full);
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->job)
			note_grammar(slot);
	return any;
}
