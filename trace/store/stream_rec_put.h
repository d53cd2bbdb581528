/*
 * trace/store/stream_rec_put.h - makes a record of the store (stream_rec.h) from an event. Private
 * to stream.c.
 */
#ifndef MRD_TRACE_STREAM_REC_PUT_H
#define MRD_TRACE_STREAM_REC_PUT_H

#include "trace/store/stream_rec.h"

/* Returns the size of the event's record in bytes. The caller passes *ret_has and *ret_text on to
 * mrd_rec_put. */
static inline size_t
mrd_rec_size(const mrd_event *ev, uint8_t *ret_has, size_t *ret_text)
{
    size_t size = sizeof(mrd_rec), text = 0;
    unsigned has = 0;

    if (ev->id != 0)
        has |= REC_ID, size += 8;
    if (ev->bound_ns != 0)
        has |= REC_BOUND, size += 8;
    if (ev->kind == MRD_LOSS)
        has |= REC_VALUE, size += 8;
    if (ev->arg_count > 0) {
        has |= REC_ARGS;
        size += 8 + ev->arg_count * sizeof(mrd_arg);
        for (uint32_t i = 0; i < ev->arg_count; i++) {
            if (mrd_arg_has_text(&ev->args[i]))
                has |= REC_TEXT, text += ev->args[i].len;
        }
    }
    if (ev->flow_count > 0)
        has |= REC_FLOWS, size += 8 + ev->flow_count * sizeof(mrd_flow);
    *ret_has = (uint8_t) has;
    *ret_text = text;
    return size + ((text + 7) & ~(size_t) 7);
}

static inline uint8_t *
mrd_rec_put_args(uint8_t *bytes, const mrd_event *ev)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++, bytes += sizeof(mrd_arg)) {
        mrd_arg arg = ev->args[i];

        if (mrd_arg_has_text(&arg)) {
            arg.v.u = at;
            at += arg.len;
        }
        memcpy(bytes, &arg, sizeof(arg));
    }
    return bytes;
}

/* Writes the event at bytes, which is aligned and has room for `size` bytes (mrd_rec_size). */
static inline void
mrd_rec_put(uint8_t *bytes, size_t size, uint8_t has, size_t text, const mrd_event *ev,
            uint64_t seq)
{
    mrd_rec rec = { ev->ts,
                    ev->dur_ns,
                    (uint32_t) seq,
                    ev->track,
                    ev->name,
                    ev->category,
                    (uint32_t) (size / 8),
                    (uint8_t) (seq >> 32),
                    ev->kind,
                    ev->flags,
                    has };

    if (ev->kind == MRD_COUNTER)
        rec.dur_ns = ev->ivalue; /* copies the bits of the union, also for a double */
    else if (ev->kind == MRD_FLOW)
        rec.dur_ns = ev->flow_dir;
    memcpy(bytes, &rec, sizeof(rec));
    if (has == 0)
        return;
    bytes += sizeof(rec);
    if (has & REC_ID)
        memcpy(bytes, &ev->id, 8), bytes += 8;
    if (has & REC_BOUND) {
        uint32_t word[2] = { ev->bound_ns, 0 };

        memcpy(bytes, word, 8), bytes += 8;
    }
    if (has & REC_VALUE)
        memcpy(bytes, &ev->ivalue, 8), bytes += 8;
    if (has & REC_ARGS) {
        uint32_t word[2] = { ev->arg_count, (uint32_t) text };

        memcpy(bytes, word, 8);
        bytes = mrd_rec_put_args(bytes + 8, ev);
    }
    if (has & REC_FLOWS) {
        uint64_t count = ev->flow_count;

        memcpy(bytes, &count, 8), bytes += 8;
        memcpy(bytes, ev->flows, ev->flow_count * sizeof(mrd_flow));
        bytes += ev->flow_count * sizeof(mrd_flow);
    }
    if (has & REC_TEXT) {
        for (uint32_t i = 0; i < ev->arg_count; i++) {
            if (mrd_arg_has_text(&ev->args[i]) && ev->args[i].len > 0) {
                memcpy(bytes, ev->args[i].v.text, ev->args[i].len);
                bytes += ev->args[i].len;
            }
        }
        memset(bytes, 0, (8 - text % 8) % 8);
    }
}

#endif
