/* Any text as a limit, and any numbers as the dimensions of an allocation: judged by arithmetic of 128 bits.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined test/fuzz/fuzz_size.c -o fuzz_size && ./fuzz_size test/fuzz/corpus/size
 */
#include "fuzz.h"

#include "../../src/hip/memory_size.h"

typedef unsigned __int128 wide;

static uint64_t cut(wide n)
{
	return n > UINT64_MAX ? SIZE_TOO_LARGE : (uint64_t)n;
}

/* The same grammar, written anew: digits, one letter, one newline. False: not a size. */
static bool parse(const char *text, uint64_t *bytes)
{
	static const char letters[] = "kKmMgGtT";
	wide n = 0;
	const char *at = text, *letter;

	for (; *at >= '0' && *at <= '9'; at++) {
		n = n * 10 + (wide)(*at - '0');
		if (n > UINT64_MAX)
			return false;
	}
	if (at == text)
		return false;
	if (*at && (letter = strchr(letters, *at))) {
		n <<= 10 * ((letter - letters) / 2 + 1);
		at++;
	}
	if (*at == '\n')
		at++;
	*bytes = (uint64_t)n;
	return !*at && n <= UINT64_MAX;
}

static void text(const char *text)
{
	uint64_t got = 42, expected = 0;
	bool is_size = memory_size_parse(text, &got);

	must(is_size == parse(text, &expected), "a size is read or not read wrongly");
	must(got == (is_size ? expected : 42), "the number is wrong, or touched");
}

/* A product, cut at every step: whatever is too large stays so unless it is multiplied by 0. */
static wide times(wide a, uint64_t b)
{
	return cut(a) == SIZE_TOO_LARGE && b > 1 ? SIZE_TOO_LARGE : cut((wide)cut(a) * b);
}

static void dimensions(const uint64_t n[4])
{
	hipChannelFormatDesc channels = { (int)n[0], (int)n[1], (int)n[2], (int)n[3], 0 };
	HIP_ARRAY_DESCRIPTOR flat = { n[0], n[1], (int)n[2], (unsigned)n[3] };
	HIP_ARRAY3D_DESCRIPTOR deep = { n[0], n[1], n[3], (int)n[2], (unsigned)n[3], 0 };
	uint64_t area = size_array(n[0] & 31, n[1], n[2], n[3]);

	must(size_mul(n[0], n[1]) == cut((wide)n[0] * n[1]), "size_mul wraps");
	must(area == times(times((wide)(n[0] & 31) * n[1], n[2] ? n[2] : 1), n[3] ? n[3] : 1), "size_array wraps");
	if (n[0] <= UINT64_MAX - 255)
		must(size_pitched(n[0], n[1], n[2]) == times(times((n[0] + 255) / 256 * 256, n[1]), n[2]),
		     "size_pitched wraps");
	must(size_mipmapped(n[0] & 31, n[1], n[2], n[3], (unsigned)n[3] & 127) >= (n[3] & 127 ? area : 0) || !n[1] ||
		     !n[2] || !n[3],
	     "all levels are less than the first");
	must(size_channels(&channels) <= 4ull * INT32_MAX / 8, "a texel is too large");
	size_descriptor(&flat);
	size_descriptor3d(&deep);
	size_descriptor_mipmapped(&deep, (unsigned)n[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_text(data, size);
	uint64_t n[4] = { 0 };

	text(copy);
	memcpy(n, data, size < sizeof n ? size : sizeof n);
	dimensions(n);
	free(copy);
	return 0;
}
