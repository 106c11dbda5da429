/* One line on stderr, in one write.
 *
 * Never stdout, and never a descriptor 2 that was closed when the program started or that has become something
 * else since: a program that closed stderr and opened its data file must not find our words in it.
 */
#ifndef AMVGPU_LOG_H
#define AMVGPU_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR = 1, LOG_WARN = 2, LOG_INFO = 3, LOG_DEBUG = 4 };

/* Remembers what descriptor 2 is now. Call once, at load. */
void log_init(void);

/* level: LIBHIP_LOG_LEVEL; anything outside 1..4 means LOG_WARN. */
void log_set_level(int level);

bool log_is_on(enum log_level level);

/* format: %s text, %u uint64_t, %d int64_t, %x uint64_t in hex, %m uint64_t bytes as a human size. At most 480 bytes
 * are written. Any thread, also under the loader lock; keeps no lock and no state. */
void log_line(enum log_level level, const char *format, ...) __attribute__((visibility("hidden")));

#define LOG(level, ...)                                                                                                \
	do {                                                                                                           \
		if (log_is_on(level))                                                                                  \
			log_line(level, __VA_ARGS__);                                                                  \
	} while (0)

#endif
