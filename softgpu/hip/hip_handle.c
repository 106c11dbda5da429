/* Which opaque handles are alive: an invalid one is told, not followed. */
#include <stdlib.h>

#include "hip.h"

static struct handle {
	const void *handle;
	enum handle_kind kind; /* 0 and a handle: removed */
} * handles;
static size_t handle_slots, handle_used;
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;

static struct handle *handle_place(const void *handle, enum handle_kind kind)
{
	size_t at = ((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 20;

	for (;; at++) {
		struct handle *h = &handles[at & (handle_slots - 1)];

		if (!h->handle || (h->handle == handle && h->kind == kind))
			return h;
	}
}

static void handle_grow(void)
{
	struct handle *old = handles;
	size_t slots = handle_slots, used = 0;

	for (size_t i = 0; i < slots; i++)
		used += old[i].kind != 0;
	handle_slots = 1024;
	while (handle_slots < 4 * used)
		handle_slots *= 2;
	handles = calloc(handle_slots, sizeof(*handles));
	if (!handles)
		abort();
	for (size_t i = 0; i < slots; i++)
		if (old[i].kind)
			*handle_place(old[i].handle, old[i].kind) = old[i];
	handle_used = used;
	free(old);
}

void handle_add(const void *handle, enum handle_kind kind)
{
	struct handle *h;

	pthread_mutex_lock(&handle_lock);
	if (handle_used * 2 >= handle_slots)
		handle_grow();
	h = handle_place(handle, kind);
	if (!h->handle)
		handle_used++;
	*h = (struct handle){handle, kind};
	pthread_mutex_unlock(&handle_lock);
}

bool handle_is(const void *handle, enum handle_kind kind)
{
	bool found;

	pthread_mutex_lock(&handle_lock);
	found = handle && handle_slots && handle_place(handle, kind)->handle;
	pthread_mutex_unlock(&handle_lock);
	return found;
}

bool handle_remove(const void *handle, enum handle_kind kind)
{
	struct handle *h = NULL;
	bool found;

	pthread_mutex_lock(&handle_lock);
	if (handle && handle_slots)
		h = handle_place(handle, kind);
	found = h && h->handle;
	if (found)
		h->kind = 0;
	pthread_mutex_unlock(&handle_lock);
	return found;
}

/* Another thread of the parent may have been in the middle of it. */
void handle_forget(void)
{
	pthread_mutex_init(&handle_lock, NULL);
	handles = NULL;
	handle_slots = handle_used = 0;
}
