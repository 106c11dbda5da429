#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "floor.h"

enum {
	CHUNK_SHIFT = 21,
	CLASS_SHIFT = 12, /* the smallest block: 4 KiB */
	CLASSES = 9,      /* ... 1 MiB */
	CACHED = 64,
};
#define CHUNK_BYTES ((size_t)1 << CHUNK_SHIFT)
#define ARENA_BYTES ((size_t)8 << 40)
#define ARENA_CHUNKS (ARENA_BYTES >> CHUNK_SHIFT)

/* A chunk of small blocks, a large block, or a run of free chunks. The first and last chunk of a free run
 * name it, every chunk of the others does. */
struct span {
	size_t first, chunks;
	int class; /* -1: large or free */
	bool free;
	struct span *next, *previous; /* among the free ones, or among the slabs */
	unsigned count;
	struct block blocks[];
};

struct class
{
	pthread_mutex_t lock; /* protects the list of free blocks and the list of slabs */
	struct block *free;
	struct span *slabs;
};

struct cache {
	unsigned count[CLASSES];
	struct block *blocks[CLASSES][CACHED];
};

static char *arena_base;
static void *arena_mapping;
static _Atomic(struct span *) *arena_spans; /* by chunk */
static struct class arena_classes[CLASSES];
static pthread_mutex_t arena_lock =
    PTHREAD_MUTEX_INITIALIZER; /* runs of chunks; nests inside a class's lock */
static size_t arena_top;       /* chunks never used begin here */
static size_t arena_chunks;
static struct span *arena_free_runs;
static pthread_once_t arena_once = PTHREAD_ONCE_INIT;
static pthread_key_t arena_key;
static __thread struct cache *arena_cache __attribute__((tls_model("initial-exec")));

static void cache_flush(struct cache *cache, int class, unsigned keep)
{
	struct class *c = &arena_classes[class];

	pthread_mutex_lock(&c->lock);
	while (cache->count[class] > keep) {
		struct block *block = cache->blocks[class][--cache->count[class]];

		block->next = c->free;
		c->free = block;
	}
	pthread_mutex_unlock(&c->lock);
}

static void cache_end(void *data)
{
	for (int class = 0; class < CLASSES; class ++)
		cache_flush(data, class, 0);
	free(data);
	arena_cache = NULL;
}

static void *reserve(size_t bytes)
{
	void *at =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Where address space is rationed (ulimit -v, strict overcommit) a smaller arena must do. */
static void arena_init(void)
{
	for (arena_chunks = ARENA_CHUNKS; arena_chunks > 32; arena_chunks /= 2) {
		size_t bytes = arena_chunks << CHUNK_SHIFT;

		arena_mapping = reserve(bytes + CHUNK_BYTES);
		if (!arena_mapping)
			continue;
		arena_base = (char *)(((uintptr_t)arena_mapping + CHUNK_BYTES - 1) & -CHUNK_BYTES);
		madvise(arena_base, bytes, MADV_DONTDUMP);
		madvise(arena_base, bytes, MADV_NOHUGEPAGE);
		break;
	}
	arena_spans = reserve(arena_chunks * sizeof(*arena_spans));
	for (int i = 0; i < CLASSES; i++)
		pthread_mutex_init(&arena_classes[i].lock, NULL);
}

static void arena_init_once(void)
{
	pthread_key_create(&arena_key, cache_end);
	arena_init();
}

/* Unloaded: a thread that ends later must not come here. What the program did not free stays held, as the
 * driver would keep it. */
__attribute__((destructor)) static void arena_unload(void)
{
	if (arena_base)
		pthread_key_delete(arena_key);
}

static struct cache *cache_here(void)
{
	struct cache *cache = arena_cache;

	if (__builtin_expect(!cache, 0)) {
		pthread_once(&arena_once, arena_init_once);
		cache = calloc(1, sizeof(*cache));
		if (!cache)
			abort();
		pthread_setspecific(arena_key, cache);
		arena_cache = cache;
	}
	return cache;
}

static void run_unlink(struct span *run)
{
	if (run->previous)
		run->previous->next = run->next;
	else
		arena_free_runs = run->next;
	if (run->next)
		run->next->previous = run->previous;
}

static void run_link(struct span *run)
{
	run->free = true;
	run->class = -1;
	run->previous = NULL;
	run->next = arena_free_runs;
	if (run->next)
		run->next->previous = run;
	arena_free_runs = run;
	atomic_store(&arena_spans[run->first], run);
	atomic_store(&arena_spans[run->first + run->chunks - 1], run);
}

/* Cuts `chunks` off the front of a free run, or off what was never used. */
static bool run_take_locked(struct span *span, size_t chunks)
{
	struct span *run = arena_free_runs;

	while (run && run->chunks < chunks)
		run = run->next;
	span->chunks = chunks;
	if (run) {
		span->first = run->first;
		run_unlink(run);
		run->first += chunks;
		run->chunks -= chunks;
		if (run->chunks)
			run_link(run);
		else
			free(run);
		return true;
	}
	if (chunks > arena_chunks - arena_top)
		return false;
	span->first = arena_top;
	arena_top += chunks;
	return true;
}

static struct span *span_new(size_t chunks, unsigned blocks, int class)
{
	struct span *span = calloc(1, sizeof(*span) + blocks * sizeof(struct block));
	bool taken;

	if (!span)
		return NULL;
	pthread_mutex_lock(&arena_lock);
	taken = arena_base && run_take_locked(span, chunks);
	if (taken) {
		span->class = class;
		span->count = blocks;
		for (size_t i = 0; i < chunks; i++)
			atomic_store_explicit(&arena_spans[span->first + i], span, memory_order_release);
	}
	pthread_mutex_unlock(&arena_lock);
	if (taken)
		return span;
	free(span);
	return NULL;
}

static struct span *run_neighbour(size_t chunk)
{
	struct span *span = chunk < arena_top ? atomic_load(&arena_spans[chunk]) : NULL;

	return span && span->free ? span : NULL;
}

static void span_free(struct span *span)
{
	struct span *before, *after;

	madvise(arena_base + (span->first << CHUNK_SHIFT), span->chunks << CHUNK_SHIFT, MADV_DONTNEED);
	pthread_mutex_lock(&arena_lock);
	for (size_t i = 0; i < span->chunks; i++)
		atomic_store_explicit(&arena_spans[span->first + i], NULL, memory_order_relaxed);
	before = span->first ? run_neighbour(span->first - 1) : NULL;
	after = run_neighbour(span->first + span->chunks);
	if (before) {
		run_unlink(before);
		span->first = before->first;
		span->chunks += before->chunks;
		free(before);
	}
	if (after) {
		run_unlink(after);
		span->chunks += after->chunks;
		free(after);
	}
	run_link(span);
	pthread_mutex_unlock(&arena_lock);
}

/* A new chunk of the class, all of its blocks on the class's list. */
static bool class_grow_locked(struct class *c, int class)
{
	size_t bytes = (size_t)1 << (CLASS_SHIFT + class);
	unsigned count = CHUNK_BYTES / bytes;
	struct span *span = span_new(1, count, class);

	if (!span)
		return false;
	span->next = c->slabs;
	c->slabs = span;
	for (unsigned i = count; i-- > 0;) {
		struct block *block = &span->blocks[i];

		block->address = arena_base + (span->first << CHUNK_SHIFT) + i * bytes;
		block->span = span;
		block->next = c->free;
		c->free = block;
	}
	return true;
}

static void cache_fill(struct cache *cache, int class)
{
	struct class *c = &arena_classes[class];

	pthread_mutex_lock(&c->lock);
	while (cache->count[class] < CACHED / 2) {
		if (!c->free && !class_grow_locked(c, class))
			break;
		cache->blocks[class][cache->count[class]++] = c->free;
		c->free = c->free->next;
	}
	pthread_mutex_unlock(&c->lock);
}

static int class_of(size_t size)
{
	return size <= 1 << CLASS_SHIFT ? 0 : 64 - __builtin_clzl((size - 1) >> CLASS_SHIFT);
}

static struct block *take_large(size_t size)
{
	struct span *span;

	if (size > ARENA_BYTES)
		return NULL;
	span = span_new((size + CHUNK_BYTES - 1) >> CHUNK_SHIFT, 1, -1);
	if (!span)
		return NULL;
	span->blocks[0].address = arena_base + (span->first << CHUNK_SHIFT);
	span->blocks[0].span = span;
	return &span->blocks[0];
}

struct block *arena_take(size_t size)
{
	struct cache *cache = cache_here();
	int class = class_of(size);
	struct block *block;

	if (class >= CLASSES) {
		block = take_large(size);
	} else {
		if (!cache->count[class])
			cache_fill(cache, class);
		block = cache->count[class] ? cache->blocks[class][--cache->count[class]] : NULL;
	}
	if (!block)
		return NULL;
	block->size = size;
	block->owner = block->detail = NULL;
	block->kind = 0;
	atomic_store_explicit(&block->live, 1, memory_order_release);
	return block;
}

/* The caller has set live to 0, and is the only one who saw it at 1. */
void arena_give(struct block *block)
{
	struct cache *cache = cache_here();
	int class = block->span->class;

	if (class < 0) {
		span_free(block->span);
		return;
	}
	if (cache->count[class] == CACHED)
		cache_flush(cache, class, CACHED / 2);
	cache->blocks[class][cache->count[class]++] = block;
}

struct block *arena_find(const void *address)
{
	size_t offset = (size_t)((const char *)address - arena_base);
	struct block *block;
	struct span *span;

	if (!arena_base || offset >= arena_chunks << CHUNK_SHIFT)
		return NULL;
	span = atomic_load_explicit(&arena_spans[offset >> CHUNK_SHIFT], memory_order_acquire);
	if (!span || span->free)
		return NULL;
	if (span->class < 0) {
		block = &span->blocks[0];
	} else {
		block = &span->blocks[(offset & (CHUNK_BYTES - 1)) >> (CLASS_SHIFT + span->class)];
	}
	if (!atomic_load_explicit(&block->live, memory_order_acquire))
		return NULL;
	return (size_t)((const char *)address - block->address) < block->size ? block : NULL;
}

void arena_walk(void (*each)(struct block *block, void *data), void *data)
{
	for (size_t i = 0; i < arena_top; i++) {
		struct span *span = atomic_load(&arena_spans[i]);
		unsigned count;

		if (!span || span->free || span->first != i)
			continue;
		count = span->count;
		for (unsigned b = 0; b < count; b++) {
			bool last = b + 1 == count;

			if (atomic_load(&span->blocks[b].live))
				each(&span->blocks[b], data);
			if (last)
				break; /* a large span may be gone now */
		}
	}
}

/* What other threads of the parent held when it forked is unlocked here. */
void arena_drop(void)
{
	if (!arena_base)
		return;
	munmap(arena_mapping, (arena_chunks << CHUNK_SHIFT) + CHUNK_BYTES);
	munmap(arena_spans, arena_chunks * sizeof(*arena_spans));
	memset(arena_classes, 0, sizeof(arena_classes));
	pthread_mutex_init(&arena_lock, NULL);
	arena_top = 0;
	arena_free_runs = NULL;
	free(arena_cache);
	arena_cache = NULL;
	arena_base = NULL;
	arena_init();
}
