/* A shell over HIP: one call a line, one answer a line. The hands of the end-to-end tests.
 *
 *	malloc a 64M        -> "0"            free a+16        -> "0"
 *	info                -> "0 free=… total=…"
 *
 * Works on any libamdhip64 (environment HIPSH_RUNTIME names it), linked to none: what a release lacks answers "missing".
 * Names stand for pointers and handles; sizes take K M G T.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/hip/hip_abi.h"

static void *runtime;
static __thread char *words[16];
static __thread unsigned word_count;
static __thread FILE *answers; /* NULL: stdout */

/* ---- names ---- */

static struct name {
	char text[24];
	void *value;
} names[4096];
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static struct name *name_of(const char *text)
{
	unsigned i = 0;

	pthread_mutex_lock(&names_lock);
	while (i < 4095 && names[i].text[0] && strcmp(names[i].text, text))
		i++;
	if (!names[i].text[0])
		snprintf(names[i].text, sizeof names[i].text, "%s", text);
	pthread_mutex_unlock(&names_lock);
	return &names[i];
}

static const char *word(unsigned i)
{
	return i < word_count ? words[i] : "";
}

static void **slot(unsigned i)
{
	return &name_of(word(i))->value;
}

/* "a", "a+100", "null", "0x1234" */
static void *value(unsigned i)
{
	char text[64];
	char *plus;

	snprintf(text, sizeof text, "%s", word(i));
	if (!*text || !strcmp(text, "null"))
		return NULL;
	if (!strncmp(text, "0x", 2))
		return (void *)strtoull(text, NULL, 16);
	if ((plus = strchr(text, '+')))
		*plus++ = 0;
	return (char *)name_of(text)->value + (plus ? strtoull(plus, NULL, 0) : 0);
}

static size_t size(unsigned i)
{
	char *end;
	size_t n = strtoull(word(i), &end, 0);

	switch (*end | 0x20) {
	case 't':
		n <<= 10; /* fall through */
	case 'g':
		n <<= 10; /* fall through */
	case 'm':
		n <<= 10; /* fall through */
	case 'k':
		n <<= 10;
	}
	return n;
}

static int number(unsigned i)
{
	return (int)strtol(word(i), NULL, 0);
}

/* ---- calls ---- */

static void *find(const char *name)
{
	return dlsym(runtime, name);
}

#define ANSWER(...) fprintf(answers ? answers : stdout, __VA_ARGS__)

/* Calls name; a function the release lacks is "missing". */
#define CALL(name, params, args)                                                                                       \
	__extension__({                                                                                                \
		int (*f_) params = (int(*) params)find(#name);                                                         \
		if (!f_) {                                                                                             \
			ANSWER("missing\n");                                                                           \
			return;                                                                                        \
		}                                                                                                      \
		f_ args;                                                                                               \
	})

#define VERB(name) static void name(void)

VERB(do_init)
{
	ANSWER("%d\n", CALL(hipInit, (unsigned), (0)));
}

VERB(do_count)
{
	int n = -1, r = CALL(hipGetDeviceCount, (int *), (&n));

	ANSWER("%d count=%d\n", r, n);
}

VERB(do_device)
{
	ANSWER("%d\n", CALL(hipSetDevice, (int), (number(1))));
}

VERB(do_malloc)
{
	int r = CALL(hipMalloc, (void **, size_t), (slot(1), size(2)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

/* malloc into NULL, with a size: what the runtime itself refuses */
VERB(do_malloc_null)
{
	ANSWER("%d\n", CALL(hipMalloc, (void **, size_t), (NULL, size(1))));
}

/* many N SIZE: N allocations named m0, m1, ...; answers how many were granted and the error that ended it */
VERB(do_many)
{
	int (*f)(void **, size_t) = (int (*)(void **, size_t))find("hipMalloc");
	static void *kept[1100000];
	int n = number(1), got = 0, r = 0;

	while (got < n && !(r = f(&kept[got], size(2))))
		got++;
	if (!strcmp(word(3), "free")) {
		int (*g)(void *) = (int (*)(void *))find("hipFree");

		for (int i = 0; i < got; i++)
			g(kept[i]);
	}
	ANSWER("%d got=%d\n", r, got);
}

VERB(do_managed)
{
	int r = CALL(hipMallocManaged, (void **, size_t, unsigned), (slot(1), size(2), word_count > 3 ? number(3) : 1));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_ext)
{
	int r = CALL(hipExtMallocWithFlags, (void **, size_t, unsigned), (slot(1), size(2), number(3)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_pitch)
{
	size_t pitch = 0;
	int r = CALL(hipMallocPitch, (void **, size_t *, size_t, size_t), (slot(1), &pitch, size(2), size(3)));

	ANSWER("%d pitch=%zu ptr=%p\n", r, pitch, *slot(1));
}

VERB(do_mempitch)
{
	size_t pitch = 0;
	int r = CALL(hipMemAllocPitch, (void **, size_t *, size_t, size_t, unsigned),
		     (slot(1), &pitch, size(2), size(3), 4));

	ANSWER("%d pitch=%zu ptr=%p\n", r, pitch, *slot(1));
}

VERB(do_malloc3d)
{
	hipPitchedPtr p = { 0 };
	hipExtent e = { size(2), size(3), size(4) };
	int r = CALL(hipMalloc3D, (hipPitchedPtr *, hipExtent), (&p, e));

	*slot(1) = p.ptr;
	ANSWER("%d pitch=%zu ptr=%p\n", r, p.pitch, p.ptr);
}

VERB(do_async)
{
	int r = CALL(hipMallocAsync, (void **, size_t, void *), (slot(1), size(2), value(3)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_frompool)
{
	int r = CALL(hipMallocFromPoolAsync, (void **, size_t, void *, void *), (slot(1), size(2), value(3), value(4)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

static const hipChannelFormatDesc float_texel = { 32, 0, 0, 0, 2 };

VERB(do_array)
{
	int r = CALL(hipMallocArray, (void **, const hipChannelFormatDesc *, size_t, size_t, unsigned),
		     (slot(1), &float_texel, size(2), size(3), 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_array3d)
{
	hipExtent e = { size(2), size(3), size(4) };
	int r = CALL(hipMalloc3DArray, (void **, const hipChannelFormatDesc *, hipExtent, unsigned),
		     (slot(1), &float_texel, e, 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_arraycreate)
{
	HIP_ARRAY_DESCRIPTOR d = { size(2), size(3), 0x20, 1 };
	int r = CALL(hipArrayCreate, (void **, const HIP_ARRAY_DESCRIPTOR *), (slot(1), &d));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_array3dcreate)
{
	HIP_ARRAY3D_DESCRIPTOR d = { size(2), size(3), size(4), 0x20, 1, 0 };
	int r = CALL(hipArray3DCreate, (void **, const HIP_ARRAY3D_DESCRIPTOR *), (slot(1), &d));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_mipmap)
{
	hipExtent e = { size(2), size(3), size(4) };
	int r = CALL(hipMallocMipmappedArray, (void **, const hipChannelFormatDesc *, hipExtent, unsigned, unsigned),
		     (slot(1), &float_texel, e, 2, 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

/* create NAME SIZE DEVICE [LOCATION_TYPE]; the layout of 5.2.3 if HIPSH_PROP_52 is set */
VERB(do_create)
{
	hipMemAllocationProp prop = { .type = 1, .location = { word_count > 4 ? number(4) : 1, number(3) } };
	int old[8] = { 0, prop.location.type, prop.location.id, 0, 1 };
	int r = CALL(hipMemCreate, (void **, size_t, const void *, unsigned long long),
		     (slot(1), size(2), getenv("HIPSH_PROP_52") ? (void *)old : (void *)&prop, 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_host)
{
	int r = CALL(hipHostMalloc, (void **, size_t, unsigned), (slot(1), size(2), 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_memallochost)
{
	int r = CALL(hipMemAllocHost, (void **, size_t), (slot(1), size(2)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_mipcreate)
{
	HIP_ARRAY3D_DESCRIPTOR d = { size(2), size(3), size(4), 0x20, 1, 0 };
	int r = CALL(hipMipmappedArrayCreate, (void **, HIP_ARRAY3D_DESCRIPTOR *, unsigned), (slot(1), &d, 2));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_freemip)
{
	ANSWER("%d\n", CALL(hipFreeMipmappedArray, (void *), (value(1))));
}

VERB(do_mipdestroy)
{
	ANSWER("%d\n", CALL(hipMipmappedArrayDestroy, (void *), (value(1))));
}

static void *held[4096];
static int held_count;

/* hold SIZE: allocations of SIZE until one is refused; drop: frees them */
VERB(do_hold)
{
	int r = 0;

	while (held_count < 4096 && !(r = CALL(hipMalloc, (void **, size_t), (&held[held_count], size(1)))))
		held_count++;
	ANSWER("%d got=%d\n", r, held_count);
}

VERB(do_drop)
{
	int wrong = 0;

	while (held_count)
		wrong += CALL(hipFree, (void *), (held[--held_count])) != 0;
	ANSWER("%d\n", wrong);
}

VERB(do_free)
{
	ANSWER("%d\n", CALL(hipFree, (void *), (value(1))));
}

VERB(do_freeasync)
{
	ANSWER("%d\n", CALL(hipFreeAsync, (void *, void *), (value(1), value(2))));
}

VERB(do_hostfree)
{
	ANSWER("%d\n", CALL(hipHostFree, (void *), (value(1))));
}

VERB(do_freehost)
{
	ANSWER("%d\n", CALL(hipFreeHost, (void *), (value(1))));
}

VERB(do_freearray)
{
	ANSWER("%d\n", CALL(hipFreeArray, (void *), (value(1))));
}

VERB(do_arraydestroy)
{
	ANSWER("%d\n", CALL(hipArrayDestroy, (void *), (value(1))));
}

VERB(do_release)
{
	ANSWER("%d\n", CALL(hipMemRelease, (void *), (value(1))));
}

VERB(do_reserve)
{
	int r = CALL(hipMemAddressReserve, (void **, size_t, size_t, void *, unsigned long long),
		     (slot(1), size(2), 0, NULL, 0));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_map) /* map VA SIZE HANDLE */
{
	ANSWER("%d\n", CALL(hipMemMap, (void *, size_t, size_t, void *, unsigned long long),
			    (value(1), size(2), 0, value(3), 0)));
}

VERB(do_unmap)
{
	ANSWER("%d\n", CALL(hipMemUnmap, (void *, size_t), (value(1), size(2))));
}

VERB(do_stream)
{
	ANSWER("%d\n", CALL(hipStreamCreate, (void **), (slot(1))));
}

VERB(do_streamprio)
{
	ANSWER("%d\n", CALL(hipStreamCreateWithPriority, (void **, unsigned, int), (slot(1), 0, number(2))));
}

VERB(do_streamdestroy)
{
	ANSWER("%d\n", CALL(hipStreamDestroy, (void *), (value(1))));
}

VERB(do_sync)
{
	ANSWER("%d\n", CALL(hipStreamSynchronize, (void *), (value(1))));
}

VERB(do_devsync)
{
	ANSWER("%d\n", CALL(hipDeviceSynchronize, (void), ()));
}

VERB(do_mempool)
{
	hipMemPoolProps props = { .allocType = 1, .location = { 1, number(2) } };
	int r = CALL(hipMemPoolCreate, (void **, const hipMemPoolProps *), (slot(1), &props));

	ANSWER("%d\n", r);
}

VERB(do_defaultpool)
{
	ANSWER("%d\n", CALL(hipDeviceGetDefaultMemPool, (void **, int), (slot(1), number(2))));
}

VERB(do_getpool)
{
	ANSWER("%d\n", CALL(hipDeviceGetMemPool, (void **, int), (slot(1), number(2))));
}

VERB(do_setpool) /* setpool DEVICE POOL */
{
	ANSWER("%d\n", CALL(hipDeviceSetMemPool, (int, void *), (number(1), value(2))));
}

VERB(do_pooldestroy)
{
	ANSWER("%d\n", CALL(hipMemPoolDestroy, (void *), (value(1))));
}

VERB(do_threshold)
{
	uint64_t bytes = size(2);

	ANSWER("%d\n", CALL(hipMemPoolSetAttribute, (void *, int, void *), (value(1), 4, &bytes)));
}

VERB(do_trim)
{
	ANSWER("%d\n", CALL(hipMemPoolTrimTo, (void *, size_t), (value(1), 0)));
}

VERB(do_begin)
{
	ANSWER("%d\n", CALL(hipStreamBeginCapture, (void *, int), (value(1), 2)));
}

VERB(do_end)
{
	ANSWER("%d\n", CALL(hipStreamEndCapture, (void *, void **), (value(1), slot(2))));
}

VERB(do_capturing)
{
	int status = -1, r = CALL(hipStreamIsCapturing, (void *, int *), (value(1), &status));

	ANSWER("%d status=%d\n", r, status);
}

VERB(do_instantiate)
{
	ANSWER("%d\n", CALL(hipGraphInstantiate, (void **, void *, void *, char *, size_t),
			    (slot(1), value(2), NULL, NULL, 0)));
}

VERB(do_instantiate_flags)
{
	ANSWER("%d\n", CALL(hipGraphInstantiateWithFlags, (void **, void *, unsigned long long),
			    (slot(1), value(2), 0)));
}

VERB(do_instantiate_params)
{
	struct {
		void *node, *stream;
		unsigned long long flags;
		int result;
		void *more[8];
	} params = { 0 };
	int r = CALL(hipGraphInstantiateWithParams, (void **, void *, void *), (slot(1), value(2), &params));

	ANSWER("%d result=%d\n", r, params.result);
}

VERB(do_graphdestroy)
{
	ANSWER("%d\n", CALL(hipGraphDestroy, (void *), (value(1))));
}

VERB(do_graphtrim)
{
	ANSWER("%d\n", CALL(hipDeviceGraphMemTrim, (int), (number(1))));
}

VERB(do_launch_spt)
{
	ANSWER("%d\n", CALL(hipGraphLaunch_spt, (void *, void *), (value(1), value(2))));
}

VERB(do_launch)
{
	ANSWER("%d\n", CALL(hipGraphLaunch, (void *, void *), (value(1), value(2))));
}

VERB(do_execdestroy)
{
	ANSWER("%d\n", CALL(hipGraphExecDestroy, (void *), (value(1))));
}

VERB(do_reset)
{
	ANSWER("%d\n", CALL(hipDeviceReset, (void), ()));
}

VERB(do_info)
{
	size_t f = 0, t = 0;
	int r = CALL(hipMemGetInfo, (size_t *, size_t *), (&f, &t));

	ANSWER("%d free=%zu total=%zu\n", r, f, t);
}

VERB(do_totalmem)
{
	size_t t = 0;
	int r = CALL(hipDeviceTotalMem, (size_t *, int), (&t, number(1)));

	ANSWER("%d total=%zu\n", r, t);
}

/* props FUNCTION DEVICE OFFSET */
VERB(do_props)
{
	static char prop[4096];
	int (*f)(void *, int) = (int (*)(void *, int))find(word(1));

	if (!f) {
		ANSWER("missing\n");
		return;
	}
	int r = f(prop, number(2));

	ANSWER("%d total=%zu\n", r, *(size_t *)(prop + number(3)));
}

VERB(do_attribute)
{
	int v = -1, r = CALL(hipDeviceGetAttribute, (int *, int, int), (&v, number(1), number(2)));

	ANSWER("%d value=%d\n", r, v);
}

VERB(do_last)
{
	ANSWER("%d\n", CALL(hipGetLastError, (void), ()));
}

VERB(do_peek)
{
	ANSWER("%d\n", CALL(hipPeekAtLastError, (void), ()));
}

VERB(do_extlast)
{
	ANSWER("%d\n", CALL(hipExtGetLastError, (void), ()));
}

VERB(do_ipcget)
{
	static struct {
		char bytes[64];
	} handle;
	int r = CALL(hipIpcGetMemHandle, (void *, void *), (&handle, value(1)));

	ANSWER("%d handle=", r);
	for (unsigned i = 0; i < 64; i++)
		ANSWER("%02x", (unsigned char)handle.bytes[i]);
	ANSWER("\n");
}

VERB(do_ipcopen) /* ipcopen NAME HEX FLAGS */
{
	struct {
		char bytes[64];
	} handle;

	for (unsigned i = 0; i < 64; i++) {
		unsigned byte = 0;

		sscanf(word(2) + 2 * i, "%2x", &byte);
		handle.bytes[i] = (char)byte;
	}
	int r = CALL(hipIpcOpenMemHandle, (void **, __typeof__(handle), unsigned), (slot(1), handle, number(3)));

	ANSWER("%d ptr=%p\n", r, *slot(1));
}

VERB(do_ipcclose)
{
	ANSWER("%d\n", CALL(hipIpcCloseMemHandle, (void *), (value(1))));
}

VERB(do_memset)
{
	ANSWER("%d\n", CALL(hipMemset, (void *, int, size_t), (value(1), number(2), size(3))));
}

VERB(do_setaccess) /* setaccess VA SIZE DEVICE */
{
	struct {
		int location_type, id, flags;
	} access = { 1, number(3), 3 };

	ANSWER("%d\n", CALL(hipMemSetAccess, (void *, size_t, const void *, size_t), (value(1), size(2), &access, 1)));
}

VERB(do_addressfree)
{
	ANSWER("%d\n", CALL(hipMemAddressFree, (void *, size_t), (value(1), size(2))));
}

/* The plain name takes the device's number in every release; 7.x exports a newer one beside it. */
VERB(do_prefetch) /* prefetch PTR SIZE DEVICE */
{
	ANSWER("%d\n", CALL(hipMemPrefetchAsync, (void *, size_t, int, void *), (value(1), size(2), number(3), NULL)));
}

VERB(do_module) /* module NAME FILE */
{
	int r = CALL(hipModuleLoad, (void **, const char *), (slot(1), word(2)));

	ANSWER("%d\n", r);
}

VERB(do_unload)
{
	ANSWER("%d\n", CALL(hipModuleUnload, (void *), (value(1))));
}

VERB(do_function) /* function NAME MODULE SYMBOL */
{
	int r = CALL(hipModuleGetFunction, (void **, void *, const char *), (slot(1), value(2), word(3)));

	ANSWER("%d\n", r);
}

VERB(do_kernel) /* kernel FUNCTION GROUPS POINTER: waits for its end */
{
	void *pointer = value(3), *arguments[] = { &pointer };
	int r = CALL(hipModuleLaunchKernel,
		     (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
		     (value(1), (unsigned)number(2), 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));

	if (!r)
		r = CALL(hipDeviceSynchronize, (void), ());
	ANSWER("%d\n", r);
}

VERB(do_limit) /* limit WHICH SIZE: 0 stack, 2 heap of the device */
{
	ANSWER("%d\n", CALL(hipDeviceSetLimit, (int, size_t), (number(1), size(2))));
}

VERB(do_streammask) /* streammask NAME WORD WORD ...: a stream on these compute units */
{
	uint32_t mask[14];
	unsigned count = 0;

	for (unsigned i = 2; i < word_count; i++)
		mask[count++] = (uint32_t)strtoul(word(i), NULL, 16);
	ANSWER("%d\n", CALL(hipExtStreamCreateWithCUMask, (void **, uint32_t, const uint32_t *), (slot(1), count, mask)));
}

/* ---- the process ---- */

VERB(do_setenv)
{
	setenv(word(1), word(2), 1);
	ANSWER("0\n");
}

extern char **environ;

VERB(do_putenv) /* putenv NAME VALUE */
{
	char *text = NULL;

	if (asprintf(&text, "%s=%s", word(1), word(2)) < 0 || putenv(text))
		abort();
	ANSWER("0\n");
}

/* environ NAME VALUE: a new array of variables, without setenv or putenv */
VERB(do_environ)
{
	static char *block[512];
	size_t length = strlen(word(1));
	unsigned n = 0;

	for (char **e = environ; *e && n < 510; e++) {
		if (strncmp(*e, word(1), length) || (*e)[length] != '=')
			block[n++] = *e;
	}
	if (asprintf(&block[n], "%s=%s", word(1), word(2)) < 0)
		abort();
	block[n + 1] = NULL;
	environ = block;
	ANSWER("0\n");
}

VERB(do_cumaskstream) /* cumaskstream NAME WORD… */
{
	uint32_t mask[12];
	unsigned n = 0;

	while (n + 2 < word_count && n < 12) {
		mask[n] = (uint32_t)strtoul(word(n + 2), NULL, 0);
		n++;
	}
	ANSWER("%d\n", CALL(hipExtStreamCreateWithCUMask, (void **, uint32_t, const uint32_t *), (slot(1), n, mask)));
}

VERB(do_getenv)
{
	char *v = getenv(word(1));

	ANSWER("0 value=%s\n", v ? v : "(unset)");
}

VERB(do_pid)
{
	ANSWER("0 pid=%d\n", getpid());
}

VERB(do_exit)
{
	fflush(stdout);
	exit(number(1));
}

VERB(do_quit)
{
	_exit(number(1));
}

static void run(char *line);

/* fork LINE…: a child runs the line; the answer is the child's, then the parent goes on */
VERB(do_fork)
{
	char line[256] = "";

	for (unsigned i = 1; i < word_count; i++) {
		strncat(line, words[i], sizeof line - strlen(line) - 2);
		strcat(line, " ");
	}
	fflush(stdout);
	pid_t child = fork();

	if (!child) {
		run(line);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void *thread_main(void *line)
{
	run(line);
	return NULL;
}

VERB(do_thread)
{
	char line[256] = "";
	pthread_t thread;

	for (unsigned i = 1; i < word_count; i++) {
		strncat(line, words[i], sizeof line - strlen(line) - 2);
		strcat(line, " ");
	}
	pthread_create(&thread, NULL, thread_main, line);
	pthread_join(thread, NULL);
}

struct hammer {
	unsigned seed;
	int rounds;
	size_t most;
	int is_async;
	int granted, refused, wrong;
};

static int hammer_alloc(const struct hammer *h, void **ptr, size_t bytes)
{
	int (*alloc)(void **, size_t) = (int (*)(void **, size_t))find("hipMalloc");
	int (*alloc_async)(void **, size_t, void *) = (int (*)(void **, size_t, void *))find("hipMallocAsync");

	return h->is_async ? alloc_async(ptr, bytes, NULL) : alloc(ptr, bytes);
}

/* Random allocations and frees of one thread; everything is free at the end. */
static void *hammer_main(void *argument)
{
	struct hammer *h = argument;
	int (*release)(void *) = (int (*)(void *))find("hipFree");
	void *held[8] = { 0 };

	for (int i = 0; i < h->rounds; i++) {
		unsigned k = rand_r(&h->seed) % 8;

		if (held[k]) {
			h->wrong += release(held[k]) != 0;
			held[k] = NULL;
			continue;
		}
		int r = hammer_alloc(h, &held[k], 1 + (size_t)rand_r(&h->seed) * 37 % h->most);

		if (r) {
			held[k] = NULL;
			h->refused++;
			h->wrong += r != 2;
		} else {
			h->granted++;
		}
	}
	for (unsigned k = 0; k < 8; k++) {
		if (held[k])
			h->wrong += release(held[k]) != 0;
	}
	return NULL;
}

VERB(do_hammer) /* hammer THREADS ROUNDS MOST SEED [async] */
{
	enum { MOST_THREADS = 64 };
	struct hammer h[MOST_THREADS];
	pthread_t thread[MOST_THREADS];
	int n = number(1), granted = 0, refused = 0, wrong = 0;

	for (int i = 0; i < n; i++) {
		h[i] = (struct hammer){ .seed = (unsigned)number(4) + (unsigned)i, .rounds = number(2), .most = size(3),
				      .is_async = !strcmp(word(5), "async") };
		pthread_create(&thread[i], NULL, hammer_main, &h[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		granted += h[i].granted;
		refused += h[i].refused;
		wrong += h[i].wrong;
	}
	ANSWER("%d granted=%d refused=%d\n", wrong, granted, refused);
}

struct racer {
	char take[128], give[128];
	int rounds, granted, refused, wrong;
};

/* Runs a line and returns the number its answer begins with. */
static int quietly(const char *line)
{
	char text[128], *answer = NULL;
	size_t length;
	int result;

	snprintf(text, sizeof text, "%s", line);
	answers = open_memstream(&answer, &length);
	run(text);
	fclose(answers);
	answers = NULL;
	result = *answer >= '0' && *answer <= '9' ? atoi(answer) : -1;
	free(answer);
	return result;
}

static void *race_main(void *argument)
{
	struct racer *r = argument;

	for (int i = 0; i < r->rounds; i++) {
		int result = quietly(r->take);

		r->granted += result == 0;
		r->refused += result == 2;
		r->wrong += result != 0 && result != 2;
		if (!result)
			r->wrong += quietly(r->give) != 0;
	}
	return NULL;
}

/* race THREADS ROUNDS TAKE… / GIVE…: every thread takes and gives back; a % in a line becomes the thread's number */
VERB(do_race)
{
	enum { MOST_THREADS = 16 };
	struct racer r[MOST_THREADS] = { 0 };
	pthread_t thread[MOST_THREADS];
	int n = number(1), granted = 0, refused = 0, wrong = 0;

	for (int t = 0; t < n; t++) {
		char *line = r[t].take;

		r[t].rounds = number(2);
		for (unsigned w = 3; w < word_count; w++) {
			if (!strcmp(words[w], "/")) {
				line = r[t].give;
				continue;
			}
			for (const char *c = words[w]; *c; c++)
				sprintf(line + strlen(line), *c == '%' ? "%d" : "%c", *c == '%' ? t : *c);
			strcat(line, " ");
		}
		pthread_create(&thread[t], NULL, race_main, &r[t]);
	}
	for (int t = 0; t < n; t++) {
		pthread_join(thread[t], NULL);
		granted += r[t].granted;
		refused += r[t].refused;
		wrong += r[t].wrong;
	}
	ANSWER("%d granted=%d refused=%d\n", wrong, granted, refused);
}

static const struct {
	const char *name;
	void (*run)(void);
} verbs[] = {
#define V(name) { #name, do_##name }
	V(init), V(count), V(device), V(malloc), V(malloc_null), V(many), V(managed), V(ext), V(pitch), V(mempitch),
	V(malloc3d), V(async), V(frompool), V(array), V(array3d), V(arraycreate), V(array3dcreate), V(mipmap), V(create),
	V(host), V(memallochost), V(free), V(freeasync), V(hostfree), V(freehost), V(freearray), V(arraydestroy),
	V(release), V(reserve), V(map), V(unmap), V(stream), V(streamprio), V(streamdestroy), V(sync), V(devsync),
	V(mempool), V(defaultpool), V(pooldestroy), V(threshold), V(trim), V(begin), V(end), V(capturing), V(instantiate),
	V(launch), V(execdestroy), V(reset), V(info), V(totalmem), V(props), V(attribute), V(last), V(peek), V(extlast),
	V(ipcget), V(ipcopen), V(ipcclose), V(memset), V(setenv), V(getenv), V(pid), V(exit), V(quit), V(fork), V(thread),
	V(hammer), V(mipcreate), V(freemip), V(mipdestroy), V(hold), V(drop), V(getpool), V(setpool),
	V(putenv), V(environ), V(cumaskstream),
	V(instantiate_flags), V(instantiate_params), V(graphdestroy), V(graphtrim), V(launch_spt), V(race),
	V(setaccess), V(addressfree), V(prefetch), V(module), V(unload), V(function), V(kernel), V(limit),
	V(streammask),
#undef V
};

static void run(char *line)
{
	char *rest = NULL;

	word_count = 0;
	for (char *w = strtok_r(line, " \n", &rest); w && word_count < 16; w = strtok_r(NULL, " \n", &rest))
		words[word_count++] = w;
	for (unsigned i = 0; word_count && i < sizeof verbs / sizeof *verbs; i++) {
		if (!strcmp(words[0], verbs[i].name)) {
			verbs[i].run();
			return;
		}
	}
	if (word_count)
		printf("no such verb: %s\n", words[0]);
}

int main(void)
{
	const char *name = getenv("HIPSH_RUNTIME");
	char line[512];

	runtime = dlopen(name ? name : "libamdhip64.so.7", RTLD_NOW);
	if (!runtime) {
		printf("no runtime: %s\n", dlerror());
		return 2;
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		run(line);
		fflush(stdout);
	}
	return 0;
}
