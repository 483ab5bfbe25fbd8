#pragma once

#include "cuda_runtime.h"

struct __nv_bfloat16 {
	uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
	__nv_bfloat16 x, y;
};
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline float __bfloat162float(__nv_bfloat16 x) {
	const uint32_t bits = (uint32_t)x.bits << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}
inline __nv_bfloat16 __float2bfloat16_rn(float f) { /* to nearest, ties to even */
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if (f != f)
		return {0x7fff};
	return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
	return {__float2bfloat16_rn(__bfloat162float(a.x) - __bfloat162float(b.x)),
	        __float2bfloat16_rn(__bfloat162float(a.y) - __bfloat162float(b.y))};
}
