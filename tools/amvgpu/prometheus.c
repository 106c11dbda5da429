/* Regions in the text format of Prometheus (exposition format 0.0.4): all samples of one metric stand
 * together. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prometheus.h"
#include "region.h"
#include "snapshot.h"

struct view {
	struct region_list regions;
	struct snapshot *snapshots;
	bool *readable;
};

static void write_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fprintf(out, "\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", out);
		else
			fputc((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e ? '?' : *text, out);
	}
}

static void write_label(FILE *out, const char *before, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", before, name);
	write_escaped(out, value);
	fputc('"', out);
}

static void write_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* name{region="..." — the caller adds labels and closes with write_value. */
static void write_begin(FILE *out, const char *name, const struct snapshot *s)
{
	fputs(name, out);
	write_label(out, "{", "region", s->path);
}

static void write_process_labels(FILE *out, const struct snapshot_process *p)
{
	fprintf(out, ",pid=\"%u\"", p->slot.pid);
	write_label(out, ",", "command", p->slot.command);
}

static void write_value(FILE *out, uint64_t value)
{
	fprintf(out, "} %llu\n", (unsigned long long)value);
}

/* One function for each row of the table, by scope. */
#define METRIC(scope, name, type, help, condition, value) EMIT_##scope(name, type, help, condition, value)
#define EMIT_device(name, type, help, condition, value)                                                      \
	static void write_##name(FILE *out, const struct view *v)                                            \
	{                                                                                                    \
		write_head(out, #name, #type, help);                                                         \
		for (size_t i = 0; i < v->regions.count; i++) {                                              \
			for (unsigned n = 0; v->readable[i] && n < LEDGER_DEVICES; n++) {                    \
				const struct snapshot_device *d = &v->snapshots[i].devices[n];               \
				if (!d->shown || !(condition))                                               \
					continue;                                                            \
				write_begin(out, #name, &v->snapshots[i]);                                   \
				fprintf(out, ",vdevice_index=\"%u\"", n);                                    \
				write_value(out, value);                                                     \
			}                                                                                    \
		}                                                                                            \
	}
#define EMIT_process(name, type, help, condition, value)                                                     \
	static void write_##name(FILE *out, const struct view *v)                                            \
	{                                                                                                    \
		write_head(out, #name, #type, help);                                                         \
		for (size_t i = 0; i < v->regions.count; i++) {                                              \
			for (unsigned n = 0; v->readable[i] && n < v->snapshots[i].count; n++) {             \
				const struct snapshot_process *p = &v->snapshots[i].processes[n];            \
				if (!(condition))                                                            \
					continue;                                                            \
				write_begin(out, #name, &v->snapshots[i]);                                   \
				write_process_labels(out, p);                                                \
				write_value(out, value);                                                     \
			}                                                                                    \
		}                                                                                            \
	}
#include "metric.def"
#undef METRIC

static void write_processes(FILE *out, const struct view *v)
{
	static const char name[] = "hami_vgpu_processes";

	write_head(out, name, "gauge", "Living processes of the slice by how well they are held to it.");
	for (size_t i = 0; i < v->regions.count; i++) {
		for (enum snapshot_state state = 0; v->readable[i] && state < STATES; state++) {
			unsigned count = 0;

			for (unsigned n = 0; n < v->snapshots[i].count; n++)
				count += v->snapshots[i].processes[n].state == state;
			write_begin(out, name, &v->snapshots[i]);
			write_label(out, ",", "state", snapshot_state_word(state));
			write_value(out, count);
		}
	}
}

static void write_reasons(FILE *out, const struct view *v)
{
	static const char name[] = "hami_vgpu_process_reason";

	write_head(out, name, "gauge",
		   "1 for each reason why enforcement on a process is less than whole, or worth knowing.");
	for (size_t i = 0; i < v->regions.count; i++) {
		for (unsigned n = 0; v->readable[i] && n < v->snapshots[i].count; n++) {
			const struct snapshot_process *p = &v->snapshots[i].processes[n];

			for (unsigned r = 0; r < LEDGER_REASONS; r++) {
				if (!(p->slot.reasons >> r & 1))
					continue;
				write_begin(out, name, &v->snapshots[i]);
				write_process_labels(out, p);
				write_label(out, ",", "reason", ledger_reason_name(r));
				write_value(out, 1);
			}
		}
	}
}

static void write_readable(FILE *out, const struct view *v)
{
	static const char name[] = "hami_vgpu_region_up";

	write_head(out, name, "gauge", "1 if the region could be read, else 0.");
	for (size_t i = 0; i < v->regions.count; i++) {
		fputs(name, out);
		write_label(out, "{", "region", v->regions.paths[i]);
		write_value(out, v->readable[i]);
	}
}

static void write_all(FILE *out, const struct view *v)
{
	write_readable(out, v);
#define METRIC(scope, name, type, help, condition, value) write_##name(out, v);
#include "metric.def"
#undef METRIC
	write_processes(out, v);
	write_reasons(out, v);
}

/* A named region stays in the text when it cannot be read: hami_vgpu_region_up says 0. */
char *prometheus_render(const struct region_options *options, size_t *length)
{
	struct view v = {0};
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	region_look(options, &v.regions);
	v.snapshots = calloc(v.regions.count + 1, sizeof *v.snapshots);
	v.readable = calloc(v.regions.count + 1, sizeof *v.readable);
	if (out && v.snapshots && v.readable) {
		for (size_t i = 0; i < v.regions.count; i++)
			v.readable[i] = !snapshot_take(&v.snapshots[i], v.regions.paths[i]);
		write_all(out, &v);
	}
	for (size_t i = 0; v.snapshots && i < v.regions.count; i++)
		snapshot_free(&v.snapshots[i]);
	free(v.snapshots);
	free(v.readable);
	region_list_free(&v.regions);
	if (out)
		fclose(out);
	return text;
}
