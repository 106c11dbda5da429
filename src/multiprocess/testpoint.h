/* A named place at which a test can kill or stop the process.
 *
 * Hosted programs may define testpoint_reached(); the freestanding library has no trace of it.
 */
#ifndef AMVGPU_TESTPOINT_H
#define AMVGPU_TESTPOINT_H

enum testpoint {
#define TESTPOINT_ROW(name, what) TESTPOINT_##name,
#include "testpoint.def"
#undef TESTPOINT_ROW
	TESTPOINTS,
};

#if __STDC_HOSTED__
extern void testpoint_reached(enum testpoint point) __attribute__((weak, visibility("hidden")));
#define TESTPOINT(name)                                                                                      \
	do {                                                                                                 \
		if (testpoint_reached)                                                                       \
			testpoint_reached(TESTPOINT_##name);                                                 \
	} while (0)
#else
#define TESTPOINT(name) ((void)0)
#endif

#endif
