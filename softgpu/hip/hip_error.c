/* The last error, and names of errors. */
#include "hip.h"

HIP_API hipError_t hipGetLastError(void)
{
	hipError_t error = hip_enter(FN_hipGetLastError);

	if (error)
		return error;
	error = hip_thread.last_error;
	hip_thread.last_error = hipSuccess;
	if (hip_release < 60)
		hip_thread.last_command_error = hipSuccess;
	return error;
}

HIP_API hipError_t hipPeekAtLastError(void)
{
	hipError_t error = hip_enter(FN_hipPeekAtLastError);

	return error ? error : hip_thread.last_error;
}

HIP_API hipError_t hipExtGetLastError(void)
{
	hipError_t error = hip_enter(FN_hipExtGetLastError);

	if (error)
		return error;
	error = hip_thread.last_command_error;
	hip_thread.last_command_error = hipSuccess;
	return error;
}

static const struct {
	hipError_t error;
	const char *name, *text;
} errors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {205, "hipErrorMapFailed", "mapping of buffer object failed"},
    {215, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {712, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {900, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {906, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {999, "hipErrorUnknown", "unknown error"},
};

static const char *error_name(hipError_t error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].name;
	return "hipErrorUnknown";
}

static const char *error_text(hipError_t error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].text;
	return "unknown error";
}

HIP_API const char *hipGetErrorName(hipError_t error)
{
	return error_name(error);
}

HIP_API const char *hipGetErrorString(hipError_t error)
{
	return error_text(error);
}

HIP_API hipError_t hipDrvGetErrorName(hipError_t error, const char **name)
{
	HIP_ENTER(hipDrvGetErrorName);
	if (!name)
		return HIP_LEAVE(hipErrorInvalidValue);
	*name = error_name(error);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDrvGetErrorString(hipError_t error, const char **text)
{
	HIP_ENTER(hipDrvGetErrorString);
	if (!text)
		return HIP_LEAVE(hipErrorInvalidValue);
	*text = error_text(error);
	return HIP_LEAVE(hipSuccess);
}
