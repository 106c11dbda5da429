/* The region of a process that is limited on its own.
 *
 * It is anonymous memory in the shape of a region without a stamp. In a mapping it is told by its slot, which
 * holds the identity of the process itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "private_region.h"
#include "../../src/multiprocess/region_layout.h"

enum { IDENT_START_BITS = 42 }; /* as in liveness.h: pid << 42 | start time */

unsigned long long process_start_time(int pid)
{
	unsigned long long start = 0;
	char path[64], text[1024];
	FILE *file;
	size_t n;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	if (!(file = fopen(path, "re")))
		return 0;
	n = fread(text, 1, sizeof text - 1, file);
	text[n] = 0;
	fclose(file);
	if (strrchr(text, ')'))
		sscanf(strrchr(text, ')') + 1,
		       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		       &start);
	return start;
}

/* The identity that the process has in its own pid namespace: the last number of the NSpid line. */
static uint64_t identity(int pid)
{
	char path[64], line[256];
	unsigned long inner = (unsigned long)pid;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	if ((file = fopen(path, "re"))) {
		while (fgets(line, sizeof line, file)) {
			if (!strncmp(line, "NSpid:", 6) && strrchr(line, '\t'))
				inner = strtoul(strrchr(line, '\t'), NULL, 10);
		}
		fclose(file);
	}
	return (uint64_t)inner << IDENT_START_BITS |
	       (process_start_time(pid) & ((UINT64_C(1) << IDENT_START_BITS) - 1));
}

static uint64_t word_at(int memory, uint64_t address)
{
	uint64_t word = 0;

	return pread(memory, &word, sizeof word, (off_t)address) == sizeof word ? word : 0;
}

/* Its owner sits in the highest slot: a private region has no other. */
static bool is_region(int memory, uint64_t address, uint64_t ident)
{
	uint64_t high = word_at(memory, address + offsetof(struct region, header.high));

	return high && high <= LEDGER_SLOTS &&
	       word_at(memory, address + offsetof(struct region, slot) +
				   (high - 1) * sizeof(struct region_slot)) == ident;
}

static uint64_t find_in_memory(int pid, int memory)
{
	uint64_t ident = identity(pid), found = 0;
	unsigned long long start, end;
	char path[64], line[4400];
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	if (!(maps = fopen(path, "re")))
		return 0;
	while (!found && fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%llx-%llx rw-p", &start, &end) != 2 || !strstr(line, " rw-p ") ||
		    strchr(line, '/'))
			continue;
		/* The ledger keeps it out of children (MADV_DONTFORK), so no ordinary neighbour is merged
		 * with it. */
		if (end - start == sizeof(struct region) && is_region(memory, start, ident))
			found = start;
	}
	fclose(maps);
	return found;
}

/* Zeros are the same as the stamp of any boot. */
static int copy_region(int memory, uint64_t address)
{
	static const uint64_t any_boot[2];
	struct region *copy = aligned_alloc(_Alignof(struct region), sizeof *copy);
	int fd = memfd_create("amvgpu-private", MFD_CLOEXEC);
	int error = 0;

	if (!copy || fd < 0)
		error = -ENOMEM;
	else if (pread(memory, copy, sizeof *copy, (off_t)address) != (ssize_t)sizeof *copy)
		error = -EIO;
	if (!error) {
		copy->header.stamp = region_stamp_make(any_boot);
		if (write(fd, copy, sizeof *copy) != (ssize_t)sizeof *copy)
			error = -EIO;
	}
	free(copy);
	if (error && fd >= 0)
		close(fd);
	return error ? error : fd;
}

int private_region_copy(int pid)
{
	char path[64];
	int memory, result;
	uint64_t address;

	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return -errno;
	address = find_in_memory(pid, memory);
	result = address ? copy_region(memory, address) : -ENOENT;
	close(memory);
	return result;
}

const char *private_region_path(const char *name, char *storage, int *fd)
{
	size_t n = sizeof PRIVATE_REGION_PREFIX - 1;

	*fd = -1;
	if (strncmp(name, PRIVATE_REGION_PREFIX, n))
		return name;
	*fd = private_region_copy(atoi(name + n));
	if (*fd < 0) {
		errno = -*fd;
		return NULL;
	}
	sprintf(storage, "/proc/self/fd/%d", *fd);
	return storage;
}
