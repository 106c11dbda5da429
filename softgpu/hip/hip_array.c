/* Arrays: images in device memory. When that is full they are put into host memory, silently, as in every
 * real release. */
#include <stdlib.h>

#include "hip.h"

struct array {
	void *data;
};

static hipError_t array_new(hipArray_t *handle, size_t bytes)
{
	struct device *device = hip_device_here();
	struct array *array = calloc(1, sizeof(*array));
	hipError_t error;

	if (!array)
		return hipErrorOutOfMemory;
	error = hsa_amd_memory_pool_allocate(device->memory, bytes, 0, &array->data);
	if (error)
		error = hsa_amd_memory_pool_allocate(hip_host_memory, bytes, 0, &array->data);
	if (error) {
		free(array);
		return hipErrorOutOfMemory;
	}
	hip_softgpu->find(array->data)->kind = KIND_ARRAY;
	handle_add(array, HANDLE_ARRAY);
	*handle = (hipArray_t)array;
	return hipSuccess;
}

static size_t texels(size_t width, size_t height, size_t depth)
{
	return width * (height ? height : 1) * (depth ? depth : 1);
}

static size_t format_bytes(int format)
{
	switch (format) {
	case 0x01: /* unsigned 8 */
	case 0x08:
		return 1;
	case 0x02: /* unsigned 16 */
	case 0x09:
	case 0x10: /* half */
		return 2;
	case 0x03: /* unsigned 32 */
	case 0x0a:
	case 0x20: /* float */
		return 4;
	}
	return 0;
}

/* A NULL is refused without a trace in the last error. */
static hipError_t from_channels(hipArray_t *array, const hipChannelFormatDesc *desc, size_t width,
				size_t height, size_t depth)
{
	size_t bytes = (size_t)(desc->x + desc->y + desc->z + desc->w) / 8;

	if (!width || !bytes)
		return hipErrorInvalidValue;
	return array_new(array, bytes * texels(width, height, depth));
}

HIP_API hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *desc, size_t width,
				  size_t height, unsigned flags)
{
	HIP_ENTER(hipMallocArray);
	(void)flags;
	if (!array || !desc)
		return hipErrorInvalidValue;
	return HIP_LEAVE(from_channels(array, desc, width, height, 0));
}

HIP_API hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *desc, hipExtent extent,
				    unsigned flags)
{
	HIP_ENTER(hipMalloc3DArray);
	(void)flags;
	if (!array || !desc)
		return hipErrorInvalidValue;
	return HIP_LEAVE(from_channels(array, desc, extent.width, extent.height, extent.depth));
}

static hipError_t from_format(hipArray_t *array, int format, unsigned channels, size_t count)
{
	size_t bytes = format_bytes(format) * channels;

	if (!bytes || !count || (channels != 1 && channels != 2 && channels != 4))
		return hipErrorInvalidValue;
	return array_new(array, bytes * count);
}

HIP_API hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *d)
{
	HIP_ENTER(hipArrayCreate);
	if (!array || !d)
		return hipErrorInvalidValue;
	return HIP_LEAVE(from_format(array, d->Format, d->NumChannels, texels(d->Width, d->Height, 0)));
}

HIP_API hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *d)
{
	HIP_ENTER(hipArray3DCreate);
	if (!array || !d)
		return hipErrorInvalidValue;
	return HIP_LEAVE(
	    from_format(array, d->Format, d->NumChannels, texels(d->Width, d->Height, d->Depth)));
}

/* Linux has none of these. */
HIP_API hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *desc,
					   hipExtent extent, unsigned levels, unsigned flags)
{
	HIP_ENTER(hipMallocMipmappedArray);
	(void)array, (void)desc, (void)extent, (void)levels, (void)flags;
	return HIP_LEAVE(hipErrorNotSupported);
}

HIP_API hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *desc,
					   unsigned levels)
{
	HIP_ENTER(hipMipmappedArrayCreate);
	(void)array, (void)desc, (void)levels;
	return HIP_LEAVE(hipErrorNotSupported);
}

HIP_API hipError_t hipFreeMipmappedArray(hipMipmappedArray_t array)
{
	HIP_ENTER(hipFreeMipmappedArray);
	return HIP_LEAVE(array ? hipErrorNotSupported : hipErrorInvalidValue);
}

HIP_API hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t array)
{
	HIP_ENTER(hipMipmappedArrayDestroy);
	return HIP_LEAVE(array ? hipErrorNotSupported : hipErrorInvalidValue);
}

static hipError_t array_end(hipArray_t handle)
{
	struct array *array = (struct array *)handle;

	if (!array)
		return hipErrorInvalidValue;
	if (!handle_remove(array, HANDLE_ARRAY))
		return hipErrorContextIsDestroyed;
	hsa_amd_memory_pool_free(array->data);
	free(array);
	return hipSuccess;
}

HIP_API hipError_t hipFreeArray(hipArray_t array)
{
	HIP_ENTER(hipFreeArray);
	return HIP_LEAVE(array_end(array));
}

HIP_API hipError_t hipArrayDestroy(hipArray_t array)
{
	HIP_ENTER(hipArrayDestroy);
	return HIP_LEAVE(array_end(array));
}
