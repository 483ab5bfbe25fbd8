/* Which table of kernels runs: the widest the processor has, or the one asked for. */
#include "kernels/cpu/kernels.h"

#include <string.h>

#include "kernels/cpu/matmul.h"

const struct cpu_kernels* cpu_kernels_choose(const char* isa, struct error* error) {
	const bool automatic = !isa || strcmp(isa, "auto") == 0;
	if (!automatic && strcmp(isa, "reference") == 0)
		return &cpu_reference;
	const bool avx2 = !automatic && strcmp(isa, "avx2") == 0;
	const bool avxvnni = !automatic && strcmp(isa, "avx-vnni") == 0;
	const bool avx512 = !automatic && strcmp(isa, "avx512") == 0;
	if (!automatic && !avx2 && !avxvnni && !avx512) {
		error_set(error, "unknown instruction set \"%s\": expected auto, reference, avx2, avx-vnni or avx512",
		          isa);
		return NULL;
	}
#if defined(__x86_64__)
	if ((automatic || avx512) && avx512_supported())
		return &cpu_avx512;
	if ((automatic || avxvnni) && avxvnni_supported())
		return &cpu_avxvnni;
	if ((automatic || avx2) && avx2_supported())
		return &cpu_avx2;
#endif
	if (automatic)
		return &cpu_reference;
	error_set(error, "this processor lacks the instruction set \"%s\"", isa);
	return NULL;
}
