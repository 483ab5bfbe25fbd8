/* Decides whether quantized draft weights fit in memory and pay. */
#include "core/model/draft_weights_memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/model/system_memory.h"
#include "kernels/cpu/cores.h"
#include "kernels/huge_pages.h"

/* ---- what fits ------------------------------------------------------------------------------ */

/* Draft weights and interleaved weights only save time. So by default they leave memory to the machine's
 * other work. */
static const double SHARE_OF_AVAILABLE = 0.25;

static bool fits_memory(const struct draft_weights_memory* memory, const struct draft_weights_request* wish,
                        struct error* error) {
	const double bytes = (double)memory->table.bytes, available = memory_available();
	if (wish->most_bytes > 0 && bytes > wish->most_bytes)
		return error_set(error, "the %d-bit draft weights take %.1f MiB, more than the %.1f MiB allowed",
		                 wish->format.bits, bytes / 0x1p20, wish->most_bytes / 0x1p20);
	if (wish->most_bytes <= 0 && available > 0 && bytes > SHARE_OF_AVAILABLE * available)
		return error_set(error,
		                 "the %d-bit draft weights take %.1f MiB, more than a quarter of the %.1f MiB "
		                 "available (--draft-memory allows more)",
		                 wish->format.bits, bytes / 0x1p20, available / 0x1p20);
	return true;
}

/* ---- which bits ----------------------------------------------------------------------------- */

/* The part of the largest cache that the process may count on; 0: unknown. The kernel reports the whole
 * cache. In a virtual machine that is the host's, which other guests share, and sysconf may report ten times
 * too much again. No processor has more than 12 MiB a core: two cores that are shown 260 MiB share them
 * with others. */
static double last_level_cache(void) {
	static const double MOST_OF_A_CORE = 12 * 0x1p20;
	const double most_of_all = MOST_OF_A_CORE * cores_available();
	double most = 0;
	for (int index = 0; index < 8; index++) {
		char path[80];
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
		const double bytes = 1024 * number_in_file(path);
		most = bytes > most ? bytes : most;
	}
	return most < most_of_all ? most : most_of_all;
}

static double sub_layer_bytes(const struct weight_table* w) {
	double bytes = 0;
	for (int b = 0; b < w->shape.n_blocks; b++) {
		const struct block_weights* k = &w->block[b];
		for (int part = 0; part < BLOCK_PARTS; part++)
			bytes += (double)tensor_bytes(block_tensor(k, part));
		for (int e = 0; tensor_present(&k->router) && e < w->shape.n_experts; e++)
			bytes += (double)(tensor_bytes(&k->expert[e].w_gate) + tensor_bytes(&k->expert[e].w_up) +
			                  tensor_bytes(&k->expert[e].w_down));
	}
	return bytes;
}

/* Stored bytes of the matrices that have draft weights by input channel. Experts have none. */
static double stored_by_channel(const struct column_weights* columns) {
	double bytes = 0;
	for (int b = 0; b < columns->n_blocks; b++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			for (int i = 0; i < columns->block[b].map[k].n_matrices; i++)
				bytes += (double)tensor_bytes(columns->block[b].map[k].matrix[i]);
	return bytes;
}

/* True when the plan leaves so small a share of the blocks' bytes that drafting can pay. */
static bool is_worth_it(const struct draft_weights* draft) {
	static const double MOST_SHARE = 0.6;
	const double stored = sub_layer_bytes(draft->stored);
	if (draft->format.columns) {
		const double read = DRAFT_READ * (double)draft->columns.bytes;
		return stored - stored_by_channel(&draft->columns) + read <= MOST_SHARE * stored;
	}
	double copied = 0, of = 0;
	for (int i = 0; i < draft->n_items - draft->head; i++) {
		copied += (double)draft->item[i].bytes;
		of += (double)tensor_bytes(draft->item[i].stored);
	}
	return stored - of + copied <= MOST_SHARE * stored;
}

int draft_bits_for(const struct model* model, struct draft_weights_format format) {
	const int bits = 4; /* 3 bits are no faster (bench kernels), and guess worse. */
	struct draft_weights table;
	struct error error;
	format.bits = bits;
	if (sub_layer_bytes(&model->weights) <= last_level_cache())
		return 0;
	const bool worth = draft_weights_plan(&table, &model->weights, format, &error) && is_worth_it(&table);
	draft_weights_close(&table);
	return worth ? bits : 0;
}

bool wants_screened_head(const struct weight_table* w) {
	/* SmolLM2's head of 29 MiB took 0.12 s to copy, and its bounds exclude next to nothing. */
	static const double LEAST_BYTES = 64 * 0x1p20, LEAST_SHARE = 0.1;
	const double head = (double)tensor_bytes(&w->output), step = head + sub_layer_bytes(w);
	const double available = memory_available();
	const double memory = (double)w->output.rows * (double)dtype_row_bytes(DTYPE_Q4_0, w->output.cols);
	return head >= LEAST_BYTES && head >= LEAST_SHARE * step &&
	       (available <= 0 || memory <= SHARE_OF_AVAILABLE * available);
}

bool wants_interleaved(const struct weight_table* w) {
	const double available = memory_available();
	return available <= 0 || sub_layer_bytes(w) <= SHARE_OF_AVAILABLE * available;
}

/* ---- its memory ----------------------------------------------------------------------------- */

static bool take_memory(struct draft_weights_memory* memory, struct error* error) {
	memory->data = alloc_huge_pages(memory->table.bytes);
	if (!memory->data)
		return error_set(error, "out of memory for a %d-bit copy of %.1f MiB", memory->table.format.bits,
		                 (double)memory->table.bytes / 0x1p20);
	draft_weights_place(&memory->table, memory->data);
	return true;
}

bool draft_weights_memory_open(struct draft_weights_memory* memory, const struct model* model,
                               const struct draft_weights_request* wish, struct error* error) {
	*memory = (struct draft_weights_memory){.data = NULL};
	return draft_weights_plan(&memory->table, &model->weights, wish->format, error) &&
	       (memory->table.bytes == 0 || (fits_memory(memory, wish, error) && take_memory(memory, error)));
}

void draft_weights_memory_close(struct draft_weights_memory* memory) {
	draft_weights_close(&memory->table);
	free(memory->data);
	*memory = (struct draft_weights_memory){.data = NULL};
}
