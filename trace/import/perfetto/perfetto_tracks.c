/*
 * The rows of a Perfetto trace. A descriptor may follow the events of its track, so the process of
 * a line is set at the end of the file.
 */
#include "trace/import/perfetto/perfetto_int.h"

#include <stdio.h>

#include "base/obj.h"
#include "base/vec.h"

#define ANCESTORS_MAX 100   /* as in Perfetto */
#define ROW_NAME_MAX  4096u /* bytes before the last part of a name */

pt_track *
mrd_pt_track(pt *p, uint64_t uuid)
{
    mrd_map_key key = { uuid, 0, 0 };
    uint32_t i = mrd_map_get(&p->track_map, key);

    if (i != MRD_MAP_NONE)
        return &p->tracks[i];
    if (p->n_tracks == TE_LINES_MAX || !MRD_VEC_ROOM(p->tracks, p->n_tracks, p->cap_tracks, 1) ||
        mrd_map_put(&p->track_map, key, (uint32_t) p->n_tracks) != MRD_OK)
        return NULL;
    p->tracks[p->n_tracks] = (pt_track){
        .uuid = uuid, .line = TE_NONE, .own = UINT32_MAX, .rank = MRD_NONE, .multiplier = 1
    };
    return &p->tracks[p->n_tracks++];
}

static mrd_sid
intern(pt *p, mrd_bytes text)
{
    return mrd_strtab_add(p->te.strings, mrd_pb_text(text));
}

/* Returns the program of a command: the last component of its path. */
static mrd_sid
program(pt *p, mrd_bytes command)
{
    mrd_str text = mrd_pb_text(command);
    const char *slash = text.len == 0 ? NULL : memrchr(text.p, '/', text.len);

    if (slash != NULL && slash + 1 < text.p + text.len)
        text = (mrd_str){ slash + 1, text.len - (size_t) (slash + 1 - text.p) };
    return mrd_strtab_add(p->te.strings, text);
}

static void
take_process(pt *p, pt_track *t, mrd_bytes process)
{
    mrd_sid command = MRD_SID_EMPTY;
    mrd_pb_item f;

    t->is_process = true;
    p->words.len = 0;
    while (mrd_pb_take(&process, &f)) {
        if (f.tag == PF_PROCESS_PID)
            t->pid = (int32_t) f.v;
        else if (f.tag == PF_PROCESS_NAME)
            t->process_name = intern(p, f.bytes);
        else if (f.tag == PF_PROCESS_COMMAND && command == MRD_SID_EMPTY)
            command = program(p, f.bytes);
        else if (f.tag == PF_PROCESS_LABEL) {
            mrd_buf_text(&p->words, p->words.len > 0 ? "," : "");
            mrd_buf_add(&p->words, f.bytes.p, f.bytes.len);
        }
    }
    if (t->process_name == MRD_SID_EMPTY)
        t->process_name = command;
    if (p->words.len > 0)
        t->labels = intern(p, (mrd_bytes){ p->words.p, p->words.len });
}

static void
take_thread(pt *p, pt_track *t, mrd_bytes thread)
{
    mrd_pb_item f;

    t->is_thread = true;
    while (mrd_pb_take(&thread, &f)) {
        if (f.tag == PF_THREAD_PID)
            t->pid = (int32_t) f.v;
        else if (f.tag == PF_THREAD_TID)
            t->tid = (int64_t) f.v;
        else if (f.tag == PF_THREAD_NAME)
            t->name = intern(p, f.bytes);
    }
}

static void
take_counter(pt *p, pt_track *t, mrd_bytes counter)
{
    static const mrd_unit units[] = { MRD_UNIT_NONE, MRD_UNIT_NS, MRD_UNIT_COUNT, MRD_UNIT_BYTES };
    mrd_pb_item f;

    t->is_counter = true;
    while (mrd_pb_take(&counter, &f)) {
        if (f.tag == PF_COUNTER_UNIT && f.v < MRD_COUNT(units))
            t->unit = units[f.v];
        else if (f.tag == PF_COUNTER_UNIT_NAME)
            t->unit_name = intern(p, f.bytes);
        else if (f.tag == PF_COUNTER_MULTIPLIER && (int64_t) f.v > 0)
            t->multiplier = (int64_t) f.v;
        else if (f.tag == PF_COUNTER_INCREMENTAL)
            t->incremental = f.v != 0;
    }
}

static void
take_field(pt *p, pt_track *t, const mrd_pb_item *f)
{
    switch (f->tag) {
    case PF_TRACK_PARENT:
        t->parent = f->v;
        break;
    case PF_TRACK_NAME:
    case PF_TRACK_STATIC_NAME:
    case PF_TRACK_ATRACE_NAME:
        if (!t->is_thread)
            t->name = intern(p, f->bytes);
        break;
    case PF_TRACK_PROCESS:
        take_process(p, t, f->bytes);
        break;
    case PF_TRACK_THREAD:
        take_thread(p, t, f->bytes);
        break;
    case PF_TRACK_COUNTER:
        take_counter(p, t, f->bytes);
        break;
    case PF_TRACK_RANK:
        t->rank = (int32_t) f->v;
        break;
    default:
        break;
    }
}

mrd_err
mrd_pt_descriptor(pt *p, const pt_packet *packet)
{
    mrd_bytes rest = packet->descriptor;
    uint64_t uuid = 0;
    mrd_pb_item f;
    pt_track *t;

    while (mrd_pb_take(&rest, &f))
        uuid = f.tag == PF_TRACK_UUID ? f.v : uuid;
    if ((t = mrd_pt_track(p, uuid)) == NULL)
        return p->n_tracks == TE_LINES_MAX ? MRD_OK : MRD_NOMEM;
    t->declared = true;
    t->machine = packet->machine;
    if (packet->own_track / 2 < p->n_own_tracks) {
        t->own = p->own_tracks[packet->own_track / 2];
        t->is_loss = packet->own_track & 1;
    }
    for (rest = packet->descriptor; mrd_pb_take(&rest, &f);)
        take_field(p, t, &f);
    return p->words.err;
}

mrd_err
mrd_pt_tree(pt *p, mrd_bytes tree)
{
    mrd_err err = MRD_OK;
    mrd_pb_item f, of;

    while (err == MRD_OK && mrd_pb_take(&tree, &f)) {
        bool is_thread = f.tag == PF_TREE_THREAD;
        mrd_sid name = MRD_SID_EMPTY;
        uint64_t id = 0;

        if (f.tag != PF_TREE_PROCESS && !is_thread)
            continue;
        while (mrd_pb_take(&f.bytes, &of)) {
            if (of.tag == PF_TREE_PID) /* of a thread, its number */
                id = of.v;
            else if (of.tag == PF_TREE_THREAD_NAME && is_thread)
                name = intern(p, of.bytes);
            else if (of.tag == PF_TREE_COMMAND && !is_thread && name == MRD_SID_EMPTY)
                name = program(p, of.bytes);
        }
        if (name != MRD_SID_EMPTY && p->tree.used < PT_NAMES_MAX)
            err = mrd_map_put(&p->tree, (mrd_map_key){ id, is_thread, 0 }, name);
    }
    return err;
}

static mrd_sid
tree_name(const pt *p, int64_t id, bool is_thread)
{
    uint32_t name = mrd_map_get(&p->tree, (mrd_map_key){ (uint64_t) id, is_thread, 0 });

    return name == MRD_MAP_NONE ? MRD_SID_EMPTY : name;
}

mrd_err
mrd_pt_line(pt *p, pt_track *track, bool counter, uint32_t *ret_line)
{
    mrd_err err = MRD_OK;

    if (track->line == TE_NONE)
        err = mrd_te_line_new(&p->te.lines, counter ? TE_COUNTER : TE_THREAD, &track->line);
    if (err == MRD_OK && track->own != UINT32_MAX && !p->te.lines.lines[track->line].has_track) {
        p->te.lines.lines[track->line].has_track = true;
        p->te.lines.lines[track->line].is_placed = true;
        p->te.lines.lines[track->line].track = track->own;
    }
    *ret_line = track->line;
    return err;
}

/* ---- The end of the file ---- */

static const pt_track *
parent_of(const pt *p, const pt_track *t)
{
    uint32_t i = t->is_process || t->is_thread || t->uuid == 0 || t->parent == 0
                     ? MRD_MAP_NONE
                     : mrd_map_get(&p->track_map, (mrd_map_key){ t->parent, 0, 0 });

    return i == MRD_MAP_NONE ? NULL : &p->tracks[i];
}

static te_id
word_id(pt *p, mrd_str text)
{
    return (te_id){ .is_word = true, .word = mrd_strtab_add(p->te.strings, text) };
}

/* Returns the process of a track. `top` is the outermost parent of the track. The result is a
 * number, or a word if the rows belong to no process. */
static te_id
process_id(pt *p, const pt_track *top, const pt_track *t)
{
    char text[64];

    if ((top->is_process || top->is_thread) && top->machine != 0) {
        snprintf(text, sizeof(text), "pid %lld of machine %lu", (long long) top->pid,
                 (unsigned long) top->machine);
        return word_id(p, mrd_str_of(text));
    }
    if (top->is_process || top->is_thread)
        return (te_id){ .number = top->pid };
    if (top == t || top->name == MRD_SID_EMPTY)
        return word_id(p, MRD_STR("rows of no process"));
    return (te_id){ .is_word = true, .word = top->name };
}

/* Appends the names of the rows above `t` and below its process, then its own. */
static void
row_name(pt *p, const pt_track *t, const pt_track *top, unsigned depth)
{
    const pt_track *parent = parent_of(p, t);

    if (parent != NULL && depth < ANCESTORS_MAX && (parent != top || parent->is_thread))
        row_name(p, parent, top, depth + 1);
    if (t->name == MRD_SID_EMPTY || p->words.len > ROW_NAME_MAX)
        return;
    mrd_buf_text(&p->words, p->words.len > 0 ? " / " : "");
    mrd_buf_str(&p->words, mrd_strtab_get(p->te.strings, t->name));
}

static mrd_err
place_line(pt *p, const pt_track *t)
{
    const pt_track *top = t, *up;
    te_lines *lines = &p->te.lines;
    te_line *line;
    uint32_t proc;
    mrd_err err;

    for (unsigned n = 0; n < ANCESTORS_MAX && (up = parent_of(p, top)) != NULL; n++)
        top = up;
    if ((err = mrd_te_proc_of(lines, process_id(p, top, t), &proc)) != MRD_OK)
        return err;
    line = &lines->lines[t->line];
    line->proc = proc;
    line->sort_index = t->rank;
    p->words.len = 0;
    row_name(p, t, top, 0);
    if (p->words.err != MRD_OK)
        return MRD_NOMEM;
    if (p->words.len > 0)
        line->name = intern(p, (mrd_bytes){ p->words.p, p->words.len });
    if (t->is_thread) {
        line->tid.number = t->tid;
        if (line->name == MRD_SID_EMPTY)
            line->name = tree_name(p, t->tid, true);
    } else if (line->name == MRD_SID_EMPTY) {
        line->tid = word_id(p, t->is_process  ? MRD_STR("process")
                               : t->uuid == 0 ? MRD_STR("events without a track")
                                              : MRD_STR("track without a name"));
    } else {
        line->tid = (te_id){ .is_word = true, .word = line->name };
    }
    return MRD_OK;
}

static mrd_err
place_process(pt *p, const pt_track *t)
{
    te_proc *proc;
    uint32_t i;
    mrd_err err = mrd_te_proc_of(&p->te.lines, process_id(p, t, t), &i);

    if (err != MRD_OK)
        return err;
    proc = &p->te.lines.procs[i];
    if (t->process_name != MRD_SID_EMPTY)
        proc->name = t->process_name;
    else if (proc->name == MRD_SID_EMPTY)
        proc->name = tree_name(p, t->pid, false);
    if (t->labels != MRD_SID_EMPTY)
        proc->labels = t->labels;
    if (t->is_process && t->rank != MRD_NONE)
        proc->sort_index = t->rank;
    return MRD_OK;
}

/* The operators of PyTorch in one process only are the mark of its profiler's traces. */
static bool
is_of_one_torch(const pt *p)
{
    uint32_t proc = TE_NONE;

    for (size_t i = 0; i < p->n_tracks; i++) {
        if (!p->tracks[i].is_torch)
            continue;
        if (proc != TE_NONE && proc != p->te.lines.lines[p->tracks[i].line].proc)
            return false;
        proc = p->te.lines.lines[p->tracks[i].line].proc;
    }
    return proc != TE_NONE;
}

mrd_err
mrd_pt_place(pt *p)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < p->n_tracks && err == MRD_OK; i++) {
        const pt_track *t = &p->tracks[i];

        if (t->is_process || t->is_thread)
            err = place_process(p, t);
        if (err == MRD_OK && t->line != TE_NONE && t->own == UINT32_MAX)
            err = place_line(p, t);
    }
    p->te.facts.kineto = p->te.facts.kineto || is_of_one_torch(p);
    return err == MRD_LIMIT ? MRD_OK : err;
}

void
mrd_pt_units(pt *p)
{
    for (size_t i = 0; i < p->n_tracks; i++) {
        const pt_track *t = &p->tracks[i];
        mrd_track *track;

        if (!t->is_counter || t->line == TE_NONE || t->own != UINT32_MAX ||
            !p->te.lines.lines[t->line].has_track)
            continue;
        track = mrd_catalog_borrow_track(p->imp->catalog, p->te.lines.lines[t->line].track);
        track->unit = t->unit;
        track->unit_name = t->unit_name;
    }
}
