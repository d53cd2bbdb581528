#include "tests/check.h"

#include "base/hash.h"
#include "base/index.h"

enum { KEYS = 600 };

typedef struct {
    const uint64_t *keys;
    size_t looks;
} items;

static bool
same(const void *self, uint32_t item, const void *key)
{
    items *all = (items *) (uintptr_t) self;

    all->looks++;
    return all->keys[item] == *(const uint64_t *) key;
}

static uint64_t
rnd(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

/* Compares random additions and removals with an array of the expected keys. `hash` may be
 * arbitrarily bad. */
static void
agree(uint64_t (*hash)(uint64_t key), uint64_t seed)
{
    uint64_t keys[KEYS];
    bool in[KEYS] = { false };
    items all = { keys, 0 };
    mrd_index index = { 0 };
    size_t used = 0;

    for (size_t i = 0; i < KEYS; i++)
        keys[i] = i * 0x100000001u;
    for (int round = 0; round < 50000; round++) {
        size_t i = rnd(&seed, KEYS), look = rnd(&seed, KEYS);

        if (!in[i])
            CHECK_ERR("add", mrd_index_add(&index, hash(keys[i]), (uint32_t) i), MRD_OK);
        else
            mrd_index_remove(&index, hash(keys[i]), (uint32_t) i);
        in[i] = !in[i];
        if (round == 30000) {
            mrd_index_clear(&index);
            memset(in, 0, sizeof(in));
        }
        REQUIRE(mrd_index_find(&index, hash(keys[look]), same, &all, &keys[look]) ==
                (in[look] ? look : MRD_INDEX_NONE));
    }
    for (size_t i = 0; i < KEYS; i++) {
        used += in[i];
        mrd_index_remove(&index, hash(keys[i]), (uint32_t) i);
        mrd_index_remove(&index, hash(keys[i]), (uint32_t) i); /* twice: nothing */
        CHECK(mrd_index_find(&index, hash(keys[i]), same, &all, &keys[i]) == MRD_INDEX_NONE);
    }
    CHECK(used > 0);
    CHECK_INT(index.used, 0);
    mrd_index_fini(&index);
}

static uint64_t
good_hash(uint64_t key)
{
    return mrd_hash64(&key, sizeof(key), 7);
}

static uint64_t
one_hash(uint64_t key)
{
    (void) key;
    return 0xffffffffu; /* the last slot, so that runs wrap around to the first one */
}

static uint64_t
few_hashes(uint64_t key)
{
    return key % 7;
}

TEST(agrees_with_an_array)
{
    agree(good_hash, 1);
    agree(one_hash, 2);
    agree(few_hashes, 3);
}

TEST(an_empty_index)
{
    uint64_t key = 0;
    items all = { &key, 0 };
    mrd_index index = { 0 };

    CHECK(mrd_index_find(&index, 0, same, &all, &key) == MRD_INDEX_NONE);
    mrd_index_remove(&index, 0, 0);
    mrd_index_clear(&index);
    mrd_index_fini(&index);
}

TEST(is_never_more_than_half_full)
{
    mrd_index index = { 0 };

    for (uint32_t i = 0; i < 5000; i++) {
        REQUIRE(mrd_index_add(&index, i, i) == MRD_OK);
        CHECK_INT(index.used, i + 1);
        REQUIRE(index.used * 2 <= index.mask + 1 && index.mask + 1 <= (size_t) 4 * (i + 8));
    }
    mrd_index_fini(&index);
}

/* The indexed array moves its last item to the place of a removed item. The index must find the
 * moved item. */
TEST(items_that_move)
{
    uint64_t keys[] = { 11, 22, 33 };
    items all = { keys, 0 };
    mrd_index index = { 0 };

    for (uint32_t i = 0; i < 3; i++)
        CHECK_ERR("add", mrd_index_add(&index, one_hash(keys[i]), i), MRD_OK);
    mrd_index_remove(&index, one_hash(11), 0);
    keys[0] = 33;
    mrd_index_move(&index, one_hash(33), 2, 0);
    mrd_index_move(&index, one_hash(33), 2, 5); /* not there any more */
    keys[2] = 0;
    CHECK_INT(mrd_index_find(&index, one_hash(33), same, &all, &keys[0]), 0);
    CHECK_INT(mrd_index_find(&index, one_hash(22), same, &all, &keys[1]), 1);
    CHECK_INT(index.used, 2);
    mrd_index_fini(&index);
}

TEST(too_many_items)
{
    mrd_index index = { 0 };

    CHECK_ERR("most", mrd_index_add(&index, 1, MRD_INDEX_ITEMS), MRD_LIMIT);
    CHECK_ERR("none", mrd_index_add(&index, 1, MRD_INDEX_NONE), MRD_LIMIT);
    CHECK_INT(index.used, 0);
    CHECK_ERR("last", mrd_index_add(&index, 1, MRD_INDEX_ITEMS - 1), MRD_OK);
    mrd_index_fini(&index);
}

/* The keys all have the same hash without a seed. With the seed of the process they must be
 * spread. */
TEST(keys_of_an_adversary)
{
    enum { N = 4096 };
    static uint64_t keys[N];
    items all = { keys, 0 };
    mrd_index plain = { 0 }, seeded = { 0 };
    uint64_t seed = mrd_hash_seed();
    size_t looks;

    for (uint64_t i = 0, n = 0; n < N; i++) {
        if ((mrd_index_fold(mrd_hash64(&i, sizeof(i), 0)) & 0xff) == 0x5a)
            keys[n++] = i;
    }
    for (uint32_t i = 0; i < N; i++) {
        REQUIRE(mrd_index_add(&plain, mrd_hash64(&keys[i], 8, 0), i) == MRD_OK);
        REQUIRE(mrd_index_add(&seeded, mrd_hash64(&keys[i], 8, seed), i) == MRD_OK);
    }
    /* Compares the average distance of keys from the slots to which their hashes belong. */
    for (int round = 0; round < 2; round++) {
        const mrd_index *index = round == 0 ? &plain : &seeded;
        size_t far = 0;

        for (size_t at = 0; at <= index->mask; at++) {
            if (index->places[at].item != 0)
                far += (at - index->places[at].hash) & index->mask;
        }
        if (round == 0)
            CHECK(far / N > 20);
        else
            CHECK(far / N < 4);
    }
    looks = 0;
    for (uint32_t i = 0; i < N; i++) {
        all.looks = 0;
        CHECK(mrd_index_find(&seeded, mrd_hash64(&keys[i], 8, seed), same, &all, &keys[i]) == i);
        looks += all.looks;
    }
    CHECK(looks < N + 16); /* the 32 stored bits of the hash avoid comparing other keys */
    mrd_index_fini(&plain);
    mrd_index_fini(&seeded);
}

TEST_MAIN()
