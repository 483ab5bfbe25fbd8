/* One backend over several processes: rank 0 tells the others each call on its backend, and they make the
 * same call on theirs. What is said is a pass's arguments, some kilobytes; what they compute goes through
 * struct exchange. */
#ifndef SWIFTLET_KERNELS_RANKS_H
#define SWIFTLET_KERNELS_RANKS_H

#include "kernels/backend.h"
#include "kernels/exchange.h"

/* From now on, whatever is called on rank 0's backend is told the others, who must be in ranks_follow with
 * backends opened alike. The backend runs no quantized draft weights any more. Closing it ends their
 * ranks_follow; the exchange stays open. False with the error set. */
bool ranks_lead(struct backend*, struct exchange*, struct error*);

/* Makes the calls that rank 0 tells until it closes its backend. Then this one is still open. */
void ranks_follow(struct backend*, struct exchange*);

#endif
