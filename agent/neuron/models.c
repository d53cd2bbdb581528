#include "agent/neuron/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/neuron/neffs.h"
#include "base/conf/agent_waits.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/vec.h"
#include "hw/identity.h"

#define NOTE_MAGIC 0x4d444c32u
#define SAME_LOAD  (5 * MRD_MS) /* a process cannot exec and load a model within this time */

/* Contents of the runtime's event of a load. */
typedef struct {
    const mrd_drain_process *process; /* NULL: gone */
    int64_t thread_id;
    mrd_wall_ns from, to;
    int64_t id;
    mrd_local_ns read;
    bool judged; /* not only by its thread, or without need for such a decision */
    char name[128];
} runtime_load;

typedef struct {
    mrd_model_load m;
    const mrd_drain_process *process; /* NULL means that it ended, or was not found again yet */
    mrd_wall_ns named_from;           /* start of the event with its name */
    /* sessions that selected its process when the process ended */
    uint64_t chosen[MRD_RECORD_SESSIONS];
    size_t n_chosen;
    uint64_t shipped[MRD_RECORD_SESSIONS]; /* the last sessions that received it */
    size_t n_shipped;
} entry;

struct mrd_model_table {
    entry *v;
    size_t n, cap;
    uint64_t version, saved, left_out;
    mrd_local_ns swept;
    runtime_load *told; /* a ring buffer: a load may be read before or after its event */
    size_t n_told, cap_told, next_told;
    mrd_record *record;
    char note[1024], boot_id[64];
};

/* ---- Contents of a record ---- */

/* Tabs and line ends separate the fields of the note, so they are removed from text. */
static void
set_text(char *to, size_t cap, mrd_str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len && n + 1 < cap; i++)
        to[n++] = (unsigned char) text.p[i] < ' ' ? '?' : text.p[i];
    while (n > 0 && n < text.len && (text.p[n] & 0xc0) == 0x80)
        n--; /* do not cut inside a character */
    to[n] = '\0';
}

static void
take_args(mrd_model_load *m, const mrd_drain_process *p, const mrd_event *ev)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *a = &ev->args[i];
        mrd_str key = mrd_catalog_text(p->catalog, a->key),
                text = mrd_arg_text(mrd_catalog_strings(p->catalog), a);

        if (mrd_str_is(key, "model_id"))
            m->model_id = (uint64_t) a->v.i;
        else if (mrd_str_is(key, "size"))
            m->size = (uint64_t) a->v.i;
        else if (mrd_str_is(key, "vnc"))
            m->core = a->v.i < 0 ? -1 : a->v.i;
        else if (mrd_str_is(key, "vnc_count"))
            m->cores = a->v.i;
        else if (mrd_str_is(key, "hash") && text.len == 64)
            set_text(m->sha256, sizeof(m->sha256), text);
        else if (mrd_str_is(key, "kept") && text.len < sizeof(m->kept))
            set_text(m->kept, sizeof(m->kept), text);
        else if (mrd_str_is(key, "call_thread_id"))
            m->call_thread_id = a->v.i;
        else if (mrd_str_is(key, "call_from_ns"))
            m->call_from = (mrd_wall_ns){ a->v.i };
        else if (mrd_str_is(key, "call_to_ns"))
            m->call_to = (mrd_wall_ns){ a->v.i };
        else if (mrd_str_is(key, "path") && mrd_str_starts(text, "file://"))
            set_text(m->path, sizeof(m->path), (mrd_str){ text.p + 7, text.len - 7 });
    }
}

static entry *
find(mrd_model_table *t, const mrd_drain_process *process, uint64_t number)
{
    for (size_t i = t->n; i-- > 0;)
        if (t->v[i].process == process && t->v[i].m.number == number)
            return &t->v[i];
    return NULL;
}

static bool
is_of(const mrd_model_table *t, const entry *e, const mrd_record_status *st)
{
    if (mrd_local_after(e->m.load, st->stop) ||
        (e->m.unload.ns != 0 && mrd_local_before(e->m.unload, st->start)))
        return false;
    if (e->process != NULL)
        return mrd_record_selects(t->record, st->id, e->process);
    for (size_t i = 0; i < e->n_chosen; i++)
        if (e->chosen[i] == st->id)
            return true;
    return false;
}

/* A session that ended on this node and was reported does not need unloaded models. */
static bool
wanted(const mrd_model_table *t, const entry *e)
{
    mrd_record_status st;

    if (e->m.unload.ns == 0)
        return true;
    for (size_t i = 0; i < mrd_record_sessions(t->record); i++) {
        mrd_record_get(t->record, i, &st);
        if (st.start.ns != INT64_MAX && is_of(t, e, &st))
            return true;
    }
    return false;
}

static void
remove_at(mrd_model_table *t, size_t i)
{
    memmove(&t->v[i], &t->v[i + 1], (t->n - i - 1) * sizeof(*t->v));
    t->n--;
    t->version++;
}

/* Returns a new slot at the end. NULL if all slots have loaded models, or if out of memory. */
static entry *
place(mrd_model_table *t)
{
    if (t->n == MRD_MODELS_MAX) {
        size_t i = 0;

        while (i < t->n && t->v[i].m.unload.ns == 0)
            i++;
        t->left_out += i == t->n || wanted(t, &t->v[i]);
        if (i == t->n)
            return NULL;
        remove_at(t, i);
    }
    if (!MRD_VEC_ROOM_MAX(t->v, t->n, t->cap, 1, MRD_MODELS_MAX))
        return NULL;
    t->v[t->n] = (entry){ .m = { .runtime_id = MRD_NONE, .core = -1 } };
    return &t->v[t->n++];
}

void
mrd_model_table_seen(mrd_model_table *t, const mrd_drain_process *process)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].process == NULL && t->v[i].m.unload.ns == 0 &&
            t->v[i].m.pid == process->ident.pid &&
            t->v[i].m.start_ticks == process->ident.start_ticks) {
            t->v[i].process = process;
            t->version++;
        }
}

/* ---- Matching the runtime's events with loads ---- */

/* Returns true if the event lies inside of the call, up to the difference of two readings of one
 * clock. */
static bool
inside(const entry *e, const runtime_load *r)
{
    mrd_wall_ns from = mrd_wall_max(r->from, e->m.call_from);
    mrd_wall_ns to = mrd_wall_min(r->to, e->m.call_to);

    if (e->process != r->process || e->process == NULL || e->m.call_thread_id == 0 ||
        mrd_wall_before(to, from))
        return false;
    return r->to.ns == r->from.ns || mrd_wall_diff(to, from) > mrd_wall_diff(r->to, r->from) / 2;
}

/* A load that begins inside of a load is nested in it. */
static void
give(mrd_model_table *t, entry *e, runtime_load *r)
{
    r->judged = true;
    if (e->m.runtime_id != MRD_NONE && !mrd_wall_after(e->named_from, r->from))
        return;
    e->m.runtime_id = r->id;
    e->named_from = r->from;
    memcpy(e->m.name, r->name, sizeof(e->m.name));
    t->version++;
}

/* Matches by the thread, whichever of the two was read first. */
static void
take_told(mrd_model_table *t, entry *e)
{
    for (size_t i = 0; i < t->n_told; i++)
        if (t->told[i].thread_id == e->m.call_thread_id && inside(e, &t->told[i]))
            give(t, e, &t->told[i]);
}

/* Without a common thread, matches only if there is one candidate on each side. */
static void
judge(mrd_model_table *t, runtime_load *r)
{
    entry *only = NULL;

    r->judged = true;
    for (size_t i = 0; i < t->n; i++) {
        entry *e = &t->v[i];

        if (e->process != r->process || e->m.call_thread_id == 0)
            continue;
        if (e->m.call_thread_id == r->thread_id)
            return; /* thread numbers are the system's, so the load was not recorded */
        if (!inside(e, r))
            continue;
        if (only != NULL)
            return;
        only = e;
    }
    if (only == NULL || only->m.runtime_id != MRD_NONE)
        return;
    for (size_t i = 0; i < t->n_told; i++)
        if (&t->told[i] != r && inside(only, &t->told[i]))
            return;
    give(t, only, r);
}

static void
judge_all(mrd_model_table *t, mrd_local_ns now)
{
    for (size_t i = 0; i < t->n_told; i++) {
        runtime_load *r = &t->told[i];

        if (!r->judged && mrd_local_diff(now, r->read) >= MRD_WAIT_MODEL_READ)
            judge(t, r);
    }
}

/* Times of a ring that is read again may differ by the improved knowledge of its clock. */
static bool
is_same_load(const entry *e, const mrd_event *ev)
{
    mrd_dur_ns apart = mrd_local_diff((mrd_local_ns){ ev->ts.ns }, e->m.load);

    return apart < SAME_LOAD && apart > -SAME_LOAD;
}

void
mrd_model_table_event(mrd_model_table *t, const mrd_drain_process *process, uint64_t number,
                      bool load, const mrd_event *ev)
{
    entry *e;

    e = find(t, process, number);
    if (!load) {
        if (e != NULL && e->m.unload.ns == 0) {
            e->m.unload = (mrd_local_ns){ ev->ts.ns };
            t->version++;
        }
        return;
    }
    if (e != NULL && is_same_load(e, ev))
        return; /* read again */
    if (e != NULL &&
        e->m.unload.ns == 0) /* an exec replaced the program, and its numbers start again */
        e->m.unload = (mrd_local_ns){ ev->ts.ns };
    if ((e = place(t)) == NULL)
        return; /* no room: counted */
    e->process = process;
    e->m.pid = process->ident.pid;
    e->m.start_ticks = process->ident.start_ticks;
    e->m.number = number;
    e->m.load = (mrd_local_ns){ ev->ts.ns };
    take_args(&e->m, process, ev);
    take_told(t, e);
    t->version++;
}

static void
take_runtime(mrd_model_table *t, const runtime_load *told)
{
    runtime_load *r;

    if (t->n_told < MRD_MODELS_MAX) {
        if (!MRD_VEC_ROOM_MAX(t->told, t->n_told, t->cap_told, 1, MRD_MODELS_MAX))
            return;
        r = &t->told[t->n_told++];
    } else {
        r = &t->told[t->next_told++ % MRD_MODELS_MAX];
    }
    *r = *told;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].m.call_thread_id == r->thread_id && inside(&t->v[i], r))
            give(t, &t->v[i], r);
}

/* Separate, because its name buffer on the stack would cost every event. */
__attribute__((noinline)) static void
take_load(mrd_model_table *t, const mrd_drain_process *process, const mrd_event *ev)
{
    static const char load[] = "nrt_load";
    mrd_str name = mrd_catalog_text(process->catalog, ev->name);
    runtime_load r = { .process = process, .id = MRD_NONE };
    const mrd_track *track;

    if (!mrd_str_starts(name, load) ||
        (name.len != sizeof(load) - 1 && !mrd_str_is(name, "nrt_load_collectives")))
        return;
    track = mrd_catalog_borrow_track(process->catalog, ev->track);
    if (track->source != MRD_SRC_RUNTIME)
        return;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_str key = mrd_catalog_text(process->catalog, ev->args[i].key);

        if (mrd_str_is(key, "model_id"))
            r.id = ev->args[i].v.i;
        else if (mrd_str_is(key, "model_name"))
            set_text(r.name, sizeof(r.name),
                     mrd_arg_text(mrd_catalog_strings(process->catalog), &ev->args[i]));
    }
    r.thread_id = track->thread_id;
    r.from = (mrd_wall_ns){ ev->ts.ns };
    r.to = (mrd_wall_ns){ ev->ts.ns + ev->dur_ns };
    r.read = mrd_local_now();
    if (r.id != MRD_NONE)
        take_runtime(t, &r);
}

void
mrd_model_table_name(mrd_model_table *t, const mrd_drain_process *process, unsigned clock,
                     const mrd_event *ev)
{
    if (clock == MRD_DRAIN_REALTIME && ev->kind == MRD_SPAN && ev->arg_count > 0 && ev->dur_ns >= 0)
        take_load(t, process, ev);
}

void
mrd_model_table_gone(mrd_model_table *t, const mrd_drain_process *process, mrd_local_ns now)
{
    for (size_t i = 0; i < t->n_told; i++)
        if (t->told[i].process == process && !t->told[i].judged)
            judge(t, &t->told[i]);
    for (size_t i = t->n_told; i-- > 0;)
        if (t->told[i].process == process)
            t->told[i] = t->told[--t->n_told];
    for (size_t i = 0; i < t->n; i++) {
        entry *e = &t->v[i];

        if (e->process != process)
            continue;
        for (size_t j = 0; j < mrd_record_sessions(t->record) && e->n_chosen < MRD_RECORD_SESSIONS;
             j++) {
            mrd_record_status st;

            mrd_record_get(t->record, j, &st);
            if (mrd_record_selects(t->record, st.id, process))
                e->chosen[e->n_chosen++] = st.id;
        }
        if (e->m.kept[0] != '\0')
            mrd_neffs_sweep(e->m.kept, process->ident.uid);
        e->process = NULL;
        if (e->m.unload.ns == 0)
            e->m.unload = now;
        t->version++;
    }
}

/* ---- Reports ---- */

size_t
mrd_model_table_get(const mrd_model_table *t, uint64_t session, const mrd_model_load **ret,
                    size_t max, uint64_t *ret_left_out)
{
    mrd_record_status st;
    size_t n = 0;

    *ret_left_out = t->left_out;
    if (session != 0 && (!mrd_record_find(t->record, session, &st) || st.start.ns == INT64_MAX))
        return 0;
    for (size_t i = 0; i < t->n; i++) {
        const entry *e = &t->v[i];

        if (session == 0 ? e->m.unload.ns != 0 || e->process == NULL : !is_of(t, e, &st))
            continue;
        if (n < max)
            ret[n++] = &e->m;
        else
            ++*ret_left_out;
    }
    return n;
}

uint64_t
mrd_model_table_version(const mrd_model_table *t)
{
    return t->version;
}

static bool
was_shipped(const entry *e, uint64_t session)
{
    for (size_t k = 0; k < MRD_COUNT(e->shipped); k++)
        if (e->shipped[k] == session)
            return true;
    return false;
}

/* Returns true if a session wants it and has not received it. */
static bool
is_to_ship(const mrd_model_table *t, entry *e)
{
    bool fresh = false;
    mrd_record_status st;

    for (size_t i = 0; i < mrd_record_sessions(t->record); i++) {
        mrd_record_get(t->record, i, &st);
        if (!mrd_record_is_under_way(st.phase) || was_shipped(e, st.id) ||
            !mrd_record_wants_neffs(t->record, st.id) || !is_of(t, e, &st))
            continue;
        e->shipped[e->n_shipped++ % MRD_COUNT(e->shipped)] = st.id;
        fresh = true;
    }
    return fresh;
}

void
mrd_model_table_ship(mrd_model_table *t,
                     void (*call)(void *self, const mrd_drain_process *process, const char *kept),
                     void *self)
{
    for (size_t i = 0; i < t->n; i++) {
        entry *e = &t->v[i];

        if (e->m.kept[0] != '\0' && e->process != NULL && is_to_ship(t, e))
            call(self, e->process, e->m.kept);
    }
}

/* ---- The note ---- */

typedef struct {
    uint32_t magic, one; /* `one` is the size of a load: a note of another release is not read */
    char boot_id[64];
} note_head;

static void
write_note(mrd_model_table *t)
{
    note_head head = { .magic = NOTE_MAGIC, .one = sizeof(mrd_model_load) };
    mrd_buf text = { 0 };

    if (t->note[0] == '\0' || t->version == t->saved)
        return;
    memcpy(head.boot_id, t->boot_id, sizeof(head.boot_id));
    mrd_buf_add(&text, &head, sizeof(head));
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].m.unload.ns == 0)
            mrd_buf_add(&text, &t->v[i].m, sizeof(t->v[i].m));
    if (text.err == MRD_OK)
        (void) mrd_write_file(t->note, (mrd_bytes){ text.p, text.len }, 0600, NULL);
    mrd_buf_fini(&text);
    t->saved = t->version; /* a full disk is tried again with the next change */
}

/* Takes a load from the note if its process still exists. */
static void
take_note(mrd_model_table *t, const mrd_model_load *m, const char *proc_root)
{
    mrd_ident ident;
    entry *e;

    if (mrd_ident_read(proc_root, m->pid, &ident, NULL) != MRD_OK ||
        ident.start_ticks != m->start_ticks || (e = place(t)) == NULL)
        return;
    e->m = *m;
    e->m.sha256[sizeof(m->sha256) - 1] = e->m.name[sizeof(m->name) - 1] =
        e->m.path[sizeof(m->path) - 1] = '\0';
    e->m.kept[sizeof(m->kept) - 1] = '\0';
    e->m.unload = (mrd_local_ns){ 0 };
}

static void
read_note(mrd_model_table *t, const char *proc_root)
{
    FILE *f = t->note[0] == '\0' ? NULL : fopen(t->note, "re");
    note_head head;
    mrd_model_load m;

    if (f == NULL)
        return;
    if (fread(&head, sizeof(head), 1, f) == 1 && head.magic == NOTE_MAGIC &&
        head.one == sizeof(m) && memcmp(head.boot_id, t->boot_id, sizeof(head.boot_id)) == 0)
        while (t->n < MRD_MODELS_MAX && fread(&m, sizeof(m), 1, f) == 1)
            take_note(t, &m, proc_root);
    fclose(f);
}

void
mrd_model_table_step(mrd_model_table *t, mrd_local_ns now)
{
    write_note(t); /* in the same turn, because a successor can read it nowhere else */
    if (mrd_local_diff(now, t->swept) < MRD_SEC)
        return;
    t->swept = now;
    judge_all(t, now);
    /* A session that arrives later begins later, apart from the time that its message takes. */
    for (size_t i = t->n; i-- > 0;)
        if (t->v[i].m.unload.ns != 0 &&
            mrd_local_before(t->v[i].m.unload, mrd_local_sub(now, MRD_WAIT_MODEL_KEPT)) &&
            !wanted(t, &t->v[i]))
            remove_at(t, i);
}

mrd_err
mrd_model_table_open(const char *note, const char *boot_id, const char *proc_root,
                     mrd_record *record, mrd_model_table **ret_table, mrd_why *why)
{
    mrd_model_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "models");
    t->record = record;
    t->version = t->saved = 1;
    snprintf(t->note, sizeof(t->note), "%s", note == NULL ? "" : note);
    snprintf(t->boot_id, sizeof(t->boot_id), "%s", boot_id);
    read_note(t, proc_root);
    *ret_table = t;
    return MRD_OK;
}

void
mrd_model_table_close(mrd_model_table *t)
{
    if (t == NULL)
        return;
    write_note(t);
    free(t->told);
    free(t->v);
    free(t);
}
