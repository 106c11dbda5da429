/* The smallest audit library around the real src/loader: each wrapper answers with its number.
 *
 * ROUTE_FORBID (in_place, copy, both) makes it patch in another way, and with `both` bind through
 * la_symbind64.
 */
#define _GNU_SOURCE
#include <link.h>

#include "../../src/loader/elf_object.h"
#include "../../src/loader/program_libc.h"
#include "../../src/sys/text.h"
#include "route.h"

#define EXPORT __attribute__((visibility("default")))

enum { COPIES = 8 };

static void *originals[COPIES][ROUTE_ROWS];
static struct patch_result results[COPIES];

#define ROW(name, node)                                                                                      \
	static int wrapped_##name(void)                                                                      \
	{                                                                                                    \
		return ROUTE_WRAPPED + ROW_##name;                                                           \
	}
#include "rows.h"

static void list_fill(struct patch *list, unsigned copy)
{
#define ROW(name, node)                                                                                      \
	list[ROW_##name] = (struct patch){#name, wrapped_##name, &originals[copy][ROW_##name]};
#include "rows.h"
}

bool elf_patch_permits(enum patch_way way)
{
	const char *forbidden = program_getenv_live("ROUTE_FORBID");

	return !forbidden || !(text_equal(forbidden, "both") ||
			       text_equal(forbidden, way == PATCH_COPY ? "copy" : "in_place"));
}

static bool is_by_symbind(void)
{
	return !elf_patch_permits(PATCH_COPY) && !elf_patch_permits(PATCH_IN_PLACE);
}

EXPORT unsigned la_version(unsigned version)
{
	return version;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	struct elf_object object;
	struct patch list[ROUTE_ROWS];
	unsigned copy = 0;
	bool is_read = elf_object_load(&object, map);

	program_libc_objopen(map, is_read ? &object : NULL, namespace);
	*cookie = COPIES;
	while (copy < COPIES && results[copy].way)
		copy++;
	if (copy < COPIES && is_read && elf_object_address(&object, "hipModuleLoad")) {
		list_fill(list, copy);
		results[copy] = elf_patch(&object, list, ROUTE_ROWS);
		*cookie = copy;
	}
	return is_by_symbind() ? LA_FLG_BINDTO | LA_FLG_BINDFROM : 0;
}

EXPORT unsigned la_objclose(uintptr_t *cookie)
{
	if (*cookie < COPIES) {
		elf_patch_undo(&results[*cookie]);
		results[*cookie].way = PATCH_NONE;
		bytes_clear(originals[*cookie], sizeof originals[*cookie]);
	}
	return 0;
}

EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
			      unsigned *flags, const char *name)
{
	struct patch list[ROUTE_ROWS];
	void *wrapper;

	(void)index, (void)from, (void)flags;
	if (*to >= COPIES || results[*to].way != PATCH_SYMBIND)
		return symbol->st_value;
	list_fill(list, (unsigned)*to);
	wrapper = elf_patch_symbind(list, ROUTE_ROWS, name, symbol->st_value);
	return wrapper ? (uintptr_t)wrapper : symbol->st_value;
}
