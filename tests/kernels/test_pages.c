/* Pages that the CPU's caches share: support_pages.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/support_pages.h"

int main(void) {
	static const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
	static struct pages_way way = {.open = cpu_open, .type = types, .n_types = 3, .refused = DTYPE_Q4_0};
	const struct CMUnitTest tests[] = {PAGES_TESTS(&way)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
