/* Broadcasts rank 0's calls, which the other ranks repeat. */
#include "kernels/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum call {
	CALL_CLOSE,
	CALL_OPEN_CACHE,
	CALL_CLOSE_CACHE,
	CALL_RUN,
	CALL_COMMIT,
	CALL_DISCARD,
	CALL_REWIND,
	CALL_TRUNCATE
};

enum { MOST_CACHES = 4096 };

struct leading {
	struct backend own; /* the backend's calls as they were */
	struct process_group* group;
	struct cache* cache[MOST_CACHES]; /* by the number that the other ranks use; NULL: free */
};

struct remote_segment {
	int32_t cache, base, n, prompt_length, tenant;
};

/* One call as it is sent: always the whole struct. */
struct remote_call {
	int32_t call, cache;
	int32_t argument[2];
	/* CALL_RUN: the pass's arrays are sent after it; a pointer here only shows that it is not NULL */
	struct pass pass;
	struct mask skip;
	struct remote_segment segment[MAX_ROWS];
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	int32_t row[MAX_ROWS]; /* rows of a pass that goes on; the path of CALL_COMMIT */
	uint8_t wanted[MAX_ROWS];
};

/* ---- leading ------------------------------------------------------------------------------- */

static void broadcast_call(const struct leading* l, struct remote_call* call) {
	l->group->broadcast(l->group, call, sizeof *call);
}

static int number_of(const struct leading* l, const struct cache* cache) {
	int i = 0;
	while (l->cache[i] != cache)
		i++;
	return i;
}

static void lead_close(struct backend* backend) {
	struct leading* l = backend->leading;
	struct remote_call call = {.call = CALL_CLOSE};
	broadcast_call(l, &call);
	backend->leading = NULL;
	l->own.close(backend);
	free(l);
}

static struct cache* lead_cache_open(struct backend* backend, int capacity, enum dtype type,
                                     struct error* error) {
	struct leading* l = backend->leading;
	int number = 0;
	while (number < MOST_CACHES && l->cache[number])
		number++;
	if (number == MOST_CACHES) {
		error_set(error, "over %d caches are open over several processes", MOST_CACHES);
		return NULL;
	}
	struct cache* cache = l->own.cache_open(backend, capacity, type, error);
	if (!cache)
		return NULL;
	struct remote_call call = {
	    .call = CALL_OPEN_CACHE, .cache = number, .argument = {capacity, (int32_t)type}};
	broadcast_call(l, &call);
	l->cache[number] = cache;
	return cache;
}

/* Sends a call with only a cache and a number. */
static void broadcast_cache_call(const struct cache* cache, enum call what, int argument) {
	const struct leading* l = cache->backend->leading;
	struct remote_call call = {.call = (int32_t)what, .cache = number_of(l, cache), .argument = {argument}};
	broadcast_call(l, &call);
}

static void lead_cache_close(struct cache* cache) {
	if (!cache)
		return;
	struct leading* l = cache->backend->leading;
	broadcast_cache_call(cache, CALL_CLOSE_CACHE, 0);
	l->cache[number_of(l, cache)] = NULL;
	l->own.cache_close(cache);
}

static void lead_discard(struct cache* cache) {
	broadcast_cache_call(cache, CALL_DISCARD, 0);
	cache->backend->leading->own.discard(cache);
}

static bool lead_rewind(struct cache* cache, int sub_layer) {
	broadcast_cache_call(cache, CALL_REWIND, sub_layer);
	return cache->backend->leading->own.rewind(cache, sub_layer);
}

static void lead_truncate(struct cache* cache, int committed) {
	broadcast_cache_call(cache, CALL_TRUNCATE, committed);
	cache->backend->leading->own.truncate(cache, committed);
}

static void lead_commit(struct cache* cache, const int32_t* path, int n) {
	const struct leading* l = cache->backend->leading;
	struct remote_call call = {.call = CALL_COMMIT, .cache = number_of(l, cache), .argument = {n}};
	memcpy(call.row, path, (size_t)n * sizeof *path);
	broadcast_call(l, &call);
	l->own.commit(cache, path, n);
}

static void copy_rows(int32_t* to, const int32_t* from, int n) {
	if (from)
		memcpy(to, from, (size_t)n * sizeof *from);
}

static bool lead_run(struct backend* backend, const struct pass* pass, struct error* error) {
	const struct leading* l = backend->leading;
	struct remote_call call = {.call = CALL_RUN, .pass = *pass};
	if (pass->skip)
		call.skip = *pass->skip;
	for (int i = 0; i < pass->n_segments; i++) {
		const struct segment* s = &pass->segment[i];
		call.segment[i] = (struct remote_segment){number_of(l, s->cache), s->base, s->n,
		                                          s->cache->prompt_length, s->cache->tenant};
	}
	copy_rows(call.token, pass->token, pass->n);
	copy_rows(call.parent, pass->parent, pass->n);
	copy_rows(call.row, pass->row, pass->n);
	for (int i = 0; pass->head && i < pass->n; i++)
		call.wanted[i] = pass->want[i] != WANT_NOTHING;
	broadcast_call(l, &call);
	if (pass->state)
		l->group->broadcast(l->group, (void*)(uintptr_t)pass->state,
		                    (size_t)pass->n * (size_t)backend->weights->shape.dim * sizeof(float));
	return l->own.run(backend, pass, error);
}

bool ranks_lead(struct backend* backend, struct process_group* group, struct error* error) {
	struct leading* l = calloc(1, sizeof *l);
	if (!l)
		return error_set(error, "out of memory for a backend over several processes");
	l->own = *backend;
	l->group = group;
	backend->leading = l;
	backend->close = lead_close;
	backend->cache_open = lead_cache_open;
	backend->cache_close = lead_cache_close;
	backend->run = lead_run;
	backend->commit = lead_commit;
	backend->discard = lead_discard;
	backend->rewind = lead_rewind;
	backend->truncate = lead_truncate;
	backend->draft = NULL;
	backend->use_draft_weights = NULL;
	backend->upload_draft_weights = NULL;
	backend->adopt = NULL; /* each cache has memory of its own, on every rank alike */
	backend->rest =
	    NULL; /* one thread talks to the other ranks, which cannot be left in the middle of a pass */
	backend->abandon = NULL;
	backend->reserve = NULL;
	backend->room = NULL;
	backend->page_bytes = NULL;
	backend->page_save = NULL;
	backend->page_restore = NULL;
	backend->state_bytes = NULL;
	backend->state_save = NULL;
	backend->state_restore = NULL;
	const size_t used = strlen(backend->name);
	snprintf(backend->name + used, sizeof backend->name - used, " x %d", group->ranks);
	return true;
}

/* ---- following ----------------------------------------------------------------------------- */

struct following {
	struct backend* backend;
	struct process_group* group;
	struct cache* cache[MOST_CACHES];
	struct remote_call call;
	struct segment segment[MAX_ROWS];
	struct result out[MAX_ROWS];
	float* rows; /* (MAX_ROWS, dim) states from which a pass continues, or that it taps */
};

/* Only rank 0 reads results. The others ask for the least, and know no sampler or penalty. A pass that fails
 * there (logits that are not finite) fails here too, and leaves both caches alike. */
static void follow_run(struct following* f) {
	const struct remote_call* t = &f->call;
	struct pass pass = t->pass;
	uint8_t want[MAX_ROWS];
	struct error ignored;
	for (int i = 0; i < pass.n_segments; i++) {
		struct cache* cache = f->cache[t->segment[i].cache];
		cache->prompt_length = t->segment[i].prompt_length;
		cache->tenant = t->segment[i].tenant; /* pages have the same names on every rank, and so states */
		f->segment[i] = (struct segment){.cache = cache, .base = t->segment[i].base, .n = t->segment[i].n};
	}
	for (int i = 0; i < pass.n; i++)
		want[i] = t->wanted[i] ? WANT_TOKEN : WANT_NOTHING;
	if (pass.state)
		f->group->broadcast(f->group, f->rows,
		                    (size_t)pass.n * (size_t)f->backend->weights->shape.dim * sizeof(float));
	pass.segment = f->segment;
	pass.token = pass.token ? t->token : NULL;
	pass.parent = pass.parent ? t->parent : NULL;
	pass.row = pass.row ? t->row : NULL;
	pass.state = pass.state ? f->rows : NULL;
	pass.skip = pass.skip ? &t->skip : NULL;
	pass.tap_out = f->rows;
	pass.want = want;
	pass.out = f->out;
	pass.quantized = NULL;
	pass.quantized_head = false;
	pass.states = pass.normed_out = NULL;
	f->backend->run(f->backend, &pass, &ignored);
}

static bool follow_open_cache(struct following* f, struct error* error) {
	const struct remote_call* t = &f->call;
	f->cache[t->cache] =
	    f->backend->cache_open(f->backend, t->argument[0], (enum dtype)t->argument[1], error);
	return f->cache[t->cache] != NULL;
}

/* If this rank has no memory for a cache, it ends, and so do all. */
static void follow_call(struct following* f) {
	struct backend* b = f->backend;
	struct cache** cache = &f->cache[f->call.cache];
	struct error error;
	switch ((enum call)f->call.call) {
	case CALL_OPEN_CACHE:
		if (!follow_open_cache(f, &error)) {
			fprintf(stderr, "swiftlet: rank %d: %s\n", f->group->rank, error.message);
			exit(1);
		}
		break;
	case CALL_CLOSE_CACHE:
		b->cache_close(*cache);
		*cache = NULL;
		break;
	case CALL_RUN:
		follow_run(f);
		break;
	case CALL_COMMIT:
		b->commit(*cache, f->call.row, f->call.argument[0]);
		break;
	case CALL_DISCARD:
		b->discard(*cache);
		break;
	case CALL_REWIND:
		b->rewind(*cache, f->call.argument[0]);
		break;
	case CALL_TRUNCATE:
		b->truncate(*cache, f->call.argument[0]);
		break;
	case CALL_CLOSE:
		break;
	}
}

void ranks_follow(struct backend* backend, struct process_group* group) {
	struct following* f = calloc(1, sizeof *f);
	float* rows = malloc((size_t)MAX_ROWS * (size_t)backend->weights->shape.dim * sizeof *rows);
	if (!f || !rows) {
		fprintf(stderr, "swiftlet: rank %d: out of memory\n", group->rank);
		exit(1);
	}
	f->backend = backend;
	f->group = group;
	f->rows = rows;
	do {
		group->broadcast(group, &f->call, sizeof f->call);
		follow_call(f);
	} while (f->call.call != CALL_CLOSE);
	for (int i = 0; i < MOST_CACHES; i++)
		if (f->cache[i])
			backend->cache_close(f->cache[i]);
	free(rows);
	free(f);
}
