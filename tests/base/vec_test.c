#include "tests/check.h"

#include "base/vec.h"

#include <sys/resource.h>

TEST(adds_and_keeps)
{
    struct {
        uint64_t *v;
        size_t n, cap;
    } a = { 0 };
    size_t moves = 0;

    for (uint64_t i = 0; i < 100000; i++) {
        size_t had = a.cap;

        REQUIRE(MRD_VEC_ROOM(a.v, a.n, a.cap, 1));
        CHECK(a.cap > a.n);
        moves += a.cap != had;
        a.v[a.n++] = i * 3;
    }
    for (uint64_t i = 0; i < a.n; i++)
        REQUIRE(a.v[i] == i * 3);
    CHECK(moves < 20);
    free(a.v);
}

TEST(many_at_once)
{
    uint16_t *v = NULL;
    uint32_t n = 0, cap = 0;

    REQUIRE(MRD_VEC_ROOM(v, n, cap, 70001));
    CHECK(cap >= 70001);
    n = 70001;
    memset(v, 1, n * sizeof(*v));
    REQUIRE(MRD_VEC_ROOM(v, n, cap, cap - n)); /* has it: nothing moves */
    REQUIRE(MRD_VEC_ROOM(v, n, cap, cap - n + 1));
    CHECK(cap >= 140002);
    CHECK_INT(v[70000], 0x0101);
    free(v);
}

/* The buffer is filled again each time, so n is the number of items to be written, not the number
 * already present. */
TEST(more_than_the_room_there_is)
{
    size_t cap = 0;
    char *v = NULL;

    REQUIRE(MRD_VEC_ROOM(v, 1000, cap, 24));
    CHECK(cap >= 1024);
    memset(v, 0, cap);
    free(v);
}

TEST(none_wanted)
{
    int *v = NULL;
    size_t n = 0, cap = 0;

    CHECK(MRD_VEC_ROOM(v, n, cap, 0));
    CHECK(v == NULL && cap == 0);
}

TEST(a_limit_is_kept)
{
    static const size_t limits[] = { 1, 2, 3, 7, 64, 65, 1000 };

    for (size_t k = 0; k < MRD_COUNT(limits); k++) {
        size_t n = 0, cap = 0, max = limits[k];
        int *v = NULL;

        while (MRD_VEC_ROOM_MAX(v, n, cap, 1, max))
            /* cppcheck-suppress nullPointer ; it does not see that the macro sets v */
            v[n] = (int) n + 1, n++;
        CHECK_INT(n, max);
        CHECK_INT(cap, max); /* no byte beyond it either */
        CHECK(!MRD_VEC_ROOM_MAX(v, n, cap, SIZE_MAX, max));
        CHECK_INT(v[max - 1], max);
        free(v);
    }
}

TEST(fits_the_type_of_its_numbers)
{
    uint8_t n = 0, cap = 0, *v = NULL;

    for (int i = 0; i < 255; i++) {
        REQUIRE(MRD_VEC_ROOM(v, n, cap, 1));
        v[n++] = (uint8_t) i;
    }
    CHECK_INT(cap, 255);
    CHECK(!MRD_VEC_ROOM(v, n, cap, 1)); /* 256 would be 0 */
    CHECK_INT(cap, 255);
    CHECK_INT(v[254], 254);
    free(v);
}

/* A product or sum of sizes that wraps around must be refused. Otherwise the array would be too
 * small. */
TEST(sizes_that_wrap)
{
    static const size_t sizes[] = { 1, 2, 3, 8, 24, 4096 };
    size_t cap = 4, n = 0;

    for (size_t k = 0; k < MRD_COUNT(sizes); k++) {
        size_t size = sizes[k], wraps = SIZE_MAX / size + 1;
        char *v = calloc(4, size);

        cap = 4;
        CHECK(mrd_vec_grow(v, size, 4, &cap, SIZE_MAX - 3, SIZE_MAX) == NULL); /* the sum is 0 */
        CHECK(mrd_vec_grow(v, size, 4, &cap, SIZE_MAX, SIZE_MAX) == NULL);
        CHECK(size == 1 || mrd_vec_grow(v, size, 4, &cap, wraps, SIZE_MAX) == NULL);
        CHECK(mrd_vec_grow(v, size, 4, &cap, PTRDIFF_MAX / size, SIZE_MAX) == NULL);
        CHECK(mrd_vec_grow(v, size, SIZE_MAX, &cap, 1, SIZE_MAX) == NULL);
        CHECK_INT(cap, 4);
        n = 4;
        CHECK(mrd_vec_reach(v, size, &n, SIZE_MAX, SIZE_MAX) == NULL);
        CHECK(size == 1 || mrd_vec_reach(v, size, &n, wraps, SIZE_MAX) == NULL);
        CHECK_INT(n, 4);
        CHECK(mrd_vec_next(v, size, (size_t) 1 << 63) == NULL);
        CHECK(mrd_vec_next(v, size, SIZE_MAX / 2 / size) == NULL);
        free(v);
    }
}

TEST(without_memory_all_is_as_it_was)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer needs the address space");
#else
    struct rlimit little = { 256 << 20, 256 << 20 };
    size_t n = 3, cap = 3, reach = 3;
    uint64_t *v = malloc(3 * sizeof(*v)), *before = v;

    v[0] = 7, v[1] = 8, v[2] = 9;
    REQUIRE(setrlimit(RLIMIT_AS, &little) == 0);
    CHECK(!MRD_VEC_ROOM(v, n, cap, 256 << 20));
    CHECK(v == before && n == 3 && cap == 3);
    CHECK(!MRD_VEC_REACH(v, reach, 256 << 20));
    CHECK(v == before && reach == 3);
    CHECK(v[0] == 7 && v[1] == 8 && v[2] == 9);
    free(v);
#endif
}

TEST(reach_zeroes_what_is_new)
{
    uint32_t *memo = NULL, n = 0, had;

    REQUIRE(MRD_VEC_REACH(memo, n, 0));
    CHECK(n >= 1 && memo[0] == 0);
    for (uint32_t i = 0; i < n; i++)
        memo[i] = i + 1;
    had = n;
    REQUIRE(MRD_VEC_REACH(memo, n, 100000));
    CHECK(n > 100000);
    for (uint32_t i = 0; i < n; i++)
        REQUIRE(memo[i] == (i < had ? i + 1 : 0));
    had = n;
    REQUIRE(MRD_VEC_REACH(memo, n, n - 1));
    CHECK_INT(n, had);
    free(memo);
}

TEST(reach_fits_its_type)
{
    uint8_t *memo = NULL, n = 0;

    REQUIRE(MRD_VEC_REACH(memo, n, 254));
    CHECK_INT(n, 255);
    CHECK(!MRD_VEC_REACH(memo, n, 255));
    CHECK_INT(n, 255);
    free(memo);
}

TEST(next_without_a_capacity)
{
    char **v = NULL;
    size_t n = 0;

    for (size_t i = 0; i < 1000; i++) {
        REQUIRE(MRD_VEC_NEXT(v, n));
        v[n++] = (char *) &v;
    }
    for (; n > 3; n--) /* removing items is allowed at any time */
        v[n - 1] = NULL;
    for (size_t i = 0; i < 100; i++) {
        REQUIRE(MRD_VEC_NEXT(v, n));
        v[n++] = (char *) &n;
    }
    CHECK(v[2] == (char *) &v && v[102] == (char *) &n);
    free(v);
}

TEST_MAIN()
