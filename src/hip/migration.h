/* Managed memory that was sent to a device: what the process's row reports as migrated, apart from both books.
 *
 * The driver moves such memory at its will and tells nobody. Seen are a prefetch and a preferred location, to a device or back, and
 * the free of the block. Ranges may overlap and be taken back in parts. Any thread; a cut maps nothing.
 */
#ifndef AMVGPU_MIGRATION_H
#define AMVGPU_MIGRATION_H

#include <stdint.h>

/* The range is on device from now on; negative: on none that is counted. */
void migration_set(int device, uint64_t start, uint64_t size);
/* The pages of a block that is freed. */
void migration_cut(uint64_t start, uint64_t size);
/* The range that starts there. */
void migration_end(uint64_t start);

#endif
