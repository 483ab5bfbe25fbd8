/* How much memory there is for what is sized by it. */
#ifndef SWIFTLET_CORE_MODEL_FREE_MEMORY_H
#define SWIFTLET_CORE_MODEL_FREE_MEMORY_H

/* Bytes that programs may still take, of the machine and of the process's control group, by the system's own
 * estimate; 0: unknown. */
double memory_available(void);

#endif
