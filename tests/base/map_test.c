#include "tests/check.h"

#include "base/map.h"

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

TEST_MAIN()
