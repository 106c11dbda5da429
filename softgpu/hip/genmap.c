/* Prints the version script of a stand-in library: `genmap 57|64|72` of libamdhip64, `genmap hsa` of
 * libhsa-runtime64. The exports and their versions come from the tables and from nowhere else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
	const char *name, *node;
	int since, until;
} rows[] = {
#define ALLOC(name, node, since, ...) {#name, #node, since, 99},
#define FREE(name, node, since, ...) {#name, #node, since, 99},
#define HAND(name, node, since, ...) {#name, #node, since, 99},
#define PASS(name, node, since, ...) {#name, #node, since, 99},
#define EXTRA(name, node, since, until) {#name, #node, since, until},
#define STUB(name, node, since, until) {#name, #node, since, until},
#include "../../src/hip/hip_api.def"
#include "standin_extra.def"
};

/* Every node, in order, with the first release that defines it. */
static const struct node {
	const char *name;
	int since;
} nodes[] = {
    {"hip_4.2", 52}, {"hip_4.3", 52}, {"hip_4.4", 52}, {"hip_4.5", 52}, {"hip_5.0", 52}, {"hip_5.1", 52},
    {"hip_5.2", 52}, {"hip_5.3", 57}, {"hip_5.5", 57}, {"hip_5.6", 57}, {"hip_6.0", 64}, {"hip_6.1", 64},
    {"hip_6.2", 64}, {"hip_6.4", 64}, {"hip_6.5", 72}, {"hip_7.1", 72}, {"hip_7.2", 72},
};

#define COUNT(array) (sizeof(array) / sizeof(array[0]))

static void print_hip(int release)
{
	const char *before = NULL;

	for (size_t n = 0; n < COUNT(nodes); n++) {
		if (nodes[n].since > release)
			continue;
		printf("%s {\nglobal:\n", nodes[n].name);
		for (size_t i = 0; i < COUNT(rows); i++)
			if (!strcmp(rows[i].node, nodes[n].name) && rows[i].since <= release &&
			    rows[i].until >= release)
				printf("\t%s;\n", rows[i].name);
		printf(before ? "} %s;\n" : "local:\n\t*;\n};\n", before);
		before = nodes[n].name;
	}
}

static void print_hsa(void)
{
	printf("ROCR_1 {\nglobal:\n");
#define HSA(name) printf("\t%s;\n", #name);
#define HSA_STUB(name) printf("\t%s;\n", #name);
#include "standin_hsa.def"
	printf("local:\n\t*;\n};\nSOFTGPU_1 {\n\tsoftgpu_open;\n};\n");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "hsa"))
		print_hsa();
	else
		print_hip(atoi(argv[1]));
	return 0;
}
