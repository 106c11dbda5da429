/* hsa_init: which devices there are, and what the environment says at that moment. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failure.h"
#include "hsa.h"

struct hsa hsa;
static pthread_mutex_t hsa_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const function_names[] = {
#define HSA(name) [FN_##name] = #name,
#define HSA_STUB(name) [FN_##name] = #name,
#include "standin_hsa.def"
};
static struct failure failures[FN_HSA_COUNT];

hsa_status_t hsa_failure_due(enum hsa_function function)
{
	return failure_due(&failures[function]);
}

bool hsa_is_usable(void)
{
	return __atomic_load_n(&hsa.references, __ATOMIC_ACQUIRE) && !hsa.is_forked;
}

/* One line, one write, so that lines of several processes do not mix. */
void softgpu_log(const char *format, ...)
{
	char line[1024];
	va_list arguments;
	int n, fd;

	if (!hsa.settings.log || !*hsa.settings.log)
		return;
	va_start(arguments, format);
	n = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	fd = open(hsa.settings.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (write(fd, line, n) != n)
		abort(); /* a log that lies is worse than none */
	close(fd);
}

static bool softgpu_is_logging(void)
{
	return *hsa.settings.log;
}

void hsa_device_uuid(int row, char *text, size_t size)
{
	const char *at = hsa.settings.uuids;

	for (int i = 0; i < row && *at; i++) {
		at += strcspn(at, ",");
		at += *at == ',';
	}
	if (*at)
		snprintf(text, size, "%.*s", (int)strcspn(at, ","), at);
	else
		snprintf(text, size, "GPU-%016llx", 0x50f7000000000000ull + row);
}

static int device_named(const char *name, size_t length)
{
	char uuid[64], *end;
	long index;

	for (int row = 0; row < hsa.settings.devices; row++) {
		hsa_device_uuid(row, uuid, sizeof(uuid));
		if (strlen(uuid) == length && !strncasecmp(uuid, name, length))
			return row;
	}
	index = strtol(name, &end, 10);
	return length && end == name + length && index >= 0 && index < hsa.settings.devices ? (int)index : -1;
}

/* ROCR_VISIBLE_DEVICES: indices or UUIDs; the list ends at the first that is wrong or a repetition. Set but
 * empty: none. */
static void find_devices(void)
{
	const char *list = getenv("ROCR_VISIBLE_DEVICES");
	unsigned seen = 0;

	hsa.row_count = 0;
	for (int row = 0; !list && row < hsa.settings.devices; row++)
		hsa.rows[hsa.row_count++] = row;
	while (list && *list && hsa.row_count < SOFTGPU_DEVICES_MAX) {
		size_t length = strcspn(list, ",");
		int row = device_named(list, length);

		if (row < 0 || seen & 1u << row)
			break;
		seen |= 1u << row;
		hsa.rows[hsa.row_count++] = row;
		list += length + (list[length] == ',');
	}
}

static const char *or_dash(const char *text)
{
	return text ? text : "-";
}

static void read_environment(void)
{
	const char *mask = getenv("HSA_CU_MASK"), *skip = getenv("HSA_CU_MASK_SKIP_INIT");

	free(hsa.cu_mask);
	hsa.cu_mask = mask ? strdup(mask) : NULL;
	hsa.cu_mask_skipped = skip && *skip == '1';
	find_devices();
	softgpu_log(
	    "hsa_init pid=%d HSA_CU_MASK=%s HSA_CU_MASK_SKIP_INIT=%s ROCR_VISIBLE_DEVICES=%s devices=%d",
	    (int)getpid(), or_dash(mask), or_dash(skip), or_dash(getenv("ROCR_VISIBLE_DEVICES")),
	    hsa.row_count);
}

static void child_after_fork(void)
{
	if (!hsa.references)
		return;
	if (!hsa.settings.fork) {
		hsa.is_forked = true;
		return;
	}
	state_forget();
	arena_drop();
	hsa_vmem_forget();
	hsa.references = 0;
	pthread_mutex_init(&hsa_lock, NULL);
}

static hsa_status_t start_locked(void)
{
	static bool is_known;

	if (!is_known) {
		settings_load(&hsa.settings);
		hsa.has_failures = failure_load(hsa.settings.fail, "hsa", function_names, FN_HSA_COUNT,
						failures, HSA_STATUS_ERROR_OUT_OF_RESOURCES);
		pthread_atfork(NULL, NULL, child_after_fork);
		is_known = true;
	}
	read_environment();
	return state_open(&hsa.settings) ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_init(void)
{
	hsa_status_t status = HSA_STATUS_SUCCESS;

	if (hsa.is_forked)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	pthread_mutex_lock(&hsa_lock);
	if (!hsa.references)
		status = start_locked();
	if (!status)
		__atomic_fetch_add(&hsa.references, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

static void give_back(struct block *block, void *data)
{
	(void)data;
	hsa_give(block);
}

hsa_status_t hsa_shut_down(void)
{
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&hsa_lock);
	if (hsa.references == 1) {
		arena_walk(give_back, NULL);
		state_close();
	}
	__atomic_fetch_sub(&hsa.references, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&hsa_lock);
	return HSA_STATUS_SUCCESS;
}

const struct softgpu *softgpu_open(void)
{
	static const struct softgpu interface = {
	    .settings = &hsa.settings,
	    .find = arena_find,
	    .walk = arena_walk,
	    .held = state_held,
	    .held_here = state_held_here,
	    .capacity = state_capacity,
	    .others = state_others,
	    .take = hsa_take,
	    .give = hsa_give,
	    .log = softgpu_log,
	    .is_logging = softgpu_is_logging,
	};

	return &interface;
}
