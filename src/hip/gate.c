/* See gate.h. */
#include "gate.h"

#include "settings.h"
#include "../sys/log.h"
#include "../sys/once.h"

__thread struct gate_thread gate_thread;

static struct {
	struct ledger *ledger;
	struct tracker *tracker;
	uint32_t is_made; /* once */
	uint32_t refusal_is_logged;
} gate;

struct ledger *gate_ledger(void)
{
	return gate.ledger;
}

struct tracker *gate_tracker(void)
{
	return gate.tracker;
}

/* The last bits of it. */
static uint16_t gate_return_address(uintptr_t frame)
{
	return (uint16_t)((const volatile uintptr_t *)frame)[1];
}

bool gate_is_going_on(uintptr_t frame)
{
	enum { NEAR = 1 << 20 }; /* farther up it may be another stack, which may be gone */
	struct gate_thread *t = &gate_thread;
	static uint32_t is_logged;

	if (frame < t->frame && (t->frame - frame > NEAR || gate_return_address(t->frame) == t->caller))
		return true;
	*t = (struct gate_thread){ .frame = frame, .caller = gate_return_address(frame) };
	if (!__atomic_exchange_n(&is_logged, 1, __ATOMIC_RELAXED))
		LOG(LOG_WARN, "a thread has left a call by an exception or a jump: what that call asked for stays announced");
	return false;
}

static struct ledger *ledger_from_settings(void)
{
	const struct env_policy *policy = settings();
	struct ledger_settings s = { .path = policy->value[ENV_HIP_DEVICE_MEMORY_SHARED_CACHE] };
	void *storage = sys_mmap(NULL, ledger_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_error(storage))
		return NULL;
	for (unsigned i = 0; i < LEDGER_DEVICES; i++) {
		s.limit[i] = policy->limit[i];
		s.own_limit[i] = policy->own_limit[i];
	}
	return ledger_init(storage, &s);
}

static void init(void)
{
	const struct env_policy *policy = settings();

	gate.tracker = tracker_new();
	if (!gate.tracker || !(gate.ledger = ledger_from_settings()))
		return;
	if (policy->invalid)
		ledger_note_reason(gate.ledger, LEDGER_REASON_LIMIT_INVALID);
	if (policy->limit_raise_ignored)
		ledger_note_reason(gate.ledger, LEDGER_REASON_LIMIT_RAISE_IGNORED);
	if (!settings_pod_is_known())
		ledger_note_reason(gate.ledger, LEDGER_REASON_POD_SPEC_UNREADABLE);
}

bool gate_init(void)
{
	if (once_begin(&gate.is_made)) {
		init();
		once_end(&gate.is_made);
	}
	return gate.ledger;
}

void gate_note_refusal(const char *function, unsigned device, enum ledger_book book, uint64_t bytes)
{
	ledger_note_refusal(gate.ledger, function, device, book, bytes);
	if (__atomic_load_n(&gate.refusal_is_logged, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&gate.refusal_is_logged, 1, __ATOMIC_RELAXED))
		return;
	LOG(LOG_WARN,
	    "%s refused %u bytes on device %u: limit %m, %s %m. Further refusals are counted, not logged; see amvgpu "
	    "status.",
	    function, bytes, (uint64_t)device, ledger_limit(gate.ledger, device),
	    book == LEDGER_REQUESTED ? "in use" : "taken from the driver", ledger_used(gate.ledger, device, book));
}

bool gate_reserve(struct charge *charge, enum hip_function function, int ordinal, uint64_t bytes)
{
	charge->bytes = 0;
	if (!bytes || ordinal < 0)
		return true;
	charge->device = settings_device_index((unsigned)ordinal);
	if (charge->device >= LEDGER_DEVICES)
		return true;
	if (bytes >> 62 && !ledger_limit(gate.ledger, charge->device))
		return true; /* the runtime's to refuse */
	if (ledger_reserve(gate.ledger, charge->device, LEDGER_REQUESTED, bytes) != LEDGER_GRANTED) {
		gate_note_refusal(hip_function_name(function), charge->device, LEDGER_REQUESTED, bytes);
		return false;
	}
	charge->bytes = bytes;
	return true;
}

void gate_withdraw(const struct charge *charge)
{
	if (charge->bytes)
		ledger_withdraw(gate.ledger, charge->device, LEDGER_REQUESTED, charge->bytes);
}

/* Settled before more is reserved: a request must not wait for its own thread's announcement. */
static __attribute__((noinline)) bool settle_other_bytes(struct charge *charge, enum hip_function function, uint64_t got)
{
	uint64_t more = got > charge->bytes ? got - charge->bytes : 0;

	if (got < charge->bytes) {
		ledger_withdraw(gate.ledger, charge->device, LEDGER_REQUESTED, charge->bytes - got);
		charge->bytes = got;
	}
	ledger_settle(gate.ledger, charge->device, LEDGER_REQUESTED, charge->bytes);
	if (more && ledger_reserve(gate.ledger, charge->device, LEDGER_REQUESTED, more) != LEDGER_GRANTED) {
		gate_note_refusal(hip_function_name(function), charge->device, LEDGER_REQUESTED, got);
		return false;
	}
	ledger_settle(gate.ledger, charge->device, LEDGER_REQUESTED, more);
	charge->bytes = got;
	return true;
}

bool gate_settle(struct charge *charge, enum hip_function function, uint64_t got, enum tracker_class class,
		 const void *key)
{
	struct tracked value = { .size = got, .device = (uint8_t)charge->device, .class = (uint8_t)class };

	if (!charge->bytes)
		return true;
	if (__builtin_expect(got == charge->bytes, 1))
		ledger_settle(gate.ledger, charge->device, LEDGER_REQUESTED, got);
	else if (!settle_other_bytes(charge, function, got))
		return false;
	if (!tracker_put(gate.tracker, key, value)) {
		ledger_note_reason(gate.ledger, LEDGER_REASON_TRACKER_FULL);
		LOG(LOG_WARN, "no memory to remember an allocation: it stays charged until this process ends");
	}
	ledger_note_allocations(gate.ledger, 1);
	return true;
}

void gate_give_up(const struct charge *charge)
{
	ledger_release(gate.ledger, charge->device, LEDGER_REQUESTED, charge->bytes);
}

hipError_t gate_refuse(const struct hip_copy *copy)
{
	hipError_t (*provoke)(void **, size_t, unsigned) = (hipError_t(*)(void **, size_t, unsigned))
								   copy->original[HIP_hipExtMallocWithFlags];
	hipError_t result = hipErrorOutOfMemory;
	void *unused = NULL;

	if (provoke) { /* fails in every release before anything is touched, and during stream capture too */
		gate_enter();
		result = provoke(&unused, (size_t)1 << 62, hipDeviceMallocDefault);
		gate_leave();
	}
	return result ? result : hipErrorOutOfMemory;
}

/* An interior pointer frees its whole block; the runtime knows which. */
static const void *block_of(const struct hip_copy *copy, const void *key)
{
	void *base = NULL;
	size_t size = 0;
	hipError_t result;

	if (!copy->hipMemGetAddressRange)
		return NULL;
	gate_enter();
	result = copy->hipMemGetAddressRange(&base, &size, (void *)key);
	gate_leave();
	return result == hipSuccess && base != key ? base : NULL;
}

bool gate_take(const struct hip_copy *copy, unsigned classes, const void *key, const void **base, struct tracked *taken)
{
	if (!key)
		return false;
	*base = key;
	if (tracker_take(gate.tracker, key, classes, taken))
		return true;
	if (!(classes & TRACK_FREEABLE) || !tracker_count(gate.tracker))
		return false;
	*base = block_of(copy, key);
	return *base && tracker_take(gate.tracker, *base, classes, taken);
}

void gate_put_back(const void *base, struct tracked taken)
{
	if (!tracker_put(gate.tracker, base, taken))
		ledger_note_reason(gate.ledger, LEDGER_REASON_TRACKER_FULL);
}

void gate_release(struct tracked taken)
{
	ledger_release(gate.ledger, taken.device, LEDGER_REQUESTED, taken.size);
	ledger_note_allocations(gate.ledger, -1);
}

uint64_t gate_report_total(unsigned device, uint64_t physical)
{
	uint64_t limit = device < LEDGER_DEVICES ? ledger_limit(gate.ledger, device) : 0;

	if (!limit || (limit > physical && !settings()->oversubscribe))
		return physical;
	return limit;
}

uint64_t gate_report_free(unsigned device, uint64_t really_free, uint64_t total)
{
	uint64_t left;

	if (device >= LEDGER_DEVICES || !ledger_limit(gate.ledger, device))
		return really_free;
	left = ledger_free(gate.ledger, device, LEDGER_REQUESTED) & ~(uint64_t)1023;
	if (left > really_free && !settings()->oversubscribe)
		left = really_free;
	return left < total ? left : total;
}
