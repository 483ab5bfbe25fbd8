/* Measured costs: running estimates with clipped outliers, interpolated between row counts. */
#include "core/decode/cost.h"

#include <math.h>
#include <string.h>

enum { FIRST_TRUST = 256, LONGEST_TRUST = 1 << 16 };
/* A new measurement confirms an old one if it reaches this share of it. */
static const double SAME_AGAIN = 0.8;

/* The first of these many full passes after a plain step are measured by it. Later passes of well-measured
 * row counts show the machine's present speed: this share of their deviation counts as speed, and little of
 * it as a dearer row count. A batch has no plain steps. After this many passes without one, a row count is
 * measured by its own passes again. */
enum { FRESH = 3, KNOWN = 12, LAPSED = 128 };
static const double FOLLOWS = 0.15, HARDLY = 0.02;

/* The least of the first few measurements counts, because one slow pass would keep a row count from being
 * used. */
enum { FEW = 3 };

/* A text whose attention is less than about a tenth of a pass does not show what attention costs: there most
 * of its time is that of threads that wait for each other. */
static const double ENOUGH = 0.1;

/* If kernels take rows in eights, the first row of another eight costs as much as several. Straight lines
 * from 8 to 12 and from 16 to 24 would hide that, and drafts beside 8 or 16 sequences would seem to pay. So 9
 * and 17 are knots too, if they were measured lately. */
static const int knot_rows[COST_KNOTS] = {1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 48, 64, 256};

static bool is_step(int knot) { return knot_rows[knot] == 9 || knot_rows[knot] == 17; }

static double attention_map_bytes(const struct block_weights* k) {
	return (double)(tensor_bytes(&k->wq_a) + tensor_bytes(&k->wq) + tensor_bytes(&k->wk) +
	                tensor_bytes(&k->wv) + tensor_bytes(&k->absorb) + tensor_bytes(&k->wo));
}

/* The experts that one row chooses. */
static double mlp_bytes(const struct block_weights* k, int experts_used) {
	const size_t all = tensor_bytes(&k->w_gate) + tensor_bytes(&k->w_up) + tensor_bytes(&k->w_down);
	if (!tensor_present(&k->router))
		return (double)all;
	const struct expert* e = k->expert;
	const size_t each = tensor_bytes(&e->w_gate) + tensor_bytes(&e->w_up) + tensor_bytes(&e->w_down);
	return (double)(all + tensor_bytes(&k->router) + (size_t)experts_used * each);
}

static struct cost_bytes count_bytes(const struct block_weights* block, const struct model_shape* shape,
                                     double fixed) {
	struct cost_bytes bytes = {.fixed = fixed};
	for (int b = 0; b < shape->n_blocks; b++) {
		bytes.attention += attention_map_bytes(&block[b]) / shape->n_blocks;
		bytes.mlp += mlp_bytes(&block[b], shape->experts_used) / shape->n_blocks;
	}
	return bytes;
}

void cost_open(struct cost_model* cost, const struct weight_table* w, size_t coarse_head) {
	*cost = (struct cost_model){
	    .stored = count_bytes(w->block, &w->shape,
	                          (double)(coarse_head > 0 ? coarse_head : tensor_bytes(&w->output)) +
	                              (double)tensor_bytes(&w->join)),
	    .blocks = w->shape.n_blocks,
	    .draft_ratio = 1,
	    .quantized_ratio = 1,
	    .score_ratio = 1,
	    .slope = 0.02,
	    .attention_ratio = 1,
	    .attention_slope = 0.02,
	    .off = 0.5};
	for (int i = 0; i < COST_KNOTS; i++)
		cost->rows_trust[i] = FIRST_TRUST;
}

void cost_use_draft_weights(struct cost_model* cost, const struct draft_weights* quantized) {
	cost->quantized =
	    count_bytes(quantized->block, &quantized->stored->shape,
	                quantized->head ? (double)tensor_bytes(quantized->output) : cost->stored.fixed);
	if (!quantized->format.columns)
		return;
	memset(cost->kind, 0, sizeof cost->kind);
	for (int b = 0; b < cost->blocks; b++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			cost->kind[k] += (double)block_map_bytes(&quantized->columns.block[b].map[k]) / cost->blocks;
	cost->quantized.attention = cost->kind[COLUMN_ATTENTION] + cost->kind[COLUMN_ATTENTION_OUT];
	cost->quantized.mlp = cost->kind[COLUMN_MLP] + cost->kind[COLUMN_DOWN];
}

/* ---- the text's length --------------------------------------------------------------------- */

/* What attention takes of a pass of n rows after a text of this length, in the time that a plain step takes
 * for the weights. */
static double attention_cost(const struct cost_model* cost, double length, double rows) {
	return cost->attention_ratio * length * (1 + cost->attention_slope * (rows - 1));
}

double cost_attention(const struct cost_model* cost) {
	const double one = attention_cost(cost, cost->length, 1);
	return one / (1 + one);
}

/* Seconds of a plain step without attention, from the plain steps or from the narrowest pass. */
static double weights_seconds(const struct cost_model* cost) {
	for (int i = 0; i < COST_KNOTS; i++) {
		const struct cost_sample* m = &cost->measured[i];
		const int rows = knot_rows[i];
		if (m->seconds > 0)
			return m->seconds / (1 + cost->slope * (rows - 1) + attention_cost(cost, m->length, rows));
	}
	return 0;
}

/* Costs at the present length: as measured, and the difference that attention makes. What was measured at
 * this length is not changed. Attention cannot have taken more than what a pass takes over a plain step. */
static void move_costs(struct cost_model* cost) {
	const double weights = weights_seconds(cost);
	const double plain = weights * (1 + attention_cost(cost, cost->length, 1));
	for (int i = 0; i < COST_KNOTS; i++) {
		const struct cost_sample* m = &cost->measured[i];
		const int rows = knot_rows[i];
		if (m->seconds <= 0)
			continue;
		const double more = attention_cost(cost, cost->length, rows) - attention_cost(cost, m->length, rows);
		cost->rows[i] = fmax(fmin(m->seconds, plain), m->seconds + weights * more);
	}
	if (cost->plain > 0)
		cost->plain = cost->rows[0];
}

void cost_at(struct cost_model* cost, double cache_bytes) {
	const double all = cost_all_bytes(cost), length = all > 0 ? cache_bytes / all : 0;
	if (length == cost->length)
		return;
	cost->length = length;
	move_costs(cost);
}

struct cost_model cost_by_bytes(const struct cost_model* cost) {
	struct cost_model bytes = *cost;
	bytes.draft_ratio = bytes.quantized_ratio = bytes.score_ratio = 1;
	bytes.plain = bytes.length = 0;
	for (int i = 0; i < COST_KNOTS; i++) {
		bytes.rows[i] = 0;
		bytes.measured[i] = (struct cost_sample){0};
	}
	return bytes;
}

/* An exponential mean. One sample counts for at most three times the mean, and the first one for at most
 * three times the expected value (0: none). A machine that paused for a second must not look like a slow
 * kernel. */
static void see_ratio_sample(double* mean, int* seen, double seconds, double weight, double expected) {
	const double first = 1.0 / ++*seen; /* the plain mean of the first few */
	if (first >= 1) {
		*mean = expected > 0 && seconds > 3 * expected ? 3 * expected : seconds;
		return;
	}
	weight = weight > first ? weight : first;
	const double clipped = seconds > 3 * *mean ? 3 * *mean : seconds;
	*mean += weight * (clipped - *mean);
}

static int nearest_knot(int rows) {
	int best = 0;
	for (int i = 1; i < COST_KNOTS; i++) {
		const int a = knot_rows[i] - rows, b = knot_rows[best] - rows;
		if ((a < 0 ? -a : a) <= (b < 0 ? -b : b))
			best = i;
	}
	return best;
}

static bool is_stale(const struct cost_model* cost, int knot) {
	return cost->passes - cost->rows_last[knot] > cost->rows_trust[knot];
}

static bool is_left_out(const struct cost_model* cost, int knot) {
	return is_step(knot) && (cost->rows[knot] <= 0 || is_stale(cost, knot));
}

static int knot_below(const struct cost_model* cost, int knot) {
	do
		knot--;
	while (is_left_out(cost, knot));
	return knot;
}

/* The machine's speed has changed: earlier measurements count at its present speed. */
static void follow_speed(struct cost_model* cost, double factor) {
	cost->plain *= factor;
	for (int i = 0; i < COST_KNOTS; i++) {
		cost->rows[i] *= factor;
		cost->measured[i].seconds *= factor;
	}
}

/* True if row counts on both sides of this cost were measured often enough to show the machine's speed. */
static bool is_known(const struct cost_model* cost, int rows) {
	for (int i = 1; i < COST_KNOTS; i++) {
		if (knot_rows[i] == rows)
			return cost->rows_seen[i] >= KNOWN;
		if (knot_rows[i] > rows && !is_left_out(cost, i))
			return cost->rows_seen[knot_below(cost, i)] >= KNOWN && cost->rows_seen[i] >= KNOWN;
	}
	return false;
}

static double clip(double ratio) { return fmin(2, fmax(0.5, ratio)); }

/* The deviation is the machine's speed. If other passes followed the machine since the last plain step, the
 * deviation corrects their estimate, and their seconds stay. */
static void see_plain(struct cost_model* cost, double seconds, int64_t between) {
	const bool alone = between > 0 && cost->followed == 0;
	const double first = 1.0 / ++cost->plain_seen, weight = fmax(first, alone ? 0.5 : FOLLOWS);
	if (first < 1 && between > 0)
		cost->off += 0.25 * (fmin(1, fabs(seconds / cost->plain - 1)) - cost->off);
	if (first >= 1)
		cost->plain = seconds;
	else if (cost->followed == 0)
		follow_speed(cost, 1 + weight * (clip(seconds / cost->plain) - 1));
	else
		cost->plain *= 1 + weight * (clip(seconds / cost->plain) - 1);
	cost->followed = 0;
	cost->rows[0] = cost->plain;
	cost->rows_seen[0] = cost->plain_seen;
}

static void see_rows(struct cost_model* cost, int knot, int rows, double seconds, int64_t between) {
	const double plain = cost_plain_seconds(cost);
	const double expected = plain > 0 ? plain * cost_verify(cost, knot_rows[knot]) : 0;
	/* rows between knots count for the knot, along the present line */
	const double there = seconds * cost_verify(cost, knot_rows[knot]) / cost_verify(cost, rows);
	const double least = cost->rows_seen[knot] > 0 ? cost->rows[knot] : INFINITY;
	if (cost->plain > 0 && between > FRESH && between <= LAPSED && is_known(cost, rows)) {
		const double off = clip(there / expected) - 1;
		follow_speed(cost, 1 + FOLLOWS * off);
		cost->rows[knot] *= 1 + HARDLY * off;
		cost->followed++;
		return;
	}
	if (cost->rows[knot] <= 0)
		cost->news = cost->passes;
	see_ratio_sample(&cost->rows[knot], &cost->rows_seen[knot], there, 0.2, expected);
	if (cost->rows_seen[knot] <= FEW)
		cost->rows[knot] = fmin(fmin(least, there), cost->rows[knot]);
}

/* A plain step shows what attention takes by itself. Wider passes show what their further rows add: their own
 * seconds come first. */
static void see_attention(struct cost_model* cost, int rows, double share) {
	if (share <= 0 || share >= 1 || cost->length < ENOUGH || rows > SLICE_ROWS)
		return;
	const double of_plain = cost_attention(cost);
	if (rows == 1)
		see_ratio_sample(&cost->attention_ratio, &cost->attention_seen, share / (1 - share) / cost->length,
		                 0.05, 1);
	else if (cost->attention_seen > 0)
		see_ratio_sample(&cost->attention_slope, &cost->attention_rows_seen,
		                 fmax(0, (share * cost_verify(cost, rows) / of_plain - 1) / (rows - 1)), 0.05, 0);
	move_costs(cost);
}

void cost_see_full(struct cost_model* cost, int rows, double seconds, double attention) {
	if (rows == 1)
		see_attention(cost, rows, attention);
	const int knot = nearest_knot(rows);
	const int64_t between = cost->passes - cost->rows_last[0];
	if (is_stale(cost, knot)) {
		const bool confirmed = seconds >= SAME_AGAIN * cost->rows[knot];
		if (!confirmed)
			cost->rows_trust[knot] = FIRST_TRUST;
		else if (cost->rows_trust[knot] < LONGEST_TRUST)
			cost->rows_trust[knot] *= 4;
		cost->rows_seen[knot] = 0;
	}
	cost->rows_last[knot] = ++cost->passes;
	if (knot == 0)
		see_plain(cost, seconds, between);
	else
		see_rows(cost, knot, rows, seconds, between);
	cost->measured[knot] = (struct cost_sample){cost->rows[knot], cost->length};
	if (rows > 1)
		see_attention(cost, rows, attention);
}

/* The bytes that a variant reads, as shares of a full pass's: stored weights with the cache, whose bytes
 * count at their measured cost, and quantized draft weights. */
struct share {
	double stored, quantized;
};

/* Bytes of the draft weights that a sub-layer reads. */
static double quantized_bytes(const struct cost_model* cost, struct variant v, int sub_layer) {
	const bool attention = sub_layer % 2 == 0;
	if (!v.levels)
		return attention ? cost->quantized.attention : cost->quantized.mlp;
	const int first = attention ? COLUMN_ATTENTION : COLUMN_MLP;
	double bytes = 0;
	for (int k = first; k < first + 2; k++)
		bytes +=
		    cost->kind[k] * (double)level_kept(v.levels, sub_layer / 2, cost->blocks, (enum column_kind)k);
	return bytes;
}

static struct share byte_share(const struct cost_model* cost, struct variant v) {
	struct share sum = {0, 0};
	int attentions = 0;
	for (int s = 0; s < 2 * cost->blocks; s++) {
		if (v.skip && mask_has(v.skip, s))
			continue;
		attentions += s % 2 == 0;
		if (v.quantized && mask_has(v.quantized, s))
			sum.quantized += quantized_bytes(cost, v, s);
		else
			sum.stored += s % 2 == 0 ? cost->stored.attention : cost->stored.mlp;
	}
	*(v.quantized_head ? &sum.quantized : &sum.stored) +=
	    v.quantized_head ? cost->quantized.fixed : cost->stored.fixed;
	const double cache = cost_attention(cost), weights = (1 - cache) / cost_all_bytes(cost);
	return (struct share){sum.stored * weights + cache * (1 - v.unread) * attentions / cost->blocks,
	                      sum.quantized * weights};
}

/* A ratio to the estimate by bytes. The first step with draft weights reads memory that no core has read. Its
 * excess counts half, or one slow step would keep the draft weights from being used. */
static void see_ratio(double* ratio, int* seen, double now) {
	see_ratio_sample(ratio, seen, *seen == 0 && now > 1 ? 1 + (now - 1) / 2 : now, 0.05, 1);
}

void cost_draft_anew(struct cost_model* cost, struct variant v) {
	const bool quantized = byte_share(cost, v).quantized > 0;
	double* ratio = quantized ? &cost->quantized_ratio : &cost->draft_ratio;
	if ((quantized ? cost->quantized_seen : cost->draft_seen) <= 2 * FEW)
		*ratio = fmin(1, *ratio);
}

/* A step with quantized sub-layers measures their cost; the other sub-layers count at their known cost. */
void cost_see_draft(struct cost_model* cost, struct variant v, double seconds) {
	const double plain = cost_plain_seconds(cost);
	const struct share share = byte_share(cost, v);
	if (plain <= 0)
		return;
	const double rest = seconds / plain - share.stored * cost->draft_ratio;
	if (share.quantized <= 0)
		see_ratio(&cost->draft_ratio, &cost->draft_seen, seconds / plain / share.stored);
	else
		see_ratio(&cost->quantized_ratio, &cost->quantized_seen, rest > 0 ? rest / share.quantized : 0);
}

void cost_see_score(struct cost_model* cost, struct variant v, int rows, double seconds) {
	const double plain = cost_plain_seconds(cost);
	const struct share share = byte_share(cost, v);
	if (plain > 0)
		see_ratio_sample(&cost->score_ratio, &cost->score_seen,
		                 seconds / plain / ((share.stored + share.quantized) * cost_verify(cost, rows)), 0.05,
		                 1);
}

double cost_plain_seconds(const struct cost_model* cost) {
	if (cost->plain > 0)
		return cost->plain;
	/* Only wide passes were measured: the narrowest, less the slope. */
	for (int i = 1; i < COST_KNOTS; i++)
		if (cost->rows[i] > 0)
			return cost->rows[i] / (1 + cost->slope * (knot_rows[i] - 1));
	return 0;
}

/* v at a knot: measured, or estimated from the knot below. The estimate takes half the mean slope up to
 * there, once enough rows were measured, and at least the assumed slope. It is somewhat too low, so that the
 * knot will be tried, but it does not grow without limit where rows are dear. An old measurement counts if it
 * is less. */
static double knot_cost(const struct cost_model* cost, int knot, double plain) {
	if (knot == 0)
		return 1;
	const double measured = cost->rows[knot] / plain;
	if (measured > 0 && !is_stale(cost, knot))
		return measured;
	const int last = knot_below(cost, knot);
	const double below = knot_cost(cost, last, plain), rows = knot_rows[last];
	const double mean = rows >= 4 ? 0.5 * (below - 1) / (rows - 1) : 0;
	const double judged = below + fmax(cost->slope, mean) * (knot_rows[knot] - rows);
	return measured > 0 && measured < judged ? measured : judged;
}

double cost_verify(const struct cost_model* cost, int rows) {
	const double plain = cost_plain_seconds(cost);
	if (rows <= 1)
		return 1;
	if (plain <= 0)
		return 1 + cost->slope * (rows - 1);
	double below = 1;
	for (int i = 1, last = 0; i < COST_KNOTS; i++) {
		if (is_left_out(cost, i))
			continue;
		const double here =
		    fmax(below, knot_cost(cost, i, plain)); /* more rows never cost less; the rest is noise */
		if (rows <= knot_rows[i]) {
			const double part = (double)(rows - knot_rows[last]) / (knot_rows[i] - knot_rows[last]);
			return below + part * (here - below);
		}
		below = here;
		last = i;
	}
	return below;
}

/* Twice the steepest slope that was measured, except at steps. Before any measurement a row may cost as much
 * as a pass. */
static double worst_slope(const struct cost_model* cost, double plain) {
	double steepest = 0, below = 1;
	int last = 0;
	for (int i = 1; i < COST_KNOTS; i++) {
		if (cost->rows[i] <= 0 || is_step(i))
			continue;
		const double here = cost->rows[i] / plain, slope = (here - below) / (knot_rows[i] - knot_rows[last]);
		steepest = slope > steepest ? slope : steepest;
		below = here;
		last = i;
	}
	return last > 0 ? 2 * steepest : 1;
}

/* The largest measured number of rows up to a limit; 1: none. */
static int rows_known(const struct cost_model* cost, int most) {
	int known = 1;
	for (int i = 1; i < COST_KNOTS && knot_rows[i] <= most; i++)
		if (cost->rows[i] > 0)
			known = knot_rows[i];
	return known;
}

int cost_rows_known(const struct cost_model* cost) { return rows_known(cost, MAX_ROWS); }

double cost_verify_worst(const struct cost_model* cost, int rows) {
	const double plain = cost_plain_seconds(cost);
	if (plain <= 0)
		return rows;
	const int known = rows_known(cost, rows);
	const double worst = cost_verify(cost, known) + (rows - known) * worst_slope(cost, plain);
	/* an old measurement may still hold */
	return fmax(cost_between(cost, rows), fmax(worst, cost_verify(cost, rows)));
}

double cost_between(const struct cost_model* cost, double rows) {
	const double plain = cost_plain_seconds(cost);
	double from = 1, below = 1, slope = cost->slope, mean = 0;
	for (int i = 1; i < COST_KNOTS && plain > 0; i++) {
		if (cost->rows[i] <= 0)
			continue;
		slope = fmax(0.5 * mean, (cost->rows[i] / plain - below) / (knot_rows[i] - from));
		if (rows <= knot_rows[i])
			return below + slope * (rows - from);
		below += slope * (knot_rows[i] - from);
		from = knot_rows[i];
		mean = (below - 1) / (from - 1);
	}
	return below + fmax(from > 1 ? mean : slope, slope) * (rows - from);
}

double cost_rows_with_heads(const struct cost_model* cost, int rows, int with_head) {
	const double all = cost_all_bytes(cost), head = all > 0 ? cost->stored.fixed / all : 0;
	return rows - (rows - with_head) * head * (1 - cost_attention(cost));
}

double cost_rest(const struct cost_model* cost, int first) {
	const double cache = cost_attention(cost), block = cost->stored.attention + cost->stored.mlp;
	return 1 - first / 2 * (block * (1 - cache) / cost_all_bytes(cost) + cache / cost->blocks);
}

bool cost_rows_seen(const struct cost_model* cost, int rows) {
	return cost->rows_seen[nearest_knot(rows)] >= FEW;
}

double cost_draft(const struct cost_model* cost, struct variant v) {
	const struct share share = byte_share(cost, v);
	return share.stored * cost->draft_ratio + share.quantized * cost->quantized_ratio;
}

double cost_head_share(const struct cost_model* cost, struct variant v) {
	const struct share share = byte_share(cost, v);
	const double head = v.quantized_head ? cost->quantized.fixed : cost->stored.fixed;
	return head * (1 - cost_attention(cost)) / cost_all_bytes(cost) / (share.stored + share.quantized);
}

double cost_draft_worst(const struct cost_model* cost, struct variant v) {
	const bool quantized = byte_share(cost, v).quantized > 0;
	return (quantized ? cost->quantized_seen : cost->draft_seen) > 0 ? cost_draft(cost, v) : 1;
}

double cost_share(const struct cost_model* cost, struct variant v) {
	const struct share share = byte_share(cost, v);
	return share.stored + share.quantized;
}

double cost_layers_read(const struct cost_model* cost, struct variant v) {
	double read = 0, all = 0;
	for (int s = 0; s < 2 * cost->blocks; s++) {
		const double whole = s % 2 == 0 ? cost->stored.attention : cost->stored.mlp;
		const bool quantized = v.quantized && mask_has(v.quantized, s);
		const struct variant uncut = {.quantized = v.quantized};
		const double kept = quantized ? quantized_bytes(cost, v, s) / quantized_bytes(cost, uncut, s) : 1;
		all += whole;
		read += v.skip && mask_has(v.skip, s) ? 0 : whole * kept;
	}
	return all > 0 ? read / all : 1;
}

double cost_matchness(const struct cost_model* cost, struct variant v, int rows) {
	return cost_share(cost, v) * cost_verify(cost, rows) * cost->score_ratio;
}

void cost_sub_layers(const struct cost_model* cost, bool quantized, const struct levels* levels,
                     double* attention, double* mlp, double* fixed) {
	const double cache = cost_attention(cost);
	const double unit =
	    (quantized ? cost->quantized_ratio : cost->draft_ratio) * (1 - cache) / cost_all_bytes(cost);
	struct cost_bytes bytes = quantized ? cost->quantized : cost->stored;
	if (quantized && levels) {
		const struct variant v = {.levels = levels};
		bytes.attention = bytes.mlp = 0;
		for (int b = 0; b < cost->blocks; b++) {
			bytes.attention += quantized_bytes(cost, v, 2 * b) / cost->blocks;
			bytes.mlp += quantized_bytes(cost, v, 2 * b + 1) / cost->blocks;
		}
	}
	*attention = bytes.attention * unit + cost->draft_ratio * cache / cost->blocks;
	*mlp = bytes.mlp * unit;
	*fixed = bytes.fixed * unit;
}

void cost_channels(const struct cost_model* cost, double kind[COLUMN_KINDS]) {
	for (int k = 0; k < COLUMN_KINDS; k++)
		kind[k] = cost->kind[k] * cost->quantized_ratio * (1 - cost_attention(cost)) / cost_all_bytes(cost);
}
