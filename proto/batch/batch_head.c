/* proto/batch/batch_head.c - writes the head of a batch, and the frame that contains head and
 * columns.
 *
 * The head has the process, strings, tracks, readings of clocks, and forms. A form is the set of
 * properties that many events share, for example kind and argument keys. */
#include <stdlib.h>

#include "proto/batch/batch_int.h"
#include "proto/wire.h"

/* ---- The head: process, dictionaries, clock readings and forms ---- */

static char *
text_of(const mrd_catalog *cat, mrd_sid sid)
{
    union {
        const char *in;
        char *out;
        /* the cast removes const, because protobuf-c only reads the text */
    } text = { mrd_catalog_text(cat, sid).p };

    return text.out;
}

static void
head_process(const mrd_batch *batch, Mrd__Process *process)
{
    const mrd_process *from = mrd_catalog_borrow_process(batch->cat, batch->process);

    process->instance_id = text_of(batch->cat, from->instance_id);
    process->process_id = from->process_id;
    process->container_pid = from->container_pid;
    process->name = text_of(batch->cat, from->name);
    process->job = text_of(batch->cat, from->job);
    process->pod = text_of(batch->cat, from->pod);
    process->labels = text_of(batch->cat, from->labels);
    process->rank = from->rank;
    process->world_size = from->world_size;
    process->worker_gid = from->worker_gid;
    process->sort_index = from->sort_index;
    process->flags = from->flags;
    process->scope = from->scope;
}

/* Free space for the numeric columns of the head, one pool per type. All pools share one
 * allocation. */
typedef struct {
    int64_t *i64;
    uint64_t *u64;
    uint32_t *u32;
    ProtobufCBinaryData *strings;
} head_room;

static bool
head_alloc(const mrd_batch *batch, head_room *room)
{
    size_t tracks = batch->tracks.used, forms = batch->n_forms;
    size_t i64 = 6 * tracks + 2 * batch->n_cross, u64 = batch->n_cross;
    size_t u32 = 5 * tracks + 4 * forms + 2 * (size_t) batch->n_keys;
    char *block =
        malloc((i64 + u64) * 8 + batch->strings.used * sizeof(ProtobufCBinaryData) + u32 * 4 + 1);

    if (block == NULL)
        return false;
    room->i64 = (void *) block;
    room->u64 = (void *) (block + i64 * 8);
    room->strings = (void *) (block + (i64 + u64) * 8);
    room->u32 =
        (void *) (block + (i64 + u64) * 8 + batch->strings.used * sizeof(ProtobufCBinaryData));
    return true;
}

/* Sets a repeated field of the message to the next `count` numbers of the pool `pool`. */
#define HEAD_COLUMN(member, pool, count)                                                           \
    do {                                                                                           \
        h->n_##member = (count);                                                                   \
        h->member = (pool);                                                                        \
        (pool) += (count);                                                                         \
    } while (0)

static void
head_tracks(const mrd_batch *batch, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = batch->tracks.used;

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
head_fill_tracks(mrd_batch *batch, Mrd__BatchHead *head)
{
    for (uint32_t i = 0; i < batch->tracks.used; i++) {
        const mrd_track *track = mrd_catalog_borrow_track(batch->cat, batch->tracks.order[i]);

        head->track_source[i] = track->source;
        head->track_kind[i] = track->kind;
        head->track_lnc[i] = track->lnc_idx;
        head->track_pcore[i] = track->pcore_idx;
        head->track_device[i] = track->device_idx;
        head->track_thread[i] = track->thread_id;
        head->track_name[i] = mrd_batch_string(batch, track->name);
        head->track_unit[i] = track->unit;
        head->track_unit_name[i] = mrd_batch_string(batch, track->unit_name);
        head->track_sort[i] = track->sort_index;
        head->track_worker[i] = track->worker_gid;
    }
}

static void
head_forms(mrd_batch *batch, Mrd__BatchHead *h, head_room *room)
{
    uint32_t n = batch->n_forms;

    HEAD_COLUMN(form_bits, room->u32, n);
    HEAD_COLUMN(form_category, room->u32, n);
    HEAD_COLUMN(form_args, room->u32, n);
    HEAD_COLUMN(form_flows, room->u32, n);
    HEAD_COLUMN(form_key, room->u32, batch->n_keys);
    HEAD_COLUMN(form_type, room->u32, batch->n_keys);
    for (uint32_t i = 0; i < n; i++) {
        h->form_bits[i] = batch->forms[i].bits;
        h->form_category[i] = mrd_batch_string(batch, batch->forms[i].category);
        h->form_args[i] = batch->forms[i].args;
        h->form_flows[i] = batch->forms[i].flows;
    }
    for (uint32_t i = 0; i < batch->n_keys; i++) {
        h->form_key[i] = mrd_batch_string(batch, (mrd_sid) batch->keys[i]);
        h->form_type[i] = (uint32_t) (batch->keys[i] >> 32);
    }
}

static void
head_cross(const mrd_batch *batch, Mrd__CrossReads *h, head_room *room)
{
    HEAD_COLUMN(raw_ns, room->i64, batch->n_cross);
    HEAD_COLUMN(other_ns, room->i64, batch->n_cross);
    HEAD_COLUMN(bracket_ns, room->u64, batch->n_cross);
    for (size_t i = 0; i < batch->n_cross; i++) {
        h->raw_ns[i] = batch->cross[i].raw.ns;
        h->other_ns[i] = batch->cross[i].other.ns;
        h->bracket_ns[i] = (uint64_t) batch->cross[i].bracket_ns;
    }
}

static void
head_strings(const mrd_batch *batch, Mrd__BatchHead *head, head_room *room)
{
    head->n_strings = batch->strings.used;
    head->strings = room->strings;
    for (uint32_t i = 0; i < batch->strings.used; i++) {
        mrd_str text = mrd_catalog_text(batch->cat, batch->strings.order[i]);
        union {
            const char *in;
            uint8_t *out;
        } p = { text.p };

        head->strings[i] = (ProtobufCBinaryData){ text.len, p.out };
    }
}

static mrd_err
write_head(mrd_batch *batch, mrd_buf *to)
{
    Mrd__BatchHead head = MRD__BATCH_HEAD__INIT;
    Mrd__Process process = MRD__PROCESS__INIT;
    Mrd__CrossReads cross = MRD__CROSS_READS__INIT;
    head_room room;
    void *block;
    mrd_err err = MRD_OK;

    if (!head_alloc(batch, &room))
        return MRD_NOMEM;
    block = room.i64;
    head_process(batch, &process);
    head.process = &process;
    head.clock = (Mrd__ClockKind) batch->clock;
    head.base_ns = batch->first.ns;
    head.events = batch->n;
    if (batch->n_cross > 0) {
        head_cross(batch, &cross, &room);
        head.cross = &cross;
    }
    head_tracks(batch, &head, &room);
    head_fill_tracks(batch, &head);
    head_forms(batch, &head, &room);
    head_strings(batch, &head, &room);
    err = mrd_wire_pack(&head, to);
    free(block);
    return err;
}

/* ---- The frame of head and columns ---- */

mrd_err
mrd_batch_encode(mrd_batch *batch, mrd_codec *codec, mrd_codec_id codec_id, mrd_frame *ids,
                 mrd_buf *to, mrd_why *why)
{
    size_t start = to->len;
    mrd_frame frame = *ids, checked;
    mrd_err err;

    if (batch->n == 0)
        return mrd_why_set(why, MRD_EMPTY, 0, "batch without events");
    mrd_buf_reset(&codec->head);
    mrd_buf_reset(&codec->cols);
    if (!mrd_batch_columns(batch, codec, &codec->cols) ||
        write_head(batch, &codec->head) != MRD_OK || !mrd_buf_room(to, MRD_FRAME_HEADER))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch of %u events", batch->n);
    frame.type = MRD_FRAME_BATCH;
    frame.codec = batch->n < MRD_BATCH_COMPRESS_MIN ? MRD_CODEC_NONE : (uint8_t) codec_id;
    frame.clock = (uint8_t) batch->clock;
    frame.events = batch->n;
    frame.process_id = mrd_catalog_borrow_process(batch->cat, batch->process)->process_id;
    frame.first = batch->first;
    frame.last = batch->last;
    frame.head_raw = (uint32_t) codec->head.len;
    frame.cols_raw = (uint32_t) codec->cols.len;
    to->len += MRD_FRAME_HEADER;
    err = mrd_codec_pack(codec, frame.codec, (mrd_bytes){ codec->head.p, codec->head.len }, to);
    frame.head_len = (uint32_t) (to->len - start - MRD_FRAME_HEADER);
    if (err == MRD_OK)
        err = mrd_codec_pack_columns(
            codec, frame.codec, (mrd_bytes){ codec->cols.p, codec->cols.len }, codec->ends + COL_TS,
            batch->habits + COL_TS, COLS - COL_TS, to);
    if (err != MRD_OK) {
        to->len = start;
        return mrd_why_set(why, err, 0, "batch of %u events", batch->n);
    }
    mrd_frame_put(
        &frame, (mrd_bytes){ to->p + start + MRD_FRAME_HEADER, to->len - start - MRD_FRAME_HEADER },
        to->p + start);
    if ((err = mrd_frame_get((mrd_bytes){ to->p + start, MRD_FRAME_HEADER }, &checked, why)) !=
        MRD_OK) {
        to->len = start; /* removes the frame, because it is larger than a peer would accept */
        return err;
    }
    *ids = frame;
    mrd_batch_reset(batch);
    return MRD_OK;
}
