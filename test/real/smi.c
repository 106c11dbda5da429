/* librocm_smi64 for RCCL above softgpu/kfd: two cards at the addresses of the emulation, linked by XGMI.
 *
 * AMD's own asserts that an entry of /sys/class/drm is a link, which the emulation's are not. RCCL asks it
 * about links between cards, not about memory. */
#include <stdint.h>

enum { DONE = 0, NOT_SUPPORTED = 2, XGMI = 2 };

int rsmi_init(uint64_t flags)
{
	(void)flags;
	return DONE;
}

int rsmi_status_string(int status, const char **text)
{
	(void)status;
	*text = "no monitor";
	return DONE;
}

int rsmi_version_get(uint32_t version[3])
{
	version[0] = 5;
	version[1] = version[2] = 0;
	return DONE;
}

int rsmi_num_monitor_devices(uint32_t *count)
{
	*count = 2;
	return DONE;
}

int rsmi_dev_pci_id_get(uint32_t card, uint64_t *id)
{
	*id = (uint64_t)(3 + 3 * card) << 8; /* 0000:03:00.0, 0000:06:00.0 */
	return DONE;
}

int rsmi_topo_get_link_weight(uint32_t from, uint32_t to, uint64_t *weight)
{
	*weight = from == to ? 0 : 15;
	return DONE;
}

int rsmi_topo_get_link_type(uint32_t from, uint32_t to, uint64_t *hops, int *type)
{
	*hops = from != to;
	*type = XGMI;
	return DONE;
}

int rsmi_minmax_bandwidth_get(uint32_t from, uint32_t to, uint64_t *least, uint64_t *most)
{
	(void)from, (void)to;
	*least = *most = 0;
	return NOT_SUPPORTED;
}
