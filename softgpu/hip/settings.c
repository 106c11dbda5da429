#include <stdlib.h>
#include <string.h>

#include "settings.h"

uint64_t settings_parse_size(const char *text, const char **end)
{
	static const char suffixes[] = "KMGT";
	char *stop;
	uint64_t n = strtoull(text, &stop, 10);
	const char *suffix = *stop ? strchr(suffixes, *stop & ~0x20) : NULL;

	if (suffix) {
		n <<= 10 * (suffix - suffixes + 1);
		stop++;
	}
	if (end)
		*end = stop;
	return n;
}

static void settings_parse_sizes(const char *text, uint64_t *sizes)
{
	uint64_t last = 0;

	for (int i = 0; i < SOFTGPU_DEVICES_MAX; i++) {
		if (*text) {
			last = settings_parse_size(text, &text);
			text += strcspn(text, ",");
			text += *text == ',';
		}
		sizes[i] = last;
	}
}

static const char *settings_text(const char *name, const char *otherwise)
{
	const char *text = getenv(name);

	return text && *text ? text : otherwise;
}

void settings_load(struct settings *s)
{
#define SETTING_NUMBER(NAME, field, value, meaning)                                                          \
	s->field = strtol(settings_text("SOFTGPU_" #NAME, #value), NULL, 10);
#define SETTING_SIZE(NAME, field, value, meaning)                                                            \
	s->field = settings_parse_size(settings_text("SOFTGPU_" #NAME, #value), NULL);
#define SETTING_SIZES(NAME, field, value, meaning)                                                           \
	settings_parse_sizes(settings_text("SOFTGPU_" #NAME, value), s->field);
/* Copied: the program may change its environment later. */
#define SETTING_TEXT(NAME, field, value, meaning) s->field = strdup(settings_text("SOFTGPU_" #NAME, value));
#include "settings.def"
	if (s->devices < 0)
		s->devices = 0;
	if (s->devices > SOFTGPU_DEVICES_MAX)
		s->devices = SOFTGPU_DEVICES_MAX;
	if (!s->granularity)
		s->granularity = 4096;
}
