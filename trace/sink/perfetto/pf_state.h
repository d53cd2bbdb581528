/*
 * trace/sink/perfetto/pf_state.h - the state of a Perfetto trace that is being written, and the
 * packets of its events. sink_perfetto.c, which handles events, and pf_part.c, which begins and
 * ends files, use this header.
 */
#ifndef MRD_TRACE_PF_STATE_H
#define MRD_TRACE_PF_STATE_H

#include "trace/model/lanes.h"
#include "trace/sink/perfetto/pf_ends.h"
#include "trace/sink/perfetto/pf_file.h"
#include "trace/sink/perfetto/pf_flows.h"
#include "trace/sink/perfetto/pf_names.h"
#include "trace/sink/perfetto/pf_parts.h"
#include "trace/sink/perfetto/pf_processes.h"
#include "trace/sink/perfetto/pf_tracks.h"

/* maximum bytes of an event's packet if it has no arguments of its own */
#define PF_FAST_ROOM    192u
#define PF_END_ROOM     24u /* maximum bytes of an END packet */
#define PF_SEQ          1u
#define PF_FLAG_CLEARED 1u

/* PF_HOT marks functions that run for every plain span. All of them are inlined into one function.
 * PF_COLD keeps rarely used functions out of it. */
#define PF_HOT  static inline __attribute__((always_inline))
#define PF_COLD static __attribute__((noinline))

/* The last sample of a counter. */
typedef struct {
    bool has, whole; /* has: there was a sample; whole: `bits` is an integer and not a double */
    uint64_t bits;   /* bits of the integer or the double */
} mrd_pf_value;

/* A span without an end. Every later file of the trace has to repeat it. */
typedef struct {
    uint32_t order;
    mrd_pf_begun begun;
} mrd_pf_unended;

typedef struct mrd_pf {
    const mrd_sink_env *env;
    mrd_pf_parts parts;
    mrd_out *out; /* output of the part that is being written */
    /* size in bytes at which the next file of the trace begins; UINT64_MAX means never */
    uint64_t cut_at;
    uint32_t part;    /* number of the current file of the trace, from 1 */
    mrd_pf_part said; /* the entry of the current file in the index */
    mrd_why why;      /* message for the error with which beginning a new file failed */
    uint8_t *seen;    /* indexed by mrd_track_id: nonzero if this part has events of the track */
    /* indexed by mrd_track_id: the latest sample of each counter; NULL if the trace is never
     * split */
    mrd_pf_value *values;
    mrd_pf_unended *unended;
    size_t n_unended, cap_unended;
    mrd_pf_file file;
    mrd_pf_tracks rows;
    mrd_pf_names names;
    mrd_pf_ends ends;
    mrd_pf_flows flows;
    mrd_pf_identity identity;
    mrd_lanes *lanes, *loss_lanes;
    bool started;
    mrd_dur_ns shift_ns; /* ns that are added to session times to get the times of the trace */
    mrd_ev_ns now;       /* trace time of the latest event written */
    uint64_t events, since_mark, spans, lost, clamped; /* counts of the current file */
    uint64_t flows_without_start;
    uint64_t *lost_of;     /* number of lost events, indexed by mrd_proc_id */
    uint32_t order;        /* sequence number for the next span's BEGIN */
    mrd_buf packet, event; /* the packet and the event that are being built */
    /* indexed by clock; row of the counter with its error bound, or 0 if not written yet */
    mrd_pb_field *clock_row;
    size_t n_clocks;
    mrd_err err;
} mrd_pf;

/* ---- Packets ---- */

static inline void
pf_packet_begin(mrd_pf *pf)
{
    mrd_buf_reset(&pf->packet);
    mrd_pb_u64(&pf->packet, PF_SEQUENCE_ID, PF_SEQ);
}

static inline void
pf_packet_end(mrd_pf *pf)
{
    mrd_pf_packet(&pf->file, &pf->packet);
}

static inline uint64_t
pf_trace_clock(const mrd_pf *pf)
{
    return pf->env->options->wall_time && pf->shift_ns == 0 ? PF_REALTIME : PF_BOOTTIME;
}

/* Writes the fields that begin every event: the sequence, and the time since the previous event.
 * The flag NEEDS_INCREMENTAL_STATE is left out. It makes readers skip packets before a sequence's
 * first one, but there are none here. The flag would cost two bytes per packet. */
PF_HOT uint8_t *
pf_put_head(mrd_pf *pf, uint8_t *p, mrd_ev_ns at)
{
    static const uint8_t rest[] = { PF_SEQUENCE_ID, PF_SEQ };

    *p++ = PF_TIMESTAMP;
    p = mrd_pb_varint_short(p, (uint64_t) at.ns - (uint64_t) pf->now.ns);
    pf->now = at;
    memcpy(p, rest, sizeof(rest));
    return p + sizeof(rest);
}

/* Writes an event without arguments of its own. Its names must be written already. 0 for `category`
 * or `name` and NULL for `whose` (the track's identity) mean none. */
PF_HOT void
pf_put_plain(mrd_pf *pf, mrd_ev_ns at, uint8_t type, mrd_pb_field row, mrd_pb_field category,
             mrd_pb_field name, const mrd_pf_identity_row *whose)
{
    uint8_t *start = mrd_pf_room(&pf->file, PF_FAST_ROOM), *bytes;
    unsigned len = 2 + mrd_pb_field_len(row) + mrd_pb_field_len(category) + mrd_pb_field_len(name) +
                   (whose == NULL ? 0 : whose->len);

    if (start == NULL)
        return;
    start[0] = PF_TRACE_PACKET;
    bytes = pf_put_head(pf, start + 2, at);
    bytes[0] = PF_TRACK_EVENT;
    bytes[1] = (uint8_t) len;
    bytes[2] = PF_EVENT_TYPE;
    bytes[3] = type;
    bytes = mrd_pb_put_field(bytes + 4, row);
    bytes = mrd_pb_put_field(bytes, category);
    bytes = mrd_pb_put_field(bytes, name);
    if (whose != NULL) {
        /* A copy of fixed size is faster. It copies too many bytes after `len`, but the next write
         * overwrites those. */
        memcpy(bytes, whose->bytes, sizeof(whose->bytes));
        bytes += whose->len;
    }
    start[1] = (uint8_t) (bytes - start - 2);
    mrd_pf_did(&pf->file, bytes);
}

/* Begins an event in pf->event. pf_write_event completes it. */
static inline void
pf_begin_event(mrd_pf *pf, uint8_t type, mrd_pb_field row)
{
    mrd_buf_reset(&pf->event);
    mrd_pb_u64(&pf->event, PF_EVENT_TYPE, type);
    mrd_pb_field_add(&pf->event, row);
}

/* Writes pf->event as a packet, with the names that it uses for the first time. */
static inline void
pf_write_event(mrd_pf *pf, mrd_ev_ns at)
{
    mrd_buf *fresh = &pf->names.fresh;
    uint8_t head[16] = { 0 }, *bytes;
    size_t n_head = (size_t) (pf_put_head(pf, head, at) - head);
    size_t n_fresh = fresh->len > 0 ? mrd_pb_bytes_len(fresh->len) : 0;
    size_t body = n_head + n_fresh + mrd_pb_bytes_len(pf->event.len);

    if (fresh->err != MRD_OK || pf->event.err != MRD_OK)
        pf->err = MRD_NOMEM;
    else if ((bytes = mrd_pf_packet_room(&pf->file, body)) != NULL) {
        /* A copy of fixed size is faster. It also copies bytes after the head, which the next write
         * overwrites. */
        memcpy(bytes, head, sizeof(head));
        bytes += n_head;
        if (fresh->len > 0)
            bytes = mrd_pb_put_bytes(bytes, PF_INTERNED_DATA, fresh->p, fresh->len);
        mrd_pf_did(&pf->file, mrd_pb_put_bytes(bytes, PF_TRACK_EVENT, pf->event.p, pf->event.len));
    }
    mrd_buf_reset(fresh);
}

static inline void
pf_add_fixed(mrd_buf *to, uint32_t tag, uint64_t v)
{
    mrd_pb_raw(to, tag);
    if (mrd_buf_room(to, 8))
        to->len = (size_t) (mrd_pb_fixed64(to->p + to->len, v) - to->p);
}

static inline void
pf_add_value(mrd_buf *to, const mrd_pf_value *value)
{
    if (value->whole)
        mrd_pb_u64(to, PF_EVENT_COUNTER, value->bits);
    else
        pf_add_fixed(to, PF_EVENT_COUNTER_DOUBLE, value->bits);
}

/* Returns the size of the current part in bytes, before compression. */
PF_HOT uint64_t
pf_size(const mrd_pf *pf)
{
    return pf->file.raw + pf->file.block.len;
}

#endif
