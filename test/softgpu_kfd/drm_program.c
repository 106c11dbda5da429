/* Uses a card through libdrm_amdgpu: allocates, maps, writes, exports, imports, frees. Says "ok" when all of
 * it held. */
#include <assert.h>
#include <fcntl.h>
#include <libdrm/amdgpu.h>
#include <libdrm/amdgpu_drm.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	struct amdgpu_bo_alloc_request request = {
	    .alloc_size = 8 << 20, .phys_alignment = 4096, .preferred_heap = AMDGPU_GEM_DOMAIN_VRAM};
	struct amdgpu_bo_import_result imported;
	struct amdgpu_heap_info heap;
	amdgpu_device_handle device;
	amdgpu_bo_handle bo;
	amdgpu_va_handle range;
	uint32_t major, minor, dmabuf;
	uint64_t address;
	void *memory;
	int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);

	assert(fd >= 0);
	assert(!amdgpu_device_initialize(fd, &major, &minor, &device));
	assert(!amdgpu_bo_alloc(device, &request, &bo));
	assert(!amdgpu_query_heap_info(device, AMDGPU_GEM_DOMAIN_VRAM, 0, &heap) &&
	       heap.heap_usage == 8 << 20);
	assert(!amdgpu_va_range_alloc(device, amdgpu_gpu_va_range_general, 8 << 20, 4096, 0, &address, &range,
				      0));
	assert(!amdgpu_bo_va_op(bo, 0, 8 << 20, address, 0, AMDGPU_VA_OP_MAP));
	assert(!amdgpu_bo_cpu_map(bo, &memory));
	memset(memory, 0x42, 4096);
	assert(*(char *)address == 0x42); /* the card's view of it */
	assert(!amdgpu_bo_export(bo, amdgpu_bo_handle_type_dma_buf_fd, &dmabuf));
	assert(!amdgpu_bo_import(device, amdgpu_bo_handle_type_dma_buf_fd, dmabuf, &imported) &&
	       imported.alloc_size == 8 << 20);
	printf("ok\n");
	fflush(stdout);
	getchar();
	assert(!amdgpu_bo_free(imported.buf_handle));
	close((int)dmabuf);
	assert(!amdgpu_bo_cpu_unmap(bo));
	assert(!amdgpu_bo_va_op(bo, 0, 8 << 20, address, 0, AMDGPU_VA_OP_UNMAP));
	assert(!amdgpu_bo_free(bo));
	printf("freed\n");
	fflush(stdout);
	getchar();
	return 0;
}
