/* The log of driver calls (KFDEMU_LOG), and complaints that nobody may overlook. */
#ifndef KFDEMU_LOG_H
#define KFDEMU_LOG_H

/* Appends "pid=N text" to the log, as one write; does nothing without KFDEMU_LOG. Keeps errno. Any thread. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same to the log and to stderr, for what the emulation does not know; aborts with KFDEMU_STRICT=1. */
void log_unknown(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
