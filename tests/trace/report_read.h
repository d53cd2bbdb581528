/*
 * tests/trace/report_read.h - makes the report of a profile (tests/trace/profile.h) as JSON and as
 * text, with queries for tests.
 */
#ifndef MRD_TESTS_TRACE_REPORT_READ_H
#define MRD_TESTS_TRACE_REPORT_READ_H

#include <jansson.h>

#include "tests/trace/profile.h"
#include "trace/analysis/judge/report.h"

static inline json_t *
report(const test_profile *p)
{
    mrd_sink_options options = test_sink_options();
    size_t len;
    char *text =
        test_sink_run(mrd_sink_find(MRD_STR("report-json")), p->cat, 0, &options, p->v, p->n, &len);
    json_t *doc = json_loadb(text, len, 0, NULL), *r;

    CHECK(doc != NULL);
    r = json_incref(json_object_get(doc, "report"));
    CHECK(r != NULL);
    json_decref(doc);
    free(text);
    return r;
}

static inline char *
report_text(const test_profile *p)
{
    mrd_sink_options options = test_sink_options();
    size_t len;

    return test_sink_run(mrd_sink_find(MRD_STR("report-text")), p->cat, 0, &options, p->v, p->n,
                         &len);
}

static inline int64_t
number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static inline const json_t *
worker(const json_t *r, size_t i)
{
    return json_array_get(json_object_get(r, "workers"), i);
}

static inline int64_t
part(const json_t *r, size_t i, const char *name)
{
    return number(json_object_get(worker(r, i), "parts_ns"), name);
}

static inline int64_t
collective(const json_t *r, size_t i, const char *name)
{
    return number(json_object_get(worker(r, i), "collectives"), name);
}

static inline const char *
verdict(const json_t *r)
{
    return json_string_value(json_object_get(json_object_get(r, "verdict"), "kind"));
}

static inline int64_t
parts_sum(const json_t *r, size_t i)
{
    int64_t sum = 0;

    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
        sum += part(r, i, mrd_report_part_text((mrd_report_part) k));
    return sum;
}

static inline mrd_event *
cc_running(test_profile *p, int who, int64_t op, int64_t at, int64_t dur, uint32_t bound)
{
    mrd_event *ev = profile_add(p, MRD_SPAN, p->device[who], "cc_running", at, dur);
    mrd_arg *args = calloc(2, sizeof(*args));

    args[0] = (mrd_arg){ .key = mrd_catalog_intern(p->cat, "gid"), .type = MRD_ARG_INT, .v.i = 1 };
    args[1] =
        (mrd_arg){ .key = mrd_catalog_intern(p->cat, "op_id"), .type = MRD_ARG_INT, .v.i = op };
    ev->args = args;
    ev->arg_count = 2;
    ev->bound_ns = bound;
    return ev;
}

static inline void
forget(test_profile *p)
{
    for (size_t i = 0; i < p->n; i++)
        free((void *) (uintptr_t) p->v[i].args);
    p->n = 0;
}

static inline int64_t
total(const json_t *r, const char *key)
{
    return number(json_object_get(r, "totals"), key);
}

#endif
