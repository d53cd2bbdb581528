/*
 * trace/import/perfetto/import_perfetto.c - reads the track events in Perfetto traces (.pftrace,
 * .perfetto-trace) of any writer, with their tracks, interned names, arguments, counters, arrows
 * and clocks. The schema is protos/perfetto of google/perfetto, which is public. Other packets, for
 * example of the kernel, are counted, and a note names them.
 *
 * Packets of several writers can be in any order. So begins and ends are stored, and paired at the
 * end of the file. A damaged packet is counted, and reading continues at the next packet. Memory:
 * one packet, and the interned texts, tracks and clocks. Each has a limit.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

/* Bits of PF_SEQUENCE_FLAGS in a packet. CLEARED: the writer has reset the sequence's names and
 * defaults. NEEDS_STATE: the packet is useless without them. */
#define CLEARED     1u
#define NEEDS_STATE 2u
/* packets up to this size are read in place, longer ones are copied */
#define PT_VIEW_MAX (MRD_IN_WINDOW / 2 - 16)
/* maximum size of a packet that is accepted when searching for the end of damaged bytes */
#define PT_SEARCH_MAX (64u << 10)

/* ---- Packets ---- */

/* Reads packets until the end of `in`. `top` is false inside a compressed packet. Errors: CORRUPT,
 * TRUNCATED, and errors that are not the input's fault. */
static mrd_err read_packets(pt *import, mrd_in *in, bool top, mrd_why *why);

/* Returns the sequence with this id, and adds it if it is new. Returns NULL if there are too many
 * or out of memory. */
static pt_seq *
find_seq(pt *import, uint32_t id)
{
    mrd_map_key key = { id, 0, 0 };
    uint32_t i = mrd_map_get(&import->seq_map, key);

    if (i != MRD_MAP_NONE)
        return &import->seqs[i];
    if (import->n_seqs == PT_SEQS_MAX ||
        !MRD_VEC_ROOM(import->seqs, import->n_seqs, import->cap_seqs, 1) ||
        mrd_map_put(&import->seq_map, key, (uint32_t) import->n_seqs) != MRD_OK)
        return NULL;
    import->seqs[import->n_seqs] = (pt_seq){ .id = id };
    return &import->seqs[import->n_seqs++];
}

/* Returns true if a packet's content with this field number only describes the trace. Other unread
 * contents are listed in a note. */
static bool
is_about_trace(uint32_t number)
{
    static const uint8_t about[] = { 33, 34, 35, 36, 43, 45,  46,  47,  48,  51, 67,
                                     69, 72, 78, 89, 90, 109, 113, 124, 128, 138 };

    return memchr(about, (int) number, sizeof(about)) != NULL && number < 256;
}

static void
take_field(pt_packet *to, const mrd_pb_item *item)
{
    switch (item->tag) {
    case PF_TIMESTAMP:
        to->timestamp = item->v;
        to->has_time = true;
        return;
    case PF_TIMESTAMP_CLOCK:
        to->clock = (uint32_t) item->v;
        return;
    case PF_SEQUENCE_ID:
        to->seq = (uint32_t) item->v;
        return;
    case PF_SEQUENCE_FLAGS:
        to->flags |= (uint32_t) item->v;
        return;
    case PF_STATE_CLEARED:
        to->flags |= item->v != 0 ? CLEARED : 0;
        return;
    case PF_DROPPED_BEFORE:
        to->dropped = item->v != 0;
        return;
    case PF_MACHINE:
        to->machine = (uint32_t) item->v;
        return;
    case PF_INTERNED_DATA:
        to->interned = item->bytes;
        return;
    case PF_DEFAULTS:
        to->defaults = item->bytes;
        return;
    case PF_MERIDIAN_TRACK:
        to->own_track = item->v;
        return;
    case PF_MERIDIAN_CATALOG:
        to->catalog = item->bytes;
        return;
    case PF_TRACK_EVENT:
        to->event = item->bytes;
        to->has_event = true;
        break;
    case PF_TRACK_DESCRIPTOR:
        to->descriptor = item->bytes;
        break;
    case PF_CLOCK_SNAPSHOT:
        to->snapshot = item->bytes;
        break;
    case PF_PROCESS_TREE:
        to->tree = item->bytes;
        break;
    case PF_TRACE_ATTRIBUTES:
        to->attributes = item->bytes;
        break;
    case PF_COMPRESSED:
    case PF_COMPRESSED_ZSTD:
        to->compressed = item->bytes;
        to->is_zstd = item->tag == PF_COMPRESSED_ZSTD;
        break;
    default:
        /* these fields only describe the writer */
        if (item->number == 3 || item->number == 79 || item->number == 87)
            return;
        to->other = item->number;
    }
    to->data++;
}

/* Parses a packet. Returns false if it is damaged: a field is incomplete, or there are several
 * contents. The latter happens when a wrong length joins packets. */
static bool
parse(mrd_bytes body, pt_packet *to)
{
    mrd_pb_item item;

    *to = (pt_packet){ .own_track = UINT64_MAX };
    while (mrd_pb_take(&body, &item))
        take_field(to, &item);
    return body.len == 0 && to->data <= 1;
}

static void
forget_names(pt *import, pt_seq *seq)
{
    import->n_names -= seq->n_names;
    seq->n_names = 0;
    mrd_map_fini(&seq->names);
    seq->names = (mrd_map){ 0 };
}

/* Updates clock, defaults and interned texts of a packet sequence from the packet. */
static mrd_err
take_state(pt *import, pt_seq *seq, const pt_packet *packet)
{
    mrd_bytes rest = packet->defaults;
    mrd_pb_item item, of;

    if (packet->dropped != 0 && seq->seen) {
        import->writer_losses++;
        seq->valid = false;
    }
    seq->seen = true;
    if (packet->flags & CLEARED) {
        forget_names(import, seq);
        seq->valid = true;
        seq->clock = 0;
        seq->track = 0;
    }
    while (mrd_pb_take(&rest, &item)) {
        if (item.tag == PF_TIMESTAMP_CLOCK)
            seq->clock = (uint32_t) item.v;
        while (item.tag == PF_DEFAULTS_EVENT && mrd_pb_take(&item.bytes, &of))
            seq->track = of.tag == PF_EVENT_TRACK ? of.v : seq->track;
    }
    return mrd_pt_interned(import, seq, packet->interned);
}

/* Stores the attributes of the trace. A name such as "rank" means the same as in Kineto's files. */
static void
take_attributes(pt *import, mrd_bytes attributes)
{
    te_facts *facts = &import->te.facts;
    mrd_pb_item item, of;

    while (mrd_pb_take(&attributes, &item)) {
        mrd_str key = MRD_STR(""), text = MRD_STR("");
        int64_t number = MRD_NONE;
        char digits[32] = "";

        while (item.tag == PF_ATTRIBUTE && mrd_pb_take(&item.bytes, &of)) {
            if (of.tag == PF_ATTRIBUTE_KEY)
                key = mrd_pb_text(of.bytes);
            else if (of.tag == PF_ATTRIBUTE_TEXT)
                text = mrd_pb_text(of.bytes);
            else if (of.tag == PF_ATTRIBUTE_INT) {
                number = (int64_t) of.v;
                text = (mrd_str){ digits,
                                  (size_t) snprintf(digits, sizeof(digits), "%" PRId64, number) };
            }
        }
        if (mrd_str_is(key, "meridian.time_shift_ns"))
            import->own_shift = number;
        else if (mrd_str_is(key, "rank") && number >= 0)
            facts->rank = number;
        else if (mrd_str_is(key, "world_size") && number >= 0)
            facts->world_size = number;
        else if (mrd_str_is(key, "host_name"))
            facts->host = mrd_strtab_add(import->te.strings, text);
        if (!import->is_own && mrd_utf8_valid(key, NULL) && mrd_utf8_valid(text, NULL))
            mrd_te_keep_fact(&import->te, key, text);
    }
}

static mrd_err
take_compressed(pt *import, const pt_packet *packet, mrd_why *why)
{
    uint64_t skipped = import->te.input->skipped;
    mrd_in *in = NULL;
    mrd_why damage = { 0 };
    mrd_err err = packet->is_zstd
                      ? mrd_in_memory(packet->compressed, mrd_in_name(import->imp->in), &in, why)
                      : mrd_in_zlib(packet->compressed, mrd_in_name(import->imp->in), &in, why);

    if (err == MRD_OK)
        err = read_packets(import, in, false, &damage);
    mrd_in_close(in);
    if (err == MRD_CORRUPT || err == MRD_TRUNCATED) {
        if (import->te.input->skipped == skipped)
            import->te.input->skipped += packet->compressed.len;
        mrd_pt_drop(import, "damaged compressed packets");
        mrd_pt_clocks_lost(import);
        return MRD_OK;
    }
    if (damage.err != MRD_OK && why != NULL)
        *why = damage;
    return err;
}

static mrd_err
take_event(pt *import, pt_seq *seq, const pt_packet *packet)
{
    if ((packet->flags & NEEDS_STATE) && !seq->valid) {
        mrd_pt_drop(import, "an event whose names and clock were in packets that the writer lost");
        return MRD_OK;
    }
    return mrd_pt_event(import, seq, packet);
}

/* Handles a packet that is not compressed. */
static mrd_err
take_packet(pt *import, const pt_packet *packet)
{
    pt_seq *seq = find_seq(import, packet->seq);
    mrd_err err;

    if (packet->catalog.p != NULL) {
        if (import->own_json.len + packet->catalog.len <= MRD_JSON_MAX && !import->own_read)
            mrd_buf_add(&import->own_json, packet->catalog.p, packet->catalog.len);
        return import->own_json.err;
    }
    if (import->own_json.len > 0 && !import->own_read && (err = mrd_pt_own(import)) != MRD_OK)
        return err;
    if (seq == NULL) {
        mrd_pt_drop(import, "more different sequences of packets than are kept");
        return import->n_seqs == PT_SEQS_MAX ? MRD_OK : MRD_NOMEM;
    }
    import->others += packet->machine != 0;
    if ((err = take_state(import, seq, packet)) != MRD_OK)
        return err;
    if (packet->snapshot.p != NULL)
        return mrd_pt_snapshot(import, packet);
    if (packet->descriptor.p != NULL)
        return mrd_pt_descriptor(import, packet);
    if (packet->has_event)
        return take_event(import, seq, packet);
    if (packet->tree.p != NULL)
        return mrd_pt_tree(import, packet->tree);
    if (packet->attributes.p != NULL)
        take_attributes(import, packet->attributes);
    if (import->is_own && packet->has_time && packet->clock != 0 &&
        packet->clock == import->main_clock)
        mrd_pt_clocks_found(import, packet->timestamp);
    if (packet->other != 0 && !is_about_trace(packet->other))
        import->unread[packet->other < PT_FIELDS ? packet->other : 0]++;
    return MRD_OK;
}

/* ---- The bytes ---- */

/* Returns true if the bytes begin with a complete packet that looks like one with track events.
 * `is_end` means that the input ends with these bytes. */
static bool
is_packet(mrd_bytes data, bool is_end)
{
    pt_packet packet;
    mrd_bytes body = data;
    uint64_t len;

    if (data.len < 4 || data.p[0] != PF_TRACE_PACKET)
        return false;
    body.p++, body.len--;
    if (!mrd_pb_take_varint(&body, &len) || len < 2 || len > PT_SEARCH_MAX || len > body.len)
        return false;
    if (len == body.len ? !is_end : body.p[len] != PF_TRACE_PACKET)
        return false;
    return parse((mrd_bytes){ body.p, (size_t) len }, &packet) &&
           (packet.has_time || packet.seq != 0 || packet.descriptor.p != NULL ||
            packet.compressed.p != NULL) &&
           packet.other != 1;
}

/* Skips bytes, and counts them, up to the next packet. *ret_found is false if there is none. */
static mrd_err
search(pt *import, mrd_in *in, bool *ret_found, mrd_why *why)
{
    mrd_bytes data;
    mrd_err err;
    size_t i = 1;

    *ret_found = false;
    while ((err = mrd_in_fill(in, MRD_IN_WINDOW / 2, &data, why)) == MRD_OK && data.len > 0) {
        bool is_end = data.len < MRD_IN_WINDOW / 2;
        size_t until = is_end ? data.len : data.len - PT_SEARCH_MAX - 16;

        for (; i < until && !*ret_found; i += !*ret_found)
            *ret_found = is_packet((mrd_bytes){ data.p + i, data.len - i }, is_end);
        import->te.input->skipped += i < data.len ? i : data.len;
        mrd_in_consume(in, i < data.len ? i : data.len);
        if (*ret_found)
            break;
        i = 0;
    }
    return err;
}

/* Copies a packet that is longer than the read window. Errors: TRUNCATED, and errors of the
 * input. */
static mrd_err
copy_packet(mrd_buf *to, mrd_in *in, size_t len, mrd_why *why)
{
    mrd_bytes data;
    mrd_err err;

    mrd_buf_reset(to);
    while (to->len < len) {
        size_t chunk;

        if ((err = mrd_in_fill(in, 1, &data, why)) != MRD_OK)
            return err;
        if (data.len == 0)
            return MRD_TRUNCATED;
        chunk = data.len < len - to->len ? data.len : len - to->len;
        mrd_buf_add(to, data.p, chunk);
        mrd_in_consume(in, chunk);
        if (to->err != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(in));
    }
    return MRD_OK;
}

static mrd_err
dispatch(pt *import, const pt_packet *packet, bool top, mrd_why *why)
{
    mrd_err err;

    if (packet->compressed.p != NULL)
        /* ignore a compressed packet inside a compressed packet */
        return top ? take_compressed(import, packet, why) : MRD_OK;
    if ((err = take_packet(import, packet)) == MRD_OK)
        return MRD_OK;
    return mrd_why_set(why, err, 0, "'%s': its events could not be kept",
                       mrd_in_name(import->imp->in));
}

/* Skips and counts damaged bytes up to the next packet. Returns TRUNCATED if none follows. */
static mrd_err
skip_damage(pt *import, mrd_in *in, mrd_why *why)
{
    bool found;
    mrd_err err = search(import, in, &found, why);

    if (err != MRD_OK)
        return err;
    if (!found)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "'%s' ends inside the packet at byte %" PRIu64,
                           mrd_in_name(in), import->at);
    mrd_pt_drop(import, "a damaged packet");
    mrd_pt_clocks_lost(import);
    return MRD_OK;
}

/* Reads a packet. `head` is the size of its tag and length field, `len` that of its body, in
 * bytes. */
static mrd_err
read_packet(pt *import, mrd_in *in, size_t head, size_t len, bool top, mrd_why *why)
{
    mrd_buf *copy = &import->big[top];
    pt_packet packet;
    mrd_bytes data;
    mrd_err err;

    if (len <= PT_VIEW_MAX) {
        if ((err = mrd_in_fill(in, head + len, &data, why)) != MRD_OK)
            return err;
        if (data.len < head + len || !parse((mrd_bytes){ data.p + head, len }, &packet))
            return skip_damage(import, in, why);
        err = dispatch(import, &packet, top, why);
        mrd_in_consume(in, head + len);
        return err;
    }
    mrd_in_consume(in, head);
    if ((err = copy_packet(copy, in, len, why)) == MRD_TRUNCATED) {
        import->te.input->skipped += copy->len;
        return why != NULL && why->err != MRD_OK
                   ? err
                   : mrd_why_set(why, err, 0, "'%s' ends inside the packet at byte %" PRIu64,
                                 mrd_in_name(in), import->at);
    }
    if (err != MRD_OK)
        return err;
    if (!parse((mrd_bytes){ copy->p, len }, &packet)) {
        import->te.input->skipped += len;
        mrd_pt_drop(import, "a damaged packet");
        mrd_pt_clocks_lost(import);
        return MRD_OK;
    }
    return dispatch(import, &packet, top, why);
}

static mrd_err
read_packets(pt *import, mrd_in *in, bool top, mrd_why *why)
{
    size_t part = import->imp->part_max,
           most = part > 0 && part < PT_PACKET_MAX ? part : PT_PACKET_MAX;
    mrd_bytes data, rest;
    uint64_t tag, len;
    mrd_err err;

    while ((err = mrd_in_fill(in, 20, &data, why)) == MRD_OK && data.len > 0) {
        if (top)
            import->at = mrd_in_offset(in);
        rest = data;
        if (mrd_pb_take_varint(&rest, &tag) && tag == PF_TRACE_PACKET &&
            mrd_pb_take_varint(&rest, &len) && len <= most)
            err = read_packet(import, in, data.len - rest.len, (size_t) len, top, why);
        else
            err = skip_damage(import, in, why);
        if (err != MRD_OK)
            break;
    }
    return err;
}

/* ---- The file ---- */

static const struct {
    uint32_t number;
    const char *what;
} unread_names[] = {
    { 1, "kernel events (ftrace)" },
    { 4, "files" },
    { 5, "events of older Chrome" },
    { 7, "system statistics" },
    { 9, "process statistics" },
    { 37, "heap profiles" },
    { 39, "Android log" },
    { 40, "power rails" },
    { 44, "older thread descriptors" },
    { 52, "GPU counters" },
    { 53, "GPU stages" },
    { 54, "CPU samples" },
    { 56, "heap graphs" },
    { 66, "CPU samples (perf)" },
    { 68, "memory maps" },
    { 71, "GPU memory" },
};

/* Adds a note that lists the unread contents and how often each occurs. */
static void
note_unread(pt *import)
{
    uint64_t total = 0;
    unsigned named = 0;

    import->words.len = 0;
    for (uint32_t i = 0; i < PT_FIELDS; i++) {
        size_t k = 0;

        total += import->unread[i];
        if (import->unread[i] == 0 || ++named > 8)
            continue;
        while (k < MRD_COUNT(unread_names) && unread_names[k].number != i)
            k++;
        mrd_buf_fmt(&import->words, "%s%" PRIu64 " x ", named > 1 ? ", " : "", import->unread[i]);
        if (k < MRD_COUNT(unread_names))
            mrd_buf_text(&import->words, unread_names[k].what);
        else
            mrd_buf_fmt(&import->words, "field %" PRIu32, i);
    }
    if (total > 0)
        mrd_catalog_note(import->imp->catalog,
                         "'%s': %" PRIu64
                         " packet%s of kinds that are not read were left out (%s%s): only track "
                         "events are read",
                         mrd_in_name(import->imp->in), total, mrd_plural(total),
                         mrd_buf_cstr(&import->words), named > 8 ? ", ..." : "");
}

static void
notes(pt *import)
{
    mrd_catalog *cat = import->imp->catalog;
    const char *name = mrd_in_name(import->imp->in);

    note_unread(import);
    mrd_import_note_reasons(import->imp);
    if (import->writer_losses > 0)
        mrd_catalog_note(cat,
                         "'%s': its writer lost packets in %" PRIu64
                         " place%s; how many events they had is unknown",
                         name, import->writer_losses, mrd_plural(import->writer_losses));
    if (import->doubtful > 0)
        mrd_catalog_note(cat,
                         "'%s': the times of %" PRIu64
                         " event%s after damage are too early by what the damaged packets held",
                         name, import->doubtful, mrd_plural(import->doubtful));
    if (import->nameless > 0)
        mrd_catalog_note(cat,
                         "'%s': %" PRIu64 " name%s missing, because of lost packets: numbers "
                         "stand instead",
                         name, import->nameless, import->nameless == 1 ? " is" : "s are");
    if (import->beyond_arrows > 0)
        mrd_catalog_note(cat,
                         "'%s': %" PRIu64 " points of arrows beyond the first %u have no start",
                         name, import->beyond_arrows, PT_ARROWS_MAX);
    if (import->others > 0)
        mrd_catalog_note(cat,
                         "'%s': %" PRIu64 " packets are of other machines than the first, whose "
                         "clocks are taken as equal to its clocks",
                         name, import->others);
    if (!import->is_own && !import->has_wall && import->main_clock != PF_REALTIME &&
        import->te.input->events > 0)
        mrd_catalog_note(cat, "'%s' relates its clock to no wall clock: it stays on its own time",
                         name);
}

static mrd_err
finish(pt *import, mrd_why *why)
{
    mrd_dur_ns delta = import->is_own ? -import->own_shift : import->wall;
    mrd_err err = mrd_te_pair(&import->te, why), placed = mrd_pt_place(import);

    if (placed == MRD_OK)
        placed = mrd_te_lines_finish(&import->te.lines, &import->te.facts);
    if (placed != MRD_OK)
        err = mrd_why_set(why, placed, 0, "the processes and threads of the file");
    mrd_pt_units(import);
    notes(import);
    if (err == MRD_OK && delta != 0 && import->te.input->events > 0)
        err = import->imp->shift(import->imp, import->te.profile, delta);
    return err;
}

static void
pt_fini(pt *import)
{
    for (size_t i = 0; i < import->n_seqs; i++)
        mrd_map_fini(&import->seqs[i].names);
    mrd_pt_clocks_fini(import);
    mrd_te_fini(&import->te);
    free(import->seqs);
    free(import->tracks);
    free(import->own_tracks);
    free(import->own_args);
    free(import->own_bases);
    mrd_map_fini(&import->own_fans);
    mrd_map_fini(&import->seq_map);
    mrd_map_fini(&import->clock_map);
    mrd_map_fini(&import->track_map);
    mrd_map_fini(&import->tree);
    mrd_buf_fini(&import->big[0]);
    mrd_buf_fini(&import->big[1]);
    mrd_buf_fini(&import->words);
    mrd_buf_fini(&import->own_json);
    free(import);
}

static mrd_err
pt_run(mrd_import *imp, mrd_why *why)
{
    pt *import = calloc(1, sizeof(*import));
    mrd_why late = { 0 };
    mrd_err err = MRD_OK, end;

    if (import == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    import->imp = imp;
    import->first_part = imp->input;
    mrd_te_init(&import->te, imp);
    import->te.arrows_by_time = true;
    import->key_torch = mrd_strtab_addz(import->te.strings, "cpu_op");
    if (import->te.args == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    else
        err = read_packets(import, imp->in, true, why);
    /* use the packets that were read before such an error */
    if (err == MRD_OK || err == MRD_TRUNCATED || err == MRD_CORRUPT) {
        end = finish(import, &late);
        if (end != MRD_OK && (err == MRD_OK || end == MRD_NOMEM)) {
            err = end;
            if (why != NULL)
                *why = late;
        }
    }
    pt_fini(import);
    return err;
}

/* ---- Detection ---- */

/* Takes the next packet from the first bytes of a file, where the last packet may be cut off.
 * Returns false if there is no packet. */
static bool
take_head(mrd_bytes *from, pt_packet *to)
{
    mrd_bytes body;
    uint64_t tag, len;
    mrd_pb_item item;

    *to = (pt_packet){ .own_track = UINT64_MAX };
    if (!mrd_pb_take_varint(from, &tag) || tag != PF_TRACE_PACKET ||
        !mrd_pb_take_varint(from, &len) || len > PT_PACKET_MAX)
        return false;
    body = (mrd_bytes){ from->p, len < from->len ? (size_t) len : from->len };
    from->p += body.len;
    from->len -= body.len;
    while (mrd_pb_take(&body, &item))
        take_field(to, &item);
    /* If the packet does not end within these bytes, its last field may be cut off. The beginning of
     * a field with compressed packets is enough to detect the format. */
    if (body.len > 0 && from->len == 0 && mrd_pb_take_varint(&body, &tag) &&
        (tag == PF_COMPRESSED || tag == PF_COMPRESSED_ZSTD) && mrd_pb_take_varint(&body, &len)) {
        to->compressed = body;
        to->is_zstd = tag == PF_COMPRESSED_ZSTD;
        body.len = 0;
    }
    return body.len == 0 || from->len == 0;
}

static bool
has_catalog(mrd_bytes head, bool top)
{
    pt_packet packet;
    mrd_in *in = NULL;
    mrd_bytes data;
    bool found = false;

    while (!found && head.len > 0 && take_head(&head, &packet)) {
        found = packet.catalog.p != NULL;
        if (found || packet.compressed.p == NULL || !top)
            continue;
        if (!packet.is_zstd && mrd_in_zlib(packet.compressed, "", &in, NULL) == MRD_OK &&
            mrd_in_fill(in, 4096, &data, NULL) == MRD_OK)
            found = has_catalog(data, false);
        mrd_in_close(in);
        break; /* the catalog is near the start of a file, so stop here */
    }
    return found;
}

bool
mrd_import_is_own_perfetto(mrd_str head)
{
    return has_catalog((mrd_bytes){ (const uint8_t *) head.p, head.len }, true);
}

/* Detects a Perfetto trace by a field of its packets with a number of at least 8. An XSpace, which
 * is similar, has no such fields. */
static int
pt_probe(mrd_str head, const char *name)
{
    mrd_bytes data = { (const uint8_t *) head.p, head.len };
    pt_packet packet;

    (void) name;
    for (unsigned packets = 0; packets < 16 && data.len > 0; packets++) {
        if (!take_head(&data, &packet))
            return 0;
        if (packet.seq != 0 || packet.has_event || packet.descriptor.p != NULL || packet.has_time ||
            packet.attributes.p != NULL || packet.compressed.p != NULL)
            return 95;
    }
    return 0;
}

const mrd_import_ops mrd_import_perfetto = {
    .name = "perfetto",
    .what = "Perfetto trace: track events of any writer, and Meridian's own",
    .probe = pt_probe,
    .run = pt_run,
};
