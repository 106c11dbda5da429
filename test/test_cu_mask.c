/* HSA_CU_MASK as ROCr reads it. */
#include "cu_mask.h"
#include "../test/test.h"

static uint32_t word0(const char *text, unsigned gpu)
{
	return cu_mask_of(text, gpu).word[0];
}

TEST(a_range_sets_every_bit_of_it)
{
	CHECK_EQ(word0("0:0-15", 0), 0xffff);
	CHECK_EQ(word0("0:4", 0), 0x10);
	CHECK_EQ(word0("0:0-3,8,30-31", 0), 0xc000010f);
}

TEST(each_gpu_has_its_own_clause)
{
	CHECK_EQ(word0("0:0-3;1:4-7", 0), 0xf);
	CHECK_EQ(word0("0:0-3;1:4-7", 1), 0xf0);
	CHECK(!cu_mask_of("0:0-3;1:4-7", 2).is_set);
	CHECK_EQ(word0("0,2:0-3", 2), 0xf);
	CHECK_EQ(word0("0-3:0-3", 2), 0xf);
}

TEST(bits_beyond_32_are_in_later_words)
{
	struct cu_mask mask = cu_mask_of("0:32-64", 0);

	CHECK_EQ(mask.word[0], 0);
	CHECK_EQ(mask.word[1], 0xffffffff);
	CHECK_EQ(mask.word[2], 1);
}

TEST(reading_stops_at_the_first_error)
{
	CHECK(!cu_mask_of("x", 0).is_set);
	CHECK(!cu_mask_of("", 0).is_set);
	CHECK(!cu_mask_of(NULL, 0).is_set);
	CHECK(!cu_mask_of("0:", 0).is_set);
	CHECK(!cu_mask_of("0:5-3", 0).is_set);
	CHECK(!cu_mask_of("0:0-3 ;1:4", 1).is_set);
	CHECK(!cu_mask_of("99999999999999999999:0", 0).is_set);
}

TEST(a_cu_that_no_card_has_is_passed_over)
{
	CHECK_EQ(word0("0:1,4000000000", 0), 2);
}

TEST_MAIN()
