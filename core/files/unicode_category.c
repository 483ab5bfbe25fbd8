/* See unicode_category.h. */
#include "core/files/unicode_category.h"

#include <stdbool.h>
#include <stddef.h>

static const char* const category[][2] = {{"letter", "L"},
                                          {"casedletter", "L&"},
                                          {"lc", "L&"},
                                          {"uppercaseletter", "Lu"},
                                          {"lowercaseletter", "Ll"},
                                          {"titlecaseletter", "Lt"},
                                          {"modifierletter", "Lm"},
                                          {"otherletter", "Lo"},
                                          {"mark", "M"},
                                          {"combiningmark", "M"},
                                          {"nonspacingmark", "Mn"},
                                          {"spacingmark", "Mc"},
                                          {"enclosingmark", "Me"},
                                          {"number", "N"},
                                          {"decimalnumber", "Nd"},
                                          {"digit", "Nd"},
                                          {"letternumber", "Nl"},
                                          {"othernumber", "No"},
                                          {"punctuation", "P"},
                                          {"punct", "P"},
                                          {"connectorpunctuation", "Pc"},
                                          {"dashpunctuation", "Pd"},
                                          {"openpunctuation", "Ps"},
                                          {"closepunctuation", "Pe"},
                                          {"initialpunctuation", "Pi"},
                                          {"finalpunctuation", "Pf"},
                                          {"otherpunctuation", "Po"},
                                          {"symbol", "S"},
                                          {"mathsymbol", "Sm"},
                                          {"currencysymbol", "Sc"},
                                          {"modifiersymbol", "Sk"},
                                          {"othersymbol", "So"},
                                          {"separator", "Z"},
                                          {"spaceseparator", "Zs"},
                                          {"lineseparator", "Zl"},
                                          {"paragraphseparator", "Zp"},
                                          {"other", "C"},
                                          {"control", "Cc"},
                                          {"cntrl", "Cc"},
                                          {"format", "Cf"},
                                          {"surrogate", "Cs"},
                                          {"privateuse", "Co"},
                                          {"unassigned", "Cn"}};

/* `plain` is in small letters, without what does not count. */
static bool is_name(const char* name, const char* plain) {
	for (; *name; name++) {
		if (*name == ' ' || *name == '-' || *name == '_')
			continue;
		const char small = (char)(*name >= 'A' && *name <= 'Z' ? *name | 0x20 : *name);
		if (small != *plain++)
			return false;
	}
	return *plain == 0;
}

const char* unicode_category_code(const char* name) {
	for (size_t i = 0; i < sizeof category / sizeof *category; i++)
		if (is_name(name, category[i][0]))
			return category[i][1];
	return NULL;
}
