/* Numbers as people read them. */
#include <langinfo.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "units.h"

static char *next_buffer(void)
{
	static char buffers[8][80];
	static unsigned next;

	return buffers[next++ % 8];
}

const char *units_bytes(uint64_t bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	char *text = next_buffer();
	unsigned unit = 0;
	double value = (double)bytes;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (!bytes)
		return "0";
	snprintf(text, 80, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, names[unit]);
	return text;
}

const char *units_bytes_or_dash(uint64_t bytes)
{
	return bytes ? units_bytes(bytes) : "-";
}

const char *units_age(uint64_t realtime_ns)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} steps[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
	int64_t age = (int64_t)time(NULL) - (int64_t)(realtime_ns / 1000000000u);
	char *text = next_buffer();

	for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
		if (age < 2 * steps[i].seconds && i < 3)
			continue;
		snprintf(text, 80, "%lld %s ago", (long long)((age < 0 ? 0 : age) / steps[i].seconds),
			 steps[i].name);
		break;
	}
	return text;
}

bool units_is_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

unsigned units_percent(uint64_t used, uint64_t whole)
{
	return whole ? (unsigned)((double)used * 100 / (double)whole) : 0;
}

const char *units_bar(uint64_t used, uint64_t whole, unsigned width)
{
	const char *full = units_is_utf8() ? "█" : "#", *empty = units_is_utf8() ? "░" : ".";
	unsigned cells = whole ? (unsigned)((double)used * width / (double)whole + 0.5) : 0;
	char *text = next_buffer();

	*text = 0;
	for (unsigned i = 0; i < width && i < 24; i++)
		strcat(text, i < cells ? full : empty);
	return text;
}

const char *units_printable(const char *from)
{
	char *text = next_buffer();
	unsigned n = 0;

	for (; from[n] && n < 63; n++)
		text[n] = from[n] > ' ' - 1 && from[n] < 127 ? from[n] : '?';
	text[n] = 0;
	return text;
}
