/* SANITIZED: whether every access is checked, by which arithmetic takes ten times as long. A test that
 * repeats the same code on more numbers then repeats it less: the other build decides which numbers come of
 * it. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
