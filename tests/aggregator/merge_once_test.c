/* Tests that a span appears once in the output if it was recorded while it was in flight and again
 * when it had ended. */
#include "aggregator/merge/merge_once.h"
#include "tests/check.h"
#include "tests/trace/events.h"

typedef struct {
    mrd_source base;
    const mrd_event *events;
    size_t n, at, chunk;
} fake;

static mrd_step
fake_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n, mrd_why *why)
{
    fake *f = (fake *) self;

    (void) why;
    for (*ret_n = 0; *ret_n < room && *ret_n < f->chunk && f->at < f->n; (*ret_n)++)
        ret_events[*ret_n] = &f->events[f->at++];
    return *ret_n > 0 ? MRD_MORE : MRD_END;
}

static void
fake_close(mrd_source *self)
{
    (void) self;
}

#define SPAN(at, length, where, what, number)                                                      \
    {                                                                                              \
        .kind = MRD_SPAN, .ts = { at }, .dur_ns = (length), .track = (where), .name = (what),      \
        .id = (number)                                                                             \
    }

/* Returns the numbers of the output events, read `room` at a time from chunks of `chunk`. */
static const char *
numbers(const mrd_event *events, size_t n, size_t chunk, size_t room)
{
    static char text[4096];
    fake f = { .base = { .many = fake_many, .close = fake_close }, events, n, 0, chunk };
    const mrd_event *some[64];
    mrd_source *once = NULL;
    mrd_why why = { 0 };
    size_t got;

    text[0] = '\0';
    CHECK_ERR("open", mrd_merge_once_open(&f.base, &once, &why), MRD_OK);
    while (once->many(once, some, room, &got, &why) == MRD_MORE)
        for (size_t i = 0; i < got; i++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), " %u",
                     (unsigned) some[i]->id);
    CHECK_INT(once->many(once, some, room, &got, &why), MRD_END);
    once->close(once);
    return text;
}

static void
check(const char *row, const mrd_event *events, size_t n, const char *want)
{
    static const size_t sizes[] = { 1, 2, 3, 64 };

    for (size_t p = 0; p < MRD_COUNT(sizes); p++)
        for (size_t r = 0; r < MRD_COUNT(sizes); r++) {
            const char *got = numbers(events, n, sizes[p], sizes[r]);

            CHECK_ROW(row, strcmp(got, want) == 0);
        }
}

TEST(the_complete_one_is_shown)
{
    const mrd_event plain[] = { SPAN(1, 5, 1, 1, 1), SPAN(2, 5, 1, 1, 2), SPAN(2, 5, 2, 1, 3) };
    const mrd_event ended[] = { SPAN(1, 5, 1, 1, 1), SPAN(2, -1, 1, 7, 2), SPAN(2, 90, 1, 7, 3),
                                SPAN(2, 10, 1, 8, 4), SPAN(3, 1, 1, 7, 5) };
    const mrd_event twice[] = { SPAN(2, -1, 1, 7, 2), SPAN(2, -1, 1, 7, 3), SPAN(2, -1, 1, 8, 4) };
    const mrd_event others[] = { SPAN(2, -1, 1, 7, 1), SPAN(2, 4, 2, 7, 2),  SPAN(3, 4, 1, 7, 3),
                                 SPAN(4, -1, 1, 7, 4), SPAN(5, -1, 1, 7, 5), SPAN(5, 4, 1, 9, 6) };
    mrd_event kinds[] = { SPAN(2, -1, 1, 7, 1), SPAN(2, 0, 1, 7, 2) };

    check("plain", plain, 3, " 1 2 3");
    check("ended", ended, 5, " 1 3 4 5");
    check("twice", twice, 3, " 2 4");
    check("others", others, 6, " 1 2 3 4 5 6");
    kinds[1].kind = MRD_INSTANT;
    check("kinds", kinds, 2, " 1 2");
    check("none", NULL, 0, "");
}

/* Computes the expected numbers. Consider the events of one time and track from an event in flight
 * on. An event in flight is omitted if another event describes the same span, either its end or an
 * earlier copy. */
static void
expect(const mrd_event *v, size_t n, char *to, size_t size)
{
    to[0] = '\0';
    for (size_t i = 0, end; i < n; i = end) {
        bool open = v[i].dur_ns < 0;

        for (end = i + 1;
             open && end < n && v[end].ts.ns == v[i].ts.ns && v[end].track == v[i].track;)
            end++;
        for (size_t k = i; k < end; k++) {
            bool again = false;

            for (size_t o = i; o < end && v[k].dur_ns < 0; o++)
                again = again || (v[o].name == v[k].name && (v[o].dur_ns >= 0 || o < k));
            if (!again)
                snprintf(to + strlen(to), size - strlen(to), " %u", (unsigned) v[k].id);
        }
    }
}

TEST(drawn_streams_equal_the_rule)
{
    uint64_t seed = 20261122;

    for (int round = 0; round < 500; round++) {
        static mrd_event v[60];
        static char want[4096];
        int64_t ts = 5;

        for (size_t i = 0; i < MRD_COUNT(v); i++) {
            ts += test_rand(&seed) % 4 == 0;
            v[i] = (mrd_event) SPAN(ts, test_rand(&seed) % 3 == 0 ? -1 : 4,
                                    (mrd_track_id) (test_rand(&seed) % 8 == 0),
                                    (mrd_sid) (1 + test_rand(&seed) % 3), i);
        }
        expect(v, MRD_COUNT(v), want, sizeof(want));
        check("drawn", v, MRD_COUNT(v), want);
    }
}

/* More simultaneous events than are compared: all are shown and none is lost. */
TEST(very_many_at_one_moment)
{
    static mrd_event events[1000];
    fake f = { .base = { .many = fake_many, .close = fake_close }, events, 1000, 0, 64 };
    const mrd_event *ev;
    mrd_source *once = NULL;
    mrd_why why = { 0 };
    uint64_t n = 0;

    for (size_t i = 0; i < 1000; i++)
        events[i] = (mrd_event) SPAN(7, i < 500 ? -1 : 5, 1, (mrd_sid) i + 1, i);
    CHECK_ERR("open", mrd_merge_once_open(&f.base, &once, &why), MRD_OK);
    while (once->next(once, &ev, &why) == MRD_MORE)
        CHECK_INT(ev->id, n++);
    CHECK_INT(n, 1000);
    once->close(once);
}

TEST_MAIN()
