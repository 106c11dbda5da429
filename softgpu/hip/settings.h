/* What the environment says about the stand-in hardware. Read once, on the first call into the runtime. */
#ifndef SOFTGPU_SETTINGS_H
#define SOFTGPU_SETTINGS_H

#include <stdint.h>

enum { SOFTGPU_DEVICES_MAX = 64 };

struct settings {
#define SETTING_NUMBER(NAME, field, value, meaning) long field;
#define SETTING_SIZE(NAME, field, value, meaning) uint64_t field;
#define SETTING_SIZES(NAME, field, value, meaning) uint64_t field[SOFTGPU_DEVICES_MAX];
#define SETTING_TEXT(NAME, field, value, meaning) const char *field;
#include "settings.def"
#undef SETTING_NUMBER
#undef SETTING_SIZE
#undef SETTING_SIZES
#undef SETTING_TEXT
};

void settings_load(struct settings *settings);
/* "3", "4K", "16G"; *end is left behind what was read. */
uint64_t settings_parse_size(const char *text, const char **end);

#endif
