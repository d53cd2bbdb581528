#include "capture/ring/ring_read_int.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#define OWNER_PERIOD_NS 1000000000
/* In ns. The time between two checks of the owner's memory map doubles up to this limit. */
#define MAPS_IDLE_MAX 64000000000

#define MULT_UP (MRD_RING_MULT_SHIFT - MRD_RING_CLOCK_SHIFT)
/* A record of at most this many bytes is copied from the mapping. A longer record is read with
 * pread, because it could contain pages that were never written. A touch of these pages in the
 * mapping would allocate them and charge the memory to the reader. */
#define COPY_MAX 4096

/* Offset and length of the header fields that the writer changes, from `head` to the end of `lost`.
 * A single read copies all of them. */
#define LIVE_OFF offsetof(mrd_ring_hdr, head)
#define LIVE_LEN (offsetof(mrd_ring_hdr, ops) - LIVE_OFF)

/* This file reads `head` before the records, and dict_head before the dictionary entries. Barriers
 * keep this order, so that everything below `head` is complete. */
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
get_live(mrd_ring_reader *reader, live_part *part)
{
    uint8_t bytes[LIVE_LEN];
    mrd_err err;

    if (reader->mem != NULL) {
        const mrd_ring_hdr *hdr = ring_mem_hdr(reader);

        /* The acquire order pairs with the release store of `head` in mrd_ring_commit. */
        part->head = atomic_load_explicit(&hdr->head, memory_order_acquire);
        part->state = atomic_load_explicit(&hdr->state, memory_order_acquire);
        part->depth = atomic_load_explicit(&hdr->depth, memory_order_relaxed);
        part->tail = atomic_load_explicit(&hdr->tail, memory_order_relaxed);
        for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
            part->lost[i].count = atomic_load_explicit(&hdr->lost[i].count, memory_order_relaxed);
            part->lost[i].first = atomic_load_explicit(&hdr->lost[i].first, memory_order_relaxed);
            part->lost[i].last = atomic_load_explicit(&hdr->lost[i].last, memory_order_relaxed);
            part->lost[i].told = atomic_load_explicit(&hdr->lost[i].told, memory_order_relaxed);
        }
        return MRD_OK;
    }
    err = mrd_ring_get(reader, LIVE_OFF, bytes, sizeof(bytes));
    atomic_thread_fence(memory_order_acquire);
    memcpy(&part->head, bytes + offsetof(mrd_ring_hdr, head) - LIVE_OFF, sizeof(part->head));
    memcpy(&part->tail, bytes + offsetof(mrd_ring_hdr, tail) - LIVE_OFF, sizeof(part->tail));
    memcpy(&part->state, bytes + offsetof(mrd_ring_hdr, state) - LIVE_OFF, sizeof(part->state));
    memcpy(&part->depth, bytes + offsetof(mrd_ring_hdr, depth) - LIVE_OFF, sizeof(part->depth));
    memcpy(part->lost, bytes + offsetof(mrd_ring_hdr, lost) - LIVE_OFF, sizeof(part->lost));
    return err;
}

static mrd_err
get_dict_head(mrd_ring_reader *reader, uint64_t *ret_head)
{
    if (reader->mem != NULL) {
        *ret_head = atomic_load_explicit(&ring_mem_hdr(reader)->dict_head, memory_order_acquire);
        return MRD_OK;
    }
    return mrd_ring_get(reader, offsetof(mrd_ring_hdr, dict_head), ret_head, sizeof(*ret_head));
}

/* ---- getting the next chunk of bytes --------------------------------------------------------- */

#define FILE_CUT "the file changed its size"

static mrd_ring_step
ring_bad(mrd_ring_reader *reader, mrd_err err, const char *what, uint64_t at)
{
    if (*reader->cut != 0) {
        err = MRD_TRUNCATED;
        what = FILE_CUT;
    }
    mrd_why_set(&reader->why, err, err == MRD_IO ? errno : 0, "ring %s: %s at position %" PRIu64,
                reader->file_name, what, at);
    reader->bad = true;
    return MRD_RING_BAD;
}

mrd_ring_step
mrd_ring_refresh_dict(mrd_ring_reader *reader)
{
    uint64_t head = 0;
    mrd_why why;
    mrd_err err = get_dict_head(reader, &head);

    if (err != MRD_OK)
        return ring_bad(reader, err, "cannot read the header", 0);
    if (head < reader->dict.used || head > reader->dict.len)
        return ring_bad(reader, MRD_CORRUPT, "impossible head of the dictionary", head);
    if (head == reader->dict.used)
        return MRD_RING_MORE;
    err = mrd_ring_get(reader, MRD_RING_HEADER_LEN + reader->dict.used,
                       reader->dict.bytes + reader->dict.used, head - reader->dict.used);
    if (err != MRD_OK)
        return ring_bad(reader, err, "cannot read the dictionary", reader->dict.used);
    if ((err = mrd_ring_dict_take(&reader->dict, (uint32_t) head, &why)) == MRD_NOMEM)
        return ring_bad(reader, err, "no memory for the dictionary", head);
    if (err != MRD_OK) {
        reader->bad = true;
        reader->why = why;
        mrd_why_prefix(&reader->why, err, "ring %s", reader->file_name);
        return MRD_RING_BAD;
    }
    return MRD_RING_MORE;
}

static void
take_losses(mrd_ring_reader *reader, const live_part *part)
{
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        reader->lost[i] = part->lost[i].count;
        reader->told[i] = part->lost[i].told;
        reader->first[i] = part->lost[i].first;
        reader->last[i] = part->lost[i].last;
    }
}

static int64_t
raw_now(void)
{
    return mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
}

static void
refresh_clock(mrd_ring_reader *reader)
{
    mrd_ring_cal cal;

    if (!reader->own_tsc || raw_now() < reader->next_cal.ns)
        return;
    mrd_ring_cal_read(MRD_RING_CLOCK_TSC, &cal);
    reader->next_cal = (mrd_local_ns){ cal.raw_ns + RING_CAL_PERIOD_NS };
    cal.raw_ns += reader->ahead_ns;
    mrd_ring_clock_add(&reader->clock, &cal);
}

/* Finds the thread that wrote the record at position `pos`. It is the last thread entry that begins
 * at or before `pos`. */
static void
find_thread(mrd_ring_reader *reader, uint64_t pos)
{
    uint32_t i = reader->thread, n = reader->dict.thread_count;

    while (i + 1 < n && reader->dict.thread[i + 1].pos <= pos)
        i++;
    reader->thread = i;
    reader->thread_ends = i + 1 < n ? reader->dict.thread[i + 1].pos : UINT64_MAX;
}

static int32_t
thread_now(const mrd_ring_reader *reader)
{
    if (reader->dict.thread_count == 0 || reader->dict.thread[reader->thread].tid <= 0)
        return reader->info.name.tid;
    return reader->dict.thread[reader->thread].tid;
}

/* Returns true if the owner has exited or has run an exec. After an exec, the owner's memory map no
 * longer contains the ring. The map is checked less often, because reading it is slow. */
static bool
owner_gone(mrd_ring_reader *reader, int64_t now)
{
    bool maps;

    if (reader->idle_since.ns == 0)
        reader->idle_since = (mrd_local_ns){ now };
    maps = now - reader->idle_since.ns >= reader->maps_idle_ns;
    if (maps && reader->maps_idle_ns < MAPS_IDLE_MAX)
        reader->maps_idle_ns *= 2;
    return mrd_ring_owner_check(&reader->owner, maps) == MRD_OWNER_DEAD;
}

/* Called if there are no new records. Checks once a second whether the file has its size and
 * whether its owner still exists. */
static mrd_ring_step
nothing_new(mrd_ring_reader *reader)
{
    struct stat st;
    int64_t now;

    if (reader->phase == READ_LAST) { /* the ring was read once more after the owner had exited */
        reader->phase = READ_OPEN;
        return MRD_RING_MORE;
    }
    if (reader->state != MRD_RING_CLOSED) {
        if (reader->fd < 0 || (now = raw_now()) < reader->next_owner.ns)
            return MRD_RING_AGAIN;
        reader->next_owner = (mrd_local_ns){ now + OWNER_PERIOD_NS };
        if (fstat(reader->fd, &st) != 0 || (uint64_t) st.st_size != ring_file_len(reader))
            return ring_bad(reader, MRD_TRUNCATED, FILE_CUT, reader->head);
        if (!owner_gone(reader, now))
            return MRD_RING_AGAIN;
    }
    reader->phase = READ_LAST;
    return MRD_RING_MORE;
}

/* Returns true if the writer may have overwritten the chunk of a reader with MRD_RING_PEEK. Such a
 * reader does not control `tail`. It continues at the new tail. */
static bool
peek_overtaken(mrd_ring_reader *reader, uint64_t from)
{
    uint64_t tail = 0;

    if ((reader->flags & MRD_RING_PEEK) == 0 ||
        mrd_ring_get(reader, offsetof(mrd_ring_hdr, tail), &tail, sizeof(tail)) != MRD_OK)
        return false;
    if (tail <= from || tail > reader->head || tail % MRD_RING_UNIT != 0)
        return false;
    reader->chunk_pos = tail;
    reader->chunk_len = reader->at = 0;
    return true;
}

/* Returns true if chunks are parts of the mapping, so that they are not copied. */
static bool
in_place(const mrd_ring_reader *reader)
{
    return reader->mem != NULL && (reader->flags & MRD_RING_PEEK) == 0;
}

/*
 * Gets the next chunk. Returns MORE if the chunk has data or if the phase changed. The caller then
 * continues its loop.
 */
static mrd_ring_step
fill(mrd_ring_reader *reader)
{
    live_part part;
    uint64_t from = reader->chunk_pos + reader->at, off, count;
    mrd_ring_step step;
    mrd_err err;

    reader->chunk_pos = from;
    reader->chunk_len = reader->at = 0;
    refresh_clock(reader);
    if ((err = get_live(reader, &part)) != MRD_OK)
        return ring_bad(reader, err, "cannot read the header", 0);
    if (part.head < reader->head || part.head < from || part.head % MRD_RING_UNIT != 0 ||
        part.head - reader->tail >
            reader->info.data_len + ((reader->flags & MRD_RING_PEEK) ? part.head : 0))
        return ring_bad(reader, MRD_CORRUPT, "impossible head", part.head);
    reader->head = part.head;
    reader->state = part.state;
    reader->depth = part.depth > MRD_RING_OPEN_MAX ? MRD_RING_OPEN_MAX : part.depth;
    take_losses(reader, &part);
    if (part.head == from)
        return nothing_new(reader);
    if ((step = mrd_ring_refresh_dict(reader)) != MRD_RING_MORE)
        return step;
    find_thread(reader, from);
    off = from & (reader->info.data_len - 1);
    count = reader->info.data_len - off;
    count = count < part.head - from ? count : part.head - from;
    off += MRD_RING_HEADER_LEN + reader->info.dict_len;
    if (in_place(reader)) {
        reader->data = reader->mem + off;
    } else {
        count = count < reader->chunk_cap ? count : reader->chunk_cap;
        reader->data = reader->chunk;
        if ((err = mrd_ring_get(reader, off, reader->chunk, count)) != MRD_OK)
            return ring_bad(reader, err, "cannot read the data", from);
    }
    if (peek_overtaken(reader, from))
        return MRD_RING_MORE;
    reader->chunk_len = count;
    reader->idle_since = (mrd_local_ns){ 0 };
    reader->maps_idle_ns = RING_MAPS_IDLE_NS;
    return MRD_RING_MORE;
}

/* ---- decoding records ------------------------------------------------------------------------ */

/* Handles a record that is longer than the rest of the chunk. Either the record continues in the
 * next chunk, or it is invalid. */
static mrd_ring_step
short_record(mrd_ring_reader *reader, size_t len)
{
    uint64_t pos = reader->chunk_pos + reader->at, off = pos & (reader->info.data_len - 1);

    if (len == 0)
        return ring_bad(reader, MRD_CORRUPT, "record of length 0", pos);
    if (len > MRD_RING_REC_MAX || len > reader->info.data_len - off)
        return ring_bad(reader, MRD_CORRUPT, "record longer than the limit or past the end", pos);
    if (pos + len <= reader->head)
        return fill(reader); /* the next chunk starts with this record */
    if (reader->stuck_head == reader->head)
        return ring_bad(reader, MRD_CORRUPT, "record ends behind the head", pos);
    /* `head` may have been half written when it was read, so a second read decides. */
    reader->stuck_head = reader->head;
    return fill(reader);
}

/* Takes the record's name from its first item, if that item has the type NAME. */
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
seen_time(mrd_ring_reader *reader, int64_t ns)
{
    if (ns > reader->newest.ns)
        reader->newest = (mrd_local_ns){ ns };
}

static void
decode_times(mrd_ring_reader *reader, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    int64_t start = mrd_ring_clock_ns(&reader->clock, rec->ts);

    ev->ts = (mrd_local_ns){ start };
    ev->dur_ns = 0;
    if (rec->kind == MRD_REC_SPAN) {
        int64_t end = mrd_ring_clock_ns(&reader->clock, rec->ts + rec->value);

        ev->dur_ns = end > start ? end - start : 0;
        reader->win.span_ticks = rec->ts;
        reader->win.span_name = rec->name;
    }
    seen_time(reader, start + ev->dur_ns);
}

static mrd_ring_step
loss_event(mrd_ring_reader *reader, uint32_t cause, uint64_t first, uint64_t last, uint64_t count,
           mrd_ring_event *ev)
{
    memset(ev, 0, sizeof(*ev));
    if (cause >= MRD_RING_LOST_CAUSES)
        cause = MRD_RING_LOST_CAUSES - 1;
    ev->kind = MRD_REC_LOSS;
    ev->flags = (uint8_t) cause;
    ev->tid = thread_now(reader);
    ev->value = count;
    if (ring_sane_ticks(reader, first) && ring_sane_ticks(reader, last)) {
        int64_t end = mrd_ring_clock_ns(&reader->clock, last);

        ev->ts = (mrd_local_ns){ mrd_ring_clock_ns(&reader->clock, first) };
        ev->dur_ns = end > ev->ts.ns ? end - ev->ts.ns : 0;
    }
    reader->reported[cause] += count;
    return MRD_RING_LOST;
}

static mrd_ring_step
clock_record(mrd_ring_reader *reader, const mrd_ring_rec *rec)
{
    mrd_ring_cal cal = { rec->ts, (int64_t) rec->value, (int64_t) rec->extra, rec->name };

    if (!reader->own_tsc) /* the reader's own readings of the clocks are more reliable */
        mrd_ring_clock_add(&reader->clock, &cal);
    return MRD_RING_AGAIN; /* the record has no event for the caller, so the loop continues */
}

/* Handles records of kinds that are not plain events. Returns AGAIN if the record has nothing for
 * the caller. */
static mrd_ring_step
special(mrd_ring_reader *reader, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    switch (rec->kind) {
    case MRD_REC_PAD:
        return MRD_RING_AGAIN;
    case MRD_REC_LOSS:
        return loss_event(reader, rec->name, rec->ts, rec->value, rec->extra, ev);
    case MRD_REC_CLOCK:
        return clock_record(reader, rec);
    default:
        reader->skipped++;
        return MRD_RING_AGAIN;
    }
}

static mrd_ring_step
blob_body(mrd_ring_reader *reader, const mrd_ring_rec *rec, mrd_ring_event *ev)
{
    if (rec->track > ev->body_len)
        return ring_bad(reader, MRD_CORRUPT, "blob chunk longer than its record",
                        reader->chunk_pos + reader->at);
    ev->body_len = rec->track;
    ev->track = 0;
    return MRD_RING_MORE;
}

static mrd_ring_step
decode(mrd_ring_reader *reader, const mrd_ring_rec *rec, size_t len, mrd_ring_event *ev)
{
    static const uint8_t plain[256] = {
        [MRD_REC_SPAN] = 1,    [MRD_REC_BEGIN] = 1,   [MRD_REC_END] = 1,
        [MRD_REC_INSTANT] = 1, [MRD_REC_COUNTER] = 1, [MRD_REC_FLOW] = 1,
        [MRD_REC_BLOB] = 1,    [MRD_REC_MODEL] = 1,   [MRD_REC_NOTICE] = 1,
    };

    if (!plain[rec->kind])
        return special(reader, rec, ev);
    if (!ring_sane_ticks(reader, rec->ts) ||
        (rec->kind == MRD_REC_SPAN && !ring_sane_ticks(reader, rec->ts + rec->value)))
        return ring_bad(reader, MRD_CORRUPT, "impossible time", reader->chunk_pos + reader->at);
    ev->kind = rec->kind;
    ev->flags = rec->flags;
    ev->tid = thread_now(reader);
    ev->name = rec->name;
    ev->domain = rec->domain;
    ev->track = rec->track;
    ev->value = rec->value;
    ev->name_text = (mrd_str){ NULL, 0 };
    ev->body = (const uint8_t *) rec + sizeof(*rec);
    ev->body_len = (uint32_t) (len - sizeof(*rec));
    decode_times(reader, rec, ev);
    reader->records++;
    if (rec->kind == MRD_REC_BLOB)
        return blob_body(reader, rec, ev);
    if ((rec->flags & MRD_RECF_BODY) == 0)
        ev->body_len = 0;
    else if (rec->name == 0)
        take_inline_name(ev);
    return MRD_RING_MORE;
}

/* ---- what is read after the owner has exited ------------------------------------------------- */

/* Returns true if the scope already has a SPAN record or is already counted as lost. This happens
 * if the owner was killed before it removed the scope from the header. */
static bool
scope_accounted(const mrd_ring_reader *reader, const mrd_ring_scope *scope)
{
    uint64_t lost = reader->lost[MRD_RING_LOST_FULL] + reader->lost[MRD_RING_LOST_BIG];

    return (scope->ts == reader->win.span_ticks &&
            (uint32_t) (scope->name_domain >> 32) == reader->win.span_name) ||
           (scope->ending != 0 && lost >= scope->ending);
}

static void
scope_event(mrd_ring_reader *reader, const mrd_ring_scope *scope, mrd_ring_event *ev)
{
    uint64_t name_domain = scope->name_domain, track_flags = scope->track_flags;

    memset(ev, 0, sizeof(*ev));
    ev->kind = MRD_REC_SPAN;
    ev->flags = (uint8_t) ((uint32_t) track_flags & (MRD_RECF_FRAME | MRD_RECF_API));
    ev->tid = thread_now(reader);
    ev->name = (uint32_t) (name_domain >> 32);
    ev->domain = (uint32_t) name_domain;
    ev->track = (uint32_t) (track_flags >> 32);
    ev->ts = (mrd_local_ns){ mrd_ring_clock_ns(&reader->clock, scope->ts) };
    ev->dur_ns = MRD_RING_DUR_NONE;
}

/* Gets the next scope that was open when the owner died. Returns AGAIN if there are no more. */
static mrd_ring_step
next_open_scope(mrd_ring_reader *reader, mrd_ring_event *ev)
{
    if (reader->open_at == 0 && reader->depth > 0) {
        if (mrd_ring_refresh_dict(reader) != MRD_RING_MORE)
            return MRD_RING_BAD;
        if (mrd_ring_get(reader, offsetof(mrd_ring_hdr, open), reader->open,
                         sizeof(reader->open)) != MRD_OK)
            return ring_bad(reader, MRD_TRUNCATED, "cannot read the header", 0);
    }
    while (reader->open_at < reader->depth) {
        const mrd_ring_scope *scope = &reader->open[reader->open_at++];

        if (scope->ts == 0 || !ring_sane_ticks(reader, scope->ts) || scope_accounted(reader, scope))
            continue;
        scope_event(reader, scope, ev);
        reader->records++;
        return MRD_RING_MORE;
    }
    reader->phase = READ_GAPS;
    return MRD_RING_AGAIN;
}

/* Reads the slots of the header twice. A scope that both reads show with the same start was open in
 * between. */
size_t
mrd_ring_open_scopes(mrd_ring_reader *reader, mrd_ring_event ret_scopes[MRD_RING_OPEN_MAX])
{
    mrd_ring_scope first[MRD_RING_OPEN_MAX], second[MRD_RING_OPEN_MAX];
    live_part part;
    size_t count = 0;
    uint32_t depth;

    if (reader->bad || reader->phase != READ_LIVE || get_live(reader, &part) != MRD_OK ||
        part.depth == 0 ||
        mrd_ring_get(reader, offsetof(mrd_ring_hdr, open), first, sizeof(first)) != MRD_OK)
        return 0;
    depth = part.depth;
    atomic_thread_fence(memory_order_acquire);
    if (get_live(reader, &part) != MRD_OK ||
        mrd_ring_get(reader, offsetof(mrd_ring_hdr, open), second, sizeof(second)) != MRD_OK ||
        mrd_ring_refresh_dict(reader) != MRD_RING_MORE)
        return 0;
    depth = part.depth < depth ? part.depth : depth;
    for (uint32_t i = 0; i < depth && i < MRD_RING_OPEN_MAX; i++) {
        const mrd_ring_scope *scope = &second[i];

        if (scope->ts == 0 || scope->ts != first[i].ts || scope->ending != 0 ||
            !ring_sane_ticks(reader, scope->ts) || scope_accounted(reader, scope))
            continue;
        /* New clock segments must begin after this time. The scope then has the same start time
         * when its record is converted later. */
        if (scope->ts > reader->clock.newest)
            reader->clock.newest = scope->ts;
        scope_event(reader, scope, &ret_scopes[count++]);
    }
    return count;
}

/* Returns the losses that no LOSS record reports, one cause per call. A reader that continues after
 * an earlier reader does not know which of them the earlier reader returned. It therefore also
 * skips the losses that the writer's LOSS records have covered (`told`). */
static mrd_ring_step
next_gap(mrd_ring_reader *reader, mrd_ring_event *ev)
{
    while (reader->gap_at < MRD_RING_LOST_CAUSES) {
        uint32_t i = reader->gap_at++;
        uint64_t told = reader->resumed && reader->told[i] > reader->reported[i]
                            ? reader->told[i]
                            : reader->reported[i];

        if (reader->lost[i] > told)
            return loss_event(reader, i, reader->first[i], reader->last[i], reader->lost[i] - told,
                              ev);
    }
    reader->phase = READ_END;
    return MRD_RING_END;
}

/* ---- the functions that the caller of the reader uses ---------------------------------------- */

/* Copies the position and counts of the inline fast path (mrd_ring_plain) to the reader. */
static void
leave_window(mrd_ring_reader *reader)
{
    mrd_ring_window *window = &reader->win;
    uint64_t newest = window->seg_ticks + window->newest;

    if (window->at == NULL)
        return;
    reader->at = (size_t) (window->at - reader->data);
    reader->records += (uint64_t) (window->at - window->mark) / MRD_RING_UNIT;
    window->mark = window->at;
    if (window->newest != 0 && newest > reader->clock.newest)
        reader->clock.newest = newest;
    if (window->newest != 0)
        seen_time(reader, mrd_ring_clock_ns(&reader->clock, newest));
}

/* Sets the window of mrd_ring_plain: the bytes of the chunk that it may read without checks. The
 * window ends where another thread's records begin. */
static void
enter_window(mrd_ring_reader *reader)
{
    mrd_ring_window *window = &reader->win;
    uint64_t pos = reader->chunk_pos + reader->at, own = reader->thread_ends - pos;
    size_t left = reader->chunk_len - reader->at;

    window->at = window->mark = reader->data + reader->at;
    window->end = window->at + (reader->bad || reader->thread_ends <= pos ? 0
                                : own < left                              ? own - own % 32
                                                                          : left);
    window->tid = thread_now(reader);
    window->newest = 0;
    window->seg_ticks = reader->base_ticks;
    window->seg = (mrd_local_ns){ (int64_t) reader->base_ticks };
    window->seg_mult = 1ull << MRD_RING_MULT_SHIFT;
    if (reader->clock.id != MRD_RING_CLOCK_RAW) {
        window->seg_ticks = reader->clock.now.ticks;
        window->seg = reader->clock.now.raw;
        /* fits into 64 bits, because a tick has at most 10 ns */
        window->seg_mult = reader->clock.now.mult << MULT_UP;
    }
}

/* Called at the end of a chunk. Returns true if *ret_step is the result for the caller. Returns
 * false if the loop must continue, because there is a new chunk or the ring is bad. */
static bool
between_chunks(mrd_ring_reader *reader, mrd_ring_event *ev, mrd_ring_step *ret_step)
{
    switch (reader->phase) {
    case READ_LIVE:
    case READ_LAST:
        *ret_step = fill(reader);
        return *ret_step == MRD_RING_AGAIN;
    case READ_OPEN:
        *ret_step = next_open_scope(reader, ev);
        return *ret_step == MRD_RING_MORE;
    case READ_GAPS:
        *ret_step = next_gap(reader, ev);
        return true;
    case READ_END:
        break;
    }
    *ret_step = MRD_RING_END;
    return true;
}

/* Returns the record at reader->at, copied if it is in the mapping, so that the owner cannot change
 * it. Returns NULL if the ring is bad. */
static const mrd_ring_rec *
stable_record(mrd_ring_reader *reader, const mrd_ring_rec *first, size_t len)
{
    uint64_t pos = reader->chunk_pos + reader->at;
    mrd_err err = MRD_OK;

    if (!in_place(reader))
        return (const void *) (reader->data + reader->at);
    if (len <= COPY_MAX)
        memcpy(reader->chunk, reader->data + reader->at, len);
    else
        err = mrd_ring_get(reader, (uint64_t) (reader->data + reader->at - reader->mem),
                           reader->chunk, len);
    memcpy(reader->chunk, first, sizeof(*first));
    if (err != MRD_OK || *reader->cut != 0) {
        (void) ring_bad(reader, err, "cannot read the data", pos);
        return NULL;
    }
    return (const void *) reader->chunk;
}

/* Does one step of mrd_ring_next with all checks. Advances reader->at past the bytes that it
 * consumed. */
static mrd_ring_step
next_checked(mrd_ring_reader *reader, mrd_ring_event *ret_event)
{
    mrd_ring_step step;

    while (!reader->bad) {
        const mrd_ring_rec *rec;
        mrd_ring_rec first;
        size_t left = reader->chunk_len - reader->at, len;

        if (__builtin_expect(left < MRD_RING_UNIT, 0)) {
            if (between_chunks(reader, ret_event, &step))
                return step;
            continue;
        }
        mrd_ring_rec_load(reader->data + reader->at, &first);
        len = (size_t) first.units * MRD_RING_UNIT;
        if (__builtin_expect(len > left || len == 0 || len > MRD_RING_REC_MAX, 0)) {
            if (short_record(reader, len) == MRD_RING_BAD)
                break;
            continue;
        }
        if ((rec = stable_record(reader, &first, len)) == NULL)
            break;
        if (__builtin_expect(reader->chunk_pos + reader->at >= reader->thread_ends, 0))
            find_thread(reader, reader->chunk_pos + reader->at);
        step = decode(reader, rec, len, ret_event);
        if (step == MRD_RING_BAD)
            break;
        reader->at += len;
        if (step != MRD_RING_AGAIN)
            return step;
    }
    return MRD_RING_BAD;
}

mrd_ring_step
mrd_ring_next_slow(mrd_ring_reader *reader, mrd_ring_event *ret_event, mrd_why *why)
{
    mrd_ring_step step;

    leave_window(reader);
    step = next_checked(reader, ret_event);
    enter_window(reader);
    if (step == MRD_RING_BAD && why != NULL)
        *why = reader->why;
    return step;
}

/* Stores the values that the next reader needs. They are stored before `tail`, so that a reader
 * that sees the new tail also sees them. */
static mrd_err
put_left(mrd_ring_reader *reader, uint64_t done, const mrd_ring_left *left)
{
    uint64_t words[4] = { done, left->gaps_done, left->open_lost, (uint64_t) left->oldest_open.ns };

    _Static_assert(offsetof(mrd_ring_hdr, open_lost_ns) == offsetof(mrd_ring_hdr, done) + 24,
                   "written as one");
    if (memcmp(words, reader->left, sizeof(words)) == 0)
        return MRD_OK;
    memcpy(reader->left, words, sizeof(words));
    if (reader->mem == NULL)
        return mrd_ring_put(reader, offsetof(mrd_ring_hdr, done), words, sizeof(words));
    memcpy(&ring_mem_hdr(reader)->done, words, sizeof(words));
    return MRD_OK;
}

mrd_err
mrd_ring_release_to(mrd_ring_reader *reader, const mrd_ring_left *left)
{
    uint64_t pair[2], read;

    leave_window(reader);
    read = reader->chunk_pos + reader->at;
    pair[0] = left->keep < read ? left->keep & ~(uint64_t) (MRD_RING_UNIT - 1) : read;
    if (pair[0] < reader->tail)
        pair[0] = reader->tail;
    pair[1] = ~pair[0];
    if ((reader->flags & MRD_RING_PEEK) != 0)
        return MRD_OK;
    if (put_left(reader, pair[0] == read && left->open_lost == 0 ? 0 : read, left) != MRD_OK)
        return MRD_IO;
    if (pair[0] == reader->tail)
        return MRD_OK;
    /* The fence completes this reader's copies before the workload may overwrite the records. It
     * pairs with the acquire load of `tail` in ring_write.c. */
    atomic_thread_fence(memory_order_seq_cst);
    if (reader->mem != NULL) {
        atomic_store_explicit(&ring_mem_hdr(reader)->tail_check, pair[1], memory_order_release);
        atomic_store_explicit(&ring_mem_hdr(reader)->tail, pair[0], memory_order_release);
    } else if (mrd_ring_put(reader, offsetof(mrd_ring_hdr, tail), pair, sizeof(pair)) != MRD_OK) {
        return MRD_IO;
    }
    reader->tail = pair[0];
    return MRD_OK;
}

mrd_err
mrd_ring_release(mrd_ring_reader *reader)
{
    return mrd_ring_release_to(reader, &(mrd_ring_left){ .keep = UINT64_MAX });
}

bool
mrd_ring_is_ending(const mrd_ring_reader *reader)
{
    return reader->phase >= READ_OPEN;
}

bool
mrd_ring_was_left(const mrd_ring_reader *reader, int32_t tid)
{
    return reader->state == MRD_RING_LIVE && thread_now(reader) == tid;
}

void
mrd_ring_get_stats(const mrd_ring_reader *reader, mrd_ring_stats *ret_stats)
{
    mrd_ring_stats stats = { .head = reader->head, .tail = reader->tail };

    stats.records =
        reader->records + (uint64_t) (reader->win.at - reader->win.mark) / MRD_RING_UNIT;
    stats.read = reader->chunk_pos +
                 (reader->win.at == NULL ? reader->at : (size_t) (reader->win.at - reader->data));
    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++) {
        stats.lost[i] = reader->lost[i];
        stats.lost_total += reader->lost[i];
        stats.reported += reader->reported[i];
    }
    stats.skipped = reader->skipped;
    stats.clock_error_ns = mrd_ring_clock_error(&reader->clock, reader->clock.newest);
    stats.clock_steps = reader->clock.steps;
    stats.newest = reader->newest;
    *ret_stats = stats;
}

uint64_t
mrd_ring_unreported(mrd_ring_reader *reader, unsigned cause, int64_t *ret_first_ns,
                    int64_t *ret_last_ns)
{
    uint64_t told = reader->told[cause] > reader->reported[cause] ? reader->told[cause]
                                                                  : reader->reported[cause];

    if (reader->lost[cause] <= told || !ring_sane_ticks(reader, reader->first[cause]) ||
        !ring_sane_ticks(reader, reader->last[cause]))
        return 0;
    *ret_first_ns = mrd_ring_clock_ns(&reader->clock, reader->first[cause]);
    *ret_last_ns = mrd_ring_clock_ns(&reader->clock, reader->last[cause]);
    return reader->lost[cause] - told;
}

mrd_str
mrd_ring_text(const mrd_ring_reader *reader, uint32_t id)
{
    return id < reader->dict.text_cap ? reader->dict.text[id] : (mrd_str){ NULL, 0 };
}

const mrd_ring_track_info *
mrd_ring_track_of(const mrd_ring_reader *reader, uint32_t id)
{
    return id < reader->dict.track_cap && reader->dict.track[id].def.kind != 0
               ? &reader->dict.track[id]
               : NULL;
}

mrd_str
mrd_ring_thread_name(const mrd_ring_reader *reader, int32_t tid)
{
    for (uint32_t i = reader->dict.thread_count; i > 0; i--)
        if (reader->dict.thread[i - 1].tid == tid && reader->dict.thread[i - 1].name.len > 0)
            return reader->dict.thread[i - 1].name;
    return (mrd_str){ NULL, 0 };
}

size_t
mrd_ring_memory(const mrd_ring_reader *reader)
{
    const mrd_ring_dict_copy *copy = &reader->dict;

    return sizeof(*reader) + (reader->mem == NULL ? reader->chunk_cap : 0) + copy->used +
           copy->text_cap * sizeof(*copy->text) + copy->track_cap * sizeof(*copy->track) +
           copy->thread_cap * sizeof(*copy->thread);
}
