/* Graphs, as far as they hold memory: an alloc node has addresses from its creation (on 5.7 memory too), and
 * memory from the launch that executes it until a free node or hipFree. What is freed stays with the device's
 * graph pool until hipDeviceGraphMemTrim, and from 6.x until the next synchronisation.
 */
#ifndef SOFTGPU_HIP_GRAPH_H
#define SOFTGPU_HIP_GRAPH_H

#include "hip.h"

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

extern pthread_mutex_t graph_lock; /* pools, backing and references */

/* Addresses for an alloc node of the graph; on 5.7 with memory. */
hipError_t graph_memory_new(struct device *device, size_t size, struct graph_memory **memory);
/* Physical memory, kept from before or new; false if there is none. */
bool graph_memory_back_locked(struct graph_memory *memory);
void graph_memory_unback_locked(struct graph_memory *memory);
void graph_memory_put_locked(struct graph_memory *memory);

struct ihipGraph *graph_of(hipGraph_t graph);
struct ihipGraph *graph_copy(const struct ihipGraph *from);
void graph_end(struct ihipGraph *graph);

#endif
