#include "tests/check.h"

#include "trace/model/open.h"

static mrd_open *
span(uint64_t id)
{
    mrd_event ev = { .kind = MRD_SPAN, .id = id };

    return mrd_open_new(&ev);
}

static uint64_t
rnd(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

/* Random operations on the table are repeated on a simple array in order of age, and the results
 * are compared. */
TEST(the_table_agrees_with_an_array)
{
    enum { KEYS = 7, MAX = 64 };
    struct {
        uint64_t key, id;
    } model[MAX + 1];
    mrd_open_table t = { 0 };
    uint64_t seed = 11, next = 1;
    size_t n = 0;

    for (int round = 0; round < 100000; round++) {
        uint64_t draw = rnd(&seed, 3), key = rnd(&seed, KEYS);
        size_t i = 0;
        uint32_t slot = MRD_OPEN_NONE;

        if (n < MAX && draw > 0) {
            CHECK_ERR("put", mrd_open_put(&t, (mrd_map_key){ key, 1, 2 }, span(next)), MRD_OK);
            model[n].key = key;
            model[n++].id = next++;
            continue;
        }
        if (draw == 1 || n == 0) { /* the oldest */
            slot = mrd_open_oldest(&t);
            CHECK((slot == MRD_OPEN_NONE) == (n == 0));
        } else { /* any of a key */
            uint64_t steps = rnd(&seed, 3);

            slot = mrd_open_first(&t, (mrd_map_key){ key, 1, 2 });
            while (i < n && model[i].key != key)
                i++;
            CHECK((slot == MRD_OPEN_NONE) == (i == n));
            for (; steps > 0 && slot != MRD_OPEN_NONE; steps--) {
                slot = mrd_open_next(&t, slot);
                for (i++; i < n && model[i].key != key; i++)
                    ;
                CHECK((slot == MRD_OPEN_NONE) == (i == n));
            }
        }
        if (slot != MRD_OPEN_NONE) {
            mrd_open *open = mrd_open_take(&t, slot);

            CHECK_INT(open->ev.id, model[i].id);
            mrd_open_free(open);
            memmove(&model[i], &model[i + 1], (n - i - 1) * sizeof(model[0]));
            n--;
        }
        CHECK_INT(t.used, n);
    }
    mrd_open_table_fini(&t);
}

TEST(a_copy_is_deep)
{
    char text[] = "hello";
    mrd_arg args[2] = { { .key = 1, .type = MRD_ARG_TEXT, .len = 5 },
                        { .key = 2, .type = MRD_ARG_INT } };
    mrd_flow flow = { .id = 7, .dir = MRD_FLOW_END };
    mrd_event ev = {
        .kind = MRD_SPAN, .args = args, .arg_count = 2, .flows = &flow, .flow_count = 1
    };
    mrd_open *open;

    args[0].v.text = text;
    args[1].v.i = -3;
    open = mrd_open_new(&ev);
    memset(text, 'x', 5);
    memset(args, 0, sizeof(args));
    flow.id = 0;
    CHECK(memcmp(open->ev.args[0].v.text, "hello", 5) == 0);
    CHECK_INT(open->ev.args[1].v.i, -3);
    CHECK_INT(open->ev.flows[0].id, 7);
    mrd_open_free(open);
}

TEST_MAIN()
