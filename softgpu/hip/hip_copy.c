/* Copies and fills: device memory is memory. */
#include <string.h>

#include "hip.h"

typedef int hipMemcpyKind;

static hipError_t copy(void *to, const void *from, size_t size)
{
	if (!size)
		return hipSuccess;
	if (!to || !from)
		return hipErrorInvalidValue;
	memmove(to, from, size);
	return hipSuccess;
}

static hipError_t copy_on(void *to, const void *from, size_t size, hipStream_t stream)
{
	if (!stream_device(stream))
		return hipErrorContextIsDestroyed;
	if (stream_capture(stream))
		return hipSuccess; /* a node, which nobody executes */
	stream_use(stream);
	return copy(to, from, size);
}

HIP_API hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind kind)
{
	HIP_ENTER(hipMemcpy);
	(void)kind;
	return HIP_LEAVE(copy_on(to, from, size, NULL));
}

HIP_API hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
				  hipStream_t stream)
{
	HIP_ENTER(hipMemcpyAsync);
	(void)kind;
	return HIP_LEAVE(copy_on(to, from, size, stream));
}

HIP_API hipError_t hipMemcpyWithStream(void *to, const void *from, size_t size, hipMemcpyKind kind,
				       hipStream_t stream)
{
	HIP_ENTER(hipMemcpyWithStream);
	(void)kind;
	return HIP_LEAVE(copy_on(to, from, size, stream));
}

#define COPY(name, to_type, from_type)                                                                       \
	HIP_API hipError_t name(to_type to, from_type from, size_t size)                                     \
	{                                                                                                    \
		HIP_ENTER(name);                                                                             \
		return HIP_LEAVE(copy_on(to, from, size, NULL));                                             \
	}                                                                                                    \
	HIP_API hipError_t name##Async(to_type to, from_type from, size_t size, hipStream_t stream)          \
	{                                                                                                    \
		HIP_ENTER(name##Async);                                                                      \
		return HIP_LEAVE(copy_on(to, from, size, stream));                                           \
	}
COPY(hipMemcpyHtoD, hipDeviceptr_t, void *)
COPY(hipMemcpyDtoH, void *, hipDeviceptr_t)
COPY(hipMemcpyDtoD, hipDeviceptr_t, hipDeviceptr_t)

HIP_API hipError_t hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size)
{
	HIP_ENTER(hipMemcpyPeer);
	(void)to_device, (void)from_device;
	return HIP_LEAVE(copy_on(to, from, size, NULL));
}

HIP_API hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
				      hipStream_t stream)
{
	HIP_ENTER(hipMemcpyPeerAsync);
	(void)to_device, (void)from_device;
	return HIP_LEAVE(copy_on(to, from, size, stream));
}

static hipError_t copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
			    size_t height)
{
	if (!to || !from || width > to_pitch || width > from_pitch)
		return width && height ? hipErrorInvalidValue : hipSuccess;
	for (size_t row = 0; row < height; row++)
		memmove(to + row * to_pitch, from + row * from_pitch, width);
	return hipSuccess;
}

HIP_API hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			       size_t height, hipMemcpyKind kind)
{
	HIP_ENTER(hipMemcpy2D);
	(void)kind;
	return HIP_LEAVE(copy_rows(to, to_pitch, from, from_pitch, width, height));
}

HIP_API hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
				    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream)
{
	HIP_ENTER(hipMemcpy2DAsync);
	(void)kind;
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	return HIP_LEAVE(copy_rows(to, to_pitch, from, from_pitch, width, height));
}

static hipError_t fill(void *to, int value, size_t size, hipStream_t stream)
{
	if (!to)
		return size ? hipErrorInvalidValue : hipSuccess;
	if (!stream_device(stream))
		return hipErrorContextIsDestroyed;
	if (stream_capture(stream))
		return hipSuccess;
	stream_use(stream);
	memset(to, value, size);
	return hipSuccess;
}

HIP_API hipError_t hipMemset(void *to, int value, size_t size)
{
	HIP_ENTER(hipMemset);
	return HIP_LEAVE(fill(to, value, size, NULL));
}

HIP_API hipError_t hipMemsetAsync(void *to, int value, size_t size, hipStream_t stream)
{
	HIP_ENTER(hipMemsetAsync);
	return HIP_LEAVE(fill(to, value, size, stream));
}

HIP_API hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t size)
{
	HIP_ENTER(hipMemsetD8);
	return HIP_LEAVE(fill(to, value, size, NULL));
}

HIP_API hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t size, hipStream_t stream)
{
	HIP_ENTER(hipMemsetD8Async);
	return HIP_LEAVE(fill(to, value, size, stream));
}

HIP_API hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count)
{
	HIP_ENTER(hipMemsetD32);
	if (!to)
		return HIP_LEAVE(hipErrorInvalidValue);
	for (size_t i = 0; i < count; i++)
		((int *)to)[i] = value;
	return HIP_LEAVE(hipSuccess);
}
