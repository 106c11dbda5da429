/* The stand-in's pools and graphs: memory that is kept after it was freed, and memory that is taken at a
 * launch. */
#include "test_standin.h"

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t keep);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, int attribute, void *value);
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, int mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamIsCapturing(hipStream_t stream, int *status);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphNodeGetType(hipGraphNode_t node, int *type);
#pragma weak hipGraphAddMemAllocNode
hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
				   size_t count, hipMemAllocNodeParams *params);
#pragma weak hipGraphAddMemFreeNode
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
				  size_t count, void *ptr);
#pragma weak hipGraphMemAllocNodeGetParams
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *params);
#pragma weak hipDeviceGraphMemTrim
hipError_t hipDeviceGraphMemTrim(int device);
#pragma weak hipDeviceGetGraphMemAttribute
hipError_t hipDeviceGetGraphMemAttribute(int device, int attribute, void *value);

enum { THRESHOLD = 4, RESERVED = 5, USED = 7 };

static uint64_t attribute_of(hipMemPool_t pool, int attribute)
{
	uint64_t value = 0;

	OK(hipMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static hipMemPool_t default_pool(void)
{
	hipMemPool_t pool = NULL;

	OK(hipDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

TEST(what_is_freed_asynchronously_stays_with_the_pool_until_the_device_is_synchronised)
{
	uint64_t before = held();
	void *p;

	OK(hipMallocAsync(&p, 8 * MIB, NULL));
	CHECK_EQ(held() - before, 8 * MIB);
	CHECK_EQ(attribute_of(default_pool(), USED), 8 * MIB);
	OK(hipFreeAsync(p, NULL));
	CHECK_EQ(held() - before, 8 * MIB);
	CHECK_EQ(attribute_of(default_pool(), USED), 0);
	CHECK_EQ(attribute_of(default_pool(), RESERVED), 8 * MIB);
	OK(hipDeviceSynchronize());
	CHECK_EQ(held(), before);
}

TEST(a_kept_block_is_handed_out_again_if_it_is_not_much_too_large)
{
	uint64_t before = held();
	void *p, *q;

	OK(hipMallocAsync(&p, 8 * MIB, NULL));
	OK(hipFreeAsync(p, NULL));
	OK(hipMallocAsync(&q, 8 * MIB - 4096, NULL));
	CHECK(p == q);
	CHECK_EQ(held() - before, 8 * MIB);
	OK(hipFreeAsync(q, NULL));
	OK(hipMallocAsync(&q, MIB, NULL));
	CHECK_EQ(held() - before, 9 * MIB);
	OK(hipFreeAsync(q, NULL));
	OK(hipMemPoolTrimTo(default_pool(), 0));
	CHECK_EQ(held(), before);
}

TEST(a_pool_keeps_up_to_its_threshold_through_synchronisations_and_nothing_through_a_trim)
{
	uint64_t before = held(), threshold = 4 * MIB, none = 0;
	void *p[8];

	OK(hipMemPoolSetAttribute(default_pool(), THRESHOLD, &threshold));
	for (int i = 0; i < 8; i++)
		OK(hipMallocAsync(&p[i], MIB, NULL));
	for (int i = 0; i < 8; i++)
		OK(hipFreeAsync(p[i], NULL));
	OK(hipDeviceSynchronize());
	CHECK_EQ(held() - before, 4 * MIB);
	OK(hipMemPoolTrimTo(default_pool(), 0));
	CHECK_EQ(held(), before);
	OK(hipMemPoolSetAttribute(default_pool(), THRESHOLD, &none));
}

TEST(memory_of_a_pool_may_be_freed_by_hipFree_and_other_memory_by_hipFreeAsync)
{
	uint64_t before = held();
	void *p;

	OK(hipMallocAsync(&p, MIB, NULL));
	OK(hipFree(p));
	CHECK_EQ(hipFree(p), hipErrorInvalidValue);
	OK(hipDeviceSynchronize());
	CHECK_EQ(held(), before);
	OK(hipMalloc(&p, MIB));
	OK(hipFreeAsync((char *)p + 77, NULL));
	CHECK_EQ(held(), before);
	CHECK_EQ(hipFreeAsync(NULL, NULL), hipErrorInvalidValue);
	hipGetLastError();
}

TEST(an_asynchronous_allocation_is_on_the_streams_device_and_a_pools_on_the_pools)
{
	hipMemPoolProps props = {.allocType = 1, .location = {hipMemLocationTypeDevice, 0}};
	uint64_t before[2] = {held_on(0), held_on(1)};
	hipMemPool_t pool;
	hipStream_t stream;
	void *p, *q;

	OK(hipSetDevice(1));
	OK(hipStreamCreate(&stream));
	OK(hipMemPoolCreate(&pool, &props));
	OK(hipSetDevice(0));
	OK(hipMallocAsync(&p, MIB, stream));
	CHECK_EQ(held_on(1) - before[1], MIB);
	OK(hipMallocFromPoolAsync(&q, MIB, pool, stream));
	CHECK_EQ(held_on(0) - before[0], MIB);
	OK(hipFreeAsync(p, stream));
	OK(hipFreeAsync(q, stream));
	OK(hipStreamSynchronize(stream));
	CHECK_EQ(held_on(1), before[1]);
	CHECK_EQ(held_on(0) - before[0], MIB);
	OK(hipMemPoolDestroy(pool));
	CHECK_EQ(held_on(0), before[0]);
	OK(hipStreamDestroy(stream));
	CHECK_EQ(hipMallocAsync(&p, MIB, stream), 709);
	hipGetLastError();
}

TEST(a_destroyed_pool_lives_as_long_as_what_it_handed_out)
{
	hipMemPoolProps props = {.allocType = 1, .location = {hipMemLocationTypeDevice, 0}};
	uint64_t before = held();
	hipMemPool_t pool;
	void *p;

	OK(hipMemPoolCreate(&pool, &props));
	OK(hipMallocFromPoolAsync(&p, MIB, pool, NULL));
	OK(hipMemPoolDestroy(pool));
	CHECK_EQ(held() - before, MIB);
	CHECK_EQ(hipMallocFromPoolAsync(&p, MIB, pool, NULL), hipErrorInvalidValue);
	OK(hipFreeAsync(p, NULL));
	CHECK_EQ(held(), before);
	CHECK_EQ(hipMemPoolDestroy(default_pool()), hipErrorInvalidValue);
	hipGetLastError();
}

TEST(a_pools_maximum_holds_from_6_0)
{
	hipMemPoolProps props = {.allocType = 1, .location = {hipMemLocationTypeDevice, 0}, .maxSize = MIB};
	hipMemPool_t pool;
	void *p, *q = NULL;

	OK(hipMemPoolCreate(&pool, &props));
	OK(hipMallocFromPoolAsync(&p, MIB, pool, NULL));
	CHECK_EQ(hipMallocFromPoolAsync(&q, MIB, pool, NULL),
		 release() < 60 ? hipSuccess : hipErrorOutOfMemory);
	OK(hipFreeAsync(p, NULL));
	if (release() < 60)
		OK(hipFreeAsync(q, NULL));
	OK(hipMemPoolDestroy(pool));
	hipGetLastError();
}

TEST(asynchronous_memory_that_ran_out_is_success_and_null_on_5_2_and_an_error_later)
{
	void *p, *q = (void *)0x77;

	OK(hipMalloc(&p, 10 * GIB));
	CHECK_EQ(hipMallocAsync(&q, 10 * GIB, NULL), release() == 52 ? hipSuccess : hipErrorOutOfMemory);
	CHECK(!q);
	OK(hipFree(p));
	hipGetLastError();
}

TEST(a_reset_takes_what_pools_hold_and_handed_out)
{
	void *p, *q;

	OK(hipMallocAsync(&p, MIB, NULL));
	OK(hipMallocAsync(&q, MIB, NULL));
	OK(hipFreeAsync(q, NULL));
	OK(hipDeviceReset());
	CHECK_EQ(held(), 0);
	CHECK_EQ(hipFree(p), hipErrorInvalidValue);
	OK(hipMallocAsync(&p, MIB, NULL));
	OK(hipFreeAsync(p, NULL));
	OK(hipDeviceReset());
	hipGetLastError();
}

static bool has_graph_memory(void)
{
	return release() >= 57;
}

static hipGraph_t graph_with(size_t bytes, void **address, bool is_freed)
{
	hipMemAllocNodeParams params = {.bytesize = bytes};
	hipGraphNode_t node;
	hipGraph_t graph;

	params.poolProps.location.type = hipMemLocationTypeDevice;
	OK(hipGraphCreate(&graph, 0));
	OK(hipGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	*address = params.dptr;
	if (is_freed)
		OK(hipGraphAddMemFreeNode(&node, graph, &node, 1, params.dptr));
	return graph;
}

TEST(an_alloc_node_takes_memory_at_the_launch_and_on_5_7_at_its_creation)
{
	uint64_t before = held();
	hipGraphExec_t exec;
	hipGraph_t graph;
	void *address;

	if (!has_graph_memory())
		return;
	graph = graph_with(8 * MIB, &address, false);
	CHECK_EQ(held() - before, release() < 60 ? 8 * MIB : 0);
	OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
	CHECK_EQ(held() - before, release() < 60 ? 8 * MIB : 0);
	OK(hipGraphLaunch(exec, NULL));
	CHECK_EQ(held() - before, 8 * MIB);
	memset(address, 1, 8 * MIB);
	if (release() >= 60)
		CHECK_EQ(hipGraphLaunch(exec, NULL), hipErrorInvalidValue);
	OK(hipFree(address));
	CHECK_EQ(held() - before, 8 * MIB);
	OK(hipGraphExecDestroy(exec));
	OK(hipGraphDestroy(graph));
	OK(hipDeviceGraphMemTrim(0));
	CHECK_EQ(held(), before);
	hipGetLastError();
}

TEST(what_a_free_node_frees_stays_with_the_graph_pool_until_a_trim)
{
	uint64_t before = held(), reserved = 0, used = 1;
	hipGraphExec_t exec;
	hipGraph_t graph;
	void *address;

	if (!has_graph_memory())
		return;
	graph = graph_with(8 * MIB, &address, true);
	OK(hipGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		OK(hipGraphLaunch(exec, NULL));
	CHECK_EQ(held() - before, 8 * MIB);
	OK(hipDeviceGetGraphMemAttribute(0, 0, &used));
	OK(hipDeviceGetGraphMemAttribute(0, 2, &reserved));
	CHECK_EQ(used, 0);
	CHECK_EQ(reserved, 8 * MIB);
	OK(hipDeviceSynchronize());
	CHECK_EQ(held() - before, release() < 60 ? 8 * MIB : 0);
	OK(hipDeviceGraphMemTrim(0));
	CHECK_EQ(held(), before);
	OK(hipGraphExecDestroy(exec));
	OK(hipGraphDestroy(graph));
}

TEST(a_launch_whose_memory_cannot_be_had_succeeds_all_the_same)
{
	hipGraphExec_t exec;
	hipGraph_t graph;
	uint64_t before;
	void *address, *p;

	if (release() < 60)
		return;
	OK(hipMalloc(&p, 10 * GIB));
	before = held();
	graph = graph_with(10 * GIB, &address, true);
	OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
	OK(hipGraphLaunch(exec, NULL));
	CHECK_EQ(held(), before);
	OK(hipGraphExecDestroy(exec));
	OK(hipGraphDestroy(graph));
	OK(hipFree(p));
}

TEST(graph_memory_is_on_the_device_that_was_current_when_the_graph_was_created)
{
	uint64_t before = held_on(1);
	hipGraphExec_t exec;
	hipGraph_t graph;
	void *address;

	if (!has_graph_memory())
		return;
	OK(hipSetDevice(1));
	graph = graph_with(MIB, &address, true);
	OK(hipSetDevice(0));
	OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
	OK(hipGraphLaunch(exec, NULL));
	CHECK_EQ(held_on(1) - before, MIB);
	OK(hipGraphExecDestroy(exec));
	OK(hipGraphDestroy(graph));
	OK(hipDeviceGraphMemTrim(1));
	CHECK_EQ(held_on(1), before);
}

TEST(an_allocation_in_a_capture_becomes_an_alloc_node_and_hipMalloc_invalidates_the_capture)
{
	uint64_t before = held();
	hipMemAllocNodeParams params;
	hipGraphNode_t nodes[2];
	hipStream_t stream;
	size_t count = 2;
	hipGraph_t graph;
	int type, status;
	void *p, *q;

	OK(hipStreamCreate(&stream));
	OK(hipStreamBeginCapture(stream, 0));
	OK(hipStreamIsCapturing(stream, &status));
	CHECK_EQ(status, hipStreamCaptureStatusActive);
	OK(hipMallocAsync(&p, 5 * MIB, stream));
	OK(hipFreeAsync(p, stream));
	if (release() >= 60)
		CHECK_EQ(held(), before); /* nothing yet */
	OK(hipStreamEndCapture(stream, &graph));
	OK(hipGraphGetNodes(graph, nodes, &count));
	CHECK_EQ(count, has_graph_memory() ? 2 : 0);
	if (has_graph_memory()) {
		OK(hipGraphNodeGetType(nodes[0], &type));
		CHECK_EQ(type, hipGraphNodeTypeMemAlloc);
		OK(hipGraphNodeGetType(nodes[1], &type));
		CHECK_EQ(type, hipGraphNodeTypeMemFree);
		OK(hipGraphMemAllocNodeGetParams(nodes[0], &params));
		CHECK_EQ(params.bytesize, 5 * MIB);
		CHECK(params.dptr == p);
	}
	OK(hipGraphDestroy(graph));
	OK(hipStreamBeginCapture(stream, 0));
	OK(hipExtMallocWithFlags(&q, 4096, 0)); /* has no such check */
	CHECK_EQ(hipMalloc(&p, MIB), 900);
	CHECK_EQ(hipStreamEndCapture(stream, &graph), 901);
	OK(hipMalloc(&p, MIB));
	OK(hipFree(p));
	OK(hipFree(q));
	OK(hipStreamDestroy(stream));
	hipGetLastError();
}

TEST_MAIN()
