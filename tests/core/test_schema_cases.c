/* Schemas that others wrote, with a text each and what is right to do with it: SWIFTLET_SHARED's
 * cases/schemas.jsonl; generated_schemas.jsonl, as pydantic, zod-to-json-schema, zod and TypeBox write them
 * and OpenAI and Anthropic document them; or the file that is named on the command line. Counted by the kind
 * of fault: right, wrong (an invalid text taken, or a valid one not), and schemas that are refused when they
 * are compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/grammar/states.h"

enum { GENERATED = 359, SKIPPED = 77, MAX_FAULTS = 16 };

enum outcome { RIGHT, INVALID_TAKEN, VALID_NOT_TAKEN, REFUSED, OUTCOMES };

struct fault {
	char name[32];
	int count[OUTCOMES];
};

/* At least as many of a fault's cases are right, also where schemas are read literally. */
static const struct {
	const char* name;
	int right, literally;
} at_least[] = {{"WRONG", 9, 9},
                {"WRONG-format", 208, 208},
                {"REFUSED", 99, 100},
                {"TIGHT", 86, 89},
                {"GENERATED", GENERATED, GENERATED}};

static bool takes(const struct grammar* grammar, const char* text) {
	struct states* states = states_open(grammar);
	int at = states ? states_start(states) : STATE_DEAD;
	for (const char* c = text; *c; c++)
		at = states_step(states, at, (uint8_t)*c);
	const bool good = at != STATE_DEAD && states_ends(states, at);
	states_close(states);
	return good;
}

/* A case without a text is right where the schema compiles. */
static enum outcome outcome_of(const cJSON* one, bool literal, struct error* error) {
	const cJSON *text = json_field(one, "text"), *right = json_field(one, "right");
	char* schema = json_print(cJSON_GetObjectItemCaseSensitive(one, "schema"));
	struct grammar* grammar =
	    schema ? grammar_from_json_schema(schema, strlen(schema), literal, error) : NULL;
	enum outcome outcome = REFUSED;
	if (grammar) {
		const bool valid = cJSON_IsString(right) && strncmp(right->valuestring, "accepted", 8) == 0;
		const bool taken = !cJSON_IsString(text) || takes(grammar, text->valuestring);
		outcome = taken == valid ? RIGHT : taken ? INVALID_TAKEN : VALID_NOT_TAKEN;
	}
	grammar_free(grammar);
	free(schema);
	return outcome;
}

static struct fault* fault_of(struct fault* fault, int* n, const char* name) {
	for (int i = 0; i < *n; i++)
		if (strcmp(fault[i].name, name) == 0)
			return &fault[i];
	if (*n == MAX_FAULTS)
		return &fault[0];
	snprintf(fault[*n].name, sizeof fault[*n].name, "%s", name);
	return &fault[(*n)++];
}

static int run(FILE* file, bool literal, bool verbose) {
	static const char* const reported[] = {"right", "INVALID TAKEN", "not taken", "refused"};
	struct fault fault[MAX_FAULTS] = {0};
	int n = 0, failed = 0;
	char* line = NULL;
	size_t capacity = 0;
	ssize_t size;
	while ((size = getline(&line, &capacity, file)) >= 0) {
		struct error error = {""};
		cJSON* one = json_parse(line, (size_t)size, "the cases", &error);
		const cJSON* name = json_field(one, "fault");
		if (!cJSON_IsString(name)) {
			fprintf(stderr, "a line is no case: %s\n", error.message);
			failed = 1;
		} else {
			const enum outcome outcome = outcome_of(one, literal, &error);
			fault_of(fault, &n, name->valuestring)->count[outcome]++;
			if (verbose && outcome != RIGHT)
				printf("%s: %.*s%s\n", reported[outcome], (int)size, line, error.message);
		}
		cJSON_Delete(one);
	}
	free(line);
	for (int i = 0; i < n; i++)
		printf("%-14s right %d, invalid taken %d, valid not taken %d, refused %d\n", fault[i].name,
		       fault[i].count[RIGHT], fault[i].count[INVALID_TAKEN], fault[i].count[VALID_NOT_TAKEN],
		       fault[i].count[REFUSED]);
	for (int i = 0; i < n; i++)
		failed |= fault[i].count[INVALID_TAKEN] > 0;
	for (size_t i = 0; i < sizeof at_least / sizeof *at_least; i++)
		for (int j = 0; j < n; j++)
			if (strcmp(fault[j].name, at_least[i].name) == 0) {
				const int least = literal ? at_least[i].literally : at_least[i].right;
				if (fault[j].count[RIGHT] >= least)
					continue;
				printf("%s: %d are right, of at least %d\n", fault[j].name, fault[j].count[RIGHT], least);
				failed = 1;
			}
	return failed;
}

/* The file's cases, as schemas are read by default and literally. */
static int run_both(const char* path, bool verbose) {
	FILE* file = fopen(path, "r");
	if (!file) {
		printf("skipped: %s is missing\n", path);
		return SKIPPED;
	}
	int failed = run(file, false, verbose);
	rewind(file);
	printf("Read literally:\n");
	failed |= run(file, true, verbose);
	fclose(file);
	return failed;
}

int main(int argc, char** argv) {
	const char *shared = getenv("SWIFTLET_SHARED"), *source = getenv("SWIFTLET_SOURCE");
	char path[4096];
	if (argc > 1)
		return run_both(argv[1], argc > 2);
	snprintf(path, sizeof path, "%s/tests/core/generated_schemas.jsonl", source ? source : "..");
	if (run_both(path, true) != 0)
		return 1;
	snprintf(path, sizeof path, "%s/cases/schemas.jsonl", shared ? shared : "../shared");
	return run_both(path, false);
}
