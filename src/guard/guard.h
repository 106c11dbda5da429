/* What the library and its guard know of each other. */
#ifndef AMVGPU_GUARD_H
#define AMVGPU_GUARD_H

#include <stdint.h>

#include "../loader/elf_object.h"
#include "../sys/text.h"

#define GUARD_SONAME "libamvgpu_guard.so"
/* A variable in the guard's data: not 0 once the library is there. No environment variable, which a program could forge. */
#define GUARD_IS_ACTIVE amvgpu_guard_is_active
#define GUARD_IS_ACTIVE_NAME "amvgpu_guard_is_active"

/* For la_objopen: tells the guard, if object is it, that the library is active. */
static inline void guard_objopen(const struct elf_object *object)
{
	uint32_t *is_active;

	if (!text_equal(object->soname, GUARD_SONAME))
		return;
	is_active = (uint32_t *)elf_object_variable(object, GUARD_IS_ACTIVE_NAME);
	if (is_active)
		*is_active = 1;
}

#endif
