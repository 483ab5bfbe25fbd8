/* Counts the threads that are worth starting: one for each CPU that the process may use, and no more than the
 * CPU time that its control group allows (the limit of a container). Further threads would only wait for one
 * another. */
#pragma once

int cores_available(void); /* >= 1 */

/* The limit on the group of `path` ("/a/b") and on those above it, in CPUs, rounded up; 0 without one.
 * root: where the groups' folders are, /sys/fs/cgroup (version 2). */
int cores_of_group(const char* root, const char* path);
