/* Attention mass of the target's rows by page, and attention that reads only the pages of a list.
 *
 * A draft's attention reads few pages of a long text: those that the target's own last rows looked at most.
 * Attention adds up a noted row's weights by page, and a block's sums decay from row to row. Only list_pages
 * reads these sums. A list becomes a table of pages that attention takes like a shorter text. Keys were
 * rotated by their positions when they were stored, so missing pages between them do not matter. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

bool looked_open(struct cpu_cache* c, const struct cpu_backend* b) {
	const size_t blocks = (size_t)b->head.weights->shape.n_blocks;
	c->mass = calloc(blocks * (size_t)look_pages(b), sizeof *c->mass);
	c->listed = calloc((size_t)c->paged.most_pages, sizeof *c->listed);
	return c->mass && c->listed;
}

void looked_close(struct cpu_cache* c) {
	free(c->mass);
	free(c->listed);
}

/* Pages of tokens that have left the text have no attention mass. */
static void forget_dropped(struct cpu_cache* c) {
	const struct cpu_backend* b = cpu_of(c->paged.head.backend);
	const size_t pages = (size_t)look_pages(b), from = (size_t)(c->paged.lowest / LIST_POSITIONS);
	const int lowest = c->paged.lowest;
	c->paged.lowest = INT32_MAX;
	if (lowest == INT32_MAX)
		return;
	for (int i = 0; i < b->head.weights->shape.n_blocks; i++)
		memset(c->mass + (size_t)i * pages + from, 0, (pages - from) * sizeof *c->mass);
	if (lowest == 0)
		c->noted = 0;
}

/* ---- noting --------------------------------------------------------------------------------- */

/* The number of rows after row r in its segment of the pass. */
static int rows_behind(const struct pass* pass, int r, const struct segment** of) {
	int end = 0;
	*of = pass->segment;
	while ((end += (*of)->n) <= r)
		++*of;
	return end - 1 - r;
}

void looked_begin(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	int taken = 0;
	for (int i = 0; i < n; i++) {
		const struct segment* segment;
		const bool last = rows_behind(pass, r0 + i, &segment) < NOTED_ROWS;
		struct slice_row* row = &b->row[i];
		row->looked = NULL;
		if (!segment->noted || !last || taken == NOTED_ROWS)
			continue;
		forget_dropped(row->cache);
		row->cache->noted++;
		row->looked = b->looked + (size_t)taken++ * (size_t)most_kv_heads(s) * (size_t)look_pages(b);
	}
}

/* The heads' sums of one row join its cache's. */
static void add_row(const struct cpu_backend* b, const struct slice_row* row, int block) {
	const int pages = (row->position + LIST_POSITIONS) / LIST_POSITIONS;
	float* mass = row->cache->mass + (size_t)block * (size_t)look_pages(b);
	for (int p = 0; p < pages; p++)
		mass[p] *= MASS_KEPT;
	for (int h = 0; h < block_kv_heads(&b->head.weights->shape, block); h++)
		for (int p = 0; p < pages; p++)
			mass[p] += row->looked[(size_t)h * (size_t)look_pages(b) + (size_t)p];
}

void looked_add(struct cpu_backend* b, int block, int n) {
	for (int i = 0; i < n; i++)
		if (b->row[i].looked)
			add_row(b, &b->row[i], block);
}

/* ---- listing -------------------------------------------------------------------------------- */

/* Lists the pages of [1, n) with the largest mass in page (budget), ascending; ties go to the first. */
static void choose_pages(const float* mass, int n, int budget, int32_t* page) {
	int chosen = 0;
	for (int p = 1; p < n; p++) {
		if (chosen == budget && !(mass[p] > mass[page[budget - 1]]))
			continue;
		int at = chosen < budget ? chosen++ : budget - 1;
		for (; at > 0 && mass[p] > mass[page[at - 1]]; at--)
			page[at] = page[at - 1];
		page[at] = p;
	}
	for (int i = 1; i < budget; i++) {
		const int32_t p = page[i];
		int at = i;
		for (; at > 0 && page[at - 1] > p; at--)
			page[at] = page[at - 1];
		page[at] = p;
	}
}

bool cpu_list_pages(struct cache* cache, int budget, int32_t* page, struct page_list* list) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	const struct cpu_backend* b = cpu_of(cache->backend);
	const int whole =
	    cache->committed / LIST_POSITIONS - 1; /* pages before those that are read in any case */
	forget_dropped(c);
	if (budget < 1 || budget > MAX_LISTED || whole <= budget + 1 || c->noted == 0)
		return false;
	for (int i = 0; i < b->head.weights->shape.n_blocks; i++) {
		int32_t* of_block = page + i * (budget + 1);
		of_block[0] = 0;
		choose_pages(c->mass + (size_t)i * (size_t)look_pages(b), whole, budget, of_block + 1);
	}
	*list = (struct page_list){.from = whole * LIST_POSITIONS, .n = budget + 1, .page = page};
	return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Pending rows stay at their slots. The table is shorter than the text, so the page in whose middle the text
 * ends may stand in it twice. */
void looked_pages(const struct slice_row* row, int block, int* base) {
	enum { PARTS = LIST_POSITIONS / PAGE_SLOTS };
	const struct page_list* list = row->pages;
	struct cpu_cache* c = row->cache;
	unsigned char* const* page = paged_bytes(&c->paged, 0);
	const int32_t* listed = list->page + block * list->n;
	const int end = c->paged.n_pages;
	int n = 0;
	for (int i = 0; i < list->n; i++)
		for (int part = 0; part < PARTS; part++)
			c->listed[n++] = page[listed[i] * PARTS + part];
	for (int i = list->from / PAGE_SLOTS; i * PAGE_SLOTS < row->base; i++)
		c->listed[n++] = page[i];
	for (int i = c->paged.head.committed / PAGE_SLOTS; i < end; i++)
		c->listed[i] = page[i];
	*base = row->base - list->from + list->n * LIST_POSITIONS;
}
