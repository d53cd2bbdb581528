/*
 * tests/trace/collect.h - runs an importer on a text or a file and keeps deep copies of its events
 * in order, without a store.
 */
#ifndef MRD_TESTS_TRACE_COLLECT_H
#define MRD_TESTS_TRACE_COLLECT_H

#include "tests/check.h"
#include "trace/import/import.h"
#include "trace/model/open.h"

typedef struct {
    mrd_catalog *cat;
    mrd_open **v;
    size_t n, cap;
    int64_t shift_ns;
    mrd_input input;
    mrd_err err;
    mrd_why why;
} collected;

static inline mrd_err
collect_emit(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    collected *c = imp->emit_self;

    (void) profile;
    if (c->n == c->cap) {
        c->cap = c->cap == 0 ? 1024 : c->cap * 2;
        c->v = realloc(c->v, c->cap * sizeof(mrd_open *));
    }
    c->v[c->n++] = mrd_open_new(ev);
    return MRD_OK;
}

static inline mrd_err
collect_shift(mrd_import *imp, uint32_t profile, int64_t delta_ns)
{
    collected *c = imp->emit_self;

    (void) profile;
    c->shift_ns = delta_ns;
    for (size_t i = 0; i < c->n; i++)
        c->v[i]->ev.ts.ns += delta_ns;
    return MRD_OK;
}

static inline mrd_identity
collect_nowhere(void)
{
    return (mrd_identity) MRD_IDENTITY_UNKNOWN;
}

/* Adds events to c, which is zeroed or has the events of earlier inputs. */
static inline void
collect_in(collected *c, const mrd_import_ops *ops, mrd_in *in, const mrd_identity *place)
{
    mrd_input blank = { 0 };
    mrd_import imp;
    size_t n;

    if (c->cat == NULL)
        c->cat = mrd_catalog_new();
    blank.path = mrd_catalog_intern(c->cat, mrd_in_name(in));
    imp = (mrd_import){ .in = in,
                        .catalog = c->cat,
                        .identity = place != NULL ? *place : collect_nowhere(),
                        .input = mrd_catalog_add_input(c->cat, &blank),
                        .emit = collect_emit,
                        .emit_self = c,
                        .shift = collect_shift };
    c->err = ops->run(&imp, &c->why);
    c->input = mrd_catalog_inputs(c->cat, &n)[imp.input];
    CHECK_ERR("catalog", mrd_catalog_err(c->cat), MRD_OK);
    CHECK_INT(c->input.records, c->input.events + c->input.dropped);
}

static inline void
collect_bytes(collected *c, const mrd_import_ops *ops, const void *data, size_t len, size_t chunk,
              const mrd_identity *place)
{
    mrd_in *in = NULL;

    CHECK_ERR("open", mrd_in_memory((mrd_bytes){ data, len }, "x.json", &in, NULL), MRD_OK);
    if (chunk > 0)
        mrd_in_set_chunk(in, chunk);
    collect_in(c, ops, in, place);
    mrd_in_close(in);
}

static inline void
collect_text(collected *c, const mrd_import_ops *ops, const char *text)
{
    collect_bytes(c, ops, text, strlen(text), 0, NULL);
}

static inline void
collect_free(collected *c)
{
    for (size_t i = 0; i < c->n; i++)
        mrd_open_free(c->v[i]);
    free(c->v);
    mrd_catalog_free(c->cat);
    *c = (collected){ 0 };
}

static inline const char *
collect_str(const collected *c, mrd_sid sid)
{
    return mrd_catalog_text(c->cat, sid).p; /* interned text is NUL-terminated */
}

static inline const mrd_arg *
collect_arg(const collected *c, const mrd_event *ev, const char *key)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (strcmp(collect_str(c, ev->args[i].key), key) == 0)
            return &ev->args[i];
    }
    return NULL;
}

/* Returns an argument as text, "" if absent. */
static inline const char *
collect_arg_text(const collected *c, const mrd_event *ev, const char *key)
{
    static char text[4][256];
    static int turn;
    const mrd_arg *a = collect_arg(c, ev, key);
    char *to = text[turn = (turn + 1) & 3];

    to[0] = '\0';
    if (a == NULL)
        return to;
    switch ((mrd_arg_type) a->type) {
    case MRD_ARG_INT:
        snprintf(to, 256, "%" PRId64, a->v.i);
        break;
    case MRD_ARG_UINT:
        snprintf(to, 256, "%" PRIu64, a->v.u);
        break;
    case MRD_ARG_DOUBLE:
        snprintf(to, 256, "%.17g", a->v.d);
        break;
    case MRD_ARG_STR:
        return collect_str(c, a->v.sid);
    case MRD_ARG_TEXT:
    case MRD_ARG_JSON:
        snprintf(to, 256, "%.*s", (int) a->len, a->v.text);
        break;
    case MRD_ARG_BOOL:
        return a->v.u != 0 ? "true" : "false";
    }
    return to;
}

static inline const mrd_track *
collect_track(const collected *c, const mrd_event *ev)
{
    return mrd_catalog_borrow_track(c->cat, ev->track);
}

static inline const mrd_process *
collect_process(const collected *c, const mrd_event *ev)
{
    return mrd_catalog_borrow_process(c->cat, collect_track(c, ev)->process);
}

/* Returns the i-th event with this name, or NULL. */
static inline const mrd_event *
collect_named(const collected *c, const char *name, size_t i)
{
    for (size_t k = 0; k < c->n; k++) {
        if (strcmp(collect_str(c, c->v[k]->ev.name), name) == 0 && i-- == 0)
            return &c->v[k]->ev;
    }
    return NULL;
}

#endif
