#include "capture/ring/ring_read_int.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#define OWNER_PERIOD_NS 1000000000
#define MAPS_IDLE_MAX   64000000000 /* RING_MAPS_IDLE_NS doubles up to this limit */

#define MULT_UP (MRD_RING_MULT_SHIFT - MRD_RING_CLOCK_SHIFT)
/* A record up to this size is copied from the mapping. A longer one could contain pages that were
 * never written. Mapping would create them, and they would count as the reader's memory. */
#define COPY_MAX 4096

/* The changing part of the header, read at once: head to the end of `lost`. */
#define LIVE_OFF offsetof(mrd_ring_hdr, head)
#define LIVE_LEN (offsetof(mrd_ring_hdr, ops) - LIVE_OFF)

/* Read with a barrier: head before its data, dict_head before its entries. */
/* A snapshot of the fields of the header that change. */
typedef struct {
    uint64_t head, tail;
    uint32_t state, depth;
    struct {
        uint64_t count, first, last, told;
    } lost[MRD_RING_LOST_CAUSES];
} live_part;

static_assert(sizeof(((live_part *) 0)->lost) == sizeof(((mrd_ring_hdr *) 0)->lost),
              "mrd_ring_loss is four numbers");

static mrd_err
get_live(mrd_ring_reader *r, live_part *l)
{
    uint8_t bytes[LIVE_LEN];
    mrd_err err;

    if (r->mem != NULL) {
        const mrd_ring_hdr *m = ring_mem_hdr(r);

        /* acquire: pairs with the release of head in ring_write.c */
        l->head = atomic_load_explicit(&m->head, memory_order_acquire);
        l->state = atomic_load_explicit(&m->state, memory_order_acquire);
        l->depth = atomic_load_explicit(&m->depth, memory_order_relaxed);
        l->tail = atomic_load_explicit(&m->tail, memory_order_relaxed);
        for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
            l->lost[i].count = atomic_load_explicit(&m->lost[i].count, memory_order_relaxed);
            l->lost[i].first = atomic_load_explicit(&m->lost[i].first, memory_order_relaxed);
            l->lost[i].last = atomic_load_explicit(&m->lost[i].last, memory_order_relaxed);
            l->lost[i].told = atomic_load_explicit(&m->lost[i].told, memory_order_relaxed);
        }
        return MRD_OK;
    }
    err = mrd_ring_get(r, LIVE_OFF, bytes, sizeof(bytes));
    atomic_thread_fence(memory_order_acquire);
    memcpy(&l->head, bytes + offsetof(mrd_ring_hdr, head) - LIVE_OFF, sizeof(l->head));
    memcpy(&l->tail, bytes + offsetof(mrd_ring_hdr, tail) - LIVE_OFF, sizeof(l->tail));
    memcpy(&l->state, bytes + offsetof(mrd_ring_hdr, state) - LIVE_OFF, sizeof(l->state));
    memcpy(&l->depth, bytes + offsetof(mrd_ring_hdr, depth) - LIVE_OFF, sizeof(l->depth));
    memcpy(l->lost, bytes + offsetof(mrd_ring_hdr, lost) - LIVE_OFF, sizeof(l->lost));
    return err;
}

static mrd_err
get_dict_head(mrd_ring_reader *r, uint64_t *ret_head)
{
    if (r->mem != NULL) {
        *ret_head = atomic_load_explicit(&ring_mem_hdr(r)->dict_head, memory_order_acquire);
        return MRD_OK;
    }
    return mrd_ring_get(r, offsetof(mrd_ring_hdr, dict_head), ret_head, sizeof(*ret_head));
}

/* ---- the next chunk ---------------------------------------------------------------------------
 */

#define FILE_CUT "the file changed its size"

static mrd_ring_step
ring_bad(mrd_ring_reader *r, mrd_err err, const char *what, uint64_t at)
{
    if (*r->cut != 0) {
        err = MRD_TRUNCATED;
        what = FILE_CUT;
    }
    mrd_why_set(&r->why, err, err == MRD_IO ? errno : 0, "ring %s: %s at position %" PRIu64,
                r->file_name, what, at);
    r->bad = true;
    return MRD_RING_BAD;
}

mrd_ring_step
mrd_ring_refresh_dict(mrd_ring_reader *r)
{
    uint64_t head = 0;
    mrd_why why;
    mrd_err err = get_dict_head(r, &head);

    if (err != MRD_OK)
        return ring_bad(r, err, "cannot read the header", 0);
    if (head < r->dict.used || head > r->dict.len)
        return ring_bad(r, MRD_CORRUPT, "impossible head of the dictionary", head);
    if (head == r->dict.used)
        return MRD_RING_MORE;
    err = mrd_ring_get(r, MRD_RING_HEADER_LEN + r->dict.used, r->dict.bytes + r->dict.used,
                       head - r->dict.used);
    if (err != MRD_OK)
        return ring_bad(r, err, "cannot read the dictionary", r->dict.used);
    if ((err = mrd_ring_dict_take(&r->dict, (uint32_t) head, &why)) == MRD_NOMEM)
        return ring_bad(r, err, "no memory for the dictionary", head);
    if (err != MRD_OK) {
        r->bad = true;
        r->why = why;
        mrd_why_prefix(&r->why, err, "ring %s", r->file_name);
        return MRD_RING_BAD;
    }
    return MRD_RING_MORE;
}

static void
take_losses(mrd_ring_reader *r, const live_part *h)
{
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        r->lost[i] = h->lost[i].count;
        r->told[i] = h->lost[i].told;
        r->first[i] = h->lost[i].first;
        r->last[i] = h->lost[i].last;
    }
}

static int64_t
raw_now(void)
{
    return mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
}

static void
refresh_clock(mrd_ring_reader *r)
{
    mrd_ring_cal cal;

    if (!r->own_tsc || raw_now() < r->next_cal.ns)
        return;
    mrd_ring_cal_read(MRD_RING_CLOCK_TSC, &cal);
    r->next_cal = (mrd_local_ns){ cal.raw_ns + RING_CAL_PERIOD_NS };
    cal.raw_ns += r->ahead_ns;
    mrd_ring_clock_add(&r->clock, &cal);
    r->info.wall_offset_ns = cal.wall_ns - cal.raw_ns;
}

/* Finds the thread of position `pos`: the last thread entry that begins at or before it. */
static void
find_thread(mrd_ring_reader *r, uint64_t pos)
{
    uint32_t i = r->thread, n = r->dict.thread_count;

    while (i + 1 < n && r->dict.thread[i + 1].pos <= pos)
        i++;
    r->thread = i;
    r->thread_ends = i + 1 < n ? r->dict.thread[i + 1].pos : UINT64_MAX;
}

static int32_t
thread_now(const mrd_ring_reader *r)
{
    if (r->dict.thread_count == 0 || r->dict.thread[r->thread].tid <= 0)
        return r->info.name.tid;
    return r->dict.thread[r->thread].tid;
}

/* Returns true if the owner has exited. Maps, which show an exec, are checked more rarely. */
static bool
owner_gone(mrd_ring_reader *r, int64_t now)
{
    bool maps;

    if (r->idle_since.ns == 0)
        r->idle_since = (mrd_local_ns){ now };
    maps = now - r->idle_since.ns >= r->maps_idle_ns;
    if (maps && r->maps_idle_ns < MAPS_IDLE_MAX)
        r->maps_idle_ns *= 2;
    return mrd_ring_owner_check(&r->owner, maps) == MRD_OWNER_DEAD;
}

/* No new records: checks the file and its owner once a second. */
static mrd_ring_step
nothing_new(mrd_ring_reader *r)
{
    struct stat st;
    int64_t now;

    if (r->phase == READ_LAST) { /* the last read came after the owner's death */
        r->phase = READ_OPEN;
        return MRD_RING_MORE;
    }
    if (r->state != MRD_RING_CLOSED) {
        if (r->fd < 0 || (now = raw_now()) < r->next_owner.ns)
            return MRD_RING_AGAIN;
        r->next_owner = (mrd_local_ns){ now + OWNER_PERIOD_NS };
        if (fstat(r->fd, &st) != 0 || (uint64_t) st.st_size != ring_file_len(r))
            return ring_bad(r, MRD_TRUNCATED, FILE_CUT, r->head);
        if (!owner_gone(r, now))
            return MRD_RING_AGAIN;
    }
    r->phase = READ_LAST;
    return MRD_RING_MORE;
}

/* A peeking reader does not hold the tail, so released bytes may have been overwritten. */
static bool
peek_overtaken(mrd_ring_reader *r, uint64_t from)
{
    uint64_t tail = 0;

    if ((r->flags & MRD_RING_PEEK) == 0 ||
        mrd_ring_get(r, offsetof(mrd_ring_hdr, tail), &tail, sizeof(tail)) != MRD_OK)
        return false;
    if (tail <= from || tail > r->head || tail % MRD_RING_UNIT != 0)
        return false;
    r->chunk_pos = tail;
    r->chunk_len = r->at = 0;
    return true;
}

/* Reads the mapping in place. A chunk ends at the end of the area. */
static bool
in_place(const mrd_ring_reader *r)
{
    return r->mem != NULL && (r->flags & MRD_RING_PEEK) == 0;
}

/*
 * Gets the next chunk. MORE means that the chunk has data, or the phase changed: run the loop
 * again.
 */
static mrd_ring_step
fill(mrd_ring_reader *r)
{
    live_part h;
    uint64_t from = r->chunk_pos + r->at, off, n;
    mrd_ring_step step;
    mrd_err err;

    r->chunk_pos = from;
    r->chunk_len = r->at = 0;
    refresh_clock(r);
    if ((err = get_live(r, &h)) != MRD_OK)
        return ring_bad(r, err, "cannot read the header", 0);
    if (h.head < r->head || h.head < from || h.head % MRD_RING_UNIT != 0 ||
        h.head - r->tail > r->info.data_len + ((r->flags & MRD_RING_PEEK) ? h.head : 0))
        return ring_bad(r, MRD_CORRUPT, "impossible head", h.head);
    r->head = h.head;
    r->state = h.state;
    r->depth = h.depth > MRD_RING_OPEN_MAX ? MRD_RING_OPEN_MAX : h.depth;
    take_losses(r, &h);
    if (h.head == from)
        return nothing_new(r);
    if ((step = mrd_ring_refresh_dict(r)) != MRD_RING_MORE)
        return step;
    find_thread(r, from);
    off = from & (r->info.data_len - 1);
    n = r->info.data_len - off;
    n = n < h.head - from ? n : h.head - from;
    off += MRD_RING_HEADER_LEN + r->info.dict_len;
    if (in_place(r)) {
        r->data = r->mem + off;
    } else {
        n = n < r->chunk_cap ? n : r->chunk_cap;
        r->data = r->chunk;
        if ((err = mrd_ring_get(r, off, r->chunk, n)) != MRD_OK)
            return ring_bad(r, err, "cannot read the data", from);
    }
    if (peek_overtaken(r, from))
        return MRD_RING_MORE;
    r->chunk_len = n;
    r->idle_since = (mrd_local_ns){ 0 };
    r->maps_idle_ns = RING_MAPS_IDLE_NS;
    return MRD_RING_MORE;
}

/* ---- records --------------------------------------------------------------------------------- */

/* A record that does not fit into the rest of the chunk: cut by the chunk, or invalid. */
static mrd_ring_step
short_record(mrd_ring_reader *r, size_t len)
{
    uint64_t pos = r->chunk_pos + r->at, off = pos & (r->info.data_len - 1);

    if (len == 0)
        return ring_bad(r, MRD_CORRUPT, "record of length 0", pos);
    if (len > MRD_RING_REC_MAX || len > r->info.data_len - off)
        return ring_bad(r, MRD_CORRUPT, "record longer than the limit or past the end", pos);
    if (pos + len <= r->head)
        return fill(r); /* starts the next chunk with this record */
    if (r->stuck_head == r->head)
        return ring_bad(r, MRD_CORRUPT, "record ends behind the head", pos);
    r->stuck_head = r->head; /* perhaps a torn read of head: a second read decides */
    return fill(r);
}

/* If the first item is NAME, it is the record's name. */
static void
take_inline_name(mrd_ring_event *ev)
{
    mrd_ring_item item;

    if (ev->body_len < sizeof(item))
        return;
    memcpy(&item, ev->body, sizeof(item));
    if (item.type != MRD_ITEM_NAME || item.len > ev->body_len - sizeof(item))
        return;
    ev->name_text = (mrd_str){ (const char *) ev->body + sizeof(item), item.len };
}

static void
seen_time(mrd_ring_reader *r, int64_t ns)
{
    if (ns > r->newest.ns)
        r->newest = (mrd_local_ns){ ns };
}

static void
decode_times(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    int64_t start = mrd_ring_clock_ns(&r->clock, rec->ts);

    ev->ts = (mrd_local_ns){ start };
    ev->dur_ns = 0;
    if (rec->kind == MRD_REC_SPAN) {
        int64_t end = mrd_ring_clock_ns(&r->clock, rec->ts + rec->value);

        ev->dur_ns = end > start ? end - start : 0;
        r->win.span_ticks = rec->ts;
        r->win.span_name = rec->name;
    }
    seen_time(r, start + ev->dur_ns);
}

static mrd_ring_step
loss_event(mrd_ring_reader *r, uint32_t cause, uint64_t first, uint64_t last, uint64_t count,
           mrd_ring_event *ev)
{
    memset(ev, 0, sizeof(*ev));
    if (cause >= MRD_RING_LOST_CAUSES)
        cause = MRD_RING_LOST_CAUSES - 1;
    ev->kind = MRD_REC_LOSS;
    ev->flags = (uint8_t) cause;
    ev->tid = thread_now(r);
    ev->value = count;
    if (ring_sane_ticks(r, first) && ring_sane_ticks(r, last)) {
        int64_t end = mrd_ring_clock_ns(&r->clock, last);

        ev->ts = (mrd_local_ns){ mrd_ring_clock_ns(&r->clock, first) };
        ev->dur_ns = end > ev->ts.ns ? end - ev->ts.ns : 0;
    }
    r->reported[cause] += count;
    return MRD_RING_LOST;
}

static mrd_ring_step
clock_record(mrd_ring_reader *r, const mrd_ring_rec *rec)
{
    mrd_ring_cal cal = { rec->ts, (int64_t) rec->value, (int64_t) rec->extra, rec->name };

    if (!r->own_tsc) { /* our own readings are more reliable than the workload's */
        mrd_ring_clock_add(&r->clock, &cal);
        r->info.wall_offset_ns = (int64_t) (rec->extra - rec->value);
    }
    return MRD_RING_AGAIN; /* nothing for the caller: continue */
}

/* Handles kinds that are not plain events. Returns AGAIN if there is nothing for the caller. */
static mrd_ring_step
special(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    switch (rec->kind) {
    case MRD_REC_PAD:
        return MRD_RING_AGAIN;
    case MRD_REC_LOSS:
        return loss_event(r, rec->name, rec->ts, rec->value, rec->extra, ev);
    case MRD_REC_CLOCK:
        return clock_record(r, rec);
    default:
        r->skipped++;
        return MRD_RING_AGAIN;
    }
}

static mrd_ring_step
blob_body(mrd_ring_reader *r, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    if (rec->track > ev->body_len)
        return ring_bad(r, MRD_CORRUPT, "blob chunk longer than its record", r->chunk_pos + r->at);
    ev->body_len = rec->track;
    ev->track = 0;
    return MRD_RING_MORE;
}

static mrd_ring_step
decode(mrd_ring_reader *r, const mrd_ring_rec *rec, size_t len, mrd_ring_event *ev)
{
    static const uint8_t plain[256] = {
        [MRD_REC_SPAN] = 1,    [MRD_REC_BEGIN] = 1,   [MRD_REC_END] = 1,
        [MRD_REC_INSTANT] = 1, [MRD_REC_COUNTER] = 1, [MRD_REC_FLOW] = 1,
        [MRD_REC_BLOB] = 1,    [MRD_REC_MODEL] = 1,   [MRD_REC_NOTICE] = 1,
    };

    if (!plain[rec->kind])
        return special(r, rec, ev);
    if (!ring_sane_ticks(r, rec->ts) ||
        (rec->kind == MRD_REC_SPAN && !ring_sane_ticks(r, rec->ts + rec->value)))
        return ring_bad(r, MRD_CORRUPT, "impossible time", r->chunk_pos + r->at);
    ev->kind = rec->kind;
    ev->flags = rec->flags;
    ev->tid = thread_now(r);
    ev->name = rec->name;
    ev->domain = rec->domain;
    ev->track = rec->track;
    ev->value = rec->value;
    ev->name_text = (mrd_str){ NULL, 0 };
    ev->body = (const uint8_t *) rec + sizeof(*rec);
    ev->body_len = (uint32_t) (len - sizeof(*rec));
    decode_times(r, rec, ev);
    r->records++;
    if (rec->kind == MRD_REC_BLOB)
        return blob_body(r, rec, ev);
    if ((rec->flags & MRD_RECF_BODY) == 0)
        ev->body_len = 0;
    else if (rec->name == 0)
        take_inline_name(ev);
    return MRD_RING_MORE;
}

/* ---- after the owner's end --------------------------------------------------------------------
 */

/* Returns true if the owner was killed between its two stores: the scope is already in a SPAN
 * record, or counted as lost. */
static bool
scope_accounted(const mrd_ring_reader *r, const mrd_ring_scope *s)
{
    uint64_t lost = r->lost[MRD_RING_LOST_FULL] + r->lost[MRD_RING_LOST_BIG];

    return (s->ts == r->win.span_ticks && (uint32_t) (s->name_domain >> 32) == r->win.span_name) ||
           (s->ending != 0 && lost >= s->ending);
}

static void
scope_event(mrd_ring_reader *r, const mrd_ring_scope *s, mrd_ring_event *ev)
{
    uint64_t name_domain = s->name_domain, track_flags = s->track_flags;

    memset(ev, 0, sizeof(*ev));
    ev->kind = MRD_REC_SPAN;
    ev->flags = (uint8_t) ((uint32_t) track_flags & (MRD_RECF_FRAME | MRD_RECF_API));
    ev->tid = thread_now(r);
    ev->name = (uint32_t) (name_domain >> 32);
    ev->domain = (uint32_t) name_domain;
    ev->track = (uint32_t) (track_flags >> 32);
    ev->ts = (mrd_local_ns){ mrd_ring_clock_ns(&r->clock, s->ts) };
    ev->dur_ns = MRD_RING_DUR_NONE;
}

/* Gets the next scope that was open when the owner died. Returns AGAIN if there is none. */
static mrd_ring_step
next_open_scope(mrd_ring_reader *r, mrd_ring_event *ev)
{
    if (r->open_at == 0 && r->depth > 0) {
        if (mrd_ring_refresh_dict(r) != MRD_RING_MORE)
            return MRD_RING_BAD;
        if (mrd_ring_get(r, offsetof(mrd_ring_hdr, open), r->open, sizeof(r->open)) != MRD_OK)
            return ring_bad(r, MRD_TRUNCATED, "cannot read the header", 0);
    }
    while (r->open_at < r->depth) {
        const mrd_ring_scope *s = &r->open[r->open_at++];

        if (s->ts == 0 || !ring_sane_ticks(r, s->ts) || scope_accounted(r, s))
            continue;
        scope_event(r, s, ev);
        r->records++;
        return MRD_RING_MORE;
    }
    r->phase = READ_GAPS;
    return MRD_RING_AGAIN;
}

/* Reads the header's slots twice. A scope that is equal in both was there in between. */
size_t
mrd_ring_open_scopes(mrd_ring_reader *r, mrd_ring_event ret_scopes[MRD_RING_OPEN_MAX])
{
    mrd_ring_scope first[MRD_RING_OPEN_MAX], second[MRD_RING_OPEN_MAX];
    live_part h;
    size_t n = 0;
    uint32_t depth;

    if (r->bad || r->phase != READ_LIVE || get_live(r, &h) != MRD_OK || h.depth == 0 ||
        mrd_ring_get(r, offsetof(mrd_ring_hdr, open), first, sizeof(first)) != MRD_OK)
        return 0;
    depth = h.depth;
    atomic_thread_fence(memory_order_acquire);
    if (get_live(r, &h) != MRD_OK ||
        mrd_ring_get(r, offsetof(mrd_ring_hdr, open), second, sizeof(second)) != MRD_OK ||
        mrd_ring_refresh_dict(r) != MRD_RING_MORE)
        return 0;
    depth = h.depth < depth ? h.depth : depth;
    for (uint32_t i = 0; i < depth && i < MRD_RING_OPEN_MAX; i++) {
        const mrd_ring_scope *s = &second[i];

        if (s->ts == 0 || s->ts != first[i].ts || s->ending != 0 || !ring_sane_ticks(r, s->ts) ||
            scope_accounted(r, s))
            continue;
        if (s->ts > r->clock.newest) /* it is converted to the same time when it ends */
            r->clock.newest = s->ts;
        scope_event(r, s, &ret_scopes[n++]);
    }
    return n;
}

/* Returns the losses after the last LOSS record. A reader that resumed does not have what the
 * previous reader was given, so it takes the writer's count. */
static mrd_ring_step
next_gap(mrd_ring_reader *r, mrd_ring_event *ev)
{
    while (r->gap_at < MRD_RING_LOST_CAUSES) {
        uint32_t i = r->gap_at++;
        uint64_t told = r->resumed && r->told[i] > r->reported[i] ? r->told[i] : r->reported[i];

        if (r->lost[i] > told)
            return loss_event(r, i, r->first[i], r->last[i], r->lost[i] - told, ev);
    }
    r->phase = READ_END;
    return MRD_RING_END;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Takes the state of the inline part over. */
static void
leave_window(mrd_ring_reader *r)
{
    mrd_ring_window *w = &r->win;
    uint64_t newest = w->seg_ticks + w->newest;

    if (w->at == NULL)
        return;
    r->at = (size_t) (w->at - r->data);
    r->records += (uint64_t) (w->at - w->mark) / MRD_RING_UNIT;
    w->mark = w->at;
    if (w->newest != 0 && newest > r->clock.newest)
        r->clock.newest = newest;
    if (w->newest != 0)
        seen_time(r, mrd_ring_clock_ns(&r->clock, newest));
}

/* Sets the window to the bytes ahead in the chunk that belong to the current thread. */
static void
enter_window(mrd_ring_reader *r)
{
    mrd_ring_window *w = &r->win;
    uint64_t pos = r->chunk_pos + r->at, own = r->thread_ends - pos;
    size_t left = r->chunk_len - r->at;

    w->at = w->mark = r->data + r->at;
    w->end = w->at + (r->bad || r->thread_ends <= pos ? 0 : own < left ? own - own % 32 : left);
    w->tid = thread_now(r);
    w->newest = 0;
    w->seg_ticks = r->base_ticks;
    w->seg = (mrd_local_ns){ (int64_t) r->base_ticks };
    w->seg_mult = 1ull << MRD_RING_MULT_SHIFT;
    if (r->clock.id != MRD_RING_CLOCK_RAW) {
        w->seg_ticks = r->clock.now.ticks;
        w->seg = r->clock.now.raw;
        w->seg_mult = r->clock.now.mult << MULT_UP; /* at most 10 ns: it fits */
    }
}

/* The chunk is used up. True means that *ret_step is the answer, false that the loop continues (a
 * new chunk, or a bad ring). */
static bool
between_chunks(mrd_ring_reader *r, mrd_ring_event *ev, mrd_ring_step *ret_step)
{
    switch (r->phase) {
    case READ_LIVE:
    case READ_LAST:
        *ret_step = fill(r);
        return *ret_step == MRD_RING_AGAIN;
    case READ_OPEN:
        *ret_step = next_open_scope(r, ev);
        return *ret_step == MRD_RING_MORE;
    case READ_GAPS:
        *ret_step = next_gap(r, ev);
        return true;
    case READ_END:
        break;
    }
    *ret_step = MRD_RING_END;
    return true;
}

/* Returns the record at r->at in a form that cannot change: it is copied from the mapping. NULL if
 * the ring is bad. */
static const mrd_ring_rec *
stable_record(mrd_ring_reader *r, const mrd_ring_rec *first, size_t len)
{
    uint64_t pos = r->chunk_pos + r->at;
    mrd_err err = MRD_OK;

    if (!in_place(r))
        return (const void *) (r->data + r->at);
    if (len <= COPY_MAX)
        memcpy(r->chunk, r->data + r->at, len);
    else
        err = mrd_ring_get(r, (uint64_t) (r->data + r->at - r->mem), r->chunk, len);
    memcpy(r->chunk, first, sizeof(*first));
    if (err != MRD_OK || *r->cut != 0) {
        (void) ring_bad(r, err, "cannot read the data", pos);
        return NULL;
    }
    return (const void *) r->chunk;
}

/* Returns one step; afterwards `r->at` is after the bytes that it consumed. */
static mrd_ring_step
next_checked(mrd_ring_reader *r, mrd_ring_event *ret_event)
{
    mrd_ring_step step;

    while (!r->bad) {
        const mrd_ring_rec *rec;
        mrd_ring_rec first;
        size_t left = r->chunk_len - r->at, len;

        if (__builtin_expect(left < MRD_RING_UNIT, 0)) {
            if (between_chunks(r, ret_event, &step))
                return step;
            continue;
        }
        mrd_ring_rec_load(r->data + r->at, &first);
        len = (size_t) first.units * MRD_RING_UNIT;
        if (__builtin_expect(len > left || len == 0 || len > MRD_RING_REC_MAX, 0)) {
            if (short_record(r, len) == MRD_RING_BAD)
                break;
            continue;
        }
        if ((rec = stable_record(r, &first, len)) == NULL)
            break;
        if (__builtin_expect(r->chunk_pos + r->at >= r->thread_ends, 0))
            find_thread(r, r->chunk_pos + r->at);
        step = decode(r, rec, len, ret_event);
        if (step == MRD_RING_BAD)
            break;
        r->at += len;
        if (step != MRD_RING_AGAIN)
            return step;
    }
    return MRD_RING_BAD;
}

mrd_ring_step
mrd_ring_next_slow(mrd_ring_reader *r, mrd_ring_event *ret_event, mrd_why *why)
{
    mrd_ring_step step;

    leave_window(r);
    step = next_checked(r, ret_event);
    enter_window(r);
    if (step == MRD_RING_BAD && why != NULL)
        *why = r->why;
    return step;
}

/* Stored before tail, so that a reader that sees the new tail sees these, too. */
static mrd_err
put_left(mrd_ring_reader *r, uint64_t done, const mrd_ring_left *left)
{
    uint64_t words[4] = { done, left->gaps_done, left->open_lost, (uint64_t) left->oldest_open.ns };

    _Static_assert(offsetof(mrd_ring_hdr, open_lost_ns) == offsetof(mrd_ring_hdr, done) + 24,
                   "written as one");
    if (memcmp(words, r->left, sizeof(words)) == 0)
        return MRD_OK;
    memcpy(r->left, words, sizeof(words));
    if (r->mem == NULL)
        return mrd_ring_put(r, offsetof(mrd_ring_hdr, done), words, sizeof(words));
    memcpy(&ring_mem_hdr(r)->done, words, sizeof(words));
    return MRD_OK;
}

mrd_err
mrd_ring_release_to(mrd_ring_reader *r, const mrd_ring_left *left)
{
    uint64_t pair[2], read;

    leave_window(r);
    read = r->chunk_pos + r->at;
    pair[0] = left->keep < read ? left->keep & ~(uint64_t) (MRD_RING_UNIT - 1) : read;
    if (pair[0] < r->tail)
        pair[0] = r->tail;
    pair[1] = ~pair[0];
    if ((r->flags & MRD_RING_PEEK) != 0)
        return MRD_OK;
    if (put_left(r, pair[0] == read && left->open_lost == 0 ? 0 : read, left) != MRD_OK)
        return MRD_IO;
    if (pair[0] == r->tail)
        return MRD_OK;
    /* release, as our copies are complete before the workload may overwrite; pairs with the
     * writer's acquire */
    atomic_thread_fence(memory_order_seq_cst);
    if (r->mem != NULL) {
        atomic_store_explicit(&ring_mem_hdr(r)->tail_check, pair[1], memory_order_release);
        atomic_store_explicit(&ring_mem_hdr(r)->tail, pair[0], memory_order_release);
    } else if (mrd_ring_put(r, offsetof(mrd_ring_hdr, tail), pair, sizeof(pair)) != MRD_OK) {
        return MRD_IO;
    }
    r->tail = pair[0];
    return MRD_OK;
}

mrd_err
mrd_ring_release(mrd_ring_reader *r)
{
    return mrd_ring_release_to(r, &(mrd_ring_left){ .keep = UINT64_MAX });
}

bool
mrd_ring_is_ending(const mrd_ring_reader *r)
{
    return r->phase >= READ_OPEN;
}

bool
mrd_ring_was_left(const mrd_ring_reader *r, int32_t tid)
{
    return r->state == MRD_RING_LIVE && thread_now(r) == tid;
}

void
mrd_ring_get_stats(const mrd_ring_reader *r, mrd_ring_stats *ret_stats)
{
    mrd_ring_stats s = { .head = r->head, .tail = r->tail };

    s.records = r->records + (uint64_t) (r->win.at - r->win.mark) / MRD_RING_UNIT;
    s.read = r->chunk_pos + (r->win.at == NULL ? r->at : (size_t) (r->win.at - r->data));
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        s.lost[i] = r->lost[i];
        s.lost_total += r->lost[i];
        s.reported += r->reported[i];
    }
    s.skipped = r->skipped;
    s.clock_error_ns = mrd_ring_clock_error(&r->clock, r->clock.newest);
    s.clock_steps = r->clock.steps;
    s.newest = r->newest;
    *ret_stats = s;
}

uint64_t
mrd_ring_unreported(mrd_ring_reader *r, unsigned cause, int64_t *ret_first_ns, int64_t *ret_last_ns)
{
    uint64_t told = r->told[cause] > r->reported[cause] ? r->told[cause] : r->reported[cause];

    if (r->lost[cause] <= told || !ring_sane_ticks(r, r->first[cause]) ||
        !ring_sane_ticks(r, r->last[cause]))
        return 0;
    *ret_first_ns = mrd_ring_clock_ns(&r->clock, r->first[cause]);
    *ret_last_ns = mrd_ring_clock_ns(&r->clock, r->last[cause]);
    return r->lost[cause] - told;
}

mrd_str
mrd_ring_text(const mrd_ring_reader *r, uint32_t id)
{
    return id < r->dict.text_cap ? r->dict.text[id] : (mrd_str){ NULL, 0 };
}

const mrd_ring_track_info *
mrd_ring_track_of(const mrd_ring_reader *r, uint32_t id)
{
    return id < r->dict.track_cap && r->dict.track[id].def.kind != 0 ? &r->dict.track[id] : NULL;
}

mrd_str
mrd_ring_thread_name(const mrd_ring_reader *r, int32_t tid)
{
    for (uint32_t i = r->dict.thread_count; i > 0; i--)
        if (r->dict.thread[i - 1].tid == tid && r->dict.thread[i - 1].name.len > 0)
            return r->dict.thread[i - 1].name;
    return (mrd_str){ NULL, 0 };
}

size_t
mrd_ring_memory(const mrd_ring_reader *r)
{
    const mrd_ring_dict_copy *d = &r->dict;

    return sizeof(*r) + (r->mem == NULL ? r->chunk_cap : 0) + d->used +
           d->text_cap * sizeof(*d->text) + d->track_cap * sizeof(*d->track) +
           d->thread_cap * sizeof(*d->thread);
}
