/* What a pointer is. Host memory registered by its owner is remembered by range. */
#include <stdlib.h>
#include <string.h>

#include "hip.h"

struct attributes {
	int type;
	int device;
	void *device_pointer;
	void *host_pointer;
	int is_managed;
	unsigned flags;
};

/* The numbers changed with 6.0. */
static int type_of(const struct block *block)
{
	bool is_old = hip_release < 60;

	if (block->kind == KIND_HOST)
		return is_old ? 0 : 1;
	if (block->kind == KIND_MANAGED)
		return is_old ? 4 : 3;
	return is_old ? 1 : 2;
}

struct registered {
	char *address;
	size_t size;
	unsigned flags;
	struct registered *next;
};
static struct registered *registered;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

static struct registered *registered_at(const void *address)
{
	struct registered *r;

	pthread_mutex_lock(&registered_lock);
	for (r = registered; r && (size_t)((const char *)address - r->address) >= r->size; r = r->next)
		;
	pthread_mutex_unlock(&registered_lock);
	return r;
}

HIP_API hipError_t hipHostRegister(void *ptr, size_t size, unsigned flags)
{
	struct registered *r;

	HIP_ENTER(hipHostRegister);
	if (!ptr || !size)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (registered_at(ptr))
		return HIP_LEAVE(hipErrorHostMemoryAlreadyRegistered);
	r = malloc(sizeof(*r));
	if (!r)
		return HIP_LEAVE(hipErrorOutOfMemory);
	pthread_mutex_lock(&registered_lock);
	*r = (struct registered){ptr, size, flags, registered};
	registered = r;
	pthread_mutex_unlock(&registered_lock);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipHostUnregister(void *ptr)
{
	struct registered **at, *r;

	HIP_ENTER(hipHostUnregister);
	pthread_mutex_lock(&registered_lock);
	for (at = &registered; (r = *at); at = &r->next) {
		if (r->address == ptr) {
			*at = r->next;
			break;
		}
	}
	pthread_mutex_unlock(&registered_lock);
	free(r);
	return HIP_LEAVE(r ? hipSuccess : hipErrorHostMemoryNotRegistered);
}

HIP_API hipError_t hipHostGetDevicePointer(void **device_pointer, void *ptr, unsigned flags)
{
	struct block *block;

	HIP_ENTER(hipHostGetDevicePointer);
	if (!device_pointer || !ptr || flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	block = hip_find(ptr);
	if ((!block || block->kind != KIND_HOST) && !registered_at(ptr))
		return HIP_LEAVE(hipErrorInvalidValue);
	*device_pointer = ptr;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipHostGetFlags(unsigned *flags, void *ptr)
{
	struct block *block;

	HIP_ENTER(hipHostGetFlags);
	block = ptr ? hip_find(ptr) : NULL;
	if (!flags || !block || block->kind != KIND_HOST)
		return HIP_LEAVE(hipErrorInvalidValue);
	*flags = 0;
	return HIP_LEAVE(hipSuccess);
}

/* From 6.0 an unknown pointer is memory of type Unregistered. */
HIP_API hipError_t hipPointerGetAttributes(struct attributes *attributes, const void *ptr)
{
	struct block *block;

	HIP_ENTER(hipPointerGetAttributes);
	if (!attributes || !ptr)
		return HIP_LEAVE(hipErrorInvalidValue);
	memset(attributes, 0, sizeof(*attributes));
	block = hip_find(ptr);
	if (!block) {
		attributes->device = -2;
		return HIP_LEAVE(hip_release < 60 ? hipErrorInvalidValue : hipSuccess);
	}
	attributes->type = type_of(block);
	attributes->device = block->device;
	attributes->device_pointer = (void *)ptr;
	if (block->kind == KIND_HOST || block->kind == KIND_MANAGED)
		attributes->host_pointer = (void *)ptr;
	attributes->is_managed = block->kind == KIND_MANAGED;
	return HIP_LEAVE(hipSuccess);
}

enum {
	TYPE = 2,
	DEVICE_POINTER = 3,
	HOST_POINTER = 4,
	IS_MANAGED = 8,
	ORDINAL = 9,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MAPPED = 13
};

static hipError_t attribute_of(void *data, int attribute, char *ptr)
{
	struct block *block = ptr ? hip_find(ptr) : NULL;

	if (!data || !block)
		return hipErrorInvalidValue;
	switch (attribute) {
	case TYPE:
		*(int *)data = type_of(block);
		break;
	case HOST_POINTER:
		if (block->kind != KIND_HOST && block->kind != KIND_MANAGED)
			return hipErrorInvalidValue;
		/* fall through */
	case DEVICE_POINTER:
		*(void **)data = ptr;
		break;
	case IS_MANAGED:
		*(bool *)data = block->kind == KIND_MANAGED;
		break;
	case ORDINAL:
		*(int *)data = block->device;
		break;
	case RANGE_START:
		*(void **)data = block->address;
		break;
	case RANGE_SIZE:
		*(size_t *)data = block->size;
		break;
	case MAPPED:
		*(bool *)data = true;
		break;
	default:
		return hipErrorNotSupported;
	}
	return hipSuccess;
}

HIP_API hipError_t hipPointerGetAttribute(void *data, int attribute, hipDeviceptr_t ptr)
{
	HIP_ENTER(hipPointerGetAttribute);
	return HIP_LEAVE(attribute_of(data, attribute, ptr));
}

HIP_API hipError_t hipDrvPointerGetAttributes(unsigned count, int *attributes, void **data,
					      hipDeviceptr_t ptr)
{
	HIP_ENTER(hipDrvPointerGetAttributes);
	if (!attributes || !data)
		return HIP_LEAVE(hipErrorInvalidValue);
	for (unsigned i = 0; i < count; i++)
		if (data[i])
			attribute_of(data[i], attributes[i], ptr);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipPointerSetAttribute(const void *value, int attribute, hipDeviceptr_t ptr)
{
	HIP_ENTER(hipPointerSetAttribute);
	(void)attribute;
	return HIP_LEAVE(value && ptr ? hipSuccess : hipErrorInvalidValue);
}

/* Hints about managed memory change nothing that we count. */
static hipError_t hint(const void *ptr, size_t size)
{
	struct block *block = ptr && size ? hip_find(ptr) : NULL;

	return block && block->kind == KIND_MANAGED ? hipSuccess : hipErrorInvalidValue;
}

HIP_API hipError_t hipMemPrefetchAsync(const void *ptr, size_t size, int device, hipStream_t stream)
{
	HIP_ENTER(hipMemPrefetchAsync);
	(void)device, (void)stream;
	return HIP_LEAVE(hint(ptr, size));
}

HIP_API hipError_t hipMemPrefetchAsync_v2(const void *ptr, size_t size, hipMemLocation location,
					  unsigned flags, hipStream_t stream)
{
	HIP_ENTER(hipMemPrefetchAsync_v2);
	(void)location, (void)flags, (void)stream;
	return HIP_LEAVE(hint(ptr, size));
}

HIP_API hipError_t hipMemAdvise(const void *ptr, size_t size, int advice, int device)
{
	HIP_ENTER(hipMemAdvise);
	(void)advice, (void)device;
	return HIP_LEAVE(hint(ptr, size));
}

HIP_API hipError_t hipMemAdvise_v2(const void *ptr, size_t size, int advice, hipMemLocation location)
{
	HIP_ENTER(hipMemAdvise_v2);
	(void)advice, (void)location;
	return HIP_LEAVE(hint(ptr, size));
}

HIP_API hipError_t hipMemRangeGetAttribute(void *data, size_t data_size, int attribute, const void *ptr,
					   size_t size)
{
	hipError_t error;

	HIP_ENTER(hipMemRangeGetAttribute);
	(void)attribute;
	error = data && data_size ? hint(ptr, size) : hipErrorInvalidValue;
	if (!error)
		memset(data, 0, data_size);
	return HIP_LEAVE(error);
}

HIP_API hipError_t hipMemRangeGetAttributes(void **data, size_t *data_sizes, int *attributes, size_t count,
					    const void *ptr, size_t size)
{
	hipError_t error;

	HIP_ENTER(hipMemRangeGetAttributes);
	error = data && data_sizes && attributes && count ? hint(ptr, size) : hipErrorInvalidValue;
	for (size_t i = 0; !error && i < count; i++)
		memset(data[i], 0, data_sizes[i]);
	return HIP_LEAVE(error);
}

HIP_API hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *ptr, size_t size, unsigned flags)
{
	HIP_ENTER(hipStreamAttachMemAsync);
	(void)size, (void)flags;
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	return HIP_LEAVE(hint(ptr, 1));
}
