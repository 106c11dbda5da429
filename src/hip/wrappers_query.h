/* What the wrappers ask the runtime: which device, captured or not, how much a graph will take.
 *
 * Every question goes to the runtime's own functions one level deeper (gate_enter), so that it is never counted and never
 * answered by us. -1: the runtime has no answer (it will refuse the call itself).
 */
#ifndef AMVGPU_WRAPPERS_QUERY_H
#define AMVGPU_WRAPPERS_QUERY_H

#include "hip_copy.h"

/* HIP's ordinal of the calling thread's device. Asked every time: hipCtxSetCurrent, hipSetValidDevices and others change
 * it too, and a new thread starts on device 0. */
int hip_current_device(const struct hip_copy *copy);

/* The device hipMallocAsync charges: the stream's; the null streams are on the current one. */
int hip_stream_device(const struct hip_copy *copy, hipStream_t stream);
int hip_pool_device(const struct hip_copy *copy, hipMemPool_t pool);
bool hip_pool_is_known(const struct hip_copy *copy, hipMemPool_t pool);

/* An allocation during capture becomes a node and takes memory only at launch. */
bool hip_is_capturing(const struct hip_copy *copy, hipStream_t stream);

/* hipMemCreate: up to 6.4 the location's device, from 7.1 on the current one (clr 7.2 binary; measured on both). */
int hip_memcreate_device(const struct hip_copy *copy, const hipMemAllocationProp *prop);
bool hip_memcreate_is_host(const struct hip_copy *copy, const hipMemAllocationProp *prop);

/* Bytes of all alloc nodes of the graph and of its child graphs. */
uint64_t hip_graph_bytes(const struct hip_copy *copy, hipGraph_t graph, unsigned depth);

#endif
