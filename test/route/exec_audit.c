/* The smallest audit library around the real exec wrappers. Keeps itself and AMVGPU_KEPT, as they were at
 * start. */
#define _GNU_SOURCE
#include <link.h>

#include "../../src/loader/demand.h"
#include "../../src/loader/exec.h"
#include "../../src/loader/program_libc.h"
#include "../../src/sys/text.h"

#define EXPORT __attribute__((visibility("default")))

/* The texts of the initial block are the program's to overwrite. */
static const char *keep_text(const char *entry)
{
	static char store[4096];
	static size_t used;
	size_t size = text_length(entry) + 1;
	char *kept = store + used;

	if (used + size > sizeof store)
		return "AMVGPU_KEPT=too long";
	bytes_copy(kept, entry, size);
	used += size;
	return kept;
}

static void keep_own(void)
{
	static const char *kept[8];
	unsigned count = 0;

	for (const char *const *e = program_initial_environment(); e && *e && count < 8; e++) {
		if (text_starts(*e, "LD_AUDIT=") || text_starts(*e, "AMVGPU_KEPT"))
			kept[count++] = keep_text(*e);
	}
	if (count)
		exec_keep_init(kept, count);
}

EXPORT unsigned la_version(unsigned version)
{
	return version;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	static bool is_initialised;
	struct patch_batch batch = {.count = 0};
	struct elf_object object;
	static struct patch_result result;
	bool is_read = elf_object_load(&object, map);

	(void)cookie;
	program_libc_objopen(map, is_read ? &object : NULL, namespace);
	if (!is_initialised)
		keep_own();
	is_initialised = true;
	if (namespace == LM_ID_BASE && is_read) {
		exec_objopen(&object, &batch, &result);
		if (!demand_bind(&object, &batch))
			elf_patch_batch(&object, &batch);
	}
	demand_objopen(is_read || program_main_load(&object, map) ? &object : NULL);
	return 0;
}
