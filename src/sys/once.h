/* Work that is done by the first who comes; the others wait until it is done.
 *
 *	static uint32_t once;
 *	if (once_begin(&once)) { ...; once_end(&once); }
 *
 * Any thread, also under the loader lock; the work must not come back to its own once.
 */
#ifndef AMVGPU_ONCE_H
#define AMVGPU_ONCE_H

#include "sys.h"

enum { ONCE_TODO, ONCE_RUNNING, ONCE_DONE };

static inline bool once_begin(uint32_t *once)
{
	uint32_t expected = ONCE_TODO;

	if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == ONCE_DONE)
		return false;
	if (__atomic_compare_exchange_n(once, &expected, ONCE_RUNNING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return true;
	while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != ONCE_DONE) /* pairs with once_end */
		sys_sched_yield();
	return false;
}

static inline void once_end(uint32_t *once)
{
	__atomic_store_n(once, ONCE_DONE, __ATOMIC_RELEASE);
}

#endif
