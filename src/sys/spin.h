/* A lock that is held for some ten nanoseconds, or while a table of our own grows; 0 is free.
 *
 * Any thread, not in a signal handler. Memory that a forked child finds zeroed has its locks free there. Waiters look again, so
 * that unlocking takes no locked operation.
 */
#ifndef AMVGPU_SPIN_H
#define AMVGPU_SPIN_H

#include "sys.h"

enum { SPIN_PAUSES = 64, SPIN_YIELDS = 16, SPIN_SLEEP_NS = 50000 };

static inline bool spin_try_lock(uint32_t *lock)
{
	uint32_t expected = 0;

	return __atomic_compare_exchange_n(lock, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void spin_wait(uint32_t *lock)
{
	for (unsigned i = 0;; i++) {
		if (!__atomic_load_n(lock, __ATOMIC_RELAXED) && spin_try_lock(lock))
			return;
		if (i < SPIN_PAUSES)
			__builtin_ia32_pause();
		else if (i < SPIN_PAUSES + SPIN_YIELDS)
			sys_sched_yield();
		else
			sys_sleep_ns(SPIN_SLEEP_NS);
	}
}

static inline void spin_lock(uint32_t *lock)
{
	if (!__builtin_expect(spin_try_lock(lock), 1))
		spin_wait(lock);
}

static inline void spin_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* pairs with spin_try_lock */
}

#endif
