/* The interpreter against jinja2, case by case; what a request brought stays separate; what does not end,
 * ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "core/jinja/jinja.h"
#include "support_tokens.h"

static enum jinja_outcome render(const char* source, const char* members, struct jinja_text* out,
                                 struct error* error) {
	const struct jinja_variable variable[] = {{"variables", JINJA_MEMBERS, members, strlen(members)},
	                                          {"own", JINJA_WORDS, "<own>", 5}};
	const struct jinja_call call = {.source = source,
	                                .size = strlen(source),
	                                .variable = variable,
	                                .n_variables = 2,
	                                .now = 1753500000,
	                                .trusted_member = "role",
	                                .trusted_words = "user"};
	return jinja_render(&call, out, error);
}

/* ---- against jinja2 ----------------------------------------------------------------------- */

static const char* field(const cJSON* object, const char* name) {
	const cJSON* const item = cJSON_GetObjectItem(object, name);
	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static int differs(const cJSON* one, const char* members) {
	struct jinja_text text;
	struct error error = {""};
	const char *const source = field(one, "template"), *const want = field(one, "text");
	const enum jinja_outcome outcome = render(source, members, &text, &error);
	const bool same =
	    want ? outcome == JINJA_DONE && text.size == strlen(want) && memcmp(text.data, want, text.size) == 0
	         : outcome != JINJA_DONE;
	if (!same)
		print_message("%s\n  got    %s\n  wanted %s\n", source,
		              outcome == JINJA_DONE ? text.data : error.message, want ? want : field(one, "refused"));
	if (outcome == JINJA_DONE)
		jinja_text_free(&text);
	return !same;
}

static void equals_jinja2(void** state) {
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	struct file_bytes file = read_source("tests/core/golden/jinja_cases.json");
	cJSON* const golden = cJSON_ParseWithLength(file.data, file.size);
	assert_non_null(golden);
	const cJSON *const cases = cJSON_GetObjectItem(golden, "cases"), *one;
	int wrong = 0;
	cJSON_ArrayForEach (one, cases)
		wrong += differs(one, field(golden, "variables"));
	print_message("%d cases\n", cJSON_GetArraySize(cases));
	assert_int_equal(wrong, 0);
	assert_true(cJSON_GetArraySize(cases) >= 130);
	cJSON_Delete(golden);
	free(file.data);
}

/* ---- marks -------------------------------------------------------------------------------- */

/* The text with what the request brought between ⟨ and ⟩, written as < and >. */
static void marked(const char* source, const char* want) {
	static const char members[] =
	    "{\"m\": {\"role\": \"user\", \"text\": \"abc def\", \"n\": 5, \"other\": \"robot\"},"
	    " \"list\": [\"x\", \"y\"], \"user\": \"user\"}";
	struct jinja_text text;
	struct error error = {""};
	char got[512];
	size_t n = 0, span = 0;
	if (render(source, members, &text, &error) != JINJA_DONE)
		fail_msg("%s: %s", source, error.message);
	for (size_t i = 0; i <= text.size; i++) {
		if (span < text.n_foreign && text.foreign[span].end == i) {
			got[n++] = '>';
			span++;
		}
		if (span < text.n_foreign && text.foreign[span].start == i)
			got[n++] = '<';
		got[n++] = text.data[i];
	}
	assert_string_equal(got, want);
	jinja_text_free(&text);
}

static void foreign_text_stays_marked(void** state) {
	(void)state;
	marked("a{{ m.text }}b", "a<abc def>b");
	marked("{{ 'a' + m.text ~ 'b' }}{{ m.text }}", "a<abc def>b<abc def>");
	marked("{{ ('[' + m.text + ']')[1:5] }}", "<abc >");
	marked("{{ ('[' + m.text + ']')[::-1] }}", "]<fed cba>[");
	marked("{{ m.text|upper }}{{ ('x' ~ m.text)|title }}{{ m.text.capitalize() }}",
	       "<ABC DEF>X<abc DefAbc def>");
	marked("{{ ('-' ~ m.text ~ '-').split(' ')|join('+') }}", "-<abc>+<def>-");
	marked("{{ m.text.replace('c', 'X') }}{{ 'a-b'.replace('-', m.text) }}", "<ab>X< def>a<abc def>b");
	marked("{{ (' ' ~ m.text ~ ' ')|trim }}", "<abc def>");
	marked("{{ m|tojson }}",
	       "{\"<role>\": \"user\", \"<text>\": \"<abc def>\", \"<n>\": 5, \"<other>\": \"<robot>\"}");
	marked("{{ list }}{{ m.text|list|first }}", "['<x>', '<y>']<a>");
	marked("{{ '%s|%s' % (m.text, list[0]) }}{{ '-{}'.format(list[1]) }}", "<abc def>|<x>-<y>");
	marked("{% set x %}({{ m.text }}){% endset %}{{ x }}{{ x|indent(2, true) }}", "(<abc def>)  (<abc def>)");
	marked("{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f(m.text)[1:] }}", "<abc def>>");
	marked("{{ m.role }}{{ m.other }}{{ user }}{{ own }}", "user<robotuser><own>");
	marked("{% for k, v in m.items() %}{{ k }}:{{ v }} {% endfor %}",
	       "<role>:user <text>:<abc def> <n>:5 <other>:<robot> ");
	marked("{{ {'user': '<|user|>'}[m.role] }}{{ {'user': '|'}[user] }}", "<|user|>|");
	marked("{{ ['b', m.text, 'a']|sort|join(',') }}{{ m.text|safe }}{{ m.text|e }}",
	       "a,<abc def>,b<abc defabc def>");
}

/* ---- bounds ------------------------------------------------------------------------------- */

static double seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* other tests run meanwhile */
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fails_soon(const char* source, const char* line, const char* why) {
	struct jinja_text text;
	struct error error = {""};
	const double start = seconds();
	assert_int_equal(render(source, "{}", &text, &error), JINJA_FAILED);
	const double took = seconds() - start;
	if (!strstr(error.message, line) || !strstr(error.message, why))
		fail_msg("%.80s: \"%s\", expected \"%s\" and \"%s\"", source, error.message, line, why);
	print_message("%.3f s  %s\n", took, error.message);
	assert_true(took < 30); /* without bounds these take hours */
}

static char* repeated(const char* text, int n) {
	const size_t size = strlen(text);
	char* const out = calloc(1, size * (size_t)n + 1);
	for (int i = 0; i < n; i++)
		memcpy(out + size * (size_t)i, text, size);
	return out;
}

static void what_does_not_end_ends(void** state) {
	(void)state;
	fails_soon("\n{% for a in range(99999) %}\n{% for b in range(99999) %}{% set x = a * b %}{% endfor %}{% "
	           "endfor %}",
	           "line 3", "steps");
	fails_soon("{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", "line 1", "nests");
	fails_soon("a\n{{ 'x' * 1000000000 }}", "line 2", "writes more than");
	fails_soon("{% set x = 'x' * 20000 %}\n\n{% for a in range(99999) %}{{ x }}{% endfor %}", "line 3",
	           "writes more than");
	fails_soon(
	    "{% set ns = namespace(x='ab') %}\n{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
	    "line 2", "writes more than");
	fails_soon("{% set ns = namespace(x=[1, 2]) %}\n{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
	           "endfor %}",
	           "line 2", "memory");
	fails_soon("{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
	           "%}\n{{ ns.x }}",
	           "line 2", "nests");
	fails_soon("{% set ns = namespace() %}{% set ns.x = ns %}\n{{ ns }}", "line 2", "nests");
	fails_soon("{% set ns = namespace(x='a' * 9999999, y=0) %}\n{% for a in range(99999) %}{% if ns.x == 'a' "
	           "* 9999999 "
	           "%}{% endif %}{% endfor %}",
	           "line 2", "");
	fails_soon("{% for a in range(99999) %}{{ 'a' * 99999 in 'b' }}{{ ('ab' * 9999).split('a')|length }}{% "
	           "endfor %}",
	           "line 1", "");
	/* a tuple nested three hundred thousand deep is not walked down */
	fails_soon(
	    "{% set ns = namespace(x='b') %}{% for a in range(3) %}{% for b in range(99999) %}{% set ns.x = "
	    "('b', ns.x) %}{% endfor %}{% endfor %}\n{{ 'a'.startswith(ns.x) }}",
	    "line 2", "expected a string");
	const char* const nests[] = {"(",  "[", "{{ {1:", "{% if 1 %}", "not ", "- ", "{% for a in b %}",
	                             "a[", "f("};
	for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
		char* const deep = repeated(nests[i], 20000);
		char* const source = calloc(1, strlen(deep) + 8);
		sprintf(source, "%s%s", nests[i][0] == '{' ? "" : "{{ ", deep);
		fails_soon(source, "line 1", "");
		free(source);
		free(deep);
	}
	char* const sum = repeated("1+", 20000);
	char* const source = calloc(1, strlen(sum) + 16);
	sprintf(source, "{{ %s1 }}", sum);
	fails_soon(source, "line 1", "nests");
	free(source);
	free(sum);
}

static void errors_name_what_they_found(void** state) {
	(void)state;
	fails_soon("a\n{% extends 'x' %}", "line 2", "'extends' is not known");
	fails_soon("\n\n{{ a|xmlattr }}", "line 3", "filter 'xmlattr' is not known");
	fails_soon("{{ a is odder }}", "line 1", "test 'odder' is not known");
	fails_soon("\n{% if a %}b", "line 2", "endif");
	fails_soon("\n{{ a", "line 2", "within a tag");
	fails_soon("{{ 'a }}", "line 1", "closing");
	fails_soon("{# a", "line 1", "comment");
	fails_soon("{% raw %}{{ a", "line 1", "raw");
	fails_soon("{{ a) }}", "line 1", "unexpected ')'");
	fails_soon("{% for a in b %}\n{% else if %}", "line 2", "expected %}");
	fails_soon("{% break %}", "line 1", "loop");
	fails_soon("{{ none.a.b }}", "line 1", "has no attribute 'a'");
	fails_soon("{{ 99999999999999999999 }}", "line 1", "64 bits");
	fails_soon("{{ 9223372036854775807 + 1 }}", "line 1", "64 bits");
	fails_soon("{{ 'a'.zfill('b') }}", "line 1", "zfill");
	fails_soon("{{ 'a'|indent(nothing=1) }}", "line 1", "nothing");
	/* Features of Jinja and Python that no known chat template uses. */
	static const char* const unknown[][2] = {
	    {"{{ 'a'|truncate(9) }}", "filter 'truncate' is not known"},
	    {"{{ 'a'|wordcount }}", "filter 'wordcount' is not known"},
	    {"{{ 'a'|urlencode }}", "filter 'urlencode' is not known"},
	    {"{{ 'a'|center(9) }}", "filter 'center' is not known"},
	    {"{{ [1]|urlize(2) }}", "filter 'urlize' is not known"},
	    {"{{ 'a'|forceescape }}", "filter 'forceescape' is not known"},
	    {"{{ 'a'|attr('b') }}", "filter 'attr' is not known"},
	    {"{{ 'a' is filter }}", "test 'filter' is not known"},
	    {"{{ 'a' is escaped }}", "test 'escaped' is not known"},
	    {"{{ 'a'.center(9) }}", "no attribute 'center'"},
	    {"{{ 'a'.swapcase() }}", "no attribute 'swapcase'"},
	    {"{{ '{:,}'.format(1) }}", "the format ',' of a value"},
	    {"{{ '{:.1%}'.format(1) }}", "the format '.1%' of a value"},
	    {"{{ '{:>3}'.format('a') }}", "the format '>3' of a value"},
	    {"{{ '%99999d' % 1 }}", "the format '99999d' of a value"},
	    {"{{ '%x' % -1 }}", "the format 'x' of a value"},
	    {"{{ '%x' % 1.5 }}", "the format 'x' of a value"},
	    {"{{ '%' % 1 }}", "incomplete format"},
	    {"{{ '{!r}'.format(1) }}", "format names '!r'"},
	    {"{{ '{a.b}'.format(a=1) }}", "format names 'a.b'"},
	    {"{{ '%5s' % 'a' }}", "the format '5s' of a value"},
	    {"{{ '%(a)s' % {'a': 1} }}", "the format '(' of a value"},
	    {"{{ '%s'|format(a=1) }}", "arguments by name"},
	    {"{{ 'ff'|int(0, 16) }}", "at most 1 argument"},
	    {"{{ 2.1|round(0, 'up') }}", "common, ceil or floor"},
	    {"{{ 2.1|round(-2) }}", "round of a value"},
	    {"{{ 'a b'.rsplit(none, 1) }}", "rsplit at white space"},
	    {"{% call a() %}{% endcall %}", "'a' is undefined"},
	    {"{% for a in [1] recursive %}{% endfor %}", "'recursive'"},
	    {"{% for a in [1] %}{{ loop(a) }}{% endfor %}", "not callable"},
	    {"{% for a in [1] %}{{ loop.changed(a) }}{% endfor %}", "'changed'"},
	    {"{% macro f() %}{{ varargs }}{% endmacro %}{{ f() }}", "name 'varargs' is not known"},
	    {"{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "name 'caller' is not known"}};
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
		fails_soon(unknown[i][0], "line 1", unknown[i][1]);
}

static void refusals_are_the_templates_words(void** state) {
	(void)state;
	struct jinja_text text;
	struct error error = {""};
	assert_int_equal(render("{{ raise_exception('Only ' + user) }}", "{\"user\": \"users\"}", &text, &error),
	                 JINJA_RAISED);
	assert_string_equal(error.message, "Only users");
}

static void broken_json_is_refused(void** state) {
	(void)state;
	static const char* const broken[] = {"",
	                                     "[1]",
	                                     "{",
	                                     "{\"a\"}",
	                                     "{\"a\": }",
	                                     "{\"a\": 1,}",
	                                     "{\"a\": 1} x",
	                                     "{\"a\": \"\\q\"}",
	                                     "{\"a\": \"\\u12\"}",
	                                     "{\"a\": \"b}",
	                                     "{\"a\": 1e}",
	                                     "{\"a\": 99999999999999999999}",
	                                     "{\"a\": nul}",
	                                     "{1: 2}"};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		struct jinja_text text;
		struct error error = {""};
		assert_int_equal(render("x", broken[i], &text, &error), JINJA_FAILED);
		assert_non_null(strstr(error.message, "variables"));
	}
	char* const deep = repeated("[", 100000);
	char* const members = calloc(1, strlen(deep) + 8);
	sprintf(members, "{\"a\":%s", deep);
	struct jinja_text text;
	struct error error = {""};
	assert_int_equal(render("x", members, &text, &error), JINJA_FAILED);
	assert_non_null(strstr(error.message, "nested"));
	free(deep);
	free(members);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(equals_jinja2),
	                                   cmocka_unit_test(foreign_text_stays_marked),
	                                   cmocka_unit_test(what_does_not_end_ends),
	                                   cmocka_unit_test(errors_name_what_they_found),
	                                   cmocka_unit_test(refusals_are_the_templates_words),
	                                   cmocka_unit_test(broken_json_is_refused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
