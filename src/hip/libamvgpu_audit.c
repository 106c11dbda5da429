/* The top of the library: what ld.so calls.
 *
 * Everything happens in la_objopen, after an object is mapped and before anything is relocated against it: a provider's
 * symbol table is rewritten once and every later lookup finds our wrappers. Flags are 0, so that ld.so keeps its fast paths.
 * All of it runs under the loader lock: no call into the program, no lock, no memory from its libc.
 */
#include <link.h>

#include "gate.h"
#include "hip_copy.h"
#include "keep.h"
#include "settings.h"
#include "../guard/guard.h"
#include "../hsa/hsa_copy.h"
#include "../kfd/ioctl.h"
#include "../loader/demand.h"
#include "../loader/exec.h"
#include "../loader/program_libc.h"
#include "../sys/log.h"

#define EXPORT __attribute__((visibility("default")))

static bool is_patched_in_place; /* tables of symbols can be made writable here */

static unsigned symbols_wanted, symbols_bound;

/* ---- Environment variable restoration ----
 *
 * What the pod specification says about a variable holds, whatever the process has done to it: pinned variables always,
 * restored ones where the process has lost them (see ENV_VARIABLES). getenv and secure_getenv of the program's libc answer
 * so; the live environment is set right in hsa_init, just before the runtime reads it.
 */

static void *real_getenv, *real_secure_getenv;

static char *answer(void *real, const char *name)
{
	char *live = ((char *(*)(const char *))real)(name);

	return (char *)settings_getenv(name, live);
}

/* Python alone asks dozens of times at start: names that cannot be ours leave at once. */
static bool may_be_ours(const char *name)
{
	return name && (*name == 'H' || *name == 'A' || *name == 'R' || *name == 'L');
}

static bool is_ours(const char *name)
{
	if (!may_be_ours(name))
		return false;
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		if (text_equal(name, env_variables[i].name))
			return true;
	}
	return false;
}

static char *getenv_wrapper(const char *name)
{
	return is_ours(name) ? answer(real_getenv, name) : ((char *(*)(const char *))real_getenv)(name);
}

static char *secure_getenv_wrapper(const char *name)
{
	return is_ours(name) ? answer(real_secure_getenv, name) :
			       ((char *(*)(const char *))real_secure_getenv)(name);
}

static const struct patch libc_patches[] = {
	{ "getenv", (void *)getenv_wrapper, &real_getenv },
	{ "secure_getenv", (void *)secure_getenv_wrapper, &real_secure_getenv },
};

/* ---- Providers ---- */

static void note_bound(const char *what, const struct elf_object *object, const struct patch_result *result)
{
	symbols_wanted += result->wanted;
	symbols_bound += result->bound;
	if (gate_ledger())
		ledger_note_symbols(gate_ledger(), symbols_bound, symbols_wanted);
	if (result->bound != result->wanted) {
		if (gate_ledger())
			ledger_note_reason(gate_ledger(), LEDGER_REASON_SYMBOLS_PARTIAL);
		LOG(LOG_WARN, "%s %s: only %u of %u symbols could be bound", what, object->map->l_name,
		    (uint64_t)result->bound, (uint64_t)result->wanted);
	} else {
		LOG(LOG_INFO, "%s %s: %u of %u symbols bound", what, object->map->l_name, (uint64_t)result->bound,
		    (uint64_t)result->wanted);
	}
}

static void note_copies_full(const char *what, const struct elf_object *object)
{
	if (gate_ledger())
		ledger_note_reason(gate_ledger(), LEDGER_REASON_COPIES_FULL);
	LOG(LOG_ERROR, "%s %s: too many copies of the runtime are loaded; this one is not limited", what,
	    object->map->l_name);
}

static void log_limits(const struct env_policy *policy)
{
	for (unsigned i = 0; i < ENV_DEVICES && log_is_on(LOG_INFO); i++) {
		if (policy->limit[i] && (!i || policy->limit[i] != policy->limit[i - 1]))
			LOG(LOG_INFO, "device %u: limit %m from %s", (uint64_t)i, policy->limit[i],
			    policy->pod_has_limits ? "the pod specification" : "this process's environment");
	}
}

static unsigned open_hip(struct elf_object *object)
{
	const struct env_policy *policy = settings();
	struct hip_copy *copy;

	if (!policy->limited && !policy->oversubscribe)
		return 0;
	if (!gate_ledger())
		log_limits(policy);
	if (!gate_init()) {
		LOG(LOG_ERROR, "no memory: the limit is not enforced in this process");
		return 0;
	}
	keep_note_slot();
	copy = hip_copy_open(object);
	if (!copy) {
		note_copies_full("HIP", object);
		return 0;
	}
	note_bound("HIP", object, &copy->patched);
	return copy->patched.way == PATCH_SYMBIND ? LA_FLG_BINDTO | LA_FLG_BINDFROM : 0;
}

static unsigned open_hsa(struct elf_object *object)
{
	struct patch_result result;

	if (!settings_ask_anything() || (settings()->limited && !gate_init()))
		return 0;
	if (!hsa_copy_open(object, &result)) {
		note_copies_full("HSA", object);
		return 0;
	}
	note_bound("HSA", object, &result);
	return result.way == PATCH_SYMBIND ? LA_FLG_BINDTO | LA_FLG_BINDFROM : 0;
}

static struct patch_result exec; /* of the last object, or of libc, whose names are bound as they come into demand */

static void warn_exec(const struct link_map *map)
{
	if (exec.bound != exec.wanted)
		LOG(LOG_WARN, "%s: only %u of %u functions that start programs could be bound", map->l_name,
		    (uint64_t)exec.bound, (uint64_t)exec.wanted);
}

/* The program's own libraries: libc, the libpthread of old that has an exec family of its own, and our guard. */
static void open_base(struct elf_object *object, struct patch_batch *batch)
{
	static struct patch_result unused;
	bool is_libc = elf_object_is_libc(object);

	keep_init();
	guard_objopen(object);
	if (is_libc)
		patch_batch_add(batch, libc_patches, sizeof libc_patches / sizeof *libc_patches, &unused);
	exec = (struct patch_result){ .way = PATCH_NONE };
	exec_objopen(object, batch, &exec);
	if (!is_libc || !is_patched_in_place || !demand_bind(object, batch))
		elf_patch_batch(object, batch);
	warn_exec(object->map);
}

/* What the object at map can look up has to lead to us before it is relocated. NULL: it could not be read. */
static void note_demand(struct link_map *map, const struct elf_object *object)
{
	struct elf_object main;

	if (!object && program_main_load(&main, map))
		object = &main;
	if (demand_objopen(object))
		warn_exec(map);
}

/* ld.so looks la_symbind64 up when la_version has returned. Where it exists, ld.so from 2.35 on keeps what it answered to
 * each binding of each object, and asks the program's malloc for that before the program's libc is ready. So it is there
 * only where it may be needed: where a table of symbols cannot be made writable, our own for one.
 */
static void symbind_hide(void)
{
	extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
	extern Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));
	struct link_map self = { .l_addr = (uintptr_t)&__ehdr_start, .l_name = (char *)"", .l_ld = _DYNAMIC };
	const Elf64_Phdr *headers = (const Elf64_Phdr *)(self.l_addr + __ehdr_start.e_phoff);
	struct elf_object object;

	if (elf_object_load_at(&object, &self, headers, __ehdr_start.e_phnum))
		is_patched_in_place = elf_patch_hide(&object, "la_symbind64");
}

EXPORT unsigned la_version(unsigned version)
{
	log_init();
	symbind_hide();
	return version;
}

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	struct patch_batch batch = { .count = 0 };
	struct elf_object object;
	bool is_hip, is_hsa, is_read = elf_object_load(&object, map);

	(void)cookie; /* stays the link_map, as ld.so set it */
	program_libc_objopen(map, is_read ? &object : NULL, namespace);
	note_demand(map, is_read ? &object : NULL);
	if (!is_read)
		return 0;
	ioctl_objopen(&object, &batch);
	is_hip = hip_is_provider(&object);
	is_hsa = !is_hip && hsa_is_provider(&object);
	if (namespace == LM_ID_BASE && !is_hip && !is_hsa)
		open_base(&object, &batch);
	else
		elf_patch_batch(&object, &batch);
	return is_hip ? open_hip(&object) : is_hsa ? open_hsa(&object) : 0;
}

EXPORT unsigned la_objclose(uintptr_t *cookie)
{
	struct link_map *map = (struct link_map *)*cookie;

	if (symbols_wanted) { /* else there is no copy to look for, and no page to touch at the end of most programs */
		hip_copy_close(map);
		hsa_copy_close(map);
	}
	ioctl_objclose(map);
	return 0;
}

/* Only for an object whose table could neither be rewritten nor copied. */
EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
			      const char *name)
{
	struct link_map *map = (struct link_map *)*to;
	void *wrapper = hip_copy_symbind(map, name, symbol->st_value);

	(void)index;
	(void)from;
	(void)flags;
	if (!wrapper)
		wrapper = hsa_copy_symbind(map, name, symbol->st_value);
	return wrapper ? (uintptr_t)wrapper : symbol->st_value;
}
