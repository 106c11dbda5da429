// A kernel that says it uses the device's heap (malloc in a kernel): the runtime takes the heap at its first launch. It does
// nothing. The second argument's kind is written by card.py: clang 14 refuses "hidden_heap_v1", which is of a later version.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
	.text
	.globl	heap
	.p2align	8
	.type	heap,@function
heap:
	s_endpgm
	.size	heap, .-heap

	.section .rodata
	.p2align	6
	.amdhsa_kernel heap
		.amdhsa_next_free_vgpr 1
		.amdhsa_next_free_sgpr 8
		.amdhsa_accum_offset 4
		.amdhsa_kernarg_size 264
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel

	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx90a
amdhsa.kernels:
  - .name: heap
    .symbol: heap.kd
    .language: OpenCL C
    .language_version: [ 2, 0 ]
    .kernarg_segment_align: 8
    .kernarg_segment_size: 264
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .max_flat_workgroup_size: 256
    .wavefront_size: 64
    .sgpr_count: 8
    .vgpr_count: 1
    .args:
      - { .name: shrink, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .offset: 104, .size: 8, .value_kind: hidden_none }
...
	.end_amdgpu_metadata
