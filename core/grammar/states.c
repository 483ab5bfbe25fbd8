/* See states.h. */
#include "core/grammar/states.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 1 << 14,
	MAX_PLACES = 1 << 17, /* of all states */
	MAX_STACKS = 1 << 16,
	MAX_SET = 1 << 12, /* places of one state */
	MAX_NESTING = 512,
	BUCKETS = 1 << 13,
	STACK_BUCKETS = 1 << 17,
	NO_STACK = 0,
	UNKNOWN = -1,
	PLAIN_WORK = 32 /* steps that one look at all plain characters takes, about */
};

struct place {
	int32_t at; /* a RANGE, or RETURNS without a stack: the text may end */
	int32_t stack;
};

struct frame {
	int32_t at; /* where the rule returns to; below 0: ~ of the number that is left to count */
	int32_t under;
	int32_t depth;
	int32_t chain; /* the next in its bucket, or 0 */
};

struct state {
	int32_t first, n; /* of its places */
	int32_t chain;
	bool ends;
};

struct states {
	const struct grammar* grammar;
	int least_left; /* the most that a STEP wants to be left */
	bool counts;
	struct state state[MAX_STATES];
	int16_t step[MAX_STATES][256];
	uint64_t met[MAX_STATES][4];    /* bytes that this walk has found to follow */
	uint64_t met_in[MAX_STATES];    /* the walk that is */
	int32_t plain_next[MAX_STATES]; /* states_after_plain, or UNKNOWN */
	uint64_t plain_in[MAX_STATES];  /* the walk that has asked for it */
	uint64_t walk;
	int n_states;
	struct place place[MAX_PLACES];
	int n_places;
	struct frame frame[MAX_STACKS];
	int n_frames;
	int32_t bucket[BUCKETS], frame_bucket[STACK_BUCKETS];
	struct place set[MAX_SET], waiting[MAX_SET]; /* being made */
	int n_set, n_waiting;
	struct place seen[4 * MAX_SET];
	uint64_t seen_at[4 * MAX_SET]; /* the making that it was seen in */
	uint64_t making;
	int n_seen;
	bool overflow; /* of what is being made */
	bool overflowed;
	bool full;
};

static uint32_t hash(uint32_t a, uint32_t b) {
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
	x ^= x >> 29;
	return (uint32_t)(x * 0xbf58476d1ce4e5b9u >> 32);
}

void states_forget(struct states* s) {
	memset(s->bucket, 0, sizeof s->bucket);
	memset(s->frame_bucket, 0, sizeof s->frame_bucket);
	s->n_states = 1; /* the dead one */
	s->n_frames = 1; /* no stack */
	s->n_places = 0;
	s->full = s->overflowed = false;
	s->state[STATE_DEAD] = (struct state){0};
	memset(s->step[STATE_DEAD], 0, sizeof s->step[STATE_DEAD]);
	s->met_in[STATE_DEAD] = s->plain_in[STATE_DEAD] = 0;
	s->plain_next[STATE_DEAD] = STATE_DEAD;
}

/* Clears what has to be clear. A state's own rows are written when it is made: most of the memory is never
 * touched. */
struct states* states_open(const struct grammar* grammar) {
	struct states* s = malloc(sizeof *s);
	if (!s)
		return NULL;
	s->grammar = grammar;
	s->counts = false;
	s->least_left = 0;
	s->walk = s->making = 0;
	memset(s->seen_at, 0, sizeof s->seen_at);
	for (int32_t i = 0; i < grammar->n; i++) {
		s->counts |= grammar->at[i].opcode == OP_BEGIN;
		if (grammar->at[i].opcode == OP_STEP && grammar->at[i].other > s->least_left)
			s->least_left = grammar->at[i].other;
	}
	states_forget(s);
	return s;
}

void states_close(struct states* s) { free(s); }

/* ---- stacks --------------------------------------------------------------------------------- */

static int32_t push(struct states* s, int32_t under, int32_t at) {
	int32_t* bucket = &s->frame_bucket[hash((uint32_t)under, (uint32_t)at) % STACK_BUCKETS];
	for (int32_t i = *bucket; i; i = s->frame[i].chain)
		if (s->frame[i].under == under && s->frame[i].at == at)
			return i;
	if (s->n_frames == MAX_STACKS || s->frame[under].depth == MAX_NESTING) {
		s->overflow = true;
		s->full |= s->n_frames == MAX_STACKS;
		return NO_STACK;
	}
	s->frame[s->n_frames] =
	    (struct frame){.at = at, .under = under, .depth = s->frame[under].depth + 1, .chain = *bucket};
	return *bucket = s->n_frames++;
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* True when the place is new to the set. */
static bool see(struct states* s, struct place place) {
	uint32_t i = hash((uint32_t)place.at, (uint32_t)place.stack) % (4 * MAX_SET);
	for (; s->seen_at[i] == s->making; i = (i + 1) % (4 * MAX_SET))
		if (s->seen[i].at == place.at && s->seen[i].stack == place.stack)
			return false;
	if (s->n_seen == 2 * MAX_SET) {
		s->overflow = true;
		return false;
	}
	s->seen_at[i] = s->making;
	s->seen[i] = place;
	s->n_seen++;
	return true;
}

static void wait_for(struct states* s, int32_t at, int32_t stack) {
	const struct place place = {at, stack};
	if (!see(s, place))
		return;
	if (s->n_waiting == MAX_SET)
		s->overflow = true;
	else
		s->waiting[s->n_waiting++] = place;
}

static void add_place(struct states* s, struct place place) {
	if (s->n_set == MAX_SET)
		s->overflow = true;
	else
		s->set[s->n_set++] = place;
}

/* Follows instructions that consume nothing, until only ranges and the text's end are left. */
static void close_set(struct states* s) {
	while (s->n_waiting > 0 && !s->overflow) {
		const struct place place = s->waiting[--s->n_waiting];
		const struct instruction* i = &s->grammar->at[place.at];
		switch (i->opcode) {
		case OP_SPLIT:
			wait_for(s, i->next, place.stack);
			wait_for(s, i->other, place.stack);
			break;
		case OP_CALL: { /* a call at the end of a rule needs no frame */
			const bool last = s->grammar->at[i->next].opcode == OP_RETURN;
			wait_for(s, s->grammar->rule[i->other], last ? place.stack : push(s, place.stack, i->next));
			break;
		}
		case OP_RETURN:
			if (place.stack == NO_STACK)
				add_place(s, place);
			else
				wait_for(s, s->frame[place.stack].at, s->frame[place.stack].under);
			break;
		case OP_BEGIN:
			wait_for(s, i->next, push(s, place.stack, ~i->other));
			break;
		case OP_STEP: {
			const struct frame count = s->frame[place.stack];
			if (~count.at > i->other)
				wait_for(s, i->next, push(s, count.under, count.at + 1));
			break;
		}
		case OP_FINISH:
			wait_for(s, i->next, s->frame[place.stack].under);
			break;
		default:
			add_place(s, place);
		}
	}
}

static void begin_set(struct states* s) {
	s->n_set = s->n_waiting = s->n_seen = 0;
	s->making++;
	s->overflow = false;
}

static bool comes_before(struct place a, struct place b) {
	return a.at != b.at ? a.at < b.at : a.stack < b.stack;
}

/* Shell's sort (1959), in place. The library's may allocate, which the decode path must not. */
static void sort_places(struct place* place, int n) {
	static const int gaps[] = {301, 132, 57, 23, 10, 4, 1};
	for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
		for (int i = gaps[g]; i < n; i++) {
			const struct place moved = place[i];
			int to = i;
			for (; to >= gaps[g] && comes_before(moved, place[to - gaps[g]]); to -= gaps[g])
				place[to] = place[to - gaps[g]];
			place[to] = moved;
		}
}

/* The number of the set that was made. */
static int intern(struct states* s) {
	s->overflowed |= s->overflow;
	if (s->overflow || s->n_set == 0)
		return STATE_DEAD;
	sort_places(s->set, s->n_set);
	uint32_t key = (uint32_t)s->n_set;
	for (int i = 0; i < s->n_set; i++)
		key = hash(key ^ (uint32_t)s->set[i].at, (uint32_t)s->set[i].stack);
	int32_t* bucket = &s->bucket[key % BUCKETS];
	const size_t size = (size_t)s->n_set * sizeof *s->set;
	for (int32_t i = *bucket; i; i = s->state[i].chain)
		if (s->state[i].n == s->n_set && memcmp(s->place + s->state[i].first, s->set, size) == 0)
			return i;
	if (s->n_states == MAX_STATES || s->n_places + s->n_set > MAX_PLACES) {
		s->full = true;
		return STATE_DEAD;
	}
	struct state* state = &s->state[s->n_states];
	*state = (struct state){
	    .first = s->n_places, .n = s->n_set, .chain = *bucket, .ends = s->set[0].at == RETURNS};
	memcpy(s->place + s->n_places, s->set, size);
	memset(s->step[s->n_states], 0xff, sizeof s->step[0]);
	s->met_in[s->n_states] = s->plain_in[s->n_states] = 0;
	s->plain_next[s->n_states] = UNKNOWN;
	s->n_places += s->n_set;
	return *bucket = s->n_states++;
}

int states_start(struct states* s) {
	begin_set(s);
	wait_for(s, s->grammar->rule[0], NO_STACK);
	close_set(s);
	return intern(s);
}

/* The step is found for all bytes at once that every range of the state treats alike. */
int states_step(struct states* s, int state, uint8_t byte) {
	int16_t* known = s->step[state];
	if (known[byte] != UNKNOWN)
		return known[byte];
	int low = 0, high = UINT8_MAX;
	begin_set(s);
	for (int i = 0; i < s->state[state].n; i++) {
		const struct place place = s->place[s->state[state].first + i];
		const struct instruction* at = &s->grammar->at[place.at];
		if (at->opcode != OP_RANGE)
			continue;
		if (byte < at->low) {
			high = at->low - 1 < high ? at->low - 1 : high;
		} else if (byte > at->high) {
			low = at->high + 1 > low ? at->high + 1 : low;
		} else {
			low = at->low > low ? at->low : low;
			high = at->high < high ? at->high : high;
			wait_for(s, at->next, place.stack);
		}
	}
	close_set(s);
	const int next = intern(s);
	for (int i = low; i <= high && !s->full; i++)
		known[i] = (int16_t)next;
	return next;
}

/* ---- plain characters ----------------------------------------------------------------------- */

/* UTF-8 beyond ASCII (Unicode, table 3-7): the first byte, the second, and how many more. */
static const struct utf8_row {
	uint8_t low, high, second_low, second_high, more;
} utf8_row[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
                {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

/* The state after any of these bytes; STATES_DIFFER: there are several. */
static int step_all(struct states* s, int state, int low, int high) {
	if (state == STATES_DIFFER)
		return STATES_DIFFER;
	const int next = states_step(s, state, (uint8_t)low);
	for (int byte = low + 1; byte <= high; byte++)
		if (states_step(s, state, (uint8_t)byte) != next)
			return STATES_DIFFER;
	return next;
}

/* After the rest of a character of this row. */
static int step_rest(struct states* s, int state, const struct utf8_row* row) {
	state = step_all(s, state, row->second_low, row->second_high);
	for (int i = 0; i < row->more; i++)
		state = step_all(s, state, 0x80, 0xBF);
	return state;
}

int states_after_character(struct states* s, int state, uint8_t lead) {
	for (size_t i = 0; i < sizeof utf8_row / sizeof *utf8_row; i++)
		if (lead >= utf8_row[i].low && lead <= utf8_row[i].high)
			return step_rest(s, state, &utf8_row[i]);
	return STATES_DIFFER;
}

static int find_after_plain(struct states* s, int state) {
	static const uint8_t ascii[][2] = {{' ', '!'}, {'#', '['}, {']', 0x7F}}; /* without " and \ */
	const int next = states_step(s, state, ' ');
	for (size_t i = 0; i < sizeof ascii / sizeof *ascii; i++)
		if (step_all(s, state, ascii[i][0], ascii[i][1]) != next)
			return STATES_DIFFER;
	for (size_t i = 0; i < sizeof utf8_row / sizeof *utf8_row; i++)
		if (step_rest(s, step_all(s, state, utf8_row[i].low, utf8_row[i].high), &utf8_row[i]) != next)
			return STATES_DIFFER;
	return next;
}

int states_after_plain(struct states* s, int state, int64_t* work) {
	const int next = s->plain_next[state] != UNKNOWN ? s->plain_next[state] : find_after_plain(s, state);
	if (!s->full)
		s->plain_next[state] = next;
	if (s->plain_in[state] != s->walk)
		*work += PLAIN_WORK * (1 + (int64_t)s->state[state].n);
	s->plain_in[state] = s->walk;
	return next;
}

/* The stack with no count over `most`. */
static int32_t clipped_stack(struct states* s, int32_t stack, int most) {
	if (stack == NO_STACK)
		return NO_STACK;
	const struct frame frame = s->frame[stack];
	const int32_t under = clipped_stack(s, frame.under, most);
	const int32_t at = frame.at < 0 && ~frame.at > most ? ~most : frame.at;
	return under == frame.under && at == frame.at ? stack : push(s, under, at);
}

int states_clipped(struct states* s, int state, int bytes) {
	if (!s->counts || state == STATE_DEAD)
		return state;
	begin_set(s);
	for (int i = 0; i < s->state[state].n; i++) {
		const struct place place = s->place[s->state[state].first + i];
		wait_for(s, place.at, clipped_stack(s, place.stack, s->least_left + bytes));
	}
	close_set(s);
	const int clipped = intern(s);
	return clipped == STATE_DEAD ? state : clipped; /* no room: as it is */
}

void states_begin_walk(struct states* s) { s->walk++; }

int states_walk(struct states* s, int state, uint8_t byte, int64_t* work) {
	const int next = states_step(s, state, byte);
	uint64_t* met = &s->met[state][byte >> 6];
	const uint64_t bit = (uint64_t)1 << (byte & 63);
	if (s->met_in[state] != s->walk) {
		s->met_in[state] = s->walk;
		memset(s->met[state], 0, sizeof s->met[state]);
	}
	if (!(*met & bit))
		*work += s->state[state].n + s->state[next].n + 1;
	*met |= bit;
	return next;
}

bool states_ends(const struct states* s, int state) { return s->state[state].ends; }

int states_only_byte(struct states* s, int state) {
	if (s->state[state].ends)
		return -1;
	int only = -1;
	for (int i = 0; i < s->state[state].n; i++) {
		const struct instruction* at = &s->grammar->at[s->place[s->state[state].first + i].at];
		if (at->low != at->high || (only >= 0 && at->low != only))
			return -1;
		only = at->low;
	}
	return only;
}

/* ---- starting over -------------------------------------------------------------------------- */

bool states_full(const struct states* s) { return s->full; }

bool states_overflowed(const struct states* s) { return s->overflowed; }

struct grammar* states_checked(struct grammar* g, struct error* error) {
	struct states* s = g ? states_open(g) : NULL;
	const bool good = s && states_start(s) != STATE_DEAD;
	if (g && !good)
		error_set(error,
		          s ? "the grammar is too ambiguous: it leaves more than %d ways open at its beginning"
		            : "out of memory for a grammar of %d ways",
		          MAX_SET);
	states_close(s);
	if (good)
		return g;
	grammar_free(g);
	return NULL;
}

/* Half of the tables is left for the tokens of one round. */
bool states_filling(const struct states* s) {
	return s->full || s->n_states > MAX_STATES / 2 || s->n_places > MAX_PLACES / 2 ||
	       s->n_frames > MAX_STACKS / 2;
}

int states_renew(struct states* s, int state) {
	const struct state old = s->state[state];
	const int n = old.n;
	/* `waiting` keeps the places, and `seen` is unused meanwhile. Frames are copied bottom up to the tables'
	 * beginning. Numbers ascend from a stack's bottom to its top, so a frame's number never grows there. */
	memcpy(s->waiting, s->place + old.first, (size_t)n * sizeof *s->waiting);
	uint8_t* used = (uint8_t*)s->seen_at; /* (MAX_STACKS) bits */
	memset(used, 0, MAX_STACKS / 8);
	for (int i = 0; i < n; i++)
		for (int32_t f = s->waiting[i].stack; f && !(used[f >> 3] >> (f & 7) & 1); f = s->frame[f].under)
			used[f >> 3] |= (uint8_t)(1u << (f & 7));
	const int frames = s->n_frames;
	states_forget(s);
	begin_set(s);
	int32_t* renumbered = (int32_t*)s->place; /* (MAX_STACKS) */
	for (int32_t f = 1; f < frames; f++)
		if (used[f >> 3] >> (f & 7) & 1) {
			const struct frame old_frame = s->frame[f];
			renumbered[f] = push(s, old_frame.under ? renumbered[old_frame.under] : NO_STACK, old_frame.at);
		}
	for (int i = 0; i < n; i++)
		s->set[s->n_set++] = (struct place){s->waiting[i].at,
		                                    s->waiting[i].stack ? renumbered[s->waiting[i].stack] : NO_STACK};
	memset(s->seen_at, 0, sizeof s->seen_at);
	return intern(s);
}
