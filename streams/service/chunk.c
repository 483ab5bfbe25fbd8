/* See chunk.h. */
#include "streams/service/chunk.h"

enum { DELAY = 8 /* plain steps */ };

int chunk_whole(const struct cost_model* cost, int asked) {
	if (asked > 0)
		return asked < PREFILL_CHUNK ? asked : PREFILL_CHUNK;
	int rows = LEAST_CHUNK_ROWS;
	while (rows < PREFILL_CHUNK && cost_verify(cost, cost_rows_with_heads(cost, 2 * rows, 1)) <= DELAY)
		rows *= 2;
	return rows;
}

int chunk_rest(const struct cost_model* cost, int chunk, double spent, int beside) {
	const int least = (chunk + 3) / 4;
	const double most = cost_verify(cost, cost_rows_with_heads(cost, chunk, 1));
	int rows = chunk;
	while (rows > least &&
	       spent + cost_verify(cost, cost_rows_with_heads(cost, beside + rows, beside + 1)) > most)
		rows--;
	return rows;
}
