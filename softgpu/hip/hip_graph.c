/* Graphs, as far as they hold memory: an alloc node has addresses from its creation (on 5.7 memory too), and
 * memory from the launch that executes it until a free node or hipFree. What is freed stays with the device's
 * graph pool until hipDeviceGraphMemTrim, and from 6.x until the next synchronisation.
 */
#include <stdlib.h>
#include <string.h>

#include "hip.h"

enum { NODE_HOST = 3, NODE_EMPTY = 5 };
enum { AUTO_FREE_ON_LAUNCH = 1 };

/* Shared by a graph, its clones and its executables. */
struct graph_memory {
	int references;
	struct device *device;
	size_t size;
	hipMemAllocNodeParams params;
	struct block *block; /* the addresses */
	hsa_amd_vmem_alloc_handle_t backing;
};

struct node {
	int type;
	struct graph_memory *memory; /* of an alloc node */
	void *address;               /* that a free node frees */
	struct ihipGraph *child;
	void (*function)(void *);
	void *data;
};

struct ihipGraph {
	struct device *device;
	struct node **nodes;
	size_t count, room;
};

struct exec {
	struct ihipGraph *graph; /* a copy */
	unsigned long long flags;
};

/* The graph pool of each device: physical memory without addresses. */
struct kept {
	size_t size;
	hsa_amd_vmem_alloc_handle_t backing;
	struct kept *next;
};
static struct graph_pool {
	struct kept *kept;
	uint64_t used, used_high, reserved, reserved_high;
} graph_pools[SOFTGPU_DEVICES_MAX];
static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER; /* pools, backing and references */

static struct ihipGraph *graph_of(hipGraph_t graph)
{
	return handle_is(graph, HANDLE_GRAPH) ? graph : NULL;
}

static struct node *node_of(hipGraphNode_t node)
{
	return handle_is(node, HANDLE_NODE) ? (struct node *)node : NULL;
}

hipGraph_t graph_new(struct device *device)
{
	struct ihipGraph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		abort();
	graph->device = device;
	handle_add(graph, HANDLE_GRAPH);
	return graph;
}

static struct node *node_add(struct ihipGraph *graph, int type)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		abort();
	node->type = type;
	if (graph->count == graph->room) {
		graph->room = graph->room ? 2 * graph->room : 8;
		graph->nodes = realloc(graph->nodes, graph->room * sizeof(*graph->nodes));
		if (!graph->nodes)
			abort();
	}
	graph->nodes[graph->count++] = node;
	handle_add(node, HANDLE_NODE);
	return node;
}

static void note_locked(struct graph_pool *pool)
{
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
}

static struct kept *kept_find_locked(struct graph_pool *pool, size_t size)
{
	struct kept **at, *kept;

	for (at = &pool->kept; (kept = *at); at = &kept->next) {
		if (kept->size == size) {
			*at = kept->next;
			return kept;
		}
	}
	return NULL;
}

/* Physical memory for an alloc node, kept from before or new. */
static bool memory_back_locked(struct graph_memory *memory)
{
	struct graph_pool *pool = &graph_pools[memory->device->index];
	struct kept *kept = kept_find_locked(pool, memory->size);

	if (kept) {
		memory->backing = kept->backing;
		free(kept);
	} else if (hsa_amd_vmem_handle_create(memory->device->memory, memory->size, 0, 0, &memory->backing)) {
		memory->backing.handle = 0;
		return false;
	} else {
		pool->reserved += memory->size;
	}
	pool->used += memory->size;
	note_locked(pool);
	return true;
}

static void memory_unback_locked(struct graph_memory *memory)
{
	struct graph_pool *pool = &graph_pools[memory->device->index];
	struct kept *kept = malloc(sizeof(*kept));

	if (!kept)
		abort();
	*kept = (struct kept){memory->size, memory->backing, pool->kept};
	pool->kept = kept;
	pool->used -= memory->size;
	memory->backing.handle = 0;
}

hipError_t graph_memory_give(struct graph_memory *memory)
{
	bool is_backed;

	pthread_mutex_lock(&graph_lock);
	is_backed = memory->backing.handle;
	if (is_backed)
		memory_unback_locked(memory);
	pthread_mutex_unlock(&graph_lock);
	return is_backed ? hipSuccess : hipErrorInvalidValue;
}

static void memory_put_locked(struct graph_memory *memory)
{
	if (--memory->references)
		return;
	if (memory->backing.handle)
		memory_unback_locked(memory);
	hip_softgpu->give(memory->block);
	free(memory);
}

static void graph_pool_trim(struct device *device)
{
	struct graph_pool *pool = &graph_pools[device->index];
	struct kept *kept;

	pthread_mutex_lock(&graph_lock);
	while ((kept = pool->kept)) {
		pool->kept = kept->next;
		pool->reserved -= kept->size;
		hsa_amd_vmem_handle_release(kept->backing);
		free(kept);
	}
	pthread_mutex_unlock(&graph_lock);
}

/* hipDeviceReset: the graph pool goes with the others. */
void graph_drop_all(struct device *device)
{
	graph_pool_trim(device);
}

void graph_forget(void)
{
	pthread_mutex_init(&graph_lock, NULL);
	memset(graph_pools, 0, sizeof(graph_pools));
}

void graph_settle(struct device *device)
{
	if (hip_release >= 60 && graph_pools[device->index].kept)
		graph_pool_trim(device);
}

static hipError_t alloc_node_new(struct ihipGraph *graph, size_t size, struct node **result)
{
	struct graph_memory *memory = calloc(1, sizeof(*memory));
	void *address = NULL;
	bool is_backed = true;

	if (!memory)
		return hipErrorOutOfMemory;
	memory->size = (size + 4095) & ~(size_t)4095;
	memory->device = graph->device;
	memory->references = 1;
	if (hip_softgpu->take(-1, memory->size, &address)) {
		free(memory);
		return hipErrorOutOfMemory;
	}
	memory->block = hip_softgpu->find(address);
	memory->block->owner = (void *)&hip_self;
	memory->block->kind = KIND_GRAPH;
	memory->block->device = graph->device->index;
	memory->block->detail = memory;
	pthread_mutex_lock(&graph_lock);
	if (hip_release < 60)
		is_backed = memory_back_locked(memory);
	if (!is_backed)
		memory_put_locked(memory);
	pthread_mutex_unlock(&graph_lock);
	if (!is_backed)
		return hipErrorOutOfMemory;
	memory->params.bytesize = size;
	memory->params.dptr = address;
	*result = node_add(graph, hipGraphNodeTypeMemAlloc);
	(*result)->memory = memory;
	return hipSuccess;
}

hipError_t graph_capture_alloc(struct ihipGraph *graph, size_t size, void **address)
{
	struct node *node;
	hipError_t error = alloc_node_new(graph, size, &node);

	if (!error)
		*address = node->memory->params.dptr;
	return error;
}

hipError_t graph_capture_free(struct ihipGraph *graph, void *address)
{
	node_add(graph, hipGraphNodeTypeMemFree)->address = address;
	return hipSuccess;
}

static void graph_end(struct ihipGraph *graph)
{
	handle_remove(graph, HANDLE_GRAPH);
	for (size_t i = 0; i < graph->count; i++) {
		struct node *node = graph->nodes[i];

		handle_remove(node, HANDLE_NODE);
		pthread_mutex_lock(&graph_lock);
		if (node->memory)
			memory_put_locked(node->memory);
		pthread_mutex_unlock(&graph_lock);
		if (node->child)
			graph_end(node->child);
		free(node);
	}
	free(graph->nodes);
	free(graph);
}

static struct ihipGraph *graph_copy(const struct ihipGraph *from)
{
	struct ihipGraph *graph = graph_new(from->device);

	for (size_t i = 0; i < from->count; i++) {
		struct node *node = node_add(graph, from->nodes[i]->type);

		*node = *from->nodes[i];
		if (node->child)
			node->child = graph_copy(node->child);
		pthread_mutex_lock(&graph_lock);
		if (node->memory)
			node->memory->references++;
		pthread_mutex_unlock(&graph_lock);
	}
	return graph;
}

HIP_API hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags)
{
	HIP_ENTER(hipGraphCreate);
	if (!graph || flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	*graph = graph_new(hip_device_here());
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphDestroy(hipGraph_t graph)
{
	HIP_ENTER(hipGraphDestroy);
	if (!graph_of(graph))
		return HIP_LEAVE(hipErrorInvalidValue);
	graph_end(graph);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph)
{
	HIP_ENTER(hipGraphClone);
	if (!clone || !graph_of(graph))
		return HIP_LEAVE(hipErrorInvalidValue);
	*clone = graph_copy(graph);
	return HIP_LEAVE(hipSuccess);
}

static hipError_t add_alloc(hipGraphNode_t *node, hipGraph_t graph, hipMemAllocNodeParams *params)
{
	struct node *added;
	hipError_t error;

	if (!node || !graph_of(graph) || !params || !params->bytesize || params->poolProps.location.id < 0 ||
	    params->poolProps.location.id >= hip_device_count)
		return hipErrorInvalidValue;
	error = alloc_node_new(graph, params->bytesize, &added);
	if (error)
		return error;
	params->dptr = added->memory->params.dptr;
	added->memory->params = *params;
	*node = (hipGraphNode_t)added;
	return hipSuccess;
}

static hipError_t add_free(hipGraphNode_t *node, hipGraph_t graph, void *address)
{
	struct node *added;

	if (!node || !graph_of(graph) || !address)
		return hipErrorInvalidValue;
	added = node_add(graph, hipGraphNodeTypeMemFree);
	added->address = address;
	*node = (hipGraphNode_t)added;
	return hipSuccess;
}

HIP_API hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
					   size_t count, hipMemAllocNodeParams *params)
{
	HIP_ENTER(hipGraphAddMemAllocNode);
	(void)from, (void)count;
	return HIP_LEAVE(add_alloc(node, graph, params));
}

HIP_API hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
					  size_t count, void *address)
{
	HIP_ENTER(hipGraphAddMemFreeNode);
	(void)from, (void)count;
	return HIP_LEAVE(add_free(node, graph, address));
}

HIP_API hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph,
					     const hipGraphNode_t *from, size_t count, hipDeviceptr_t address)
{
	HIP_ENTER(hipDrvGraphAddMemFreeNode);
	(void)from, (void)count;
	return HIP_LEAVE(add_free(node, graph, address));
}

/* The parameters are a union behind a type: of these two types we know the layout, any other node does
 * nothing. */
struct node_params {
	int type;
	int reserved[3];
	union {
		hipMemAllocNodeParams alloc;
		void *address;
	};
};

HIP_API hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
				   size_t count, struct node_params *params)
{
	HIP_ENTER(hipGraphAddNode);
	(void)from, (void)count;
	if (!node || !graph_of(graph) || !params)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (params->type == hipGraphNodeTypeMemAlloc)
		return HIP_LEAVE(add_alloc(node, graph, &params->alloc));
	if (params->type == hipGraphNodeTypeMemFree)
		return HIP_LEAVE(add_free(node, graph, params->address));
	*node = (hipGraphNode_t)node_add(graph, params->type);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
					size_t count)
{
	HIP_ENTER(hipGraphAddEmptyNode);
	(void)from, (void)count;
	if (!node || !graph_of(graph))
		return HIP_LEAVE(hipErrorInvalidValue);
	*node = (hipGraphNode_t)node_add(graph, NODE_EMPTY);
	return HIP_LEAVE(hipSuccess);
}

struct host_params {
	void (*function)(void *);
	void *data;
};

HIP_API hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from,
				       size_t count, const struct host_params *params)
{
	struct node *added;

	HIP_ENTER(hipGraphAddHostNode);
	(void)from, (void)count;
	if (!node || !graph_of(graph) || !params || !params->function)
		return HIP_LEAVE(hipErrorInvalidValue);
	added = node_add(graph, NODE_HOST);
	added->function = params->function;
	added->data = params->data;
	*node = (hipGraphNode_t)added;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph,
					     const hipGraphNode_t *from, size_t count, hipGraph_t child)
{
	struct node *added;

	HIP_ENTER(hipGraphAddChildGraphNode);
	(void)from, (void)count;
	if (!node || !graph_of(graph) || !graph_of(child))
		return HIP_LEAVE(hipErrorInvalidValue);
	added = node_add(graph, hipGraphNodeTypeGraph);
	added->child = graph_copy(child);
	*node = (hipGraphNode_t)added;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t handle, hipGraph_t *graph)
{
	struct node *node;

	HIP_ENTER(hipGraphChildGraphNodeGetGraph);
	node = node_of(handle);
	if (!node || !node->child || !graph)
		return HIP_LEAVE(hipErrorInvalidValue);
	*graph = node->child;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphDestroyNode(hipGraphNode_t handle)
{
	HIP_ENTER(hipGraphDestroyNode);
	return HIP_LEAVE(node_of(handle) ? hipSuccess : hipErrorInvalidValue);
}

static hipError_t list_nodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
	if (!graph_of(graph) || !count)
		return hipErrorInvalidValue;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = i < graph->count ? (hipGraphNode_t)graph->nodes[i] : NULL;
	if (!nodes || *count > graph->count)
		*count = graph->count;
	return hipSuccess;
}

HIP_API hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
	HIP_ENTER(hipGraphGetNodes);
	return HIP_LEAVE(list_nodes(graph, nodes, count));
}

HIP_API hipError_t hipGraphNodeGetType(hipGraphNode_t handle, int *type)
{
	struct node *node;

	HIP_ENTER(hipGraphNodeGetType);
	node = node_of(handle);
	if (!node || !type)
		return HIP_LEAVE(hipErrorInvalidValue);
	*type = node->type;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t handle, hipMemAllocNodeParams *params)
{
	struct node *node;

	HIP_ENTER(hipGraphMemAllocNodeGetParams);
	node = node_of(handle);
	if (!node || !node->memory || !params)
		return HIP_LEAVE(hipErrorInvalidValue);
	*params = node->memory->params;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t handle, void *address)
{
	struct node *node;

	HIP_ENTER(hipGraphMemFreeNodeGetParams);
	node = node_of(handle);
	if (!node || node->type != hipGraphNodeTypeMemFree || !address)
		return HIP_LEAVE(hipErrorInvalidValue);
	memcpy(address, &node->address, sizeof(node->address));
	return HIP_LEAVE(hipSuccess);
}

static hipError_t instantiate(hipGraphExec_t *handle, hipGraph_t graph, unsigned long long flags)
{
	struct exec *exec;

	if (!handle || !graph_of(graph))
		return hipErrorInvalidValue;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return hipErrorOutOfMemory;
	exec->graph = graph_copy(graph);
	exec->flags = flags;
	handle_add(exec, HANDLE_EXEC);
	*handle = (hipGraphExec_t)exec;
	return hipSuccess;
}

HIP_API hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node,
				       char *log, size_t size)
{
	HIP_ENTER(hipGraphInstantiate);
	(void)node, (void)log, (void)size;
	return HIP_LEAVE(instantiate(exec, graph, 0));
}

HIP_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph,
						unsigned long long flags)
{
	HIP_ENTER(hipGraphInstantiateWithFlags);
	return HIP_LEAVE(instantiate(exec, graph, flags));
}

HIP_API hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *exec, hipGraph_t graph,
						 hipGraphInstantiateParams *params)
{
	HIP_ENTER(hipGraphInstantiateWithParams);
	if (!params)
		return HIP_LEAVE(hipErrorInvalidValue);
	return HIP_LEAVE(instantiate(exec, graph, *(unsigned long long *)params));
}

HIP_API hipError_t hipGraphExecDestroy(hipGraphExec_t handle)
{
	struct exec *exec = (struct exec *)handle;

	HIP_ENTER(hipGraphExecDestroy);
	if (!handle_remove(exec, HANDLE_EXEC))
		return HIP_LEAVE(hipErrorInvalidValue);
	graph_end(exec->graph);
	free(exec);
	return HIP_LEAVE(hipSuccess);
}

static void auto_free_locked(struct ihipGraph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		struct node *node = graph->nodes[i];

		if (node->memory && node->memory->backing.handle)
			memory_unback_locked(node->memory);
		if (node->child)
			auto_free_locked(node->child);
	}
}

static bool frees_locked(const struct ihipGraph *graph, const void *address)
{
	for (size_t i = 0; i < graph->count; i++)
		if (graph->nodes[i]->type == hipGraphNodeTypeMemFree && graph->nodes[i]->address == address)
			return true;
	return false;
}

/* Memory of the last launch that nobody freed stands in the way of the next. On 5.7 a node has its memory
 * from the beginning. */
static bool is_busy_locked(const struct ihipGraph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		struct node *node = graph->nodes[i];

		if (node->memory && node->memory->backing.handle && hip_release >= 60 &&
		    !frees_locked(graph, node->memory->params.dptr))
			return true;
		if (node->child && is_busy_locked(node->child))
			return true;
	}
	return false;
}

/* A node whose memory cannot be had fails silently: the launch has succeeded all the same. */
static void run_node(struct node *node)
{
	struct block *block;

	if (node->memory) {
		pthread_mutex_lock(&graph_lock);
		if (!node->memory->backing.handle)
			memory_back_locked(node->memory);
		pthread_mutex_unlock(&graph_lock);
	}
	if (node->type == hipGraphNodeTypeMemFree) {
		block = hip_find(node->address);
		if (block && block->kind == KIND_GRAPH)
			graph_memory_give(block->detail);
		else if (block && block->kind == KIND_POOL)
			pool_give(block->detail, block);
	}
	if (node->function)
		node->function(node->data);
}

static void run_graph(struct ihipGraph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		run_node(graph->nodes[i]);
		if (graph->nodes[i]->child)
			run_graph(graph->nodes[i]->child);
	}
}

static hipError_t launch(hipGraphExec_t handle, hipStream_t stream)
{
	struct exec *exec = (struct exec *)handle;
	bool is_busy;

	if (!handle_is(exec, HANDLE_EXEC))
		return hipErrorInvalidValue;
	if (!stream_device(stream))
		return hipErrorContextIsDestroyed;
	pthread_mutex_lock(&graph_lock);
	if (exec->flags & AUTO_FREE_ON_LAUNCH)
		auto_free_locked(exec->graph);
	is_busy = is_busy_locked(exec->graph);
	pthread_mutex_unlock(&graph_lock);
	if (is_busy)
		return hipErrorInvalidValue;
	run_graph(exec->graph);
	return hipSuccess;
}

HIP_API hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream)
{
	HIP_ENTER(hipGraphLaunch);
	return HIP_LEAVE(launch(exec, stream));
}

HIP_API hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream)
{
	HIP_ENTER(hipGraphLaunch_spt);
	return HIP_LEAVE(launch(exec, stream));
}

HIP_API hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream)
{
	HIP_ENTER(hipGraphUpload);
	(void)stream;
	return HIP_LEAVE(handle_is(exec, HANDLE_EXEC) ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipDeviceGraphMemTrim(int device)
{
	HIP_ENTER(hipDeviceGraphMemTrim);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	graph_pool_trim(&hip_devices[device]);
	return HIP_LEAVE(hipSuccess);
}

enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH };

HIP_API hipError_t hipDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	struct graph_pool *pool;
	uint64_t numbers[4];

	HIP_ENTER(hipDeviceGetGraphMemAttribute);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!value || attribute < USED || attribute > RESERVED_HIGH)
		return HIP_LEAVE(hipErrorInvalidValue);
	pool = &graph_pools[device];
	pthread_mutex_lock(&graph_lock);
	numbers[USED] = pool->used;
	numbers[USED_HIGH] = pool->used_high;
	numbers[RESERVED] = pool->reserved;
	numbers[RESERVED_HIGH] = pool->reserved_high;
	pthread_mutex_unlock(&graph_lock);
	memcpy(value, &numbers[attribute], sizeof(uint64_t));
	return HIP_LEAVE(hipSuccess);
}

/* Only the high-water marks can be set, to the present value. */
HIP_API hipError_t hipDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
	struct graph_pool *pool;

	HIP_ENTER(hipDeviceSetGraphMemAttribute);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!value || (attribute != USED_HIGH && attribute != RESERVED_HIGH))
		return HIP_LEAVE(hipErrorInvalidValue);
	pool = &graph_pools[device];
	pthread_mutex_lock(&graph_lock);
	if (attribute == USED_HIGH)
		pool->used_high = pool->used;
	else
		pool->reserved_high = pool->reserved;
	pthread_mutex_unlock(&graph_lock);
	return HIP_LEAVE(hipSuccess);
}
