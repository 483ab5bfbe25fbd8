/* `mpirun -n N swiftlet …`: N processes that share one model. */
#pragma once

struct process_group;

/* Joins this process to the others, if there are any. In rank 0, and in a single process, returns
 * OPTIONS_GO_ON, and the program continues as usual. Other ranks serve rank 0 here, and then return their
 * exit status. */
int ranks_join(void);
/* Rank 0's, or NULL for a process alone. */
struct process_group* ranks_group(void);
