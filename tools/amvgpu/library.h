/* Where libamvgpu.so is, seen from the amvgpu that runs. */
#ifndef AMVGPU_LIBRARY_H
#define AMVGPU_LIBRARY_H

#define LIBRARY_STEM "libamvgpu"
#define LIBRARY_NAME LIBRARY_STEM ".so"
#define LIBRARY_POD_PATH "/usr/local/vgpu/" LIBRARY_NAME

/* The absolute path of the library: named (--library) or, where that is NULL, the first that exists of
 * ../lib/, ../vgpu/, the build folder beside ours, and the path a pod has. NULL if none exists. Caller
 * frees. */
char *library_find(const char *named);

#endif
