/* A process with a slot: does to the ledger what its arguments say, then lives until its standard input ends.
 *
 *	slot_actor REGION STEP...
 *
 * Steps, in order: limit=DEVICE:BYTES (before all others), requested=DEVICE:BYTES, physical=DEVICE:BYTES, managed=DEVICE:BYTES,
 * refuse=DEVICE:BYTES, symbols=BOUND:WANTED, reason=NUMBER:1, allocations=N:1. Prints "ready" when done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/multiprocess/hip_multiprocess_memory_limit.h"

static struct ledger_settings settings;

static void take_bytes(struct ledger *l, unsigned device, enum ledger_book book, unsigned long long n)
{
	if (ledger_reserve(l, device, book, n) != LEDGER_GRANTED) {
		fprintf(stderr, "slot_actor: %llu bytes on device %u were refused\n", n, device);
		exit(1);
	}
	ledger_settle(l, device, book, n);
}

static void refuse(struct ledger *l, unsigned device, unsigned long long n)
{
	if (ledger_reserve(l, device, LEDGER_REQUESTED, n) == LEDGER_GRANTED) {
		fprintf(stderr, "slot_actor: %llu bytes on device %u were granted\n", n, device);
		exit(1);
	}
	ledger_note_refusal(l, "hipMalloc", device, LEDGER_REQUESTED, n);
}

static void step(struct ledger *l, const char *name, unsigned a, unsigned long long b)
{
	if (!strcmp(name, "requested"))
		take_bytes(l, a, LEDGER_REQUESTED, b);
	else if (!strcmp(name, "physical"))
		ledger_charge(l, a, LEDGER_PHYSICAL, b);
	else if (!strcmp(name, "managed"))
		ledger_note_migrated(l, a, (int64_t)b);
	else if (!strcmp(name, "refuse"))
		refuse(l, a, b);
	else if (!strcmp(name, "symbols"))
		ledger_note_symbols(l, a, (unsigned)b);
	else if (!strcmp(name, "reason"))
		ledger_note_reason(l, a);
	else if (!strcmp(name, "allocations"))
		ledger_note_allocations(l, a);
}

int main(int argc, char **argv)
{
	size_t size = (ledger_size() + 4095) & ~(size_t)4095;
	void *storage = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ledger *l = NULL;
	char byte;

	settings.path = argv[1];
	for (int i = 2; i < argc; i++) {
		char name[32];
		unsigned a;
		unsigned long long b;

		if (sscanf(argv[i], "%31[a-z]=%u:%llu", name, &a, &b) != 3) {
			fprintf(stderr, "slot_actor: what is '%s'?\n", argv[i]);
			return 2;
		}
		if (!strcmp(name, "limit")) {
			settings.limit[a] = b;
			continue;
		}
		if (!l)
			ledger_open(l = ledger_init(storage, &settings));
		step(l, name, a, b);
	}
	if (!l)
		ledger_open(ledger_init(storage, &settings));
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
