/* Makes and fills OpenCL buffers of so many MiB until one is refused: "count error". Declares what it needs itself. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL(type, name, params, args) (((type(*) params)dlsym(cl, #name))args)

int main(int argc, char **argv)
{
	void *cl = dlopen("libOpenCL.so.1", RTLD_NOW), *platform, *device, *context, *queue, *buffer;
	size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
	uint64_t total = 0;
	int error = 0, count = 0;
	char zero = 0;

	if (!cl || CALL(int, clGetPlatformIDs, (unsigned, void *, void *), (1, &platform, NULL)) ||
	    CALL(int, clGetDeviceIDs, (void *, uint64_t, unsigned, void *, void *), (platform, 4, 1, &device, NULL)))
		return 2;
	CALL(int, clGetDeviceInfo, (void *, unsigned, size_t, void *, void *), (device, 0x101f, 8, &total, NULL));
	context = CALL(void *, clCreateContext, (void *, unsigned, void *, void *, void *, int *),
		       (NULL, 1, &device, NULL, NULL, &error));
	queue = CALL(void *, clCreateCommandQueue, (void *, void *, uint64_t, int *), (context, device, 0, &error));
	while (!error && count < 1000) {
		buffer = CALL(void *, clCreateBuffer, (void *, uint64_t, size_t, void *, int *),
			      (context, 1, size, NULL, &error));
		if (!error)
			error = CALL(int, clEnqueueWriteBuffer,
				     (void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *),
				     (queue, buffer, 1, 0, 1, &zero, 0, NULL, NULL));
		count += !error;
	}
	printf("total=%lu count=%d error=%d\n", total >> 20, count, error);
	fflush(stdout);
	getchar();
	return 0;
}
