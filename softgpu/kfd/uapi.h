/* The kernel's own interface, from its packages (linux-libc-dev, libdrm-dev), and the few later commands that
 * the oldest supported header lacks. */
#ifndef KFDEMU_UAPI_H
#define KFDEMU_UAPI_H

#include <linux/kfd_ioctl.h>
#include <libdrm/amdgpu_drm.h>

#ifndef AMDKFD_IOC_EXPORT_DMABUF
struct kfd_ioctl_export_dmabuf_args {
	__u64 handle;
	__u32 flags;
	__u32 dmabuf_fd;
};
#define AMDKFD_IOC_EXPORT_DMABUF AMDKFD_IOWR(0x24, struct kfd_ioctl_export_dmabuf_args)
#endif

#ifndef AMDKFD_IOC_RUNTIME_ENABLE
struct kfd_ioctl_runtime_enable_args {
	__u64 r_debug;
	__u32 mode_mask;
	__u32 capabilities_mask;
};
#define AMDKFD_IOC_RUNTIME_ENABLE AMDKFD_IOWR(0x25, struct kfd_ioctl_runtime_enable_args)
#endif

/* Debugging (0x26) has large argument structures that nothing here looks into. */
#define KFD_NR_DBG_TRAP 0x26
/* 0x80 and up: commands of AMD's out-of-tree driver, which the kernel's own driver refuses. Of these the
 * emulation has the two that share memory by name. */
#define KFD_NR_OUT_OF_TREE 0x80
#define KFD_NR_IPC_IMPORT 0x80
#define KFD_NR_IPC_EXPORT 0x81

struct kfd_ioctl_ipc_export_args {
	__u64 handle;
	__u32 share_handle[4]; /* from KFD */
	__u32 gpu_id, flags;
};

struct kfd_ioctl_ipc_import_args {
	__u64 handle; /* from KFD */
	__u64 va_addr;
	__u64 mmap_offset; /* from KFD */
	__u32 share_handle[4];
	__u32 gpu_id, flags;
};

#endif
