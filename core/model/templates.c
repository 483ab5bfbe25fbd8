/* The chat templates of a model: the default, others by name, or one that the user gives. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf.h"
#include "core/files/grow.h"
#include "core/files/json.h"
#include "core/files/mapping.h"
#include "core/model/model.h"

static bool set_template(char** to, const char* text, size_t size, struct error* error) {
	free(*to);
	*to = strndup(text, size);
	return *to || error_set(error, "out of memory");
}

/* One called "default" is the model's own. */
static bool keep_template(struct model* model, const char* name, size_t name_size, const char* text,
                          size_t size, struct error* error) {
	if (name_size == 7 && memcmp(name, "default", 7) == 0)
		return set_template(&model->chat_template, text, size, error);
	if (!grow_by_one(&model->named_template, (size_t)model->n_named_templates, sizeof *model->named_template))
		return error_set(error, "out of memory");
	struct named_template* const entry = &model->named_template[model->n_named_templates++];
	*entry = (struct named_template){0};
	return set_template(&entry->name, name, name_size, error) &&
	       set_template(&entry->text, text, size, error);
}

void model_free_templates(struct model* model) {
	for (int i = 0; i < model->n_named_templates; i++) {
		free(model->named_template[i].name);
		free(model->named_template[i].text);
	}
	free(model->named_template);
	model->named_template = NULL;
	model->n_named_templates = 0;
	free(model->chat_template);
	model->chat_template = NULL;
}

/* ---- folders ------------------------------------------------------------------------------ */

static bool keep_file(struct model* model, const char* name, size_t name_size, const char* path,
                      struct error* error) {
	struct mapping text;
	if (!mapping_open(&text, path, error))
		return false;
	const bool good = keep_template(model, name, name_size, (const char*)text.data, text.size, error);
	mapping_close(&text);
	return good;
}

/* In tokenizer_config.json, chat_template is a text or a list of {"name", "template"}. */
static bool read_config(struct model* model, const char* path, struct error* error) {
	cJSON* const json = json_read(path, error);
	if (!json)
		return false;
	const cJSON* const value = json_field(json, "chat_template");
	bool good = true;
	if (cJSON_IsString(value))
		good = set_template(&model->chat_template, value->valuestring, strlen(value->valuestring), error);
	for (const cJSON* one = cJSON_IsArray(value) ? value->child : NULL; one && good; one = one->next) {
		const cJSON *const name = json_field(one, "name"), *const text = json_field(one, "template");
		if (cJSON_IsString(name) && cJSON_IsString(text))
			good = keep_template(model, name->valuestring, strlen(name->valuestring), text->valuestring,
			                     strlen(text->valuestring), error);
	}
	cJSON_Delete(json);
	return good;
}

static int by_name(const struct dirent** a, const struct dirent** b) {
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* additional_chat_templates/NAME.jinja. */
static bool read_additional(struct model* model, const char* folder, struct error* error) {
	static const char suffix[] = ".jinja";
	struct dirent** entry = NULL;
	bool good = true;
	const int n = scandir(folder, &entry, NULL, by_name);
	for (int i = 0; i < n; i++) {
		char path[2048];
		const char* const name = entry[i]->d_name;
		const size_t size = strlen(name), end = sizeof suffix - 1;
		const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
		if (good && size > end && strcmp(name + size - end, suffix) == 0 && length < (int)sizeof path)
			good = keep_file(model, name, size - end, path, error);
		free(entry[i]);
	}
	free(entry);
	return good;
}

bool model_read_templates(struct model* model, const char* folder, struct error* error) {
	char path[1600];
	snprintf(path, sizeof path, "%.1500s/tokenizer_config.json", folder);
	if (file_exists(path) && !read_config(model, path, error))
		return false;
	snprintf(path, sizeof path, "%.1500s/chat_template.jinja", folder);
	if (file_exists(path) && !keep_file(model, "default", 7, path, error))
		return false;
	snprintf(path, sizeof path, "%.1500s/additional_chat_templates", folder);
	return read_additional(model, path, error);
}

/* ---- GGUF --------------------------------------------------------------------------------- */

bool model_read_gguf_templates(struct model* model, const struct gguf* gguf, struct error* error) {
	static const char prefix[] = "tokenizer.chat_template";
	const size_t n = sizeof prefix - 1;
	const char* own = NULL;
	size_t own_size = 0;
	if (!gguf_string(gguf, prefix, &own, &own_size, error) ||
	    (own && !set_template(&model->chat_template, own, own_size, error)))
		return false;
	for (size_t i = 0; i < gguf->n; i++) {
		const struct gguf_value* const v = &gguf->value[i];
		if (v->key_size < n + 2 || memcmp(v->key, prefix, n) != 0 || v->key[n] != '.' ||
		    v->type != GGUF_STRING)
			continue;
		uint64_t size;
		memcpy(&size, v->data, sizeof size);
		const char* const text = (const char*)v->data + sizeof size;
		if (!keep_template(model, v->key + n + 1, v->key_size - n - 1, text, (size_t)size, error))
			return false;
	}
	return true;
}

/* ---- choosing ----------------------------------------------------------------------------- */

static const char* find_template(const struct model* model, const char* name) {
	for (int i = 0; i < model->n_named_templates; i++)
		if (strcmp(model->named_template[i].name, name) == 0)
			return model->named_template[i].text;
	return NULL;
}

const char* model_chat_template(const struct model* model, bool tools) {
	const char* const with_tools = tools ? find_template(model, "tool_use") : NULL;
	return with_tools ? with_tools : model->chat_template;
}

static bool refuse_unknown(const struct model* model, const char* spec, struct error* error) {
	char names[200] = "none";
	for (int i = 0, at = 0; i < model->n_named_templates && at < (int)sizeof names; i++)
		at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "",
		               model->named_template[i].name);
	return error_set(error,
	                 "--chat-template %.200s: no such file, and no template of that name (the model has: %s)",
	                 spec, names);
}

bool model_take_template(struct model* model, const char* spec, struct error* error) {
	const char* const named =
	    strcmp(spec, "default") == 0 ? model->chat_template : find_template(model, spec);
	char* text = named ? strdup(named) : NULL;
	if (!named) {
		struct mapping file;
		if (!file_exists(spec))
			return refuse_unknown(model, spec, error);
		if (!mapping_open(&file, spec, error))
			return false;
		text = strndup((const char*)file.data, file.size);
		mapping_close(&file);
	}
	if (!text)
		return error_set(error, "out of memory");
	model_free_templates(model);
	model->chat_template = text;
	return true;
}
