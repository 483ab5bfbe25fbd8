/* How much memory there is for what is sized by it. */
#ifndef SWIFTLET_CORE_MODEL_FREE_MEMORY_H
#define SWIFTLET_CORE_MODEL_FREE_MEMORY_H

/* Bytes that programs may still take, of the machine and of the process's control group, by the system's own
 * estimate; 0: unknown. */
double memory_available(void);
/* The number that a file of the system holds; 0: it holds none, or there is no such file. */
double number_in(const char* path);

#endif
