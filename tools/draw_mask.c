/* A mask drawn in the terminal as in SWIFT's Figure 12. */
#include "tools/draw_mask.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void draw_row(FILE* out, const struct mask* mask, int blocks, int kind, bool colour) {
	static const char* const shade[] = {"\033[31m", "\033[34m"}; /* red, blue */
	fprintf(out, "  %-9s ", kind == 0 ? "attention" : "MLP");
	for (int b = 0; b < blocks; b++) {
		const bool skipped = mask_has(mask, 2 * b + kind);
		if (colour)
			fprintf(out, "%s■\033[0m", skipped ? shade[kind] : "\033[90m");
		else
			fputs(skipped ? "■" : "□", out);
	}
	int n = 0;
	for (int b = 0; b < blocks; b++)
		n += mask_has(mask, 2 * b + kind);
	fprintf(out, "  %d of %d skipped\n", n, blocks);
}

void draw_mask(FILE* out, const struct mask* mask, int blocks) {
	const bool colour = isatty(fileno(out)) && !getenv("NO_COLOR");
	draw_row(out, mask, blocks, 0, colour);
	draw_row(out, mask, blocks, 1, colour);
	fprintf(out, "  %-9s ", "block");
	for (int b = 0; b < blocks;) {
		/* a number needs its own width and a space */
		if (b % 10 == 0)
			b += fprintf(out, "%d", b);
		else
			b += fprintf(out, " ");
	}
	fputc('\n', out);
}

void draw_blocks(FILE* out, const int* attention, int n_attention, const int* mlp, int n_mlp, int blocks) {
	struct mask mask;
	memset(&mask, 0, sizeof mask);
	for (int i = 0; i < n_attention; i++)
		mask_set(&mask, 2 * attention[i], true);
	for (int i = 0; i < n_mlp; i++)
		mask_set(&mask, 2 * mlp[i] + 1, true);
	draw_mask(out, &mask, blocks);
}
