#include "tests/check.h"

#include "base/map.h"
#include "tests/memory.h"

static uint64_t
rnd(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

TEST(agrees_with_an_array)
{
    enum { KEYS = 500 };
    uint32_t want[KEYS];
    mrd_map map = { 0 };
    uint64_t seed = 42;
    size_t used = 0;

    for (size_t i = 0; i < KEYS; i++)
        want[i] = MRD_MAP_NONE;
    for (int round = 0; round < 200000; round++) {
        size_t i = rnd(&seed, KEYS);
        mrd_map_key key = { i % 7, i, i * 3 };

        if (rnd(&seed, 2) == 0) {
            uint32_t value = (uint32_t) rnd(&seed, 1000);

            CHECK_ERR("put", mrd_map_put(&map, key, value), MRD_OK);
            want[i] = value;
        } else {
            mrd_map_remove(&map, key);
            want[i] = MRD_MAP_NONE;
        }
        i = rnd(&seed, KEYS);
        CHECK_INT(mrd_map_get(&map, (mrd_map_key){ i % 7, i, i * 3 }), want[i]);
    }
    for (size_t i = 0; i < KEYS; i++)
        used += want[i] != MRD_MAP_NONE;
    CHECK_INT(map.used, used);
    mrd_map_fini(&map);
}

TEST(an_empty_map)
{
    mrd_map map = { 0 };

    CHECK_INT(mrd_map_get(&map, (mrd_map_key){ 0 }), MRD_MAP_NONE);
    mrd_map_remove(&map, (mrd_map_key){ 0 });
    mrd_map_fini(&map);
}

/* Returns the length of the longest run of occupied slots. */
static size_t
longest_run(const mrd_map *map)
{
    size_t longest = 0, run = 0;

    for (size_t i = 0; i <= 2 * map->mask; i++) {
        run = map->slots[i & map->mask].value == MRD_MAP_NONE ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* An adversary may choose keys for which one factor of the hash without a seed is 0, or keys that
 * differ in few bits. With the seed of the process they must be spread. */
TEST(keys_of_an_adversary)
{
    for (int kind = 0; kind < 5; kind++) {
        mrd_map map = { 0 };

        for (uint64_t i = 0; i < 20000; i++) {
            mrd_map_key key = { i, 0xe7037ed1a0b428dbu, 0 };

            key = kind == 1   ? (mrd_map_key){ 0xa0761d6478bd642fu, i, 0 }
                  : kind == 2 ? (mrd_map_key){ i << 40, 0, 0 }
                  : kind == 3 ? (mrd_map_key){ 0, 0, i << 20 }
                  : kind == 4 ? (mrd_map_key){ 0, i << 32, i }
                              : key;
            REQUIRE(mrd_map_put(&map, key, (uint32_t) i) == MRD_OK);
        }
        CHECK_INT(map.used, 20000);
        CHECK(longest_run(&map) < 200);
        mrd_map_fini(&map);
    }
}

TEST(a_key_is_replaced_without_memory)
{
    mrd_map map = { 0 };

    for (uint32_t n = 1; n < 1000; n++) {
        REQUIRE(mrd_map_put(&map, (mrd_map_key){ n, 0, 0 }, 1) == MRD_OK);
        memory_fails_at = memory_asked + 1;
        CHECK_ERR("replace", mrd_map_put(&map, (mrd_map_key){ n, 0, 0 }, 2), MRD_OK);
        memory_fails_at = 0;
        CHECK_INT(mrd_map_get(&map, (mrd_map_key){ n, 0, 0 }), 2);
    }
    mrd_map_fini(&map);
}

TEST_MAIN()
