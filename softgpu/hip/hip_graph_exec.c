/* Executable graphs: a launch is where alloc nodes get their memory. */
#include <stdlib.h>

#include "hip_graph.h"

enum { AUTO_FREE_ON_LAUNCH = 1 };

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
			graph_memory_unback_locked(node->memory);
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
			graph_memory_back_locked(node->memory);
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
