/* LD_PRELOADed between HIP and HSA, as a profiler is. On request it misbehaves inside of a call of the runtime. */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stddef.h>
#include <unistd.h>

extern "C" {

/* What the next call does; set by the program. */
int trap_next = 0; /* 1 throw, 2 raise SIGUSR1, 3 pause (a cancellation point), 4 turn in circles, 5 nothing: count */
int trap_calls = 0;

struct pool {
	uint64_t handle;
};

int hsa_amd_memory_pool_allocate(struct pool pool, size_t size, uint32_t flags, void **pointer)
{
	static int (*next)(struct pool, size_t, uint32_t, void **);
	int what = trap_next;

	if (!next)
		next = (int (*)(struct pool, size_t, uint32_t, void **))dlsym(RTLD_NEXT, "hsa_amd_memory_pool_allocate");
	trap_calls++;
	trap_next = 0;
	if (what == 1)
		throw 1;
	if (what == 2)
		raise(SIGUSR1);
	while (what == 3)
		pause();
	for (volatile int turning = 1; what == 4 && turning;)
		;
	return next(pool, size, flags, pointer);
}

/* Calls f and says whether it threw. */
int trap_catch(void (*f)(void))
{
	try {
		f();
	} catch (int) {
		return 1;
	}
	return 0;
}
}
