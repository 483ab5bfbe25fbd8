/* Keeps the best few of a sequence, best first; of equal ones the first comes first. */
#pragma once

/* Inserts `which` among the n kept, of at most `most`, by its value. Returns how many are kept then. */
static inline int ranked_add(double* value, int* index, int n, int most, double mine, int which) {
	int at = n < most ? n++ : most;
	for (; at > 0 && value[at - 1] < mine; at--)
		if (at < most) {
			value[at] = value[at - 1];
			index[at] = index[at - 1];
		}
	if (at < most) {
		value[at] = mine;
		index[at] = which;
	}
	return n;
}
