/* What is exported so that programs load. */
#include "hsa.h"

#define HSA(name)
#define HSA_STUB(name)                                                                                       \
	hsa_status_t name(void);                                                                             \
	hsa_status_t name(void)                                                                              \
	{                                                                                                    \
		return HSA_STATUS_ERROR;                                                                     \
	}
#include "standin_hsa.def"
