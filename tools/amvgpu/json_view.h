/* Snapshots as JSON (json-c). The field names are an interface: amvgpu(1) lists them. */
#ifndef AMVGPU_JSON_VIEW_H
#define AMVGPU_JSON_VIEW_H

#include <stdbool.h>

struct json_object;
struct snapshot;

struct json_object *json_view_begin(void);
void json_view_add(struct json_object *all, const struct snapshot *snapshot);
/* Prints on stdout, over several lines or on one, and frees. */
void json_view_print(struct json_object *all, bool pretty);

#endif
