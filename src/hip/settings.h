/* This process's settings, read once: the pod specification and the process's own initial environment.
 *
 * Read when the first runtime is loaded (or a variable of ours is asked for), never in a program that has nothing to do
 * with a GPU. May be called on any thread and under the loader lock.
 */
#ifndef AMVGPU_SETTINGS_H
#define AMVGPU_SETTINGS_H

#include "env_policy.h"
#include "../sys/once.h"

extern struct settings_read {
	uint32_t once;
	struct env_policy policy;
} settings_read __attribute__((visibility("hidden")));

const struct env_policy *settings_load(void);

/* Every allocation asks: two instructions once they are read. */
static inline const struct env_policy *settings(void)
{
	if (__atomic_load_n(&settings_read.once, __ATOMIC_ACQUIRE) == ONCE_DONE) /* pairs with once_end */
		return &settings_read.policy;
	return settings_load();
}

/* False: /proc/1/environ could not be read, the process's own block was used. */
bool settings_pod_is_known(void);

/* False: nothing is asked of us, and the program is left as it is. */
bool settings_ask_anything(void);

/* What getenv(name) shall answer where the live environment says live (NULL: unset). */
const char *settings_getenv(const char *name, const char *live);

/* The index, in the numbering the limits count in, of the device the runtime calls ordinal. The first call fixes the
 * numbering: make it when the runtime reads its *_VISIBLE_DEVICES. */
unsigned settings_device_index(unsigned ordinal);
/* The same for the ordinal-th GPU of HSA, which does not know HIP_VISIBLE_DEVICES. */
unsigned settings_agent_index(unsigned ordinal);

#endif
