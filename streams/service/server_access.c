/* Access control: API keys, browser origins and request rates. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "streams/service/server_internal.h"

/* ---- keys --------------------------------------------------------------------------------- */

/* Takes a time that depends on the longer length alone, and not on where two keys differ. */
static bool equal_in_constant_time(const char* given, size_t n, const char* key) {
	const size_t m = strlen(key);
	volatile unsigned char differs = n != m;
	for (size_t i = 0; i < 256; i++) {
		const unsigned char a = i < n ? (unsigned char)given[i] : 0;
		const unsigned char b = i < m ? (unsigned char)key[i] : 0;
		differs = (unsigned char)(differs | (a ^ b));
	}
	return !differs;
}

/* The key's number from 1; 0: unknown. */
static int key_number(const struct server* s, const char* given, size_t n) {
	int found = 0;
	for (int i = 0; i < s->n_keys; i++)
		found += equal_in_constant_time(given, n, s->key[i].text) ? i + 1 - found : 0;
	return found;
}

static int base64_digit(char c) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char* at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* The password of "Basic …", which a browser sends for the page. */
static int basic_key(const struct server* s, const char* text) {
	char out[600];
	size_t n = 0;
	unsigned bits = 0, held = 0;
	for (; *text && base64_digit(*text) >= 0 && n < sizeof out; text++) {
		bits = (bits << 6 | (unsigned)base64_digit(*text)) & 0xffffff;
		held += 6;
		if (held >= 8) {
			held -= 8;
			out[n++] = (char)(bits >> held & 0xff);
		}
	}
	const char* colon = memchr(out, ':', n);
	return colon ? key_number(s, colon + 1, n - (size_t)(colon + 1 - out)) : 0;
}

static int key_of(const struct http_call* c) {
	const struct server* s = c->server;
	const char* value = call_header(c, "Authorization");
	if (value && strncasecmp(value, "Bearer ", 7) == 0)
		return key_number(s, value + 7, strlen(value + 7));
	if (value && strncasecmp(value, "Basic ", 6) == 0)
		return basic_key(s, value + 6);
	const char* other = call_header(c, "X-Api-Key"); /* as Anthropic's clients send it */
	return other ? key_number(s, other, strlen(other)) : 0;
}

bool call_authorized(struct http_call* c) {
	const struct server* s = c->server;
	const int number = key_of(c);
	c->tenant = number ? s->key[number - 1].tenant : 0;
	c->admin = s->n_keys == 0 || (number && s->key[number - 1].admin);
	return s->n_keys == 0 || number > 0;
}

/* ---- keys from a file --------------------------------------------------------------------- */

/* The tenant of a group's keys, or of a single key without a group (group NULL). */
static int find_tenant(struct server* s, const char* key, const char* group) {
	char words[SERVER_GROUP + 8]; /* no key: none has a blank */
	char name[PROMPT_CACHE_NAME];
	snprintf(words, sizeof words, "group %s", group ? group : "");
	prompt_cache_tenant(group ? words : key, name);
	for (int tenant = 1; tenant <= s->n_tenants; tenant++)
		if (strcmp(s->tenant_name[tenant], name) == 0)
			return tenant;
	strcpy(s->tenant_name[++s->n_tenants], name);
	return s->n_tenants;
}

/* group=NAME, or admin */
static bool read_word(const char* word, const char** group, bool* admin) {
	const size_t n = strlen("group=");
	if (strcmp(word, "admin") == 0)
		return *admin = true;
	if (*group || strncmp(word, "group=", n) != 0 || !word[n] || strlen(word + n) >= SERVER_GROUP)
		return false;
	*group = word + n;
	return true;
}

static const char blank[] = " \t\r\n\v\f";

/* where: the option or the line, for messages; group NULL: none */
static bool add_key(struct server* s, const char* key, const char* group, bool admin, const char* where,
                    struct error* e) {
	if (strlen(key) < 8 || strlen(key) >= sizeof s->key[0].text)
		return error_set(e, "%s: a key of %zu bytes, expected 8 to 255", where, strlen(key));
	if (key_number(s, key, strlen(key)))
		return error_set(e, "%s: this key is listed twice; delete one", where);
	if (s->n_keys == SERVER_KEYS)
		return error_set(e, "%s: more than %d keys; the server takes no more", where, SERVER_KEYS);
	struct server_key* added = &s->key[s->n_keys++];
	*added = (struct server_key){.tenant = find_tenant(s, key, group), .admin = admin};
	strcpy(added->text, key);
	return true;
}

static bool read_line(struct server* s, char* line, const char* where, struct error* e) {
	char* rest;
	char* const key = strtok_r(line, blank, &rest);
	const char* group = NULL;
	bool admin = false;
	if (!key || *key == '#')
		return true;
	for (const char* word; (word = strtok_r(NULL, blank, &rest));)
		if (!read_word(word, &group, &admin))
			return error_set(e, "%s: after the key, expected group=NAME (of up to %d bytes) or admin", where,
			                 SERVER_GROUP - 1);
	return add_key(s, key, group, admin, where, e);
}

/* A single tenant is the operator. */
static void name_admins(struct server* s) {
	bool any = s->n_tenants != 1;
	for (int i = 0; i < s->n_keys; i++)
		any |= s->key[i].admin;
	for (int i = 0; i < s->n_keys && !any; i++)
		s->key[i].admin = true;
}

static bool read_key_file(struct server* s, const char* path, struct error* e) {
	FILE* f = fopen(path, "r");
	if (!f)
		return error_set(e, "%s: %s", path, strerror(errno));
	char line[1024], where[4200];
	const int before = s->n_keys;
	bool good = true;
	for (int number = 1; good && fgets(line, sizeof line, f); number++) {
		snprintf(where, sizeof where, "%s, line %d", path, number);
		good = strlen(line) < sizeof line - 1 || line[sizeof line - 2] == '\n'
		           ? read_line(s, line, where, e)
		           : error_set(e, "%s: longer than %zu bytes", where, sizeof line - 2);
	}
	if (ferror(f)) /* a folder opens, too */
		good = error_set(e, "%s: %s", path, strerror(errno));
	fclose(f);
	return good && (s->n_keys > before || error_set(e, "%s holds no key: put one key on each line", path));
}

static bool read_key(struct server* s, const char* key, struct error* e) {
	if (key[strcspn(key, blank)])
		return error_set(e,
		                 "--api-key: a key has no blanks; group=NAME and admin follow a key in the file of "
		                 "--api-key-file");
	return add_key(s, key, NULL, false, "--api-key", e);
}

bool server_read_keys(struct server* s, struct error* e) {
	const struct server_options* o = &s->option;
	prompt_cache_tenant("", s->tenant_name[0]);
	if (!o->key_file && !o->key)
		return s->loopback ||
		       error_set(
		           e,
		           "--host %s can be reached from other machines: give keys with --api-key-file or --api-key",
		           o->host);
	if ((o->key && !read_key(s, o->key, e)) || (o->key_file && !read_key_file(s, o->key_file, e)))
		return false;
	name_admins(s);
	return true;
}

/* ---- origins ------------------------------------------------------------------------------ */

/* Checks a host such as "[::1]:80" or "localhost:80"; the port is ignored. */
static bool names_loopback(const char* host) {
	char name[64];
	const bool bracket = host[0] == '[';
	const size_t n = strcspn(host + bracket, bracket ? "]" : ":");
	if (n == 0 || n >= sizeof name || (bracket && host[1 + n] != ']'))
		return false;
	snprintf(name, sizeof name, "%.*s", (int)n, host + bracket);
	return server_is_loopback(name);
}

static bool host_allowed(const struct http_call* c) {
	const char* host = call_header(c, "Host");
	return !c->server->loopback || c->server->n_keys > 0 || !host || names_loopback(host);
}

/* True for a page of this machine, on any port: http://localhost:3000. */
static bool is_local(const char* origin) {
	const char* host = strstr(origin, "://");
	return host && (strncmp(origin, "http://", 7) == 0 || strncmp(origin, "https://", 8) == 0) &&
	       names_loopback(host + 3);
}

bool call_cors_allowed(const struct http_call* c) {
	const struct server_options* o = &c->server->option;
	const char* origin = call_header(c, "Origin");
	bool allowed = false;
	for (int i = 0; i < o->n_cors && origin; i++)
		allowed |= strcmp(o->cors[i], "*") == 0 || strcasecmp(o->cors[i], origin) == 0 ||
		           (strcmp(o->cors[i], "localhost") == 0 && is_local(origin));
	return allowed;
}

/* Without keys, other sites' pages could reach the server through this machine's browsers: by a name that
 * resolves to this machine (seen in the Host header), or by a plain form post (seen in the Origin header). */
bool call_origin_allowed(struct http_call* c) {
	const char* host = call_header(c, "Host");
	const char* origin = call_header(c, "Origin");
	if (!host_allowed(c))
		return api_fail(
		    &c->error, 403, "host_not_allowed",
		    "The Host header '%.100s' is not this machine's. Without an --api-key-file this server "
		    "answers to localhost alone: give it keys, or let the proxy set Host: localhost.",
		    host);
	if (!origin || call_cors_allowed(c))
		return true;
	/* a page of this host that came by another scheme counts as foreign, because someone on the way may have
	 * made it */
	const char* scheme = call_header(c, "X-Forwarded-Proto");
	const size_t n = scheme ? strlen(scheme) : strlen(scheme = "http");
	return (host && strncasecmp(origin, scheme, n) == 0 && strncmp(origin + n, "://", 3) == 0 &&
	        strcasecmp(origin + n + 3, host) == 0) ||
	       api_fail(
	           &c->error, 403, "origin_not_allowed",
	           "Requests from the origin '%.100s' are not allowed; serve with --cors %.100s to allow them.",
	           origin, origin);
}

/* ---- rates -------------------------------------------------------------------------------- */

static enum MHD_Result take_forwarded(void* last, enum MHD_ValueKind kind, const char* name,
                                      const char* value) {
	(void)kind;
	if (value && strcasecmp(name, "X-Forwarded-For") == 0)
		*(const char**)last = value;
	return MHD_YES;
}

/* The address that the nearest proxy saw: the last one in the last X-Forwarded-For, whether it was added to
 * the header's line or as a line of its own. The text before it is as the client wrote it. False: there is
 * none. */
static bool forwarded_address(const struct http_call* c, uint8_t out[16]) {
	const char* list = NULL;
	MHD_get_connection_values(c->connection, MHD_HEADER_KIND, take_forwarded, (void*)&list);
	const char* const comma = list ? strrchr(list, ',') : NULL;
	char word[64];
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	list = comma ? comma + 1 : list;
	list = list ? list + strspn(list, " \t[") : "";
	snprintf(word, sizeof word, "%.*s", (int)strcspn(list, " \t]"), list);
	char* const port = strchr(word, ':');
	if (port && strchr(word, '.') && !strchr(port + 1, ':'))
		*port = 0;
	if (inet_pton(AF_INET, word, &four.sin_addr) == 1)
		gate_address((const struct sockaddr*)(const void*)&four, out);
	else if (inet_pton(AF_INET6, word, &six.sin6_addr) == 1)
		gate_address((const struct sockaddr*)(const void*)&six, out);
	else
		return false;
	return true;
}

/* True when a proxy on this machine speaks for the client; the client's address replaces the proxy's. */
static bool client_address(const struct http_call* c, uint8_t out[16]) {
	static const uint8_t own[16];
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	memset(out, 0, 16);
	if (info)
		gate_address(info->client_addr, out);
	return c->server->option.forwarded && memcmp(out, own, 16) == 0 && forwarded_address(c, out);
}

/* The client's entry, or the entry that was silent the longest and has no running request. NULL: all have
 * one. */
static struct rate_client* find_client(struct server* s, const uint8_t address[16]) {
	struct rate_client* silent = NULL;
	for (struct rate_client* r = s->rate; r < s->rate + RATE_CLIENTS; r++)
		if (r->at > 0 && memcmp(r->address, address, 16) == 0)
			return r;
		else if (r->running == 0 && (!silent || r->at < silent->at))
			silent = r;
	if (silent) {
		*silent = (struct rate_client){.tokens = s->option.rate, .at = seconds_now()};
		memcpy(silent->address, address, 16);
	}
	return silent;
}

static bool take_token(struct rate_client* client, double most) {
	const double now = seconds_now();
	client->tokens = fmin(most, client->tokens + (now - client->at) * most / 60);
	client->at = now;
	if (client->tokens < 1)
		return false;
	client->tokens -= 1;
	return true;
}

bool call_enter(struct http_call* c) {
	struct server* s = c->server;
	const struct server_options* o = &s->option;
	uint8_t address[16];
	const bool counted = client_address(c, address) && o->address_connections > 0;
	if (o->rate <= 0 && !counted)
		return true;
	pthread_mutex_lock(&s->rate_lock);
	struct rate_client* client = find_client(s, address);
	const bool fits = !client || !counted || client->running < o->address_connections;
	const bool paced = !client || !fits || o->rate <= 0 || take_token(client, o->rate);
	if (client && counted && fits && paced) {
		client->at = seconds_now();
		client->running++;
		c->client = client;
	}
	pthread_mutex_unlock(&s->rate_lock);
	if (!fits)
		return api_fail(&c->error, 429, "too_many_connections",
		                "More than %d requests from this address are running: wait until one has ended.",
		                o->address_connections);
	return paced ||
	       api_fail(&c->error, 429, "rate_limit_exceeded",
	                "More than %d requests a minute came from this client: try again later.", o->rate);
}

void call_leave(struct http_call* c) {
	if (!c->client)
		return;
	pthread_mutex_lock(&c->server->rate_lock);
	c->client->running--;
	c->client = NULL;
	pthread_mutex_unlock(&c->server->rate_lock);
}
