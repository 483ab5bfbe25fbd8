/* The table of the options that all commands share, and what else the help explains. */
#ifndef SWIFTLET_TOOLS_PROGRAM_SHARED_OPTIONS_H
#define SWIFTLET_TOOLS_PROGRAM_SHARED_OPTIONS_H

#include <stdbool.h>

struct shared_option {
	const char* name;  /* as swiftlet_options_set takes it */
	const char* value; /* what stands for the value in the help; NULL: this row is a heading */
	const char* help;  /* lines */
	const char*
	    fallback; /* the default as a text; "": `help` names it; NULL: swiftlet_options_get knows it */
	char letter;  /* short form, or 0 */
	bool usual;   /* --help shows it too, not only --help-all */
};
extern const struct shared_option shared_options[];
extern const int n_shared_options;

/* By name, or where that is NULL by letter; NULL: none. */
const struct shared_option* shared_option_named(const char* name, char letter);

struct option_synonym {
	const char *other, *name;
};
extern const struct option_synonym option_synonyms[]; /* the last row is empty */

/* What the words of the figures and options mean, a line each. */
extern const char* const help_terms;

#endif
