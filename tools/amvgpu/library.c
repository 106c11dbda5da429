/* Where libamvgpu.so is, seen from the amvgpu that runs. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

/* Relative to the folder of the executable. The build tree has amvgpu in build-hip/, build-hip/tools/amvgpu/
 * or in a build folder of its own. */
static const char *const beside[] = {
    "../lib/" LIBRARY_NAME, "../vgpu/" LIBRARY_NAME,         LIBRARY_NAME,
    "../../" LIBRARY_NAME,  "../../build-hip/" LIBRARY_NAME, "../build-hip/" LIBRARY_NAME,
};

char *library_find(const char *named)
{
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (named)
		return realpath(named, NULL);
	if (n > 0) {
		self[n] = 0;
		dirname(self);
		for (unsigned i = 0; i < sizeof beside / sizeof *beside; i++) {
			snprintf(path, sizeof path, "%s/%s", self, beside[i]);
			if (!access(path, F_OK))
				return realpath(path, NULL);
		}
	}
	return access(LIBRARY_POD_PATH, F_OK) ? NULL : strdup(LIBRARY_POD_PATH);
}
