/* Who may set what: the pod specification, the process's own block, and the numbering of devices. */
#include "env_policy.h"
#include "../test/test.h"

static struct env_policy load(const char *const *pod, const char *const *own)
{
	struct env_block pod_block = { .pointers = pod }, own_block = { .pointers = own };
	struct env_policy p;

	memset(&p, 0, sizeof p);
	env_policy_load(&p, &pod_block, &own_block);
	return p;
}

#define BLOCK(...) ((const char *const[]){ __VA_ARGS__, NULL })
static const char *const nothing[] = { NULL };
#define GIB (1ull << 30)

TEST(without_variables_nothing_is_limited)
{
	struct env_policy p = load(nothing, nothing);

	CHECK(!p.limited && !p.oversubscribe && p.priority == -1 && !p.invalid);
}

TEST(the_global_limit_holds_for_every_device)
{
	struct env_policy p = load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT=16384m"));

	CHECK(p.limited);
	CHECK_EQ(p.limit[0], 16 * GIB);
	CHECK_EQ(p.limit[63], 16 * GIB);
}

TEST(an_indexed_limit_wins_over_the_global_one)
{
	struct env_policy p = load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT=4G", "HIP_DEVICE_MEMORY_LIMIT_1=2G"));

	CHECK_EQ(p.limit[0], 4 * GIB);
	CHECK_EQ(p.limit[1], 2 * GIB);
}

TEST(index_63_is_a_device_and_64_is_not)
{
	struct env_policy p = load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT_63=1G", "HIP_DEVICE_MEMORY_LIMIT_64=1G",
						  "HIP_DEVICE_MEMORY_LIMIT_01=1G", "HIP_DEVICE_MEMORY_LIMIT_=1G",
						  "HIP_DEVICE_MEMORY_LIMIT_2x=1G"));

	for (unsigned i = 0; i < 63; i++)
		CHECK_EQ(p.limit[i], 0);
	CHECK_EQ(p.limit[63], GIB);
}

TEST(zero_means_no_limit)
{
	CHECK(!load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=0m")).limited);
}

TEST(an_invalid_limit_is_remembered_and_limits_nothing)
{
	struct env_policy p = load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT=4G", "HIP_DEVICE_MEMORY_LIMIT_0=1.5G"));

	CHECK_TEXT(p.invalid, "1.5G");
	CHECK_EQ(p.limit[0], 0);
	CHECK_EQ(p.limit[1], 4 * GIB);
}

TEST(the_cuda_name_counts_where_no_hip_name_is)
{
	CHECK_EQ(load(nothing, BLOCK("CUDA_DEVICE_MEMORY_LIMIT_0=2G")).limit[0], 2 * GIB);
	CHECK_EQ(load(nothing, BLOCK("CUDA_DEVICE_MEMORY_LIMIT_0=2G", "HIP_DEVICE_MEMORY_LIMIT=3G")).limit[0], 3 * GIB);
}

TEST(the_first_of_two_entries_counts_as_for_getenv)
{
	CHECK_EQ(load(nothing, BLOCK("HIP_DEVICE_MEMORY_LIMIT=1G", "HIP_DEVICE_MEMORY_LIMIT=2G")).limit[0], GIB);
}

TEST(a_process_cannot_raise_its_pods_limit)
{
	struct env_policy p = load(BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=1G"), BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=8G"));

	CHECK_EQ(p.limit[0], GIB);
	CHECK_EQ(p.own_limit[0], 0);
	CHECK(p.limit_raise_ignored && p.pod_has_limits);
}

TEST(a_process_can_lower_its_own_limit)
{
	struct env_policy p = load(BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=4G"), BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=1G"));

	CHECK_EQ(p.limit[0], 4 * GIB);
	CHECK_EQ(p.own_limit[0], GIB);
	CHECK(!p.limit_raise_ignored);
}

TEST(a_child_that_lost_its_limits_has_the_pods)
{
	struct env_policy p = load(BLOCK("HIP_DEVICE_MEMORY_LIMIT_0=1G", "HIP_DEVICE_MEMORY_LIMIT_7=2G"), nothing);

	CHECK_EQ(p.limit[0], GIB);
	CHECK_EQ(p.limit[7], 2 * GIB);
}

TEST(a_process_cannot_take_its_limit_away_by_an_invalid_one_or_zero)
{
	CHECK_EQ(load(BLOCK("HIP_DEVICE_MEMORY_LIMIT=1G"), BLOCK("HIP_DEVICE_MEMORY_LIMIT=x")).limit[0], GIB);
	CHECK_EQ(load(BLOCK("HIP_DEVICE_MEMORY_LIMIT=1G"), BLOCK("HIP_DEVICE_MEMORY_LIMIT=0")).limit[0], GIB);
}

TEST(pinned_variables_are_the_pods_whatever_the_process_says)
{
	struct env_policy p = load(BLOCK("HSA_CU_MASK=0:0-15", "AMD_TASK_PRIORITY=1", "HIP_OVERSUBSCRIBE=0"),
				   BLOCK("HSA_CU_MASK=0:0-63", "AMD_TASK_PRIORITY=0", "HIP_OVERSUBSCRIBE=1",
					 "HSA_CU_MASK_SKIP_INIT=1"));

	CHECK_TEXT(p.value[ENV_HSA_CU_MASK], "0:0-15");
	CHECK_TEXT(p.value[ENV_HSA_CU_MASK_SKIP_INIT], "");
	CHECK_EQ(p.priority, 1);
	CHECK(!p.oversubscribe);
}

TEST(restored_variables_are_the_processs_own_while_it_has_them)
{
	const char *const *pod = BLOCK("HIP_VISIBLE_DEVICES=0,1", "LIBHIP_LOG_LEVEL=4");
	struct env_policy p = load(pod, BLOCK("HIP_VISIBLE_DEVICES=1"));

	CHECK_TEXT(p.value[ENV_HIP_VISIBLE_DEVICES], "1");
	CHECK_TEXT(p.value[ENV_LIBHIP_LOG_LEVEL], "4");
}

TEST(priority_0_is_high_larger_is_low_and_anything_else_is_none)
{
	CHECK_EQ(env_priority_parse("0"), 0);
	CHECK_EQ(env_priority_parse("1"), 1);
	CHECK_EQ(env_priority_parse("7"), 1);
	CHECK(env_priority_parse("") == -1 && env_priority_parse("-1") == -1 && env_priority_parse("x") == -1);
	CHECK(env_priority_parse("1x") == -1 && env_priority_parse(NULL) == -1);
}

TEST(oversubscribe_is_true_in_any_case_or_1)
{
	CHECK(env_is_true("true") && env_is_true("TRUE") && env_is_true("True") && env_is_true("1"));
	CHECK(!env_is_true("yes") && !env_is_true("0") && !env_is_true("") && !env_is_true("true ") && !env_is_true(NULL));
}

static unsigned mapped(const char *origin_rocr, const char *origin_hip, const char *rocr, const char *hip, unsigned ordinal)
{
	struct env_numbering origin = { origin_rocr, origin_hip }, current = { rocr, hip };

	return env_device_index(&origin, &current, ordinal);
}

TEST(an_index_counts_in_the_numbering_the_limit_came_from)
{
	CHECK_EQ(mapped(NULL, NULL, NULL, NULL, 3), 3);
	CHECK_EQ(mapped(NULL, NULL, NULL, "1", 0), 1);
	CHECK_EQ(mapped(NULL, "0,1,2", NULL, "2,0", 0), 2);
	CHECK_EQ(mapped(NULL, "0,1,2", NULL, "2,0", 1), 0);
	CHECK_EQ(mapped(NULL, "3,1", NULL, "1", 0), 1);
	CHECK_EQ(mapped("GPU-aa,GPU-bb", "0,1", "GPU-bb", "0", 0), 1);
	CHECK_EQ(mapped("GPU-aa,GPU-bb", "0,1", "GPU-aa,GPU-bb", "1", 0), 1);
	CHECK_EQ(mapped("GPU-aa,GPU-bb", NULL, "GPU-bb,GPU-aa", NULL, 0), 1);
	CHECK_EQ(mapped("GPU-aa, GPU-bb", NULL, "GPU-aa,GPU-bb", "GPU-bb", 0), 1);
}

TEST(a_device_the_origin_does_not_name_keeps_its_ordinal)
{
	CHECK_EQ(mapped(NULL, "0", NULL, "5", 0), 0);
	CHECK_EQ(mapped("GPU-aa", NULL, "GPU-zz", NULL, 0), 0);
	CHECK_EQ(mapped(NULL, "", NULL, "", 2), 2);
}

TEST(a_block_of_a_megabyte_is_read_whole)
{
	static char text[1 << 20];
	struct env_block block = { .text = text, .size = sizeof text - 1 }, none = { 0 };
	struct env_policy p;
	static const char last[] = "HIP_DEVICE_MEMORY_LIMIT_0=3G";

	memset(text, 'a', sizeof text);
	for (size_t i = 100; i < sizeof text; i += 100)
		text[i] = 0;
	memcpy(text + sizeof text - sizeof last, last, sizeof last);
	text[sizeof text - sizeof last - 1] = 0;
	memset(&p, 0, sizeof p);
	env_policy_load(&p, &block, &none);
	CHECK_EQ(p.limit[0], 3 * GIB);
}

TEST(a_name_that_only_begins_like_ours_is_not_ours)
{
	struct env_policy p = load(nothing, BLOCK("HSA_CU_MASKX=1", "XHSA_CU_MASK=1", "HSA_CU_MAS", "HIP_DEVICE_MEMORY_LIMITS=1G"));

	CHECK(!p.value[ENV_HSA_CU_MASK] && !p.limited);
}

TEST_MAIN()
