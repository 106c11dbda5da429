/* Carries out memory steps that its arguments name, and says "step result" after each. A step "wait" waits
 * for a line on standard input; numbers are MiB. */
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void *last;
static hipStream_t stream;

static void say(const char *step, hipError_t result)
{
	printf("%s %s\n", step, hipGetErrorName(result));
	fflush(stdout);
}

static void step_free_memory(void)
{
	size_t free_bytes = 0, total = 0;

	hipMemGetInfo(&free_bytes, &total);
	printf("free %zu %zu\n", free_bytes / MIB, total / MIB);
}

static void step_export(const char *path)
{
	hipIpcMemHandle_t handle;
	FILE *file = fopen(path, "w");

	hipMemset(last, 0x5a, MIB);
	say("export", hipIpcGetMemHandle(&handle, last));
	fwrite(&handle, sizeof handle, 1, file);
	fclose(file);
}

static void step_import(const char *path)
{
	hipIpcMemHandle_t handle;
	FILE *file = fopen(path, "r");

	if (fread(&handle, sizeof handle, 1, file) != 1)
		exit(3);
	fclose(file);
	say("import", hipIpcOpenMemHandle(&last, handle, hipIpcMemLazyEnablePeerAccess));
}

static void step_read(void)
{
	unsigned char bytes[16] = "";

	hipMemcpy(bytes, last, sizeof bytes, hipMemcpyDeviceToHost);
	printf("read %#x\n", bytes[7]);
}

static void step_idle(void)
{
	struct rusage before, after;
	double used;

	sleep(1);
	getrusage(RUSAGE_SELF, &before);
	sleep(3);
	getrusage(RUSAGE_SELF, &after);
	used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
			before.ru_stime.tv_sec) +
	       (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
			before.ru_stime.tv_usec) /
		   1e6;
	printf("idle %.3f\n", used / 3 * 100);
}

static void step_streams(int count)
{
	hipStream_t streams[16];
	void *p;

	hipMalloc(&p, MIB);
	for (int i = 0; i < count; i++) {
		hipStreamCreateWithFlags(&streams[i], hipStreamNonBlocking);
		hipMemsetAsync(p, 1, MIB, streams[i]);
	}
	say("streams", hipDeviceSynchronize());
}

static void step_fork(void)
{
	pid_t child = fork();
	int status;
	void *p;

	if (!child) {
		say("child", hipMalloc(&p, 8 * MIB));
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("fork %d\n", status);
}

static void carry_out(const char *step, const char *value)
{
	int least, greatest;
	void *p = NULL;

	if (!strcmp(step, "init"))
		say(step, hipInit(0));
	else if (!strcmp(step, "malloc"))
		say(step, hipMalloc(&last, (size_t)atol(value) * MIB));
	else if (!strcmp(step, "release"))
		say(step, hipFree(last));
	else if (!strcmp(step, "stream"))
		say(step, hipStreamCreate(&stream));
	else if (!strcmp(step, "set"))
		say(step,
		    hipMemsetAsync(last, 1, MIB, stream) ? hipErrorUnknown : hipStreamSynchronize(stream));
	else if (!strcmp(step, "priority")) {
		hipDeviceGetStreamPriorityRange(&least, &greatest);
		say(step, hipStreamCreateWithPriority(&stream, hipStreamNonBlocking,
						      *value == 'h' ? greatest : least));
	} else if (!strcmp(step, "managed"))
		say(step, hipMallocManaged(&last, (size_t)atol(value) * MIB, hipMemAttachGlobal));
	else if (!strcmp(step, "prefetch"))
		say(step, hipMemPrefetchAsync(last, (size_t)atol(value) * MIB, 0, stream));
	else if (!strcmp(step, "full"))
		say(step, hipMalloc(&p, (size_t)atol(value) * MIB));
	else if (!strcmp(step, "free"))
		step_free_memory();
	else if (!strcmp(step, "export"))
		step_export(value);
	else if (!strcmp(step, "import"))
		step_import(value);
	else if (!strcmp(step, "read"))
		step_read();
	else if (!strcmp(step, "idle"))
		step_idle();
	else if (!strcmp(step, "streams"))
		step_streams(atoi(value));
	else if (!strcmp(step, "fork"))
		step_fork();
	else if (!strcmp(step, "wait"))
		getchar();
	else
		exit(2);
	fflush(stdout);
}

/* "step" or "step=value" each. */
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = 0;
		carry_out(argv[i], value ? value : "");
	}
	return 0;
}
