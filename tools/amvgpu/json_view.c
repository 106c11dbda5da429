/* Snapshots as JSON (json-c). */
#include <json-c/json.h>
#include <stdio.h>

#include "json_view.h"
#include "snapshot.h"
#include "units.h"

static void add_number(struct json_object *to, const char *name, uint64_t value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void add_text(struct json_object *to, const char *name, const char *value)
{
	json_object_object_add(to, name, json_object_new_string(value));
}

struct json_object *json_view_begin(void)
{
	struct json_object *all = json_object_new_object();

	json_object_object_add(all, "regions", json_object_new_array());
	return all;
}

static struct json_object *device_object(const struct snapshot_device *d, unsigned index)
{
	struct json_object *o = json_object_new_object();

	add_number(o, "index", index);
	if (d->limit)
		add_number(o, "limit_bytes", d->limit);
	else
		json_object_object_add(o, "limit_bytes", NULL);
	add_number(o, "used_bytes", d->used);
	add_number(o, "requested_bytes", d->requested);
	add_number(o, "physical_bytes", d->physical);
	add_number(o, "overhead_bytes", d->overhead);
	add_number(o, "managed_bytes", d->managed);
	return o;
}

static struct json_object *refusal_object(const struct ledger_refusal *r)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "api", units_printable(r->api));
	add_number(o, "device", r->device);
	add_text(o, "book", r->book == LEDGER_PHYSICAL ? "physical" : "requested");
	add_number(o, "bytes", r->bytes);
	add_number(o, "limit_bytes", r->limit);
	add_number(o, "used_bytes", r->used);
	add_number(o, "realtime_ns", r->realtime_ns);
	return o;
}

static struct json_object *reasons_array(uint64_t reasons)
{
	struct json_object *all = json_object_new_array();

	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		struct json_object *o;

		if (!(reasons >> r & 1))
			continue;
		o = json_object_new_object();
		add_text(o, "code", ledger_reason_name(r));
		add_text(o, "what", ledger_reason_text(r));
		add_text(o, "remedy", ledger_reason_remedy(r));
		json_object_array_add(all, o);
	}
	return all;
}

static struct json_object *process_devices(const struct ledger_process *p)
{
	struct json_object *all = json_object_new_array();

	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		struct json_object *o;

		if (!p->bytes[LEDGER_REQUESTED][d] && !p->bytes[LEDGER_PHYSICAL][d] && !p->migrated[d])
			continue;
		o = json_object_new_object();
		add_number(o, "index", d);
		add_number(o, "requested_bytes", p->bytes[LEDGER_REQUESTED][d]);
		add_number(o, "physical_bytes", p->bytes[LEDGER_PHYSICAL][d]);
		add_number(o, "managed_bytes", p->migrated[d]);
		json_object_array_add(all, o);
	}
	return all;
}

static struct json_object *process_object(const struct snapshot_process *p)
{
	struct json_object *o = json_object_new_object();

	add_number(o, "pid", p->slot.pid);
	json_object_object_add(o, "foreign_pid_namespace",
			       json_object_new_boolean(p->slot.foreign_namespace));
	add_text(o, "command", units_printable(p->slot.command));
	add_text(o, "state", snapshot_state_word(p->state));
	json_object_object_add(o, "reasons", reasons_array(p->slot.reasons));
	add_number(o, "symbols_bound", p->slot.symbols_bound);
	add_number(o, "symbols_wanted", p->slot.symbols_wanted);
	add_number(o, "requested_bytes", p->requested);
	add_number(o, "physical_bytes", p->physical);
	json_object_object_add(o, "allocations", json_object_new_int64(p->slot.allocations));
	add_number(o, "refusals", p->slot.refusals);
	json_object_object_add(o, "last_refusal", p->slot.refusals ? refusal_object(&p->slot.last) : NULL);
	json_object_object_add(o, "devices", process_devices(&p->slot));
	return o;
}

void json_view_add(struct json_object *all, const struct snapshot *s)
{
	struct json_object *o = json_object_new_object();
	struct json_object *devices = json_object_new_array(), *processes = json_object_new_array();

	add_text(o, "region", s->path);
	add_text(o, "state", snapshot_state_word(s->state));
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		if (s->devices[d].shown)
			json_object_array_add(devices, device_object(&s->devices[d], d));
	}
	json_object_object_add(o, "devices", devices);
	json_object_object_add(o, "other_devices_limit_bytes",
			       s->common_limit ? json_object_new_uint64(s->common_limit) : NULL);
	for (unsigned i = 0; i < s->count; i++)
		json_object_array_add(processes, process_object(&s->processes[i]));
	json_object_object_add(o, "processes", processes);
	add_number(o, "dead_slots", s->dead);
	json_object_array_add(json_object_object_get(all, "regions"), o);
}

void json_view_print(struct json_object *all, bool pretty)
{
	int flags =
	    JSON_C_TO_STRING_NOSLASHESCAPE | (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);

	puts(json_object_to_json_string_ext(all, flags));
	json_object_put(all);
}
