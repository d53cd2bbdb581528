/* Reads the head of a received batch. Each number is checked before it is used. */
#include "proto/batch/batch_read_int.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"
#include "proto/wire.h"

#define CROSS_MAX 1024

mrd_err
mrd_batch_corrupt(const mrd_batch_reader *r, mrd_why *why, const char *what)
{
    return mrd_why_set(why, MRD_CORRUPT, 0, "batch %llu: %s", (unsigned long long) r->frame.seq,
                       what);
}

static bool
attr_ok(int64_t v)
{
    return v >= MRD_NONE;
}

static mrd_err
read_process(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_proc_id *ret_process, mrd_why *why)
{
    const Mrd__Process *from = h->process;
    mrd_process p;

    if (from == NULL || from->process_id != r->frame.process_id)
        return mrd_batch_corrupt(r, why, "its process is not the one of its header");
    if (!attr_ok(from->container_pid) || !attr_ok(from->rank) || !attr_ok(from->world_size) ||
        !attr_ok(from->worker_gid))
        return mrd_batch_corrupt(r, why, "its process has a negative attribute");
    mrd_process_init(&p);
    r->foreign = r->node != NULL && strcmp(r->node, from->instance_id) != 0;
    p.instance_id = mrd_catalog_intern(r->cat, r->node != NULL ? r->node : from->instance_id);
    p.process_id = from->process_id;
    p.container_pid = from->container_pid;
    p.name = mrd_catalog_intern(r->cat, from->name);
    p.job = mrd_catalog_intern(r->cat, from->job);
    p.pod = mrd_catalog_intern(r->cat, from->pod);
    p.labels = mrd_catalog_intern(r->cat, from->labels);
    p.rank = from->rank;
    p.world_size = from->world_size;
    p.worker_gid = from->worker_gid;
    p.sort_index = from->sort_index;
    p.flags = from->flags;
    p.scope = from->scope;
    *ret_process = mrd_catalog_process(r->cat, &p);
    return MRD_OK;
}

static mrd_err
read_strings(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_why *why)
{
    if (h->n_strings > MRD_BATCH_STRINGS)
        return mrd_why_set(why, MRD_LIMIT, 0, "batch with %zu strings (at most %u)", h->n_strings,
                           MRD_BATCH_STRINGS);
    if (!MRD_VEC_ROOM(r->strings, 0, r->strings_cap, h->n_strings + 1))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch dictionary");
    r->strings[0] = MRD_SID_EMPTY;
    for (size_t i = 0; i < h->n_strings; i++)
        r->strings[i + 1] =
            mrd_strtab_add(mrd_catalog_strings(r->cat),
                           (mrd_str){ (const char *) h->strings[i].data, h->strings[i].len });
    r->n_strings = (uint32_t) h->n_strings + 1;
    return MRD_OK;
}

static bool
track_columns_ok(const Mrd__BatchHead *h)
{
    size_t n = h->n_track_source;

    return n <= MRD_BATCH_TRACKS && h->n_track_kind == n && h->n_track_lnc == n &&
           h->n_track_pcore == n && h->n_track_device == n && h->n_track_thread == n &&
           h->n_track_name == n && h->n_track_unit == n && h->n_track_unit_name == n &&
           h->n_track_sort == n && h->n_track_worker == n;
}

static bool
track_ok(const mrd_batch_reader *r, const Mrd__BatchHead *h, size_t i)
{
    return h->track_source[i] <= MRD_SRC_MERIDIAN && h->track_kind[i] <= MRD_TRACK_COUNTER &&
           h->track_unit[i] <= MRD_UNIT_PERCENT && h->track_name[i] < r->n_strings &&
           h->track_unit_name[i] < r->n_strings && attr_ok(h->track_lnc[i]) &&
           attr_ok(h->track_pcore[i]) && attr_ok(h->track_device[i]) &&
           attr_ok(h->track_thread[i]) && attr_ok(h->track_worker[i]);
}

static mrd_err
read_tracks(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_proc_id process, mrd_why *why)
{
    if (!track_columns_ok(h))
        return mrd_batch_corrupt(r, why, "its track columns differ in length or are too many");
    if (!MRD_VEC_ROOM(r->tracks, 0, r->tracks_cap, h->n_track_source))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch tracks");
    for (size_t i = 0; i < h->n_track_source; i++) {
        mrd_track t;

        if (!track_ok(r, h, i))
            return mrd_batch_corrupt(r, why, "a track has an attribute out of range");
        mrd_track_init(&t, process, (mrd_source_kind) h->track_source[i]);
        t.kind = (mrd_track_kind) h->track_kind[i];
        t.lnc_idx = h->track_lnc[i];
        t.pcore_idx = h->track_pcore[i];
        t.device_idx = h->track_device[i];
        t.thread_id = h->track_thread[i];
        t.name = r->strings[h->track_name[i]];
        t.unit = (mrd_unit) h->track_unit[i];
        t.unit_name = r->strings[h->track_unit_name[i]];
        t.sort_index = h->track_sort[i];
        t.worker_gid = h->track_worker[i];
        r->tracks[i] = mrd_catalog_track(r->cat, &t);
    }
    r->n_tracks = (uint32_t) h->n_track_source;
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
read_form_keys(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_why *why)
{
    if (h->n_form_key != h->n_form_type)
        return mrd_batch_corrupt(r, why, "its form keys and types differ in length");
    if (!MRD_VEC_ROOM(r->keys, 0, r->keys_cap, h->n_form_key + FEW))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch forms");
    for (size_t i = 0; i < h->n_form_key; i++) {
        if (h->form_key[i] >= r->n_strings || h->form_type[i] < MRD_ARG_INT ||
            h->form_type[i] > MRD_ARG_JSON)
            return mrd_batch_corrupt(r, why, "a form has an argument out of range");
        r->keys[i] =
            (form_key){ r->strings[h->form_key[i]], h->form_type[i], arg_column(h->form_type[i]) };
    }
    r->n_keys = (uint32_t) h->n_form_key;
    memset(r->keys + r->n_keys, 0, FEW * sizeof(*r->keys)); /* read, and not used */
    return MRD_OK;
}

static form
read_form(const mrd_batch_reader *r, uint32_t bits, uint32_t args, uint32_t flows, uint32_t keys_at,
          mrd_sid category)
{
    form f = { .bits = bits, .args = args, .flows = flows, .keys_at = keys_at };

    f.plain = (bits & (FORM_KIND | FORM_HAS_BOUND | FORM_UNFINISHED)) == MRD_SPAN && flows == 0;
    for (uint32_t i = 0; i < args && f.plain; i++)
        f.plain = r->keys[keys_at + i].type == MRD_ARG_INT;
    f.like = (mrd_event){ .category = category,
                          .kind = (uint8_t) (bits & FORM_KIND),
                          .flags = (uint8_t) (bits >> FORM_FLAGS_SHIFT),
                          .flow_count = (uint8_t) flows,
                          .arg_count = args };
    return f;
}

static mrd_err
read_forms(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_why *why)
{
    size_t n = h->n_form_bits, key = 0;
    mrd_err err = read_form_keys(r, h, why);

    if (err != MRD_OK)
        return err;
    if (n > MRD_BATCH_FORMS || h->n_form_category != n || h->n_form_args != n ||
        h->n_form_flows != n)
        return mrd_batch_corrupt(r, why, "its form columns differ in length or are too many");
    if (!MRD_VEC_ROOM(r->forms, 0, r->forms_cap, n))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch forms");
    for (size_t i = 0; i < n; i++) {
        if (!form_bits_ok(h->form_bits[i]) || h->form_category[i] >= r->n_strings ||
            h->form_args[i] > MRD_BATCH_ARGS || h->form_flows[i] > UINT8_MAX ||
            h->form_args[i] > r->n_keys - key)
            return mrd_batch_corrupt(r, why, "a form is out of range");
        r->forms[i] = read_form(r, h->form_bits[i], h->form_args[i], h->form_flows[i],
                                (uint32_t) key, r->strings[h->form_category[i]]);
        key += h->form_args[i];
    }
    if (key != r->n_keys)
        return mrd_batch_corrupt(r, why, "it has argument keys that belong to no form");
    r->n_forms = (uint32_t) n;
    return MRD_OK;
}

static mrd_err
read_cross(mrd_batch_reader *r, const Mrd__CrossReads *c, mrd_why *why)
{
    r->n_cross = 0;
    if (c == NULL)
        return MRD_OK;
    if (c->n_raw_ns != c->n_other_ns || c->n_raw_ns != c->n_bracket_ns || c->n_raw_ns > CROSS_MAX)
        return mrd_batch_corrupt(r, why, "its clock readings differ in length or are too many");
    if (!MRD_VEC_ROOM(r->cross, 0, r->cross_cap, c->n_raw_ns))
        return mrd_why_set(why, MRD_NOMEM, 0, "batch clock readings");
    for (size_t i = 0; i < c->n_raw_ns; i++) {
        if (c->bracket_ns[i] > INT64_MAX)
            return mrd_batch_corrupt(r, why, "a clock reading is out of range");
        r->cross[r->n_cross++] =
            (mrd_cross_read){ { c->raw_ns[i] }, { c->other_ns[i] }, (int64_t) c->bracket_ns[i] };
    }
    return MRD_OK;
}

static mrd_err
read_head(mrd_batch_reader *r, const Mrd__BatchHead *h, mrd_batch_info *info, mrd_why *why)
{
    mrd_err err;

    if (h->events != r->frame.events || h->base_ns != r->frame.first.ns ||
        (unsigned) h->clock != r->frame.clock)
        return mrd_batch_corrupt(r, why, "its head contradicts its header");
    if ((err = read_process(r, h, &info->process, why)) != MRD_OK ||
        (err = read_strings(r, h, why)) != MRD_OK ||
        (err = read_tracks(r, h, info->process, why)) != MRD_OK ||
        (err = read_forms(r, h, why)) != MRD_OK || (err = read_cross(r, h->cross, why)) != MRD_OK)
        return err;
    info->clock = (unsigned) h->clock;
    info->events = h->events;
    info->cross = r->cross;
    info->n_cross = r->n_cross;
    return mrd_catalog_err(r->cat);
}

mrd_err
mrd_batch_scan(mrd_batch_reader *r, const mrd_frame *frame, mrd_bytes body, mrd_catalog *cat,
               mrd_batch_info *ret_info, mrd_why *why)
{
    Mrd__BatchHead *head;
    mrd_batch_info info = { 0 };
    mrd_bytes raw;
    void *arena;
    mrd_err err;

    r->frame = *frame;
    r->cat = cat;
    r->decoded = frame->events; /* no events until the batch is opened */
    r->given = r->chunk_n = r->chunk_at = 0;
    r->wrong = NULL;
    if (frame->type != MRD_FRAME_BATCH)
        return mrd_why_set(why, MRD_TYPE, 0, "%s frame where a batch was expected",
                           mrd_frame_type_text(frame->type));
    if (body.len < frame->head_len)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "batch with %zu of %u bytes of its head",
                           body.len, frame->head_len);
    body.len = frame->head_len;
    err = mrd_codec_unpack(r->codec, frame->codec, body, frame->head_raw, &r->head_raw, &raw, why);
    if (err != MRD_OK || (err = mrd_wire_unpack_head(raw, &head, &arena, why)) != MRD_OK)
        return err;
    err = read_head(r, head, &info, why);
    info.foreign = r->foreign;
    mrd_wire_free(arena);
    if (err == MRD_OK)
        *ret_info = info;
    return err;
}
