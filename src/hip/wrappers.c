/* The wrappers, expanded from the table, and those written by hand.
 *
 * A wrapper runs instead of the runtime's function, on the program's thread. It never calls anything that a capturing stream
 * forbids, holds no lock over the real call, and leaves outputs and the last error as the runtime does.
 */
#include "wrappers_query.h"

#include "gate.h"
#include "memory_size.h"
#include "migration.h"
#include "settings.h"
#include "../sys/log.h"
#include "../sys/sys.h"

/* What is decided at compile time for most functions of the table. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static struct hip_copy hip_copies[HIP_COPIES];

#define AND_COPY(...) __VA_ARGS__ __VA_OPT__(, ) struct hip_copy *copy
#define REAL(name, params) ((hipError_t(*) params)copy->original[HIP_##name])

#define CLASS_POINTER TRACK_POINTER
#define CLASS_MANAGED TRACK_MANAGED
#define CLASS_ARRAY TRACK_ARRAY
#define CLASS_HANDLE TRACK_HANDLE
#define CLASS_MALLOC (hip_serves_managed(copy) ? TRACK_MANAGED : TRACK_POINTER)
#define CLASS_ASYNC TRACK_POINTER
#define CLASS_FROM_POOL TRACK_POINTER
#define FREES_POINTER TRACK_FREEABLE
#define FREES_ARRAY (1u << TRACK_ARRAY)

/* hipMalloc is served from managed memory. */
static bool hip_serves_managed(const struct hip_copy *copy)
{
	return settings()->oversubscribe && !copy->managed_is_missing;
}

/* Gives back what a call took beyond its reservation's reach. */
static void hip_undo(struct hip_copy *copy, enum tracker_class class, void *key)
{
	enum hip_function function = class == TRACK_ARRAY ? HIP_hipFreeArray :
				     class == TRACK_HANDLE ? HIP_hipMemRelease : HIP_hipFree;

	gate_enter();
	((hipError_t(*)(void *))copy->original[function])(key);
	gate_leave();
}

/* The pool and stream that served an allocation, where one did. */
struct hip_pooled {
	bool is_pooled;
	hipStream_t stream;
	hipMemPool_t pool; /* NULL: the device's */
};
#define POOLED_MALLOC	 ((struct hip_pooled){ 0 })
#define POOLED_POINTER	 ((struct hip_pooled){ 0 })
#define POOLED_MANAGED	 ((struct hip_pooled){ 0 })
#define POOLED_ARRAY	 ((struct hip_pooled){ 0 })
#define POOLED_HANDLE	 ((struct hip_pooled){ 0 })
#define POOLED_ASYNC	 ((struct hip_pooled){ true, stream, NULL })
#define POOLED_FROM_POOL ((struct hip_pooled){ true, stream, pool })

/* The pools of 7.x break when the driver says ENOMEM (7.2.4: a handle of 0 is released, SIGSEGV at exit): such a call may
 * overdraw by a chunk and is rolled back. */
static bool hip_is_fragile(const struct hip_copy *copy, const struct hip_pooled *pooled)
{
	return pooled->is_pooled && copy->release >= 70;
}

/* Calls the original one level deeper, so that what the runtime calls itself is not taken for the program's. */
#define CALL(name, params, args)                                                                                       \
	__extension__({                                                                                                \
		gate_enter();                                                                                          \
		hipError_t result_ = REAL(name, params) args;                                                          \
		gate_leave();                                                                                          \
		result_;                                                                                               \
	})

/* The pool that serves the call; NULL: not known. */
static hipMemPool_t hip_pool_of(struct hip_copy *copy, const struct hip_pooled *pooled)
{
	hipMemPool_t pool = NULL;
	int ordinal;

	if (pooled->pool)
		return pooled->pool;
	ordinal = hip_stream_device(copy, pooled->stream);
	if (ordinal < 0 || CALL(hipDeviceGetMemPool, (hipMemPool_t *, int), (&pool, ordinal)) != hipSuccess)
		return NULL;
	return pool;
}

static void hip_trim(struct hip_copy *copy, const struct hip_pooled *pooled)
{
	hipMemPool_t pool = copy->hipMemPoolTrimTo ? hip_pool_of(copy, pooled) : NULL;

	gate_enter();
	if (pool)
		copy->hipMemPoolTrimTo(pool, 0);
	gate_leave();
}

static bool is_over_limit(const struct charge *charge)
{
	uint64_t limit = ledger_limit(gate_ledger(), charge->device);

	return limit && ledger_used(gate_ledger(), charge->device, LEDGER_PHYSICAL) > limit;
}

/* False: the limit is overdrawn as it is and the pool would have to take more. So an overdraft that a pool does not give back
 * (7.2.4 keeps its chunks where the total is 256 MiB or less) does not grow. */
static bool hip_pool_has(struct hip_copy *copy, const struct hip_pooled *pooled, const struct charge *charge)
{
	enum { RESERVED_NOW = 5, USED_NOW = 7 }; /* hipMemPoolAttr */
	uint64_t reserved = 0, used = 0;
	hipMemPool_t pool;

	if (!is_over_limit(charge))
		return true;
	pool = copy->hipMemPoolGetAttribute ? hip_pool_of(copy, pooled) : NULL;
	gate_enter();
	if (pool && (copy->hipMemPoolGetAttribute(pool, RESERVED_NOW, &reserved) != hipSuccess ||
		     copy->hipMemPoolGetAttribute(pool, USED_NOW, &used) != hipSuccess))
		reserved = used = 0;
	gate_leave();
	return reserved >= used && reserved - used >= charge->bytes;
}

static ALWAYS_INLINE bool hip_pool_can_serve(struct hip_copy *copy, const struct hip_pooled *pooled,
					     const struct charge *charge)
{
	return !hip_is_fragile(copy, pooled) || !charge->bytes || hip_pool_has(copy, pooled, charge);
}

/* Roll-backs in progress. Another thread's block may come from the very chunk that is to go. */
static uint32_t rolling_back;

/* Whether a fragile call has to be rolled back: it has overdrawn itself, or shares with one that has. */
static bool is_overdrawn(const struct charge *charge)
{
	if (!charge->bytes || gate_thread.has_overdrawn)
		return charge->bytes;
	return __atomic_load_n(&rolling_back, __ATOMIC_ACQUIRE) && is_over_limit(charge);
}

/* Gives the block back and has the pool give up what it does not need. An idle stream reaches the free in a moment; a busy one
 * is not waited for, since another may be capturing: there the chunk goes at the stream's next synchronization. */
static void hip_roll_back(struct hip_copy *copy, const struct hip_pooled *pooled, const struct charge *charge, void *key)
{
	enum { TRIES = 10, WAIT_NS = 500000 };

	__atomic_add_fetch(&rolling_back, 1, __ATOMIC_RELEASE);
	gate_enter();
	REAL(hipFreeAsync, (void *, hipStream_t))(key, pooled->stream);
	gate_leave();
	hip_trim(copy, pooled);
	for (unsigned i = 0; i < TRIES && is_over_limit(charge); i++) {
		sys_sleep_ns(WAIT_NS);
		hip_trim(copy, pooled);
	}
	__atomic_sub_fetch(&rolling_back, 1, __ATOMIC_RELEASE);
}

static hipError_t hip_withdraw(struct hip_copy *copy, const struct charge *charge)
{
	gate_withdraw(charge);
	return gate_refuse(copy);
}

/* A pool cannot give it within the limit. */
static hipError_t hip_refuse_pooled(struct hip_copy *copy, const struct charge *charge, enum hip_function function)
{
	gate_note_refusal(hip_function_name(function), charge->device, LEDGER_PHYSICAL, charge->bytes);
	return hip_withdraw(copy, charge);
}

/* The runtime took more than was reserved, and that does not fit. */
static hipError_t hip_take_back(struct hip_copy *copy, const struct charge *charge, enum tracker_class class, void *key)
{
	hip_undo(copy, class, key);
	gate_give_up(charge);
	return gate_refuse(copy);
}

/* What a call that the runtime calls a success is to the program. 5.2.3's hipMallocAsync says success with NULL where memory
 * ran out. */
static ALWAYS_INLINE hipError_t hip_finish(struct hip_copy *copy, struct charge *charge, enum hip_function function,
					   uint64_t got, enum tracker_class class, void *key,
					   const struct hip_pooled *pooled)
{
	if (!key && charge->bytes)
		return hip_withdraw(copy, charge);
	if (hip_is_fragile(copy, pooled) && is_overdrawn(charge)) {
		hip_roll_back(copy, pooled, charge, key);
		return hip_refuse_pooled(copy, charge, function);
	}
	if (!gate_settle(charge, function, got, class, key))
		return hip_take_back(copy, charge, class, key);
	if (class == TRACK_HANDLE && charge->bytes)
		tracker_put(gate_tracker(), key, (struct tracked){ .size = 1, .class = TRACK_REFERENCES });
	return hipSuccess;
}

/* Around the real call: the driver may refuse it, unless the runtime would break. */
static ALWAYS_INLINE void hip_begin(const struct hip_copy *copy, const struct hip_pooled *pooled)
{
	gate_enter();
	gate_allocation_begin();
	gate_thread.is_fragile += hip_is_fragile(copy, pooled);
}

static ALWAYS_INLINE void hip_end(const struct hip_copy *copy, const struct hip_pooled *pooled, enum hip_function function,
				  hipError_t result, const struct charge *charge)
{
	if (hip_is_fragile(copy, pooled))
		gate_lower(&gate_thread.is_fragile);
	gate_allocation_end(hip_function_name(function), result != hipSuccess, charge->bytes);
	gate_leave();
}

#define ALLOC(name, node, since, params, args, on, wanted, got, kind, key)                                             \
	__attribute__((noinline)) static hipError_t name##_wrapper(AND_COPY params)                                    \
	{                                                                                                              \
		struct hip_pooled pooled = POOLED_##kind;                                                              \
		struct charge charge;                                                                                  \
		hipError_t result;                                                                                     \
                                                                                                                       \
		if (gate_is_inside())                                                                                  \
			return REAL(name, params) args;                                                                \
		if (!gate_reserve(&charge, HIP_##name, (on), (wanted)))                                                \
			return gate_refuse(copy);                                                                      \
		if (!hip_pool_can_serve(copy, &pooled, &charge))                                                       \
			return hip_refuse_pooled(copy, &charge, HIP_##name);                                           \
		hip_begin(copy, &pooled);                                                                              \
		result = REAL(name, params) args;                                                                      \
		hip_end(copy, &pooled, HIP_##name, result, &charge);                                                   \
		if (result == hipSuccess)                                                                              \
			return hip_finish(copy, &charge, HIP_##name, charge.bytes ? (got) : 0, CLASS_##kind,           \
					  charge.bytes ? (void *)(key) : NULL, &pooled);                               \
		gate_withdraw(&charge);                                                                                \
		return result;                                                                                         \
	}

#define FREE(name, node, since, params, args, kind, key)                                                               \
	__attribute__((noinline)) static hipError_t name##_wrapper(AND_COPY params)                                    \
	{                                                                                                              \
		struct tracked taken;                                                                                  \
		const void *base;                                                                                      \
		hipError_t result;                                                                                     \
		bool known;                                                                                            \
                                                                                                                       \
		if (gate_is_inside())                                                                                  \
			return REAL(name, params) args;                                                                \
		known = gate_take(copy, FREES_##kind, (key), &base, &taken);                                           \
		if (known && taken.class == TRACK_MANAGED)                                                             \
			migration_cut((uintptr_t)base, taken.size);                                                    \
		gate_enter();                                                                                          \
		result = REAL(name, params) args;                                                                      \
		gate_leave();                                                                                          \
		if (known && result == hipSuccess)                                                                     \
			gate_release(taken);                                                                           \
		else if (known)                                                                                        \
			gate_put_back(base, taken);                                                                    \
		return result;                                                                                         \
	}

#define HAND(...)
#define PASS(...)
#include "hip_api.def"
#undef ALLOC
#undef FREE
#undef HAND
#undef PASS

/* hipMalloc under HIP_OVERSUBSCRIBE; takes the place of the original. */
static hipError_t hip_malloc_managed(void **ptr, size_t size, struct hip_copy *copy)
{
	hipError_t result;

	if (!size || copy->managed_is_missing)
		return copy->malloc_unmanaged(ptr, size);
	result = REAL(hipMallocManaged, (void **, size_t, unsigned))(ptr, size, hipMemAttachGlobal);
	if (result != hipErrorNotSupported)
		return result;
	copy->managed_is_missing = true;
	ledger_note_reason(gate_ledger(), LEDGER_REASON_MANAGED_UNSUPPORTED);
	LOG(LOG_WARN, "HIP_OVERSUBSCRIBE: this device has no managed memory; hipMalloc takes device memory as before");
	return copy->malloc_unmanaged(ptr, size);
}

/* ---- VMM: a handle's memory goes with the last of its release and its mappings ---- */

struct vmm_drop {
	struct tracked handle;
	bool is_last;
};

/* Takes one reference; is_last: the handle is out of the tracker and its bytes go when the real call succeeds. */
static struct vmm_drop vmm_drop(const void *handle, bool frees_at_once)
{
	struct tracker *t = gate_tracker();
	struct vmm_drop drop = { .is_last = false };
	struct tracked references;

	if (frees_at_once)
		tracker_take(t, handle, 1u << TRACK_REFERENCES, &references);
	else if (tracker_add(t, handle, TRACK_REFERENCES, -1) != 0)
		return drop;
	drop.is_last = tracker_take(t, handle, 1u << TRACK_HANDLE, &drop.handle);
	return drop;
}

static void vmm_undrop(const void *handle, struct vmm_drop drop)
{
	struct tracker *t = gate_tracker();

	if (!drop.is_last) {
		tracker_add(t, handle, TRACK_REFERENCES, 1);
		return;
	}
	gate_put_back(handle, drop.handle);
	tracker_put(t, handle, (struct tracked){ .size = 1, .class = TRACK_REFERENCES });
}

static hipError_t hipMemRelease_wrapper(hipMemGenericAllocationHandle_t handle, struct hip_copy *copy)
{
	struct vmm_drop drop;
	hipError_t result;

	if (gate_is_inside())
		return REAL(hipMemRelease, (hipMemGenericAllocationHandle_t))(handle);
	drop = vmm_drop(handle, copy->release < 64); /* 5.x counts no references: clr 5.7.1 hip_vm.hpp */
	result = CALL(hipMemRelease, (hipMemGenericAllocationHandle_t), (handle));
	if (result != hipSuccess)
		vmm_undrop(handle, drop);
	else if (drop.is_last)
		gate_release(drop.handle);
	return result;
}

static hipError_t hipMemMap_wrapper(void *ptr, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle,
				    unsigned long long flags, struct hip_copy *copy)
{
	struct tracker *t = gate_tracker();
	hipError_t result = CALL(hipMemMap, (void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long),
				 (ptr, size, offset, handle, flags));

	if (result == hipSuccess && tracker_add(t, handle, TRACK_REFERENCES, 1) > 0 &&
	    !tracker_put(t, ptr, (struct tracked){ .size = (uint64_t)handle, .class = TRACK_MAPPING }))
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
	return result;
}

static hipError_t hipMemUnmap_wrapper(void *ptr, size_t size, struct hip_copy *copy)
{
	struct tracked mapping;
	bool known = tracker_take(gate_tracker(), ptr, 1u << TRACK_MAPPING, &mapping);
	const void *handle = known ? (const void *)mapping.size : NULL;
	struct vmm_drop drop = { .is_last = false };
	hipError_t result;

	if (known)
		drop = vmm_drop(handle, false);
	result = CALL(hipMemUnmap, (void *, size_t), (ptr, size));
	if (known && result != hipSuccess) {
		vmm_undrop(handle, drop);
		tracker_put(gate_tracker(), ptr, mapping);
	} else if (drop.is_last) {
		gate_release(drop.handle);
	}
	return result;
}

/* ---- hipDeviceReset: the current device's linear memory is gone, on 7.x handles too; managed memory and arrays stay ---- */

static void drop_all(enum tracker_class class, unsigned device)
{
	uint64_t count;
	uint64_t bytes = tracker_drop(gate_tracker(), class, device, &count);

	ledger_release(gate_ledger(), device, LEDGER_REQUESTED, bytes);
	ledger_note_allocations(gate_ledger(), -(int64_t)count);
}

static hipError_t hipDeviceReset_wrapper(struct hip_copy *copy)
{
	int ordinal = hip_current_device(copy);
	hipError_t result = CALL(hipDeviceReset, (void), ());
	unsigned device;

	if (result != hipSuccess || ordinal < 0 || gate_is_inside() || copy->release < 57)
		return result; /* 5.2.3 frees nothing (measured) */
	device = settings_device_index((unsigned)ordinal);
	drop_all(TRACK_POINTER, device);
	if (copy->release >= 70)
		drop_all(TRACK_HANDLE, device);
	return result;
}

/* ---- Pools: hipMallocFromPoolAsync charges the pool's device ---- */

static hipError_t remember_pool(hipError_t result, hipMemPool_t *pool, int ordinal)
{
	if (result == hipSuccess && pool && ordinal >= 0 && ordinal < ENV_DEVICES)
		tracker_put(gate_tracker(), *pool, (struct tracked){ .device = (uint8_t)ordinal, .class = TRACK_POOL });
	return result;
}

static hipError_t hipMemPoolCreate_wrapper(hipMemPool_t *pool, const hipMemPoolProps *props, struct hip_copy *copy)
{
	hipError_t result = CALL(hipMemPoolCreate, (hipMemPool_t *, const hipMemPoolProps *), (pool, props));

	return remember_pool(result, pool, props ? props->location.id : -1);
}

static hipError_t hipMemPoolDestroy_wrapper(hipMemPool_t pool, struct hip_copy *copy)
{
	struct tracked taken;
	bool known = tracker_take(gate_tracker(), pool, 1u << TRACK_POOL, &taken);
	hipError_t result = CALL(hipMemPoolDestroy, (hipMemPool_t), (pool));

	if (known && result != hipSuccess)
		tracker_put(gate_tracker(), pool, taken);
	return result;
}

static hipError_t hipDeviceGetDefaultMemPool_wrapper(hipMemPool_t *pool, int device, struct hip_copy *copy)
{
	hipError_t result = CALL(hipDeviceGetDefaultMemPool, (hipMemPool_t *, int), (pool, device));

	return remember_pool(result, pool, device);
}

static hipError_t hipDeviceGetMemPool_wrapper(hipMemPool_t *pool, int device, struct hip_copy *copy)
{
	hipError_t result = CALL(hipDeviceGetMemPool, (hipMemPool_t *, int), (pool, device));

	/* A pool that hipDeviceSetMemPool made current keeps the device it was created on. */
	if (result == hipSuccess && pool && hip_pool_is_known(copy, *pool))
		return result;
	return remember_pool(result, pool, device);
}

/* ---- Graphs: alloc nodes take memory at the first launch (5.7.1: when they are made), whatever the result says ---- */

static hipError_t remember_exec(hipError_t result, hipGraphExec_t *exec, uint64_t bytes, int ordinal)
{
	if (result == hipSuccess && exec && bytes && ordinal >= 0)
		tracker_put(gate_tracker(), *exec,
			    (struct tracked){ .size = bytes,
					      .device = (uint8_t)settings_device_index((unsigned)ordinal),
					      .class = TRACK_EXEC });
	return result;
}

static hipError_t hipGraphInstantiate_wrapper(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log,
					      size_t size, struct hip_copy *copy)
{
	uint64_t bytes = hip_graph_bytes(copy, graph, 0);
	int ordinal = hip_current_device(copy);
	hipError_t result =
		CALL(hipGraphInstantiate, (hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t),
		     (exec, graph, node, log, size));

	return remember_exec(result, exec, bytes, ordinal);
}

static hipError_t hipGraphInstantiateWithFlags_wrapper(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags,
						       struct hip_copy *copy)
{
	uint64_t bytes = hip_graph_bytes(copy, graph, 0);
	int ordinal = hip_current_device(copy);
	hipError_t result = CALL(hipGraphInstantiateWithFlags, (hipGraphExec_t *, hipGraph_t, unsigned long long),
				 (exec, graph, flags));

	return remember_exec(result, exec, bytes, ordinal);
}

static hipError_t hipGraphInstantiateWithParams_wrapper(hipGraphExec_t *exec, hipGraph_t graph,
							hipGraphInstantiateParams *params, struct hip_copy *copy)
{
	uint64_t bytes = hip_graph_bytes(copy, graph, 0);
	int ordinal = hip_current_device(copy);
	hipError_t result =
		CALL(hipGraphInstantiateWithParams, (hipGraphExec_t *, hipGraph_t, hipGraphInstantiateParams *),
		     (exec, graph, params));

	return remember_exec(result, exec, bytes, ordinal);
}

static hipError_t graph_launch(hipGraphExec_t exec, hipStream_t stream, enum hip_function function, struct hip_copy *copy)
{
	hipError_t (*real)(hipGraphExec_t, hipStream_t) =
		(hipError_t(*)(hipGraphExec_t, hipStream_t))copy->original[function];
	struct tracked e;
	hipError_t result;

	if (!gate_is_inside() && tracker_find(gate_tracker(), exec, 1u << TRACK_EXEC, &e) && !e.flag &&
	    tracker_flag(gate_tracker(), exec, TRACK_EXEC)) {
		if (ledger_reserve(gate_ledger(), e.device, LEDGER_REQUESTED, e.size) != LEDGER_GRANTED) {
			gate_note_refusal(hip_function_name(function), e.device, LEDGER_REQUESTED, e.size);
			e.flag = false;
			tracker_put(gate_tracker(), exec, e);
			return gate_refuse(copy);
		}
		ledger_settle(gate_ledger(), e.device, LEDGER_REQUESTED, e.size);
	}
	gate_enter();
	gate_thread.is_fragile++; /* a launch that finds no memory says success and loses its work */
	result = real(exec, stream);
	gate_lower(&gate_thread.is_fragile);
	gate_leave();
	return result;
}

static hipError_t hipGraphLaunch_wrapper(hipGraphExec_t exec, hipStream_t stream, struct hip_copy *copy)
{
	return graph_launch(exec, stream, HIP_hipGraphLaunch, copy);
}

static hipError_t hipGraphLaunch_spt_wrapper(hipGraphExec_t exec, hipStream_t stream, struct hip_copy *copy)
{
	return graph_launch(exec, stream, HIP_hipGraphLaunch_spt, copy);
}

static hipError_t hipGraphExecDestroy_wrapper(hipGraphExec_t exec, struct hip_copy *copy)
{
	struct tracked e;
	bool known = tracker_take(gate_tracker(), exec, 1u << TRACK_EXEC, &e);
	hipError_t result = CALL(hipGraphExecDestroy, (hipGraphExec_t), (exec));

	if (known && result != hipSuccess)
		gate_put_back(exec, e);
	else if (known && e.flag)
		ledger_release(gate_ledger(), e.device, LEDGER_REQUESTED, e.size);
	return result;
}

/* ---- Reports ---- */

static uint64_t hip_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static hipError_t hipMemGetInfo_wrapper(size_t *free_bytes, size_t *total_bytes, struct hip_copy *copy)
{
	size_t really_free = 0, total = 0; /* 5.2.3 writes through NULL */
	hipError_t result = CALL(hipMemGetInfo, (size_t *, size_t *), (&really_free, &total));
	int ordinal;

	if (result != hipSuccess || (ordinal = hip_current_device(copy)) < 0)
		return result;
	unsigned device = settings_device_index((unsigned)ordinal);

	total = gate_report_total(device, total);
	if (copy->release < 57) /* counts by itself, in this process alone */
		really_free = hip_min(really_free, ledger_free(gate_ledger(), device, LEDGER_PHYSICAL));
	if (total_bytes)
		*total_bytes = total;
	if (free_bytes)
		*free_bytes = gate_report_free(device, really_free, total);
	return hipSuccess;
}

static hipError_t hipDeviceTotalMem_wrapper(size_t *bytes, hipDevice_t device, struct hip_copy *copy)
{
	hipError_t result = CALL(hipDeviceTotalMem, (size_t *, hipDevice_t), (bytes, device));

	if (result == hipSuccess && bytes)
		*bytes = gate_report_total(settings_device_index((unsigned)device), *bytes);
	return result;
}

static hipError_t properties(hipError_t result, void *prop, int device, size_t offset)
{
	size_t *total = (size_t *)((char *)prop + offset);

	if (result == hipSuccess && prop)
		*total = gate_report_total(settings_device_index((unsigned)device), *total);
	return result;
}

/* The plain name keeps the 792-byte layout in every release. */
static hipError_t hipGetDeviceProperties_wrapper(void *prop, int device, struct hip_copy *copy)
{
	return properties(CALL(hipGetDeviceProperties, (void *, int), (prop, device)), prop, device,
			  HIP_PROP_R0000_TOTAL);
}

static hipError_t hipGetDevicePropertiesR0000_wrapper(void *prop, int device, struct hip_copy *copy)
{
	return properties(CALL(hipGetDevicePropertiesR0000, (void *, int), (prop, device)), prop, device,
			  HIP_PROP_R0000_TOTAL);
}

static hipError_t hipGetDevicePropertiesR0600_wrapper(void *prop, int device, struct hip_copy *copy)
{
	return properties(CALL(hipGetDevicePropertiesR0600, (void *, int), (prop, device)), prop, device,
			  HIP_PROP_R0600_TOTAL);
}

static hipError_t hipDeviceGetAttribute_wrapper(int *value, int attribute, int device, struct hip_copy *copy)
{
	hipError_t result = CALL(hipDeviceGetAttribute, (int *, int, int), (value, attribute, device));

	if (result == hipSuccess && value && attribute == hipDeviceAttributeTotalGlobalMem && *value > 0) {
		uint64_t total = gate_report_total(settings_device_index((unsigned)device), (uint64_t)*value);

		*value = total > INT32_MAX ? INT32_MAX : (int)total;
	}
	return result;
}

#undef AND_COPY

/* ---- The entry points of each copy ---- */

#define COPY 0
#include "wrappers_copy.inc"
#define COPY 1
#include "wrappers_copy.inc"
#define COPY 2
#include "wrappers_copy.inc"
#define COPY 3
#include "wrappers_copy.inc"

static void (*const patches[HIP_COPIES])(struct patch *) = { patches_stub_0, patches_stub_1, patches_stub_2, patches_stub_3 };
static hipError_t (*const managed[HIP_COPIES])(void **, size_t) = { hip_managed_stub_0, hip_managed_stub_1,
								    hip_managed_stub_2, hip_managed_stub_3 };

const char *hip_function_name(enum hip_function function)
{
	static const char names[HIP_FUNCTIONS][40] = {
#define ROW(name, ...) #name,
#define ALLOC ROW
#define FREE ROW
#define HAND ROW
#define PASS(...)
#include "hip_api.def"
#undef ALLOC
#undef FREE
#undef HAND
#undef PASS
#undef ROW
	};

	return function < HIP_FUNCTIONS ? names[function] : "?";
}

static int release_of(const struct elf_object *object)
{
	if (elf_object_find(object, "hipMemPrefetchAsync_v2", NULL))
		return 72;
	if (elf_object_find(object, "hipMemGetHandleForAddressRange", NULL))
		return 70;
	if (elf_object_find(object, "hipGetProcAddress", NULL))
		return 64;
	return elf_object_find(object, "hipGraphAddMemAllocNode", NULL) ? 57 : 52;
}

static void remember_code(struct hip_copy *copy, const struct elf_object *object)
{
	for (unsigned i = 0; i < object->segment_count; i++) {
		if (object->segments[i].protection & PROT_EXEC) {
			copy->code_start = object->segments[i].start;
			copy->code_end = object->segments[i].end;
			return;
		}
	}
}

bool hip_is_caller(const void *address)
{
	for (unsigned k = 0; k < HIP_COPIES; k++) {
		if (hip_copies[k].map && (uintptr_t)address >= hip_copies[k].code_start &&
		    (uintptr_t)address < hip_copies[k].code_end)
			return true;
	}
	return false;
}

struct hip_copy *hip_copy_open(struct elf_object *object)
{
	struct patch list[HIP_FUNCTIONS];
	unsigned k = 0;
	struct hip_copy *copy;

	while (k < HIP_COPIES && hip_copies[k].map)
		k++;
	if (k == HIP_COPIES)
		return NULL;
	copy = &hip_copies[k];
	elf_patch_undo(&copy->patched);
	*copy = (struct hip_copy){ .map = object->map };
	copy->release = release_of(object);
	remember_code(copy, object);
#define HELPER(name, params) copy->name = (hipError_t(*) params)elf_object_address(object, #name);
	HIP_HELPERS(HELPER)
#undef HELPER
	patches[k](list);
	copy->patched = elf_patch(object, list, HIP_FUNCTIONS);
	if (settings()->oversubscribe && copy->original[HIP_hipMalloc] && copy->original[HIP_hipMallocManaged]) {
		copy->malloc_unmanaged = (hipError_t(*)(void **, size_t))copy->original[HIP_hipMalloc];
		copy->original[HIP_hipMalloc] = (void *)managed[k];
	}
	return copy;
}

void hip_copy_close(struct link_map *map)
{
	for (unsigned k = 0; k < HIP_COPIES; k++) {
		if (hip_copies[k].map == map)
			hip_copies[k].map = NULL;
	}
}

void *hip_copy_symbind(struct link_map *map, const char *name, uintptr_t real)
{
	struct patch list[HIP_FUNCTIONS];

	for (unsigned k = 0; k < HIP_COPIES; k++) {
		if (hip_copies[k].map != map || hip_copies[k].patched.way != PATCH_SYMBIND)
			continue;
		patches[k](list);
		return elf_patch_symbind(list, HIP_FUNCTIONS, name, real);
	}
	return NULL;
}
