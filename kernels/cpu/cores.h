/* How many threads are worth starting: the CPUs that the process is allowed, and of their time no more than
 * its control group may take (what limits a container). Threads beyond that only wait for one another. */
#pragma once

int cores_available(void); /* >= 1 */

/* The limit on the group of `path` ("/a/b") and on those above it, in CPUs, rounded up; 0 without one.
 * root: where the groups' folders are, /sys/fs/cgroup (version 2). */
int cores_of_group(const char* root, const char* path);
