/* Calls each function through an address taken into a local variable. */
#include "route.h"

#define ROW(name, node) extern route_function name;
#include "rows.h"

void route_run(int *answers)
{
	route_function *volatile local;

#define ROW(name, node)                                                                                      \
	local = name;                                                                                        \
	answers[ROW_##name] = local();
#include "rows.h"
}
