/* Code: accepted, never executed. A launch makes the stream's queue and succeeds. */
#include <stdlib.h>

#include "hip.h"

typedef struct dim3 {
	uint32_t x, y, z;
} dim3;

HIP_API void **__hipRegisterFatBinary(const void *data)
{
	void **module = calloc(1, sizeof(void *));

	if (module)
		*module = (void *)data;
	return module;
}

HIP_API void __hipUnregisterFatBinary(void **module)
{
	free(module);
}

HIP_API void __hipRegisterFunction(void **module, const void *host_function, char *device_function,
				   const char *name, unsigned limit, void *tid, void *bid, dim3 *block,
				   dim3 *grid, int *size)
{
	(void)module, (void)host_function, (void)device_function, (void)name, (void)limit, (void)tid,
	    (void)bid, (void)block, (void)grid, (void)size;
}

HIP_API void __hipRegisterVar(void **module, void *variable, char *host_name, char *name, int external,
			      size_t size, int constant, int global)
{
	(void)module, (void)variable, (void)host_name, (void)name, (void)external, (void)size, (void)constant,
	    (void)global;
}

/* A module is its own handle; a function is a byte of it. */
static hipError_t module_new(void **module, const void *image)
{
	if (!module || !image)
		return hipErrorInvalidValue;
	*module = calloc(1, 16);
	return *module ? hipSuccess : hipErrorOutOfMemory;
}

HIP_API hipError_t hipModuleLoad(void **module, const char *path)
{
	HIP_ENTER(hipModuleLoad);
	return HIP_LEAVE(module_new(module, path));
}

HIP_API hipError_t hipModuleLoadData(void **module, const void *image)
{
	HIP_ENTER(hipModuleLoadData);
	return HIP_LEAVE(module_new(module, image));
}

HIP_API hipError_t hipModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
				       void **values)
{
	HIP_ENTER(hipModuleLoadDataEx);
	(void)count, (void)options, (void)values;
	return HIP_LEAVE(module_new(module, image));
}

HIP_API hipError_t hipModuleLoadFatBinary(void **module, const void *image)
{
	HIP_ENTER(hipModuleLoadFatBinary);
	return HIP_LEAVE(module_new(module, image));
}

HIP_API hipError_t hipModuleUnload(void *module)
{
	HIP_ENTER(hipModuleUnload);
	free(module);
	return HIP_LEAVE(module ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipModuleGetFunction(void **function, void *module, const char *name)
{
	HIP_ENTER(hipModuleGetFunction);
	if (!function || !module || !name)
		return HIP_LEAVE(hipErrorInvalidValue);
	*function = module;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipModuleGetGlobal(void **address, size_t *size, void *module, const char *name)
{
	HIP_ENTER(hipModuleGetGlobal);
	(void)address, (void)size, (void)module, (void)name;
	return HIP_LEAVE(hipErrorNotFound);
}

struct call {
	dim3 grid, block;
	size_t shared;
	hipStream_t stream;
};
static _Thread_local struct call pushed __attribute__((tls_model("initial-exec")));

HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream)
{
	HIP_ENTER(__hipPushCallConfiguration);
	pushed = (struct call){grid, block, shared, stream};
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream)
{
	HIP_ENTER(__hipPopCallConfiguration);
	*grid = pushed.grid;
	*block = pushed.block;
	*shared = pushed.shared;
	*stream = pushed.stream;
	return HIP_LEAVE(hipSuccess);
}

static hipError_t launch(hipStream_t stream)
{
	if (!stream_device(stream))
		return hipErrorContextIsDestroyed;
	stream_use(stream);
	return hipSuccess;
}

HIP_API hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
				   size_t shared, hipStream_t stream)
{
	HIP_ENTER(hipLaunchKernel);
	(void)function, (void)grid, (void)block, (void)arguments, (void)shared;
	return HIP_LEAVE(launch(stream));
}

HIP_API hipError_t hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
					 unsigned block_x, unsigned block_y, unsigned block_z,
					 unsigned shared, hipStream_t stream, void **parameters, void **extra)
{
	HIP_ENTER(hipModuleLaunchKernel);
	(void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z,
	    (void)shared, (void)parameters, (void)extra;
	return HIP_LEAVE(launch(stream));
}

/* Asks for the device and its properties through the PLT. */
HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *function,
						     size_t shared, int limit)
{
	hipError_t hipGetDevice(int *device);
	hipError_t hipGetDeviceProperties(void *prop, int device);
	hipError_t hipGetDevicePropertiesR0600(void *prop, int device);
	char prop[1472];
	hipError_t error;
	int device;

	HIP_ENTER(hipOccupancyMaxPotentialBlockSize);
	(void)function, (void)shared, (void)limit;
	if (!grid || !block)
		return HIP_LEAVE(hipErrorInvalidValue);
	error = hipGetDevice(&device);
	if (!error)
		error = RELEASE < 60 ? hipGetDeviceProperties(prop, device)
				     : hipGetDevicePropertiesR0600(prop, device);
	*grid = 2 * hip_softgpu->settings->cus;
	*block = 1024;
	return HIP_LEAVE(error);
}
