/* The part of NCCL that several GPUs need, loaded when they are opened. Neither its headers nor its library
 * are needed to build. The declarations follow NCCL's documented API (docs.nvidia.com/deeplearning/nccl),
 * which has kept them since 2.0. A test replaces them by copies within one process. */
#pragma once

#include <stddef.h>

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct ncclComm; /* one device's communicator */

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 }; /* of ncclResult_t */
enum { NCCL_BYTES = 0 };                         /* of ncclDataType_t: ncclInt8 */

struct nccl_calls {
	int (*comm_init_all)(struct ncclComm**, int devices, const int* device);
	int (*comm_destroy)(struct ncclComm*);
	int (*comm_abort)(struct ncclComm*);
	int (*comm_get_async_error)(struct ncclComm*, int* status);
	/* receive (devices, count): each device's `count`, in stream order */
	int (*all_gather)(const void* send, void* receive, size_t count, int type, struct ncclComm*,
	                  struct CUstream_st*);
	int (*group_start)(void);
	int (*group_end)(void);
	const char* (*get_error_string)(int status);
};

/* Loads the library that SWIFTLET_NCCL names, or libnccl.so.2 from the usual places. False with the error set
 * when it is missing or older than 2.18. It stays loaded. */
bool nccl_find(struct nccl_calls*, struct error*);

#ifdef __cplusplus
}
#endif
