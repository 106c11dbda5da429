/* The stand-in's virtual memory management. 5.x has none to speak of. */
#include <sys/resource.h>
#include <unistd.h>

#include "test_standin.h"

hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *wish,
				unsigned long long flags);
hipError_t hipMemAddressFree(void *ptr, size_t size);
hipError_t hipMemSetAccess(void *ptr, size_t size, const void *access, size_t count);
hipError_t hipMemGetAllocationGranularity(size_t *granularity, const void *prop, int option);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *ptr);
hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle, int type,
					 unsigned long long flags);
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shareable,
					   int type);

struct access {
	hipMemLocation location;
	int flags;
};

/* In the layout of this release. */
static const hipMemAllocationProp *prop_of(int device, int handle_type)
{
	static union {
		hipMemAllocationProp prop;
		int words[8]; /* 5.2.3: location.type at 1, location.id at 2, handle type at 3, type at 4 */
	} u;

	memset(&u, 0, sizeof(u));
	if (release() == 52) {
		u.words[1] = hipMemLocationTypeDevice;
		u.words[2] = device;
		u.words[3] = handle_type;
		u.words[4] = 1;
	} else {
		u.prop.type = 1;
		u.prop.requestedHandleType = handle_type;
		u.prop.location = (hipMemLocation){hipMemLocationTypeDevice, device};
	}
	return &u.prop;
}

static bool has_vmm(void)
{
	return release() >= 60;
}

TEST(the_granularity_is_4_kib_and_0_where_there_is_no_virtual_memory)
{
	size_t granularity = 1;

	OK(hipMemGetAllocationGranularity(&granularity, prop_of(0, 0), 0));
	CHECK_EQ(granularity, has_vmm() ? 4096 : 0);
}

TEST(physical_memory_is_on_the_device_of_its_location_and_on_7_2_on_the_current_one)
{
	uint64_t before[2] = {held_on(0), held_on(1)};
	hipMemGenericAllocationHandle_t handle;

	OK(hipSetDevice(0));
	OK(hipMemCreate(&handle, MIB, prop_of(1, 0), 0));
	CHECK_EQ(held_on(0) - before[0], release() < 70 ? 0 : MIB);
	CHECK_EQ(held_on(1) - before[1], release() < 70 ? MIB : 0);
	OK(hipMemRelease(handle));
	CHECK_EQ(held_on(0), before[0]);
	CHECK_EQ(held_on(1), before[1]);
	CHECK_EQ(hipMemRelease(handle), hipErrorInvalidValue);
	hipGetLastError();
}

TEST(memory_in_the_host_exists_from_7_2_and_takes_none_of_the_device)
{
	hipMemAllocationProp prop = {.type = 1, .location = {hipMemLocationTypeHost, 0}};
	hipMemGenericAllocationHandle_t handle;
	uint64_t before = held();

	if (release() < 70)
		return;
	OK(hipMemCreate(&handle, MIB, &prop, 0));
	CHECK_EQ(held(), before);
	OK(hipMemRelease(handle));
}

TEST(a_size_that_is_no_multiple_of_2048_is_refused_and_one_that_does_not_fit_too)
{
	hipMemGenericAllocationHandle_t handle;
	uint64_t before = held();

	CHECK_EQ(hipMemCreate(&handle, 1000, prop_of(0, 0), 0), hipErrorInvalidValue);
	CHECK_EQ(hipMemCreate(&handle, 17 * GIB, prop_of(0, 0), 0), hipErrorOutOfMemory);
	CHECK_EQ(held(), before);
	hipGetLastError();
}

static void *mapped(hipMemGenericAllocationHandle_t handle, size_t size)
{
	struct access access = {{hipMemLocationTypeDevice, 0}, 3};
	void *address = NULL;

	OK(hipMemAddressReserve(&address, size, 0, NULL, 0));
	OK(hipMemMap(address, size, 0, handle, 0));
	OK(hipMemSetAccess(address, size, &access, 1));
	return address;
}

TEST(memory_goes_with_the_last_release_and_unmap_in_either_order)
{
	hipMemGenericAllocationHandle_t handle;
	uint64_t before = held();
	char *address;

	if (!has_vmm()) {
		CHECK(hipMemMap((void *)4096, 4096, 0, NULL, 0) != hipSuccess);
		return;
	}
	for (int release_first = 0; release_first < 2; release_first++) {
		OK(hipMemCreate(&handle, MIB, prop_of(0, 0), 0));
		address = mapped(handle, MIB);
		address[0] = address[MIB - 1] = 1;
		if (release_first)
			OK(hipMemRelease(handle));
		else
			OK(hipMemUnmap(address, MIB));
		CHECK_EQ(held() - before, MIB);
		if (release_first)
			OK(hipMemUnmap(address, MIB));
		else
			OK(hipMemRelease(handle));
		CHECK_EQ(held(), before);
		OK(hipMemAddressFree(address, MIB));
	}
}

TEST(two_mappings_of_one_handle_show_the_same_memory_and_both_hold_it)
{
	hipMemGenericAllocationHandle_t handle, again = NULL;
	uint64_t before = held();
	char *first, *second;

	if (!has_vmm())
		return;
	OK(hipMemCreate(&handle, MIB, prop_of(0, 0), 0));
	first = mapped(handle, MIB);
	second = mapped(handle, MIB);
	first[77] = 5;
	CHECK_EQ(second[77], 5);
	OK(hipMemRetainAllocationHandle(&again, second + 100));
	CHECK(again == handle);
	OK(hipMemRelease(handle)); /* retaining took no reference */
	OK(hipMemUnmap(first, MIB));
	CHECK_EQ(held() - before, MIB);
	CHECK_EQ(second[77], 5);
	OK(hipMemUnmap(second, MIB));
	CHECK_EQ(held(), before);
	OK(hipMemAddressFree(first, MIB));
	OK(hipMemAddressFree(second, MIB));
}

TEST(reserving_addresses_takes_no_memory)
{
	uint64_t before = held();
	void *address;

	if (!has_vmm())
		return;
	OK(hipMemAddressReserve(&address, 64 * GIB, 2 * MIB, NULL, 0));
	CHECK_EQ((uintptr_t)address % (2 * MIB), 0);
	CHECK_EQ(held(), before);
	OK(hipMemAddressFree(address, 64 * GIB));
}

TEST(thousands_of_handles_need_no_descriptors)
{
	enum { MANY = 4000 };
	static hipMemGenericAllocationHandle_t handles[MANY];
	struct rlimit few = {64, 64};
	uint64_t before = held();
	char *address;
	int failed = 0;

	if (!has_vmm())
		return;
	setrlimit(RLIMIT_NOFILE, &few);
	OK(hipMemAddressReserve((void **)&address, MANY * 2 * MIB, 0, NULL, 0));
	for (int i = 0; i < MANY; i++) {
		failed += hipMemCreate(&handles[i], 2 * MIB, prop_of(0, 0), 0) != 0;
		failed += hipMemMap(address + i * 2 * MIB, 2 * MIB, 0, handles[i], 0) != 0;
		failed += hipMemRelease(handles[i]) != 0;
	}
	CHECK_EQ(failed, 0);
	CHECK_EQ(held() - before, MANY * 2 * MIB);
	for (int i = 0; i < MANY; i++)
		failed += hipMemUnmap(address + i * 2 * MIB, 2 * MIB) != 0;
	CHECK_EQ(failed, 0);
	CHECK_EQ(held(), before);
	OK(hipMemAddressFree(address, MANY * 2 * MIB));
}

TEST(an_imported_handle_shows_the_exporters_memory_and_takes_none)
{
	hipMemGenericAllocationHandle_t handle, other;
	uint64_t before = held();
	char *here, *there;
	int fd = -1;

	if (!has_vmm())
		return;
	OK(hipMemCreate(&handle, MIB, prop_of(0, 1), 0));
	here = mapped(handle, MIB);
	OK(hipMemExportToShareableHandle(&fd, handle, 1, 0));
	OK(hipMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, 1));
	close(fd);
	CHECK_EQ(held() - before, MIB);
	there = mapped(other, MIB);
	here[5] = 9;
	CHECK_EQ(there[5], 9);
	OK(hipMemUnmap(there, MIB));
	OK(hipMemRelease(other));
	CHECK_EQ(held() - before, MIB);
	OK(hipMemUnmap(here, MIB));
	OK(hipMemRelease(handle));
	CHECK_EQ(held(), before);
	OK(hipMemAddressFree(here, MIB));
	OK(hipMemAddressFree(there, MIB));
}

TEST(a_reset_takes_outstanding_handles_on_7_2_only)
{
	hipMemGenericAllocationHandle_t handle;

	if (!has_vmm())
		return;
	OK(hipMemCreate(&handle, MIB, prop_of(0, 0), 0));
	OK(hipDeviceReset());
	CHECK_EQ(held(), release() < 70 ? MIB : 0);
	if (release() < 70)
		OK(hipMemRelease(handle));
	CHECK_EQ(held(), 0);
}

TEST_MAIN()
