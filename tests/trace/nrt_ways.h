/* tests/trace/nrt_ways.h - reads a text of the runtime's trace in two ways, by the JSON reader
 * alone and with trace/import/nrt/nrt_layout.c in front of it, to compare the results. */
#ifndef MRD_TESTS_TRACE_NRT_WAYS_H
#define MRD_TESTS_TRACE_NRT_WAYS_H

#include "base/obj.h"
#include "trace/import/nrt/import_nrt_int.h"

typedef struct {
    mrd_catalog *cat;
    mrd_buf text; /* all output, as text */
    mrd_nrt_counts counts;
    mrd_err err;
    mrd_why why;
    uint64_t read; /* the fast way */
} nrt_way;

static inline void
ways_arg(nrt_way *o, const mrd_arg *a)
{
    mrd_buf_fmt(&o->text, " %s=", mrd_catalog_text(o->cat, a->key).p);
    if (a->type == MRD_ARG_STR)
        mrd_buf_str(&o->text, mrd_catalog_text(o->cat, a->v.sid));
    else if (a->type == MRD_ARG_TEXT || a->type == MRD_ARG_JSON)
        mrd_buf_add(&o->text, a->v.text, a->len);
    else
        mrd_buf_fmt(&o->text, "%d:%llx", (int) a->type, (unsigned long long) a->v.u);
}

static inline mrd_err
ways_keep(void *self, const mrd_event *ev)
{
    nrt_way *o = self;
    const mrd_track *t = mrd_catalog_borrow_track(o->cat, ev->track);

    mrd_buf_fmt(&o->text, "%d %lld+%lld %llu %s [%lld %lld %lld %lld]", ev->kind,
                (long long) ev->ts.ns, (long long) ev->dur_ns, (unsigned long long) ev->id,
                mrd_catalog_text(o->cat, ev->name).p, (long long) t->lnc_idx,
                (long long) t->pcore_idx, (long long) t->thread_id, (long long) t->worker_gid);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        ways_arg(o, &ev->args[i]);
    mrd_buf_text(&o->text, "\n");
    return MRD_OK;
}

/* chunk: number of bytes that enter the window at once, or 0 for all without a copy */
static inline void
ways_run(nrt_way *o, mrd_str text, size_t chunk, bool fast)
{
    mrd_process p;
    mrd_nrt_options options = { .emit = ways_keep, .self = o };
    mrd_nrt *nrt = NULL;
    mrd_in *in = NULL;
    mrd_bytes bytes = { (const uint8_t *) text.p, text.len };

    *o = (nrt_way){ .cat = mrd_catalog_new() };
    mrd_process_init(&p);
    options.catalog = o->cat;
    options.process = mrd_catalog_process(o->cat, &p);
    MRD_ASSERT(mrd_nrt_new(&options, &nrt, NULL) == MRD_OK);
    nrt->layout.off = !fast;
    if (chunk == 0)
        MRD_ASSERT(mrd_in_borrow(bytes, "text", &in, NULL) == MRD_OK);
    else
        MRD_ASSERT(mrd_in_memory(bytes, "text", &in, NULL) == MRD_OK);
    if (chunk > 0)
        mrd_in_set_chunk(in, chunk);
    o->err = mrd_nrt_parse(nrt, in, &o->why);
    MRD_ASSERT(mrd_nrt_flush(nrt) == MRD_OK);
    o->counts = *mrd_nrt_count(nrt);
    o->read = nrt->layout.read;
    mrd_in_close(in);
    mrd_nrt_free(nrt);
}

static inline void
ways_free(nrt_way *o)
{
    mrd_buf_fini(&o->text);
    mrd_catalog_free(o->cat);
}

static inline mrd_str
ways_text(const nrt_way *o)
{
    return (mrd_str){ (const char *) o->text.p, o->text.len };
}

/* Returns true if the two ways to read `text`, which is followed by MRD_IN_PAD zero bytes, differ
 * in events, counts or error. *ret_read: the number of events on the fast path. */
static inline bool
ways_differ(mrd_str text, size_t chunk, uint64_t *ret_read)
{
    nrt_way fast, slow;
    bool same;

    ways_run(&slow, text, chunk, false);
    ways_run(&fast, text, chunk, true);
    same = slow.read == 0 && fast.err == slow.err && strcmp(fast.why.text, slow.why.text) == 0 &&
           memcmp(&fast.counts, &slow.counts, sizeof(fast.counts)) == 0 &&
           mrd_str_eq(ways_text(&fast), ways_text(&slow));
    *ret_read = fast.read;
    ways_free(&slow);
    ways_free(&fast);
    return !same;
}

#endif
