/* The settings, read once: programs may change their environment while they run. */
#include "settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct settings current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static long read_number(const char *name, long fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 0) : fallback;
}

static const char *read_text(const char *name, const char *fallback)
{
	const char *text = getenv(name);

	return text && *text ? strdup(text) : fallback;
}

#define KFDEMU_READ_NUMBER read_number
#define KFDEMU_READ_TEXT read_text

static void load(void)
{
#define SETTING(field, name, kind, fallback, meaning) current.field = KFDEMU_READ_##kind(name, fallback);
#include "settings.def"
#undef SETTING
}

const struct settings *settings(void)
{
	pthread_once(&once, load);
	return &current;
}
