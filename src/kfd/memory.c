/* See memory.h. */
#include "memory.h"

#include "../hip/gate.h"
#include "../sys/log.h"
#include "../sys/sys.h"

/* The tracker's classes, as this table uses them. A buffer is a number that is never used again. */
enum {
	CLASS_KFD_HANDLE, /* handle -> buffer */
	CLASS_GEM_HANDLE, /* (file, handle) -> buffer */
	CLASS_INODE,	  /* of its dma-buf -> buffer */
	CLASS_BUFFER,	  /* buffer -> size, device */
	CLASS_HOLDERS,	  /* buffer -> number of handles */
	CLASS_INODE_OF,	  /* buffer -> inode */
};

static struct tracker *table;
static uint64_t last_buffer;

/* Made by the first ioctl that needs it; of two that meet, one keeps its own. */
static struct tracker *buffers(void)
{
	struct tracker *t = __atomic_load_n(&table, __ATOMIC_ACQUIRE), *expected = NULL;

	if (t)
		return t;
	t = tracker_new();
	if (t && !__atomic_compare_exchange_n(&table, &expected, t, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		t = expected;
	return t;
}

static const void *key_of(uint64_t number)
{
	return (const void *)number;
}

static void put(unsigned class, uint64_t key, uint64_t size, unsigned device)
{
	struct tracked value = { .size = size, .device = (uint8_t)device, .class = (uint8_t)class };

	if (!tracker_put(buffers(), key_of(key), value))
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
}

bool physical_reserve(struct physical *p, int device, uint64_t bytes, bool is_refusable)
{
	struct ledger *ledger = gate_ledger();
	bool expects_refusal = gate_thread.may_refuse && !gate_thread.is_fragile;

	*p = (struct physical){ .device = device, .bytes = bytes };
	if (device < 0 || !bytes)
		return true;
	if (ledger_reserve(ledger, (unsigned)device, LEDGER_PHYSICAL, bytes) == LEDGER_GRANTED)
		return true;
	if (expects_refusal || is_refusable) {
		ledger_note_refusal(ledger, gate_thread.may_refuse ? hip_function_name(gate_thread.function) : "ioctl",
				    (unsigned)device, LEDGER_PHYSICAL, bytes);
		LOG(LOG_INFO, "the driver's %m on device %u would exceed the limit: refused", bytes, (uint64_t)device);
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

uint64_t physical_settle(const struct physical *p)
{
	uint64_t buffer;

	if (p->device < 0 || !p->bytes || !buffers())
		return 0;
	if (p->is_overdraft) {
		ledger_charge(gate_ledger(), (unsigned)p->device, LEDGER_PHYSICAL, p->bytes);
		LOG(LOG_INFO, "the driver gave %m on device %u over the limit (code, scratch or a queue)", p->bytes,
		    (uint64_t)p->device);
	} else {
		ledger_settle(gate_ledger(), (unsigned)p->device, LEDGER_PHYSICAL, p->bytes);
	}
	buffer = __atomic_add_fetch(&last_buffer, 1, __ATOMIC_RELAXED);
	put(CLASS_BUFFER, buffer, p->bytes, (unsigned)p->device);
	return buffer;
}

void physical_hold(enum physical_name name, uint64_t key, uint64_t buffer)
{
	if (!buffer || !key)
		return;
	put(name, key, buffer, 0);
	if (name == NAME_INODE)
		put(CLASS_INODE_OF, buffer, key, 0);
	else if (tracker_add(buffers(), key_of(buffer), CLASS_HOLDERS, 1) < 0)
		put(CLASS_HOLDERS, buffer, 1, 0);
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

	if (key && buffers() && tracker_take(buffers(), key_of(key), 1u << name, &value))
		taken.buffer = value.size;
	return taken;
}

void physical_put_back(struct physical_taken taken)
{
	if (taken.buffer)
		put(taken.name, taken.key, taken.buffer, 0);
}

void physical_drop(struct physical_taken taken)
{
	struct tracker *t = buffers();
	struct tracked value;

	if (!taken.buffer || tracker_add(t, key_of(taken.buffer), CLASS_HOLDERS, -1) != 0)
		return;
	if (tracker_take(t, key_of(taken.buffer), 1u << CLASS_INODE_OF, &value))
		tracker_take(t, key_of(value.size), 1u << CLASS_INODE, &value);
	if (tracker_take(t, key_of(taken.buffer), 1u << CLASS_BUFFER, &value))
		ledger_release(gate_ledger(), value.device, LEDGER_PHYSICAL, value.size);
}
