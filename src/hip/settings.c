/* See settings.h. */
#define _GNU_SOURCE /* MREMAP_MAYMOVE */
#include "settings.h"

#include "../loader/program_libc.h"
#include "../sys/log.h"
#include "../sys/sys.h"

enum once { ONCE_TODO, ONCE_RUNNING, ONCE_DONE };

static struct {
	uint32_t loaded;   /* enum once */
	uint32_t numbered; /* enum once */
	bool pod_is_known;
	struct env_policy policy;
	uint8_t index[ENV_DEVICES];
} state;

/* True for the one caller that shall do the work; the others return when it is done. */
static bool once_begin(uint32_t *once)
{
	uint32_t expected = ONCE_TODO;

	if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == ONCE_DONE)
		return false;
	if (__atomic_compare_exchange_n(once, &expected, ONCE_RUNNING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return true;
	while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != ONCE_DONE)
		sys_sched_yield();
	return false;
}

static void once_end(uint32_t *once)
{
	__atomic_store_n(once, ONCE_DONE, __ATOMIC_RELEASE);
}

/* Reads a whole file of unknown size; a NUL follows the text. The memory is kept for good. 0 or -errno. */
static int read_whole(const char *path, struct env_block *block)
{
	int fd CLEANUP_CLOSE = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t capacity = 1 << 16, size = 0;
	char *text;

	if (fd < 0)
		return fd;
	text = sys_mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;) {
		long n;

		if (sys_is_error(text))
			return -ENOMEM;
		n = sys_read(fd, text + size, capacity - 1 - size);
		if (n == -EINTR)
			continue;
		if (n < 0) {
			sys_munmap(text, capacity);
			return (int)n;
		}
		if (n == 0)
			break;
		size += (size_t)n;
		if (size + 1 == capacity) {
			text = (void *)sys_call6(SYS_mremap, (long)text, (long)capacity, (long)capacity * 2,
						 MREMAP_MAYMOVE, 0, 0);
			capacity *= 2;
		}
	}
	block->text = text;
	block->size = size;
	return 0;
}

static void load(void)
{
	struct env_block pod = { 0 }, own = { 0 };
	int pod_error = read_whole("/proc/1/environ", &pod);

	if (read_whole("/proc/self/environ", &own) < 0)
		own.pointers = program_initial_environment();
	state.pod_is_known = !pod_error;
	env_policy_load(&state.policy, &pod, &own);
	if (state.policy.value[ENV_LIBHIP_LOG_LEVEL]) {
		const char *text = state.policy.value[ENV_LIBHIP_LOG_LEVEL];
		uint64_t level = 0;

		log_set_level(text_number(&text, &level) && !*text && level <= LOG_DEBUG ? (int)level : 0);
	}
	if (state.policy.invalid)
		LOG(LOG_WARN, "'%s' is no memory limit: write digits and K, M, G or T, as in 4G. It limits nothing.",
		    state.policy.invalid);
	if (state.policy.limit_raise_ignored)
		LOG(LOG_WARN, "a larger limit than the pod's was asked for; the pod's holds");
}

const struct env_policy *settings(void)
{
	if (once_begin(&state.loaded)) {
		load();
		once_end(&state.loaded);
	}
	return &state.policy;
}

bool settings_pod_is_known(void)
{
	settings();
	return state.pod_is_known;
}

const char *settings_getenv(const char *name, const char *live)
{
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *value;

		if (!text_equal(name, env_variables[i].name))
			continue;
		value = settings()->value[i];
		if (!value)
			return live;
		return env_variables[i].treatment == ENV_PINNED || !live ? value : live;
	}
	return live;
}

static const char *current_value(const char *name)
{
	return settings_getenv(name, program_getenv_live(name));
}

static void number_devices(void)
{
	struct env_numbering current = { current_value("ROCR_VISIBLE_DEVICES"), current_value("HIP_VISIBLE_DEVICES") };

	if (!current.hip)
		current.hip = current_value("CUDA_VISIBLE_DEVICES");
	for (unsigned i = 0; i < ENV_DEVICES; i++)
		state.index[i] = (uint8_t)env_device_index(&settings()->origin, &current, i);
}

unsigned settings_device_index(unsigned ordinal)
{
	if (once_begin(&state.numbered)) {
		number_devices();
		once_end(&state.numbered);
	}
	return ordinal < ENV_DEVICES ? state.index[ordinal] : ordinal;
}
