/* The instruction sets that this processor can run. */
#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Compilers do not agree on a name for it. */
static bool f16c_supported(void) {
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool avx2_supported(void) {
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c_supported();
}

bool avxvnni_supported(void) {
	unsigned a, b, c, d;
	return avx2_supported() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1 << 4);
}

bool avx512_supported(void) {
	return avx2_supported() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vnni");
}

#else

bool avx2_supported(void) { return false; }
bool avxvnni_supported(void) { return false; }
bool avx512_supported(void) { return false; }

#endif

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

bool dotprod_supported(void) { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
bool i8mm_supported(void) { return dotprod_supported() && getauxval(AT_HWCAP2) & HWCAP2_I8MM; }

#else

bool dotprod_supported(void) { return false; }
bool i8mm_supported(void) { return false; }

#endif
