/* The system's memory, in bytes, as it reports it. */
#pragma once

/* The memory that programs may still take on this machine and in the process's control group, as the system
 * estimates. Files that are mapped count as free. 0: unknown. */
double memory_available(void);
/* The number that a file of the system holds; 0: it holds none. */
double number_in_file(const char* path);
