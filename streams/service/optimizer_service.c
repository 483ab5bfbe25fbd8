/* The layer-set optimizer as a service: searches for models that run elsewhere.
 *
 * A client opens a search for a model of L blocks, asks for masks to try, reports how many of a window's
 * tokens the masked model predicted, and takes the best. One lock guards all searches. Each tenant has a
 * limited number; a new one replaces the same tenant's longest unused one, never another tenant's. A tenant
 * sees its own searches. An admin sees all, and so does everybody where the server has no keys.
 *
 *   GET /v1/swiftlet/optimizer -> {"data": [{"id", "model", "blocks", "steps"}]}
 *   POST /v1/swiftlet/optimizer {"blocks": L, "model"?, "skip_ratio"? 0.45, "seed"? 0, "window"? 32,
 *     "bayes_interval"? 25, "max_steps"? 1000, "patience"? 300, "max_matchness"? 0.95,
 *     "acquisition"? "ucb"|"ei", "kernel"? "matern52"|"hamming", "kappa"? 2.5,
 *     "start"? {"attention", "mlp"}} -> {"id", …}. "confirm" and "preset", which older clients send, are
 *     ignored.
 *   POST …/ID/propose {"window"?: number of the client's window, "size"?} -> {"step", "kind", "attention",
 *     "mlp", "window", "size"}, or {"done": true, "state"} when the search has ended. It can do without a
 *     body.
 *   POST …/ID/observe {"attention", "mlp", "matches", "rows", "window"?} -> {"state", "steps",
 *     "best": {…}}. A "distance", which older clients send, is ignored.
 *   GET …/ID, …/ID/best -> {"attention", "mlp", "matchness", "steps", "state", "skip_ratio"}
 *   DELETE …/ID */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "optimizer/search.h"
#include "streams/mask_file.h"
#include "streams/service/server_internal.h"

enum { SERVICE_SEARCHES = 64, OUTSTANDING = 16, MOST_PER_TENANT = 32 };

struct remote {
	struct search* search; /* NULL: free */
	char id[24], model[128];
	int tenant;
	int blocks, size;
	int64_t window, used;
	/* proposals that were given and not reported yet, so that a report counts as its own step */
	struct proposal given[OUTSTANDING];
	int n_given;
};

struct optimizer_service {
	pthread_mutex_t lock;
	struct remote remote[SERVICE_SEARCHES];
	int per_tenant; /* searches */
	int64_t uses;
};

/* Runs a request with the lock held. */
struct asked {
	const struct http_call* call;
	struct optimizer_service* service;
	struct remote* of; /* NULL: of none */
	const cJSON* body;
	struct text out;
	struct api_error* error;
};

struct optimizer_service* optimizer_service_open(int tenants) {
	struct optimizer_service* s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->per_tenant = tenants <= 1                ? MOST_PER_TENANT
	                : tenants < MOST_PER_TENANT ? MOST_PER_TENANT / tenants
	                                            : 1;
	return s;
}

void optimizer_service_close(struct optimizer_service* s) {
	if (!s)
		return;
	for (int i = 0; i < SERVICE_SEARCHES; i++)
		search_close(s->remote[i].search);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* One of two words. */
static bool read_choice(const cJSON* body, const char* name, const char* first, const char* second, bool* out,
                        struct api_error* e) {
	const char* word = NULL;
	if (!api_string(body, name, 32, &word, e))
		return false;
	if (word && strcmp(word, first) != 0 && strcmp(word, second) != 0)
		return api_refuse(e, name, "invalid_value", "'%s' must be \"%s\" or \"%s\".", name, first, second);
	*out = word && strcmp(word, second) == 0;
	return true;
}

static bool read_options(const cJSON* body, struct search_options* o, int* window, struct api_error* e) {
	static const char known[] =
	    "blocks model skip_ratio seed window bayes_interval max_steps patience confirm "
	    "max_matchness acquisition kernel kappa start preset";
	*o = (struct search_options){.skip_ratio = 0.45,
	                             .bayes_interval = 25,
	                             .max_steps = 1000,
	                             .patience = 300,
	                             .max_matchness = 0.95,
	                             .kappa = 2.5,
	                             .published = true};
	*window = 32;
	double seed = 0;
	bool ei = false, hamming = false;
	if (!api_only(body, known, e) || !api_int(body, "blocks", 3, MAX_BLOCKS, &o->blocks, e) ||
	    !api_number(body, "skip_ratio", 0.01, 0.99, false, &o->skip_ratio, e) ||
	    !api_number(body, "seed", 0, 0x1p53, true, &seed, e) ||
	    !api_int(body, "window", 1, 4096, window, e) ||
	    !api_int(body, "bayes_interval", 0, 100000, &o->bayes_interval, e) ||
	    !api_int(body, "max_steps", 1, 4000, &o->max_steps, e) ||
	    !api_int(body, "patience", 1, 4000, &o->patience, e) ||
	    !api_number(body, "max_matchness", 0, 1, false, &o->max_matchness, e) ||
	    !api_number(body, "kappa", 0, 1000, false, &o->kappa, e) ||
	    !read_choice(body, "acquisition", "ucb", "ei", &ei, e) ||
	    !read_choice(body, "kernel", "matern52", "hamming", &hamming, e))
		return false;
	if (o->blocks == 0)
		return api_refuse(e, "blocks", "missing_required_parameter", "'blocks' is required.");
	o->seed = (uint64_t)seed;
	o->expected_improvement = ei;
	o->hamming = hamming;
	return true;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_best(struct text* out, const struct remote* r) {
	double matchness;
	const struct mask best = search_best(r->search, &matchness);
	text_put(out, "{");
	mask_put_blocks(out, &best);
	text_json(out, ", 'matchness': %g, 'steps': %d, 'state': '%s', 'skip_ratio': %g}", matchness,
	          search_steps(r->search), search_state_name(search_state(r->search)),
	          search_skip_ratio(r->search));
}

/* ---- finding ------------------------------------------------------------------------------ */

static bool may_see(const struct asked* a, const struct remote* r) {
	return r->search && (a->call->admin || r->tenant == a->call->tenant);
}

static bool find_optimizer(struct asked* a, const char* id, size_t n) {
	struct optimizer_service* s = a->service;
	for (int i = 0; i < SERVICE_SEARCHES; i++)
		if (may_see(a, &s->remote[i]) && strlen(s->remote[i].id) == n &&
		    memcmp(s->remote[i].id, id, n) == 0) {
			a->of = &s->remote[i];
			a->of->used = ++s->uses;
			return true;
		}
	return api_fail(a->error, 404, "not_found",
	                "No optimizer has this id: GET /v1/swiftlet/optimizer lists them.");
}

/* A slot for a tenant's new search: a free one, else that of its own search unused the longest. */
static struct remote* make_room(struct optimizer_service* s, int tenant) {
	struct remote *oldest = NULL, *place = NULL;
	int n = 0;
	for (int i = 0; i < SERVICE_SEARCHES; i++) {
		struct remote* r = &s->remote[i];
		if (!r->search)
			place = r;
		else if (r->tenant == tenant) {
			n++;
			if (!oldest || r->used < oldest->used)
				oldest = r;
		}
	}
	if (n < s->per_tenant && place)
		return place;
	search_close(oldest->search);
	oldest->search = NULL;
	return oldest;
}

/* ---- the six ------------------------------------------------------------------------------ */

static bool create_optimizer(struct asked* a) {
	struct optimizer_service* s = a->service;
	struct api_error* e = a->error;
	const cJSON* body = a->body;
	struct search_options o;
	struct error why;
	int window;
	const char* model = "";
	struct mask start;
	const cJSON* given = cJSON_GetObjectItemCaseSensitive(body, "start");
	if (!read_options(body, &o, &window, e) || !api_string(body, "model", 120, &model, e))
		return false;
	if (given && !cJSON_IsObject(given))
		return api_refuse(e, "start", "invalid_type",
		                  "'start' must be an object with the lists 'attention' and 'mlp'.");
	if (given && !api_mask(given, o.blocks, false, &start, e))
		return false;
	struct search* search = search_open(&o, &why);
	if (!search)
		return api_refuse(e, "blocks", "invalid_value", "%.300s", why.message);
	struct remote* r = make_room(s, a->call->tenant);
	*r = (struct remote){
	    .search = search, .tenant = a->call->tenant, .blocks = o.blocks, .size = window, .used = ++s->uses};
	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		random = (uint64_t)s->uses * 0x9E3779B97F4A7C15u;
	snprintf(r->id, sizeof r->id, "opt-%016llx", (unsigned long long)random);
	snprintf(r->model, sizeof r->model, "%s", model);
	if (given)
		search_adopt(search, &start);
	text_json(&a->out, "{'id': '%s', 'model': %q, 'blocks': %d, 'window': %d, 'best': ", r->id, r->model,
	          r->blocks, r->size);
	put_best(&a->out, r);
	text_put(&a->out, "}\n");
	return true;
}

/* The client numbers its windows upwards; its first is 1. */
static bool take_window(struct remote* r, const cJSON* body, struct api_error* e) {
	double window = (double)(r->window ? r->window : 1);
	int size = r->size;
	if (body && (!api_number(body, "window", 1, 0x1p53, true, &window, e) ||
	             !api_int(body, "size", 1, 4096, &size, e)))
		return false;
	if (r->window && window < (double)r->window)
		return api_refuse(e, "window", "invalid_value",
		                  "'window' must not be smaller than the last one, %lld.", (long long)r->window);
	if ((int64_t)window != r->window || size != r->size) {
		r->window = (int64_t)window;
		r->size = size;
		r->n_given = 0;
		search_window(r->search, r->window, r->size);
	}
	return true;
}

static bool answer_proposal(struct asked* a) {
	static const char* const kind[] = {"start", "rescore", "random", "bayes"};
	struct remote* r = a->of;
	if ((a->body && !api_only(a->body, "window size", a->error)) || !take_window(r, a->body, a->error))
		return false;
	struct proposal p;
	if (!search_propose(r->search, &p)) {
		text_json(&a->out, "{'done': true, 'state': '%s'}\n", search_state_name(search_state(r->search)));
		return true;
	}
	if (r->n_given == OUTSTANDING)
		memmove(r->given, r->given + 1, (size_t)--r->n_given * sizeof *r->given);
	r->given[r->n_given++] = p;
	text_json(&a->out, "{'done': false, 'step': %d, 'kind': '%s', ", p.step, kind[p.kind]);
	mask_put_blocks(&a->out, &p.mask);
	text_json(&a->out, ", 'window': %l, 'size': %d}\n", r->window, r->size);
	return true;
}

static void take_report(struct remote* r, const struct mask* mask, int matches, int rows, int64_t window) {
	/* the client's own mask, or one of an earlier window, is no step */
	struct proposal p = {.kind = PROPOSAL_RESCORE, .mask = *mask};
	for (int i = 0; i < r->n_given; i++)
		if (window == r->window && mask_equal(&r->given[i].mask, mask)) {
			p = r->given[i];
			memmove(r->given + i, r->given + i + 1, (size_t)(--r->n_given - i) * sizeof *r->given);
			break;
		}
	search_observe(r->search, &p, matches, rows);
}

static bool take_observation(struct asked* a) {
	struct remote* r = a->of;
	struct api_error* e = a->error;
	struct mask mask;
	int matches = -1, rows = -1;
	double window = (double)r->window;
	if (!api_only(a->body, "attention mlp matches rows window distance", e) ||
	    !api_mask(a->body, r->blocks, false, &mask, e) || !api_int(a->body, "rows", 1, r->size, &rows, e) ||
	    !api_int(a->body, "matches", 0, rows > 0 ? rows : 0, &matches, e) ||
	    !api_number(a->body, "window", 0, 0x1p53, true, &window, e))
		return false;
	if (rows < 0 || matches < 0)
		return api_refuse(e, rows < 0 ? "rows" : "matches", "missing_required_parameter", "'%s' is required.",
		                  rows < 0 ? "rows" : "matches");
	if (r->window == 0)
		return api_refuse(e, "window", "invalid_value", "No window is open: ask for a proposal first.");
	take_report(r, &mask, matches, rows, (int64_t)window);
	text_json(&a->out, "{'state': '%s', 'steps': %d, 'best': ", search_state_name(search_state(r->search)),
	          search_steps(r->search));
	put_best(&a->out, r);
	text_put(&a->out, "}\n");
	return true;
}

static bool answer_best(struct asked* a) {
	put_best(&a->out, a->of);
	text_put(&a->out, "\n");
	return true;
}

static bool remove_one(struct asked* a) {
	search_close(a->of->search);
	a->of->search = NULL;
	text_json(&a->out, "{'id': '%s', 'deleted': true}\n", a->of->id);
	return true;
}

static bool list_optimizers(struct asked* a) {
	text_json(&a->out, "{'object': 'list', 'data': [");
	const char* separator = "";
	for (int i = 0; i < SERVICE_SEARCHES; i++) {
		const struct remote* r = &a->service->remote[i];
		if (!may_see(a, r))
			continue;
		text_json(&a->out, "%s{'id': '%s', 'model': %q, 'blocks': %d, 'steps': %d}", separator, r->id,
		          r->model, r->blocks, search_steps(r->search));
		separator = ", ";
	}
	text_put(&a->out, "]}\n");
	return true;
}

/* ---- the door ----------------------------------------------------------------------------- */

static const struct optimizer_request {
	const char *method, *verb; /* NULL: of no search */
	bool (*answer)(struct asked*);
	enum { NO_BODY, MAY_HAVE_BODY, BODY } body;
} requests[] = {{"GET", NULL, list_optimizers, NO_BODY},
                {"POST", NULL, create_optimizer, BODY},
                {"POST", "propose", answer_proposal, MAY_HAVE_BODY},
                {"POST", "observe", take_observation, BODY},
                {"GET", "", answer_best, NO_BODY},
                {"GET", "best", answer_best, NO_BODY},
                {"DELETE", "", remove_one, NO_BODY}};

static const struct optimizer_request* find_request(const char* method, const char* verb) {
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		const char* known = requests[i].verb;
		if (strcmp(method, requests[i].method) == 0 &&
		    (verb && known ? strcmp(verb, known) == 0 : !verb && !known))
			return &requests[i];
	}
	return NULL;
}

bool answer_optimizer(struct http_call* c) {
	const size_t n = c->rest ? strcspn(c->rest, "/") : 0;
	const char* verb = !c->rest ? NULL : c->rest[n] ? c->rest + n + 1 : "";
	const struct optimizer_request* q = find_request(c->route->method, verb);
	if (c->rest && n == 0)
		return api_fail(&c->error, 404, "not_found",
		                "No optimizer has this id: GET /v1/swiftlet/optimizer lists them.");
	if (!q)
		return api_fail(
		    &c->error, 404, "not_found",
		    "No endpoint of an optimizer has this path and method: use propose, observe or best.");
	const bool reads = q->body == BODY || (q->body == MAY_HAVE_BODY && c->body.size);
	cJSON* body = reads ? api_parse(c->body.data, c->body.size, &c->error) : NULL;
	struct asked a = {.call = c, .service = c->server->optimizer, .body = body, .error = &c->error};
	pthread_mutex_lock(&a.service->lock);
	const bool good = (body || !reads) && (!c->rest || find_optimizer(&a, c->rest, n)) && q->answer(&a);
	pthread_mutex_unlock(&a.service->lock);
	cJSON_Delete(body);
	if (good)
		return call_reply_json(c, &a.out);
	text_free(&a.out);
	return false;
}
