/* Names, the report, and the stub at a product's wrappers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "route.h"

const int route_rows = ROUTE_ROWS;

const char *const route_names[ROUTE_ROWS] = {
#define ROW(name, node) #name,
#include "rows.h"
};

const char *const route_nodes[ROUTE_ROWS] = {
#define ROW(name, node) #node,
#include "rows.h"
};

void route_report(const char *route, const int *answers)
{
	int wrapped = 0, leaked = 0, bad = -1;

	for (int i = 0; i < ROUTE_ROWS; i++) {
		wrapped += answers[i] == ROUTE_WRAPPED + i;
		leaked += answers[i] == ROUTE_REAL + i;
		if (bad < 0 && answers[i] != ROUTE_WRAPPED + i)
			bad = i;
	}
	printf("%s %d %d %d %s\n", route, wrapped, leaked, ROUTE_ROWS - wrapped - leaked,
	       bad < 0 ? "-" : route_names[bad]);
	fflush(stdout);
}

enum { STUBS_MAX = 8 * ROUTE_ROWS, PAGE = 4096 };
static struct stub {
	unsigned char *entry;
	int row;
} stubs[STUBS_MAX];
static int stub_count;

/* Answers in the wrapper's place: as if it had returned at its first instruction. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	unsigned char *entry = (unsigned char *)registers[REG_RIP] - 1;

	(void)signal, (void)info;
	for (int i = 0; i < stub_count; i++) {
		if (stubs[i].entry != entry)
			continue;
		registers[REG_RAX] = ROUTE_WRAPPED + stubs[i].row;
		registers[REG_RIP] = *(greg_t *)registers[REG_RSP];
		registers[REG_RSP] += 8;
		return;
	}
	abort();
}

static int is_in_library(void *address, const char *library)
{
	Dl_info where;
	const char *file;

	if (!address || !dladdr(address, &where) || !where.dli_fname)
		return 0;
	file = strrchr(where.dli_fname, '/');
	return !strcmp(file ? file + 1 : where.dli_fname, library);
}

static void stub_add(unsigned char *entry, int row)
{
	void *page = (void *)((uintptr_t)entry & -(uintptr_t)PAGE);

	for (int i = 0; i < stub_count; i++) {
		if (stubs[i].entry == entry && stubs[i].row == row)
			return;
		if (stubs[i].entry == entry)
			abort(); /* one wrapper for two functions: the answer could not be told */
	}
	if (stub_count == STUBS_MAX || mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	stubs[stub_count].entry = entry;
	stubs[stub_count++].row = row;
	*entry = 0xcc; /* int3 */
}

void route_stub(void *handle)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
	const char *library = getenv("ROUTE_STUB");

	if (!library)
		return;
	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < ROUTE_ROWS; i++) {
		void *entry = dlsym(handle, route_names[i]);

		if (is_in_library(entry, library))
			stub_add(entry, i);
	}
}
