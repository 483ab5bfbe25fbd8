/* Fields that OpenAI has and we have not: taken at the value that changes nothing, refused at any other. */
#include "streams/service/openai_fields.h"

#include <math.h>
#include <string.h>

/* ---- what we do not have ------------------------------------------------------------------ */

static bool refuse_unsupported(struct reading* r, const char* name, const char* only) {
	return api_refuse(r->error, name, "unsupported_field", "'%s' is not supported%s.", name, only);
}

bool want_empty(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	if (!v || ((cJSON_IsObject(v) || cJSON_IsArray(v)) && !v->child))
		return true;
	return refuse_unsupported(r, name, "");
}
/* Of what a server may heed: whatever it says, the text is the same. */
bool is_hint(struct reading* r, const char* name) {
	(void)r, (void)name;
	return true;
}
bool want_nothing(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	return !v || (cJSON_IsString(v) && !v->valuestring[0]) || refuse_unsupported(r, name, "");
}
bool want_best_of(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	if (!v || (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= 1) ||
	    (cJSON_IsNumber(v) && fabs(v->valuedouble - r->to->n) < 0.5))
		return true;
	return refuse_unsupported(r, name, " but for the value of 'n'");
}
bool want_string(struct reading* r, const char* name) {
	const char* ignored = NULL;
	return api_string(r->body, name, 1 << 16, &ignored, r->error);
}
bool want_word(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	if (!v || (cJSON_IsString(v) && (!strcmp(v->valuestring, "auto") || !strcmp(v->valuestring, "default") ||
	                                 !strcmp(v->valuestring, "none"))))
		return true;
	return refuse_unsupported(r, name, " but for \"auto\" or \"none\"");
}
bool want_text_only(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	if (!v || (cJSON_IsArray(v) && v->child && !v->child->next && cJSON_IsString(v->child) &&
	           strcmp(v->child->valuestring, "text") == 0))
		return true;
	return refuse_unsupported(r, name, " but for [\"text\"]");
}
