/* Has each function called as the deleter of a unique_ptr: as a value, and as part of the deleter's type. */
#include <memory>

extern "C" {
#include "route.h"
#define ROW(name, node) int name(void *);
#include "rows.h"
void route_run(int *answers);
}

static int answer;

struct by_value {
	int (*function)(void *);
	void operator()(void *p) const
	{
		answer = function(p);
	}
};

template <int (*function)(void *)> struct by_type {
	void operator()(void *p) const
	{
		answer = function(p);
	}
};

template <int (*function)(void *)> static int destroy(void)
{
	int first;

	std::unique_ptr<void, by_value>(&answer, by_value{function}).reset();
	first = answer;
	std::unique_ptr<void, by_type<function>>(&answer).reset();
	return first == answer ? answer : -1;
}

void route_run(int *answers)
{
#define ROW(name, node) answers[ROW_##name] = destroy<name>();
#include "rows.h"
}
