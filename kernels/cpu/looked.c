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

bool cpu_list_pages(struct cache* cache, int budget, int32_t* page, struct page_list* list) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	forget_dropped(c);
	if (!can_list(cache, budget) || c->noted == 0)
		return false;
	const size_t pages = (size_t)look_pages(cpu_of(cache->backend));
	page_list_fill(cache, (struct page_mass){.mass = c->mass, .by_page = 1, .by_block = pages}, budget, page,
	               list);
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
