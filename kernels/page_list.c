/* Chooses the pages of a list. */
#include "kernels/page_list.h"

static void sort_pages(int32_t* page, int n) {
	for (int i = 1; i < n; i++) {
		const int32_t p = page[i];
		int at = i;
		for (; at > 0 && page[at - 1] > p; at--)
			page[at] = page[at - 1];
		page[at] = p;
	}
}

/* Lists the pages of [1, n) with the largest mass in page (budget), ascending; ties go to the first. */
static void choose_pages(const float* mass, size_t by_page, int n, int budget, int32_t* page) {
	int chosen = 0;
	for (int p = 1; p < n; p++) {
		const float own = mass[(size_t)p * by_page];
		if (chosen == budget && !(own > mass[(size_t)page[budget - 1] * by_page]))
			continue;
		int at = chosen < budget ? chosen++ : budget - 1;
		for (; at > 0 && own > mass[(size_t)page[at - 1] * by_page]; at--)
			page[at] = page[at - 1];
		page[at] = p;
	}
	sort_pages(page, budget);
}

void page_list_fill(const struct cache* c, struct page_mass m, int budget, int32_t* page,
                    struct page_list* list) {
	const int whole = pages_to_list(c);
	for (int i = 0; i < c->backend->weights->shape.n_blocks; i++) {
		int32_t* of_block = page + i * (budget + 1);
		of_block[0] = 0;
		choose_pages(m.mass + (size_t)i * m.by_block, m.by_page, whole, budget, of_block + 1);
	}
	*list = (struct page_list){.from = whole * LIST_POSITIONS, .n = budget + 1, .page = page};
}
