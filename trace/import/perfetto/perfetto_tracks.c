/*
 * trace/import/perfetto/perfetto_tracks.c - reads the track descriptors of a Perfetto trace. A
 * descriptor may follow the events of its track, so the processes of tracks are determined at the
 * end of the file.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <stdio.h>

#include "base/obj.h"
#include "base/vec.h"

#define ANCESTORS_MAX 100 /* maximum number of nested parents of a track, as in Perfetto */
/* A row's name consists of the names of its parents and its own name. Nothing is appended to a name
 * above this size, in bytes. */
#define ROW_NAME_MAX 4096u

pt_track *
mrd_pt_track(pt *import, uint64_t uuid)
{
    mrd_map_key key = { uuid, 0, 0 };
    uint32_t i = mrd_map_get(&import->track_map, key);

    if (i != MRD_MAP_NONE)
        return &import->tracks[i];
    if (import->n_tracks == TE_LINES_MAX ||
        !MRD_VEC_ROOM(import->tracks, import->n_tracks, import->cap_tracks, 1) ||
        mrd_map_put(&import->track_map, key, (uint32_t) import->n_tracks) != MRD_OK)
        return NULL;
    import->tracks[import->n_tracks] = (pt_track){
        .uuid = uuid, .line = TE_NONE, .own = UINT32_MAX, .rank = MRD_NONE, .multiplier = 1
    };
    return &import->tracks[import->n_tracks++];
}

static mrd_sid
intern(pt *import, mrd_bytes text)
{
    return mrd_strtab_add(import->te.strings, mrd_pb_text(text));
}

/* Returns the program's name, which is the last component of a command's path. */
static mrd_sid
program(pt *import, mrd_bytes command)
{
    mrd_str text = mrd_pb_text(command);
    const char *slash = text.len == 0 ? NULL : memrchr(text.p, '/', text.len);

    if (slash != NULL && slash + 1 < text.p + text.len)
        text = (mrd_str){ slash + 1, text.len - (size_t) (slash + 1 - text.p) };
    return mrd_strtab_add(import->te.strings, text);
}

static void
take_process(pt *import, pt_track *track, mrd_bytes process)
{
    mrd_sid command = MRD_SID_EMPTY;
    mrd_pb_item item;

    track->is_process = true;
    import->words.len = 0;
    while (mrd_pb_take(&process, &item)) {
        if (item.tag == PF_PROCESS_PID)
            track->pid = (int32_t) item.v;
        else if (item.tag == PF_PROCESS_NAME)
            track->process_name = intern(import, item.bytes);
        else if (item.tag == PF_PROCESS_COMMAND && command == MRD_SID_EMPTY)
            command = program(import, item.bytes);
        else if (item.tag == PF_PROCESS_LABEL) {
            mrd_buf_text(&import->words, import->words.len > 0 ? "," : "");
            mrd_buf_add(&import->words, item.bytes.p, item.bytes.len);
        }
    }
    if (track->process_name == MRD_SID_EMPTY)
        track->process_name = command;
    if (import->words.len > 0)
        track->labels = intern(import, (mrd_bytes){ import->words.p, import->words.len });
}

static void
take_thread(pt *import, pt_track *track, mrd_bytes thread)
{
    mrd_pb_item item;

    track->is_thread = true;
    while (mrd_pb_take(&thread, &item)) {
        if (item.tag == PF_THREAD_PID)
            track->pid = (int32_t) item.v;
        else if (item.tag == PF_THREAD_TID)
            track->tid = (int64_t) item.v;
        else if (item.tag == PF_THREAD_NAME)
            track->name = intern(import, item.bytes);
    }
}

static void
take_counter(pt *import, pt_track *track, mrd_bytes counter)
{
    static const mrd_unit units[] = { MRD_UNIT_NONE, MRD_UNIT_NS, MRD_UNIT_COUNT, MRD_UNIT_BYTES };
    mrd_pb_item item;

    track->is_counter = true;
    while (mrd_pb_take(&counter, &item)) {
        if (item.tag == PF_COUNTER_UNIT && item.v < MRD_COUNT(units))
            track->unit = units[item.v];
        else if (item.tag == PF_COUNTER_UNIT_NAME)
            track->unit_name = intern(import, item.bytes);
        else if (item.tag == PF_COUNTER_MULTIPLIER && (int64_t) item.v > 0)
            track->multiplier = (int64_t) item.v;
        else if (item.tag == PF_COUNTER_INCREMENTAL)
            track->incremental = item.v != 0;
    }
}

static void
take_field(pt *import, pt_track *track, const mrd_pb_item *item)
{
    switch (item->tag) {
    case PF_TRACK_PARENT:
        track->parent = item->v;
        break;
    case PF_TRACK_NAME:
    case PF_TRACK_STATIC_NAME:
    case PF_TRACK_ATRACE_NAME:
        if (!track->is_thread)
            track->name = intern(import, item->bytes);
        break;
    case PF_TRACK_PROCESS:
        take_process(import, track, item->bytes);
        break;
    case PF_TRACK_THREAD:
        take_thread(import, track, item->bytes);
        break;
    case PF_TRACK_COUNTER:
        take_counter(import, track, item->bytes);
        break;
    case PF_TRACK_RANK:
        track->rank = (int32_t) item->v;
        break;
    default:
        break;
    }
}

mrd_err
mrd_pt_descriptor(pt *import, const pt_packet *packet)
{
    mrd_bytes rest = packet->descriptor;
    uint64_t uuid = 0;
    mrd_pb_item item;
    pt_track *track;

    while (mrd_pb_take(&rest, &item))
        uuid = item.tag == PF_TRACK_UUID ? item.v : uuid;
    if ((track = mrd_pt_track(import, uuid)) == NULL)
        return import->n_tracks == TE_LINES_MAX ? MRD_OK : MRD_NOMEM;
    track->machine = packet->machine;
    if (packet->own_track / 2 < import->n_own_tracks)
        track->own = import->own_tracks[packet->own_track / 2];
    for (rest = packet->descriptor; mrd_pb_take(&rest, &item);)
        take_field(import, track, &item);
    return import->words.err;
}

mrd_err
mrd_pt_tree(pt *import, mrd_bytes tree)
{
    mrd_err err = MRD_OK;
    mrd_pb_item item, of;

    while (err == MRD_OK && mrd_pb_take(&tree, &item)) {
        bool is_thread = item.tag == PF_TREE_THREAD;
        mrd_sid name = MRD_SID_EMPTY;
        uint64_t id = 0;

        if (item.tag != PF_TREE_PROCESS && !is_thread)
            continue;
        while (mrd_pb_take(&item.bytes, &of)) {
            /* PF_TREE_PID is the pid of a process, or the tid of a thread */
            if (of.tag == PF_TREE_PID)
                id = of.v;
            else if (of.tag == PF_TREE_THREAD_NAME && is_thread)
                name = intern(import, of.bytes);
            else if (of.tag == PF_TREE_COMMAND && !is_thread && name == MRD_SID_EMPTY)
                name = program(import, of.bytes);
        }
        if (name != MRD_SID_EMPTY && import->tree.used < PT_NAMES_MAX)
            err = mrd_map_put(&import->tree, (mrd_map_key){ id, is_thread, 0 }, name);
    }
    return err;
}

static mrd_sid
tree_name(const pt *import, int64_t id, bool is_thread)
{
    uint32_t name = mrd_map_get(&import->tree, (mrd_map_key){ (uint64_t) id, is_thread, 0 });

    return name == MRD_MAP_NONE ? MRD_SID_EMPTY : name;
}

mrd_err
mrd_pt_line(pt *import, pt_track *track, bool counter, uint32_t *ret_line)
{
    mrd_err err = MRD_OK;

    if (track->line == TE_NONE)
        err = mrd_te_line_new(&import->te.lines, counter ? TE_COUNTER : TE_THREAD, &track->line);
    if (err == MRD_OK && track->own != UINT32_MAX &&
        !import->te.lines.lines[track->line].has_track) {
        import->te.lines.lines[track->line].has_track = true;
        import->te.lines.lines[track->line].is_placed = true;
        import->te.lines.lines[track->line].track = track->own;
    }
    *ret_line = track->line;
    return err;
}

/* ---- The end of the file ---- */

static const pt_track *
parent_of(const pt *import, const pt_track *track)
{
    uint32_t i = track->is_process || track->is_thread || track->uuid == 0 || track->parent == 0
                     ? MRD_MAP_NONE
                     : mrd_map_get(&import->track_map, (mrd_map_key){ track->parent, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : &import->tracks[i];
}

static te_id
word_id(pt *import, mrd_str text)
{
    return (te_id){ .is_word = true, .word = mrd_strtab_add(import->te.strings, text) };
}

/* Returns the id of the track's process: its pid, or a word if it has no process. `top` is the
 * track's outermost parent. */
static te_id
process_id(pt *import, const pt_track *top, const pt_track *track)
{
    char text[64];

    if ((top->is_process || top->is_thread) && top->machine != 0) {
        snprintf(text, sizeof(text), "pid %lld of machine %lu", (long long) top->pid,
                 (unsigned long) top->machine);
        return word_id(import, mrd_str_of(text));
    }
    if (top->is_process || top->is_thread)
        return (te_id){ .number = top->pid };
    if (top == track || top->name == MRD_SID_EMPTY)
        return word_id(import, MRD_STR("rows of no process"));
    return (te_id){ .is_word = true, .word = top->name };
}

/* Appends the name of the track's row to import->words: the names of its parents, without its
 * process, then its own name. */
static void
row_name(pt *import, const pt_track *track, const pt_track *top, unsigned depth)
{
    const pt_track *parent = parent_of(import, track);

    if (parent != NULL && depth < ANCESTORS_MAX && (parent != top || parent->is_thread))
        row_name(import, parent, top, depth + 1);
    if (track->name == MRD_SID_EMPTY || import->words.len > ROW_NAME_MAX)
        return;
    mrd_buf_text(&import->words, import->words.len > 0 ? " / " : "");
    mrd_buf_str(&import->words, mrd_strtab_get(import->te.strings, track->name));
}

static mrd_err
place_line(pt *import, const pt_track *track)
{
    const pt_track *top = track, *up;
    te_lines *lines = &import->te.lines;
    te_line *line;
    uint32_t proc;
    mrd_err err;

    for (unsigned n = 0; n < ANCESTORS_MAX && (up = parent_of(import, top)) != NULL; n++)
        top = up;
    if ((err = mrd_te_proc_of(lines, process_id(import, top, track), &proc)) != MRD_OK)
        return err;
    line = &lines->lines[track->line];
    line->proc = proc;
    line->sort_index = track->rank;
    import->words.len = 0;
    row_name(import, track, top, 0);
    if (import->words.err != MRD_OK)
        return MRD_NOMEM;
    if (import->words.len > 0)
        line->name = intern(import, (mrd_bytes){ import->words.p, import->words.len });
    if (track->is_thread) {
        line->tid.number = track->tid;
        if (line->name == MRD_SID_EMPTY)
            line->name = tree_name(import, track->tid, true);
    } else if (line->name == MRD_SID_EMPTY) {
        line->tid = word_id(import, track->is_process  ? MRD_STR("process")
                                    : track->uuid == 0 ? MRD_STR("events without a track")
                                                       : MRD_STR("track without a name"));
    } else {
        line->tid = (te_id){ .is_word = true, .word = line->name };
    }
    return MRD_OK;
}

static mrd_err
place_process(pt *import, const pt_track *track)
{
    te_proc *proc;
    uint32_t i;
    mrd_err err = mrd_te_proc_of(&import->te.lines, process_id(import, track, track), &i);

    if (err != MRD_OK)
        return err;
    proc = &import->te.lines.procs[i];
    if (track->process_name != MRD_SID_EMPTY)
        proc->name = track->process_name;
    else if (proc->name == MRD_SID_EMPTY)
        proc->name = tree_name(import, track->pid, false);
    if (track->labels != MRD_SID_EMPTY)
        proc->labels = track->labels;
    if (track->is_process && track->rank != MRD_NONE)
        proc->sort_index = track->rank;
    return MRD_OK;
}

/* Returns true if operators of PyTorch occur in exactly one process. Then PyTorch's profiler wrote
 * the trace. */
static bool
is_of_one_torch(const pt *import)
{
    uint32_t proc = TE_NONE;

    for (size_t i = 0; i < import->n_tracks; i++) {
        if (!import->tracks[i].is_torch)
            continue;
        if (proc != TE_NONE && proc != import->te.lines.lines[import->tracks[i].line].proc)
            return false;
        proc = import->te.lines.lines[import->tracks[i].line].proc;
    }
    return proc != TE_NONE;
}

mrd_err
mrd_pt_place(pt *import)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < import->n_tracks && err == MRD_OK; i++) {
        const pt_track *track = &import->tracks[i];

        if (track->is_process || track->is_thread)
            err = place_process(import, track);
        if (err == MRD_OK && track->line != TE_NONE && track->own == UINT32_MAX)
            err = place_line(import, track);
    }
    import->te.facts.kineto = import->te.facts.kineto || is_of_one_torch(import);
    return err == MRD_LIMIT ? MRD_OK : err;
}

void
mrd_pt_units(pt *import)
{
    for (size_t i = 0; i < import->n_tracks; i++) {
        const pt_track *t = &import->tracks[i];
        mrd_track *track;

        if (!t->is_counter || t->line == TE_NONE || t->own != UINT32_MAX ||
            !import->te.lines.lines[t->line].has_track)
            continue;
        track =
            mrd_catalog_borrow_track(import->imp->catalog, import->te.lines.lines[t->line].track);
        track->unit = t->unit;
        track->unit_name = t->unit_name;
    }
}
