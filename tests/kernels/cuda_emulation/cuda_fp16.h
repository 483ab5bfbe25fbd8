/* Half precision for the emulation: conversions by the compiler's own type. */
#pragma once

#include "cuda_runtime.h"

struct __half {
	uint16_t bits;
};
struct alignas(4) __half2 {
	__half x, y;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half h) {
	_Float16 x;
	memcpy(&x, &h, 2);
	return (float)x;
}
inline __half __float2half_rn(float f) {
	const _Float16 x = (_Float16)f;
	__half h;
	memcpy(&h, &x, 2);
	return h;
}
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline __half2 __half2half2(__half h) { return {h, h}; }
inline __half2 __hsub2(__half2 a, __half2 b) {
	return {__float2half_rn(__half2float(a.x) - __half2float(b.x)),
	        __float2half_rn(__half2float(a.y) - __half2float(b.y))};
}
