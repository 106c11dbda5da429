/* The part of HIP's binary interface that we need, declared by ourselves.
 *
 * The library is built where no ROCm is installed, and one build serves ROCm 5.2 to 7.2, so no HIP header is included.
 * Layouts are those of the four releases on x86-64 (docs/design.md, "Sources"); test/headers checks them against the
 * real headers of each release.
 */
#ifndef AMVGPU_HIP_ABI_H
#define AMVGPU_HIP_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
enum {
	hipSuccess = 0,
	hipErrorInvalidValue = 1,
	hipErrorOutOfMemory = 2,
	hipErrorNoDevice = 100,
	hipErrorInvalidDevice = 101,
	hipErrorNotFound = 500,
	hipErrorNotSupported = 801,
};

typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;
typedef struct hipArray *hipArray_t;
typedef struct hipMipmappedArray *hipMipmappedArray_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;

typedef struct hipExtent {
	size_t width; /* bytes for linear memory, elements for arrays */
	size_t height;
	size_t depth;
} hipExtent;

typedef struct hipPitchedPtr {
	void *ptr;
	size_t pitch;
	size_t xsize;
	size_t ysize;
} hipPitchedPtr;

typedef struct hipChannelFormatDesc {
	int x, y, z, w; /* bits */
	int f;
} hipChannelFormatDesc;

typedef struct HIP_ARRAY_DESCRIPTOR {
	size_t Width;
	size_t Height;
	int Format;
	unsigned int NumChannels;
} HIP_ARRAY_DESCRIPTOR;

typedef struct HIP_ARRAY3D_DESCRIPTOR {
	size_t Width;
	size_t Height;
	size_t Depth;
	int Format;
	unsigned int NumChannels;
	unsigned int Flags;
} HIP_ARRAY3D_DESCRIPTOR;

enum { hipMemLocationTypeDevice = 1, hipMemLocationTypeHost = 2 };
typedef struct hipMemLocation {
	int type;
	int id;
} hipMemLocation;

/* 5.5 and later. 5.2 had another order: see hip_memcreate_location(). */
typedef struct hipMemAllocationProp {
	int type;
	int requestedHandleType;
	hipMemLocation location;
	void *win32HandleMetaData;
	uint64_t allocFlags;
} hipMemAllocationProp;

typedef struct hipMemPoolProps {
	int allocType;
	int handleTypes;
	hipMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize; /* 6.0 and later; reserved before */
	unsigned char reserved[56];
} hipMemPoolProps;

typedef struct hipMemAllocNodeParams {
	hipMemPoolProps poolProps;
	const void *accessDescs;
	size_t accessDescCount;
	size_t bytesize;
	void *dptr;
} hipMemAllocNodeParams;

typedef struct hipGraphInstantiateParams hipGraphInstantiateParams;

enum {
	hipGraphNodeTypeGraph = 4,
	hipGraphNodeTypeMemAlloc = 10,
	hipGraphNodeTypeMemFree = 11,
};

enum { hipStreamCaptureStatusActive = 1 };
enum { hipMemAttachGlobal = 1 };
enum { hipDeviceMallocDefault = 0, hipMallocSignalMemory = 2 };
enum { hipDeviceAttributeTotalGlobalMem = 84 };

/* Where totalGlobalMem stands in the two layouts of hipDeviceProp_t. */
enum { HIP_PROP_R0000_TOTAL = 256, HIP_PROP_R0600_TOTAL = 288 };

#define hipStreamLegacy ((hipStream_t)1)
#define hipStreamPerThread ((hipStream_t)2)

#endif
