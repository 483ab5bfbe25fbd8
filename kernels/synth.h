/* Describes the elements of a synthetic weight tensor. A counter-based generator makes them, so that a CPU
 * and a GPU make the same values in any order. kernels/synth_value.h computes them; core/model/synth.c
 * explains how the fields are chosen. */
#pragma once

#include <stdint.h>

enum synth_kind { SYNTH_NONE, SYNTH_CONSTANT, SYNTH_NORMAL, SYNTH_EMBEDDING, SYNTH_HEAD };

/* SYNTH_CONSTANT: every element is `scale`. Else the element at (row, column) is
 *   scale · (common · u + own · z)
 * with z its own draw and u a draw shared by the rows of a cluster; both are whole numbers of standard
 * deviation SYNTH_DEVIATION. SYNTH_NORMAL has common 0 and own 1. SYNTH_EMBEDDING takes u of the row's
 * cluster, SYNTH_HEAD that of the cluster before it on the cycle. */
struct synth_tensor {
	enum synth_kind kind;
	uint64_t seed;      /* the tensor's own */
	uint64_t shared;    /* seed of the cluster vectors and their cycle, the same for embedding and head */
	float scale;        /* the constant, or one unit of the whole numbers */
	float scale_second; /* scale of the rows of the second half; = scale where halves is 1 */
	int halves;         /* 2: block-diagonal over rows and columns, zeros elsewhere; else 1 */
	int32_t common, own;
	int32_t clusters; /* clusters a half, embedding and head */
};
