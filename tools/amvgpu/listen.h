/* The metrics over HTTP (libmicrohttpd). */
#ifndef AMVGPU_LISTEN_H
#define AMVGPU_LISTEN_H

struct region_options;

/* Serves GET /metrics at "ADDR:PORT", "[V6]:PORT" or ":PORT" until SIGINT or SIGTERM. The exit status. */
int listen_serve(const char *address, const struct region_options *options);

#endif
