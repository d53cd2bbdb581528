/* proto/batch/batch_read_head.c - reads the head of a received batch, and checks each number before
 * it is used. */
#include "proto/batch/batch_read_int.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "proto/wire.h"

#define CROSS_MAX 1024

mrd_err
mrd_batch_corrupt(const mrd_batch_reader *reader, mrd_why *why, const char *what)
{
    return mrd_why_set(why, MRD_CORRUPT, 0, "batch %llu: %s",
                       (unsigned long long) reader->frame.seq, what);
}

static bool
attr_ok(int64_t v)
{
    return v >= MRD_NONE;
}

static mrd_err
read_process(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_proc_id *ret_process,
             mrd_why *why)
{
    const Mrd__Process *from = head->process;
    mrd_process process;

    if (from == NULL || from->process_id != reader->frame.process_id)
        return mrd_batch_corrupt(reader, why, "its process is not the one of its header");
    if (!attr_ok(from->container_pid) || !attr_ok(from->rank) || !attr_ok(from->world_size) ||
        !attr_ok(from->worker_gid))
        return mrd_batch_corrupt(reader, why, "its process has a negative attribute");
    mrd_process_init(&process);
    reader->foreign = reader->node != NULL && strcmp(reader->node, from->instance_id) != 0;
    process.instance_id =
        mrd_catalog_intern(reader->cat, reader->node != NULL ? reader->node : from->instance_id);
    process.process_id = from->process_id;
    process.container_pid = from->container_pid;
    process.name = mrd_catalog_intern(reader->cat, from->name);
    process.job = mrd_catalog_intern(reader->cat, from->job);
    process.pod = mrd_catalog_intern(reader->cat, from->pod);
    process.labels = mrd_catalog_intern(reader->cat, from->labels);
    process.rank = from->rank;
    process.world_size = from->world_size;
    process.worker_gid = from->worker_gid;
    process.sort_index = from->sort_index;
    process.flags = from->flags;
    process.scope = from->scope;
    *ret_process = mrd_catalog_process(reader->cat, &process);
    return MRD_OK;
}

static mrd_err
read_strings(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_why *why)
{
    if (head->n_strings > MRD_BATCH_STRINGS)
        return mrd_why_set(why, MRD_LIMIT, 0, "batch with %zu strings (at most %u)",
                           head->n_strings, MRD_BATCH_STRINGS);
    if (!MRD_VEC_ROOM(reader->strings, 0, reader->strings_cap, head->n_strings + 1))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch dictionary");
    reader->strings[0] = MRD_SID_EMPTY;
    for (size_t i = 0; i < head->n_strings; i++)
        reader->strings[i + 1] =
            mrd_strtab_add(mrd_catalog_strings(reader->cat),
                           (mrd_str){ (const char *) head->strings[i].data, head->strings[i].len });
    reader->n_strings = (uint32_t) head->n_strings + 1;
    return MRD_OK;
}

static bool
track_columns_ok(const Mrd__BatchHead *head)
{
    size_t n = head->n_track_source;

    return n <= MRD_BATCH_TRACKS && head->n_track_kind == n && head->n_track_lnc == n &&
           head->n_track_pcore == n && head->n_track_device == n && head->n_track_thread == n &&
           head->n_track_name == n && head->n_track_unit == n && head->n_track_unit_name == n &&
           head->n_track_sort == n && head->n_track_worker == n;
}

static bool
track_ok(const mrd_batch_reader *reader, const Mrd__BatchHead *head, size_t i)
{
    return head->track_source[i] <= MRD_SRC_MERIDIAN && head->track_kind[i] <= MRD_TRACK_COUNTER &&
           head->track_unit[i] <= MRD_UNIT_PERCENT && head->track_name[i] < reader->n_strings &&
           head->track_unit_name[i] < reader->n_strings && attr_ok(head->track_lnc[i]) &&
           attr_ok(head->track_pcore[i]) && attr_ok(head->track_device[i]) &&
           attr_ok(head->track_thread[i]) && attr_ok(head->track_worker[i]);
}

static mrd_err
read_tracks(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_proc_id process, mrd_why *why)
{
    if (!track_columns_ok(head))
        return mrd_batch_corrupt(reader, why, "its track columns differ in length or are too many");
    if (!MRD_VEC_ROOM(reader->tracks, 0, reader->tracks_cap, head->n_track_source))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch tracks");
    for (size_t i = 0; i < head->n_track_source; i++) {
        mrd_track track;

        if (!track_ok(reader, head, i))
            return mrd_batch_corrupt(reader, why, "a track has an attribute out of range");
        mrd_track_init(&track, process, (mrd_source_kind) head->track_source[i]);
        track.kind = (mrd_track_kind) head->track_kind[i];
        track.lnc_idx = head->track_lnc[i];
        track.pcore_idx = head->track_pcore[i];
        track.device_idx = head->track_device[i];
        track.thread_id = head->track_thread[i];
        track.name = reader->strings[head->track_name[i]];
        track.unit = (mrd_unit) head->track_unit[i];
        track.unit_name = reader->strings[head->track_unit_name[i]];
        track.sort_index = head->track_sort[i];
        track.worker_gid = head->track_worker[i];
        reader->tracks[i] = mrd_catalog_track(reader->cat, &track);
    }
    reader->n_tracks = (uint32_t) head->n_track_source;
    return MRD_OK;
}

static bool
form_bits_ok(uint32_t bits)
{
    uint32_t kind = bits & FORM_KIND, dir = bits >> FORM_DIR_SHIFT & 3;

    return bits < FORM_BITS_END && kind >= MRD_SPAN && kind <= MRD_LOSS &&
           (kind == MRD_FLOW) == (dir != 0) &&
           (kind == MRD_SPAN || (bits & FORM_UNFINISHED) == 0) &&
           (kind != MRD_FLOW || (bits & FORM_HAS_ID) == 0);
}

static uint32_t
arg_column(uint32_t type)
{
    static const uint8_t columns[8] = {
        [MRD_ARG_INT] = COL_ARG_INT,   [MRD_ARG_UINT] = COL_ARG_UINT,
        [MRD_ARG_BOOL] = COL_ARG_UINT, [MRD_ARG_DOUBLE] = COL_ARG_DOUBLE,
        [MRD_ARG_STR] = COL_ARG_STR,   [MRD_ARG_TEXT] = COL_TEXT_LEN,
        [MRD_ARG_JSON] = COL_TEXT_LEN
    };

    return columns[type & 7];
}

static mrd_err
read_form_keys(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_why *why)
{
    if (head->n_form_key != head->n_form_type)
        return mrd_batch_corrupt(reader, why, "its form keys and types differ in length");
    if (!MRD_VEC_ROOM(reader->keys, 0, reader->keys_cap, head->n_form_key + FEW))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch forms");
    for (size_t i = 0; i < head->n_form_key; i++) {
        if (head->form_key[i] >= reader->n_strings || head->form_type[i] < MRD_ARG_INT ||
            head->form_type[i] > MRD_ARG_JSON)
            return mrd_batch_corrupt(reader, why, "a form has an argument out of range");
        reader->keys[i] = (form_key){ reader->strings[head->form_key[i]], head->form_type[i],
                                      arg_column(head->form_type[i]) };
    }
    reader->n_keys = (uint32_t) head->n_form_key;
    /* decode_few always reads FEW keys, so keys after the last one must be readable */
    memset(reader->keys + reader->n_keys, 0, FEW * sizeof(*reader->keys));
    return MRD_OK;
}

static form
read_form(const mrd_batch_reader *reader, uint32_t bits, uint32_t args, uint32_t flows,
          uint32_t keys_at, mrd_sid category)
{
    form f = { .bits = bits, .args = args, .flows = flows, .keys_at = keys_at };

    f.plain = (bits & (FORM_KIND | FORM_HAS_BOUND | FORM_UNFINISHED)) == MRD_SPAN && flows == 0;
    for (uint32_t i = 0; i < args && f.plain; i++)
        f.plain = reader->keys[keys_at + i].type == MRD_ARG_INT;
    f.like = (mrd_event){ .category = category,
                          .kind = (uint8_t) (bits & FORM_KIND),
                          .flags = (uint8_t) (bits >> FORM_FLAGS_SHIFT),
                          .flow_count = (uint8_t) flows,
                          .arg_count = args };
    return f;
}

static mrd_err
read_forms(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_why *why)
{
    size_t count = head->n_form_bits, key = 0;
    mrd_err err = read_form_keys(reader, head, why);

    if (err != MRD_OK)
        return err;
    if (count > MRD_BATCH_FORMS || head->n_form_category != count || head->n_form_args != count ||
        head->n_form_flows != count)
        return mrd_batch_corrupt(reader, why, "its form columns differ in length or are too many");
    if (!MRD_VEC_ROOM(reader->forms, 0, reader->forms_cap, count))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch forms");
    for (size_t i = 0; i < count; i++) {
        if (!form_bits_ok(head->form_bits[i]) || head->form_category[i] >= reader->n_strings ||
            head->form_args[i] > MRD_BATCH_ARGS || head->form_flows[i] > UINT8_MAX ||
            head->form_args[i] > reader->n_keys - key)
            return mrd_batch_corrupt(reader, why, "a form is out of range");
        reader->forms[i] =
            read_form(reader, head->form_bits[i], head->form_args[i], head->form_flows[i],
                      (uint32_t) key, reader->strings[head->form_category[i]]);
        key += head->form_args[i];
    }
    if (key != reader->n_keys)
        return mrd_batch_corrupt(reader, why, "it has argument keys that belong to no form");
    reader->n_forms = (uint32_t) count;
    return MRD_OK;
}

static mrd_err
read_cross(mrd_batch_reader *reader, const Mrd__CrossReads *reads, mrd_why *why)
{
    reader->n_cross = 0;
    if (reads == NULL)
        return MRD_OK;
    if (reads->n_raw_ns != reads->n_other_ns || reads->n_raw_ns != reads->n_bracket_ns ||
        reads->n_raw_ns > CROSS_MAX)
        return mrd_batch_corrupt(reader, why,
                                 "its clock readings differ in length or are too many");
    if (!MRD_VEC_ROOM(reader->cross, 0, reader->cross_cap, reads->n_raw_ns))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch clock readings");
    for (size_t i = 0; i < reads->n_raw_ns; i++) {
        if (reads->bracket_ns[i] > INT64_MAX)
            return mrd_batch_corrupt(reader, why, "a clock reading is out of range");
        reader->cross[reader->n_cross++] = (mrd_cross_read){ { reads->raw_ns[i] },
                                                             { reads->other_ns[i] },
                                                             (int64_t) reads->bracket_ns[i] };
    }
    return MRD_OK;
}

static mrd_err
read_head(mrd_batch_reader *reader, const Mrd__BatchHead *head, mrd_batch_info *info, mrd_why *why)
{
    mrd_err err;

    if (head->events != reader->frame.events || head->base_ns != reader->frame.first.ns ||
        (unsigned) head->clock != reader->frame.clock)
        return mrd_batch_corrupt(reader, why, "its head contradicts its header");
    if ((err = read_process(reader, head, &info->process, why)) != MRD_OK ||
        (err = read_strings(reader, head, why)) != MRD_OK ||
        (err = read_tracks(reader, head, info->process, why)) != MRD_OK ||
        (err = read_forms(reader, head, why)) != MRD_OK ||
        (err = read_cross(reader, head->cross, why)) != MRD_OK)
        return err;
    info->clock = (unsigned) head->clock;
    info->events = head->events;
    info->cross = reader->cross;
    info->n_cross = reader->n_cross;
    return mrd_catalog_err(reader->cat);
}

mrd_err
mrd_batch_scan(mrd_batch_reader *reader, const mrd_frame *frame, mrd_bytes body, mrd_catalog *cat,
               mrd_batch_info *ret_info, mrd_why *why)
{
    Mrd__BatchHead *head;
    mrd_batch_info info = { 0 };
    mrd_bytes raw;
    void *arena;
    mrd_err err;

    reader->frame = *frame;
    reader->cat = cat;
    /* mrd_batch_next returns no events until the batch is opened */
    reader->decoded = frame->events;
    reader->given = reader->chunk_n = reader->chunk_at = 0;
    reader->wrong = NULL;
    if (frame->type != MRD_FRAME_BATCH)
        return mrd_why_set(why, MRD_TYPE, 0, "%s frame where a batch was expected",
                           mrd_frame_type_text(frame->type));
    if (body.len < frame->head_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "batch with %zu of %u bytes of its head",
                           body.len, frame->head_len);
    body.len = frame->head_len;
    err = mrd_codec_unpack(reader->codec, frame->codec, body, frame->head_raw, &reader->head_raw,
                           &raw, why);
    if (err != MRD_OK || (err = mrd_wire_unpack_head(raw, &head, &arena, why)) != MRD_OK)
        return err;
    err = read_head(reader, head, &info, why);
    info.foreign = reader->foreign;
    mrd_wire_free(arena);
    if (err == MRD_OK)
        *ret_info = info;
    return err;
}
