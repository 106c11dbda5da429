/* Contexts: a context is a device. Pushing sets the current device, popping does not restore it. */
#include "hip.h"

typedef struct device *hipCtx_t;

static bool is_context(hipCtx_t context)
{
	return context >= hip_devices && context < hip_devices + hip_device_count;
}

static hipError_t push(hipCtx_t context)
{
	enum { DEEPEST = sizeof(hip_thread.contexts) / sizeof(hip_thread.contexts[0]) };

	if (hip_thread.context_depth == DEEPEST)
		return hipErrorOutOfMemory;
	hip_thread.contexts[hip_thread.context_depth++] = context->index;
	return hipSuccess;
}

/* Pushed on the stack; the current device stays. */
HIP_API hipError_t hipCtxCreate(hipCtx_t *context, unsigned flags, hipDevice_t index)
{
	HIP_ENTER(hipCtxCreate);
	(void)flags;
	if (!context)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (index < 0 || index >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidValue);
	*context = &hip_devices[index];
	return HIP_LEAVE(push(*context));
}

/* Frees nothing. */
HIP_API hipError_t hipCtxDestroy(hipCtx_t context)
{
	HIP_ENTER(hipCtxDestroy);
	return HIP_LEAVE(is_context(context) ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipCtxSetCurrent(hipCtx_t context)
{
	HIP_ENTER(hipCtxSetCurrent);
	if (!context) {
		if (hip_thread.context_depth)
			hip_thread.context_depth--;
		return HIP_LEAVE(hipSuccess);
	}
	if (!is_context(context))
		return HIP_LEAVE(hipErrorInvalidContext);
	hip_thread.device = context->index;
	if (hip_thread.context_depth)
		hip_thread.context_depth--;
	return HIP_LEAVE(push(context));
}

HIP_API hipError_t hipCtxPushCurrent(hipCtx_t context)
{
	HIP_ENTER(hipCtxPushCurrent);
	if (!is_context(context))
		return HIP_LEAVE(hipErrorInvalidContext);
	hip_thread.device = context->index;
	return HIP_LEAVE(push(context));
}

HIP_API hipError_t hipCtxPopCurrent(hipCtx_t *context)
{
	HIP_ENTER(hipCtxPopCurrent);
	if (!hip_thread.context_depth)
		return HIP_LEAVE(hipErrorInvalidContext);
	hip_thread.context_depth--;
	if (context)
		*context = &hip_devices[hip_thread.contexts[hip_thread.context_depth]];
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipCtxGetCurrent(hipCtx_t *context)
{
	HIP_ENTER(hipCtxGetCurrent);
	if (!context)
		return HIP_LEAVE(hipErrorInvalidValue);
	*context = hip_device_here();
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipCtxGetDevice(hipDevice_t *device)
{
	HIP_ENTER(hipCtxGetDevice);
	if (!device)
		return HIP_LEAVE(hipErrorInvalidValue);
	*device = hip_thread.device;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipCtxSynchronize(void)
{
	HIP_ENTER(hipCtxSynchronize);
	return HIP_LEAVE(hipErrorNotSupported);
}

static bool is_device(hipDevice_t index)
{
	return index >= 0 && index < hip_device_count;
}

HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t index)
{
	HIP_ENTER(hipDevicePrimaryCtxRetain);
	if (!is_device(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!context)
		return HIP_LEAVE(hipErrorInvalidValue);
	*context = &hip_devices[index];
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t index)
{
	HIP_ENTER(hipDevicePrimaryCtxRelease);
	return HIP_LEAVE(is_device(index) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxReset(hipDevice_t index)
{
	HIP_ENTER(hipDevicePrimaryCtxReset);
	return HIP_LEAVE(is_device(index) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t index, unsigned flags)
{
	HIP_ENTER(hipDevicePrimaryCtxSetFlags);
	(void)flags;
	return HIP_LEAVE(is_device(index) ? hipErrorContextIsDestroyed : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t index, unsigned *flags, int *active)
{
	HIP_ENTER(hipDevicePrimaryCtxGetState);
	if (!is_device(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (flags)
		*flags = 0;
	if (active)
		*active = index == hip_thread.device;
	return HIP_LEAVE(hipSuccess);
}
