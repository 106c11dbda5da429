/* Graphs and their nodes. */
#include <stdlib.h>
#include <string.h>

#include "hip_graph.h"

enum { NODE_HOST = 3, NODE_EMPTY = 5 }; /* in 5.2.3 each is one more, as is that of a child graph */

struct ihipGraph *graph_of(hipGraph_t graph)
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

static hipError_t alloc_node_new(struct ihipGraph *graph, size_t size, struct node **node)
{
	struct graph_memory *memory;
	hipError_t error = graph_memory_new(graph->device, size, &memory);

	if (error)
		return error;
	*node = node_add(graph, hipGraphNodeTypeMemAlloc);
	(*node)->memory = memory;
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

void graph_end(struct ihipGraph *graph)
{
	handle_remove(graph, HANDLE_GRAPH);
	for (size_t i = 0; i < graph->count; i++) {
		struct node *node = graph->nodes[i];

		handle_remove(node, HANDLE_NODE);
		pthread_mutex_lock(&graph_lock);
		if (node->memory)
			graph_memory_put_locked(node->memory);
		pthread_mutex_unlock(&graph_lock);
		if (node->child)
			graph_end(node->child);
		free(node);
	}
	free(graph->nodes);
	free(graph);
}

struct ihipGraph *graph_copy(const struct ihipGraph *from)
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
	*type = node->type + (hip_release == 52);
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
