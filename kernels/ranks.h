/* One backend over several processes: rank 0 broadcasts each call on its backend, and the others make the
 * same call on theirs. A call is a pass's arguments, some kilobytes; results are gathered through struct
 * process_group. */
#pragma once

#include "kernels/backend.h"
#include "kernels/process_group.h"

/* From now on every call on rank 0's backend is broadcast to the others, who must be in ranks_follow with
 * backends opened alike. The backend runs no quantized draft weights any more. Closing it ends their
 * ranks_follow; the group stays open. False with the error set. */
bool ranks_lead(struct backend*, struct process_group*, struct error*);

/* Makes the calls that rank 0 sends until it closes its backend. Then this one is still open. */
void ranks_follow(struct backend*, struct process_group*);
