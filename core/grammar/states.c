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
	MAX_TEXTS = 1 << 18, /* prefixes of items of lists whose items differ */
	MAX_SETS = 1 << 14,  /* of items */
	TEXT_BUCKETS = 1 << 16,
	SET_BUCKETS = 1 << 12,
	MAX_LOOK = 256,       /* bytes that are looked ahead for an item's end */
	COUNT_WORK = 1 << 14, /* states that counting an item's endings may look at */
	UNKNOWN = -1,
	SINGLES = 1 << 14,
	PLAIN_WORK = 32 /* steps that one look at all plain characters takes, about */
};

struct place {
	int32_t at; /* a RANGE, or RETURNS without a stack: the text may end */
	int32_t stack;
};

struct frame {
	int32_t at; /* where the rule returns to; below 0: ~ of the number that is left to count, or one of those
	               below */
	int32_t under;
	int32_t depth;
	int32_t chain; /* the next in its bucket, or 0 */
	uint32_t flags;
};

/* Other values of a frame's `at`: the bottom of a walk's stacks, an item's text so far, and the items that a
 * list has. Numbers that are counted are far smaller. */
enum {
	AT_WALK = INT32_MIN,
	AT_TEXT = INT32_MIN + 1,
	AT_SET = AT_TEXT + MAX_TEXTS,
	AT_COUNT = AT_SET + MAX_SETS
};

/* Of a frame or one below it. */
enum {
	FRAME_WALKS = 1,   /* the bottom is a walk's */
	FRAME_IN_ITEM = 2, /* a text */
	FRAME_KEEPS = 4,   /* a text that bytes change */
	FRAME_UNSURE = 8   /* a text of a list of which an item is not known */
};

/* Texts are prefixes of items, as a tree. */
struct item_prefix {
	int32_t parent, chain;
	int32_t child, sibling; /* the last child; the one before */
	int32_t in;             /* a set that has an item that begins so; 0: none has */
	int32_t depth;
	uint8_t byte;
};

/* NO_TEXT is the beginning of an item. OTHER_TEXT is, in a walk over many texts from one state, whatever is
 * no prefix of an item that the list has. A list that has it, too, has an item that the walk does not know.
 * VAGUE_TEXT are items with which such a text is not compared any more, so that walks have states in common.
 */
enum { NO_TEXT, OTHER_TEXT, VAGUE_TEXT, FIRST_TEXT };

enum { NOT_ASKED, NOT_ALIVE, ALIVE };

struct set { /* an item more than another set; 0 is empty */
	int32_t without, text, count, chain;
	int32_t jump; /* a much smaller one (Myers 1983) */
};

struct state {
	int32_t first, n; /* of its places */
	int32_t chain;
	bool ends;
};

/* The state that is made of one place. Most steps lead to one. */
struct single {
	struct place of;
	int32_t state, forgotten; /* good while states have been forgotten as often */
};

struct states {
	const struct grammar* grammar;
	int least_left; /* the most that a STEP wants to be left */
	int least_room; /* the fewest items that a ROOM allows */
	bool counts, lists;
	struct state state[MAX_STATES];
	int16_t step[MAX_STATES][256];
	int16_t met[MAX_STATES][256];                       /* steps that this walk has taken; STATES_NOT_MET */
	uint64_t met_in[MAX_STATES];                        /* the walk that is */
	int32_t plain_next[MAX_STATES];                     /* states_after_plain, or UNKNOWN */
	struct after_word word_next[MAX_STATES];            /* states_after_word, or UNKNOWN */
	uint64_t plain_in[MAX_STATES], word_in[MAX_STATES]; /* the walk that has asked for it */
	uint64_t walk;
	int n_states;
	struct place place[MAX_PLACES];
	int n_places;
	struct frame frame[MAX_STACKS];
	int n_frames;
	int32_t bucket[BUCKETS], frame_bucket[STACK_BUCKETS];
	struct item_prefix text[MAX_TEXTS];
	struct set set_of[MAX_SETS];
	int n_texts, n_sets, looks, counted;
	int32_t text_bucket[TEXT_BUCKETS], set_bucket[SET_BUCKETS];
	int32_t moved_text[MAX_TEXTS], moved_set[MAX_SETS]; /* while starting over */
	uint8_t lives[MAX_STATES];                          /* of states of one place: NOT_ASKED… */
	struct single single[SINGLES];
	int32_t forgotten;                           /* how often states were */
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

static uint32_t hash_pair(uint32_t a, uint32_t b) {
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
	x ^= x >> 29;
	return (uint32_t)(x * 0xbf58476d1ce4e5b9u >> 32);
}

static void forget_items(struct states* s) {
	memset(s->text_bucket, 0, sizeof s->text_bucket);
	memset(s->set_bucket, 0, sizeof s->set_bucket);
	s->text[NO_TEXT] = s->text[OTHER_TEXT] = s->text[VAGUE_TEXT] = (struct item_prefix){0};
	s->set_of[0] = (struct set){0};
	s->n_texts = FIRST_TEXT;
	s->n_sets = 1;
	s->looks = 0;
}

/* Everything but the items of lists, and the number of frames. */
static void forget_states(struct states* s) {
	s->forgotten++;
	memset(s->bucket, 0, sizeof s->bucket);
	memset(s->frame_bucket, 0, sizeof s->frame_bucket);
	s->n_states = 1; /* the dead one */
	s->n_places = 0;
	s->full = s->overflowed = false;
	s->state[STATE_DEAD] = (struct state){0};
	memset(s->step[STATE_DEAD], 0, sizeof s->step[STATE_DEAD]);
	s->met_in[STATE_DEAD] = s->plain_in[STATE_DEAD] = s->word_in[STATE_DEAD] = 0;
	s->plain_next[STATE_DEAD] = STATE_DEAD;
	s->word_next[STATE_DEAD] = (struct after_word){STATE_DEAD, STATE_DEAD};
	s->frame[NO_STACK] = (struct frame){0};
}

void states_forget(struct states* s) {
	forget_states(s);
	s->n_frames = 1; /* no stack */
	if (s->lists)
		forget_items(s);
}

/* Clears what has to be clear. A state's own rows are written when it is made: most of the memory is never
 * touched. */
struct states* states_open(const struct grammar* grammar) {
	struct states* s = malloc(sizeof *s);
	if (!s)
		return NULL;
	s->grammar = grammar;
	s->counts = s->lists = false;
	s->least_left = 0;
	s->least_room = INT32_MAX;
	s->walk = s->making = 0;
	s->forgotten = 0;
	memset(s->single, 0, sizeof s->single);
	memset(s->seen_at, 0, sizeof s->seen_at);
	for (int32_t i = 0; i < grammar->n; i++) {
		s->counts |= grammar->at[i].opcode == OP_BEGIN;
		s->lists |= grammar->at[i].opcode == OP_LIST;
		if (grammar->at[i].opcode == OP_ROOM && grammar->at[i].other < s->least_room)
			s->least_room = grammar->at[i].other;
		if (grammar->at[i].opcode == OP_STEP && grammar->at[i].other > s->least_left)
			s->least_left = grammar->at[i].other;
	}
	states_forget(s);
	return s;
}

void states_close(struct states* s) { free(s); }

/* ---- lists whose items differ --------------------------------------------------------------- */

static bool is_text(int32_t at) { return at >= AT_TEXT && at < AT_SET; }
static bool is_set(int32_t at) { return at >= AT_SET && at < AT_COUNT; }

/* The prefix with a byte more; -1: there is none, and none is made, or there is no room. */
static int32_t text_after(struct states* s, int32_t text, uint8_t byte, bool make) {
	int32_t* bucket = &s->text_bucket[hash_pair((uint32_t)text, byte) % TEXT_BUCKETS];
	for (int32_t i = *bucket; i; i = s->text[i].chain)
		if (s->text[i].parent == text && s->text[i].byte == byte)
			return i;
	s->full |= make && s->n_texts == MAX_TEXTS;
	if (!make || s->n_texts == MAX_TEXTS)
		return -1;
	s->text[s->n_texts] = (struct item_prefix){.parent = text,
	                                           .depth = s->text[text].depth + 1,
	                                           .byte = byte,
	                                           .chain = *bucket,
	                                           .sibling = s->text[text].child};
	return *bucket = s->text[text].child = s->n_texts++;
}

/* Whether a set is another one with more items, or that itself. */
static bool set_extends(const struct states* s, int32_t set, int32_t other) {
	const int32_t count = s->set_of[other].count;
	while (s->set_of[set].count > count)
		set = s->set_of[s->set_of[set].jump].count >= count ? s->set_of[set].jump : s->set_of[set].without;
	return set == other;
}

static void note_prefixes(struct states* s, int32_t set, int32_t text) {
	for (; text >= FIRST_TEXT && !(s->text[text].in && set_extends(s, set, s->text[text].in));
	     text = s->text[text].parent)
		s->text[text].in = set;
}

static int32_t set_with(struct states* s, int32_t set, int32_t text) {
	int32_t* bucket = &s->set_bucket[hash_pair((uint32_t)set, (uint32_t)text) % SET_BUCKETS];
	for (int32_t i = *bucket; i; i = s->set_of[i].chain)
		if (s->set_of[i].without == set && s->set_of[i].text == text)
			return i;
	if (s->n_sets == MAX_SETS) {
		s->full = true;
		return -1;
	}
	const int32_t far = s->set_of[set].jump, farther = s->set_of[far].jump;
	const bool even =
	    s->set_of[set].count - s->set_of[far].count == s->set_of[far].count - s->set_of[farther].count;
	s->set_of[s->n_sets] = (struct set){set, text, s->set_of[set].count + 1, *bucket, even ? farther : set};
	note_prefixes(s, s->n_sets, text);
	return *bucket = s->n_sets++;
}

static bool set_has(const struct states* s, int32_t set, int32_t text) {
	for (; set; set = s->set_of[set].without)
		if (s->set_of[set].text == text)
			return true;
	return false;
}

/* Only the last item of a set can be one that the walk does not know. */
static bool set_is_unsure(const struct states* s, int32_t set) { return s->set_of[set].text == OTHER_TEXT; }

/* As many items as the set has, or some more where there is room for them, of which none is known. */
static int32_t vague_set(struct states* s, int32_t set) {
	const int32_t count = s->set_of[set].count;
	int32_t n = count > 0, made = 0;
	while (n < count)
		n *= 2;
	for (int i = 0; i < (n + 1 < s->least_room ? n : count) && made >= 0; i++)
		made = set_with(s, made, VAGUE_TEXT);
	s->overflow |= made < 0;
	return made < 0 ? 0 : made;
}

/* Whether an item of the set begins so. */
static bool set_has_prefix(const struct states* s, int32_t set, int32_t text) {
	const int32_t in = s->text[text].in;
	if (text == OTHER_TEXT || s->set_of[set].text == VAGUE_TEXT || (text != NO_TEXT && !in))
		return false;
	if (in && set_extends(s, set, in))
		return true;
	for (; set; set = s->set_of[set].without) {
		int32_t of = s->set_of[set].text;
		while (s->text[of].depth > s->text[text].depth)
			of = s->text[of].parent;
		if (of == text)
			return true;
	}
	return false;
}

/* The set of the innermost list. */
static int32_t set_below(const struct states* s, int32_t stack) {
	while (stack && !is_set(s->frame[stack].at))
		stack = s->frame[stack].under;
	return stack ? s->frame[stack].at - AT_SET : 0;
}

static uint32_t flags_of(const struct states* s, int32_t under, int32_t at) {
	uint32_t flags = s->frame[under].flags | (at == AT_WALK ? FRAME_WALKS : 0);
	if (is_text(at))
		flags |= FRAME_IN_ITEM | (at == AT_TEXT + OTHER_TEXT ? 0 : FRAME_KEEPS) |
		         (set_is_unsure(s, set_below(s, under)) ? FRAME_UNSURE : 0);
	return flags;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static int32_t push_place(struct states* s, int32_t under, int32_t at) {
	int32_t* bucket = &s->frame_bucket[hash_pair((uint32_t)under, (uint32_t)at) % STACK_BUCKETS];
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
	if (s->lists)
		s->frame[s->n_frames].flags = flags_of(s, under, at);
	return *bucket = s->n_frames++;
}

/* Narrows [low, high] around a byte to those after which the stack is the same. */
static void treat_alike(const struct states* s, int32_t stack, int byte, int* low, int* high) {
	for (int32_t f = stack; s->frame[f].flags & FRAME_KEEPS; f = s->frame[f].under) {
		if (!is_text(s->frame[f].at) || s->frame[f].at == AT_TEXT + OTHER_TEXT)
			continue;
		const int32_t text = s->frame[f].at - AT_TEXT;
		if (!(s->frame[f].flags & FRAME_WALKS))
			*low = *high = byte;
		for (int32_t next = s->text[text].child; next; next = s->text[next].sibling) {
			const int other = s->text[next].byte;
			*low = other < byte && other >= *low ? other + 1 : other == byte ? byte : *low;
			*high = other > byte && other <= *high ? other - 1 : other == byte ? byte : *high;
		}
	}
}

/* The stack with another set of the innermost list. */
static int32_t stack_with_set(struct states* s, int32_t stack, int32_t set) {
	const struct frame frame = s->frame[stack];
	if (is_set(frame.at))
		return push_place(s, frame.under, AT_SET + set);
	return push_place(s, stack_with_set(s, frame.under, set), frame.at);
}

/* In a walk, an item that begins as none of the list's does. */
static int32_t push_other(struct states* s, int32_t under) {
	return push_place(s, stack_with_set(s, under, vague_set(s, set_below(s, under))), AT_TEXT + OTHER_TEXT);
}

/* Whether a walk has to know an item's text so far: another begins so, or the list is in an item that begins
 * as another does. */
static bool is_worth_keeping(const struct states* s, int32_t under, int32_t text) {
	return (s->frame[under].flags & FRAME_KEEPS) || set_has_prefix(s, set_below(s, under), text);
}

/* The stack after a byte: it becomes part of the items that it stands in. */
static int32_t stack_after(struct states* s, int32_t stack, uint8_t byte) {
	const struct frame frame = s->frame[stack];
	if (!(frame.flags & FRAME_KEEPS))
		return stack;
	const int32_t under = stack_after(s, frame.under, byte);
	if (!is_text(frame.at) || frame.at == AT_TEXT + OTHER_TEXT)
		return push_place(s, under, frame.at);
	const bool walks = frame.flags & FRAME_WALKS;
	const int32_t text = text_after(s, frame.at - AT_TEXT, byte, !walks);
	if (walks && (text < 0 || !is_worth_keeping(s, under, text)))
		return push_other(s, under);
	s->overflow |= text < 0;
	return push_place(s, under, AT_TEXT + (text < 0 ? NO_TEXT : text));
}

/* The stack below an item that ends there; -1: the list has one like it, or may have. */
static int32_t end_item(struct states* s, int32_t stack) {
	const int32_t text = s->frame[stack].at - AT_TEXT, under = s->frame[stack].under,
	              set = set_below(s, under);
	if (set_is_unsure(s, set) || set_has(s, set, text))
		return -1;
	const int32_t with = set_with(s, set, text);
	s->overflow |= with < 0;
	return with < 0 ? -1 : stack_with_set(s, under, with);
}

static int32_t begin_item(struct states* s, int32_t stack) {
	const int32_t set = set_below(s, stack);
	if (!(s->frame[stack].flags & FRAME_WALKS) || is_worth_keeping(s, stack, NO_TEXT))
		return push_place(s, stack, AT_TEXT + NO_TEXT);
	return set_is_unsure(s, set) ? push_place(s, stack, AT_TEXT + OTHER_TEXT) : push_other(s, stack);
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* True when the place is new to the set. */
static bool see_frame(struct states* s, struct place place) {
	uint32_t i = hash_pair((uint32_t)place.at, (uint32_t)place.stack) % (4 * MAX_SET);
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
	if (!see_frame(s, place))
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
			wait_for(s, s->grammar->rule[i->other], last ? place.stack : push_place(s, place.stack, i->next));
			break;
		}
		case OP_RETURN:
			if (place.stack == NO_STACK || s->frame[place.stack].at == AT_WALK)
				add_place(s, place);
			else
				wait_for(s, s->frame[place.stack].at, s->frame[place.stack].under);
			break;
		case OP_BEGIN:
			wait_for(s, i->next, push_place(s, place.stack, ~i->other));
			break;
		case OP_STEP: {
			const struct frame count = s->frame[place.stack];
			if (~count.at > i->other)
				wait_for(s, i->next, push_place(s, count.under, count.at + 1));
			break;
		}
		case OP_FINISH:
			wait_for(s, i->next, s->frame[place.stack].under);
			break;
		case OP_LIST:
			wait_for(s, i->next, push_place(s, place.stack, AT_SET));
			break;
		case OP_ROOM:
			if (s->set_of[set_below(s, place.stack)].count < i->other)
				wait_for(s, i->next, place.stack);
			break;
		case OP_ITEM:
			wait_for(s, i->next, begin_item(s, place.stack));
			break;
		case OP_DIFFER: {
			const int32_t under = end_item(s, place.stack);
			if (under >= 0)
				wait_for(s, i->next, under);
			break;
		}
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
static int intern_state(struct states* s) {
	s->overflowed |= s->overflow;
	if (s->overflow || s->n_set == 0)
		return STATE_DEAD;
	sort_places(s->set, s->n_set);
	uint32_t key = (uint32_t)s->n_set;
	for (int i = 0; i < s->n_set; i++)
		key = hash_pair(key ^ (uint32_t)s->set[i].at, (uint32_t)s->set[i].stack);
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
	s->met_in[s->n_states] = s->plain_in[s->n_states] = s->word_in[s->n_states] = 0;
	s->plain_next[s->n_states] = s->word_next[s->n_states].letter = UNKNOWN;
	s->lives[s->n_states] = NOT_ASKED;
	s->n_places += s->n_set;
	return *bucket = s->n_states++;
}

int states_start(struct states* s) {
	begin_set(s);
	wait_for(s, s->grammar->rule[0], NO_STACK);
	close_set(s);
	return intern_state(s);
}

static int without_dead_ends(struct states* s, int state);

/* The state of the places that wait. */
static int make_state(struct states* s) {
	struct single* known = NULL;
	if (s->n_waiting == 1 && !s->overflow && !s->lists) {
		const struct place of = s->waiting[0];
		known = &s->single[hash_pair((uint32_t)of.at, (uint32_t)of.stack) % SINGLES];
		if (known->forgotten == s->forgotten && known->of.at == of.at && known->of.stack == of.stack)
			return known->state;
		known->of = of;
	}
	close_set(s);
	const int made = intern_state(s);
	if (known) {
		known->state = made;
		known->forgotten = s->full || s->overflow ? 0 : s->forgotten;
	}
	return s->lists ? without_dead_ends(s, made) : made;
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
			treat_alike(s, place.stack, byte, &low, &high);
			wait_for(s, at->next, stack_after(s, place.stack, byte));
		}
	}
	const int next = make_state(s);
	for (int i = low; i <= high && !s->full; i++)
		known[i] = (int16_t)next;
	return next;
}

/* ---- items that could only end as another has ----------------------------------------------- */

static int state_of_place(struct states* s, struct place place) {
	begin_set(s);
	add_place(s, place);
	return intern_state(s);
}

/* How many texts lead from the state to the end of the item that it stands in; `most`, if there are more. It
 * may be too low, where texts are long. */
static int count_some_endings(struct states* s, int state, int most, int depth) {
	if (state == STATE_DEAD || depth == 0 || ++s->counted > COUNT_WORK)
		return 0;
	int n = 0, within = state;
	begin_set(s);
	for (int i = 0; i < s->state[state].n; i++) {
		const struct place place = s->place[s->state[state].first + i];
		if (s->frame[place.stack].flags & FRAME_IN_ITEM)
			add_place(s, place);
		else
			n = 1;
	}
	if (n > 0)
		within = intern_state(s);
	for (int byte = 0, past; within != STATE_DEAD && byte <= UINT8_MAX && n < most; byte = past) {
		const int next = states_step(s, within, (uint8_t)byte);
		for (past = byte + 1; past <= UINT8_MAX && states_step(s, within, (uint8_t)past) == next; past++)
			;
		if (next == STATE_DEAD)
			continue;
		const int each = count_some_endings(s, next, most, depth - 1);
		n = each > (most - n) / (past - byte) ? most : n + each * (past - byte);
	}
	return n;
}

static int count_endings(struct states* s, int state, int most) {
	int n = 0;
	for (int depth = 4; depth <= MAX_LOOK && n < most; depth *= 4) { /* as a rule there are many near by */
		s->counted = 0;
		n = count_some_endings(s, state, most, depth);
	}
	return n;
}

/* The stack with the innermost list alone, which has no other item. */
static int32_t stack_of_list(struct states* s, int32_t stack) {
	const struct frame frame = s->frame[stack];
	if (is_set(frame.at))
		return push_place(s, push_place(s, NO_STACK, AT_WALK), AT_SET);
	return push_place(s, stack_of_list(s, frame.under), is_text(frame.at) ? AT_TEXT + OTHER_TEXT : frame.at);
}

/* Whether more texts end an item than the list has items, of which one is not known. */
static bool has_other_endings(struct states* s, struct place place) {
	const int items = s->set_of[set_below(s, place.stack)].count;
	int texts = 0;
	for (int32_t f = place.stack; f; f = s->frame[f].under)
		if (is_text(s->frame[f].at) && texts++ > 0 &&
		    (s->frame[f].at != AT_TEXT + OTHER_TEXT || (s->frame[f].flags & FRAME_UNSURE)))
			return false; /* the list is in an item that may have to be another */
	begin_set(s);
	const int32_t stack = stack_of_list(s, place.stack);
	const int state = s->overflow ? STATE_DEAD : state_of_place(s, (struct place){place.at, stack});
	return count_endings(s, state, items + 1) > items;
}

/* Whether an item that the place stands in begins as another of its list. */
static bool is_on_prefix(const struct states* s, int32_t stack) {
	for (int32_t f = stack; s->frame[f].flags & FRAME_KEEPS; f = s->frame[f].under)
		if (is_text(s->frame[f].at) &&
		    set_has_prefix(s, set_below(s, s->frame[f].under), s->frame[f].at - AT_TEXT))
			return true;
	return false;
}

/* Whether the item can end, as none before. While it begins as another does, its next bytes decide. */
static bool place_lives(struct states* s, struct place place) {
	const uint32_t flags = s->frame[place.stack].flags;
	const bool unsure = flags & FRAME_UNSURE;
	if (!unsure && !is_on_prefix(s, place.stack))
		return true;
	const int state = state_of_place(s, place);
	if (state == STATE_DEAD || s->looks == MAX_LOOK)
		return true;
	if (s->lives[state] != NOT_ASKED)
		return s->lives[state] == ALIVE;
	bool alive = unsure && has_other_endings(s, place);
	s->looks++;
	for (int byte = 0; !unsure && !alive && byte <= UINT8_MAX; byte++)
		alive = states_step(s, state, (uint8_t)byte) != STATE_DEAD || s->full;
	s->looks--;
	s->lives[state] = alive ? ALIVE : NOT_ALIVE;
	return alive;
}

/* The state without places from which no item that differs is left. */
static int without_dead_ends(struct states* s, int state) {
	uint64_t dead[MAX_SET / 64];
	bool any = false;
	const struct state whole = s->state[state];
	memset(dead, 0, sizeof dead);
	for (int i = 0; i < whole.n; i++)
		if (!place_lives(s, s->place[whole.first + i])) {
			dead[i / 64] |= (uint64_t)1 << i % 64;
			any = true;
		}
	if (!any || s->full)
		return state;
	begin_set(s);
	for (int i = 0; i < whole.n; i++)
		if (!(dead[i / 64] >> i % 64 & 1))
			add_place(s, s->place[whole.first + i]);
	return intern_state(s);
}

int states_count(struct states* s, int most) {
	const int state = states_clipped(s, states_start(s), INT32_MAX / 2);
	return count_endings(s, state, most);
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

static const uint8_t plain_ascii[][2] = {{' ', '!'}, {'#', ';'}, {'=', '['}, {'^', 0x7F}};
enum { PLAIN_RANGES = sizeof plain_ascii / sizeof *plain_ascii };

bool states_is_plain(uint8_t ascii) {
	for (int i = 0; i < PLAIN_RANGES; i++)
		if (ascii >= plain_ascii[i][0] && ascii <= plain_ascii[i][1])
			return true;
	return false;
}

static int find_after_plain(struct states* s, int state) {
	const int next = states_step(s, state, ' ');
	for (int i = 0; i < PLAIN_RANGES; i++)
		if (step_all(s, state, plain_ascii[i][0], plain_ascii[i][1]) != next)
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

/* The rows of utf8_row without the blocks that hold white space or punctuation: U+0080 to U+00BF, U+1680 to
 * U+16BF, U+2000 to U+2FFF, U+3000 to U+303F, U+FEC0 to U+FEFF. */
static const struct utf8_row word_row[] = {
    {0xC3, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xE1, 0x80, 0x99, 1},
    {0xE1, 0xE1, 0x9B, 0xBF, 1}, {0xE3, 0xE3, 0x81, 0xBF, 1}, {0xE4, 0xEC, 0x80, 0xBF, 1},
    {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEE, 0x80, 0xBF, 1}, {0xEF, 0xEF, 0x80, 0xBA, 1},
    {0xEF, 0xEF, 0xBC, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2}, {0xF1, 0xF3, 0x80, 0xBF, 2},
    {0xF4, 0xF4, 0x80, 0x8F, 2}};

bool states_is_beyond_ascii(const uint8_t* character) {
	for (size_t i = 0; i < sizeof word_row / sizeof *word_row; i++) {
		const struct utf8_row* row = &word_row[i];
		if (character[0] >= row->low && character[0] <= row->high && character[1] >= row->second_low &&
		    character[1] <= row->second_high)
			return true;
	}
	return false;
}

static struct after_word find_after_word(struct states* s, int state) {
	struct after_word after = {step_all(s, state, 'A', 'Z'), UNKNOWN};
	if (step_all(s, state, 'a', 'z') != after.letter)
		after.letter = STATES_DIFFER;
	for (size_t i = 0; i < sizeof word_row / sizeof *word_row && after.other != STATES_DIFFER; i++) {
		const int next = step_rest(s, step_all(s, state, word_row[i].low, word_row[i].high), &word_row[i]);
		after.other = after.other == UNKNOWN || after.other == next ? next : STATES_DIFFER;
	}
	return after;
}

struct after_word states_after_word(struct states* s, int state, int64_t* work) {
	const bool known = s->word_next[state].letter != UNKNOWN;
	const struct after_word next = known ? s->word_next[state] : find_after_word(s, state);
	if (!s->full)
		s->word_next[state] = next;
	if (s->word_in[state] != s->walk)
		*work += PLAIN_WORK * (1 + (int64_t)s->state[state].n);
	s->word_in[state] = s->walk;
	return next;
}

/* The stack with no count over `most`, and for a walk: without texts that no item of their list begins with.
 */
static int32_t clipped_stack(struct states* s, int32_t stack, int most) {
	const struct frame frame = s->frame[stack];
	if (stack == NO_STACK && s->lists)
		return push_place(s, NO_STACK, AT_WALK);
	if (stack == NO_STACK || frame.at == AT_WALK)
		return stack;
	const int32_t under = clipped_stack(s, frame.under, most);
	int32_t at = frame.at;
	if (at < 0 && at >= AT_COUNT && ~at > most)
		at = ~most;
	if (is_text(at) && at != AT_TEXT + OTHER_TEXT && !is_worth_keeping(s, under, at - AT_TEXT))
		return push_other(s, under);
	return under == frame.under && at == frame.at ? stack : push_place(s, under, at);
}

int states_clipped(struct states* s, int state, int bytes) {
	if ((!s->counts && !s->lists) || state == STATE_DEAD)
		return state;
	begin_set(s);
	for (int i = 0; i < s->state[state].n; i++) {
		const struct place place = s->place[s->state[state].first + i];
		wait_for(s, place.at, clipped_stack(s, place.stack, s->least_left + bytes));
	}
	close_set(s);
	const int clipped = intern_state(s);
	return clipped == STATE_DEAD ? state : clipped; /* no room: as it is */
}

static void meet_frames(struct states* s, int state) {
	if (s->met_in[state] == s->walk)
		return;
	s->met_in[state] = s->walk;
	memset(s->met[state], 0xff, sizeof s->met[state]);
}

/* The innermost count of a stack, or NO_STACK. */
static int32_t count_of_stack(const struct states* s, int32_t stack) {
	while (stack && (s->frame[stack].at >= 0 || s->frame[stack].at < AT_COUNT))
		stack = s->frame[stack].under;
	return stack;
}

/* The stack with another number left of one of its counts; unchanged where it has not that one. */
static int32_t stack_with_left(struct states* s, int32_t stack, int32_t count, int left) {
	const struct frame frame = s->frame[stack];
	if (stack == NO_STACK)
		return NO_STACK;
	if (stack == count)
		return push_place(s, frame.under, ~left);
	const int32_t under = stack_with_left(s, frame.under, count, left);
	return under == frame.under ? stack : push_place(s, under, frame.at);
}

static int state_with_left(struct states* s, int state, int32_t count, int left) {
	begin_set(s);
	for (int i = 0; i < s->state[state].n; i++) {
		const struct place place = s->place[s->state[state].first + i];
		wait_for(s, place.at, stack_with_left(s, place.stack, count, left));
	}
	close_set(s);
	return intern_state(s);
}

int states_counted_down(struct states* s, int state, int* by, int64_t* work) {
	const int even = s->least_left + 1; /* with more left, every step is as with one more */
	int32_t count = NO_STACK;
	for (int i = 0; i < s->state[state].n && !count && s->counts && !s->lists; i++)
		count = count_of_stack(s, s->place[s->state[state].first + i].stack);
	*by = 0;
	if (!count || ~s->frame[count].at <= even + 1)
		return state;
	const int left = ~s->frame[count].at, more = state_with_left(s, state, count, even + 1),
	          less = state_with_left(s, state, count, even);
	if (more == STATE_DEAD || less == STATE_DEAD || more == less || states_after_plain(s, more, work) != less)
		return state;
	*by = left - even;
	return less;
}

states_steps* states_begin_walk(struct states* s, int state) {
	s->walk++;
	meet_frames(s, state);
	return s->met;
}

int states_meet(struct states* s, int state, uint8_t byte, int64_t* work) {
	const int next = states_step(s, state, byte);
	*work += s->state[state].n + s->state[next].n + 1;
	meet_frames(s, next);
	if (!s->full)
		s->met[state][byte] = (int16_t)next;
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
	       s->n_frames > MAX_STACKS / 2 ||
	       (s->lists && (s->n_texts > MAX_TEXTS / 2 || s->n_sets > MAX_SETS / 2));
}

/* Keeps the texts and sets that the used frames name, at the tables' beginning, and forgets the others. What
 * something is made of has a smaller number. */
static void keep_items(struct states* s, const uint8_t* used) {
	memset(s->moved_text, 0, (size_t)s->n_texts * sizeof *s->moved_text);
	memset(s->moved_set, 0, (size_t)s->n_sets * sizeof *s->moved_set);
	for (int32_t f = 1; f < s->n_frames; f++) {
		if (!(used[f >> 3] >> (f & 7) & 1))
			continue;
		if (is_text(s->frame[f].at))
			s->moved_text[s->frame[f].at - AT_TEXT] = 1;
		if (is_set(s->frame[f].at))
			s->moved_set[s->frame[f].at - AT_SET] = 1;
	}
	for (int32_t i = s->n_sets - 1; i > 0; i--)
		if (s->moved_set[i])
			s->moved_set[s->set_of[i].without] = s->moved_text[s->set_of[i].text] = 1;
	for (int32_t i = s->n_texts - 1; i >= FIRST_TEXT; i--)
		if (s->moved_text[i])
			s->moved_text[s->text[i].parent] = 1;
	const int32_t texts = s->n_texts, sets = s->n_sets;
	forget_items(s);
	s->moved_text[NO_TEXT] = NO_TEXT;
	s->moved_text[OTHER_TEXT] = OTHER_TEXT;
	s->moved_text[VAGUE_TEXT] = VAGUE_TEXT;
	for (int32_t i = FIRST_TEXT; i < texts; i++)
		if (s->moved_text[i])
			s->moved_text[i] = text_after(s, s->moved_text[s->text[i].parent], s->text[i].byte, true);
	s->moved_set[0] = 0;
	for (int32_t i = 1; i < sets; i++)
		if (s->moved_set[i])
			s->moved_set[i] =
			    set_with(s, s->moved_set[s->set_of[i].without], s->moved_text[s->set_of[i].text]);
}

static int32_t moved_frame(const struct states* s, int32_t at) {
	return is_text(at)  ? AT_TEXT + s->moved_text[at - AT_TEXT]
	       : is_set(at) ? AT_SET + s->moved_set[at - AT_SET]
	                    : at;
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
	forget_states(s);
	if (s->lists)
		keep_items(s, used);
	s->n_frames = 1;
	begin_set(s);
	int32_t* renumbered = (int32_t*)s->place; /* (MAX_STACKS) */
	for (int32_t f = 1; f < frames; f++)
		if (used[f >> 3] >> (f & 7) & 1) {
			const struct frame old_frame = s->frame[f];
			renumbered[f] = push_place(s, old_frame.under ? renumbered[old_frame.under] : NO_STACK,
			                           moved_frame(s, old_frame.at));
		}
	for (int i = 0; i < n; i++)
		s->set[s->n_set++] = (struct place){s->waiting[i].at,
		                                    s->waiting[i].stack ? renumbered[s->waiting[i].stack] : NO_STACK};
	memset(s->seen_at, 0, sizeof s->seen_at);
	return intern_state(s);
}
