/* Declares every function of the table again, after HIP's own header: a parameter that differs is an error of the compiler.
 * RELEASE is 52, 57, 64 or 72. Compile only.
 */
#include <hip/hip_runtime_api.h>

#define REDECLARE(name, params) hipError_t name params;
#define SINCE_52 REDECLARE
#if RELEASE >= 57
#define SINCE_57 REDECLARE
#else
#define SINCE_57(name, params)
#endif
#if RELEASE >= 64
#define SINCE_64 REDECLARE
#else
#define SINCE_64(name, params)
#endif
#if RELEASE >= 72
#define SINCE_72 REDECLARE
#else
#define SINCE_72(name, params)
#endif

/* The table says void * for a structure of two layouts and int for an enumeration: the same to the ABI, another type to C. */
#undef hipGetDeviceProperties
#if RELEASE >= 60
#define PROPERTIES(name, type) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), hipError_t (*)(type *, int)), #name)
PROPERTIES(hipGetDevicePropertiesR0600, hipDeviceProp_tR0600);
#define hipGetDevicePropertiesR0600 table_hipGetDevicePropertiesR0600
#else
_Static_assert(__builtin_types_compatible_p(__typeof__(&hipGetDeviceProperties), hipError_t (*)(hipDeviceProp_t *, int)), "");
#define hipGetDeviceProperties table_hipGetDeviceProperties
#endif
_Static_assert(__builtin_types_compatible_p(__typeof__(&hipDeviceGetAttribute), hipError_t (*)(int *, hipDeviceAttribute_t, int)),
	       "");
_Static_assert(sizeof(hipDeviceAttribute_t) == sizeof(int), "");
#define hipDeviceGetAttribute table_hipDeviceGetAttribute

#define ALLOC(name, node, since, params, ...) SINCE_##since(name, params)
#define FREE(name, node, since, params, ...) SINCE_##since(name, params)
#define HAND(name, node, since, params, ...) SINCE_##since(name, params)
#define PASS(...)
#include "../../src/hip/hip_api.def"
