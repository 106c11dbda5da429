/* See log.h. A line is built on the stack and leaves in one write. */
#include "log.h"

#include <stdarg.h>

#include "sys.h"
#include "text.h"

static struct {
	int level;
	bool has_stderr;
	dev_t device;
	ino_t inode;
} state = { .level = LOG_WARN };

void log_init(void)
{
	struct stat st;

	state.has_stderr = sys_fstat(2, &st) == 0;
	state.device = st.st_dev;
	state.inode = st.st_ino;
}

void log_set_level(int level)
{
	state.level = level >= LOG_ERROR && level <= LOG_DEBUG ? level : LOG_WARN;
}

bool log_is_on(enum log_level level)
{
	return (int)level <= state.level;
}

static bool is_stderr_still_there(void)
{
	struct stat st;

	return state.has_stderr && sys_fstat(2, &st) == 0 && st.st_dev == state.device && st.st_ino == state.inode;
}

static void add_human_size(struct text *t, uint64_t bytes)
{
	static const char units[][5] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned unit = 0;

	while (unit < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	text_add_number(t, bytes);
	text_add(t, " ");
	text_add(t, units[unit]);
}

static void add_argument(struct text *t, char kind, va_list *arguments)
{
	int64_t number;

	switch (kind) {
	case 's': {
		const char *s = va_arg(*arguments, const char *);

		text_add(t, s ? s : "(none)");
		break;
	}
	case 'd':
		number = va_arg(*arguments, int64_t);
		if (number < 0)
			text_add(t, "-");
		text_add_number(t, number < 0 ? -(uint64_t)number : (uint64_t)number);
		break;
	case 'x':
		text_add_hex(t, va_arg(*arguments, uint64_t));
		break;
	case 'm':
		add_human_size(t, va_arg(*arguments, uint64_t));
		break;
	default:
		text_add_number(t, va_arg(*arguments, uint64_t));
	}
}

static void add_prefix(struct text *t, enum log_level level)
{
	static const char names[][6] = { "Error", "Warn", "Info", "Debug" };

	text_add(t, "[amvgpu ");
	text_add(t, names[level - 1]);
	text_add(t, " pid:");
	text_add_number(t, (uint64_t)sys_getpid());
	text_add(t, "] ");
}

void log_line(enum log_level level, const char *format, ...)
{
	char buffer[481];
	struct text t = TEXT_ON(buffer);
	va_list arguments;

	if (!is_stderr_still_there())
		return;
	add_prefix(&t, level);
	va_start(arguments, format);
	for (; *format; format++) {
		char one[2] = { *format, 0 };

		if (*format != '%' || !format[1])
			text_add(&t, one);
		else
			add_argument(&t, *++format, &arguments);
	}
	va_end(arguments);
	if (t.length == t.size - 1)
		t.length--;
	buffer[t.length++] = '\n';
	sys_write(2, buffer, t.length);
}
