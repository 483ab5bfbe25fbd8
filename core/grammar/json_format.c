/* JSON Schema's formats of strings as regular expressions, after their definitions. If no automaton can
 * express a definition, the language is narrower: host names have few labels and no punycode, expressions few
 * groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

/* RFC 3339. Year 0 is left out, because Python, JavaScript and SQL have no such date. */
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE                                                                                                 \
	"(?!0000)([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|"            \
	"30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR_MINUTE "([01][0-9]|2[0-3]):[0-5][0-9]"
#define FRACTION "(\\.[0-9]+)?"

/* A leap second ends a day of UTC: the offset follows from the hour, at whole hours and quarters of one. */
static void add_leap_seconds(char* to, size_t size) {
	for (int hour = 0; hour < 24; hour++) {
		const size_t n = strlen(to);
		snprintf(to + n, size - n,
		         "|%02d:(59:60" FRACTION "(\\+%02d:00|-%02d:00%s)|29:60" FRACTION
		         "(\\+%02d:30|-%02d:30)|14:60" FRACTION "(\\+%02d:15|-%02d:45)|44:60" FRACTION
		         "(\\+%02d:45|-%02d:15))",
		         hour, (hour + 1) % 24, 23 - hour, hour == 23 ? "|[Zz]" : "", hour, 23 - hour, hour,
		         23 - hour, hour, 23 - hour);
	}
}

/* RFC 3339, appendix A. */
#define SECONDS "[0-9]+S"
#define MINUTES "[0-9]+M(" SECONDS ")?"
#define TIMES "T([0-9]+H(" MINUTES ")?|" MINUTES "|" SECONDS ")"
#define DAYS "[0-9]+D"
#define MONTHS "[0-9]+M(" DAYS ")?"
#define DURATION "P(([0-9]+Y(" MONTHS ")?|" MONTHS "|" DAYS ")(" TIMES ")?|" TIMES "|[0-9]+W)"

/* RFC 1123: a label has no hyphen at its ends, and by RFC 5891 none at its third and fourth letter. Lengths
 * are kept by few labels, or short ones. */
#define ALNUM "[A-Za-z0-9]"
#define LABEL_OF(last, before)                                                                               \
	ALNUM "(" ALNUM "|[A-Za-z0-9\\-](" ALNUM "([A-Za-z0-9\\-]{0," last "}" ALNUM ")?|-" ALNUM                \
	      "([A-Za-z0-9\\-]{0," before "}" ALNUM ")?))?"
#define LABEL LABEL_OF("59", "58")
#define LAST_LABEL LABEL_OF("57", "56")
#define SHORT_LABEL LABEL_OF("16", "15")
#define HOST_NAME "\2"
#define HOST_NAME_TEXT                                                                                       \
	"(" LABEL "|(" LABEL "\\.){0,3}" LAST_LABEL "|(" SHORT_LABEL "\\.){4,11}" SHORT_LABEL ")"

/* RFC 2673, RFC 4291. */
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6 "\1"
#define IPV6_TEXT                                                                                            \
	"((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":)?" H16      \
	")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16        \
	")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16     \
	":){0,6}" H16 ")?::)"

/* RFC 5321: local parts of at most 64. */
#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-"
#define QTEXT "[ !#-\\[\\]-~"
#define LITERAL "\\[(" IPV4 "|IPv6:" IPV6 ")\\]"
#define QUOTED "\"(" QTEXT "]|\\\\[ -~]){0,31}\""
#define MAIL_DOMAIN "(" HOST_NAME "|" LITERAL ")"
#define EMAIL "((?![^@]{65})" ATEXT "]+(\\." ATEXT "]+)*|" QUOTED ")@" MAIL_DOMAIN

/* RFC 3986 and RFC 3987, which has more characters. */
#define UCSCHAR "\3"
#define UCSCHAR_TEXT                                                                                         \
	"\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}\\u{30000}-"     \
	"\\u{3fffd}\\u{40000}-\\u{dfffd}\\u{e1000}-\\u{efffd}"
#define IPRIVATE "\4"
#define IPRIVATE_TEXT "\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define PERCENT "%[0-9A-Fa-f]{2}"
#define UNRESERVED "A-Za-z0-9\\-._~"
#define SUB_DELIMS "!$&'()*+,;="
#define PART(more, also) "([" UNRESERVED SUB_DELIMS also more "]|" PERCENT ")"
#define SEGMENTS(more) "(/" PART(more, ":@") "*)*"
#define AUTHORITY(more)                                                                                      \
	"(" PART(more, ":") "*@)?(\\[(" IPV6 "|[Vv][0-9A-Fa-f]+\\.[" UNRESERVED SUB_DELIMS                       \
	                    ":]+)\\]|" PART(more, "") "*)(:[0-9]*)?"
#define ABSOLUTE(more) "/(" PART(more, ":@") "+" SEGMENTS(more) ")?"
#define AFTER(more, private) "(\\?" PART(more private, ":@/?") "*)?(#" PART(more, ":@/?") "*)?"
#define URI(more, private)                                                                                   \
	"[A-Za-z][A-Za-z0-9+.\\-]*:(//" AUTHORITY(more)                                                          \
	    SEGMENTS(more) "|" ABSOLUTE(more) "|" PART(more, ":@") "+" SEGMENTS(more) ")?" AFTER(more, private)
#define RELATIVE(more, private)                                                                              \
	"(//" AUTHORITY(more)                                                                                    \
	    SEGMENTS(more) "|" ABSOLUTE(more) "|" PART(more, "@") "+" SEGMENTS(more) ")?" AFTER(more, private)

/* RFC 6570. */
#define VARCHAR "([A-Za-z0-9_]|" PERCENT ")"
#define VARSPEC VARCHAR "(\\.?" VARCHAR ")*(:[1-9][0-9]{0,3}|\\*)?"
#define URI_TEMPLATE                                                                                         \
	"([!#$&(-;=?-\\[\\]_a-z~" UCSCHAR IPRIVATE "]|" PERCENT "|\\{[+#./;?&]?" VARSPEC "(," VARSPEC ")*\\})*"

/* RFC 6901. */
#define JSON_POINTER "(/([^/~]|~[01])*)*"

/* RFC 5892: labels of letters that are valid wherever they stand, left to right; of others than ASCII at most
 * 11, so that as punycode they have at most 63. */
#define ULABEL                                                                                               \
	"[a-z\\u00df-\\u00f6\\u00f8-\\u00ff\\u03b1-\\u03c9\\u0430-\\u044f\\u3041-\\u3096\\u30a1-\\u30fa\\u4e00-" \
	"\\u9fa5\\uac00-\\ud7a3]"
#define ULABELS "(" LABEL "|((" LABEL "|" ULABEL "{1,11})\\.){0,2}(" LAST_LABEL "|" ULABEL "{1,11}))"
#define IDN_EMAIL                                                                                            \
	"((?![^@]{65})" ATEXT UCSCHAR_MAIL "]+(\\." ATEXT UCSCHAR_MAIL "]+)*|" QUOTED ")@(" ULABELS "|" LITERAL  \
	")"
#define UCSCHAR_MAIL "\\u00a1-\\u167f\\u1681-\\u1fff\\u2c00-\\u2dff\\u3041-\\ud7ff\\u{20000}-\\u{2fffd}"

/* ECMA-262's expressions, of groups two deep. */
#define REGEX_ATOM                                                                                           \
	"([^\\\\^$.*+?()\\[\\]{}|/]|\\.|\\\\[dDwWsSbBnrtfv.*+?^$()\\[\\]{}|/\\\\]|\\[\\^?([A-Za-z0-9_ "          \
	".,:;@]|a-z|A-Z|0-9|\\\\[dDwWsS\\]\\[\\\\\\-])*\\])"
/* The second number is not less than the first: it is, or has more digits. */
#define RISING                                                                                               \
	"1,[1-9]|2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|6,[6-9]|7,[7-9]|8,[89]|9,9|[1-9],[1-9][0-9]{1,2}|"              \
	"[1-9][0-9],[1-9][0-9]{2}"
#define CHOICE(atom) "(" atom "([*+?]\\??|\\{([0-9]{1,3},?|0,[0-9]{1,3}|" RISING ")\\})?|\\^|\\$|\\|)*"
#define GROUP_OF(inner) "\\((\\?:)?" inner "\\)"
#define REGEX                                                                                                \
	CHOICE("(" REGEX_ATOM "|" GROUP_OF(CHOICE("(" REGEX_ATOM "|" GROUP_OF(CHOICE(REGEX_ATOM)) ")")) ")")

#define BASE64 "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/][A-Za-z0-9+/]{2}=)?"
#define BASE64_URL "([A-Za-z0-9_\\-]{4})*([A-Za-z0-9_\\-]{2}(==)?|[A-Za-z0-9_\\-]{3}=?)?"

/* By its version (RFC 9562), where one is asked for. */
#define UUID_OF(version)                                                                                     \
	"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-" version "[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}"
#define UUID "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

/* RFC 4632 and RFC 4291: a network's address with the length of its prefix. */
#define IPV4_NETWORK IPV4 "/([12]?[0-9]|3[0-2])"
#define IPV6_NETWORK IPV6 "/([1-9]?[0-9]|1[01][0-9]|12[0-8])"

/* Networks whose address has no bits behind the prefix: of whole bytes, or half of the groups. */
#define IPV4_CLEAR BYTE "((\\.0){3}/8|\\." BYTE "((\\.0){2}/16|\\." BYTE "(\\.0/24|\\." BYTE "/32)))"
#define IPV6_CLEAR H16 "(:" H16 "){0,3}::/64|" IPV6 "/128"

/* A web page's address: a URI with a host. */
#define URL "(https?|ftp)://" HOST_NAME "(:[0-9]{1,5})?(/" PART("", ":@") "*)*" AFTER("", "")

/* RFC 7519: header, claims and a signature, which may be empty. */
#define JWT "[A-Za-z0-9_\\-]{2,}\\.[A-Za-z0-9_\\-]{2,}\\.[A-Za-z0-9_\\-]*"

/* The last ones are what zod and pydantic write. */
static const char* const known[][2] = {
    {"date", DATE},
    {"time", NULL},
    {"date-time", NULL},
    {"duration", DURATION},
    {"uuid", UUID},
    {"email", EMAIL},
    {"idn-email", IDN_EMAIL},
    {"hostname", HOST_NAME},
    {"idn-hostname", ULABELS},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI("", "")},
    {"uri-reference", URI("", "") "|" RELATIVE("", "")},
    {"iri", URI(UCSCHAR, IPRIVATE)},
    {"iri-reference", URI(UCSCHAR, IPRIVATE) "|" RELATIVE(UCSCHAR, IPRIVATE)},
    {"uri-template", URI_TEMPLATE},
    {"json-pointer", JSON_POINTER},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" JSON_POINTER ")"},
    {"regex", REGEX},
    {"base64", BASE64},
    {"byte", BASE64},
    {"base64url", BASE64_URL},
    {"guid", UUID},
    {"uuid1", UUID_OF("1")},
    {"uuid3", UUID_OF("3")},
    {"uuid4", UUID_OF("4")},
    {"uuid5", UUID_OF("5")},
    {"uuid6", UUID_OF("6")},
    {"uuid7", UUID_OF("7")},
    {"uuid8", UUID_OF("8")},
    {"url", URL},
    {"jwt", JWT},
    {"e164", "\\+[1-9][0-9]{6,14}"},
    {"ulid", "[0-7][0-9A-HJKMNP-TV-Z]{25}"},
    {"nanoid", "[A-Za-z0-9_\\-]{21}"},
    {"cidrv4", IPV4_NETWORK},
    {"cidrv6", IPV6_NETWORK},
    {"ipv4interface", IPV4_NETWORK},
    {"ipv6interface", IPV6_NETWORK},
    {"ipv4network", IPV4_CLEAR},
    {"ipv6network", IPV6_CLEAR},
    {"ipvanynetwork", IPV4_CLEAR "|" IPV6_CLEAR},
    {"ipvanyaddress", IPV4 "|" IPV6},
    {"ipvanyinterface", IPV4_NETWORK "|" IPV6_NETWORK}};

/* Keywords that do not constrain a string's characters. */
static const char annotations[] =
    "password binary int8 int16 int32 int64 uint8 uint16 uint32 uint64 float double "
    "decimal path file-path directory-path new-path";

/* Pieces that others hold, by the byte that stands for them. */
static const char* const piece[] = {NULL, IPV6_TEXT, HOST_NAME_TEXT, UCSCHAR_TEXT, IPRIVATE_TEXT};

static void expand_rules(const char* from, char* to, size_t size) {
	size_t n = 0;
	for (; *from && n + 1 < size; from++) {
		const bool one = *from >= 1 && (size_t)*from < sizeof piece / sizeof *piece;
		const int written = one ? snprintf(to + n, size - n, "%s", piece[(int)*from]) : 1;
		if (!one)
			to[n] = *from;
		n += (size_t)written;
	}
	to[n < size ? n : size - 1] = 0;
}

const char* json_format_name(const char* format) {
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(format, known[i][0]) == 0)
			return known[i][0];
	return NULL;
}

bool json_format_is_known(const char* format) {
	return json_format_name(format) || json_lists(annotations, format);
}

struct language* json_format_language(const char* format, struct error* error) {
	const char* expression = NULL;
	char times[1 << 14], whole[1 << 15];
	const bool both = strcmp(format, "date-time") == 0;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(format, known[i][0]) == 0)
			expression = known[i][1];
	if (both || strcmp(format, "time") == 0) {
		snprintf(times, sizeof times, "%s(" HOUR_MINUTE ":[0-5][0-9]" FRACTION "([Zz]|[+\\-]" HOUR_MINUTE ")",
		         both ? "(" DATE ")[Tt]" : "");
		add_leap_seconds(times, sizeof times - 1);
		strcat(times, ")");
		expression = times;
	}
	if (!expression)
		return language_all();
	expand_rules(expression, whole, sizeof whole);
	return language_of_pattern(whole, strlen(whole), true, error);
}
