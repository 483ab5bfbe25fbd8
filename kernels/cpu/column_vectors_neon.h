/* The operations that column_product.h needs, with NEON's vectors, with and without dotprod. */
INLINED floats floats_load_anywhere(const float* p) { return vld1q_f32(p); }
INLINED ints bytes_low(ints a, ints b) { return ints_from_bytes(vzip1q_u8(bytes_of(a), bytes_of(b))); }
INLINED ints bytes_high(ints a, ints b) { return ints_from_bytes(vzip2q_u8(bytes_of(a), bytes_of(b))); }
INLINED uint16x8_t words_of(ints v) { return vreinterpretq_u16_s32(v); }
INLINED ints words_low(ints a, ints b) { return vreinterpretq_s32_u16(vzip1q_u16(words_of(a), words_of(b))); }
INLINED ints words_high(ints a, ints b) {
	return vreinterpretq_s32_u16(vzip2q_u16(words_of(a), words_of(b)));
}
