/* Devices, their properties, the current one, and contexts, which are devices too. */
#include <stdio.h>
#include <string.h>

#include "hip.h"

static struct device *device_at(int index)
{
	return index >= 0 && index < hip_device_count ? &hip_devices[index] : NULL;
}

HIP_API hipError_t hipInit(unsigned flags)
{
	HIP_ENTER(hipInit);
	return HIP_LEAVE(flags ? hipErrorInvalidValue : hipSuccess);
}

HIP_API hipError_t hipGetDeviceCount(int *count)
{
	hipError_t error = hip_enter(FN_hipGetDeviceCount);

	if (count)
		*count = error ? 0 : hip_device_count;
	if (error)
		return hip_leave(error);
	return HIP_LEAVE(count ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipSetDevice(int index)
{
	HIP_ENTER(hipSetDevice);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	hip_thread.device = index;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGetDevice(int *index)
{
	HIP_ENTER(hipGetDevice);
	if (!index)
		return HIP_LEAVE(hipErrorInvalidValue);
	*index = hip_thread.device;
	return HIP_LEAVE(hipSuccess);
}

/* Up to 6.4 not supported. */
HIP_API hipError_t hipSetValidDevices(int *list, int count)
{
	HIP_ENTER(hipSetValidDevices);
	if (hip_release < 70)
		return HIP_LEAVE(hipErrorNotSupported);
	if (count < 0 || (count && !list))
		return HIP_LEAVE(hipErrorInvalidValue);
	for (int i = 0; i < count; i++)
		if (!device_at(list[i]))
			return HIP_LEAVE(hipErrorInvalidDevice);
	if (count)
		hip_thread.device = list[0];
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceGet(hipDevice_t *device, int index)
{
	HIP_ENTER(hipDeviceGet);
	if (!device)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	*device = index;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t index)
{
	struct device *device;

	HIP_ENTER(hipDeviceTotalMem);
	device = device_at(index);
	if (!device)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!bytes)
		return HIP_LEAVE(hipErrorInvalidValue);
	*bytes = hip_softgpu->capacity(device->row);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceGetName(char *name, int length, hipDevice_t index)
{
	char text[64];

	HIP_ENTER(hipDeviceGetName);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!name || length <= 0)
		return HIP_LEAVE(hipErrorInvalidValue);
	hsa_agent_get_info(device_at(index)->agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME, text);
	snprintf(name, length, "%s", text);
	return HIP_LEAVE(hipSuccess);
}

/* The 16 hex digits of the UUID. */
HIP_API hipError_t hipDeviceGetUuid(void *uuid, hipDevice_t index)
{
	char text[64] = "";

	HIP_ENTER(hipDeviceGetUuid);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!uuid)
		return HIP_LEAVE(hipErrorInvalidValue);
	hsa_agent_get_info(device_at(index)->agent, HSA_AMD_AGENT_INFO_UUID, text);
	memcpy(uuid, text + strlen("GPU-"), 16);
	return HIP_LEAVE(hipSuccess);
}

static int bus_of(const struct device *device)
{
	return device->row + 1;
}

HIP_API hipError_t hipDeviceGetPCIBusId(char *text, int length, int index)
{
	HIP_ENTER(hipDeviceGetPCIBusId);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!text || length < 13)
		return HIP_LEAVE(hipErrorInvalidValue);
	snprintf(text, length, "0000:%02x:00.0", bus_of(device_at(index)));
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceGetByPCIBusId(int *index, const char *text)
{
	unsigned domain, bus, slot, function;

	HIP_ENTER(hipDeviceGetByPCIBusId);
	if (!index || !text || sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return HIP_LEAVE(hipErrorInvalidValue);
	for (int i = 0; i < hip_device_count; i++) {
		if (!domain && !slot && !function && bus == (unsigned)bus_of(&hip_devices[i])) {
			*index = i;
			return HIP_LEAVE(hipSuccess);
		}
	}
	return HIP_LEAVE(hipErrorInvalidValue);
}

HIP_API hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t index)
{
	HIP_ENTER(hipDeviceComputeCapability);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!major || !minor)
		return HIP_LEAVE(hipErrorInvalidValue);
	*major = 9;
	*minor = 0;
	return HIP_LEAVE(hipSuccess);
}

/* The two layouts of hipDeviceProp_t, by offset (facts: sizes 792 and 1472). */
struct layout {
	size_t bytes, total, shared, constant, bus, slot, domain, arch, processors;
};
static const struct layout layout_r0000 = {792, 256, 264, 320, 368, 372, 364, 396, 336};
static const struct layout layout_r0600 = {1472, 288, 296, 352, 584, 588, 592, 1160, 388};

static void put_number(char *prop, size_t at, int value)
{
	memcpy(prop + at, &value, sizeof(value));
}

static void put_size(char *prop, size_t at, size_t value)
{
	memcpy(prop + at, &value, sizeof(value));
}

static hipError_t fill_properties(void *prop, const struct layout *layout, int index)
{
	struct device *device = device_at(index);
	char text[64];

	if (!prop)
		return hipErrorInvalidValue;
	if (!device)
		return hipErrorInvalidDevice;
	memset(prop, 0, layout->bytes);
	hsa_agent_get_info(device->agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME, text);
	snprintf(prop, 256, "%s", text);
	put_size(prop, layout->total, hip_softgpu->capacity(device->row));
	put_size(prop, layout->shared, 64 << 10);
	put_size(prop, layout->constant, INT32_MAX);
	put_number(prop, layout->bus, bus_of(device));
	put_number(prop, layout->processors, hip_softgpu->settings->cus);
	snprintf((char *)prop + layout->arch, 256, "%s", hip_softgpu->settings->arch);
	return hipSuccess;
}

static hipError_t fill_r0600(void *prop, int index)
{
	enum { UUID = 256, MANAGED = 652 };
	hipError_t error = fill_properties(prop, &layout_r0600, index);
	char text[64] = "";

	if (error)
		return error;
	hsa_agent_get_info(device_at(index)->agent, HSA_AMD_AGENT_INFO_UUID, text);
	memcpy((char *)prop + UUID, text + strlen("GPU-"), 16);
	put_number(prop, MANAGED, hip_softgpu->settings->managed != 0);
	return hipSuccess;
}

HIP_API hipError_t hipGetDeviceProperties(void *prop, int device)
{
	HIP_ENTER(hipGetDeviceProperties);
	return HIP_LEAVE(fill_properties(prop, &layout_r0000, device));
}

HIP_API hipError_t hipGetDevicePropertiesR0000(void *prop, int device)
{
	HIP_ENTER(hipGetDevicePropertiesR0000);
	return HIP_LEAVE(fill_properties(prop, &layout_r0000, device));
}

HIP_API hipError_t hipGetDevicePropertiesR0600(void *prop, int device)
{
	HIP_ENTER(hipGetDevicePropertiesR0600);
	return HIP_LEAVE(fill_r0600(prop, device));
}

/* The device with at least that much memory, or the first. */
static hipError_t choose(int *device, const void *prop, const struct layout *layout)
{
	size_t wanted;

	if (!device || !prop)
		return hipErrorInvalidValue;
	memcpy(&wanted, (const char *)prop + layout->total, sizeof(wanted));
	*device = 0;
	for (int i = 0; i < hip_device_count; i++) {
		if (hip_softgpu->capacity(hip_devices[i].row) >= wanted) {
			*device = i;
			break;
		}
	}
	return hipSuccess;
}

HIP_API hipError_t hipChooseDevice(int *device, const void *prop)
{
	HIP_ENTER(hipChooseDevice);
	return HIP_LEAVE(choose(device, prop, &layout_r0000));
}

HIP_API hipError_t hipChooseDeviceR0000(int *device, const void *prop)
{
	HIP_ENTER(hipChooseDeviceR0000);
	return HIP_LEAVE(choose(device, prop, &layout_r0000));
}

HIP_API hipError_t hipChooseDeviceR0600(int *device, const void *prop)
{
	HIP_ENTER(hipChooseDeviceR0600);
	return HIP_LEAVE(choose(device, prop, &layout_r0600));
}

/* The value of TotalGlobalMem does not fit an int and is cut; 5.x does not know the attribute. */
HIP_API hipError_t hipDeviceGetAttribute(int *value, int attribute, int index)
{
	enum { INTEGRATED = 16, MANAGED = 24, MULTIPROCESSORS = 63, PCI_BUS = 67, WARP = 87 };
	uint64_t total;

	HIP_ENTER(hipDeviceGetAttribute);
	if (!value)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!device_at(index))
		return HIP_LEAVE(hipErrorInvalidDevice);
	switch (attribute) {
	case hipDeviceAttributeTotalGlobalMem:
		if (hip_release < 60)
			return HIP_LEAVE(hipErrorInvalidValue);
		total = hip_softgpu->capacity(device_at(index)->row);
		*value = total > INT32_MAX ? INT32_MAX : (int)total;
		break;
	case MULTIPROCESSORS:
		*value = hip_softgpu->settings->cus;
		break;
	case MANAGED:
		*value = hip_softgpu->settings->managed != 0;
		break;
	case INTEGRATED:
		*value = 0;
		break;
	case WARP:
		*value = 64;
		break;
	case PCI_BUS:
		*value = bus_of(device_at(index));
		break;
	default:
		*value = 1;
	}
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDriverGetVersion(int *version)
{
	HIP_ENTER(hipDriverGetVersion);
	if (!version)
		return HIP_LEAVE(hipErrorInvalidValue);
	*version = hip_release == 52   ? 50221153
		   : hip_release == 57 ? 50731921
		   : hip_release == 64 ? 60443484
				       : 70253211;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipRuntimeGetVersion(int *version)
{
	HIP_ENTER(hipRuntimeGetVersion);
	if (!version)
		return HIP_LEAVE(hipErrorInvalidValue);
	*version = hip_release == 52   ? 50221153
		   : hip_release == 57 ? 50731921
		   : hip_release == 64 ? 60443484
				       : 70253211;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceGetLimit(size_t *value, int limit)
{
	HIP_ENTER(hipDeviceGetLimit);
	if (!value)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (limit != 0 && limit != 2)
		return HIP_LEAVE(hipErrorUnsupportedLimit);
	*value = limit ? 8 << 20 : 1024;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceSetLimit(int limit, size_t value)
{
	HIP_ENTER(hipDeviceSetLimit);
	(void)value;
	return HIP_LEAVE(limit == 0 || limit == 2 ? hipSuccess : hipErrorUnsupportedLimit);
}

HIP_API hipError_t hipDeviceCanAccessPeer(int *can, int from, int to)
{
	HIP_ENTER(hipDeviceCanAccessPeer);
	if (!can)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!device_at(from) || !device_at(to))
		return HIP_LEAVE(hipErrorInvalidDevice);
	*can = from != to;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
	HIP_ENTER(hipDeviceEnablePeerAccess);
	if (flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	return HIP_LEAVE(device_at(peer) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDeviceDisablePeerAccess(int peer)
{
	HIP_ENTER(hipDeviceDisablePeerAccess);
	return HIP_LEAVE(device_at(peer) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipSetDeviceFlags(unsigned flags)
{
	HIP_ENTER(hipSetDeviceFlags);
	(void)flags;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipGetDeviceFlags(unsigned *flags)
{
	HIP_ENTER(hipGetDeviceFlags);
	if (!flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	*flags = 0;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceSetCacheConfig(int config)
{
	HIP_ENTER(hipDeviceSetCacheConfig);
	(void)config;
	return HIP_LEAVE(hipSuccess);
}
