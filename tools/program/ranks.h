/* `mpirun -n N swiftlet …`: N processes that share one model. */
#ifndef SWIFTLET_TOOLS_PROGRAM_RANKS_H
#define SWIFTLET_TOOLS_PROGRAM_RANKS_H

struct process_group;

/* Finds out whether this process is one of several, and joins them. In rank 0, and in a process alone, it
 * returns OPTIONS_GO_ON and the program goes on as ever; the others do what rank 0 needs, and then it returns
 * their exit status. */
int ranks_join(void);
/* Rank 0's, or NULL for a process alone. */
struct process_group* ranks_group(void);

#endif
