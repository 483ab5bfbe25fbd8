/* A library that claims to be NCCL of whatever version FAKE_NCCL_VERSION has, and does nothing; built a
 * second time without the calls that are needed of it. */
#include <stdlib.h>

#define SEEN __attribute__((visibility("default")))

SEEN int ncclGetVersion(int* version);
int ncclGetVersion(int* version) {
	*version = atoi(getenv("FAKE_NCCL_VERSION"));
	return 0;
}

#ifndef WITHOUT_CALLS
#define CALL(name)                                                                                           \
	SEEN int name(void);                                                                                     \
	int name(void) { return 0; }
CALL(ncclCommInitAll)
CALL(ncclCommDestroy)
CALL(ncclCommAbort)
CALL(ncclCommGetAsyncError)
CALL(ncclAllGather)
CALL(ncclGroupStart)
CALL(ncclGroupEnd)
CALL(ncclGetErrorString)
#endif
