/* Shared virtual memory: which ranges the program asked to have on a card, and what that takes.
 *
 * With KFDEMU_SVM_VRAM=1 a range prefetched to a card takes its VRAM (kind svm); with KFDEMU_CWSR_VRAM=1 a
 * range that a queue uses as its save area does (kind queue). Without them ranges are only recorded. The
 * memory itself stays the program's: only the accounting moves. Any thread. */
#ifndef KFDEMU_SVM_H
#define KFDEMU_SVM_H

#include "uapi.h"

#include <stdint.h>

int svm_command(struct kfd_ioctl_svm_args *args);
/* A queue saves its state there. */
void svm_note_save_area(uint64_t address);
/* The program unmapped memory: what was there is nowhere now. */
void svm_note_unmap(uint64_t address, uint64_t size);
void svm_forget(void);

#endif
