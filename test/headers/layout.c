/* Prints every line of layout.def: of hip_abi.h, or with -DTHEIRS of HIP's own header. RELEASE is 52, 57, 64 or 72. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef THEIRS
#include <hip/hip_runtime_api.h>
#else
#include "../../src/hip/hip_abi.h"
#endif

#define SIZE(since, type) PRINT_SIZE_##since(type)
#define FIELD(since, type, field) PRINT_FIELD_##since(type, field)
#define VALUE(since, name) PRINT_VALUE_##since(#name, name)

#define PRINT_SIZE(type) printf(#type " %zu\n", sizeof(type));
#define PRINT_FIELD(type, field) printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field));
#define PRINT_VALUE(text, name) printf(text " %lld\n", (long long)(name));

/* A line of a later release is not even compiled. */
#define PRINT_SIZE_52 PRINT_SIZE
#define PRINT_FIELD_52 PRINT_FIELD
#define PRINT_VALUE_52 PRINT_VALUE
#if RELEASE >= 57
#define PRINT_SIZE_57 PRINT_SIZE
#define PRINT_FIELD_57 PRINT_FIELD
#define PRINT_VALUE_57 PRINT_VALUE
#else
#define PRINT_SIZE_57(type)
#define PRINT_FIELD_57(type, field)
#define PRINT_VALUE_57(text, name)
#endif
#if RELEASE >= 64
#define PRINT_FIELD_64 PRINT_FIELD
#else
#define PRINT_FIELD_64(type, field)
#endif
#if RELEASE >= 72
#define PRINT_VALUE_72 PRINT_VALUE
#else
#define PRINT_VALUE_72(text, name)
#endif

/* Fields that changed their name or place with the release. */
static void print_special(void)
{
#ifdef THEIRS
	hipMemAllocationProp prop;
	unsigned char bytes[sizeof(prop)];

	memset(&prop, 0, sizeof(prop));
	prop.location.id = 0x11;
	memcpy(bytes, &prop, sizeof(prop));
	printf("location.id of hipMemAllocationProp at %td\n", (unsigned char *)memchr(bytes, 0x11, sizeof(bytes)) - bytes);
#if RELEASE >= 60
	printf("totalGlobalMem %zu\n", offsetof(hipDeviceProp_tR0600, totalGlobalMem));
#else
	printf("totalGlobalMem %zu\n", offsetof(hipDeviceProp_t, totalGlobalMem));
#endif
#else
	/* 5.2.3 had its location at another place: see hip_memcreate_device(). */
	printf("location.id of hipMemAllocationProp at %zu\n",
	       RELEASE == 52 ? (size_t)8 : offsetof(hipMemAllocationProp, location) + offsetof(hipMemLocation, id));
	printf("totalGlobalMem %d\n", RELEASE >= 60 ? HIP_PROP_R0600_TOTAL : HIP_PROP_R0000_TOTAL);
#endif
}

int main(void)
{
#include "layout.def"
	print_special();
	return 0;
}
