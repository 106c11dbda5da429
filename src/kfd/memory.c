/* See memory.h. */
#include "memory.h"

#include "descriptors.h"
#include "../hip/gate.h"
#include "../sys/log.h"
#include "../sys/sys.h"

/* The tracker's classes, as this table uses them. A buffer is a number that is never used again. */
enum {
	CLASS_KFD_HANDLE, /* handle -> buffer */
	CLASS_GEM_HANDLE, /* (file, handle) -> buffer */
	CLASS_INODE,	  /* of a dma-buf -> buffer */
	CLASS_DESCRIPTOR, /* of a dma-buf that was exported here -> buffer */
	CLASS_BUFFER,	  /* buffer -> size, device */
	CLASS_HOLDERS,	  /* buffer -> number of handles and descriptors */
	CLASS_INODE_OF,	  /* buffer -> its newest inode; inode | OLDER -> the one before */
	CLASS_FILE,	  /* DRM file -> number of its handles */
};
#define OLDER ((uint64_t)1 << 63)

static struct tracker *table;
static uint64_t last_buffer;
/* Entries of CLASS_GEM_HANDLE and CLASS_DESCRIPTOR, and the process whose descriptors they are: a vfork child shares our
 * memory and not our descriptors. */
uint64_t physical_descriptors;
static int descriptors_of;

static struct tracker *buffers(void)
{
	return tracker_at(&table);
}

bool physical_open(void)
{
	return buffers();
}

bool physical_is_open(void)
{
	return __atomic_load_n(&table, __ATOMIC_ACQUIRE);
}

static const void *key_of(uint64_t number)
{
	return (const void *)number;
}

static bool is_of_descriptor(unsigned class)
{
	return class == CLASS_GEM_HANDLE || class == CLASS_DESCRIPTOR;
}

static void put(unsigned class, uint64_t key, uint64_t size, unsigned device)
{
	struct tracked value = { .size = size, .device = (uint8_t)device, .class = (uint8_t)class };

	if (!tracker_put(buffers(), key_of(key), value))
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
}

bool physical_reserve(struct physical *p, int device, uint64_t bytes, bool is_refusable)
{
	*p = (struct physical){ .device = device, .bytes = bytes };
	if (device < 0 || !bytes)
		return true;
	if (ledger_reserve(gate_ledger(), (unsigned)device, LEDGER_PHYSICAL, bytes) == LEDGER_GRANTED)
		return true;
	if (gate_thread.may_refuse && !gate_thread.is_fragile) {
		gate_driver_refused((unsigned)device);
		return false;
	}
	if (is_refusable) {
		gate_note_refusal("ioctl", (unsigned)device, LEDGER_PHYSICAL, bytes);
		return false;
	}
	p->is_overdraft = true;
	return true;
}

void physical_withdraw(const struct physical *p)
{
	if (p->device >= 0 && p->bytes && !p->is_overdraft)
		ledger_withdraw(gate_ledger(), (unsigned)p->device, LEDGER_PHYSICAL, p->bytes);
}

static void charge(const struct physical *p)
{
	if (!p->is_overdraft) {
		ledger_settle(gate_ledger(), (unsigned)p->device, LEDGER_PHYSICAL, p->bytes);
		return;
	}
	ledger_charge(gate_ledger(), (unsigned)p->device, LEDGER_PHYSICAL, p->bytes);
	if (gate_thread.is_fragile)
		gate_thread.has_overdrawn = 1;
	LOG(LOG_INFO, "the driver gave %m on device %u over the limit (%s)", p->bytes, (uint64_t)p->device,
	    gate_thread.is_fragile ? "a pool's chunk, about to be given back" : "code, scratch or a queue");
}

uint64_t physical_settle(const struct physical *p)
{
	uint64_t buffer;

	if (p->device < 0 || !p->bytes)
		return 0;
	charge(p);
	if (!buffers()) {
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
		return 0;
	}
	buffer = __atomic_add_fetch(&last_buffer, 1, __ATOMIC_RELAXED);
	put(CLASS_BUFFER, buffer, p->bytes, (unsigned)p->device);
	return buffer;
}

/* ---- names ---- */

static uint64_t file_of(uint64_t gem_key)
{
	return physical_descriptor_key((int)(gem_key >> 32));
}

static void watch(enum physical_name name, uint64_t key)
{
	if (name == NAME_GEM_HANDLE)
		tracker_raise(buffers(), key_of(file_of(key)), CLASS_FILE);
	__atomic_store_n(&descriptors_of, sys_getpid(), __ATOMIC_RELAXED);
	__atomic_add_fetch(&physical_descriptors, 1, __ATOMIC_RELAXED);
}

static void unwatch(enum physical_name name, uint64_t key)
{
	if (name == NAME_GEM_HANDLE)
		tracker_add(buffers(), key_of(file_of(key)), CLASS_FILE, -1);
	__atomic_sub_fetch(&physical_descriptors, 1, __ATOMIC_RELAXED);
}

/* Every export of a buffer may have an inode of its own, and any of them may come back. */
static void name_inode(uint64_t inode, uint64_t buffer)
{
	struct tracked older;

	if (physical_find(NAME_INODE, inode) == buffer)
		return;
	put(CLASS_INODE, inode, buffer, 0);
	if (tracker_find(buffers(), key_of(buffer), 1u << CLASS_INODE_OF, &older))
		put(CLASS_INODE_OF, inode | OLDER, older.size, 0);
	put(CLASS_INODE_OF, buffer, inode, 0);
}

static void forget_inodes(uint64_t buffer)
{
	struct tracker *t = buffers();
	struct tracked inode, named;
	uint64_t from = buffer;

	while (tracker_take(t, key_of(from), 1u << CLASS_INODE_OF, &inode)) {
		if (tracker_find(t, key_of(inode.size), 1u << CLASS_INODE, &named) && named.size == buffer)
			tracker_take(t, key_of(inode.size), 1u << CLASS_INODE, &named);
		from = inode.size | OLDER;
	}
}

static void hold(enum physical_name name, uint64_t key, uint64_t buffer)
{
	put(name, key, buffer, 0);
	if (is_of_descriptor(name))
		watch(name, key);
}

void physical_hold(enum physical_name name, uint64_t key, uint64_t buffer)
{
	struct physical_taken stale;

	if (!buffer || !key)
		return;
	if (name == NAME_INODE) {
		name_inode(key, buffer);
		return;
	}
	stale = physical_take(name, key); /* its end was not seen, and the kernel has given the number anew */
	if (!tracker_raise(buffers(), key_of(buffer), CLASS_HOLDERS))
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
	hold(name, key, buffer);
	physical_drop(stale);
}

uint64_t physical_find(enum physical_name name, uint64_t key)
{
	struct tracked value;

	return key && buffers() && tracker_find(buffers(), key_of(key), 1u << name, &value) ? value.size : 0;
}

struct physical_taken physical_take(enum physical_name name, uint64_t key)
{
	struct physical_taken taken = { .key = key, .name = name };
	struct tracked value;

	if (!key || !buffers() || !tracker_take(buffers(), key_of(key), 1u << name, &value))
		return taken;
	taken.buffer = value.size;
	if (is_of_descriptor(name))
		unwatch(name, key);
	return taken;
}

void physical_put_back(struct physical_taken taken)
{
	if (taken.buffer)
		hold(taken.name, taken.key, taken.buffer);
}

static bool is_inode_of(uint64_t inode, uint64_t buffer)
{
	return physical_find(NAME_INODE, inode) == buffer;
}

/* A duplicate of a descriptor by which the buffer was exported; -1: all are closed. */
static int duplicate_of(uint64_t buffer)
{
	struct tracked inode;

	if (!tracker_find(buffers(), key_of(buffer), 1u << CLASS_INODE_OF, &inode))
		return -1;
	return descriptors_find_dmabuf(is_inode_of, buffer);
}

static void drop(uint64_t buffer)
{
	struct tracked value;
	int duplicate;

	if (!buffer || tracker_add(buffers(), key_of(buffer), CLASS_HOLDERS, -1) != 0)
		return;
	duplicate = duplicate_of(buffer);
	if (duplicate >= 0) {
		physical_hold(NAME_DESCRIPTOR, physical_descriptor_key(duplicate), buffer);
		return;
	}
	forget_inodes(buffer);
	if (tracker_take(buffers(), key_of(buffer), 1u << CLASS_BUFFER, &value))
		ledger_release(gate_ledger(), value.device, LEDGER_PHYSICAL, value.size);
}

void physical_drop(struct physical_taken taken)
{
	drop(taken.buffer);
}

/* ---- descriptors that end ---- */

/* The kernel gives the lowest free number to a handle, so they are found from the bottom. */
static void take_handles(struct physical_closing *closing, int fd, uint64_t count)
{
	enum { HIGHEST = 1 << 20 };

	closing->size = count * sizeof *closing->handles;
	closing->handles = sys_mmap(NULL, closing->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(closing->handles)) {
		closing->handles = NULL;
		return;
	}
	closing->duplicate = descriptors_find_other(fd);
	for (uint32_t handle = 1; handle <= HIGHEST && closing->count < count; handle++) {
		struct physical_taken taken = physical_take(NAME_GEM_HANDLE, physical_gem_key(fd, handle));

		if (taken.buffer)
			closing->handles[closing->count++] = taken;
	}
}

bool physical_close_begin(struct physical_closing *closing, int fd)
{
	struct tracked handles;

	*closing = (struct physical_closing){ .count = 0 };
	if (!buffers() || __atomic_load_n(&descriptors_of, __ATOMIC_RELAXED) != sys_getpid())
		return false;
	closing->dmabuf = physical_take(NAME_DESCRIPTOR, physical_descriptor_key(fd));
	if (tracker_find(buffers(), key_of(physical_descriptor_key(fd)), 1u << CLASS_FILE, &handles))
		take_handles(closing, fd, handles.size);
	return closing->dmabuf.buffer || closing->count;
}

/* The handles of a file that has another descriptor are that one's from now on. */
static void end_handle(struct physical_taken taken, int duplicate)
{
	if (duplicate < 0) {
		drop(taken.buffer);
		return;
	}
	taken.key = physical_gem_key(duplicate, (uint32_t)taken.key);
	physical_put_back(taken);
}

void physical_close_end(struct physical_closing *closing)
{
	physical_drop(closing->dmabuf);
	for (size_t i = 0; i < closing->count; i++)
		end_handle(closing->handles[i], closing->duplicate);
	if (closing->handles)
		sys_munmap(closing->handles, closing->size);
}
