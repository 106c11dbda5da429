/* The metrics over HTTP (libmicrohttpd): GET /metrics and a page that points there. */
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amvgpu.h"
#include "listen.h"
#include "prometheus.h"

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
			      char *text, size_t size)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result;

	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *type,
				   const char *text)
{
	return answer(connection, status, type, strdup(text), strlen(text));
}

static enum MHD_Result handle(void *closure, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	static int seen;
	size_t size;
	char *text;

	(void)version;
	(void)upload;
	*upload_size = 0;
	if (!*state) { /* the first call has the headers only */
		*state = &seen;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "GET /metrics\n");
	if (!strcmp(url, "/"))
		return answer_text(connection, MHD_HTTP_OK, "text/html; charset=utf-8",
				   "<!DOCTYPE html><title>amvgpu</title><a href=\"/metrics\">Metrics</a>\n");
	if (strcmp(url, "/metrics"))
		return answer_text(connection, MHD_HTTP_NOT_FOUND, "text/plain",
				   "the metrics are at /metrics\n");
	text = prometheus_render(closure, &size);
	if (!text)
		return MHD_NO;
	return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, size);
}

/* NULL and a line on stderr if the address makes no sense. */
static struct addrinfo *resolve(const char *address)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
	char *host = strdup(address), *port = strrchr(host, ':'), *start = host;
	int error;

	if (!port || !port[1]) {
		complain(0, "--listen takes ADDR:PORT, as in 127.0.0.1:9401, [::1]:9401 or :9401, not '%s'",
			 address);
		free(host);
		return NULL;
	}
	*port++ = 0;
	if (*start == '[' && start[strlen(start) - 1] == ']') {
		start[strlen(start) - 1] = 0;
		start++;
	}
	error = getaddrinfo(*start ? start : NULL, port, &hints, &found);
	if (error)
		complain(0, "--listen %s: %s", address, gai_strerror(error));
	free(host);
	return error ? NULL : found;
}

int listen_serve(const char *address, const struct region_options *options)
{
	struct addrinfo *found = resolve(address);
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD;
	struct MHD_Daemon *daemon;
	sigset_t ends;
	int signal;

	if (!found)
		return EXIT_USAGE;
	if (found->ai_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	/* Before the server's thread exists, so that it inherits the mask and sigwait alone sees them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, (void *)options, MHD_OPTION_SOCK_ADDR,
				  found->ai_addr, MHD_OPTION_CONNECTION_LIMIT, 32u,
				  MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);
	freeaddrinfo(found);
	if (!daemon)
		return complain(EXIT_NO, "cannot listen at %s: is the port taken?", address);
	sigwait(&ends, &signal);
	MHD_stop_daemon(daemon);
	return EXIT_OK;
}
