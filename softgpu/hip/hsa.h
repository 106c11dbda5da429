/* Inside of the stand-in libhsa-runtime64. Agents and pools are numbers: the row of the state that they stand
 * for. */
#ifndef SOFTGPU_HSA_H
#define SOFTGPU_HSA_H

#include "hsa_abi.h"
#include "softgpu.h"

enum {
	AGENT_BASE = 0x100, /* + row */
	POOL_BASE = 0x1000, /* + row * 16 + kind */
	POOL_COARSE = 0,
	POOL_FINE = 1,
	POOL_KERNARG = 2,
};

struct hsa {
	struct settings settings;
	int references;
	bool is_forked;                /* a child of a process that had initialised: nothing works */
	int rows[SOFTGPU_DEVICES_MAX]; /* of the visible devices, in their order */
	int row_count;
	char *cu_mask; /* HSA_CU_MASK as it was when the runtime started, NULL if unset */
	bool cu_mask_skipped;
	bool has_failures;
};
extern struct hsa hsa;

enum hsa_function {
#define HSA(name) FN_##name,
#define HSA_STUB(name) FN_##name,
#include "standin_hsa.def"
#undef HSA
#undef HSA_STUB
	FN_HSA_COUNT
};

/* The status that this call is to answer to order, or 0. */
hsa_status_t hsa_failure_due(enum hsa_function function);

#define HSA_ENTER(name)                                                                                      \
	do {                                                                                                 \
		hsa_status_t hsa_status_ =                                                                   \
		    __builtin_expect(hsa.has_failures, 0) ? hsa_failure_due(FN_##name) : 0;                  \
		if (hsa_status_)                                                                             \
			return hsa_status_;                                                                  \
	} while (0)

bool hsa_is_usable(void);
/* The row an agent or pool stands for, or -1. */
int hsa_agent_row(hsa_agent_t agent);
int hsa_pool_row(hsa_amd_memory_pool_t pool);
int hsa_take(int row, size_t size, void **address);
bool hsa_give(struct block *block);
uint64_t hsa_round(uint64_t size);
/* "GPU-" and 16 hex digits. */
void hsa_device_uuid(int row, char *text, size_t size);
void hsa_vmem_forget(void); /* in a child that may start anew */
void softgpu_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
