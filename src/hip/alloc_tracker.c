/* The table behind alloc_tracker.h: open addressing with linear probing and backward-shift deletion, so that no tombstone
 * ever slows a lookup down. A shard grows by 5/4 at a load of 13/20: at most 31 bytes an entry, and clusters stay short. */
#include "alloc_tracker.h"

#include "../sys/spin.h"

enum {
	SHARD_BITS = 4,
	SHARDS = 1 << SHARD_BITS,
	FIRST_CAPACITY = 256, /* one page */
	HUGE_BYTES = 2 << 20,
};

struct entry {
	uint64_t key;  /* 0: free */
	uint64_t word; /* size:48 device:6 class:3 flag:1, from the top */
};

/* lock protects the rest of the shard; it nests under nothing, and nothing but memory of the table is touched inside. */
struct shard {
	_Alignas(64) uint32_t lock;
	uint64_t count; /* written under the lock, read by tracker_count without */
	uint64_t capacity;
	struct entry *entries;
};

struct tracker {
	struct shard shard[SHARDS];
};

static uint64_t pack(struct tracked v)
{
	return v.size << 16 | (uint64_t)v.device << 10 | (uint64_t)v.class << 7 | (uint64_t)v.flag;
}

static struct tracked unpack(uint64_t word)
{
	return (struct tracked){ .size = word >> 16,
				 .device = word >> 10 & 63,
				 .class = word >> 7 & 7,
				 .flag = word & 1 };
}

/* The top SHARD_BITS choose the shard, those below the place in it. */
static uint64_t hash_of(uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15u;
	return key ^ key >> 29;
}

static struct shard *shard_of(struct tracker *t, uint64_t hash)
{
	return &t->shard[hash >> (64 - SHARD_BITS)];
}

static uint64_t home(const struct shard *s, uint64_t hash)
{
	return (uint64_t)((unsigned __int128)(hash << SHARD_BITS) * s->capacity >> 64);
}

static uint64_t behind(const struct shard *s, uint64_t i)
{
	return i + 1 == s->capacity ? 0 : i + 1;
}

/* Steps from one place onward to another. */
static uint64_t distance(const struct shard *s, uint64_t from, uint64_t to)
{
	return to >= from ? to - from : to + s->capacity - from;
}

/* Memory that a forked child does not get. Large tables are touched at random: huge pages spare them most TLB misses. */
static struct entry *entries_new(uint64_t capacity)
{
	size_t size = capacity * sizeof(struct entry);
	void *memory = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_error(memory))
		return NULL;
	sys_madvise(memory, size, MADV_DONTFORK);
	if (size >= 2 * HUGE_BYTES)
		sys_madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

static void count_add(struct shard *s, int64_t change)
{
	__atomic_store_n(&s->count, s->count + (uint64_t)change, __ATOMIC_RELAXED);
}

/* The entry of that key and of one of the classes, or the free one behind its kin. There is a table. */
static inline __attribute__((always_inline)) struct entry *place_of(struct shard *s, uint64_t hash, uint64_t key, unsigned classes)
{
	uint64_t i = home(s, hash);

	while (s->entries[i].key && (s->entries[i].key != key || !(classes >> (s->entries[i].word >> 7 & 7) & 1)))
		i = behind(s, i);
	return &s->entries[i];
}

/* The next size. A large table consists of whole huge pages. */
static uint64_t larger_than(uint64_t capacity)
{
	const uint64_t huge = HUGE_BYTES / sizeof(struct entry);
	uint64_t more = capacity ? capacity / 4 * 5 : FIRST_CAPACITY;

	return more < 5 * huge ? more : more / huge * huge;
}

static __attribute__((noinline)) bool grow(struct shard *s)
{
	struct shard larger = { .capacity = larger_than(s->capacity) };
	struct entry *e = s->entries;

	larger.entries = entries_new(larger.capacity);
	if (!larger.entries)
		return false;
	for (uint64_t i = 0; i < s->capacity; i++) {
		if (e[i].key)
			*place_of(&larger, hash_of(e[i].key), e[i].key, 0) = e[i];
	}
	if (s->entries)
		sys_munmap(s->entries, s->capacity * sizeof(struct entry));
	s->entries = larger.entries;
	s->capacity = larger.capacity;
	return true;
}

static inline __attribute__((always_inline)) struct entry *search(struct shard *s, uint64_t hash, uint64_t key, unsigned classes)
{
	struct entry *e = s->capacity ? place_of(s, hash, key, classes) : NULL;

	return e && e->key ? e : NULL;
}

/* Closes the gap: every entry behind it that may not stand before its home moves up. */
static inline void erase(struct shard *s, struct entry *gone)
{
	uint64_t gap = (uint64_t)(gone - s->entries);

	for (uint64_t i = behind(s, gap); s->entries[i].key; i = behind(s, i)) {
		if (distance(s, home(s, hash_of(s->entries[i].key)), i) < distance(s, gap, i))
			continue;
		s->entries[gap] = s->entries[i];
		gap = i;
	}
	s->entries[gap].key = 0;
	count_add(s, -1);
}

struct tracker *tracker_new(void)
{
	void *memory =
		sys_mmap(NULL, sizeof(struct tracker), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_error(memory))
		return NULL;
	sys_madvise(memory, sizeof(struct tracker), MADV_WIPEONFORK);
	return memory;
}

struct tracker *tracker_at(struct tracker **where)
{
	struct tracker *t = __atomic_load_n(where, __ATOMIC_ACQUIRE), *expected = NULL;

	if (t)
		return t;
	t = tracker_new();
	if (t && !__atomic_compare_exchange_n(where, &expected, t, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		t = expected;
	return t;
}

/* Where an entry of that key and class is or may be put; NULL: there is no memory for one more. */
static inline __attribute__((always_inline)) struct entry *place_for(struct shard *s, uint64_t hash, uint64_t key, unsigned class)
{
	if (__builtin_expect(s->count >= s->capacity / 20 * 13, 0) && !grow(s))
		return NULL;
	return place_of(s, hash, key, 1u << class);
}

static inline __attribute__((always_inline)) void put_locked(struct shard *s, struct entry *place, struct entry e)
{
	count_add(s, !place->key);
	*place = e;
}

bool tracker_put(struct tracker *t, const void *key, struct tracked value)
{
	struct entry e = { (uint64_t)key, pack(value) }, *place;
	uint64_t hash = hash_of(e.key);
	struct shard *s = shard_of(t, hash);

	if (!key || value.size >> 48 || value.device > 63)
		return false;
	spin_lock(&s->lock);
	if ((place = place_for(s, hash, e.key, value.class)))
		put_locked(s, place, e);
	spin_unlock(&s->lock);
	return place != NULL;
}

bool tracker_raise(struct tracker *t, const void *key, unsigned class)
{
	struct entry e = { (uint64_t)key, pack((struct tracked){ .size = 1, .class = (uint8_t)class }) }, *place;
	uint64_t hash = hash_of(e.key);
	struct shard *s = shard_of(t, hash);

	spin_lock(&s->lock);
	if ((place = place_for(s, hash, e.key, class)) && place->key)
		place->word += (uint64_t)1 << 16;
	else if (place)
		put_locked(s, place, e);
	spin_unlock(&s->lock);
	return place != NULL;
}

static inline __attribute__((always_inline)) bool look_up(struct tracker *t, const void *key, unsigned classes,
							  struct tracked *value, bool is_taken)
{
	uint64_t hash = hash_of((uint64_t)key);
	struct shard *s = shard_of(t, hash);
	struct entry *e;

	spin_lock(&s->lock);
	if ((e = search(s, hash, (uint64_t)key, classes))) {
		*value = unpack(e->word);
		if (is_taken)
			erase(s, e);
	}
	spin_unlock(&s->lock);
	return e != NULL;
}

bool tracker_find(struct tracker *t, const void *key, unsigned classes, struct tracked *value)
{
	return look_up(t, key, classes, value, false);
}

bool tracker_take(struct tracker *t, const void *key, unsigned classes, struct tracked *value)
{
	return look_up(t, key, classes, value, true);
}

int64_t tracker_add(struct tracker *t, const void *key, unsigned class, int64_t change)
{
	uint64_t hash = hash_of((uint64_t)key);
	struct shard *s = shard_of(t, hash);
	struct entry *e;
	int64_t size = -1;

	spin_lock(&s->lock);
	if ((e = search(s, hash, (uint64_t)key, 1u << class))) {
		struct tracked v = unpack(e->word);

		v.size += (uint64_t)change;
		size = (int64_t)v.size;
		if (size > 0)
			e->word = pack(v);
		else
			erase(s, e);
	}
	spin_unlock(&s->lock);
	return size;
}

bool tracker_flag(struct tracker *t, const void *key, unsigned class)
{
	uint64_t hash = hash_of((uint64_t)key);
	struct shard *s = shard_of(t, hash);
	struct entry *e;
	bool done = false;

	spin_lock(&s->lock);
	if ((e = search(s, hash, (uint64_t)key, 1u << class)) && !(e->word & 1)) {
		e->word |= 1;
		done = true;
	}
	spin_unlock(&s->lock);
	return done;
}

/* One pass; erase() may move an entry from behind the end to a place already passed. */
static uint64_t drop_from_shard(struct shard *s, unsigned class, unsigned device, uint64_t *count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < s->capacity;) {
		struct tracked v = unpack(s->entries[i].word);

		if (!s->entries[i].key || v.class != class || v.device != device) {
			i++;
			continue;
		}
		sum += v.size;
		++*count;
		erase(s, &s->entries[i]);
	}
	return sum;
}

uint64_t tracker_drop(struct tracker *t, unsigned class, unsigned device, uint64_t *count)
{
	uint64_t sum = 0;

	*count = 0;
	for (unsigned i = 0; i < SHARDS; i++) {
		uint64_t before;

		spin_lock(&t->shard[i].lock);
		do { /* an entry that wrapped to the front is met by the next round */
			before = *count;
			sum += drop_from_shard(&t->shard[i], class, device, count);
		} while (*count != before);
		spin_unlock(&t->shard[i].lock);
	}
	return sum;
}

uint64_t tracker_count(struct tracker *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SHARDS; i++)
		n += __atomic_load_n(&t->shard[i].count, __ATOMIC_RELAXED);
	return n;
}
