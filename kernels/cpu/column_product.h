/* Products of a row's kept channels with weights by input channel (kernels/columns.h), over a vector type.
 *
 * Included by one source file an instruction set, which defines before it `ints` and `floats` of LANES lanes,
 * the operations on them that matmul_quantized.h asks for, to_all, and
 *
 *   bytes_low, bytes_high(a, b)  the bytes of a and b interleaved, of the low or high half of each 16 bytes
 *
 *   words_low, words_high(a, b)  the same of 16-bit words
 *
 *   codes_dot(sum, codes, q)     sum + in each lane four bytes of `codes`, 0…15, times four signed bytes of q
 *
 *   codes_widen(sum, narrow)     sum + each lane's two sums of 16 bits
 *
 * If COLUMN_NARROW is not 0, codes_dot sums in 16 bits, for at most COLUMN_NARROW calls, and codes_widen
 * is needed. If COLUMN_WHOLE is not 0, codes_dot takes codes of 0…255.
 *
 * A line is read in parts of a vector. The bytes of four channels are interleaved, so that each lane holds
 * four channels' codes of two outputs, in the low and high nibbles. */
#include <string.h>

#include "kernels/columns.h"
#include "kernels/cpu/matmul.h"
#include "kernels/lanes.h"

enum { COLUMN_PARTS = COLUMN_LINE / (LANES * 4) };

/* Channels that are read side by side. More share loads and stores of the sums; fewer are runs that a
 * processor can follow. Sums in 16 bits are widened after as many. */
#if COLUMN_NARROW
enum { COLUMN_BESIDE = 4 * COLUMN_NARROW };
#else
enum { COLUMN_BESIDE = 16 };
#endif

/* Lines ahead that are fetched, to cover the latency of memory: of the same channels, and behind their last
 * line of the next channels. Into the second-level cache (matmul.h): the same line of the next channels. */
enum { COLUMN_AHEAD = 4 };

/* Cycles between two fetches into the second-level cache, if a channel has many lines. An AMD processor would
 * execute the fetches of several lines at once, long before their products, and its loads would wait for
 * them. Products of shorter vectors take so long that they would only wait (docs/lessons.md). */
enum { COLUMN_PACE = 6, COLUMN_PACED_LINES = 24 };

/* Some kept channels side by side, for some neighbouring lines. */
struct channels_beside {
	const uint8_t* at[COLUMN_BESIDE];   /* (n) the first of a channel's lines */
	const uint8_t* next[COLUMN_BESIDE]; /* of the channels that follow, or of these */
	const float* value;                 /* (n) their activations */
	/* four activations times one scale of each of four channels: word 4·line + k */
	uint32_t q[COLUMN_BESIDE / 4][COLUMN_TILE_LINES * COLUMN_SCALES];
	int n; /* a multiple of 4 */
};

/* The sums of a group of channels */
struct group_sums {
	_Alignas(64) int32_t all[COLUMN_TILE_LINES * COLUMN_SCALES]; /* the activations, as codes_dot sums */
	_Alignas(64) int32_t dot[COLUMN_TILE_LINES][COLUMN_OUTPUTS]; /* the integer products */
};

/* A vector of scales from the bytes at `codes` */
INLINED lanes scales_at(const uint8_t* codes) {
	return (lanes)((load_bytes(codes) << 20) + (COLUMN_LEAST_EXPONENT << 23));
}

/* Some neighbouring lines of a map */
struct map_lines {
	const uint8_t* codes; /* of channel 0 */
	size_t run;           /* bytes to the next channel */
	ptrdiff_t scale;      /* from a channel's codes to its scales for these lines */
	int scale_lines;      /* cache lines in which the scales lie */
	int lines;
};

/* What is fetched while one of a run's cache lines, of scales or codes, is read: the same channels' line
 * further on, or the next channels'. */
struct column_fetch {
	const uint8_t* const* at;
	ptrdiff_t offset;
	bool far;     /* into the second-level cache */
	bool paced;   /* by COLUMN_PACE */
	size_t* zero; /* what a paced fetch adds to itself once a cycle, and then to its address */
};

/* For cache line i of the run: scales count from 0, codes from scale_lines on. */
INLINED struct column_fetch fetch_beside(const struct channels_beside* c, const struct map_lines* m,
                                         size_t* zero, int i) {
	const bool far = fetches_to_second_level();
	const int all = m->scale_lines + m->lines, there = i + (far || all < COLUMN_AHEAD ? all : COLUMN_AHEAD);
	const int line = there < all ? there : there - all;
	const ptrdiff_t offset =
	    line < m->scale_lines ? m->scale + line * COLUMN_LINE : (line - m->scale_lines) * COLUMN_LINE;
	return (struct column_fetch){.at = there < all ? c->at : c->next,
	                             .offset = offset,
	                             .far = far,
	                             .paced = LANES == 16 && far && m->lines >= COLUMN_PACED_LINES,
	                             .zero = zero};
}

INLINED void fetch_four(struct column_fetch fetch, int i) {
	if (!fetch.paced) {
		UNROLLED for (int j = i; j < i + 4; j++) fetch_line(fetch.at[j] + fetch.offset, fetch.far);
		return;
	}
	size_t zero = *fetch.zero;
	UNROLLED for (int j = i; j < i + 4; j++) {
		UNROLLED for (int k = 0; k < COLUMN_PACE; k++) {
			zero += zero;
			KEPT(zero);
		}
		fetch_line(fetch.at[j] + fetch.offset + zero, true);
	}
	*fetch.zero = zero;
}

/* Multiplies the activations of four channels with their scales for all lines, and rounds. Reads up to
 * FLOAT_LANES - 4 bytes behind the scales, where the run goes on. */
INLINED void quantize_four(struct channels_beside* c, const struct map_lines* m, struct group_sums* sums,
                           size_t* zero, int i) {
	for (int line = 0; line < m->scale_lines; line++)
		fetch_four(fetch_beside(c, m, zero, line), i);
	for (int w = 0; w < m->lines * COLUMN_SCALES; w += FLOAT_LANES) {
		indices four = {0};
		UNROLLED for (int j = 0; j < 4; j++) {
			/* 3·2^22 is so large that nothing behind the point has room beside it: the low bits are the whole
			 * number */
			const indices q =
			    (indices)(c->value[i + j] * scales_at(c->at[i + j] + m->scale + w) + 12582912.0f);
			four |= (q & 255) << 8 * j;
		}
		memcpy(c->q[i / 4] + w, &four, sizeof four);
		const ints sum = codes_dot(ints_load(sums->all + w), ints_bytes(1), (ints)four);
		ints_store(sums->all + w, sum);
	}
}

/* GCC 12 otherwise stores loaded vectors to the stack and loads them again. */
#if defined(__AVX512F__)
#define COLUMN_KEPT(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#elif defined(__AVX2__)
#define COLUMN_KEPT(a, b, c, d) __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d))
#else
#define COLUMN_KEPT(a, b, c, d) (void)0
#endif

/* Vectors of four channels' lines, `offset` bytes from their begins, interleaved by channel */
INLINED void interleave_four(ints out[4], const uint8_t* const at[4], int offset) {
	ints a = ints_load_anywhere(at[0] + offset), b = ints_load_anywhere(at[1] + offset);
	ints c = ints_load_anywhere(at[2] + offset), d = ints_load_anywhere(at[3] + offset);
	COLUMN_KEPT(a, b, c, d);
	const ints ab = bytes_low(a, b), ba = bytes_high(a, b), cd = bytes_low(c, d), dc = bytes_high(c, d);
	out[0] = words_low(ab, cd);
	out[1] = words_high(ab, cd);
	out[2] = words_low(ba, dc);
	out[3] = words_high(ba, dc);
}

/* What is multiplied for the outputs of the high nibbles. Whole bytes are 16·high + low, and the products of
 * the low nibbles are subtracted from the sums. That saves two instructions a vector. */
INLINED ints high_codes(ints bytes) {
	return COLUMN_WHOLE ? bytes : ints_and(ints_right(bytes, 4), ints_bytes(15));
}

/* sum (8) += the products of four channels, from `i` on, with part p of a line */
INLINED void add_four(ints sum[8], const struct channels_beside* c, int i, int line, int p) {
	ints four[4];
	interleave_four(four, c->at + i, line * COLUMN_LINE + p * LANES * 4);
	UNROLLED for (int k = 0; k < 4; k++) {
		const ints activations = to_all(&c->q[i / 4][line * COLUMN_SCALES + k]);
		sum[2 * k] = codes_dot(sum[2 * k], ints_and(four[k], ints_bytes(15)), activations);
		sum[2 * k + 1] = codes_dot(sum[2 * k + 1], high_codes(four[k]), activations);
	}
}

/* Adds the products of n channels, from `from` on, with part p of a line to the sums, or begins the sums. */
INLINED void add_dots(int32_t* to, const struct channels_beside* c, int from, int n, int line, int p,
                      bool first, struct column_fetch fetch) {
	ints sum[8], dots[8];
	UNROLLED for (int k = 0; k < 8; k++) sum[k] = first ? ints_set(0) : ints_load(to + 16 * k);
	UNROLLED for (int k = 0; k < 8; k++) dots[k] = COLUMN_NARROW ? ints_set(0) : sum[k];
	UNROLLED for (int i = from; i < from + n; i += 4) {
		if (p == 0)
			fetch_four(fetch, i);
		add_four(dots, c, i, line, p);
	}
#if COLUMN_NARROW
	UNROLLED for (int k = 0; k < 8; k++) dots[k] = codes_widen(sum[k], dots[k]);
#endif
	UNROLLED for (int k = 0; k < 8; k++) ints_store(to + 16 * k, dots[k]);
}

/* The channels' products with all lines join the group's sums. */
static void add_channels(struct group_sums* sums, struct channels_beside* c, const struct map_lines* m,
                         bool first) {
	size_t zero = 0;
	KEPT(zero);
	for (int i = 0; i < c->n; i += 4)
		quantize_four(c, m, sums, &zero, i);
	for (int line = 0; line < m->lines; line++) {
		const struct column_fetch fetch = fetch_beside(c, m, &zero, m->scale_lines + line);
		UNROLLED for (int p = 0; p < COLUMN_PARTS; p++) {
			int32_t* const to = sums->dot[line] + LANES * p;
			const struct channels_beside* again = c;
			/* or activations that two parts need would be kept, and drive sums out of the registers */
			KEPT(again);
			if (c->n == COLUMN_BESIDE)
				add_dots(to, again, 0, COLUMN_BESIDE, line, p, first, fetch);
			else
				for (int i = 0; i < c->n; i += 4)
					add_dots(to, again, i, 4, line, p, first && i == 0, fetch);
		}
	}
}

/* 16 times the products of the codes, of LANES outputs from i on */
INLINED ints sixteen_dots(const int32_t* dot, int i) {
	return COLUMN_WHOLE && i & 16 ? ints_sub(ints_load(dot + i), ints_load(dot + i - 16))
	                              : ints_left(ints_load(dot + i), 4);
}

/* out (lines, COLUMN_OUTPUTS) += the group's products: (16·code - 120)·q / 16, so that the 7.5 that codes lie
 * above 0 stays a whole number */
static void add_sums(float* out, struct group_sums* sums, int lines, float step) {
	step /= 16;
#if COLUMN_NARROW
	for (int i = 0; i < lines * COLUMN_SCALES; i += LANES)
		ints_store(sums->all + i, codes_widen(ints_set(0), ints_load(sums->all + i)));
#endif
	for (int i = 0; i < lines * COLUMN_OUTPUTS; i += LANES) {
		const ints exact = ints_sub(sixteen_dots(sums->dot[0], i), ints_set(120 * sums->all[i / 32]));
		const floats product = floats_mul(floats_from_ints(exact), float_to_all(&step));
		floats_store_anywhere(out + i, floats_add(floats_load_anywhere(out + i), product));
	}
}

static void add_group(float* out, const struct map_lines* m, const struct column_list* list, int from) {
	const int left = list->n - from, n = left < COLUMN_GROUP ? left : COLUMN_GROUP;
	struct group_sums sums;
	struct channels_beside c;
	memset(sums.all, 0, sizeof sums.all);
	for (int i = from; i < from + n; i += COLUMN_BESIDE) {
		c.n = from + n - i < COLUMN_BESIDE ? from + n - i : COLUMN_BESIDE;
		c.value = list->value + i;
		for (int j = 0; j < c.n; j++) {
			const int next = i + j + COLUMN_BESIDE < list->n ? i + j + COLUMN_BESIDE : i + j;
			c.at[j] = m->codes + list->channel[i + j] * m->run;
			c.next[j] = m->codes + list->channel[next] * m->run;
		}
		add_channels(&sums, &c, m, i == from);
	}
	add_sums(out, &sums, m->lines, list->step[from / COLUMN_GROUP]);
}

/* add_group fetches channels that follow others, so nothing has fetched the first ones. (Attention's maps
 * take .96 of the time, gate and up .98, down as long; Zen 4.) */
INLINED void fetch_first(const struct map_lines* m, const struct column_list* list) {
	for (int i = 0; i < COLUMN_BESIDE && i < list->n; i++) {
		const uint8_t* codes = m->codes + list->channel[i] * m->run;
		for (int line = 0; line < m->scale_lines; line++)
			fetch_line(codes + m->scale + line * COLUMN_LINE, true);
		for (int line = 0; line < m->lines; line++)
			fetch_line(codes + line * COLUMN_LINE, true);
	}
}

static void column_product(float* out, size_t out_stride, const struct column_map* map, int64_t tile,
                           struct column_span span, const struct column_list* list, int n) {
	const struct column_span all = column_tile(map->outputs, tile);
	const int first = (int)(span.line - all.line), scale = first * COLUMN_SCALES;
	const size_t codes = column_run_scales(all.lines) + (size_t)first * COLUMN_LINE;
	const int last = scale + span.lines * COLUMN_SCALES - 1;
	const struct map_lines m = {.codes =
	                                map->runs + column_tile_offset(map->outputs, map->channels, tile) + codes,
	                            .run = column_run(all.lines),
	                            .scale = scale - (ptrdiff_t)codes,
	                            .scale_lines = last / COLUMN_LINE - scale / COLUMN_LINE + 1,
	                            .lines = span.lines};
	int most = 0;
	if (fetches_to_second_level())
		fetch_first(&m, list);
	for (int row = 0; row < n; row++) {
		memset(out + (size_t)row * out_stride, 0, (size_t)span.lines * COLUMN_OUTPUTS * sizeof *out);
		most = list[row].n > most ? list[row].n : most;
	}
	/* group by group: what several rows read of a group's channels lies in the cache for the next row */
	for (int from = 0; from < most; from += COLUMN_GROUP)
		for (int row = 0; row < n; row++)
			if (from < list[row].n)
				add_group(out + (size_t)row * out_stride, &m, &list[row], from);
}
