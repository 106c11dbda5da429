/* Expands ROW(name, node) for each function of the table that has a wrapper. No include guard: one use an
 * include. */
#define ALLOC(name, node, ...) ROW(name, node)
#define FREE(name, node, ...) ROW(name, node)
#define HAND(name, node, ...) ROW(name, node)
#define PASS(name, node, ...)
#include "../../src/hip/hip_api.def"
#undef ALLOC
#undef FREE
#undef HAND
#undef PASS
#undef ROW
