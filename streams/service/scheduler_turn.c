/* A turn: every sequence takes a step, and rows that can share a pass do.
 *
 *     draft steps, wave by wave, those of one variant together … → one full pass for all: plain steps,
 *     trees, and a chunk of the newcomers' prompts
 *
 * A turn costs no more than a chunk (streams/service/chunk.h): that bounds what a long prompt delays the
 * others' tokens by, and a newcomer's first one, who waits for the end of one turn and then for its own. Of
 * the prompts that wait, the one with the fewest tokens left goes first, but waiting counts, and so does what
 * its owner has had lately. What a pass costs is measured here, since no sequence sees the whole of it; each
 * is charged for its rows.
 *
 * Where caches share memory and it is short, the youngest gives way: its cache is dropped, and computed again
 * when there is room. The oldest always goes on, so that all come to their ends. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "streams/service/chunk.h"
#include "streams/service/scheduler_internal.h"

enum {
	PATIENCE = 4,     /* turns that a long prompt is passed over for the sake of short ones */
	ROOM_BESIDE = 128 /* tokens that must be free beyond a prompt's own */
};

/* ---- memory ------------------------------------------------------------------------------- */

/* The longest unused free session gives its cache's memory back. False when none holds any. */
static bool release_idle(struct scheduler* s) {
	struct seat* longest = NULL;
	for (struct seat* seat = s->seat; seat < s->end; seat++) {
		if (!seat->job && seat->holds && (!longest || seat->used < longest->used))
			longest = seat;
	}
	if (!longest)
		return false;
	session_release(longest->session);
	longest->holds = false;
	return true;
}

static void preempt(struct scheduler* s, struct seat* seat) {
	session_release(seat->session);
	seat->waits = seat->holds = false;
	s->preempted++;
}

/* The youngest that holds memory and is younger than this one, or this one. */
static struct seat* who_gives_way(struct scheduler* s, struct seat* seat) {
	struct seat* youngest = seat;
	for (struct seat* other = s->seat; other < s->end; other++) {
		if (other->job && other->holds && other->used > youngest->used)
			youngest = other;
	}
	return youngest;
}

/* Memory for the seat's next pass. False when it has to wait. */
static bool find_memory(struct scheduler* s, struct seat* seat) {
	seat->holds = true;
	while (!session_reserve(seat->session, &seat->work)) {
		struct seat* other = release_idle(s) ? NULL : who_gives_way(s, seat);
		if (other)
			preempt(s, other);
		if (other == seat)
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

/* A prompt that gets its rows in this turn, if any are left for it. */
static bool wants_rows(const struct scheduler* s, const struct seat* seat) {
	return seat->job && seat->begun != s->turns && session_prefill_left(seat->session) > 0;
}

/* Rows that the seat's next pass over its prompt would take of `most`. */
static int next_rows(const struct scheduler* s, const struct seat* seat, int most) {
	const int left = session_prefill_left(seat->session);
	return s->engine->backend->prefill_is_exact ? least(left, most) : least(left, PREFILL_CHUNK);
}

static struct seat* oldest_seat(struct scheduler* s) {
	struct seat* oldest = NULL;
	for (struct seat* seat = s->seat; seat < s->end; seat++)
		if (seat->job && (!oldest || seat->used < oldest->used))
			oldest = seat;
	return oldest;
}

/* A prompt begins where all of it will find memory; the oldest sequence always goes on. */
static bool may_begin(struct scheduler* s, const struct seat* seat, int room) {
	return session_prefill_left(seat->session) <= room - ROOM_BESIDE || seat == oldest_seat(s);
}

static struct seat* most_urgent_prompt(struct scheduler* s, int chunk, int room) {
	struct seat* first = NULL;
	double most = 0;
	for (struct seat* seat = s->seat; seat < s->end; seat++) {
		if (seat->allotted > 0 || !wants_rows(s, seat) || !may_begin(s, seat, room))
			continue;
		const double urgency =
		    0.25 * chunk * seat->passed_over - session_prefill_left(seat->session) - s->spent[seat->owner];
		if (!first || urgency > most) {
			first = seat;
			most = urgency;
		}
	}
	return first;
}

/* Tokens that prompts may take. Those who sleep give way to those who wait. */
static int memory_for_prompts(struct scheduler* s) {
	int wanted = 0, room = session_room(s->seat[0].session);
	for (const struct seat* seat = s->seat; seat < s->end && room < INT_MAX; seat++)
		if (seat->job && session_prefill_left(seat->session) > 0)
			wanted += session_prefill_left(seat->session) + ROOM_BESIDE;
	while (room < wanted && release_idle(s))
		room = session_room(s->seat[0].session);
	return room;
}

/* Rows of the others in the full pass that this turn ends with. */
static int rows_beside(const struct scheduler* s) {
	int rows = 0;
	for (const struct seat* seat = s->seat; seat < s->end; seat++)
		rows += seat->waits ? seat->work.pass.n : 0;
	return rows;
}

/* Of the chunk, what long prompts get: the turn has drafted, and others have rows in the pass. */
static int chunk_for_long(const struct scheduler* s, int chunk) {
	const double plain = cost_plain_seconds(&s->engine->cost);
	if (!s->engine->backend->prefill_is_exact)
		return chunk;
	return chunk_rest(&s->engine->cost, chunk, plain > 0 ? s->drafted / plain : 0, rows_beside(s));
}

/* Says for each prompt how many of its rows this turn computes: a chunk for all together. One that ends in it
 * is not cut. */
static void share_chunk(struct scheduler* s) {
	const int chunk = scheduler_chunk(s), most = chunk_for_long(s, chunk);
	int taken = 0, room = memory_for_prompts(s);
	for (struct seat* seat = s->seat; seat < s->end; seat++)
		seat->allotted = 0;
	bool hurries = false;
	for (;;) {
		struct seat* seat = most_urgent_prompt(s, chunk, room);
		if (!seat)
			break;
		const bool ends = session_prefill_left(seat->session) <= chunk - taken;
		const int left = (ends ? chunk : most) - taken, rows = left > 0 ? next_rows(s, seat, left) : 0;
		if (rows == 0 || rows > left)
			break;
		/* a short prompt's first token does not wait for a long one's rows, but for now and then */
		if (hurries && !ends && seat->passed_over < PATIENCE)
			break;
		hurries |= ends;
		seat->allotted = rows;
		taken += rows;
		room -= room < INT_MAX ? session_prefill_left(seat->session) : 0;
	}
	for (struct seat* seat = s->seat; seat < s->end; seat++) {
		if (wants_rows(s, seat))
			seat->passed_over = 4 * seat->allotted >= chunk ? 0 : seat->passed_over + 1;
	}
}

/* ---- the batch ------------------------------------------------------------------------------ */

static bool decodes(const struct seat* seat) { return seat->job && session_prefill_left(seat->session) == 0; }

/* Others whose draft steps run the same weights. */
static int fellow_drafters(const struct scheduler* s, const struct seat* seat) {
	int n = 0;
	for (const struct seat* other = s->seat; other < s->end; other++) {
		n += other != seat && decodes(other) && mask_equal(&other->mask, &seat->mask);
	}
	return n;
}

/* While a prompt waits that ends in this turn nobody drafts. */
static void size_batch(struct scheduler* s) {
	const int chunk = scheduler_chunk(s), room = memory_for_prompts(s);
	int decoding = 0;
	double rows = 0;
	bool hurried = false;
	for (const struct seat* seat = s->seat; seat < s->end; seat++) {
		if (decodes(seat)) {
			decoding++;
			rows += seat->rows;
		} else if (wants_rows(s, seat) && may_begin(s, seat, room))
			hurried |= session_prefill_left(seat->session) <= chunk;
	}
	for (struct seat* seat = s->seat; seat < s->end; seat++) {
		if (!decodes(seat))
			continue;
		const struct batch batch = {.sequences = decoding - 1,
		                            .rows = rows - seat->rows,
		                            .drafting = fellow_drafters(s, seat),
		                            .hurried = hurried};
		session_set_batch(seat->session, &batch);
	}
}

/* ---- passes ------------------------------------------------------------------------------- */

/* The step's next work, or its end. */
static void advance(struct scheduler* s, struct seat* seat) {
	seat->waits = session_next(seat->session, &seat->work);
	if (!seat->waits)
		seat_step(s, seat);
}

static bool is_full(const struct session_work* work) {
	return work->kind == WORK_PLAIN || work->kind == WORK_VERIFY || work->kind == WORK_PREFILL;
}

static bool is_draft(const struct session_work* work) { return work->kind == WORK_DRAFT; }
static bool is_own(const struct session_work* work) { return !is_full(work) && !is_draft(work); }

/* The price of a work other than the turn's full pass, which prompts do without. */
static void note_drafted(struct scheduler* s, const struct session_work* work, double seconds) {
	s->drafted += is_full(work) ? 0 : seconds;
}

static void take_results(struct scheduler* s, struct seat* seat, int rows, double seconds) {
	const struct session_work* work = &seat->work;
	const int n = work->kind == WORK_DRAFT_LOOP ? 1 : work->pass.n;
	if (work->kind == WORK_PLAIN || work->kind == WORK_VERIFY)
		seat->rows += 0.25 * (n - seat->rows);
	s->spent[seat->owner] += n;
	seat->taken += seconds * n / rows;
	seat->waits = false;
	if (session_absorb(seat->session, work, rows, seconds))
		seat_step(s, seat);
	else
		advance(s, seat);
}

static void see_full(struct scheduler* s, const struct pass* pass, double seconds) {
	int wanted = 0;
	for (int i = 0; i < pass->n; i++)
		wanted += pass->head && pass->want[i] != WANT_NOTHING;
	cost_see_full(&s->engine->cost, (int)lround(cost_rows_priced(&s->engine->cost, pass->n, wanted)),
	              seconds);
}

static void run_alone(struct scheduler* s, struct seat* seat) {
	struct error e = {{0}};
	const struct session_work* work = &seat->work;
	const double before = seconds_now();
	const bool ran = session_run(seat->session, work, &e);
	const double seconds = seconds_now() - before;
	note_drafted(s, work, seconds);
	s->separate++;
	if (!ran) {
		seat->taken += seconds;
		seat_fail(s, seat, &e);
		return;
	}
	/* the first prompts pay for memory that is touched for the first time: no price for drafts' rows */
	if (work->kind == WORK_PREFILL && work->pass.n >= LEAST_CHUNK_ROWS && s->engine->cost.plain > 0)
		see_full(s, &work->pass, seconds);
	take_results(s, seat, work->kind == WORK_DRAFT_LOOP ? 1 : work->pass.n, seconds);
}

/* Whether another model runs it, which drafts. */
static bool is_other(const struct scheduler* s, const struct session_work* work) {
	return s->engine->drafting && work->pass.segment->cache->backend == s->engine->drafting->backend;
}

static void see_cost(struct scheduler* s, const struct session_work* work, int rows, double seconds) {
	struct cost_model* cost = &s->engine->cost;
	if (is_other(s, work)) {
		draft_model_see(s->engine, rows, seconds);
		return;
	}
	if (is_full(work)) {
		see_full(s, &s->merged.pass, seconds);
		return;
	}
	const struct variant v = {
	    .skip = work->pass.skip, .low = work->pass.low, .low_head = work->pass.low_head};
	if (v.skip || v.low || v.low_head)
		cost_see_draft(cost, v, seconds / cost_between(cost, rows));
}

/* The pass failed for one of them: full ones run each for itself; drafts have lost what they built on. */
static void run_apart(struct scheduler* s, struct seat** seat, int n, const struct error* e) {
	for (int i = 0; i < n; i++)
		if (is_full(&seat[i]->work))
			run_alone(s, seat[i]);
		else {
			session_fail(seat[i]->session, e);
			seat_fail(s, seat[i], e);
		}
}

static void run_merged(struct scheduler* s, struct seat** seat, int n) {
	struct error e = {{0}};
	struct backend* backend = is_other(s, &seat[0]->work) ? s->engine->drafting->backend : s->engine->backend;
	const int rows = s->merged.pass.n;
	const double before = seconds_now();
	const bool ran = backend->run(backend, &s->merged.pass, &e);
	const double seconds = seconds_now() - before;
	note_drafted(s, &seat[0]->work, seconds);
	s->shared++;
	if (!ran) {
		run_apart(s, seat, n, &e);
		return;
	}
	see_cost(s, &seat[0]->work, rows, seconds);
	for (int i = 0, row = 0; i < n; i++)
		row = merge_take(&s->merged, &seat[i]->work.pass, row);
	for (int i = 0; i < n; i++)
		take_results(s, seat[i], rows, seconds);
}

/* Whole passes: what ends at an exit has a price of its own. */
static bool may_share(const struct scheduler* s, const struct session_work* work) {
	if (is_own(work) || !merge_may(&work->pass))
		return false;
	const int blocks = is_other(s, work) ? s->engine->drafting->model->weights.shape.n_blocks : s->blocks;
	return work->pass.last == 2 * blocks;
}

/* Runs the first of the works that wait, with all others that can share its pass. They leave the list; the
 * rest is returned. */
static int run_group(struct scheduler* s, struct seat** waiting, int n) {
	struct seat* group[MAX_SESSIONS] = {waiting[0]};
	const bool shares = may_share(s, &waiting[0]->work);
	int members = 1, left = 0;
	if (shares)
		merge_begin(&s->merged, &waiting[0]->work.pass);
	for (int i = 1; i < n; i++)
		if (shares && may_share(s, &waiting[i]->work) && merge_fits(&s->merged, &waiting[i]->work.pass)) {
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
	const struct seat *x = *(struct seat*const*)a, *y = *(struct seat*const*)b;
	return x->used < y->used ? -1 : x->used > y->used;
}

/* The oldest first; those that must wait, or have given way, leave the list. */
static int keep_those_with_memory(struct scheduler* s, struct seat** waiting, int n) {
	int kept = 0;
	qsort(waiting, (size_t)n, sizeof(struct seat*), by_age);
	for (int i = 0; i < n; i++)
		if (waiting[i]->waits && find_memory(s, waiting[i]))
			waiting[kept++] = waiting[i];
	return kept;
}

/* Runs the works of a kind that wait, once each. False when there were none. */
static bool run_waiting(struct scheduler* s, bool (*wanted)(const struct session_work*)) {
	struct seat* waiting[MAX_SESSIONS];
	int n = 0;
	for (struct seat* seat = s->seat; seat < s->end; seat++)
		if (seat->waits && wanted(&seat->work))
			waiting[n++] = seat;
	if (n == 0)
		return false;
	n = keep_those_with_memory(s, waiting, n);
	while (n > 0)
		n = run_group(s, waiting, n);
	return true;
}

/* ---- the turn ----------------------------------------------------------------------------- */

static void begin_step(struct scheduler* s, struct seat* seat, bool cancel_all) {
	struct job* job = seat->job;
	const double began = seconds_now();
	seat->begun = s->turns;
	if (job->calls->gone(job->user) || cancel_all)
		swiftlet_session_cancel(seat->session);
	else if (session_prefill_left(seat->session) > 0 && seat->allotted == 0)
		return;
	session_limit_prefill(seat->session, seat->allotted);
	session_begin_step(seat->session);
	advance(s, seat);
	seat->taken += seconds_now() - began;
}

/* Of those who wait for rows of their prompts, or of those who decode; whether there is any. */
static bool begin_steps(struct scheduler* s, bool prompts, bool cancel_all) {
	bool any = false;
	for (struct seat* seat = s->seat; seat < s->end; seat++)
		if (prompts ? wants_rows(s, seat) : decodes(seat)) {
			any = true;
			begin_step(s, seat, cancel_all);
		}
	return any;
}

bool scheduler_turn(struct scheduler* s, bool cancel_all) {
	s->turns++;
	s->drafted = 0;
	for (int i = 0; i < MAX_OWNERS; i++)
		s->spent[i] *= 0.9;
	size_batch(s);
	bool any = begin_steps(s, false, cancel_all);
	while (run_waiting(s, is_own) || run_waiting(s, is_draft))
		;
	share_chunk(s);
	any |= begin_steps(s, true, cancel_all);
	run_waiting(s, is_full);
	return any;
}
