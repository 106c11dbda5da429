/* The four functions that a compiler may call in freestanding code (GCC manual, "Language Standards Supported by GCC"). */
#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *memcpy(void *to, const void *from, size_t size)
{
	void *result = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
	return result;
}

HIDDEN void *memmove(void *to, const void *from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f || t >= f + size)
		return memcpy(to, from, size);
	while (size--)
		((volatile unsigned char *)t)[size] = f[size];
	return to;
}

HIDDEN void *memset(void *to, int byte, size_t size)
{
	void *p = to;

	__asm__ volatile("rep stosb" : "+D"(p), "+c"(size) : "a"(byte) : "memory");
	return to;
}

HIDDEN int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *p = a, *q = b;

	for (; size; size--, p++, q++) {
		if (*p != *q)
			return *p - *q;
	}
	return 0;
}
