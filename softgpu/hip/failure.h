/* Failures to order: SOFTGPU_FAIL=NAME:N[+][:CODE],... makes the Nth call of NAME, with + all later ones too,
 * answer CODE. */
#ifndef SOFTGPU_FAILURE_H
#define SOFTGPU_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>

struct failure {
	unsigned first; /* 0: none ordered */
	bool and_later;
	int code;
	_Atomic unsigned calls;
};

/* Reads the orders whose name begins with `prefix`; one that names no function ends the program, for it would
 * prove nothing. Says whether there is any. */
bool failure_load(const char *orders, const char *prefix, const char *const *names, int count,
		  struct failure *failures, int code);
/* Counts a call; 0, or the code that it is to answer. */
int failure_due(struct failure *failure);

#endif
