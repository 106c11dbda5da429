/* One row a command, as in the kernel: the number selects, the size in the command may differ between header
 * versions. */
#include "kfd.h"
#include "driver.h"
#include "drm.h"
#include "events.h"
#include "log.h"
#include "memory.h"
#include "queues.h"
#include "settings.h"
#include "svm.h"
#include "uapi.h"

#include <asm/ioctl.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/eventfd.h>

static int get_version(struct kfd_ioctl_get_version_args *args)
{
	args->major_version = 1;
	args->minor_version = (uint32_t)settings()->kfd_minor;
	return 0;
}

static int get_clocks(struct kfd_ioctl_get_clock_counters_args *args)
{
	args->gpu_clock_counter = clock_ticks();
	args->cpu_clock_counter = clock_ns();
	args->system_clock_counter = clock_ns();
	args->system_clock_freq = 1000000000;
	return 0;
}

static int get_tiling(struct kfd_ioctl_get_tile_config_args *args)
{
	args->num_tile_configs = 0;
	args->num_macro_tile_configs = 0;
	args->gb_addr_config = 0x10000444;
	args->num_banks = 0;
	args->num_ranks = 0;
	return 0;
}

/* gpuvm_limit 2^47-1 makes ROCr take GPU addresses from plain mmap. */
static int get_apertures(struct kfd_ioctl_get_process_apertures_new_args *args)
{
	struct kfd_process_device_apertures *aperture =
	    (void *)(uintptr_t)args->kfd_process_device_apertures_ptr;
	uint32_t cards = (uint32_t)driver()->cards;

	for (uint32_t i = 0; aperture && i < args->num_of_nodes && i < cards; i++)
		aperture[i] =
		    (struct kfd_process_device_apertures){.lds_base = 1ull << 48,
							  .lds_limit = (1ull << 48) + UINT32_MAX,
							  .scratch_base = 2ull << 48,
							  .scratch_limit = (2ull << 48) + UINT32_MAX,
							  .gpuvm_base = 0x4000,
							  .gpuvm_limit = (1ull << 47) - 1,
							  .gpu_id = (uint32_t)driver_gpu_id((int)i)};
	if (!aperture || args->num_of_nodes > cards)
		args->num_of_nodes = cards;
	return 0;
}

static int free_memory(struct kfd_ioctl_free_memory_of_gpu_args *args)
{
	int error = memory_free(args->handle);

	log_line("FREE_MEMORY handle=%#llx result=%d", args->handle, error);
	return error;
}

static int set_event(struct kfd_ioctl_set_event_args *args)
{
	return events_set(args->event_id);
}

static int reset_event(struct kfd_ioctl_reset_event_args *args)
{
	return events_reset(args->event_id);
}

static int alloc_gws(struct kfd_ioctl_alloc_queue_gws_args *args)
{
	args->first_gws = 0;
	return 0;
}

static int smi_events(struct kfd_ioctl_smi_events_args *args)
{
	args->anon_fd = (uint32_t)eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return (int)args->anon_fd < 0 ? -errno : 0;
}

/* Page faults on the card are off, and cannot be switched on. */
static int xnack_mode(struct kfd_ioctl_set_xnack_mode_args *args)
{
	if (args->xnack_enabled > 0)
		return -EPERM;
	args->xnack_enabled = 0;
	return 0;
}

static int accept_it(void *args)
{
	(void)args;
	return 0;
}

typedef int command_function(void *args);

#define COMMAND(number, function) [number] = (command_function *)(void (*)(void))(function)

static command_function *const commands[256] = {
    COMMAND(0x01, get_version),
    COMMAND(0x02, queues_create),
    COMMAND(0x03, queues_destroy),
    COMMAND(0x04, accept_it), /* SET_MEMORY_POLICY */
    COMMAND(0x05, get_clocks),
    COMMAND(0x07, queues_update),
    COMMAND(0x08, events_create),
    COMMAND(0x09, events_destroy),
    COMMAND(0x0a, set_event),
    COMMAND(0x0b, reset_event),
    COMMAND(0x0c, events_wait),
    COMMAND(0x11, accept_it), /* SET_SCRATCH_BACKING_VA */
    COMMAND(0x12, get_tiling),
    COMMAND(0x13, accept_it), /* SET_TRAP_HANDLER */
    COMMAND(0x14, get_apertures),
    COMMAND(0x15, accept_it), /* ACQUIRE_VM */
    COMMAND(0x16, memory_allocate),
    COMMAND(0x17, free_memory),
    COMMAND(0x18, memory_map),
    COMMAND(0x19, memory_unmap),
    COMMAND(0x1a, queues_set_cu_mask),
    COMMAND(0x1c, memory_dmabuf_info),
    COMMAND(0x1d, memory_import),
    COMMAND(0x1e, alloc_gws),
    COMMAND(0x1f, smi_events),
    COMMAND(0x20, svm_command),
    COMMAND(0x21, xnack_mode),
    COMMAND(0x23, memory_available),
    COMMAND(0x24, memory_export),
    COMMAND(0x25, accept_it), /* RUNTIME_ENABLE */
    COMMAND(KFD_NR_IPC_IMPORT, memory_ipc_import),
    COMMAND(KFD_NR_IPC_EXPORT, memory_ipc_export),
};

static bool is_offered(unsigned int number)
{
	return commands[number] && (number < KFD_NR_OUT_OF_TREE || settings()->ipc);
}

int kfd_command(unsigned long command, void *args)
{
	unsigned int number = _IOC_NR(command);

	driver();
	queues_wake();
	drm_collect();
	if (is_offered(number))
		return commands[number](args);
	if (number == KFD_NR_DBG_TRAP || number >= KFD_NR_OUT_OF_TREE) {
		log_line("REFUSED kfd command %#lx", command);
		return -EINVAL;
	}
	log_unknown("UNKNOWN kfd command %#lx", command);
	return -EINVAL;
}
