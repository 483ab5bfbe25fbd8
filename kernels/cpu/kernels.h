/* The CPU's inner loops, one table an instruction set, chosen at run time.
 *
 * reference.c is the plain one; avx2.c, avx512.c and neon.c are held to it by tests/checkkernels. Every
 * element of every output is computed by a sequence of operations that depends on shapes and logical
 * positions alone, never on how many rows, threads or tiles share the call: a row alone and the same row
 * among 64 give the same bits. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/columns.h"
#include "kernels/pages.h"

/* Keys and values as attention reads them: one head's rows in logical order of position.
 * Positions [0, base) lie at slots 0…base-1; position base + i lies at slot ancestor[i]; slot i in page
 * i / PAGE_SLOTS. */
struct attention_row {
	const unsigned char* const* page;
	size_t key;        /* where in a page its keys begin, which lie as kernels/cpu/key_layout.h states */
	size_t value;      /* and its values, (PAGE_SLOTS, head_dim); equal to `key`: they are its keys, too */
	size_t slot_bytes; /* distance between slots of values */
	enum dtype type;   /* F16, F32 or Q8_0 */
	int base;
	int n_ancestors;         /* the row itself included */
	const int32_t* ancestor; /* (n_ancestors) slots, root first */
	int from;                /* first position seen (sliding window), 0 without */
	int head_dim;
	int group;            /* query heads that share this key/value head */
	float scale, softcap; /* softcap 0 = none */
	const float* sinks;   /* (group) a score each that takes its share and gives nothing; NULL = none */
	/* (whole and begun pages of LIST_POSITIONS positions) out: of each page the weights of all its positions
	 * and of the group's heads, added up; only where from = 0. NULL: not wanted. */
	float* mass;
};

/* Rows of one sequence, which differ only in n_ancestors, ancestor, from, scale and mass. */
struct attention_bundle {
	const struct attention_row* row;
	int n;
	int same;     /* ancestors, from the root on, that all of them have */
	int in_place; /* ancestors of the first, from the root on, whose slot is their position */
};
struct attention_bundle attention_bundle_of(const struct attention_row*, int n);

/* Attention takes a text in chunks, which are cut at multiples of ATTENTION_CHUNK positions, and joins them
 * in order (as Dao et al. 2023, "Flash-Decoding", do). So it does not matter to the bits of a row which
 * threads take the chunks, and which other rows are beside it. */
enum {
	ATTENTION_CHUNK = 256,
	CHUNK_PAGES = ATTENTION_CHUNK / LIST_POSITIONS,
	CHUNK_SCORES = ATTENTION_CHUNK + 16 /* floats from one query's to the next one's, on other cache lines */
};

/* Sums over some of the positions, of the n·group queries of a call. Weights are e^(score - most). */
struct attention_sums {
	float* most;  /* (queries) the largest score; -FLT_MAX of no position */
	float* total; /* (queries) the weights */
	float* mixed; /* (queries, head_dim) the weighted values */
	float* mass;  /* (queries, CHUNK_PAGES) of a chunk: the weights by page of rows that want their mass */
};

/* One token of a head of the gated delta rule (struct recurrence). */
struct delta_row {
	const float *q, *k; /* (keys) of length 1, q divided by the root of its size */
	const float* v;     /* (values) */
	float decay, beta;
};

/* Bytes of one activation row prepared for products with weights of a type: the floats themselves
 * for F32, F16 and BF16; int8 blocks with scales for the quantized types. 64-byte multiple. */
size_t reference_prepared_bytes(enum dtype weight, int cols);
/* Any activation but those of two inputs or with parameters. */
float reference_activation(enum activation activation, float x);

struct cpu_kernels {
	const char* name;

	/* An activation row for products with weights of a type. out (reference_prepared_bytes) */
	void (*prepare)(enum dtype weight, void* out, const float* x, int cols);

	/* out[i·out_stride + r] = w[r] · x[i] for r in [begin, end), i in [0, n); x holds n prepared rows,
	 * each reference_prepared_bytes apart; n in 1..MAX_ROWS. Each weight is read once for all n rows. */
	void (*matmul)(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
	               const void* x, int n);
	/* Whether it multiplies interleaved rows of a type that a model stores; NULL: of none */
	bool (*interleaves)(enum dtype);

	/* The least |x_j|·norm_j with which a row keeps about `share` of its channels, in (0, 1): a quantile of
	 * some 256 to 512 channels. 0, which keeps all channels but zeros, where share >= 1. */
	float (*column_threshold)(const struct column_map*, const float* x, float share);
	/* The channels with |x_j|·norm_j > threshold, ascending, their x_j and their sizes go to the list's
	 * arrays (kernels/columns.h); returns how many there are. */
	int (*column_keep)(const struct column_map*, struct column_range, const float* x, float threshold,
	                   const struct column_list* to);
	/* out[i·out_stride + o] = output o of the span, which lies in the tile, for each of n rows' kept channels
	 * (kernels/columns.h), for o in [0, span.lines·COLUMN_OUTPUTS). */
	void (*column_product)(float* out, size_t out_stride, const struct column_map*, int64_t tile,
	                       struct column_span, const struct column_list*, int n);

	/* The sums of softmax(scale·q·K)·V over a chunk, which one of the rows sees at least, for one key/value
	 * head. q (group, head_dim) of a row lies row_stride floats after the previous row's. scores: (n·group,
	 * CHUNK_SCORES) scratch */
	void (*attention)(struct attention_sums, const float* q, size_t row_stride,
	                  const struct attention_bundle*, int chunk, float* scores);
	/* to = the sums over its positions and those of `chunk`; mass is left alone. */
	void (*attention_join)(struct attention_sums to, struct attention_sums chunk, int queries, int head_dim);

	/* The state (keys, values) behind a token, of the one before it, which may be the same memory: S = decay
	 * · from; to = S + k ⊗ beta·(v - Sᵀk); out (values) = toᵀq, unless it is NULL. */
	void (*delta_step)(float* to, const float* from, float* out, const struct delta_row*, int keys,
	                   int values);
	/* Mamba-2's: to = decay · from + k ⊗ beta·v. */
	void (*scan_step)(float* to, const float* from, float* out, const struct delta_row*, int keys,
	                  int values);

	/* out = x / sqrt(mean(x²) + epsilon) · (weight + plus), all (n); weight as floats. */
	void (*rms_norm)(float* out, const float* x, const float* weight, float plus, float epsilon, int n);
	/* gate = activation(gate)·up, (n); as enum activation specifies where it is more than that */
	void (*gate)(float* gate, const float* up, enum activation activation, int n);
	/* x += y, (n): adds a sub-layer's output to the hidden state. */
	void (*join)(float* x, const float* y, int n);
	/* Rounds to the cache's type, (n). */
	void (*store)(enum dtype type, void* out, const float* x, int n);
	/* max and sum of exp(x - max) over (n), fixed order; false when a value is not finite */
	bool (*sum_exp)(const float* x, int n, float* max, float* sum);
	/* x = cap·tanh(x / cap), (n) */
	void (*softcap)(float* x, float cap, int n);
	/* Reads `bytes` (a multiple of 256, 64-byte aligned) and folds them, to measure the memory. */
	uint64_t (*read)(const void* memory, size_t bytes);
};

/* Defines a table of the functions with these names in the including file. */
#define CPU_KERNELS(named, prepares, multiplies, interleaved, thresholds, keeps, columns)                    \
	{                                                                                                        \
		.name = named, .prepare = prepares, .matmul = multiplies, .interleaves = interleaved,                \
		.column_threshold = thresholds, .column_keep = keeps, .column_product = columns,                     \
		.attention = attention, .attention_join = attention_join, .delta_step = delta_step,                  \
		.scan_step = scan_step, .rms_norm = rms_norm, .gate = gate, .join = join, .store = store,            \
		.sum_exp = sum_exp, .softcap = softcap, .read = read_memory,                                         \
	}

extern const struct cpu_kernels cpu_reference;
extern const struct cpu_kernels cpu_avx2, cpu_avxvnni, cpu_avx512; /* x86-64 */
extern const struct cpu_kernels cpu_neon, cpu_dotprod, cpu_i8mm;   /* 64-bit ARM */

/* isa: "auto", "reference", "avx2", "avx-vnni", "avx512", "neon", "dotprod", "i8mm". NULL with the error set
 * for an unknown name or one that the processor lacks. */
const struct cpu_kernels* cpu_kernels_choose(const char* isa, struct error*);

/* All tables that this processor runs except the reference's, the widest first; returns how many. */
enum { MAX_ISAS = 8 };
int cpu_kernels_here(const struct cpu_kernels* out[MAX_ISAS]);
