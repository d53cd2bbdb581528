/*
 * tests/trace/pf_walk.h - reads a Perfetto trace with an independent protobuf reader that is strict
 * about the format. Any violation is a failed check.
 */
#ifndef MRD_TESTS_TRACE_PF_WALK_H
#define MRD_TESTS_TRACE_PF_WALK_H

#include <zlib.h>

#include "base/buf.h"
#include "tests/check.h"

enum { WALK_ROWS = 4096, WALK_SLICES = 400000, WALK_OPEN = 600, WALK_NAMES = 70000 };

typedef struct {
    uint64_t uuid, parent;
    int64_t rank;
    char name[128], description[256];
    bool counter;
    int unit;
    char unit_name[32];
    uint32_t open[WALK_OPEN]; /* indexes of open slices */
    int depth, deepest;
    int64_t samples;
} walk_row;

typedef struct {
    uint32_t row, depth;
    int64_t ts, dur; /* dur: -1 if it never ended, -2 for an instant */
    char name[64], category[32];
    /* flows of the slice's BEGIN packet, and the flow of its END packet */
    uint64_t flows[4], end_flow;
    uint32_t n_flows, args;
    int64_t arg_sum; /* sum of integers and of the lengths of strings */
    bool continued;  /* the slice is repeated from an earlier part */
    int64_t begin;   /* for a repeated slice: the time at which it began in the earlier part */
} walk_slice;

typedef struct {
    walk_row *rows;
    size_t n_rows;
    walk_slice *slices;
    size_t n_slices;
    char **names[4]; /* category, name, argument name, argument string; by iid */
    uint32_t n_names[4];
    int64_t now;
    uint64_t primary_clock;
    bool cleared, clocked;
    size_t packets, marks, compressed, largest;
    int64_t last_sample;
    double last_double;
    uint64_t lost_stat;
    mrd_buf attributes;          /* "key=value\n" */
    unsigned processes, threads; /* of the tables */
} pf_walk;

typedef struct {
    const uint8_t *p, *end;
    bool bad;
    uint32_t field, wire;
    uint64_t v;
    mrd_str bytes;
} pb_reader;

static inline uint64_t
pb_varint(pb_reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->p == r->end)
            break;
        v |= (uint64_t) (*r->p & 0x7f) << (shift < 64 ? shift : 63);
        if ((*r->p++ & 0x80) == 0)
            return v;
    }
    r->bad = true;
    return 0;
}

static inline bool
pb_next(pb_reader *r)
{
    uint64_t tag;

    if (r->p == r->end || r->bad)
        return false;
    tag = pb_varint(r);
    r->field = (uint32_t) (tag >> 3);
    r->wire = (uint32_t) (tag & 7);
    if (r->wire == 0) {
        r->v = pb_varint(r);
    } else if (r->wire == 1) {
        if (r->end - r->p < 8)
            return r->bad = true, false;
        memcpy(&r->v, r->p, 8);
        r->p += 8;
    } else if (r->wire == 2) {
        r->v = pb_varint(r);
        if (r->v > (uint64_t) (r->end - r->p))
            return r->bad = true, false;
        r->bytes = (mrd_str){ (const char *) r->p, (size_t) r->v };
        r->p += r->v;
    } else {
        r->bad = true;
    }
    return !r->bad;
}

static inline pb_reader
pb_of(mrd_str s)
{
    return (pb_reader){ .p = (const uint8_t *) s.p, .end = (const uint8_t *) s.p + s.len };
}

static inline void
walk_text(char *to, size_t room, mrd_str s)
{
    snprintf(to, room, MRD_STR_FMT, (int) (s.len < room ? s.len : room), s.p);
}

static inline walk_row *
walk_find(pf_walk *w, uint64_t uuid)
{
    for (size_t i = w->n_rows; i-- > 0;) {
        if (w->rows[i].uuid == uuid)
            return &w->rows[i];
    }
    return NULL;
}

/* Returns the first row of this name, or a row with uuid 0. */
static inline const walk_row *
walk_named(const pf_walk *w, const char *name)
{
    static const walk_row none = { .name = "(no such row)" };

    for (size_t i = 0; i < w->n_rows; i++) {
        if (strcmp(w->rows[i].name, name) == 0)
            return &w->rows[i];
    }
    return &none;
}

static inline void
walk_descriptor(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body), c;
    walk_row *row = &w->rows[w->n_rows];
    uint64_t ordering = 0, merge = 0;
    uint32_t table = 0;
    int64_t pid = 0;

    CHECK(w->n_rows < WALK_ROWS);
    memset(row, 0, sizeof(*row));
    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            row->uuid = r.v;
            break;
        case 2:
            walk_text(row->name, sizeof(row->name), r.bytes);
            break;
        case 5:
            row->parent = r.v;
            break;
        case 11:
            ordering = r.v;
            break;
        case 12:
            row->rank = (int64_t) r.v;
            break;
        case 14:
            walk_text(row->description, sizeof(row->description), r.bytes);
            break;
        case 15:
            merge = r.v;
            break;
        case 3: /* a track of the process table or thread table, which is not a row */
        case 4:
            table = r.field;
            for (c = pb_of(r.bytes); pb_next(&c);)
                pid = c.field == 1 ? (int64_t) c.v : pid;
            break;
        case 8:
            row->counter = true;
            for (c = pb_of(r.bytes); pb_next(&c);) {
                if (c.field == 3)
                    row->unit = (int) c.v;
                if (c.field == 6)
                    walk_text(row->unit_name, sizeof(row->unit_name), c.bytes);
            }
            break;
        default:
            CHECK(false);
        }
    }
    if (table != 0) {
        CHECK(!r.bad && row->uuid >= 1ull << 40 && pid > 0 && row->name[0] == '\0');
        w->processes += table == 3;
        w->threads += table == 4;
        return;
    }
    CHECK(!r.bad && ordering == 3 && merge == 2 && row->uuid != 0);
    CHECK(row->rank >= 0 && row->rank <= INT32_MAX);
    CHECK(walk_find(w, row->uuid) == NULL);                       /* written once */
    CHECK(row->parent == 0 || walk_find(w, row->parent) != NULL); /* after its parent */
    w->n_rows++;
}

static inline void
walk_interned(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body), e;

    while (pb_next(&r)) {
        int kind = r.field <= 3 ? (int) r.field - 1 : 3;
        uint64_t iid = 0;
        mrd_str text = { 0 };

        CHECK(r.field <= 3 || r.field == 29);
        for (e = pb_of(r.bytes); pb_next(&e);) {
            if (e.field == 1)
                iid = e.v;
            else
                text = e.bytes;
        }
        CHECK_INT(iid, ++w->n_names[kind]); /* in order, once each */
        REQUIRE(iid < WALK_NAMES);
        w->names[kind][iid] = mrd_str_dup(text);
    }
    CHECK(!r.bad);
}

static inline const char *
walk_iid(pf_walk *w, int kind, uint64_t iid)
{
    bool known = iid >= 1 && iid <= w->n_names[kind];

    CHECK(known); /* interned before use */
    return known ? w->names[kind][iid] : "";
}

static inline void
walk_annotation(pf_walk *w, mrd_str body, walk_slice *s)
{
    pb_reader r = pb_of(body);
    bool named = false, ours = false;
    mrd_str name = { 0 };

    s->args++;
    while (pb_next(&r)) {
        if (r.field == 10)
            name = r.bytes;
        ours =
            ours || mrd_str_is(name, "meridian_continued") || mrd_str_is(name, "meridian_begin_ns");
        if (ours && r.field == 4) {
            s->continued = true;
            s->begin = mrd_str_is(name, "meridian_begin_ns") ? (int64_t) r.v : s->begin;
            continue;
        }
        switch (r.field) {
        case 1:
            walk_iid(w, 2, r.v);
            named = true;
            break;
        case 10:
            named = true;
            break;
        case 2:
        case 3:
        case 4:
            s->arg_sum += (int64_t) r.v;
            break;
        case 5:
            break;
        case 6:
            s->arg_sum += (int64_t) r.bytes.len;
            break;
        case 17:
            s->arg_sum += (int64_t) strlen(walk_iid(w, 3, r.v));
            break;
        case 9900: /* the string is JSON */
            CHECK_INT(r.v, 1);
            break;
        default:
            CHECK(false);
        }
    }
    CHECK(named && !r.bad);
}

static inline void
walk_event(pf_walk *w, mrd_str body, int64_t ts)
{
    pb_reader r = pb_of(body);
    walk_slice s = { .ts = ts };
    uint64_t type = 0, uuid = 0;
    walk_row *row;

    while (pb_next(&r)) {
        switch (r.field) {
        case 9:
            type = r.v;
            break;
        case 11:
            uuid = r.v;
            break;
        case 3:
            walk_text(s.category, sizeof(s.category), mrd_str_of(walk_iid(w, 0, r.v)));
            break;
        case 10:
            walk_text(s.name, sizeof(s.name), mrd_str_of(walk_iid(w, 1, r.v)));
            break;
        case 23:
            walk_text(s.name, sizeof(s.name), r.bytes);
            break;
        case 4:
            walk_annotation(w, r.bytes, &s);
            break;
        case 30:
            w->last_sample = (int64_t) r.v;
            break;
        case 44:
            memcpy(&w->last_double, &r.v, 8);
            break;
        case 47:
            CHECK_INT(r.wire, 1);
            s.flows[s.n_flows++ & 3] = r.v;
            break;
        default:
            CHECK(false);
        }
    }
    CHECK(!r.bad);
    row = walk_find(w, uuid);
    REQUIRE(row != NULL); /* described before its first event */
    s.row = (uint32_t) (row - w->rows);
    s.depth = (uint32_t) row->depth;
    if (type == 2) {
        walk_slice *begun;

        REQUIRE(row->depth > 0); /* an END closes something */
        begun = &w->slices[row->open[--row->depth]];
        begun->dur = ts - begun->ts;
        begun->end_flow = s.flows[0];
        return;
    }
    if (type == 4) {
        CHECK(row->counter);
        row->samples++;
        return;
    }
    CHECK(!row->counter && (type == 1 || type == 3));
    REQUIRE(w->n_slices < WALK_SLICES);
    s.dur = type == 3 ? -2 : -1;
    if (type == 1) {
        REQUIRE(row->depth < 512);
        row->open[row->depth++] = (uint32_t) w->n_slices;
        row->deepest = row->depth > row->deepest ? row->depth : row->deepest;
    }
    w->slices[w->n_slices++] = s;
}

static inline void
walk_clock(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body), c;
    uint64_t id = 0, at = 0, incremental = 0;

    while (pb_next(&r)) {
        if (r.field == 2) {
            w->primary_clock = r.v;
            continue;
        }
        id = at = incremental = 0;
        for (c = pb_of(r.bytes); pb_next(&c);) {
            if (c.field == 1)
                id = c.v;
            if (c.field == 2)
                at = c.v;
            if (c.field == 3)
                incremental = c.v;
        }
        CHECK(id == 1 || id == 6 || id == 64);
        CHECK_INT(incremental, id == 64);
        w->now = (int64_t) at;
    }
    w->clocked = true;
}

static inline void
walk_attributes(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body), a;

    while (pb_next(&r)) {
        for (a = pb_of(r.bytes); pb_next(&a);) {
            if (a.field == 1) {
                mrd_buf_str(&w->attributes, a.bytes);
                mrd_buf_byte(&w->attributes, '=');
            } else if (a.field == 2) {
                mrd_buf_i64(&w->attributes, (int64_t) a.v);
            } else {
                mrd_buf_str(&w->attributes, a.bytes);
            }
        }
        mrd_buf_byte(&w->attributes, '\n');
    }
}

static inline void
walk_stats(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body), b;

    while (pb_next(&r)) {
        for (b = pb_of(r.bytes); r.field == 1 && pb_next(&b);) {
            if (b.field == 19)
                w->lost_stat = b.v;
        }
    }
}

static inline void walk_packets(pf_walk *w, mrd_str body, bool inside);

static inline void
walk_unpack(pf_walk *w, mrd_str packed)
{
    uLongf len = 4 << 20;
    uint8_t *raw = malloc(len);

    CHECK_INT(uncompress(raw, &len, (const Bytef *) packed.p, packed.len), Z_OK);
    w->compressed++;
    walk_packets(w, (mrd_str){ (const char *) raw, len }, true);
    free(raw);
}

static inline void
walk_packet(pf_walk *w, mrd_str body)
{
    pb_reader r = pb_of(body);
    mrd_str event = { 0 }, descriptor = { 0 }, interned = { 0 };
    uint64_t clock = 0, flags = 0, seq = 0, delta = 0;
    bool has_event = false, stamped = false;

    w->packets++;
    w->largest = body.len > w->largest ? body.len : w->largest;
    while (pb_next(&r)) {
        switch (r.field) {
        case 6:
            CHECK_INT(w->packets, 1);
            walk_clock(w, r.bytes);
            break;
        case 8:
            delta = r.v;
            stamped = true;
            break;
        case 10:
            seq = r.v;
            break;
        case 11:
            event = r.bytes;
            has_event = true;
            break;
        case 12:
            interned = r.bytes;
            break;
        case 13:
            flags = r.v;
            break;
        case 35:
            walk_stats(w, r.bytes);
            CHECK(r.p == r.end);
            break;
        case 58:
            clock = r.v;
            break;
        case 59:
            CHECK_INT(flags, 1);
            break;
        case 60:
            descriptor = r.bytes;
            break;
        case 69:
            w->marks++;
            break;
        case 126:
            walk_attributes(w, r.bytes);
            break;
        case 9900: /* the catalog: before all rows */
            CHECK_INT(w->n_rows, 0);
            break;
        case 9901: /* the track of a row */
            CHECK(descriptor.p != NULL);
            break;
        default:
            CHECK(false);
        }
    }
    CHECK(!r.bad && w->clocked);
    if (flags == 1)
        w->cleared = true;
    if (stamped && clock == 0) {
        CHECK(has_event && delta <= INT64_MAX); /* never back in time */
        w->now += (int64_t) delta;
    } else if (stamped) {
        CHECK_INT(clock, w->primary_clock);
        CHECK_INT(delta, w->now);
    }
    if (interned.p != NULL)
        walk_interned(w, interned);
    if (descriptor.p != NULL)
        walk_descriptor(w, descriptor);
    if (has_event) {
        CHECK(stamped && seq == 1 && flags == 0 && w->cleared);
        walk_event(w, event, w->now);
    }
}

static inline void
walk_packets(pf_walk *w, mrd_str body, bool inside)
{
    pb_reader r = pb_of(body), p;

    while (pb_next(&r)) {
        CHECK_INT(r.field, 1);
        p = pb_of(r.bytes);
        if (!inside && r.bytes.len > 2 && (uint8_t) r.bytes.p[0] == 0x92 && r.bytes.p[1] == 3 &&
            pb_next(&p)) {
            CHECK(p.field == 50 && p.p == p.end);
            walk_unpack(w, p.bytes);
        } else {
            walk_packet(w, r.bytes);
        }
    }
    CHECK(!r.bad);
}

static inline pf_walk *
pf_walk_new(const mrd_buf *trace)
{
    pf_walk *w = calloc(1, sizeof(*w));

    w->rows = calloc(WALK_ROWS, sizeof(*w->rows));
    w->slices = calloc(WALK_SLICES, sizeof(*w->slices));
    for (int k = 0; k < 4; k++)
        w->names[k] = calloc(WALK_NAMES, sizeof(char *));
    walk_packets(w, (mrd_str){ (const char *) trace->p, trace->len }, false);
    mrd_buf_cstr(&w->attributes);
    return w;
}

static inline void
pf_walk_free(pf_walk *w)
{
    for (int k = 0; k < 4; k++) {
        for (uint32_t i = 1; i <= w->n_names[k]; i++)
            free(w->names[k][i]);
        free(w->names[k]);
    }
    mrd_buf_fini(&w->attributes);
    free(w->rows);
    free(w->slices);
    free(w);
}

#endif
