/* See settings.h. */
#include "settings.h"

#include "env_read.h"
#include "exempt.h"
#include "../loader/program_libc.h"
#include "../sys/log.h"

struct settings_read settings_read;

static struct {
	uint32_t numbered; /* once */
	bool pod_is_known;
	uint8_t device_index[ENV_DEVICES];
	uint8_t agent_index[ENV_DEVICES];
} state;

static void load(void)
{
	struct env_block pod = { 0 }, own = { 0 };
	int pod_error = env_read(ENV_POD_PATH, &pod);

	if (env_read("/proc/self/environ", &own) < 0)
		own.pointers = program_initial_environment();
	state.pod_is_known = !pod_error;
	if (exempt_is_self(&pod)) {
		settings_read.policy = (struct env_policy){ .priority = -1 };
		LOG(LOG_INFO, "the pod specification exempts this program: nothing is limited");
		return;
	}
	env_policy_load(&settings_read.policy, &pod, &own);
	if (settings_read.policy.value[ENV_LIBHIP_LOG_LEVEL]) {
		const char *text = settings_read.policy.value[ENV_LIBHIP_LOG_LEVEL];
		uint64_t level = 0;

		log_set_level(text_number(&text, &level) && !*text && level <= LOG_DEBUG ? (int)level : 0);
	}
	if (settings_read.policy.invalid)
		LOG(LOG_WARN, "'%s' is no memory limit: write digits and K, M, G or T, as in 4G. It limits nothing.",
		    settings_read.policy.invalid);
	if (settings_read.policy.limit_raise_ignored)
		LOG(LOG_WARN, "a larger limit than the pod's was asked for; the pod's holds");
}

const struct env_policy *settings_load(void)
{
	if (once_begin(&settings_read.once)) {
		load();
		once_end(&settings_read.once);
	}
	return &settings_read.policy;
}

bool settings_pod_is_known(void)
{
	settings();
	return state.pod_is_known;
}

bool settings_ask_anything(void)
{
	const struct env_policy *policy = settings();
	bool is_set = policy->limited || policy->oversubscribe || policy->priority >= 0;

	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++)
		is_set |= policy->value[i] && (policy->from_pod[i] || env_variables[i].treatment == ENV_PINNED);
	return is_set;
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
	struct env_numbering agents = { current.rocr, NULL };

	if (!current.hip)
		current.hip = current_value("CUDA_VISIBLE_DEVICES");
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		state.device_index[i] = (uint8_t)env_device_index(&settings()->origin, &current, i);
		state.agent_index[i] = (uint8_t)env_device_index(&settings()->origin, &agents, i);
	}
}

static unsigned numbered(const uint8_t *index, unsigned ordinal)
{
	if (once_begin(&state.numbered)) {
		number_devices();
		once_end(&state.numbered);
	}
	return ordinal < ENV_DEVICES ? index[ordinal] : ordinal;
}

unsigned settings_device_index(unsigned ordinal)
{
	return numbered(state.device_index, ordinal);
}

unsigned settings_agent_index(unsigned ordinal)
{
	return numbered(state.agent_index, ordinal);
}
