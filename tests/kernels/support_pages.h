/* Pages that caches share: found by content, the same bits, copied where a sequence goes on in one's middle,
 * kept while there is room, given back; and trees whose rows lie in several. Each is a cmocka test whose
 * state is the way to open a backend. */
#pragma once

#include "kernels/backend.h"

struct pages_way {
	struct backend* (*open)(const struct weight_table*, const struct backend_options*, struct error*);
	int devices;            /* whose prefill is exact */
	const enum dtype* type; /* (n_types) that caches may have */
	int n_types;
	enum dtype refused;
};

void a_prefix_is_found_and_has_the_same_bits(void** way);
void equal_texts_hold_one_memory(void** way);
void what_is_not_the_models_text_is_not_found(void** way);
void tenants_find_their_own_alone(void** way);
void too_little_memory_is_refused(void** way);
void a_path_is_kept_over_borders(void** way);
void those_who_share_go_on_together(void** way);

#define PAGES_TESTS(way)                                                                                     \
	cmocka_unit_test_prestate(a_prefix_is_found_and_has_the_same_bits, way),                                 \
	    cmocka_unit_test_prestate(equal_texts_hold_one_memory, way),                                         \
	    cmocka_unit_test_prestate(what_is_not_the_models_text_is_not_found, way),                            \
	    cmocka_unit_test_prestate(tenants_find_their_own_alone, way),                                        \
	    cmocka_unit_test_prestate(too_little_memory_is_refused, way),                                        \
	    cmocka_unit_test_prestate(a_path_is_kept_over_borders, way),                                         \
	    cmocka_unit_test_prestate(those_who_share_go_on_together, way)
