/* A code object whose globals take 64 MiB of the card, and a kernel with a large private array: what a program gets
 * without asking any allocator. Compiled by clang for gfx90a. */
__global char taken[64 << 20];

kernel void touch(global int *out)
{
	out[__builtin_amdgcn_workitem_id_x()] = taken[__builtin_amdgcn_workitem_id_x()];
}

kernel void scratch(global int *out)
{
	volatile int spill[4096];

	for (int i = 0; i < 4096; i++)
		spill[i] = out[i];
	out[0] = spill[out[1] & 4095];
}
