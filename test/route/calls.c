/* Calls each function by its name. */
#include "route.h"

#define ROW(name, node) extern route_function name;
#include "rows.h"

void route_run(int *answers)
{
#define ROW(name, node) answers[ROW_##name] = name();
#include "rows.h"
}
