/* What the parts of the route matrix agree on.
 *
 * Row i of the table answers ROUTE_REAL + i in the stand-in runtime and ROUTE_WRAPPED + i in its wrapper,
 * whatever the arguments are. A client goes one way to every row and reports the answers.
 */
#ifndef ROUTE_H
#define ROUTE_H

enum { ROUTE_REAL = 20000, ROUTE_WRAPPED = 10000 };

enum route_row {
#define ROW(name, node) ROW_##name,
#include "rows.h"
	ROUTE_ROWS
};

/* Called without arguments and not declared with any: only the number that comes back matters. */
typedef int route_function();

extern const int route_rows; /* ROUTE_ROWS, for Python */
extern const char *const route_names[ROUTE_ROWS];
extern const char *const route_nodes[ROUTE_ROWS];

/* One row's answers: a module under test fills in answers[ROUTE_ROWS] by going its way to each row. */
typedef void route_module(int *answers);

/* Prints `route wrapped leaked odd first-bad-name`. */
void route_report(const char *route, const int *answers);

/* With ROUTE_STUB=name.so: the wrappers that names lead to in handle, if they lie in that library, answer
 * ROUTE_WRAPPED + i at their first instruction, so that a product's wrapper can be recognised without being
 * run. */
void route_stub(void *handle);

#endif
