/* A test program in one header: each TEST's name is a sentence that can be false.
 *
 *	TEST(a_size_without_suffix_is_bytes) { CHECK_EQ(size_parse("4096"), 4096); }
 *	TEST_MAIN()
 *
 * Needs nothing but a libc, so that the one-line gcc commands of the README build every unit test.
 */
#ifndef AMVGPU_TEST_H
#define AMVGPU_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

static struct test *test_first, **test_last = &test_first;
static int test_failures;

#define TEST(name)                                                                                                     \
	static void name(void);                                                                                        \
	__attribute__((constructor)) static void name##_add(void)                                                      \
	{                                                                                                              \
		static struct test t = { #name, name, NULL };                                                          \
		*test_last = &t;                                                                                       \
		test_last = &t.next;                                                                                   \
	}                                                                                                              \
	static void name(void)

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			printf("    %s:%d: %s\n", __FILE__, __LINE__, #condition);                                     \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

#define CHECK_EQ(got, expected)                                                                                        \
	do {                                                                                                           \
		unsigned long long got_ = (unsigned long long)(got), expected_ = (unsigned long long)(expected);       \
		if (got_ != expected_) {                                                                               \
			printf("    %s:%d: %s is %llu, expected %llu\n", __FILE__, __LINE__, #got, got_, expected_);   \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

#define CHECK_TEXT(got, expected)                                                                                      \
	do {                                                                                                           \
		const char *got_ = (got), *expected_ = (expected);                                                     \
		if (!got_ || strcmp(got_, expected_)) {                                                                \
			printf("    %s:%d: %s is '%s', expected '%s'\n", __FILE__, __LINE__, #got,                     \
			       got_ ? got_ : "(null)", expected_);                                                     \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

static int test_main(void)
{
	int passed = 0, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (struct test *t = test_first; t; t = t->next) {
		test_failures = 0;
		t->run();
		printf("%s %s\n", test_failures ? "FAIL" : "ok  ", t->name);
		if (test_failures)
			failed++;
		else
			passed++;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}

#define TEST_MAIN()                                                                                                    \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return test_main();                                                                                    \
	}

#endif
