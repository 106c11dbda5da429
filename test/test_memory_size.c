/* What a limit's text means, and what an allocation call asks for. */
#include "memory_size.h"
#include "../test/test.h"

static uint64_t parsed(const char *text)
{
	uint64_t bytes = 77;

	return memory_size_parse(text, &bytes) ? bytes : UINT64_MAX;
}

static int refused(const char *text)
{
	uint64_t bytes = 77;

	return !memory_size_parse(text, &bytes) && bytes == 77;
}

TEST(digits_alone_are_bytes)
{
	CHECK_EQ(parsed("4096"), 4096);
	CHECK_EQ(parsed("0"), 0);
	CHECK_EQ(parsed("18446744073709551615"), UINT64_MAX);
}

TEST(every_suffix_counts_in_powers_of_1024_in_either_case)
{
	CHECK_EQ(parsed("3K"), 3072);
	CHECK_EQ(parsed("4096m"), 4ull << 30);
	CHECK_EQ(parsed("4G"), 4ull << 30);
	CHECK_EQ(parsed("2t"), 2ull << 40);
}

TEST(one_final_newline_is_forgiven)
{
	CHECK_EQ(parsed("512m\n"), 512 << 20);
	CHECK_EQ(parsed("512\n"), 512);
	CHECK(refused("512\n\n"));
}

TEST(anything_else_is_refused_and_leaves_the_output_alone)
{
	static const char *const wrong[] = { "", " 4G", "4G ", "-1", "+1", "1.5G", "4Gi", "4GB", "G", "0x10", "4 G", "1e9", "4P" };

	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(refused(wrong[i]));
	CHECK(refused(NULL));
}

TEST(a_size_beyond_64_bits_is_refused_not_wrapped)
{
	CHECK(refused("18446744073709551616"));
	CHECK(refused("16777216T"));
	CHECK(refused("17179869184G"));
	CHECK_EQ(parsed("16777215T"), 16777215ull << 40);
}

TEST(a_row_is_padded_to_256_bytes)
{
	CHECK_EQ(size_pitched(1000, 10, 1), 10240);
	CHECK_EQ(size_pitched(300, 7, 5), 512 * 35);
	CHECK_EQ(size_pitched(0, 7, 5), 0);
}

TEST(a_product_that_overflows_is_over_every_limit)
{
	CHECK_EQ(size_pitched(UINT64_MAX, 1, 1), SIZE_TOO_LARGE);
	CHECK_EQ(size_pitched(1ull << 40, 1ull << 40, 1), SIZE_TOO_LARGE);
	CHECK_EQ(size_array(4, 1ull << 62, 4, 1), SIZE_TOO_LARGE);
	CHECK_EQ(size_mipmapped(4, 1ull << 62, 4, 1, 3), SIZE_TOO_LARGE);
}

TEST(a_dimension_of_zero_is_a_dimension_an_array_does_not_have)
{
	CHECK_EQ(size_array(4, 1024, 0, 0), 4096);
	CHECK_EQ(size_array(4, 1024, 2, 0), 8192);
	CHECK_EQ(size_array(4, 0, 2, 0), 0);
}

TEST(a_texel_is_as_large_as_its_descriptor_says)
{
	hipChannelFormatDesc rgba = { 32, 32, 32, 32, 2 }, bad = { -1, 0, 0, 0, 0 };
	HIP_ARRAY_DESCRIPTOR half = { 100, 10, 0x10, 2 };
	HIP_ARRAY3D_DESCRIPTOR flat = { 64, 64, 64, 0x20, 1, 0 };

	CHECK_EQ(size_channels(&rgba), 16);
	CHECK_EQ(size_channels(&bad), 0);
	CHECK_EQ(size_channels(NULL), 0);
	CHECK_EQ(size_descriptor(&half), 4000);
	CHECK_EQ(size_descriptor3d(&flat), 1 << 20);
	CHECK_EQ(size_descriptor3d(NULL), 0);
}

TEST(each_mip_level_halves_every_dimension)
{
	CHECK_EQ(size_mipmapped(4, 4, 4, 0, 3), 4 * (16 + 4 + 1));
}

TEST_MAIN()
