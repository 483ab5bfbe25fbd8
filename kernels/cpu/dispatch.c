/* Chooses the table of kernels: the widest that the processor has, or the requested one. */
#include "kernels/cpu/kernels.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#define ON_X86(table) &table
#else
#define ON_X86(table) NULL
#endif
#if defined(__aarch64__)
#define ON_ARM(table) &table
#else
#define ON_ARM(table) NULL
#endif

static bool runs_everywhere(void) { return true; }

/* The widest of a processor first; kernels NULL on other architectures */
static const struct {
	const char* name;
	const struct cpu_kernels* kernels;
	bool (*supported)(void);
} isas[] = {
    {"avx512", ON_X86(cpu_avx512), avx512_supported},    {"avx-vnni", ON_X86(cpu_avxvnni), avxvnni_supported},
    {"avx2", ON_X86(cpu_avx2), avx2_supported},          {"i8mm", ON_ARM(cpu_i8mm), i8mm_supported},
    {"dotprod", ON_ARM(cpu_dotprod), dotprod_supported}, {"neon", ON_ARM(cpu_neon), runs_everywhere},
    {"reference", &cpu_reference, runs_everywhere},
};
enum { ISAS = sizeof isas / sizeof *isas };

const struct cpu_kernels* cpu_kernels_choose(const char* isa, struct error* error) {
	const bool automatic = !isa || strcmp(isa, "auto") == 0;
	bool known = false;
	char names[128] = "";
	for (size_t i = 0; i < ISAS; i++) {
		const bool asked = !automatic && strcmp(isa, isas[i].name) == 0;
		if ((automatic || asked) && isas[i].kernels && isas[i].supported())
			return isas[i].kernels;
		known |= asked;
		const size_t used = strlen(names);
		snprintf(names + used, sizeof names - used, ", %s", isas[i].name);
	}
	if (known)
		error_set(error, "this processor lacks the instruction set \"%s\"", isa);
	else
		error_set(error, "unknown instruction set \"%s\": expected auto%s", isa, names);
	return NULL;
}

int cpu_kernels_here(const struct cpu_kernels* out[MAX_ISAS]) {
	int n = 0;
	for (size_t i = 0; i < ISAS; i++)
		if (isas[i].kernels && isas[i].kernels != &cpu_reference && isas[i].supported())
			out[n++] = isas[i].kernels;
	return n;
}
