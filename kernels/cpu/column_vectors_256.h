/* The operations that column_product.h needs, with vectors of 256 bits, the same with and without AVX-VNNI.
 */
INLINED floats floats_load_anywhere(const float* p) { return _mm256_loadu_ps(p); }
INLINED ints bytes_low(ints a, ints b) { return _mm256_unpacklo_epi8(a, b); }
INLINED ints bytes_high(ints a, ints b) { return _mm256_unpackhi_epi8(a, b); }
INLINED ints words_low(ints a, ints b) { return _mm256_unpacklo_epi16(a, b); }
INLINED ints words_high(ints a, ints b) { return _mm256_unpackhi_epi16(a, b); }
