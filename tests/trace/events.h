/*
 * tests/trace/events.h - events for the tests of the store, the merge and the lanes. A seeded
 * generator derives the arguments from the event's id, so that a reader can check each event alone.
 * Also has a source over an array.
 */
#ifndef MRD_TESTS_TRACE_EVENTS_H
#define MRD_TESTS_TRACE_EVENTS_H

#include <stdlib.h>

#include "tests/check.h"
#include "trace/model/source.h"

static inline uint64_t
test_rand(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The arguments of an event with this id. Text is stored in `text` (at least 64 bytes). */
static inline uint32_t
test_args(uint64_t id, mrd_arg args[3], char text[64])
{
    uint32_t n = (uint32_t) (id % 4);

    for (uint32_t i = 0; i < n; i++)
        args[i] = (mrd_arg){ .key = i + 1, .type = MRD_ARG_INT, .v.i = (int64_t) (id * 7 + i) };
    if (id % 8 == 3) {
        args[1].type = MRD_ARG_TEXT;
        args[1].len = (uint32_t) snprintf(text, 64, "text %llu", (unsigned long long) id) & 63;
        args[1].v.text = text;
    }
    return n;
}

static inline bool
test_args_match(const mrd_event *ev)
{
    mrd_arg want[3];
    char text[64];
    uint32_t n = test_args(ev->id, want, text);

    if (n != ev->arg_count)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const mrd_arg *got = &ev->args[i];

        if (got->key != want[i].key || got->type != want[i].type)
            return false;
        if (want[i].type == MRD_ARG_TEXT) {
            if (got->len != want[i].len || memcmp(got->v.text, text, got->len) != 0)
                return false;
        } else if (got->v.i != want[i].v.i) {
            return false;
        }
    }
    return true;
}

static inline int
test_compare(const void *a, const void *b)
{
    return mrd_event_order(a, b);
}

/* A source over an array that it does not own. */
typedef struct {
    mrd_source base;
    const mrd_event *v;
    size_t n, i;
    bool bad_at_end;
    int *closed; /* counts */
    mrd_event copies[4];
} test_source;

static inline mrd_step
test_source_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    test_source *s = (test_source *) (void *) self;

    if (s->i < s->n) {
        *ret_event = &s->v[s->i++];
        return MRD_MORE;
    }
    if (s->bad_at_end)
        mrd_why_set(why, MRD_TRUNCATED, 0, "source %d breaks off", (int) s->base.key);
    return s->bad_at_end ? MRD_BAD : MRD_END;
}

/* Runs of one to four. */
static inline mrd_step
test_source_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    test_source *s = (test_source *) (void *) self;
    const mrd_event *ev;
    size_t n = 0, most = 1 + s->i % 4;

    memset(s->copies, 0x5a, sizeof(s->copies)); /* overwrites the previously borrowed events */
    while (n < most && s->i < s->n) {
        if (test_source_next(self, &ev, why) == MRD_MORE)
            s->copies[n++] = *ev;
    }
    *ret_events = s->copies;
    *ret_n = n;
    return n > 0 ? MRD_MORE : test_source_next(self, &ev, why);
}

static inline void
test_source_close(mrd_source *self)
{
    test_source *s = (test_source *) (void *) self;

    if (s->closed != NULL)
        ++*s->closed;
    explicit_bzero(s->copies, sizeof(s->copies)); /* overwrites the events borrowed earlier */
    free(s);
}

static inline mrd_source *
test_source_new(const mrd_event *v, size_t n, uint64_t key, int *closed)
{
    test_source *s = calloc(1, sizeof(*s));

    if (s == NULL)
        abort();
    s->base = (mrd_source){ .next = test_source_next, .close = test_source_close, .key = key };
    s->v = v;
    s->n = n;
    s->closed = closed;
    return &s->base;
}

#endif
