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

/* Rows of the table that are exported only. */
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
STUB(__hipRegisterManagedVar, , , )
STUB(hipArray3DGetDescriptor, , , )
STUB(hipArrayGetDescriptor, , , )
STUB(hipArrayGetInfo, , , )
STUB(hipGetSymbolAddress, , , )
STUB(hipGetSymbolSize, , , )
STUB(hipGraphicsGLRegisterBuffer, , , )
STUB(hipGraphicsGLRegisterImage, , , )
STUB(hipGraphicsMapResources, , , )
STUB(hipGraphicsResourceGetMappedPointer, , , )
STUB(hipGraphicsSubResourceGetMappedArray, , , )
STUB(hipGraphicsUnmapResources, , , )
STUB(hipGraphicsUnregisterResource, , , )
STUB(hipLibraryLoadData, , , )
STUB(hipLibraryLoadFromFile, , , )
STUB(hipLibraryUnload, , , )
STUB(hipLinkComplete, , , )
