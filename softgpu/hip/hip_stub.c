/* What is exported so that programs load, and does nothing: it answers hipErrorNotSupported. */
#include "hip.h"

hipError_t hip_not_supported(enum hip_function function)
{
	hipError_t error = hip_enter(function);

	return hip_leave(error ? error : hipErrorNotSupported);
}

#define ALLOC(...)
#define FREE(...)
#define HAND(...)
#define PASS(...)
#define EXTRA(...)
#define STUB(name, node, since, until)                                                                       \
	HIP_API hipError_t name(void);                                                                       \
	hipError_t name(void)                                                                                \
	{                                                                                                    \
		return hip_not_supported(FN_##name);                                                         \
	}
#include "standin_extra.def"
STUB(hipMemMapArrayAsync, , , )
STUB(hipMemGetHandleForAddressRange, , , )
STUB(hipImportExternalMemory, , , )
STUB(hipExternalMemoryGetMappedBuffer, , , )
STUB(hipDestroyExternalMemory, , , )
STUB(hipMemPoolExportToShareableHandle, , , )
STUB(hipMemPoolImportFromShareableHandle, , , )
STUB(hipMemPoolExportPointer, , , )
STUB(hipMemPoolImportPointer, , , )
STUB(hipGetMipmappedArrayLevel, , , )
STUB(hipMipmappedArrayGetLevel, , , )
