/* HIP's own fill and copy kernels, carried out by name so that data are right. Any other kernel does nothing.
 *
 * The name comes from the code object in the card's memory, where the loader put its symbols with the code:
 * no runtime function is interposed for it. */
#ifndef KFDEMU_KERNELS_H
#define KFDEMU_KERNELS_H

/* PACKET: a kernel dispatch packet. On the queue thread only. */
void kernels_run(const void *packet);
void kernels_forget(void);

#endif
