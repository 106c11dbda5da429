/* Inside of the stand-in libamdhip64. Built three times, with RELEASE 57, 64 and 72, for the SONAMEs .so.5,
 * .so.6, .so.7.
 *
 * Every exported function is HIP_ENTER(name) ... return HIP_LEAVE(result). Where a real release calls one of
 * its own exports through the PLT, so does this one, and only there: everything else is shared by hidden
 * functions.
 */
#ifndef SOFTGPU_HIP_H
#define SOFTGPU_HIP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../src/hip/hip_abi.h"
#include "hsa_abi.h"
#include "softgpu.h"

#define HIP_API __attribute__((visibility("default")))

enum {
	hipErrorNotInitialized = 3,
	hipErrorInvalidContext = 201,
	hipErrorUnsupportedLimit = 215,
	hipErrorInvalidHandle = 400,
	hipErrorNotReady = 600,
	hipErrorContextIsDestroyed = 709,
	hipErrorHostMemoryAlreadyRegistered = 712,
	hipErrorHostMemoryNotRegistered = 713,
	hipErrorStreamCaptureUnsupported = 900,
	hipErrorStreamCaptureInvalidated = 901,
	hipErrorStreamCaptureImplicit = 906,
	hipErrorUnknown = 999,
};

enum hip_function {
#define ALLOC(name, ...) FN_##name,
#define FREE(name, ...) FN_##name,
#define HAND(name, ...) FN_##name,
#define PASS(name, ...) FN_##name,
#define EXTRA(name, ...) FN_##name,
#define STUB(name, ...) FN_##name,
#include "../../src/hip/hip_api.def"
#include "standin_extra.def"
#undef ALLOC
#undef FREE
#undef HAND
#undef PASS
#undef EXTRA
#undef STUB
	FN_COUNT
};

/* What a block is to HIP: block->kind. */
enum hip_kind {
	KIND_DEVICE = 1,
	KIND_HOST,
	KIND_MANAGED,
	KIND_POOL,      /* in use; block->detail is the pool */
	KIND_POOL_FREE, /* kept by the pool */
	KIND_GRAPH,     /* addresses of an alloc node; block->detail is the node's memory */
	KIND_IPC,       /* another process's; block->detail is the mapping */
	KIND_ARRAY,     /* outlives hipDeviceReset */
};

struct pool;
struct stream;

struct device {
	int index; /* HIP's ordinal */
	int row;   /* the physical one */
	hsa_agent_t agent;
	hsa_amd_memory_pool_t memory;
	struct pool *default_pool, *graph_pool, *current_pool;
	struct stream *streams;      /* under hip_lock */
	_Atomic bool has_null_queue; /* the null stream's queue is made at its first use */
	int references;              /* of the primary context */
};

struct hip_thread {
	int device;
	hipError_t last_error;
	hipError_t last_command_error;
	int captures;     /* of mode Global or ThreadLocal begun by this thread */
	int capture_mode; /* hipThreadExchangeStreamCaptureMode */
	int context_depth;
	int contexts[16];
};

extern _Thread_local struct hip_thread hip_thread __attribute__((tls_model("initial-exec")));
extern const struct softgpu *hip_softgpu;
extern int hip_release; /* 52, 57, 64 or 72 */
extern struct device hip_devices[SOFTGPU_DEVICES_MAX];
extern int hip_device_count;
extern hsa_agent_t hip_host_agent;
extern hsa_amd_memory_pool_t hip_host_memory;
extern pthread_mutex_t
    hip_lock; /* lists of streams, graphs and handles; not held over calls into HSA's memory */
extern _Atomic bool hip_is_ready;
extern bool hip_has_failures;
extern const char hip_self; /* its address marks blocks as this copy's */

hipError_t hip_start(void);
hipError_t hip_failure_due(enum hip_function function);

static inline hipError_t hip_enter(enum hip_function function)
{
	if (__builtin_expect(!atomic_load_explicit(&hip_is_ready, memory_order_acquire), 0)) {
		hipError_t error = hip_start();

		if (error)
			return error;
	}
	return __builtin_expect(hip_has_failures, 0) ? hip_failure_due(function) : hipSuccess;
}

/* Up to 6.4 success clears the last error; from 7.0 only real errors are kept, until they are asked for. */
static inline hipError_t hip_leave(hipError_t error)
{
	hip_thread.last_command_error = error;
	if (hip_release < 70 || (error && error != hipErrorNotReady))
		hip_thread.last_error = error;
	return error;
}

#define HIP_ENTER(name)                                                                                      \
	do {                                                                                                 \
		hipError_t hip_error_ = hip_enter(FN_##name);                                                \
		if (__builtin_expect(hip_error_, 0))                                                         \
			return hip_leave(hip_error_);                                                        \
	} while (0)
#define HIP_LEAVE(error) hip_leave(error)

static inline struct device *hip_device_here(void)
{
	return &hip_devices[hip_thread.device];
}

/* hip_handle.c: which opaque pointers are alive, by kind. */
enum handle_kind {
	HANDLE_STREAM = 1,
	HANDLE_ARRAY,
	HANDLE_POOL,
	HANDLE_GRAPH,
	HANDLE_EXEC,
	HANDLE_NODE,
	HANDLE_MEMORY
};
void handle_add(const void *handle, enum handle_kind kind);
bool handle_is(const void *handle, enum handle_kind kind);
bool handle_remove(const void *handle, enum handle_kind kind); /* false if it was not there */
void handle_forget(void);

/* hip_memory.c */
hipError_t hip_take(struct device *device, size_t size, enum hip_kind kind, void **address);
hipError_t hip_free(void *address);
struct block *hip_find(const void *address);
/* All that a device waits for is done; up to 6.4 pools give back what they keep. */
void hip_device_settle(struct device *device);
void hip_query_memory(void);
bool hip_capture_forbids(void);

/* hip_pool.c */
hipError_t pool_start(struct device *device);
void pool_drop_all(struct device *device);
void pool_forget(void); /* in a child that may start anew */
void pool_give(struct pool *pool, struct block *block);
void pool_trim_device(struct device *device);
hipError_t pool_take(struct pool *pool, size_t size, void **address);
void pool_trim(struct pool *pool, uint64_t keep);
int pool_handle_device(const struct pool *pool);

/* hip_stream.c */
struct device *stream_device(hipStream_t stream); /* NULL: no such stream */
void stream_drop_all(struct device *device);
void stream_use(hipStream_t stream); /* the null stream's queue is made */

/* hip_graph.c */
struct graph_memory;
hipError_t graph_memory_give(struct graph_memory *memory);
void graph_settle(struct device *device);
void graph_drop_all(struct device *device);
void graph_forget(void);
hipGraph_t graph_new(struct device *device);
/* The graph that a capturing stream records into, or NULL. */
struct ihipGraph *stream_capture(hipStream_t stream);
hipError_t graph_capture_alloc(struct ihipGraph *graph, size_t size, void **address);
hipError_t graph_capture_free(struct ihipGraph *graph, void *address);

/* hip_vmm.c */
void vmm_drop_all(struct device *device);
void vmm_forget(void);

/* hip_ipc.c */
void ipc_detach(struct block *block);
void ipc_withdraw(struct block *block);

/* hip_stub.c */
hipError_t hip_not_supported(enum hip_function function);

#endif
