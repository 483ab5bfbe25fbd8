/* A mask drawn in the terminal as in SWIFT's Figure 12. */
#include "tools/program/draw_mask.h"

#include <stdlib.h>
#include <unistd.h>

/* Masks list the sub-layers kept as stored, drafts those with quantized weights. */
static void draw_row(FILE* out, const struct mask* mask, const struct mask* quantized, int blocks, int kind,
                     bool colour) {
	static const char* const shade[] = {"\033[31m", "\033[34m"}; /* red, blue */
	int n = 0, rounded = 0, stored = 0;
	fprintf(out, "  %-9s ", kind == 0 ? "attention" : "MLP");
	for (int b = 0; b < blocks; b++) {
		const int s = 2 * b + kind;
		const bool skipped = mask_has(mask, s), is_quantized = mask_has(quantized, s);
		if (colour)
			fprintf(out, "%s%s\033[0m", skipped ? shade[kind] : "\033[90m", is_quantized ? "▄" : "■");
		else
			fputs(skipped ? "■" : is_quantized ? "▄" : "□", out);
		n += skipped;
		rounded += is_quantized;
		stored += mask_stores(mask, s);
	}
	fprintf(out, "  %d of %d skipped", n, blocks);
	if (rounded > 0)
		fprintf(out, ", %d with quantized weights", rounded);
	else if (stored > 0)
		fprintf(out, ", %d with stored weights", stored);
	fputc('\n', out);
}

static void draw_rows(FILE* out, const struct mask* mask, const struct mask* quantized, int blocks) {
	const bool colour = isatty(fileno(out)) && !getenv("NO_COLOR");
	draw_row(out, mask, quantized, blocks, 0, colour);
	draw_row(out, mask, quantized, blocks, 1, colour);
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

void draw_mask(FILE* out, const struct mask* mask, int blocks) {
	draw_rows(out, mask, &(struct mask){.word = {0}}, blocks);
}

static void set_blocks(struct mask* mask, const int* block, int n, int kind) {
	for (int i = 0; i < n; i++)
		mask_set(mask, 2 * block[i] + kind, true);
}

void draw_figures(FILE* out, const struct swiftlet_figures* f, int blocks) {
	struct mask mask = {.word = {0}}, quantized = mask;
	set_blocks(&mask, f->attention, f->n_attention, 0);
	set_blocks(&mask, f->mlp, f->n_mlp, 1);
	set_blocks(&quantized, f->quantized_attention, f->n_quantized_attention, 0);
	set_blocks(&quantized, f->quantized_mlp, f->n_quantized_mlp, 1);
	draw_rows(out, &mask, &quantized, blocks);
}
