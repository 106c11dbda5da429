/* See wrappers_query.h. */
#include "wrappers_query.h"

#include "gate.h"
#include "memory_size.h"
#include "../sys/sys.h"

int hip_current_device(const struct hip_copy *copy)
{
	int ordinal = -1;

	gate_enter();
	if (!copy->hipGetDevice || copy->hipGetDevice(&ordinal) != hipSuccess)
		ordinal = -1;
	gate_leave();
	return ordinal;
}

static bool is_null_stream(hipStream_t stream)
{
	return !stream || stream == hipStreamLegacy || stream == hipStreamPerThread;
}

int hip_stream_device(const struct hip_copy *copy, hipStream_t stream)
{
	int ordinal = -1;

	if (is_null_stream(stream))
		return hip_current_device(copy);
	gate_enter();
	if (copy->hipStreamGetDevice) {
		if (copy->hipStreamGetDevice(stream, &ordinal) != hipSuccess)
			ordinal = -1;
	} else if (copy->hipGetStreamDeviceId) {
		ordinal = copy->hipGetStreamDeviceId(stream); /* returns the device itself */
	}
	gate_leave();
	return ordinal;
}

bool hip_pool_is_known(const struct hip_copy *copy, hipMemPool_t pool)
{
	struct tracked value;

	(void)copy;
	return tracker_find(gate_tracker(), pool, 1u << TRACK_POOL, &value);
}

int hip_pool_device(const struct hip_copy *copy, hipMemPool_t pool)
{
	struct tracked value;

	if (tracker_find(gate_tracker(), pool, 1u << TRACK_POOL, &value))
		return value.device;
	return hip_current_device(copy);
}

bool hip_is_capturing(const struct hip_copy *copy, hipStream_t stream)
{
	int status = 0;
	bool asked;

	if (is_null_stream(stream) || !copy->hipStreamIsCapturing)
		return false;
	if (copy->release < 57) /* has no alloc nodes: a captured hipMallocAsync takes its memory at once (5.2.3, measured) */
		return false;
	gate_enter();
	asked = copy->hipStreamIsCapturing(stream, &status) == hipSuccess;
	gate_leave();
	return asked && status == hipStreamCaptureStatusActive;
}

/* 5.2.3 had the location at another place. */
static hipMemLocation location_of(const struct hip_copy *copy, const hipMemAllocationProp *prop)
{
	enum { LOCATION_IN_52 = 4 };

	if (copy->release < 57)
		return *(const hipMemLocation *)((const char *)prop + LOCATION_IN_52);
	return prop->location;
}

int hip_memcreate_device(const struct hip_copy *copy, const hipMemAllocationProp *prop)
{
	if (!prop || copy->release >= 72)
		return hip_current_device(copy);
	return location_of(copy, prop).id;
}

bool hip_memcreate_is_host(const struct hip_copy *copy, const hipMemAllocationProp *prop)
{
	return prop && location_of(copy, prop).type != hipMemLocationTypeDevice;
}

static uint64_t node_bytes(const struct hip_copy *copy, hipGraphNode_t node, unsigned depth)
{
	hipMemAllocNodeParams params;
	hipGraph_t child = NULL;
	int type = -1;

	if (copy->hipGraphNodeGetType(node, &type) != hipSuccess)
		return 0;
	if (type == hipGraphNodeTypeMemAlloc && copy->hipGraphMemAllocNodeGetParams &&
	    copy->hipGraphMemAllocNodeGetParams(node, &params) == hipSuccess)
		return params.bytesize;
	if (type == hipGraphNodeTypeGraph && copy->hipGraphChildGraphNodeGetGraph &&
	    copy->hipGraphChildGraphNodeGetGraph(node, &child) == hipSuccess)
		return hip_graph_bytes(copy, child, depth + 1);
	return 0;
}

static uint64_t sum_of_nodes(const struct hip_copy *copy, hipGraph_t graph, unsigned depth)
{
	enum { DEEPEST = 8 };
	hipGraphNode_t *nodes;
	size_t count = 0, size;
	uint64_t sum = 0;

	if (depth > DEEPEST || copy->hipGraphGetNodes(graph, NULL, &count) != hipSuccess || !count)
		return 0;
	size = count * sizeof *nodes;
	nodes = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(nodes))
		return SIZE_TOO_LARGE; /* not known: refused rather than let pass */
	if (copy->hipGraphGetNodes(graph, nodes, &count) == hipSuccess) {
		for (size_t i = 0; i < count && i < size / sizeof *nodes; i++)
			sum += node_bytes(copy, nodes[i], depth);
	}
	sys_munmap(nodes, size);
	return sum;
}

uint64_t hip_graph_bytes(const struct hip_copy *copy, hipGraph_t graph, unsigned depth)
{
	uint64_t sum;

	if (!graph || !copy->hipGraphGetNodes || !copy->hipGraphNodeGetType || !copy->hipGraphMemAllocNodeGetParams)
		return 0;
	gate_enter();
	sum = sum_of_nodes(copy, graph, depth);
	gate_leave();
	return sum;
}
