/* Which live allocation is how large and on which device. */
#include "alloc_tracker.c"
#include "../test/test.h"

#include <sys/wait.h>
#include <unistd.h>

static const void *address(uint64_t n)
{
	return (const void *)(0x7f0000000000u + n * 4096);
}

static struct tracked pointer(uint64_t size, unsigned device)
{
	return (struct tracked){ .size = size, .device = (uint8_t)device, .class = TRACK_POINTER };
}

TEST(what_was_put_is_found_and_taken_once)
{
	struct tracker *t = tracker_new();
	struct tracked v;

	CHECK(tracker_put(t, address(1), pointer(4096, 3)));
	CHECK(tracker_find(t, address(1), TRACK_FREEABLE, &v) && v.size == 4096 && v.device == 3);
	CHECK(tracker_take(t, address(1), TRACK_FREEABLE, &v) && v.size == 4096);
	CHECK(!tracker_take(t, address(1), TRACK_FREEABLE, &v));
	CHECK_EQ(tracker_count(t), 0);
}

TEST(a_key_of_another_class_is_not_taken)
{
	struct tracker *t = tracker_new();
	struct tracked v = pointer(1, 0);

	v.class = TRACK_ARRAY;
	CHECK(tracker_put(t, address(1), v));
	CHECK(!tracker_take(t, address(1), TRACK_FREEABLE, &v));
	CHECK(tracker_take(t, address(1), 1u << TRACK_ARRAY, &v));
}

TEST(a_value_out_of_range_is_refused)
{
	struct tracker *t = tracker_new();

	CHECK(!tracker_put(t, NULL, pointer(1, 0)));
	CHECK(!tracker_put(t, address(1), pointer(1ull << 48, 0)));
	CHECK(!tracker_put(t, address(1), pointer(1, 64)));
	CHECK(tracker_put(t, address(1), pointer((1ull << 48) - 1, 63)));
}

TEST(references_count_down_to_nothing)
{
	struct tracker *t = tracker_new();
	struct tracked v = { .size = 1, .class = TRACK_REFERENCES };

	CHECK(tracker_put(t, address(1), v));
	CHECK_EQ(tracker_add(t, address(1), TRACK_REFERENCES, 1), 2);
	CHECK_EQ(tracker_add(t, address(1), TRACK_REFERENCES, -1), 1);
	CHECK_EQ(tracker_add(t, address(1), TRACK_REFERENCES, -1), 0);
	CHECK(tracker_add(t, address(1), TRACK_REFERENCES, -1) == -1);
}

TEST(a_flag_is_set_by_one_caller_only)
{
	struct tracker *t = tracker_new();
	struct tracked v = { .size = 7, .device = 2, .class = TRACK_EXEC };

	CHECK(tracker_put(t, address(1), v));
	CHECK(tracker_flag(t, address(1), TRACK_EXEC));
	CHECK(!tracker_flag(t, address(1), TRACK_EXEC));
	CHECK(tracker_take(t, address(1), 1u << TRACK_EXEC, &v) && v.flag && v.size == 7 && v.device == 2);
}

TEST(a_million_allocations_are_all_remembered_at_no_more_than_32_bytes_each)
{
	struct tracker *t = tracker_new();
	struct tracked v;
	uint64_t n = 1000000, bad = 0, bytes = 0;

	for (uint64_t i = 1; i <= n; i++)
		bad += !tracker_put(t, address(i), pointer(i, i % 64));
	CHECK_EQ(tracker_count(t), n);
	for (unsigned i = 0; i < SHARDS; i++)
		bytes += t->shard[i].capacity * sizeof(struct entry);
	CHECK(bytes <= 32 * n);
	for (uint64_t i = 1; i <= n; i++)
		bad += !tracker_take(t, address(i), TRACK_FREEABLE, &v) || v.size != i || v.device != i % 64;
	CHECK_EQ(bad, 0);
	CHECK_EQ(tracker_count(t), 0);
}

TEST(dropping_one_device_leaves_the_others_and_managed_memory)
{
	struct tracker *t = tracker_new();
	struct tracked v;
	uint64_t count, bad = 0;

	for (uint64_t i = 1; i <= 10000; i++) {
		v = pointer(1, i % 4);
		v.class = i % 10 ? TRACK_POINTER : TRACK_MANAGED;
		CHECK(tracker_put(t, address(i), v));
	}
	CHECK_EQ(tracker_drop(t, TRACK_POINTER, 1, &count), 2500);
	CHECK_EQ(count, 2500);
	CHECK_EQ(tracker_count(t), 7500);
	for (uint64_t i = 1; i <= 10000; i++)
		bad += tracker_find(t, address(i), TRACK_FREEABLE, &v) != (i % 4 != 1 || i % 10 == 0);
	CHECK_EQ(bad, 0);
}

/* Random puts, takes and finds against an array that cannot be wrong. */
TEST(random_operations_agree_with_a_plain_array)
{
	enum { KEYS = 3000 };
	static uint64_t size[KEYS];
	struct tracker *t = tracker_new();
	unsigned seed = 20261129, bad = 0;

	for (unsigned i = 0; i < 400000; i++) {
		unsigned k = (seed = seed * 1103515245 + 12345) >> 8 & 0xffffff;
		struct tracked v;

		k %= KEYS;
		if (seed >> 30 & 1) {
			size[k] = i + 1;
			bad += !tracker_put(t, address(k + 1), pointer(i + 1, 0));
		} else {
			bool found = tracker_take(t, address(k + 1), TRACK_FREEABLE, &v);

			bad += found != (size[k] != 0) || (found && v.size != size[k]);
			size[k] = 0;
		}
	}
	CHECK_EQ(bad, 0);
}

TEST(a_forked_child_owns_nothing_and_can_use_its_own_table)
{
	struct tracker *t = tracker_new();
	struct tracked v;
	int status;

	CHECK(tracker_put(t, address(1), pointer(1, 0)));
	spin_lock(&shard_of(t, hash_of((uint64_t)address(1)))->lock); /* as if another thread held it at the fork */
	if (!fork()) {
		bool ok = !tracker_take(t, address(1), TRACK_FREEABLE, &v) && tracker_put(t, address(1), pointer(2, 0)) &&
			  tracker_take(t, address(1), TRACK_FREEABLE, &v) && v.size == 2;

		_exit(!ok);
	}
	spin_unlock(&shard_of(t, hash_of((uint64_t)address(1)))->lock);
	CHECK(wait(&status) > 0 && status == 0);
	CHECK(tracker_take(t, address(1), TRACK_FREEABLE, &v) && v.size == 1);
}

TEST_MAIN()
