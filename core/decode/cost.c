/* Measures passes, and interpolates between row counts. */
#include "core/decode/cost.h"

#include <math.h>
#include <stdlib.h>

/* A session alone measures at powers of two, because its plain steps and passes of many sizes have to agree
 * on few figures while the machine's speed swings. A batch measures each count of rows by itself: its passes
 * hardly differ in size, and v(n) has steps where kernels begin another tile, as after eight rows. 256 rows
 * are a prompt's chunk. */
static const int knot_rows[COST_KNOTS] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                          12, 13, 14, 15, 16, 17, 24, 32, 64, 256};
/* The cost of one more row before any measurement. Beyond all measured rows one costs at least this. */
static const double first_slope = 0.02;
/* A machine's speed swings, because others use its memory, and v(n) is a ratio. So the first few passes after
 * a plain step measure v by that step. Others show the speed, if their row count is known. A batch has no
 * plain steps: after some passes without one v is measured by the known speed again. */
enum { FRESH = 3, LAPSED = 128, KNOWN = 12, FEW = 3 };
static const double FOLLOWS = 0.15;
/* Full passes for which a measurement of some rows, or a ratio, counts at first. A late one confirms it if it
 * reaches this share of it, and the next trial is four times as far away. Ratios are tried again much sooner,
 * because draft steps that look too dear are not made, so nothing corrects their cost: it once rose from .49
 * to .91 within an answer, and Qwen 1.5B made no draft step in the next 800 tokens. */
enum { TRUST = 256, RATIO_TRUST = 32, LONGEST_TRUST = 1 << 16 };
static const double SAME_AGAIN = 0.8;
/* If attention takes less than about a tenth of a pass, its time does not show its cost: threads spend most
 * of it waiting for each other. */
static const double least_attention = 0.1;

/* Attention's part of a pass, in plain steps without attention. */
static double attention_at(const struct cost_model* cost, double length, double rows) {
	return cost->attention.mean * length * (1 + cost->attention_rows.mean * (rows - 1));
}

double cost_attention(const struct cost_model* cost) {
	const double one = attention_at(cost, cost->length, 1);
	return one / (1 + one);
}

/* v(rows) at another length of the text. */
static double move_v(const struct cost_model* cost, int rows, double v, double from, double to) {
	const double more = attention_at(cost, to, rows) - attention_at(cost, from, rows);
	return from == to ? v : (v * (1 + attention_at(cost, from, 1)) + more) / (1 + attention_at(cost, to, 1));
}

/* The mean at the present length. */
static double current_mean(const struct cost_model* cost, const struct recent* r) {
	return r->rows > 0 ? move_v(cost, r->rows, r->mean, r->at, cost->length) : r->mean;
}

static bool is_stale(const struct cost_model* cost, const struct recent* r) {
	return cost->passes - r->last > r->trust;
}

static int first_trust(const struct recent* r) { return r->rows > 0 ? TRUST : RATIO_TRUST; }

/* One sample counts for at most twice the mean, because a machine that paused is not a slow kernel. Of the
 * first few the least counts: a first pass is often slow. */
static void add_sample(struct cost_model* cost, struct recent* r, double x) {
	const double mean = current_mean(cost, r);
	if (is_stale(cost, r) && r->last > 0) {
		r->trust = x < SAME_AGAIN * mean ? first_trust(r) : least(4 * r->trust, LONGEST_TRUST);
		r->n = r->rows > 0 ? 0 : 1;
	}
	const double weight = fmax(1.0 / ++r->n, FOLLOWS);
	r->mean = r->n == 1 ? x : r->n <= FEW ? fmin(mean, x) : mean + weight * (fmin(x, 2 * mean) - mean);
	r->at = cost->length;
	r->last = cost->passes;
}

/* An old measurement counts if it is less than what is estimated without it. */
static double trusted_mean(const struct cost_model* cost, const struct recent* r, double estimate) {
	const double mean = current_mean(cost, r);
	return is_stale(cost, r) ? fmin(mean, estimate) : mean;
}

void recent_restore(struct recent* r, double mean) {
	*r = (struct recent){.rows = r->rows, .n = 1, .mean = mean, .trust = first_trust(r)};
}

double recent_without_text(const struct cost_model* cost, const struct recent* r) {
	return r->rows > 0 ? move_v(cost, r->rows, r->mean, r->at, 0) : r->mean;
}

/* The ratios to bytes begin with one measurement, which is the estimate. */
static void forget_all(struct cost_model* cost) {
	*cost = (struct cost_model){.bytes = cost->bytes, .off = 0.5};
	for (int i = 0; i < COST_KNOTS; i++)
		cost->rows[i] = (struct recent){.rows = knot_rows[i], .trust = TRUST};
	recent_restore(&cost->draft, 1);
	recent_restore(&cost->quantized, 1);
	recent_restore(&cost->score, 1);
	cost->attention.mean = 1;
	cost->attention_rows.mean = first_slope;
}

void cost_open(struct cost_model* cost, const struct weight_table* w, size_t coarse_head) {
	cost->bytes = pass_bytes_of(w, coarse_head);
	forget_all(cost);
}

void cost_use_draft_weights(struct cost_model* cost, const struct draft_weights* quantized) {
	pass_bytes_add(&cost->bytes, quantized);
}

struct cost_model cost_by_bytes(const struct cost_model* cost) {
	struct cost_model bytes = *cost;
	forget_all(&bytes);
	return bytes;
}

void cost_at(struct cost_model* cost, double cache_bytes) {
	const double all = pass_bytes_all(&cost->bytes);
	cost->length = all > 0 ? cache_bytes / all : 0;
}

static double move_seconds(const struct cost_model* cost, double to) {
	const double was = 1 + attention_at(cost, cost->seconds_at, 1);
	return cost->seconds_at == to ? cost->seconds : cost->seconds * (1 + attention_at(cost, to, 1)) / was;
}

double cost_plain_seconds(const struct cost_model* cost) { return move_seconds(cost, cost->length); }

double cost_verify(const struct cost_model* cost, double rows) {
	double from = 1, below = 1, slope = first_slope;
	for (int i = 0; i < COST_KNOTS; i++) {
		if (cost->rows[i].n == 0)
			continue;
		const double estimate = below + slope * (knot_rows[i] - from);
		const double here = fmax(below, trusted_mean(cost, &cost->rows[i], estimate));
		slope = (here - below) / (knot_rows[i] - from);
		if (rows <= knot_rows[i])
			break;
		below = here;
		from = knot_rows[i];
		slope = fmax(first_slope, 0.5 * (below - 1) / (from - 1));
	}
	return below + slope * fmax(0, rows - from);
}

static bool is_coarse(int knot) { return (knot_rows[knot] & (knot_rows[knot] - 1)) == 0; }

/* The larger one of two that are as near. */
static int find_knot(int rows, bool batch) {
	int nearest = 0;
	for (int i = 1; i < COST_KNOTS; i++)
		if ((batch || is_coarse(i)) && abs(knot_rows[i] - rows) <= abs(knot_rows[nearest] - rows))
			nearest = i;
	return nearest;
}

/* A plain step shows what attention takes by itself, and passes right after it what their further rows add.
 */
static void see_attention(struct cost_model* cost, int rows, double seconds, double share) {
	if (share <= 0 || share >= 1 || cost->length < least_attention || rows > SLICE_ROWS)
		return;
	if (rows > 1)
		add_sample(cost, &cost->attention_rows,
		           fmax(0, (share * seconds / (cost->plain_attention * cost->length) - 1) / (rows - 1)));
	else
		add_sample(cost, &cost->attention, share / (1 - share) / cost->length);
}

static bool is_well_known(const struct cost_model* cost, int knot) {
	return cost->rows[knot].n >= KNOWN && !is_stale(cost, &cost->rows[knot]);
}

/* True if the powers of two on both sides were measured often enough to show the machine's speed. */
static bool is_known(const struct cost_model* cost, int rows) {
	int below = -1, above = 0;
	while (above < COST_KNOTS - 1 && (knot_rows[above] < rows || !is_coarse(above))) {
		below = is_coarse(above) ? above : below;
		above++;
	}
	const bool between = knot_rows[above] != rows && below >= 0;
	return rows == 1 || (is_well_known(cost, above) && (!between || is_well_known(cost, below)));
}

/* A pass of known cost shows the machine's speed. */
static void see_speed(struct cost_model* cost, double seconds) {
	const double mean = cost_plain_seconds(cost);
	const double weight = fmax(1.0 / ++cost->speeds, FOLLOWS);
	cost->seconds = cost->speeds > 1 ? mean + weight * (fmin(seconds, 2 * mean) - mean) : seconds;
	cost->seconds_at = cost->length;
}

/* A batch has no plain steps, and its first pass may hold prompts, whose many rows say little about one. But
 * a pass of several rows takes at least as long as a plain step. One that takes clearly less than was thought
 * of a plain step is the new measure, and row counts are measured anew. (Without this, a server that began
 * with four prompts believed for good that a plain step takes 68 ms in place of 13 and that rows are free.
 * Drafting then brought .48 of plain decoding; Qwen 0.5B, four clients.) */
static void correct_speed(struct cost_model* cost, int rows, double seconds) {
	if (cost->plain_steps > 0 || cost->speeds == 0 || seconds >= SAME_AGAIN * cost_plain_seconds(cost))
		return;
	for (int i = 0; i < COST_KNOTS; i++)
		cost->rows[i].n = 0;
	cost->speeds = 0;
	see_speed(cost, seconds / cost_verify(cost, rows));
}

/* Rows between knots count for the nearest one, along a line from one row. */
void cost_see_full(struct cost_model* cost, int rows, double seconds, double attention) {
	correct_speed(cost, rows, seconds);
	const int64_t since = cost->plain_steps > 0 ? cost->passes - cost->last_plain : INT64_MAX;
	if (rows == 1 || (since <= FRESH && cost->plain_attention > 0))
		see_attention(cost, rows, seconds, attention); /* first, because it moves what was measured before */
	const double v = cost_verify(cost, rows);
	cost->passes++;
	if (rows == 1) {
		if (since > 0 && cost->plain_steps > 0)
			cost->off += 0.25 * (fmin(1, fabs(seconds / cost_plain_seconds(cost) - 1)) - cost->off);
		cost->last_plain = cost->passes;
		cost->plain = seconds;
		cost->plain_at = cost->length;
		cost->plain_attention = cost->length > 0 ? attention * seconds / cost->length : 0;
		cost->plain_steps++;
	}
	const bool fresh = since <= FRESH, known = since <= LAPSED && is_known(cost, rows);
	if (rows == 1 || cost->speeds == 0 || (!fresh && known))
		see_speed(cost, seconds / v);
	struct recent* r = &cost->rows[find_knot(rows, since > LAPSED)];
	const double plain = fresh ? cost->plain : cost_plain_seconds(cost);
	if (rows > 1 && plain > 0 && (fresh || !known))
		add_sample(cost, r, 1 + (seconds / plain - 1) * (r->rows - 1) / (rows - 1));
	else if (rows > 1)
		r->last = cost->passes;
}

double cost_rows_with_heads(const struct cost_model* cost, int rows, int with_head) {
	const double all = pass_bytes_all(&cost->bytes), head = all > 0 ? cost->bytes.stored.head / all : 0;
	return rows - (rows - with_head) * head * (1 - cost_attention(cost));
}

double cost_rest(const struct cost_model* cost, int first) {
	const struct pass_bytes* bytes = &cost->bytes;
	const double cache = cost_attention(cost), block = bytes->stored.attention + bytes->stored.mlp;
	return 1 - first / 2 * (block * (1 - cache) / pass_bytes_all(bytes) + cache / bytes->blocks);
}

bool cost_rows_seen(const struct cost_model* cost, int rows) {
	return rows == 1 ? cost->plain_steps > 0
	                 : cost->rows[find_knot(rows, false)].n > 0 || cost->rows[find_knot(rows, true)].n > 0;
}

int cost_rows_known(const struct cost_model* cost) {
	int known = 1;
	for (int i = 0; i < COST_KNOTS; i++)
		known = cost->rows[i].n > 0 ? knot_rows[i] : known;
	return known;
}

static struct byte_share share_of(const struct cost_model* cost, struct variant v) {
	return pass_bytes_share(&cost->bytes, v, cost_attention(cost));
}

static double ratio_of(const struct cost_model* cost, bool quantized) {
	return trusted_mean(cost, quantized ? &cost->quantized : &cost->draft, 1);
}

double cost_draft(const struct cost_model* cost, struct variant v) {
	const struct byte_share share = share_of(cost, v);
	return share.stored * ratio_of(cost, false) + share.quantized * ratio_of(cost, true);
}

double cost_draft_rows(const struct cost_model* cost, struct variant v, int rows) {
	return v.levels ? rows : cost_verify(cost, rows);
}

double cost_draft_worst(const struct cost_model* cost, struct variant v) {
	const struct recent* r = share_of(cost, v).quantized > 0 ? &cost->quantized : &cost->draft;
	return r->n > 1 ? cost_draft(cost, v) : 1;
}

/* A step with quantized sub-layers measures their cost; the other sub-layers count at their known cost. */
void cost_see_draft(struct cost_model* cost, struct variant v, double seconds) {
	const struct byte_share share = share_of(cost, v);
	const bool quantized = share.quantized > 0;
	const double plain = cost_plain_seconds(cost);
	const double stored = quantized ? share.stored * ratio_of(cost, false) : 0;
	if (plain > 0)
		add_sample(cost, quantized ? &cost->quantized : &cost->draft,
		           fmax(0, seconds / plain - stored) / (quantized ? share.quantized : share.stored));
}

double cost_share(const struct cost_model* cost, struct variant v) {
	const struct byte_share share = share_of(cost, v);
	return share.stored + share.quantized;
}

double cost_head_share(const struct cost_model* cost, struct variant v) {
	const double head = v.quantized_head ? cost->bytes.quantized.head : cost->bytes.stored.head;
	return head * (1 - cost_attention(cost)) / pass_bytes_all(&cost->bytes) / cost_share(cost, v);
}

double cost_matchness(const struct cost_model* cost, struct variant v, int rows) {
	return cost_share(cost, v) * cost_verify(cost, rows) * cost->score.mean;
}

void cost_see_score(struct cost_model* cost, struct variant v, int rows, double seconds) {
	const double thought = cost_plain_seconds(cost) * cost_share(cost, v) * cost_verify(cost, rows);
	if (thought > 0)
		add_sample(cost, &cost->score, seconds / thought);
}

void cost_sub_layers(const struct cost_model* cost, bool quantized, const struct levels* levels,
                     double* attention, double* mlp, double* fixed) {
	const struct layer_bytes bytes = pass_bytes_layers(&cost->bytes, quantized, levels);
	const double cache = cost_attention(cost);
	const double unit = ratio_of(cost, quantized) * (1 - cache) / pass_bytes_all(&cost->bytes);
	*attention = bytes.attention * unit + ratio_of(cost, false) * cache / cost->bytes.blocks;
	*mlp = bytes.mlp * unit;
	*fixed = bytes.head * unit;
}

void cost_channels(const struct cost_model* cost, double kind[COLUMN_KINDS]) {
	const double unit = ratio_of(cost, true) * (1 - cost_attention(cost)) / pass_bytes_all(&cost->bytes);
	for (int k = 0; k < COLUMN_KINDS; k++)
		kind[k] = cost->bytes.kind[k] * unit;
}

double chain_rate(const double* verify, int most, double a, double c) {
	double best = 0, tokens = 1, reach = 1;
	for (int d = 1; d <= most && d < SLICE_ROWS; d++) {
		tokens += reach *= a;
		best = fmax(best, tokens / (d * c + verify[d + 1]));
	}
	return best;
}

double chain_rate_now(const struct cost_model* cost, int most, double a, double c) {
	double verify[SLICE_ROWS + 1];
	for (int n = 1; n <= SLICE_ROWS; n++)
		verify[n] = cost_verify(cost, n);
	return chain_rate(verify, most, a, c);
}

/* e more steps bring next + next² + … + next^e tokens. It looks more than one step ahead, because v(n) may
 * rise in steps. */
static double least_token_cost(const struct cost_model* cost, double c, double next, int d) {
	double tokens = 0, reach = 1, least_cost = INFINITY;
	for (int e = 1; e == 1 || d + e <= MAX_DRAFT; e++) {
		tokens += reach *= next;
		const double verify = cost_verify(cost, d + e + 1) - cost_verify(cost, d + 1);
		least_cost = fmin(least_cost, (e * c + verify) / tokens);
	}
	return least_cost;
}

void set_min_reach(const struct cost_model* cost, double rate, double c, double next,
                   struct draft_policy* policy) {
	for (int d = 1; d <= MAX_DRAFT; d++)
		policy->min_reach[d] = (float)(rate * least_token_cost(cost, c, next, d));
}
