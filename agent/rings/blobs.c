#include "agent/rings/blobs.h"

#include <stdlib.h>

#include "agent/rings/loss_count.h"
#include "agent/rings/ring_memory.h"
#include "agent/rings/ring_tracks.h"
#include "base/num.h"
#include "base/vec.h"
#include "trace/json/in.h"

static void
blob_end(mrd_drain *drain, ring *r, bool cut)
{
    r->blob.open = false;
    if (r->blob.p != NULL)
        memset(r->blob.p + r->blob.len, 0, MRD_IN_PAD);
    (void) mrd_drain_text_seen(drain, r, r->blob.pos);
    mrd_drain_runtime(drain, r, (mrd_str){ (char *) r->blob.p, r->blob.len }, cut);
    r->blob.len = 0;
    if (mrd_drain_memory_is_short(drain)) {
        free(r->blob.p);
        r->blob.p = NULL;
        r->blob.cap = 0;
    }
}

static bool
blob_room(mrd_drain *drain, ring *r, blob *b, size_t more)
{
    /* check the memory limit before the buffer grows, because it grows to about twice its size */
    if (b->cap - b->len < more + MRD_IN_PAD) {
        (void) mrd_drain_memory_note(drain, r);
        if (!mrd_drain_memory_fits(drain, r, b->cap + more))
            return false;
    }
    return MRD_VEC_ROOM_MAX(b->p, b->len, b->cap, more + MRD_IN_PAD,
                            MRD_DRAIN_BLOB_MAX + MRD_IN_PAD);
}

/* Appends a chunk to the current text of runtime JSON. If the chunk does not continue this text,
 * the chunks in between were lost. The current text is then passed on as truncated. The workload's
 * process has already counted the lost chunks. */
void
mrd_drain_blob_chunk(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    blob *b = &r->blob;

    if (!drain->again)
        drain->counts.blob_bytes += rec->body_len;
    if (b->open &&
        ((rec->flags & MRD_RECF_FIRST) != 0 || rec->domain != b->number || rec->value != b->len))
        blob_end(drain, r, true);
    if ((rec->flags & MRD_RECF_FIRST) != 0) {
        mrd_ring_stats st;

        mrd_ring_get_stats(r->reader, &st);
        b->open = true;
        b->pos = st.read - ((sizeof(mrd_ring_rec) + rec->body_len + MRD_RING_UNIT - 1) &
                            ~(uint64_t) (MRD_RING_UNIT - 1));
        b->apart = (rec->flags & MRD_RECF_APART) != 0;
        b->number = rec->domain;
        b->len = 0;
        b->tid = rec->tid;
        b->at = rec->ts;
    }
    if (!b->open)
        return; /* the text's first chunk was lost, so the rest is useless */
    if (!blob_room(drain, r, b, rec->body_len)) {
        blob_end(drain, r, true);
        if (!drain->again)
            mrd_drain_lost(drain, r->proc, MRD_DROP_BLOB, 1, rec->ts, rec->ts);
        return;
    }
    memcpy(b->p + b->len, rec->body, rec->body_len);
    b->len += rec->body_len;
    if ((rec->flags & (MRD_RECF_LAST | MRD_RECF_CUT)) != 0)
        blob_end(drain, r, (rec->flags & MRD_RECF_CUT) != 0);
}

/* Reports that the process ended without closing the Neuron runtime. Normally, closing the runtime
 * or returning from main ends libmeridian's thread that fetches the runtime's trace. This thread
 * still ran when the process ended, so the last events of the trace are missing. */
static void
say_not_fetched(mrd_drain *drain, ring *r)
{
    mrd_event ev = { .ts = { mrd_sat_add(r->blob.at.ns, r->proc->shift_ns) },
                     .kind = MRD_INSTANT,
                     .flags = drain->o.simulated ? MRD_EV_SIMULATED : 0 };

    ev.name = mrd_drain_intern(
        r->proc, MRD_STR("the process ended without closing the Neuron runtime: what the runtime "
                         "recorded after this was lost with it, uncounted"));
    ev.track = mrd_drain_track(r, r->blob.tid, 0, MRD_SRC_MERIDIAN | MRD_LINE_OWN, 0);
    mrd_drain_notice(drain, r->proc, &ev);
}

void
mrd_drain_blob_end(mrd_drain *drain, ring *r)
{
    if (r->blob.open)
        blob_end(drain, r, true);
    if (r->blob.tid != 0 && mrd_ring_was_left(r->reader, r->blob.tid))
        say_not_fetched(drain, r);
    r->blob.tid = 0; /* cleared, so that the exit is reported only once */
}

/* Handles a record that a previous agent already processed. Only runtime JSON is parsed again, to
 * find the spans that are still open. No events are emitted. */
void
mrd_drain_again(mrd_drain *drain, ring *r, const mrd_ring_event *rec)
{
    drain->again = true;
    if (rec->kind == MRD_REC_BLOB)
        mrd_drain_blob_chunk(drain, r, rec);
    drain->again = false;
}
