/* Regions in the text format of Prometheus. */
#ifndef AMVGPU_PROMETHEUS_H
#define AMVGPU_PROMETHEUS_H

#include <stddef.h>

struct region_options;

/* The text, allocated, and its length; NULL without memory. Never fails for a region: it is reported as not
 * readable. */
char *prometheus_render(const struct region_options *options, size_t *length);

#endif
