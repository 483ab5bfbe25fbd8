/* The host's side of recurrent blocks (recurrent.cuh): a cache's states, and the programs of a slice. */
#include <assert.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"

/* ---- shapes ---------------------------------------------------------------------------------- */

size_t made_width(const struct model_shape* m) {
	const size_t channels = (size_t)recurrence_channels(&m->recurrence);
	const size_t made = m->recurrence.key_dim > 0 ? channels : 3 * channels;
	const size_t queries = m->attention_gated ? 2 * (size_t)m->heads * (size_t)m->head_dim : 0;
	return made > queries ? made : queries;
}

static bool check_recurrence(const struct model_shape* m, struct error* error) {
	const struct recurrence* r = &m->recurrence;
	const bool shorter =
	    r->key_dim == 0 && r->key_heads == 0 && r->value_heads == 1 && r->value_dim == m->dim;
	const bool heads = r->key_dim > 0 && r->key_heads > 0 && r->value_heads >= r->key_heads &&
	                   r->value_heads % r->key_heads == 0 && r->value_dim > 0;
	if (attention_blocks(m) == 0 || r->kernel < 1 || r->kernel > MOST_TAPS || (!shorter && !heads))
		return error_set(error,
		                 "the recurrent blocks have %d key heads of %d, %d value heads of %d and a "
		                 "convolution of %d: whole value heads for each key head, 1 to %d, and a block "
		                 "with attention are expected",
		                 r->key_heads, r->key_dim, r->value_heads, r->value_dim, r->kernel, MOST_TAPS);
	if (r->key_dim > MOST_KEY_DIM || r->value_heads > 1 << 12 || recurrence_values(r) % 32 != 0)
		return error_set(error,
		                 "the CUDA backend takes recurrent blocks with keys of up to %d elements and a "
		                 "multiple of 32 values; this model's have %d and %d: use --backend cpu",
		                 MOST_KEY_DIM, r->key_dim, recurrence_values(r));
	return true;
}

/* The place of the next n floats, so that 16 bytes can be loaded from it. */
static size_t lay(struct states_layout* at, size_t n) {
	const size_t begin = at->floats;
	at->floats += (n + 3) / 4 * 4;
	return begin;
}

bool states_plan(struct cuda_backend* b, struct error* error) {
	const struct model_shape* m = &b->shape;
	const struct recurrence* r = &m->recurrence;
	struct states_layout* at = &b->states;
	int attention = 0;
	for (int i = 0; i < m->n_blocks; i++)
		b->place[i] = block_set_has(&m->recurrent, i) ? at->blocks++ : attention++;
	if (at->blocks == 0)
		return true;
	if (!check_recurrence(m, error))
		return false;
	const size_t n = (size_t)at->blocks, channels = (size_t)recurrence_channels(r);
	const size_t state = n * (size_t)recurrence_values(r) * (size_t)r->key_dim;
	const size_t column = n * (size_t)(r->kernel - 1) * channels;
	at->units = r->key_dim > 0 ? r->value_heads * ((r->value_dim + UNIT_COLUMNS - 1) / UNIT_COLUMNS) : 0;
	at->channels = recurrence_channels(r);
	at->keys = recurrence_keys(r);
	at->values = recurrence_values(r);
	at->query_at = recurrence_query_at(r);
	at->key_at = recurrence_key_at(r);
	at->value_at = recurrence_value_at(r);
	at->row = channels;
	if (r->key_dim > 0)
		at->row += (size_t)recurrence_keys(r) + (size_t)recurrence_values(r) + 2 * (size_t)r->value_heads;
	at->state = lay(at, 2 * state);
	at->column = lay(at, column);
	at->kept_state = lay(at, state);
	at->kept_column = lay(at, column);
	at->pending = lay(at, n * MAX_ROWS * at->row);
	at->unit = lay(at, n * (size_t)at->units * sizeof(struct state_unit) / sizeof(float));
	return true;
}

size_t states_bytes(const struct cuda_backend* b) { return b->states.floats * sizeof(float); }

/* ---- a cache's ------------------------------------------------------------------------------ */

static const struct cuda_backend* backend_of(const struct cuda_cache* c) {
	return (const struct cuda_backend*)c->paged.head.backend;
}

/* The backend, with its device the current one; NULL where there are no states, or no device any more. */
static const struct cuda_backend* ready(const struct cuda_cache* c) {
	const struct cuda_backend* b = backend_of(c);
	return c->states && !devices_gone(b) && cudaSetDevice(b->device) == cudaSuccess ? b : NULL;
}

bool states_open(const struct cuda_backend* b, struct cuda_cache* c, struct error* error) {
	const size_t bytes = states_bytes(b);
	if (bytes == 0)
		return true;
	if (cudaMalloc((void**)&c->states, bytes) != cudaSuccess) {
		c->states = NULL;
		describe_free_memory(bytes, "the states of a cache's recurrent blocks", error);
		return false;
	}
	c->paged.head.bytes += recurrent_bytes(&b->shape);
	CUDA_TRY(cudaMemsetAsync(c->states, 0, bytes, b->stream), error);
	return true;
}

void states_close(struct cuda_cache* c) {
	cudaFree(c->states);
	c->states = NULL;
}

void states_commit(struct cuda_cache* c, const int32_t* row, int n) {
	const struct cuda_backend* b = ready(c);
	struct state_path path = {};
	path.n = n;
	for (int i = 0; i < n; i++)
		path.row[i] = row ? row[i] : i;
	if (b && n > 0)
		launch_commit_states(b, c->states, path);
}

void states_keep(struct cuda_cache* c) {
	const struct cache* head = &c->paged.head;
	const struct cuda_backend* b = ready(c);
	if (!b || head->committed % PREFILL_CHUNK || head->committed > head->prompt_length)
		return;
	launch_keep_states(b, c->states, false);
	c->kept_at = head->committed;
}

/* Back to where nothing was committed, but for the unit's numbers, which are right for any state. */
static void forget_states(const struct cuda_backend* b, float* states) {
	const struct states_layout* at = &b->states;
	cudaMemsetAsync(states + at->state, 0, (at->kept_state - at->state) * sizeof(float), b->stream);
}

static int go_back(struct cuda_cache* c, int committed) {
	const struct cuda_backend* b = ready(c);
	if (!b || committed == c->paged.head.committed)
		return committed;
	if (c->kept_at > committed)
		c->kept_at = 0;
	if (c->kept_at > 0)
		launch_keep_states(b, c->states, true);
	else
		forget_states(b, c->states);
	return c->kept_at;
}

void cuda_truncate(struct cache* cache, int committed) {
	paged_truncate(cache, go_back((struct cuda_cache*)cache, committed));
}

int cuda_adopt_own(struct cache* cache, const int32_t* token, int n) {
	const struct paged_cache* c = (const struct paged_cache*)cache;
	const bool exact = cache->backend->prefill_is_exact;
	const int whole = exact ? 1 : PREFILL_CHUNK, kept = exact ? cache->committed : c->clean;
	int own = 0;
	while (own < n && own < kept && c->token[own] == token[own])
		own++;
	cuda_truncate(cache, own / whole * whole);
	return cache->committed;
}

/* ---- programs ------------------------------------------------------------------------------- */

/* A slice's rows as trees: of each sequence those that follow what is no row of the slice, and so on. */
struct forest {
	struct device_slice* slice;
	int32_t* program;
	int n;                      /* of the program so far */
	int places, most;           /* where states are kept: now, and the most so far */
	int16_t run[PREFILL_CHUNK]; /* by row: which sequence's */
	/* by row: its first child, the next child of its parent, the rows of its tree; -1: none */
	int16_t child[PREFILL_CHUNK], next[PREFILL_CHUNK], size[PREFILL_CHUNK];
};

static void write_operation(struct forest* f, enum operation operation, int operand) {
	f->program[f->n++] = operation + operand * OPERATIONS;
}

/* Writes the steps of the trees that begin with `first` and those next to it. The state is that of their
 * parent, and afterwards any. Rows without children come first and leave the state alone; of the others the
 * largest tree comes last, and the others' take the parent's state from where it is kept. So states are kept
 * only where a tree forks below one level, and a tree of n rows keeps log2(n) at most at once. ends: the
 * program ends with them; its last row's state stays. */
static void write_trees(struct forest* f, int first, bool ends) {
	while (first >= 0) {
		int deep = -1, others = 0, last = first;
		for (int i = first; i >= 0; i = f->next[i]) {
			others += f->child[i] >= 0;
			last = i;
			if (f->child[i] >= 0 && (deep < 0 || f->size[i] > f->size[deep]))
				deep = i;
		}
		for (int i = first; i >= 0; i = f->next[i])
			if (f->child[i] < 0)
				write_operation(f, ends && deep < 0 && i == last ? STATE_STEP : STATE_OUTPUT, i);
		const int place = f->places;
		if (others > 1) {
			f->places++;
			f->most = f->most > f->places ? f->most : f->places;
			write_operation(f, STATE_SAVE, place);
		}
		for (int i = first; i >= 0; i = f->next[i])
			if (i != deep && f->child[i] >= 0) {
				write_operation(f, STATE_STEP, i);
				write_trees(f, f->child[i], false);
				write_operation(f, STATE_TAKE, place);
			}
		f->places = place;
		if (deep >= 0)
			write_operation(f, STATE_STEP, deep);
		first = deep >= 0 ? f->child[deep] : -1;
	}
}

static const struct paged_cache* cache_of(const struct cuda_backend* b, int i) {
	return (const struct paged_cache*)b->of_row[i]->cache;
}

/* Rows of one cache are one sequence's, whatever segments they are of. Returns how many there are. */
static int find_runs(const struct cuda_backend* b, struct forest* f) {
	int16_t leader[PREFILL_CHUNK];
	int runs = 0;
	for (int i = 0; i < f->slice->n; i++) {
		int k = i > 0 && cache_of(b, i) == cache_of(b, i - 1) ? f->run[i - 1] : 0;
		while (k < runs && cache_of(b, leader[k]) != cache_of(b, i))
			k++;
		if (k == runs)
			leader[runs++] = (int16_t)i;
		f->run[i] = (int16_t)k;
	}
	return runs;
}

/* Fills in which row of the slice is each row's parent. */
static void find_parents(const struct cuda_backend* b, struct forest* f, int run) {
	int16_t at[MAX_ROWS]; /* by pending row */
	memset(at, -1, sizeof at);
	for (int i = 0; i < f->slice->n; i++) {
		struct device_row* row = &f->slice->row[i];
		if (f->run[i] != run)
			continue;
		const int parent = cache_of(b, i)->row[row->pending].parent;
		row->above = row->position > row->base && parent >= 0 ? at[parent] : -1;
		at[row->pending] = (int16_t)i;
	}
}

static void plant(struct forest* f) {
	for (int i = f->slice->n - 1; i >= 0; i--) {
		const int above = f->slice->row[i].above;
		if (above < 0)
			continue;
		f->size[above] = (int16_t)(f->size[above] + f->size[i]);
		f->next[i] = f->child[above];
		f->child[above] = (int16_t)i;
	}
}

/* The pending row that a root of the slice follows, or -1. */
static int parent_of_root(const struct cuda_backend* b, const struct forest* f, int i) {
	const struct device_row* row = &f->slice->row[i];
	return row->position > row->base ? cache_of(b, i)->row[row->pending].parent : -1;
}

/* A sequence's roots in groups that start from the same state. */
static void write_program(const struct cuda_backend* b, struct forest* f, int run) {
	int16_t first[PREFILL_CHUNK], last[PREFILL_CHUNK];
	int groups = 0;
	for (int i = 0; i < f->slice->n; i++) {
		if (f->run[i] != run || f->slice->row[i].above >= 0)
			continue;
		int g = 0;
		while (g < groups && parent_of_root(b, f, first[g]) != parent_of_root(b, f, i))
			g++;
		if (g == groups)
			first[groups++] = (int16_t)i;
		else
			f->next[last[g]] = (int16_t)i;
		last[g] = (int16_t)i;
	}
	for (int g = 0; g < groups; g++) {
		write_operation(f, STATE_LOAD, first[g]);
		write_trees(f, first[g], g == groups - 1);
	}
}

size_t describe_states(struct cuda_backend* b, size_t at) {
	struct device_slice* s = b->staging;
	struct forest f;
	if (b->states.blocks == 0)
		return at;
	f.slice = s;
	f.n = f.most = 0;
	memset(f.child, -1, sizeof f.child);
	memset(f.next, -1, sizeof f.next);
	for (int i = 0; i < s->n; i++)
		f.size[i] = 1;
	s->runs = find_runs(b, &f);
	s->programs = (int)at;
	int32_t* first = (int32_t*)((unsigned char*)s + at);
	f.program = first + s->runs + 1;
	for (int run = 0; run < s->runs; run++)
		find_parents(b, &f, run);
	plant(&f);
	for (int run = 0; run < s->runs; run++) {
		first[run] = f.n;
		f.places = f.most; /* sequences run at the same time */
		write_program(b, &f, run);
	}
	first[s->runs] = f.n;
	assert(f.most <= SAVED_STATES && s->runs + 1 + f.n <= PROGRAM_INTS);
	return at + (size_t)(s->runs + 1 + f.n) * sizeof *first;
}
