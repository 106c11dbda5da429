/* How long a program takes from its start to its end, under each of several values of LD_AUDIT in turns.
 *
 *	spawn ROUNDS AT_ONCE AUDIT,AUDIT,... PROGRAM [ARGUMENT]...      "-" for AUDIT: unset
 *
 * Prints one JSON array: for each AUDIT the ns of each round, in which AT_ONCE are started at once and all waited for.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../clock.h"

enum { MAX_VARIANTS = 8, MAX_ROUNDS = 10000, FEWEST = 3 };
#define ENOUGH_NS 8e9

static char *audit[MAX_VARIANTS];
static double ns[MAX_VARIANTS][MAX_ROUNDS];

static double run(const char *library, char **program, unsigned at_once)
{
	extern char **environ;
	double start = now_ns();
	int status;

	if (strcmp(library, "-"))
		setenv("LD_AUDIT", library, 1);
	else
		unsetenv("LD_AUDIT");
	for (unsigned i = 0; i < at_once; i++) {
		pid_t pid;

		if (posix_spawn(&pid, program[0], NULL, NULL, program, environ))
			exit(2);
	}
	while (wait(&status) > 0) {
		if (status) {
			fprintf(stderr, "spawn: %s failed under LD_AUDIT=%s\n", program[0], library);
			exit(1);
		}
	}
	return now_ns() - start;
}

int main(int argc, char **argv)
{
	unsigned rounds, at_once, variants = 0;
	double start;

	if (argc < 5 || (rounds = (unsigned)atoi(argv[1])) > MAX_ROUNDS || !(at_once = (unsigned)atoi(argv[2])))
		return 2;
	for (char *p = strtok(argv[3], ","); p && variants < MAX_VARIANTS; p = strtok(NULL, ","))
		audit[variants++] = p;
	for (unsigned v = 0; v < variants; v++)
		run(audit[v], argv + 4, at_once);
	start = now_ns();
	for (unsigned i = 0; i < rounds; i++) {
		if (i >= FEWEST && now_ns() - start > ENOUGH_NS)
			rounds = i + 1;
		for (unsigned k = 0; k < variants; k++) {
			unsigned v = (i + k) % variants;

			ns[v][i] = run(audit[v], argv + 4, at_once);
		}
	}
	for (unsigned v = 0; v < variants; v++) {
		for (unsigned i = 0; i < rounds; i++)
			printf("%s%.0f", i ? ", " : v ? "],\n[" : "[[", ns[v][i]);
	}
	puts("]]");
	return 0;
}
