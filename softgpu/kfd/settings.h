/* What the environment asks of the emulated driver; the table is settings.def. */
#ifndef KFDEMU_SETTINGS_H
#define KFDEMU_SETTINGS_H

#define KFDEMU_FIELD_NUMBER long
#define KFDEMU_FIELD_TEXT const char *

struct settings {
#define SETTING(field, name, kind, fallback, meaning) KFDEMU_FIELD_##kind field;
#include "settings.def"
#undef SETTING
};

/* Reads the environment at the first call, on any thread. */
const struct settings *settings(void);

#endif
