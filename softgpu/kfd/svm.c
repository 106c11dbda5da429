/* See svm.h. Ranges are kept as asked for and never split: a later request that overlaps one replaces it. */
#include "svm.h"
#include "driver.h"
#include "log.h"
#include "memory.h"
#include "settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct range {
	uint64_t address, size;
	int card;              /* -1: in system memory */
	struct object *object; /* what it takes on the card; NULL: nothing */
	struct range *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* nests outside memory's lock */
static struct range *ranges;
static atomic_int range_count;

static void release(struct object *object)
{
	if (!object)
		return;
	memory_lock();
	object_put_locked(object);
	memory_unlock();
}

static int charge(struct range *range, enum kind kind)
{
	int error;

	if (range->object || range->card < 0)
		return 0;
	memory_lock();
	error = object_create_locked(range->card, range->size, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kind,
				     &range->object);
	memory_unlock();
	return error;
}

static void forget_overlap_locked(uint64_t address, uint64_t size)
{
	struct range **link = &ranges;

	while (*link) {
		struct range *range = *link;

		if (range->address >= address + size || address >= range->address + range->size) {
			link = &range->next;
			continue;
		}
		*link = range->next;
		release(range->object);
		free(range);
		atomic_fetch_sub(&range_count, 1);
	}
}

static int prefetch(uint64_t address, uint64_t size, int card)
{
	struct range *range = calloc(1, sizeof *range);
	int error = 0;

	if (!range)
		return -ENOMEM;
	*range = (struct range){.address = address, .size = size, .card = card};
	pthread_mutex_lock(&mutex);
	forget_overlap_locked(address, size);
	if (settings()->svm_vram)
		error = charge(range, KIND_SVM);
	range->next = ranges;
	ranges = range;
	atomic_fetch_add(&range_count, 1);
	pthread_mutex_unlock(&mutex);
	return error;
}

static void log_attributes(const struct kfd_ioctl_svm_args *args)
{
	for (uint32_t i = 0; i < args->nattr; i++)
		log_line("SVM op=%u address=%#llx size=%llu type=%u value=%#x", args->op, args->start_addr,
			 args->size, args->attrs[i].type, args->attrs[i].value);
}

static int set_attributes(struct kfd_ioctl_svm_args *args)
{
	int error = 0;

	for (uint32_t i = 0; i < args->nattr && !error; i++)
		if (args->attrs[i].type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC)
			error = prefetch(args->start_addr, args->size, driver_card(args->attrs[i].value));
	return error;
}

static void get_attributes(struct kfd_ioctl_svm_args *args)
{
	for (uint32_t i = 0; i < args->nattr; i++)
		if (args->attrs[i].type <= KFD_IOCTL_SVM_ATTR_PREFETCH_LOC)
			args->attrs[i].value = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
}

int svm_command(struct kfd_ioctl_svm_args *args)
{
	log_attributes(args);
	if (args->op == KFD_IOCTL_SVM_OP_SET_ATTR)
		return set_attributes(args);
	get_attributes(args);
	return 0;
}

static void note_save_area_locked(struct range *range)
{
	if (!settings()->cwsr_vram) {
		release(range->object);
		range->object = NULL;
	} else if (range->object) {
		memory_lock();
		object_set_kind_locked(range->object, KIND_QUEUE);
		memory_unlock();
	} else if (charge(range, KIND_QUEUE)) {
		log_line("SVM save area does not fit: left in system memory");
	}
}

void svm_note_save_area(uint64_t address)
{
	pthread_mutex_lock(&mutex);
	for (struct range *range = ranges; range; range = range->next)
		if (address >= range->address && address - range->address < range->size)
			note_save_area_locked(range);
	pthread_mutex_unlock(&mutex);
}

void svm_note_unmap(uint64_t address, uint64_t size)
{
	if (!atomic_load_explicit(&range_count, memory_order_relaxed))
		return;
	pthread_mutex_lock(&mutex);
	forget_overlap_locked(address, size);
	pthread_mutex_unlock(&mutex);
}

void svm_forget(void)
{
	ranges = NULL;
	atomic_store(&range_count, 0);
	pthread_mutex_init(&mutex, NULL);
}
