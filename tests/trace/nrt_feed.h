/*
 * tests/trace/nrt_feed.h - feeds the reader of the runtime's trace (trace/import/nrt/import_nrt.h)
 * fetch by fetch, like the agent.
 */
#ifndef MRD_TESTS_TRACE_NRT_FEED_H
#define MRD_TESTS_TRACE_NRT_FEED_H

#include "tests/check.h"
#include "tests/trace/collect.h"
#include "tests/trace/events.h"
#include "trace/import/nrt/import_nrt.h"

#define HEAD "{\"data_version\":2,\"events\":["
#define TAIL "]}"
/* A plausible epoch time, and its text without the last five digits. */
#define NRT_T0 1700000000000000000ll
#define T0     "17000000000000"
#define EV(type, phase, nc, track, thread, ts, data)                                               \
    "{\"event_type\":\"" type "\",\"phase\":\"" phase "\",\"id\":7,\"nc_idx\":" nc                 \
    ",\"nc_local_id\":3,\"tracking_id\":" track ",\"thread_id\":" thread ",\"worker_gid\":5,"      \
    "\"data\":{" data "},\"timestamp_ns\":" ts "}"

/* Reads one document with these events. */
static inline void
collect_events(collected *c, const mrd_import_ops *ops, const char *const *events, size_t n)
{
    char text[8192];
    size_t len = (size_t) snprintf(text, sizeof(text), "%s", HEAD);

    for (size_t i = 0; i < n && len < sizeof(text); i++)
        len +=
            (size_t) snprintf(text + len, sizeof(text) - len, "%s%s", i == 0 ? "" : ",", events[i]);
    REQUIRE(len + sizeof(TAIL) <= sizeof(text));
    memcpy(text + len, TAIL, sizeof(TAIL));
    collect_text(c, ops, text);
}

/* Opens a reader with these options for a process of the instance i-1. */
static inline mrd_nrt *
nrt_open(mrd_nrt_options *o)
{
    mrd_nrt *nrt = NULL;
    mrd_process p;

    mrd_process_init(&p);
    p.instance_id = mrd_catalog_intern(o->catalog, "i-1");
    o->process = mrd_catalog_process(o->catalog, &p);
    CHECK_ERR("new", mrd_nrt_new(o, &nrt, NULL), MRD_OK);
    return nrt;
}

/* One document, as text. */
static inline void
nrt_feed(mrd_nrt *nrt, const char *text)
{
    mrd_in *in = NULL;

    CHECK_ERR(
        "in",
        mrd_in_memory((mrd_bytes){ (const uint8_t *) text, strlen(text) }, "fetch", &in, NULL),
        MRD_OK);
    CHECK_ERR("parse", mrd_nrt_parse(nrt, in, NULL), MRD_OK);
    mrd_in_close(in);
}

/* Feeds one event in its own document. */
static inline void
nrt_feed_event(mrd_nrt *nrt, const char *event)
{
    char text[800];

    snprintf(text, sizeof(text), HEAD "%s" TAIL, event);
    nrt_feed(nrt, text);
}

/* Feeds one numbered event of a core, at NRT_T0 + at. Starts and stops belong to the call with that
 * number. */
static inline void
nrt_feed_number(mrd_nrt *nrt, const char *phase, int core, int64_t number, int64_t at)
{
    char text[500];

    snprintf(text, sizeof(text),
             "{\"event_type\":\"x\",\"phase\":\"%s\",\"nc_idx\":%d,\"nc_local_id\":%" PRId64
             ",\"tracking_id\":%" PRId64 ",\"timestamp_ns\":%" PRId64 ",\"data\":{}}",
             phase, core, number, number, (int64_t) NRT_T0 + at);
    nrt_feed_event(nrt, text);
}

/* The output of mrd_nrt_in_flight. */
typedef struct {
    size_t n;
    int64_t since; /* begin of the last span; the fields below describe this span, too */
    uint32_t args, bound;
} nrt_in_flight;

static inline mrd_err
nrt_see_open(void *self, const mrd_event *ev)
{
    nrt_in_flight *f = self;

    f->n++;
    f->since = ev->ts.ns;
    f->args = ev->arg_count;
    f->bound = ev->bound_ns;
    CHECK((ev->flags & ~MRD_EV_DEVICE_BOUND) == 0);
    return MRD_OK;
}

static inline nrt_in_flight
nrt_in_flight_of(const mrd_nrt *nrt)
{
    nrt_in_flight f = { 0 };

    mrd_nrt_in_flight(nrt, nrt_see_open, &f);
    return f;
}

#endif
