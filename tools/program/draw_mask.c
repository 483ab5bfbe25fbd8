/* A mask drawn in the terminal as in SWIFT's Figure 12. */
#include "tools/program/draw_mask.h"

#include <string.h>

#include "tools/program/tables.h"

/* The mean share of a sub-layer's two maps, without regard to their sizes. */
static float share_read(const struct levels* levels, int sub_layer, int blocks) {
	const enum column_kind first = sub_layer % 2 == 0 ? COLUMN_ATTENTION : COLUMN_MLP;
	return 0.5f * (level_kept(levels, sub_layer / 2, blocks, first) +
	               level_kept(levels, sub_layer / 2, blocks, first + 1));
}

/* How much is read, as a bar. */
static const char* bar_of(float share) {
	static const char* const bar[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	const int step = (int)(share * 8);
	return bar[step < 0 ? 0 : step > 7 ? 7 : step];
}

static void draw_row(FILE* out, const struct mask* mask, const struct mask* quantized, int blocks, int kind,
                     bool colour) {
	static const char* const shade[] = {"\033[31m", "\033[34m"}; /* red, blue */
	int n = 0, rounded = 0;
	fprintf(out, "  %-9s ", kind == 0 ? "attention" : "MLP");
	for (int b = 0; b < blocks; b++) {
		const int s = 2 * b + kind;
		const bool skipped = mask_has(mask, s), is_quantized = mask_has(quantized, s);
		const bool partly = mask->has_levels && !skipped;
		const char* const kept = partly         ? bar_of(share_read(&mask->levels, s, blocks))
		                         : is_quantized ? "▄"
		                         : colour       ? "■"
		                                        : "□";
		if (colour)
			fprintf(out, "%s%s\033[0m", skipped ? shade[kind] : "\033[90m", skipped ? "■" : kept);
		else
			fputs(skipped ? "■" : kept, out);
		n += skipped;
		rounded += is_quantized;
	}
	fprintf(out, "  %d of %d skipped", n, blocks);
	if (rounded > 0)
		fprintf(out, ", %d with quantized weights", rounded);
	fputc('\n', out);
}

/* One line where all depths are alike. */
static void print_levels(FILE* out, const struct levels* levels) {
	static const char* const third[LEVEL_DEPTHS] = {"first third", "middle", "last third"};
	bool alike = true;
	for (int d = 1; d < LEVEL_DEPTHS; d++)
		alike = alike && memcmp(levels->left_out[d], levels->left_out[0], sizeof levels->left_out[0]) == 0;
	for (int d = 0; d < (alike ? 1 : LEVEL_DEPTHS); d++) {
		const uint8_t* const left = levels->left_out[d];
		fprintf(out, "  reads     %s%sattention %d %%, its output %d %%, MLP %d %%, down %d %%\n",
		        alike ? "" : third[d], alike ? "" : ": ", 100 - left[COLUMN_ATTENTION],
		        100 - left[COLUMN_ATTENTION_OUT], 100 - left[COLUMN_MLP], 100 - left[COLUMN_DOWN]);
	}
}

static void draw_rows(FILE* out, const struct mask* mask, const struct mask* quantized, int blocks) {
	const bool colour = colours_allowed(out);
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
	if (mask->has_levels)
		print_levels(out, &mask->levels);
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
