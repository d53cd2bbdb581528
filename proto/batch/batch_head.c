/* The head of a batch, and the frame that contains head and columns. The head has the process,
 * strings, tracks, readings of clocks, and forms. A form is the set of properties that many events
 * share, for example type and argument keys. */
#include <stdlib.h>

#include "proto/batch/batch_int.h"
#include "proto/wire.h"

/* ---- The head ---- */

static char *
text_of(const mrd_catalog *cat, mrd_sid sid)
{
    union {
        const char *in;
        char *out;
    } text = { mrd_catalog_text(cat, sid).p }; /* protobuf-c only reads it */

    return text.out;
}

static void
head_process(const mrd_batch *b, Mrd__Process *p)
{
    const mrd_process *from = mrd_catalog_borrow_process(b->cat, b->process);

    p->instance_id = text_of(b->cat, from->instance_id);
    p->process_id = from->process_id;
    p->container_pid = from->container_pid;
    p->name = text_of(b->cat, from->name);
    p->job = text_of(b->cat, from->job);
    p->pod = text_of(b->cat, from->pod);
    p->labels = text_of(b->cat, from->labels);
    p->rank = from->rank;
    p->world_size = from->world_size;
    p->worker_gid = from->worker_gid;
    p->sort_index = from->sort_index;
    p->flags = from->flags;
    p->scope = from->scope;
}

/* Numbers of the head's columns. All share one allocation. */
typedef struct {
    int64_t *i64;
    uint64_t *u64;
    uint32_t *u32;
    ProtobufCBinaryData *strings;
} head_room;

static bool
head_alloc(const mrd_batch *b, head_room *room)
{
    size_t tracks = b->tracks.used, forms = b->n_forms;
    size_t i64 = 6 * tracks + 2 * b->n_cross, u64 = b->n_cross;
    size_t u32 = 5 * tracks + 4 * forms + 2 * (size_t) b->n_keys;
    char *block =
        malloc((i64 + u64) * 8 + b->strings.used * sizeof(ProtobufCBinaryData) + u32 * 4 + 1);

    if (block == NULL)
        return false;
    room->i64 = (void *) block;
    room->u64 = (void *) (block + i64 * 8);
    room->strings = (void *) (block + (i64 + u64) * 8);
    room->u32 = (void *) (block + (i64 + u64) * 8 + b->strings.used * sizeof(ProtobufCBinaryData));
    return true;
}

/* Takes a column of n numbers from the pool and counts it in the message. */
#define HEAD_COLUMN(member, pool, count)                                                           \
    do {                                                                                           \
        h->n_##member = (count);                                                                   \
        h->member = (pool);                                                                        \
        (pool) += (count);                                                                         \
    } while (0)

static void
head_tracks(const mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = b->tracks.used;

    HEAD_COLUMN(track_source, room->u32, n);
    HEAD_COLUMN(track_kind, room->u32, n);
    HEAD_COLUMN(track_name, room->u32, n);
    HEAD_COLUMN(track_unit, room->u32, n);
    HEAD_COLUMN(track_unit_name, room->u32, n);
    HEAD_COLUMN(track_lnc, room->i64, n);
    HEAD_COLUMN(track_pcore, room->i64, n);
    HEAD_COLUMN(track_device, room->i64, n);
    HEAD_COLUMN(track_thread, room->i64, n);
    HEAD_COLUMN(track_sort, room->i64, n);
    HEAD_COLUMN(track_worker, room->i64, n);
}

static void
head_fill_tracks(mrd_batch *b, Mrd__BatchHead *h)
{
    for (uint32_t i = 0; i < b->tracks.used; i++) {
        const mrd_track *t = mrd_catalog_borrow_track(b->cat, b->tracks.order[i]);

        h->track_source[i] = t->source;
        h->track_kind[i] = t->kind;
        h->track_lnc[i] = t->lnc_idx;
        h->track_pcore[i] = t->pcore_idx;
        h->track_device[i] = t->device_idx;
        h->track_thread[i] = t->thread_id;
        h->track_name[i] = mrd_batch_string(b, t->name);
        h->track_unit[i] = t->unit;
        h->track_unit_name[i] = mrd_batch_string(b, t->unit_name);
        h->track_sort[i] = t->sort_index;
        h->track_worker[i] = t->worker_gid;
    }
}

static void
head_forms(mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = b->n_forms;

    HEAD_COLUMN(form_bits, room->u32, n);
    HEAD_COLUMN(form_category, room->u32, n);
    HEAD_COLUMN(form_args, room->u32, n);
    HEAD_COLUMN(form_flows, room->u32, n);
    HEAD_COLUMN(form_key, room->u32, b->n_keys);
    HEAD_COLUMN(form_type, room->u32, b->n_keys);
    for (uint32_t i = 0; i < n; i++) {
        h->form_bits[i] = b->forms[i].bits;
        h->form_category[i] = mrd_batch_string(b, b->forms[i].category);
        h->form_args[i] = b->forms[i].args;
        h->form_flows[i] = b->forms[i].flows;
    }
    for (uint32_t i = 0; i < b->n_keys; i++) {
        h->form_key[i] = mrd_batch_string(b, (mrd_sid) b->keys[i]);
        h->form_type[i] = (uint32_t) (b->keys[i] >> 32);
    }
}

static void
head_cross(const mrd_batch *b, Mrd__CrossReads *h, head_room *room)
{
    HEAD_COLUMN(raw_ns, room->i64, b->n_cross);
    HEAD_COLUMN(other_ns, room->i64, b->n_cross);
    HEAD_COLUMN(bracket_ns, room->u64, b->n_cross);
    for (size_t i = 0; i < b->n_cross; i++) {
        h->raw_ns[i] = b->cross[i].raw.ns;
        h->other_ns[i] = b->cross[i].other.ns;
        h->bracket_ns[i] = (uint64_t) b->cross[i].bracket_ns;
    }
}

static void
head_strings(const mrd_batch *b, Mrd__BatchHead *h, head_room *room)
{
    h->n_strings = b->strings.used;
    h->strings = room->strings;
    for (uint32_t i = 0; i < b->strings.used; i++) {
        mrd_str text = mrd_catalog_text(b->cat, b->strings.order[i]);
        union {
            const char *in;
            uint8_t *out;
        } p = { text.p };

        h->strings[i] = (ProtobufCBinaryData){ text.len, p.out };
    }
}

static mrd_err
write_head(mrd_batch *b, mrd_buf *to)
{
    Mrd__BatchHead head = MRD__BATCH_HEAD__INIT;
    Mrd__Process process = MRD__PROCESS__INIT;
    Mrd__CrossReads cross = MRD__CROSS_READS__INIT;
    head_room room;
    void *block;
    mrd_err err = MRD_OK;

    if (!head_alloc(b, &room))
        return MRD_NOMEM;
    block = room.i64;
    head_process(b, &process);
    head.process = &process;
    head.clock = (Mrd__ClockKind) b->clock;
    head.base_ns = b->first.ns;
    head.events = b->n;
    if (b->n_cross > 0) {
        head_cross(b, &cross, &room);
        head.cross = &cross;
    }
    head_tracks(b, &head, &room);
    head_fill_tracks(b, &head);
    head_forms(b, &head, &room);
    head_strings(b, &head, &room);
    err = mrd_wire_pack(&head, to);
    free(block);
    return err;
}

/* ---- The frame ---- */

mrd_err
mrd_batch_encode(mrd_batch *b, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids, mrd_buf *to,
                 mrd_why *why)
{
    size_t start = to->len;
    mrd_frame f = *ids, checked;
    mrd_err err;

    if (b->n == 0)
        return mrd_why_set(why, MRD_EMPTY, 0, "batch without events");
    mrd_buf_reset(&codec->head);
    mrd_buf_reset(&codec->cols);
    if (!mrd_batch_columns(b, codec, &codec->cols) || write_head(b, &codec->head) != MRD_OK ||
        !mrd_buf_room(to, MRD_FRAME_HEADER))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch of %u events", b->n);
    f.type = MRD_FRAME_BATCH;
    f.codec = b->n < MRD_BATCH_COMPRESS_MIN ? MRD_CODEC_NONE : (uint8_t) codec_id;
    f.clock = (uint8_t) b->clock;
    f.events = b->n;
    f.process_id = mrd_catalog_borrow_process(b->cat, b->process)->process_id;
    f.first = b->first;
    f.last = b->last;
    f.head_raw = (uint32_t) codec->head.len;
    f.cols_raw = (uint32_t) codec->cols.len;
    to->len += MRD_FRAME_HEADER;
    err = mrd_codec_pack(codec, f.codec, (mrd_bytes){ codec->head.p, codec->head.len }, to);
    f.head_len = (uint32_t) (to->len - start - MRD_FRAME_HEADER);
    if (err == MRD_OK)
        err = mrd_codec_pack_columns(codec, f.codec, (mrd_bytes){ codec->cols.p, codec->cols.len },
                                     codec->ends + COL_TS, b->habits + COL_TS, COLS - COL_TS, to);
    if (err != MRD_OK) {
        to->len = start;
        return mrd_why_set(why, err, 0, "batch of %u events", b->n);
    }
    mrd_frame_put(
        &f, (mrd_bytes){ to->p + start + MRD_FRAME_HEADER, to->len - start - MRD_FRAME_HEADER },
        to->p + start);
    if ((err = mrd_frame_get((mrd_bytes){ to->p + start, MRD_FRAME_HEADER }, &checked, why)) !=
        MRD_OK) {
        to->len = start; /* larger than a peer would accept */
        return err;
    }
    *ids = f;
    mrd_batch_reset(b);
    return MRD_OK;
}
