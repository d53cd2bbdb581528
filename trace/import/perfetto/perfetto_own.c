/*
 * trace/import/perfetto/perfetto_own.c - reads Perfetto traces that Meridian wrote. Their first
 * packets contain Meridian's catalog as JSON. Each Perfetto track states the number of its track in
 * this catalog. What the writer added to the events is removed, so that the events are equal to the
 * original ones.
 */
#include "trace/import/device/sysprof_int.h"
#include "trace/import/perfetto/perfetto_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"

/* Returns the key for an argument with an inline name. Only arguments that Meridian's
 * writer added have inline names, so those names get private keys. An event's own argument of the
 * same name is stated by number and keeps its normal key. */
mrd_sid
mrd_pt_own_key(pt *import, mrd_str name)
{
    const struct {
        const char *name;
        mrd_sid key;
    } keys[] = { { "id", import->own_id },
                 { "meridian.note", import->own_note },
                 { "lost", import->own_lost },
                 { "meridian_continued", import->own_continued },
                 { "meridian_begin_ns", import->own_begin } };

    for (size_t i = 0; i < MRD_COUNT(keys); i++) {
        if (mrd_str_is(name, keys[i].name))
            return keys[i].key;
    }
    return mrd_args_key(import->te.args, name);
}

static void
own_keys(pt *import)
{
    mrd_strtab *strings = import->te.strings;

    import->own_instance = mrd_strtab_addz(strings, "instance_id");
    import->own_process = mrd_strtab_addz(strings, "process_id");
    import->own_core = mrd_strtab_addz(strings, "lnc_idx");
    import->own_rank = mrd_strtab_addz(strings, "rank");
    import->own_id = mrd_strtab_addz(strings, "\001id");
    import->own_note = mrd_strtab_addz(strings, "\001note");
    import->own_lost = mrd_strtab_addz(strings, "\001lost");
    import->own_continued = mrd_strtab_addz(strings, "\001continued");
    import->own_begin = mrd_strtab_addz(strings, "\001begin_ns");
    import->word_no_start = mrd_strtab_addz(strings, "only its end was seen");
}

/* Returns the path of a trace without the number of its part: "a/b" for "a/b.2.pftrace". */
static mrd_str
stem_of(mrd_str path)
{
    static const char suffix[] = ".pftrace";
    size_t len;

    if (!mrd_str_ends(path, suffix))
        return path;
    path.len -= sizeof(suffix) - 1;
    for (len = path.len; len > 0 && path.p[len - 1] >= '0' && path.p[len - 1] <= '9'; len--)
        continue;
    return (mrd_str){ path.p,
                      len > 0 && len < path.len && path.p[len - 1] == '.' ? len - 1 : path.len };
}

/* Returns the number of the first input that is a part of this trace. All parts use it as the scope
 * of their processes, so that their processes are the same. */
static uint32_t
first_part(const pt *import)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(import->imp->catalog, &n);
    mrd_str own = mrd_catalog_text(import->imp->catalog, inputs[import->imp->input].path);

    for (uint32_t i = 0; i < import->imp->input; i++) {
        mrd_str path = mrd_catalog_text(import->imp->catalog, inputs[i].path);

        if (mrd_str_eq(stem_of(path), stem_of(own)) && !mrd_str_eq(path, own))
            return i;
    }
    return import->imp->input;
}

/* Reads the catalog of processes and tracks, which Meridian writes into its profiles. It is a JSON object {"meridian": {...}}. */
static mrd_err
read_catalog(pt *import, mrd_json_reader *reader)
{
    sysprof head = { .imp = import->imp,
                     .cat = import->imp->catalog,
                     .strings = import->te.strings,
                     .input = import->te.input,
                     .scope_input = import->first_part = first_part(import),
                     .r = reader };
    mrd_err err = MRD_OK;
    mrd_str key, text;

    if (mrd_json_next(reader, &key, &text) == MRD_JR_OBJECT) {
        mrd_json_enter(reader);
        if (mrd_json_next(reader, &key, &text) == MRD_JR_OBJECT)
            err = mrd_sysprof_own(&head);
    }
    free(import->own_tracks);
    import->own_tracks = head.tracks; /* `import` owns the tracks now */
    import->n_own_tracks = head.n_tracks;
    import->n_own_clocks = head.n_clocks;
    head.tracks = NULL;
    import->te.profile = head.profile;
    mrd_sysprof_own_fini(&head);
    /* an invalid catalog is ignored; the trace is then read like one of another program */
    return err == MRD_NOMEM ? err : MRD_OK;
}

/* Removes from an event what Meridian's writer added. Returns false if the event only continues an
 * event of an earlier part, and so must be dropped. Set as te.refine. */
static bool refine_own(te *import, mrd_event *ev);

mrd_err
mrd_pt_own(pt *import)
{
    static const uint8_t pad[MRD_IN_PAD];
    size_t len = import->own_json.len;
    mrd_json_reader *reader = NULL;
    mrd_in *in = NULL;
    mrd_err err;

    import->own_read = true;
    own_keys(import);
    mrd_buf_add(&import->own_json, pad, sizeof(pad));
    if (import->own_json.err != MRD_OK)
        return MRD_NOMEM;
    err = mrd_in_borrow((mrd_bytes){ import->own_json.p, len }, mrd_in_name(import->imp->in), &in,
                        NULL);
    if (err == MRD_OK)
        err = mrd_json_reader_open(in, &reader, NULL);
    if (err == MRD_OK)
        err = read_catalog(import, reader);
    mrd_json_reader_close(reader);
    mrd_in_close(in);
    import->is_own = import->n_own_tracks > 0;
    import->te.refine = import->is_own ? refine_own : NULL;
    import->te.refine_self = import;
    import->te.arrows_are_chains = import->is_own;
    return err;
}

/* ---- Arrows ---- */

mrd_err
mrd_pt_own_fan(pt *import, uint64_t base, uint64_t fan)
{
    size_t n = import->n_own_bases;

    if (n == PT_ARROWS_MAX)
        /* the table is full, so these ends stay separate arrows */
        return MRD_OK;
    if (n == 0 || import->own_bases[n - 1] != base) {
        if (!MRD_VEC_ROOM(import->own_bases, n, import->cap_own_bases, 1))
            return MRD_NOMEM;
        import->own_bases[import->n_own_bases++] = base;
    }
    return mrd_map_put(&import->own_fans, (mrd_map_key){ fan, 0, 0 },
                       (uint32_t) import->n_own_bases - 1);
}

uint64_t
mrd_pt_own_base(const pt *import, uint64_t id)
{
    uint32_t i = mrd_map_get(&import->own_fans, (mrd_map_key){ id, 0, 0 });

    return i == MRD_MAP_NONE ? id : import->own_bases[i];
}

/* ---- Events ---- */

static bool
is_text(const mrd_arg *arg, mrd_sid key, mrd_sid text)
{
    return arg->key == key && arg->type == MRD_ARG_STR && arg->v.sid == text;
}

static bool
is_number(const mrd_arg *arg, mrd_sid key, int64_t v)
{
    return arg->key == key && arg->type == MRD_ARG_INT && arg->v.i == v;
}

/* Returns the number of arguments without the track's identity, which Meridian's writer appends to
 * them. */
static uint32_t
without_identity(const pt *import, const mrd_track *track, const mrd_process *of,
                 const mrd_arg *arg, uint32_t n)
{
    uint32_t i = n;

    if (i > 0 && of->rank != MRD_NONE && is_number(&arg[i - 1], import->own_rank, of->rank))
        i--;
    if (i > 0 && track->lnc_idx != MRD_NONE &&
        is_number(&arg[i - 1], import->own_core, track->lnc_idx))
        i--;
    if (i > 0 && is_number(&arg[i - 1], import->own_process, of->process_id))
        i--;
    return i > 0 && is_text(&arg[i - 1], import->own_instance, of->instance_id) ? i - 1 : n;
}

/* Returns the cause of a loss from its name, "lost 3 events (cause)". */
static mrd_sid
loss_cause(pt *import, mrd_sid name)
{
    mrd_str text = mrd_strtab_get(import->te.strings, name);
    const char *from = text.len == 0 ? NULL : memchr(text.p, '(', text.len);

    if (from == NULL || text.p[text.len - 1] != ')')
        return name;
    from++;
    return mrd_strtab_add(import->te.strings,
                          (mrd_str){ from, text.len - 1 - (size_t) (from - text.p) });
}

static void
take_note(pt *import, mrd_event *ev, const mrd_arg *arg)
{
    if (is_text(arg, import->own_note, import->word_no_start)) {
        ev->kind = MRD_SPAN;
        ev->flags |= MRD_EV_NO_START;
        import->te.input->no_start++;
    } else {
        ev->flags |= MRD_EV_SIMULATED;
    }
}

/* Undoes one argument that the writer added, by setting the field of the event. Returns false if it
 * is the event's own argument. */
static bool
take_own(pt *import, mrd_event *ev, const mrd_arg *arg)
{
    if (arg->key == import->own_id)
        ev->id = arg->v.u;
    else if (arg->key == import->own_note)
        take_note(import, ev, arg);
    else if (arg->key == import->own_lost) {
        ev->kind = MRD_LOSS;
        ev->name = loss_cause(import, ev->name);
        ev->ivalue = arg->type == MRD_ARG_INT && arg->v.i > 0 ? arg->v.i : 0;
    } else {
        return arg->key == import->own_begin;
    }
    return true;
}

/* Returns the error bound for events of this process. With only one clock in the trace, no time was
 * converted, and the result is MRD_BOUND_LOCAL. */
static uint32_t
bound_of(const pt *import, const mrd_process *of)
{
    const mrd_catalog *cat = import->imp->catalog;
    size_t n;
    const mrd_clock_info *clock = mrd_catalog_clocks(cat, &n);

    if (of->clock == 0 || of->clock >= n)
        return import->n_own_clocks > 1 ? MRD_BOUND_UNKNOWN : MRD_BOUND_LOCAL;
    clock += of->clock;
    if (clock->bound_ns < 0)
        return import->n_own_clocks == 2 && mrd_str_is(mrd_catalog_text(cat, clock->method), "none")
                   ? MRD_BOUND_LOCAL
                   : MRD_BOUND_UNKNOWN;
    return clock->bound_ns >= MRD_BOUND_UNKNOWN ? MRD_BOUND_UNKNOWN - 1
                                                : (uint32_t) clock->bound_ns;
}

static bool
refine_own(te *import, mrd_event *ev)
{
    pt *p = import->refine_self;
    const mrd_catalog *cat = p->imp->catalog;
    const mrd_track *track;
    const mrd_process *of;
    uint32_t count = 0;

    /* the table of tracks is full, so the caller drops this event */
    if (mrd_catalog_is_full(cat, ev->track))
        return true;
    track = mrd_catalog_borrow_track(cat, ev->track);
    of = mrd_catalog_borrow_process(cat, track->process);
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (ev->args[i].key == p->own_continued)
            return false;
    if (ev->bound_ns != MRD_BOUND_UNKNOWN)
        ev->bound_ns = bound_of(p, of);
    if (of->flags & MRD_PROC_SIMULATED)
        ev->flags |= MRD_EV_SIMULATED;
    if (ev->arg_count == 0 ||
        !MRD_VEC_ROOM(p->own_args, 0, p->cap_own_args, (size_t) ev->arg_count))
        return true; /* if out of memory, the event keeps the writer's arguments */
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (!take_own(p, ev, &ev->args[i]))
            p->own_args[count++] = ev->args[i];
    ev->args = p->own_args;
    ev->arg_count = without_identity(p, track, of, p->own_args, count);
    return true;
}
