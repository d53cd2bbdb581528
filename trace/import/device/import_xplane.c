/*
 * trace/import/device/import_xplane.c - reads XSpace protobufs, which the XLA profiler of
 * jax.profiler and torch_xla writes (`plugins/profile/<time>/<host>.xplane.pb`). The schema is
 * xplane.proto of tsl, which is public.
 *
 * A plane stands for a host or a device. Its lines (XLine) are threads of the host or streams of
 * the device, and become tracks. Events state their name and statistics as numbers. The tables of
 * these numbers follow the lines, so a whole plane is read into memory. Events that only state how
 * often they occurred have no time and are dropped.
 *
 * An event's time is in picoseconds after the start of its line. The start of a line is in
 * nanoseconds, and counts from 1970 or from the start of the profile. In the second case the last
 * plane, "Task Environment", states the start of the profile since 1970, and all events are moved.
 *
 * Some lines of a device repeat others (steps, modules). They are kept with their own category. The
 * CPU client of XLA has no plane: its operations are on threads of the host. They are moved to
 * tracks of the device that they state.
 *
 * The name of an operation may not show that it communicates ("psum.49"). If the plane
 * "/host:metadata" comes first, it has HLO protos (hlo.proto of xla, which is public) with the kind
 * and the groups of each operation. They become the arguments "hlo_category" and "replica_groups".
 *
 * Memory: one plane (at most XP_PLANE_MAX or mrd_import.part_max bytes) and its tables, and the
 * communicating instructions of all programs.
 */
#include "trace/import/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/pb_read.h"
#include "trace/json/args.h"
#include "trace/model/activity.h"

#define XP_PLANE_MAX (256u << 20)
#define XP_STATS_MAX 64
/* 2001-09-09: a line that starts later counts from 1970, an earlier one from the profile's start */
#define XP_EPOCH_FROM (1000000000 * MRD_SEC)

/* An HLO instruction that communicates with other devices. */
typedef struct {
    mrd_sid opcode, groups; /* `groups` is text such as "[[0, 1], [2, 3]]", empty if unknown */
} xp_instruction;

typedef struct {
    mrd_import *imp;
    mrd_input *input;
    mrd_strtab *strings;
    mrd_args *args;
    /* tables of the current plane: number of an event's name, or of a statistic's name -> string
     * id */
    mrd_map names, stats;
    /* maps (program number, hash of the instruction's name) to an index in `instructions` */
    mrd_map instruction_of;
    xp_instruction *instructions;
    size_t n_instructions, cap_instructions;
    /* XLA's name of the number that joins a launch and its kernel, and the name that others use */
    mrd_sid key_correlation_id, key_correlation;
    mrd_sid key_op, key_program, key_category, key_groups, key_ordinal;
    mrd_proc_id process;
    bool has_device;
    int64_t device;
    mrd_str plane;
    uint64_t at;       /* offset of the current plane in the input */
    mrd_wall_ns start; /* start of the profile; 0 means unknown */
    mrd_sid host;      /* name of the host, if the file states one */
    uint32_t hosts;    /* number of hosts that the file states */
    int64_t pid;       /* pid of the process, or MRD_NONE */
    bool any, absolute;
} xp;

/* ---- Tables of a plane ---- */

static mrd_map_key
number_key(uint64_t id)
{
    return (mrd_map_key){ .a = id, .b = 0x7870 };
}

/* Adds an entry of one of the plane's tables to the map `to`. Field 1 of an entry is its number,
 * and field 2 a message whose field 2 is the name. With `events`, the display name in field 4 is
 * preferred. */
static mrd_err
take_entry(xp *path, mrd_map *to, mrd_bytes entry, bool events)
{
    mrd_bytes value = { NULL, 0 }, name = { NULL, 0 }, shown = { NULL, 0 };
    uint64_t id = 0;
    mrd_pb_item item;

    while (mrd_pb_take(&entry, &item)) {
        if (item.number == 1 && item.wire == MRD_PB_VARINT)
            id = item.v;
        else if (item.number == 2 && item.wire == MRD_PB_BYTES)
            value = item.bytes;
    }
    while (mrd_pb_take(&value, &item)) {
        if (item.number == 1 && item.wire == MRD_PB_VARINT && id == 0)
            id = item.v;
        else if (item.wire == MRD_PB_BYTES && item.number == 2)
            name = item.bytes;
        else if (item.wire == MRD_PB_BYTES && item.number == 4 && events)
            shown = item.bytes;
    }
    return mrd_map_put(to, number_key(id),
                       mrd_strtab_add(path->strings, mrd_pb_text(shown.len > 0 ? shown : name)));
}

static mrd_sid
name_of(const mrd_map *map, uint64_t id)
{
    uint32_t sid = mrd_map_get(map, number_key(id));

    return sid == MRD_MAP_NONE ? MRD_SID_EMPTY : sid;
}

/* ---- Programs (HLO modules) ---- */

/* Appends the numbers of a repeated protobuf field as text. The field may be packed. */
static void
put_numbers(mrd_buf *to, const mrd_pb_item *item)
{
    mrd_bytes packed = item->bytes;
    uint64_t v = item->v;
    bool is_more = item->wire == MRD_PB_VARINT || mrd_pb_take_varint(&packed, &v);

    while (is_more) {
        mrd_buf_fmt(to, "%s%" PRIu64, to->len > 0 && to->p[to->len - 1] != '[' ? ", " : "", v);
        is_more = item->wire == MRD_PB_BYTES && mrd_pb_take_varint(&packed, &v);
    }
}

/* Appends the device numbers of a ReplicaGroup message as text, such as "[0, 1]". */
static void
put_group(mrd_buf *to, mrd_bytes group)
{
    mrd_pb_item item;

    mrd_buf_text(to, to->len > 1 ? ", [" : "[");
    while (mrd_pb_take(&group, &item)) {
        if (item.number == 1)
            put_numbers(to, &item);
    }
    mrd_buf_byte(to, ']');
}

/* Stores opcode and replica groups of an HloInstructionProto. Ignores instructions that do not
 * communicate. Errors: NOMEM. */
static mrd_err
take_instruction(xp *path, uint64_t program, mrd_bytes instruction)
{
    static const char *const opcodes[] = { "all-",       "reduce-scatter", "collective-",
                                           "ragged-all", "send",           "recv" };
    mrd_str name = MRD_STR(""), opcode = MRD_STR("");
    mrd_buf groups = { 0 };
    bool communicates = false, is_iota = false;
    mrd_pb_item item, pb_item;
    mrd_err err;

    mrd_buf_byte(&groups, '[');
    while (mrd_pb_take(&instruction, &item)) {
        if (item.wire != MRD_PB_BYTES)
            continue;
        if (item.number == 1)
            name = mrd_pb_text(item.bytes);
        else if (item.number == 2)
            opcode = mrd_pb_text(item.bytes);
        else if (item.number == 49)
            put_group(&groups, item.bytes);
        while (item.number == 87 && mrd_pb_take(&item.bytes, &pb_item)) {
            if (pb_item.number == 1 && pb_item.wire == MRD_PB_BYTES)
                put_group(&groups, pb_item.bytes);
            is_iota = is_iota || pb_item.number == 2;
        }
    }
    mrd_buf_byte(&groups, ']');
    err = groups.err;
    for (size_t i = 0; i < MRD_COUNT(opcodes); i++)
        communicates = communicates || mrd_str_starts(opcode, opcodes[i]);
    if (communicates && err == MRD_OK &&
        MRD_VEC_ROOM(path->instructions, path->n_instructions, path->cap_instructions, 1)) {
        mrd_map_key key = { program, mrd_hash64(name.p, name.len, 0), 0 };

        err = mrd_map_put(&path->instruction_of, key, (uint32_t) path->n_instructions);
        path->instructions[path->n_instructions++] =
            (xp_instruction){ .opcode = mrd_strtab_add(path->strings, opcode),
                              .groups =
                                  groups.len > 2 && !is_iota
                                      ? mrd_strtab_add(path->strings,
                                                       (mrd_str){ (char *) groups.p, groups.len })
                                      : MRD_SID_EMPTY };
    } else if (communicates) {
        err = MRD_NOMEM;
    }
    mrd_buf_fini(&groups);
    return err;
}

/* Reads the instructions of an HloProto. Field 1 of the HloProto is the module. Field 3 of the
 * module has the computations, and field 2 of a computation has its instructions. */
static mrd_err
take_program(xp *path, uint64_t program, mrd_bytes proto)
{
    mrd_pb_item module, computation, item;
    mrd_err err = MRD_OK;

    while (err == MRD_OK && mrd_pb_take(&proto, &module)) {
        if (module.number != 1 || module.wire != MRD_PB_BYTES)
            continue;
        while (err == MRD_OK && mrd_pb_take(&module.bytes, &computation)) {
            if (computation.number != 3 || computation.wire != MRD_PB_BYTES)
                continue;
            while (err == MRD_OK && mrd_pb_take(&computation.bytes, &item)) {
                if (item.number == 2 && item.wire == MRD_PB_BYTES)
                    err = take_instruction(path, program, item.bytes);
            }
        }
    }
    return err;
}

/* Returns the number at the end of a program's name: 14 in "jit_train_step(14)". 0 if there is
 * none. */
static uint64_t
number_of_program(mrd_str name)
{
    const char *bracket = memrchr(name.p, '(', name.len);
    uint64_t number = 0;

    if (bracket != NULL && name.p[name.len - 1] == ')')
        (void) mrd_num_digits((mrd_str){ bracket + 1, (size_t) (name.p + name.len - bracket) - 2 },
                              &number);
    return number;
}

/* Reads a program from an entry of the plane "/host:metadata". The entry has the name of the
 * program, and a statistic with its HloProto as bytes. */
static mrd_err
take_metadata(xp *path, mrd_bytes entry)
{
    mrd_bytes value = { NULL, 0 }, proto = { NULL, 0 };
    uint64_t program = 0;
    mrd_pb_item item, pb_item;

    while (mrd_pb_take(&entry, &item)) {
        if (item.number == 2 && item.wire == MRD_PB_BYTES)
            value = item.bytes;
    }
    while (mrd_pb_take(&value, &item)) {
        if (item.number == 2 && item.wire == MRD_PB_BYTES)
            program = number_of_program(mrd_pb_text(item.bytes));
        while (item.number == 5 && item.wire == MRD_PB_BYTES &&
               mrd_pb_take(&item.bytes, &pb_item)) {
            if (pb_item.number == 6 && pb_item.wire == MRD_PB_BYTES)
                proto = pb_item.bytes;
        }
    }
    return take_program(path, program, proto);
}

/* ---- Events ---- */

/* Returns true if this field of an XStat is its value. The field number depends on the value's
 * type. */
static bool
is_value(const mrd_pb_item *item)
{
    return item->number == 2 ? item->wire == MRD_PB_FIXED64
           : item->number == 5 || item->number == 6
               ? item->wire == MRD_PB_BYTES
               : item->wire == MRD_PB_VARINT &&
                     (item->number == 3 || item->number == 4 || item->number == 7);
}

static void
take_stat(xp *path, mrd_bytes stat)
{
    mrd_sid key = MRD_SID_EMPTY;
    mrd_pb_item item, value = { 0 };
    double d;

    while (mrd_pb_take(&stat, &item)) {
        if (item.number == 1 && item.wire == MRD_PB_VARINT)
            key = name_of(&path->stats, item.v);
        else if (is_value(&item))
            value = item;
    }
    if (key == MRD_SID_EMPTY)
        return;
    key = key == path->key_correlation_id ? path->key_correlation : key;
    switch (value.number) {
    case 2:
        memcpy(&d, &value.v, sizeof(d));
        mrd_args_double(path->args, key, d);
        break;
    case 3:
        mrd_args_uint(path->args, key, value.v);
        break;
    case 4:
        mrd_args_int(path->args, key, (int64_t) value.v);
        break;
    case 5:
        mrd_args_str(path->args, key, mrd_pb_text(value.bytes));
        break;
    case 7:
        mrd_args_sid(path->args, key, name_of(&path->stats, value.v));
        break;
    default: /* ignore bytes in unknown formats */
        break;
    }
}

typedef struct {
    mrd_track_id track;
    mrd_sid category, device_category;
    mrd_ev_ns start;
    bool is_client; /* true if the line is a thread of XLA's CPU client */
} xp_line;

/* Adds the opcode and replica groups of the executed instruction as arguments. Ignores instructions
 * that do not communicate. */
static void
put_instruction(xp *path)
{
    const mrd_arg *op = mrd_args_find(path->args, path->key_op),
                  *program = mrd_args_find(path->args, path->key_program);
    mrd_str name = mrd_arg_text(path->strings, op);
    uint32_t i;

    if (op == NULL || !mrd_arg_is_int(program) ||
        mrd_args_find(path->args, path->key_category) != NULL)
        return;
    i = mrd_map_get(&path->instruction_of,
                    (mrd_map_key){ program->v.u, mrd_hash64(name.p, name.len, 0), 0 });
    if (i == MRD_MAP_NONE)
        return;
    mrd_args_sid(path->args, path->key_category, path->instructions[i].opcode);
    if (path->instructions[i].groups != MRD_SID_EMPTY)
        mrd_args_sid(path->args, path->key_groups, path->instructions[i].groups);
}

/* Moves an operation of XLA's CPU client from the track of its thread to a track of the device that
 * the operation states. */
static void
move_to_device(xp *path, const xp_line *line, mrd_event *ev)
{
    const mrd_arg *ordinal = mrd_args_find(path->args, path->key_ordinal);
    mrd_track track;

    if (!line->is_client || mrd_args_find(path->args, path->key_op) == NULL ||
        mrd_str_starts(mrd_strtab_get(path->strings, ev->name), "end: "))
        return;
    track = *mrd_catalog_borrow_track(path->imp->catalog, line->track);
    track.device_idx = mrd_arg_is_int(ordinal) && ordinal->v.i >= 0 ? ordinal->v.i : 0;
    ev->track = mrd_catalog_track(path->imp->catalog, &track);
    ev->category = line->device_category;
}

static mrd_err
take_event(xp *path, const xp_line *line, mrd_bytes event)
{
    mrd_event ev = { .kind = MRD_SPAN,
                     .track = line->track,
                     .category = line->category,
                     .bound_ns = MRD_BOUND_LOCAL };
    uint64_t id = 0, offset_ps = 0, dur_ps = 0;
    unsigned stats = 0;
    bool counted = false;
    char text[48];
    mrd_pb_item item;
    size_t count;

    mrd_args_reset(path->args);
    while (mrd_pb_take(&event, &item)) {
        if (item.number == 4 && item.wire == MRD_PB_BYTES && stats++ < XP_STATS_MAX)
            take_stat(path, item.bytes);
        else if (item.wire != MRD_PB_VARINT)
            continue;
        else if (item.number == 1)
            id = item.v;
        else if (item.number == 2)
            offset_ps = item.v;
        else if (item.number == 3)
            dur_ps = item.v;
        else if (item.number == 5)
            counted = true;
    }
    path->input->records++;
    if (event.len > 0 || counted || offset_ps > INT64_MAX || dur_ps > INT64_MAX) {
        mrd_import_drop(path->imp, path->at,
                        counted ? "an event that states a count, no time" : "a damaged event");
        return MRD_OK;
    }
    ev.name = name_of(&path->names, id);
    if (ev.name == MRD_SID_EMPTY) {
        snprintf(text, sizeof(text), "event %" PRIu64, id);
        ev.name = mrd_strtab_addz(path->strings, text);
    }
    put_instruction(path);
    move_to_device(path, line, &ev);
    ev.ts = mrd_ev_add(line->start, (int64_t) (offset_ps / 1000));
    /* Round begin and end to ns, not the duration. So an event that ends where the next one begins
     * still does so. */
    ev.dur_ns = (int64_t) ((offset_ps + dur_ps) / 1000) - (int64_t) (offset_ps / 1000);
    ev.args = mrd_args_view(path->args, &count);
    ev.arg_count = (uint32_t) count;
    path->any = true;
    return mrd_import_put(path->imp, 0, &ev);
}

static void
begin_line(xp *path, xp_line *line, mrd_str name, uint64_t id)
{
    bool overlay = path->has_device && mrd_activity_is_overlay(name);
    mrd_track track;
    char label[256];

    mrd_track_init(&track, path->process, MRD_SRC_FRAMEWORK);
    if (path->has_device) {
        track.device_idx = path->device;
        snprintf(label, sizeof(label), MRD_STR_FMT " " MRD_STR_FMT,
                 (int) (path->plane.len < 100 ? path->plane.len : 100), path->plane.p,
                 (int) (name.len < 100 ? name.len : 100), name.p);
    } else {
        track.thread_id = id > INT64_MAX ? MRD_NONE : (int64_t) id;
        snprintf(label, sizeof(label), MRD_STR_FMT, (int) (name.len < 200 ? name.len : 200),
                 name.p);
    }
    track.name = mrd_strtab_addz(path->strings, label);
    line->track = mrd_catalog_track(path->imp->catalog, &track);
    line->category = mrd_strtab_addz(path->strings, overlay            ? "xla overlay"
                                                    : path->has_device ? "kernel"
                                                                       : "host");
    line->device_category = mrd_strtab_addz(path->strings, "kernel");
    line->is_client =
        !path->has_device && mrd_str_starts(name, "tf_XLA") && mrd_str_has(name, "CpuClient");
}

static mrd_err
take_line(xp *path, mrd_bytes bytes)
{
    mrd_bytes rest = bytes;
    mrd_str name = MRD_STR("");
    xp_line line = { 0 };
    uint64_t id = 0;
    mrd_err err = MRD_OK;
    mrd_pb_item item;

    while (mrd_pb_take(&rest, &item)) {
        if (item.number == 1 && item.wire == MRD_PB_VARINT)
            id = item.v;
        else if (item.number == 3 && item.wire == MRD_PB_VARINT)
            /* a start of a line after 2116 is invalid, so it counts as 0 */
            line.start = (mrd_ev_ns){ item.v > INT64_MAX / 2 ? 0 : (int64_t) item.v };
        else if ((item.number == 2 || item.number == 11) && item.wire == MRD_PB_BYTES &&
                 item.bytes.len > 0)
            name = mrd_pb_text(item.bytes);
    }
    path->absolute = path->absolute || line.start.ns > XP_EPOCH_FROM;
    begin_line(path, &line, name, id);
    while (err == MRD_OK && mrd_pb_take(&bytes, &item))
        if (item.number == 4 && item.wire == MRD_PB_BYTES)
            err = take_event(path, &line, item.bytes);
    return err;
}

/* Reads a statistic of a plane: the start of the profile, from the plane "Task Environment", or the
 * pid, from planes of the host. */
static void
take_fact(xp *path, mrd_bytes stat)
{
    uint64_t v = 0;
    mrd_sid key = MRD_SID_EMPTY;
    mrd_pb_item item;

    while (mrd_pb_take(&stat, &item)) {
        if (item.number == 1 && item.wire == MRD_PB_VARINT)
            key = name_of(&path->stats, item.v);
        else if ((item.number == 3 || item.number == 4) && item.wire == MRD_PB_VARINT)
            v = item.v;
    }
    if (v == 0 || v > INT64_MAX)
        return;
    if (mrd_str_is(path->plane, "Task Environment") &&
        mrd_str_is(mrd_strtab_get(path->strings, key), "profile_start_time"))
        path->start = (mrd_wall_ns){ (int64_t) v };
    if (mrd_str_starts(path->plane, "/host:") &&
        mrd_str_is(mrd_strtab_get(path->strings, key), "process_id"))
        path->pid = (int64_t) v;
}

static mrd_err
take_plane(xp *path, mrd_bytes plane, mrd_why *why)
{
    mrd_bytes rest = plane;
    mrd_err err = MRD_OK;
    mrd_pb_item item;

    mrd_map_fini(&path->names);
    mrd_map_fini(&path->stats);
    path->names = path->stats = (mrd_map){ 0 };
    path->plane = MRD_STR("");
    while (err == MRD_OK && mrd_pb_take(&rest, &item)) {
        if (item.wire != MRD_PB_BYTES)
            continue;
        if (item.number == 2)
            path->plane = mrd_pb_text(item.bytes);
        else if (item.number == 4)
            err = take_entry(path, &path->names, item.bytes, true);
        else if (item.number == 5)
            err = take_entry(path, &path->stats, item.bytes, false);
    }
    if (err == MRD_OK && rest.len > 0)
        return mrd_why_set(why, MRD_CORRUPT, 0, "'%s': the plane at offset %" PRIu64 " is damaged",
                           mrd_in_name(path->imp->in), path->at);
    for (rest = plane;
         err == MRD_OK && mrd_str_is(path->plane, "/host:metadata") && mrd_pb_take(&rest, &item);) {
        if (item.number == 4 && item.wire == MRD_PB_BYTES)
            err = take_metadata(path, item.bytes);
    }
    path->has_device = mrd_activity_is_device(path->plane, &path->device);
    while (err == MRD_OK && mrd_pb_take(&plane, &item)) {
        if (item.number == 3 && item.wire == MRD_PB_BYTES)
            err = take_line(path, item.bytes);
        else if (item.number == 6 && item.wire == MRD_PB_BYTES)
            take_fact(path, item.bytes);
    }
    return err;
}

/* ---- The input ---- */

/* Reads the next top-level protobuf field of the input into `to`. Sets *ret_number to the number of
 * the field, or to 0 at the end of the input. */
static mrd_err
read_field(xp *path, mrd_buf *to, uint32_t *ret_number, mrd_why *why)
{
    mrd_in *in = path->imp->in;
    mrd_bytes data, head;
    uint64_t tag, count = 0;
    size_t most = path->imp->part_max != 0 && path->imp->part_max < XP_PLANE_MAX
                      ? path->imp->part_max
                      : XP_PLANE_MAX;
    mrd_err err = mrd_in_fill(in, 20, &data, why);

    *ret_number = 0;
    mrd_buf_reset(to);
    if (err != MRD_OK || data.len == 0)
        return err;
    head = data;
    path->at = mrd_in_offset(in);
    if (!mrd_pb_take_varint(&head, &tag) || (tag & 7) != MRD_PB_BYTES || tag >> 3 == 0 ||
        !mrd_pb_take_varint(&head, &count))
        return mrd_why_set(why, MRD_CORRUPT, 0, "'%s': no field of an XSpace at offset %" PRIu64,
                           mrd_in_name(in), path->at);
    if (count > most)
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "'%s': the plane at offset %" PRIu64 " has %" PRIu64
                           " bytes; at most %zu are read",
                           mrd_in_name(in), path->at, count, most);
    mrd_in_consume(in, data.len - head.len);
    while (to->len < count) {
        size_t chunk;

        if ((err = mrd_in_fill(in, 1, &data, why)) != MRD_OK)
            return err;
        if (data.len == 0)
            return mrd_why_set(why, MRD_TRUNCATED, 0,
                               "'%s' ends inside the plane at offset %" PRIu64, mrd_in_name(in),
                               path->at);
        chunk = data.len < count - to->len ? data.len : (size_t) (count - to->len);
        mrd_buf_add(to, data.p, chunk);
        mrd_in_consume(in, chunk);
        if (to->err != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(in));
    }
    *ret_number = (uint32_t) (tag >> 3);
    return MRD_OK;
}

static void
begin_process(xp *path)
{
    const mrd_identity *place = &path->imp->identity;
    mrd_process process;

    mrd_process_init(&process);
    process.instance_id = place->instance_id;
    process.process_id = place->process_id == MRD_NONE ? 0 : place->process_id;
    process.flags = place->process_id == MRD_NONE ? MRD_PROC_NO_PID : 0;
    process.rank = place->rank;
    process.job = place->job;
    if (place->instance_id == MRD_SID_EMPTY || place->process_id == MRD_NONE)
        process.scope = path->imp->input + 1;
    path->process = mrd_catalog_process(path->imp->catalog, &process);
}

/* Completes the identity of the process with what the file states. */
static void
end_process(xp *path)
{
    mrd_process *process = mrd_catalog_borrow_process(path->imp->catalog, path->process);

    if (process->scope == 0)
        return;
    if (path->imp->identity.instance_id == MRD_SID_EMPTY && path->hosts == 1)
        process->instance_id = path->host;
    if (path->imp->identity.process_id == MRD_NONE && path->pid != MRD_NONE) {
        process->process_id = path->pid;
        process->flags &= ~(uint32_t) MRD_PROC_NO_PID;
    }
}

static mrd_err
read_space(xp *path, mrd_why *why)
{
    mrd_buf plane = { 0 };
    uint32_t number = 1;
    mrd_err err = MRD_OK;

    while (err == MRD_OK && number != 0) {
        err = read_field(path, &plane, &number, why);
        if (err == MRD_OK && number == 1)
            err = take_plane(path, (mrd_bytes){ plane.p, plane.len }, why);
        else if (err == MRD_OK && number == 4 && plane.len > 0) {
            path->host =
                mrd_strtab_add(path->strings, (mrd_str){ (const char *) plane.p, plane.len });
            path->hosts++;
        }
        /* fields 2 and 3 are errors and warnings of the profiler */
        else if (err == MRD_OK && (number == 2 || number == 3))
            mrd_catalog_note(path->imp->catalog, "'%s': the profiler says: %.*s",
                             mrd_in_name(path->imp->in), plane.len > 300 ? 300 : (int) plane.len,
                             (const char *) plane.p);
    }
    mrd_buf_fini(&plane);
    return err;
}

static mrd_err
xp_run(mrd_import *imp, mrd_why *why)
{
    xp path = { .imp = imp,
                .input = mrd_import_input(imp),
                .pid = MRD_NONE,
                .strings = mrd_catalog_strings(imp->catalog) };
    mrd_err err;

    if ((path.args = mrd_args_new(path.strings)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "'%s'", mrd_in_name(imp->in));
    path.key_correlation_id = mrd_strtab_addz(path.strings, "correlation_id");
    path.key_correlation = mrd_strtab_addz(path.strings, "correlation");
    path.key_op = mrd_strtab_addz(path.strings, "hlo_op");
    path.key_program = mrd_strtab_addz(path.strings, "program_id");
    path.key_category = mrd_strtab_addz(path.strings, "hlo_category");
    path.key_groups = mrd_strtab_addz(path.strings, "replica_groups");
    path.key_ordinal = mrd_strtab_addz(path.strings, "device_ordinal");
    begin_process(&path);
    err = read_space(&path, why);
    end_process(&path);
    if (path.any && !path.absolute && path.start.ns > 0)
        err = imp->shift(imp, 0, path.start.ns) == MRD_OK || err != MRD_OK ? err : MRD_NOMEM;
    else if (path.any && !path.absolute)
        mrd_catalog_note(imp->catalog,
                         "'%s' does not say when the profile began: it stays on its own time",
                         mrd_in_name(imp->in));
    mrd_map_fini(&path.names);
    mrd_map_fini(&path.stats);
    mrd_map_fini(&path.instruction_of);
    free(path.instructions);
    mrd_args_free(path.args);
    return err;
}

/* Detects an XSpace by the name of its first plane, which is within the first 64 bytes. The
 * profiler sets this name, so it is the same for all users. */
static int
xp_probe(mrd_str head, const char *name)
{
    mrd_str start = { head.p, head.len < 64 ? head.len : 64 };

    (void) name;
    if (start.len < 8 || start.p[0] != 0x0a)
        return 0;
    return mrd_str_has(start, "\x12\x09/host:CPU") || mrd_str_has(start, "/host:") ||
                   mrd_str_has(start, "/device:") || mrd_str_has(start, "Task Environment")
               ? 92
               : 0;
}

const mrd_import_ops mrd_import_xplane = {
    .name = "xplane",
    .what = "XSpace protobuf of the XLA profiler (JAX, torch_xla)",
    .probe = xp_probe,
    .run = xp_run,
};
