/* The thread, and the two queues between it and whoever serves. */
#include "streams/memory/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include "core/model/sha256.h"

enum { OUT_TEXTS = 64, LISTEN = 1000 };

struct text_node {
	struct text_node* next;
	int tenant, n;
	int32_t token[];
};

struct text_queue {
	struct text_node *first, *last;
	int n;
	int64_t tokens;
};

struct texts {
	struct texts_options option;
	char (*tenant)[TEXTS_NAME]; /* (n_tenants) */
	int64_t* seen;              /* (n_tenants) the number read last; the thread's */
	char writer[33];
	struct store* store;
	pthread_t thread;
	bool running, failed;
	int wake; /* an eventfd */

	pthread_mutex_t lock; /* of all below */
	struct text_queue out, in;
	bool* wanted; /* (n_tenants) */
	bool fresh;   /* a tenant has come to be wanted */
	bool stopping;
};

void texts_tenant(const char* key, char name[TEXTS_NAME]) {
	static const char purpose[] = "swiftlet tenant: ";
	struct sha256 hash;
	sha256_start(&hash);
	sha256_add(&hash, purpose, sizeof purpose - 1);
	sha256_add(&hash, key, strlen(key));
	sha256_end(&hash, name);
}

/* ---- queues ------------------------------------------------------------------------------- */

static struct text_node* node_of(int tenant, const int32_t* token, int n) {
	struct text_node* node = malloc(sizeof *node + (size_t)n * sizeof *token);
	if (node) {
		node->next = NULL;
		node->tenant = tenant;
		node->n = n;
		memcpy(node->token, token, (size_t)n * sizeof *token);
	}
	return node;
}

static void append(struct text_queue* q, struct text_node* node) {
	if (q->last)
		q->last->next = node;
	else
		q->first = node;
	q->last = node;
	q->n++;
	q->tokens += node->n;
}

static struct text_node* pop(struct text_queue* q) {
	struct text_node* node = q->first;
	if (!node)
		return NULL;
	q->first = node->next;
	if (!q->first)
		q->last = NULL;
	q->n--;
	q->tokens -= node->n;
	return node;
}

static void wake(struct texts* t) { (void)!write(t->wake, &(uint64_t){1}, sizeof(uint64_t)); }

void texts_want(struct texts* t, int tenant) {
	pthread_mutex_lock(&t->lock);
	t->fresh |= !t->wanted[tenant];
	t->wanted[tenant] = true;
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

void texts_put(struct texts* t, int tenant, const int32_t* token, int n) {
	pthread_mutex_lock(&t->lock);
	struct text_node* node = n > 0 && t->out.n < OUT_TEXTS ? node_of(tenant, token, n) : NULL;
	if (node)
		append(&t->out, node);
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

bool texts_take(struct texts* t, void (*give)(void*, int, const int32_t*, int), void* user) {
	pthread_mutex_lock(&t->lock);
	struct text_node* node = pop(&t->in);
	pthread_mutex_unlock(&t->lock);
	if (node)
		give(user, node->tenant, node->token, node->n);
	free(node);
	return node != NULL;
}

/* ---- the thread --------------------------------------------------------------------------- */

static bool stopping(struct texts* t) {
	pthread_mutex_lock(&t->lock);
	const bool is = t->stopping;
	pthread_mutex_unlock(&t->lock);
	return is;
}

/* Nobody else takes texts out of that queue: the first one stays while it is written. */
static bool write_texts(struct texts* t, struct error* e) {
	for (;;) {
		pthread_mutex_lock(&t->lock);
		struct text_node* node = t->out.first;
		pthread_mutex_unlock(&t->lock);
		if (!node)
			return true;
		if (!store_add_text(t->store, &t->option.model, t->tenant[node->tenant], t->writer, node->token,
		                    node->n, t->option.capacity, e))
			return false;
		pthread_mutex_lock(&t->lock);
		free(pop(&t->out));
		pthread_mutex_unlock(&t->lock);
	}
}

struct reading {
	struct texts* texts;
	int tenant;
};

/* Tokens that the model does not have were written by none of ours. */
static bool is_sane(const struct texts* t, const struct store_text* text) {
	for (int i = 0; i < text->n; i++)
		if (text->token[i] < 0 || text->token[i] >= t->option.vocab)
			return false;
	return text->n <= t->option.capacity;
}

/* What is not taken yet is bounded; the rest is read another time. */
static bool receive(void* user, const struct store_text* text) {
	const struct reading* r = user;
	struct texts* t = r->texts;
	pthread_mutex_lock(&t->lock);
	const bool fits = t->in.tokens < 2 * (int64_t)t->option.capacity;
	struct text_node* node = fits && is_sane(t, text) ? node_of(r->tenant, text->token, text->n) : NULL;
	if (node)
		append(&t->in, node);
	t->fresh |= !fits;
	pthread_mutex_unlock(&t->lock);
	if (fits)
		t->seen[r->tenant] = text->number;
	return fits;
}

static bool read_texts(struct texts* t, struct error* e) {
	for (int i = 0; i < t->option.n_tenants; i++) {
		pthread_mutex_lock(&t->lock);
		const bool wanted = t->wanted[i];
		pthread_mutex_unlock(&t->lock);
		struct reading r = {t, i};
		if (wanted &&
		    !store_each_text(t->store, &t->option.model, t->tenant[i], t->writer, t->seen[i], receive, &r, e))
			return false;
	}
	return true;
}

static bool take_fresh(struct texts* t) {
	pthread_mutex_lock(&t->lock);
	const bool fresh = t->fresh;
	t->fresh = false;
	pthread_mutex_unlock(&t->lock);
	return fresh;
}

static void note(struct texts* t, bool good, const struct error* e) {
	if (!good && !t->failed)
		fprintf(stderr, "swiftlet: earlier texts are neither stored nor read: %s; it is tried again\n",
		        e->message);
	t->failed = !good;
}

static void rest(struct texts* t) {
	for (int i = 0; i < 20 && !stopping(t); i++)
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void* run(void* user) {
	struct texts* t = user;
	bool news = true;
	for (;;) {
		struct error e = {""};
		uint64_t count;
		const bool last = stopping(t);
		news |= take_fresh(t);
		const bool good = write_texts(t, &e) && (last || !news || read_texts(t, &e));
		note(t, good, &e);
		if (last)
			return NULL;
		news = !good; /* what was said while nobody listened */
		if (good)
			news |= store_news(t->store, t->wake, LISTEN);
		else
			rest(t);
		(void)!read(t->wake, &count, sizeof count);
	}
}

/* ---- opening and closing ------------------------------------------------------------------ */

static void name_writer(struct texts* t) {
	unsigned char random[16] = {0};
	(void)!getrandom(random, sizeof random, 0);
	for (int i = 0; i < 16; i++)
		snprintf(t->writer + 2 * i, 3, "%02x", random[i]);
}

struct texts* texts_open(const char* path, const struct texts_options* o, struct error* e) {
	struct texts* t = calloc(1, sizeof *t);
	if (!t) {
		error_set(e, "out of memory");
		return NULL;
	}
	const size_t n = (size_t)o->n_tenants;
	t->option = *o;
	t->tenant = malloc(n * sizeof *t->tenant);
	t->seen = calloc(n, sizeof *t->seen);
	t->wanted = calloc(n, sizeof *t->wanted);
	t->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_init(&t->lock, NULL);
	name_writer(t);
	bool good = (t->tenant && t->seen && t->wanted) || error_set(e, "out of memory");
	if (good)
		memcpy(t->tenant, o->tenant, n * sizeof *t->tenant);
	good = good && (t->store = store_open_later(path, e)) != NULL;
	if (good && (t->wake < 0 || pthread_create(&t->thread, NULL, run, t) != 0))
		good = error_set(e, "no thread could be started for earlier texts");
	t->running = good;
	if (good)
		return t;
	texts_close(t);
	return NULL;
}

static void drain(struct text_queue* q) {
	for (struct text_node* node; (node = pop(q));)
		free(node);
}

void texts_close(struct texts* t) {
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	pthread_mutex_unlock(&t->lock);
	wake(t);
	if (t->running)
		pthread_join(t->thread, NULL);
	drain(&t->out);
	drain(&t->in);
	if (t->store)
		store_close(t->store);
	if (t->wake >= 0)
		close(t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t->tenant);
	free(t->seen);
	free(t->wanted);
	free(t);
}
