/* Streams and events. Work is done at once; a stream is a queue with a priority, and maybe a graph being
 * captured. */
#include <stdlib.h>
#include <time.h>

#include "hip.h"

enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1, CAPTURE_INVALIDATED = 2 };
enum { MODE_GLOBAL = 0, MODE_THREAD_LOCAL = 1, MODE_RELAXED = 2 };

typedef struct stream {
	struct device *device;
	unsigned flags;
	int priority; /* -1 high, 0 normal, 1 low */
	hsa_queue_t *queue;
	int capture, mode;
	struct ihipGraph *graph;
	struct stream *next; /* of the device's */
} stream;

static _Atomic int global_captures;

static struct stream *stream_of(hipStream_t handle)
{
	return handle_is(handle, HANDLE_STREAM) ? (struct stream *)handle : NULL;
}

static bool is_default(hipStream_t handle)
{
	return !handle || handle == hipStreamLegacy || handle == hipStreamPerThread;
}

struct device *stream_device(hipStream_t handle)
{
	struct stream *s;

	if (is_default(handle))
		return hip_device_here();
	s = stream_of(handle);
	return s ? s->device : NULL;
}

static hsa_queue_t *queue_new(struct device *device, int priority)
{
	hsa_queue_t *queue = NULL;

	if (hsa_queue_create(device->agent, 16384, 1, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue))
		return NULL;
	if (priority)
		hsa_amd_queue_set_priority(queue, priority < 0 ? HSA_AMD_QUEUE_PRIORITY_HIGH
							       : HSA_AMD_QUEUE_PRIORITY_LOW);
	return queue;
}

void stream_use(hipStream_t handle)
{
	struct device *device = hip_device_here();

	if (is_default(handle) && !atomic_exchange(&device->has_null_queue, true))
		queue_new(device, 0);
}

static hipError_t stream_new(hipStream_t *handle, unsigned flags, int priority)
{
	struct stream *s;

	if (!handle || flags > 1)
		return hipErrorInvalidValue;
	s = calloc(1, sizeof(*s));
	if (!s)
		return hipErrorOutOfMemory;
	s->device = hip_device_here();
	s->flags = flags;
	s->priority = priority < -1 ? -1 : priority > 1 ? 1 : priority;
	s->queue = queue_new(s->device, s->priority);
	if (!s->queue) {
		free(s);
		return hipErrorOutOfMemory;
	}
	pthread_mutex_lock(&hip_lock);
	s->next = s->device->streams;
	s->device->streams = s;
	pthread_mutex_unlock(&hip_lock);
	handle_add(s, HANDLE_STREAM);
	*handle = (hipStream_t)s;
	return hipSuccess;
}

static void stream_end(struct stream *s)
{
	struct stream **at;

	if (!handle_remove(s, HANDLE_STREAM))
		return;
	pthread_mutex_lock(&hip_lock);
	for (at = &s->device->streams; *at && *at != s; at = &(*at)->next)
		;
	if (*at)
		*at = s->next;
	pthread_mutex_unlock(&hip_lock);
	hsa_queue_destroy(s->queue);
	free(s);
}

void stream_drop_all(struct device *device)
{
	while (device->streams)
		stream_end(device->streams);
}

HIP_API hipError_t hipStreamCreate(hipStream_t *stream)
{
	HIP_ENTER(hipStreamCreate);
	return HIP_LEAVE(stream_new(stream, 0, 0));
}

HIP_API hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
	HIP_ENTER(hipStreamCreateWithFlags);
	return HIP_LEAVE(stream_new(stream, flags, 0));
}

HIP_API hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
	HIP_ENTER(hipStreamCreateWithPriority);
	return HIP_LEAVE(stream_new(stream, flags, priority));
}

HIP_API hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask)
{
	hipError_t error;

	HIP_ENTER(hipExtStreamCreateWithCUMask);
	if (!words || !mask)
		return HIP_LEAVE(hipErrorInvalidValue);
	error = stream_new(stream, 0, 0);
	if (!error)
		hsa_amd_queue_cu_set_mask(((struct stream *)*stream)->queue, words * 32, mask);
	return HIP_LEAVE(error);
}

HIP_API hipError_t hipStreamDestroy(hipStream_t stream)
{
	struct stream *s;

	HIP_ENTER(hipStreamDestroy);
	if (is_default(stream))
		return HIP_LEAVE(hipErrorInvalidHandle);
	s = stream_of(stream);
	if (!s)
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	stream_end(s);
	return HIP_LEAVE(hipSuccess);
}

static hipError_t synchronize(hipStream_t stream)
{
	struct device *device = stream_device(stream);

	if (!device)
		return hipErrorContextIsDestroyed;
	if (stream_capture(stream))
		return hipErrorStreamCaptureUnsupported;
	hip_device_settle(device);
	return hipSuccess;
}

HIP_API hipError_t hipStreamSynchronize(hipStream_t stream)
{
	HIP_ENTER(hipStreamSynchronize);
	return HIP_LEAVE(synchronize(stream));
}

HIP_API hipError_t hipStreamSynchronize_spt(hipStream_t stream)
{
	HIP_ENTER(hipStreamSynchronize_spt);
	return HIP_LEAVE(synchronize(stream));
}

HIP_API hipError_t hipDeviceSynchronize(void)
{
	HIP_ENTER(hipDeviceSynchronize);
	hip_device_settle(hip_device_here());
	return HIP_LEAVE(hipSuccess);
}

void hip_device_settle(struct device *device)
{
	pool_trim_device(device);
	graph_settle(device);
}

HIP_API hipError_t hipStreamQuery(hipStream_t stream)
{
	HIP_ENTER(hipStreamQuery);
	return HIP_LEAVE(stream_device(stream) ? hipSuccess : hipErrorContextIsDestroyed);
}

HIP_API hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *index)
{
	struct device *device;

	HIP_ENTER(hipStreamGetDevice);
	device = stream_device(stream);
	if (!index)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!device)
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	*index = device->index;
	return HIP_LEAVE(hipSuccess);
}

/* An int, not an error. */
HIP_API int hipGetStreamDeviceId(hipStream_t stream)
{
	struct device *device;

	if (hip_enter(FN_hipGetStreamDeviceId))
		return -1;
	device = stream_device(stream);
	return device ? device->index : -1;
}

HIP_API hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags)
{
	HIP_ENTER(hipStreamGetFlags);
	if (!flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	*flags = is_default(stream) ? 0 : ((struct stream *)stream)->flags;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
	HIP_ENTER(hipStreamGetPriority);
	if (!priority)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	*priority = is_default(stream) ? 0 : ((struct stream *)stream)->priority;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	HIP_ENTER(hipDeviceGetStreamPriorityRange);
	if (least)
		*least = 1;
	if (greatest)
		*greatest = -1;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipStreamWaitEvent(hipStream_t stream, void *event, unsigned flags)
{
	HIP_ENTER(hipStreamWaitEvent);
	(void)flags;
	if (!event)
		return HIP_LEAVE(hipErrorInvalidHandle);
	return HIP_LEAVE(stream_device(stream) ? hipSuccess : hipErrorContextIsDestroyed);
}

HIP_API hipError_t hipStreamAddCallback(hipStream_t stream, void (*callback)(hipStream_t, hipError_t, void *),
					void *data, unsigned flags)
{
	HIP_ENTER(hipStreamAddCallback);
	if (!callback || flags)
		return HIP_LEAVE(hipErrorInvalidValue);
	callback(stream, hipSuccess, data);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipLaunchHostFunc(hipStream_t stream, void (*function)(void *), void *data)
{
	HIP_ENTER(hipLaunchHostFunc);
	(void)stream;
	if (!function)
		return HIP_LEAVE(hipErrorInvalidValue);
	function(data);
	return HIP_LEAVE(hipSuccess);
}

/* Capture */
struct ihipGraph *stream_capture(hipStream_t handle)
{
	struct stream *s = is_default(handle) ? NULL : stream_of(handle);

	return s && s->capture == CAPTURE_ACTIVE ? s->graph : NULL;
}

static void invalidate_captures(void)
{
	for (int i = 0; i < hip_device_count; i++)
		for (struct stream *s = hip_devices[i].streams; s; s = s->next)
			if (s->capture == CAPTURE_ACTIVE && s->mode != MODE_RELAXED)
				s->capture = CAPTURE_INVALIDATED;
}

/* A capture in mode Global forbids allocations to every thread, one in mode ThreadLocal to its own; either is
 * then invalid. A thread that exchanged its mode for Relaxed may. */
bool hip_capture_forbids(void)
{
	if (__builtin_expect(
		!atomic_load_explicit(&global_captures, memory_order_relaxed) && !hip_thread.captures, 1))
		return false;
	if (hip_thread.capture_mode == MODE_RELAXED)
		return false;
	pthread_mutex_lock(&hip_lock);
	invalidate_captures();
	pthread_mutex_unlock(&hip_lock);
	return true;
}

static hipError_t begin_capture(hipStream_t stream, int mode)
{
	struct stream *s = is_default(stream) ? NULL : stream_of(stream);

	if (is_default(stream))
		return hipErrorStreamCaptureUnsupported;
	if (!s)
		return hipErrorContextIsDestroyed;
	if (mode < MODE_GLOBAL || mode > MODE_RELAXED)
		return hipErrorInvalidValue;
	if (s->capture)
		return hipErrorUnknown;
	s->graph = graph_new(s->device);
	s->mode = mode;
	s->capture = CAPTURE_ACTIVE;
	if (mode == MODE_GLOBAL)
		global_captures++;
	if (mode != MODE_RELAXED)
		hip_thread.captures++;
	return hipSuccess;
}

static hipError_t end_capture(hipStream_t stream, hipGraph_t *graph)
{
	struct stream *s = is_default(stream) ? NULL : stream_of(stream);
	bool valid;

	if (!graph || !stream)
		return hipErrorInvalidValue;
	if (!s)
		return hipErrorContextIsDestroyed;
	if (!s->capture)
		return hipErrorUnknown;
	valid = s->capture == CAPTURE_ACTIVE;
	*graph = valid ? s->graph : NULL;
	if (s->mode == MODE_GLOBAL)
		global_captures--;
	if (s->mode != MODE_RELAXED)
		hip_thread.captures--;
	s->capture = CAPTURE_NONE;
	s->graph = NULL;
	return valid ? hipSuccess : hipErrorStreamCaptureInvalidated;
}

HIP_API hipError_t hipStreamBeginCapture(hipStream_t stream, int mode)
{
	HIP_ENTER(hipStreamBeginCapture);
	return HIP_LEAVE(begin_capture(stream, mode));
}

HIP_API hipError_t hipStreamBeginCapture_spt(hipStream_t stream, int mode)
{
	HIP_ENTER(hipStreamBeginCapture_spt);
	return HIP_LEAVE(begin_capture(stream, mode));
}

HIP_API hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
	HIP_ENTER(hipStreamEndCapture);
	return HIP_LEAVE(end_capture(stream, graph));
}

HIP_API hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph)
{
	HIP_ENTER(hipStreamEndCapture_spt);
	return HIP_LEAVE(end_capture(stream, graph));
}

static hipError_t is_capturing(hipStream_t stream, int *status)
{
	if (!status)
		return hipErrorInvalidValue;
	if (!stream_device(stream))
		return hipErrorContextIsDestroyed;
	*status = is_default(stream) ? CAPTURE_NONE : ((struct stream *)stream)->capture;
	return hipSuccess;
}

HIP_API hipError_t hipStreamIsCapturing(hipStream_t stream, int *status)
{
	HIP_ENTER(hipStreamIsCapturing);
	return HIP_LEAVE(is_capturing(stream, status));
}

HIP_API hipError_t hipStreamIsCapturing_spt(hipStream_t stream, int *status)
{
	HIP_ENTER(hipStreamIsCapturing_spt);
	return HIP_LEAVE(is_capturing(stream, status));
}

HIP_API hipError_t hipThreadExchangeStreamCaptureMode(int *mode)
{
	int old = hip_thread.capture_mode;

	HIP_ENTER(hipThreadExchangeStreamCaptureMode);
	if (!mode || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
		return HIP_LEAVE(hipErrorInvalidValue);
	hip_thread.capture_mode = *mode;
	*mode = old;
	return HIP_LEAVE(hipSuccess);
}

/* Events: a time stamp. */
static hipError_t event_new(void **event)
{
	if (!event)
		return hipErrorInvalidValue;
	*event = calloc(1, sizeof(struct timespec));
	return *event ? hipSuccess : hipErrorOutOfMemory;
}

HIP_API hipError_t hipEventCreate(void **event)
{
	HIP_ENTER(hipEventCreate);
	return HIP_LEAVE(event_new(event));
}

HIP_API hipError_t hipEventCreateWithFlags(void **event, unsigned flags)
{
	HIP_ENTER(hipEventCreateWithFlags);
	(void)flags;
	return HIP_LEAVE(event_new(event));
}

HIP_API hipError_t hipEventDestroy(void *event)
{
	HIP_ENTER(hipEventDestroy);
	if (!event)
		return HIP_LEAVE(hipErrorInvalidHandle);
	free(event);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipEventRecord(void *event, hipStream_t stream)
{
	HIP_ENTER(hipEventRecord);
	if (!event)
		return HIP_LEAVE(hipErrorInvalidHandle);
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	clock_gettime(CLOCK_MONOTONIC, event);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipEventSynchronize(void *event)
{
	HIP_ENTER(hipEventSynchronize);
	return HIP_LEAVE(event ? hipSuccess : hipErrorInvalidHandle);
}

HIP_API hipError_t hipEventQuery(void *event)
{
	HIP_ENTER(hipEventQuery);
	return HIP_LEAVE(event ? hipSuccess : hipErrorInvalidHandle);
}

HIP_API hipError_t hipEventElapsedTime(float *ms, void *from, void *to)
{
	const struct timespec *a = from, *b = to;

	HIP_ENTER(hipEventElapsedTime);
	if (!ms)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!from || !to)
		return HIP_LEAVE(hipErrorInvalidHandle);
	*ms = (float)((b->tv_sec - a->tv_sec) * 1e3 + (b->tv_nsec - a->tv_nsec) / 1e6);
	return HIP_LEAVE(hipSuccess);
}
