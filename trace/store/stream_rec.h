/*
 * trace/store/stream_rec.h - defines the record of one event in the store. A record has a 40-byte
 * head, then the id, the bound, the value, the arguments, the flows, and the text of the arguments.
 * Each of these is only there if its bit in `has` is set. Records have the same form in memory and
 * in the temporary file: host byte order, 8-byte aligned. Private to stream.c and its helpers.
 */
#ifndef MRD_TRACE_STREAM_REC_H
#define MRD_TRACE_STREAM_REC_H

#include "base/obj.h"
#include "trace/model/event.h"

typedef struct {
    mrd_ev_ns ts;
    mrd_dur_ns dur_ns; /* for a COUNTER the bits of its value, for a FLOW its direction */
    uint32_t seq_lo;
    uint32_t track, name, category;
    uint32_t words; /* size of the record in 8-byte words */
    uint8_t seq_hi; /* upper bits of seq, which has 40 bits */
    uint8_t kind, flags, has;
} mrd_rec;

_Static_assert(sizeof(mrd_rec) == 40, "the record head has no padding");

enum {
    REC_ID = 1,     /* the id, a uint64 */
    REC_BOUND = 2,  /* the bound, a uint32, then four zero bytes as padding */
    REC_VALUE = 4,  /* the value of a LOSS, an int64 */
    REC_ARGS = 8,   /* uint32 count, uint32 bytes of text, then the mrd_args */
    REC_TEXT = 16,  /* an argument has text: v.u is its offset in the text */
    REC_FLOWS = 32, /* uint64 count, then the mrd_flows */
};

#define MRD_REC_SEQ_MAX   ((UINT64_C(1) << 40) - 1)
#define MRD_REC_BYTES_MAX ((size_t) 256 << 20) /* maximum size of one event's arguments */

static inline uint64_t
mrd_rec_seq(const mrd_rec *rec)
{
    return (uint64_t) rec->seq_hi << 32 | rec->seq_lo;
}

static inline mrd_ev_ns
mrd_rec_end(const mrd_rec *rec)
{
    int64_t end;

    if (rec->kind != MRD_SPAN && rec->kind != MRD_LOSS)
        return rec->ts;
    if (rec->dur_ns < 0 || __builtin_add_overflow(rec->ts.ns, rec->dur_ns, &end))
        return (mrd_ev_ns){ INT64_MAX };
    return (mrd_ev_ns){ end };
}

static inline int
mrd_rec_rank(uint8_t kind)
{
    return kind == MRD_FLOW ? 0 : kind == MRD_LOSS ? 1 : 2;
}

/* Compares two records by mrd_event_order. */
static inline int
mrd_rec_order(const mrd_rec *a, const mrd_rec *b)
{
    int64_t a_end, b_end;
    uint64_t a_seq = mrd_rec_seq(a), b_seq = mrd_rec_seq(b);

    if (a->ts.ns != b->ts.ns)
        return mrd_ev_before(a->ts, b->ts) ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (mrd_rec_rank(a->kind) != mrd_rec_rank(b->kind))
        return mrd_rec_rank(a->kind) - mrd_rec_rank(b->kind);
    a_end = mrd_rec_end(a).ns;
    b_end = mrd_rec_end(b).ns;
    if (a_end != b_end)
        return a_end > b_end ? -1 : 1;
    return a_seq < b_seq ? -1 : a_seq > b_seq;
}

/* Copies the arguments of a record to *scratch, and sets their pointers to the text in the record.
 * Returns the copies; NULL if out of memory. */
static inline const mrd_arg *
mrd_rec_args(const uint8_t *args, uint32_t count, const uint8_t *text, mrd_buf *scratch)
{
    mrd_arg *copy;

    mrd_buf_reset(scratch);
    mrd_buf_add(scratch, args, count * sizeof(mrd_arg));
    if (scratch->err != MRD_OK)
        return NULL;
    copy = (mrd_arg *) (void *) scratch->p;
    for (uint32_t i = 0; i < count; i++) {
        if (mrd_arg_has_text(&copy[i]))
            copy[i].v.text = (const char *) text + copy[i].v.u;
    }
    return copy;
}

/* Fills *ev from rec. args, flows and text point into rec or *scratch. Returns false if out of
 * memory. */
static inline bool
mrd_rec_get(const mrd_rec *rec, mrd_event *ev, mrd_buf *scratch)
{
    const uint8_t *bytes = (const uint8_t *) (rec + 1), *args = NULL;

    ev->ts = rec->ts;
    ev->dur_ns = rec->dur_ns;
    ev->seq = mrd_rec_seq(rec);
    ev->id = 0;
    ev->ivalue = 0;
    ev->track = rec->track;
    ev->name = rec->name;
    ev->category = rec->category;
    ev->bound_ns = 0;
    ev->kind = rec->kind;
    ev->flags = rec->flags;
    ev->flow_dir = ev->flow_count = 0;
    ev->arg_count = 0;
    ev->args = NULL;
    ev->flows = NULL;
    if (rec->kind == MRD_COUNTER) {
        ev->ivalue = rec->dur_ns;
        ev->dur_ns = 0;
    } else if (rec->kind == MRD_FLOW) {
        ev->flow_dir = (uint8_t) rec->dur_ns;
        ev->dur_ns = 0;
    }
    if (rec->has == 0)
        return true;
    if (rec->has & REC_ID)
        memcpy(&ev->id, bytes, 8), bytes += 8;
    if (rec->has & REC_BOUND)
        memcpy(&ev->bound_ns, bytes, 4), bytes += 8;
    if (rec->has & REC_VALUE)
        memcpy(&ev->ivalue, bytes, 8), bytes += 8;
    if (rec->has & REC_ARGS) {
        memcpy(&ev->arg_count, bytes, 4), bytes += 8;
        args = bytes;
        ev->args = (const mrd_arg *) (const void *) bytes;
        bytes += ev->arg_count * sizeof(mrd_arg);
    }
    if (rec->has & REC_FLOWS) {
        ev->flow_count = *bytes, bytes += 8;
        ev->flows = (const mrd_flow *) (const void *) bytes;
        bytes += ev->flow_count * sizeof(mrd_flow);
    }
    if (rec->has & REC_TEXT)
        return (ev->args = mrd_rec_args(args, ev->arg_count, bytes, scratch)) != NULL;
    return true;
}

#endif
