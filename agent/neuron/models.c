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
/* Two load events of a process with the same number are the same load if their times differ by less
 * than this. A process uses a number only once. Only after exec it can use the number again, and
 * exec takes longer than this time. */
#define SAME_LOAD (5 * MRD_MS)

/* A load as the runtime's own trace reports it. It has the model's name. */
typedef struct {
    const mrd_drain_process *process; /* NULL means that the process ended */
    int64_t thread_id;
    mrd_wall_ns from, to;
    int64_t id;
    mrd_local_ns read;
    bool judged; /* judge() already decided whether a model load gets its name from this event */
    char name[128];
} runtime_load;

typedef struct {
    mrd_model_load m;
    /* the process that loaded the model; NULL if it ended, or if this agent has not found it yet */
    const mrd_drain_process *process;
    mrd_wall_ns named_from; /* start of the runtime's event from which the load has its name */
    /* sessions that selected the process, if the process has ended */
    uint64_t chosen[MRD_RECORD_SESSIONS];
    size_t n_chosen;
    /* the sessions to which the model's bytes were sent last */
    uint64_t shipped[MRD_RECORD_SESSIONS];
    size_t n_shipped;
} entry;

struct mrd_model_table {
    entry *v;
    size_t n, cap;
    uint64_t version, saved, left_out;
    mrd_local_ns swept;
    /* Ring buffer of load events from the runtime's trace. Such an event may be read before
     * libmeridian's record of the same load. */
    runtime_load *told;
    size_t n_told, cap_told, next_told;
    mrd_record *record;
    char note[1024], boot_id[64];
};

/* ---- The contents of a table entry ---- */

/* Copies a text into the table. Replaces tabs, newlines and other control characters by '?',
 * because the saved file uses them to separate fields. */
static void
set_text(char *to, size_t cap, mrd_str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len && n + 1 < cap; i++)
        to[n++] = (unsigned char) text.p[i] < ' ' ? '?' : text.p[i];
    while (n > 0 && n < text.len && (text.p[n] & 0xc0) == 0x80)
        n--; /* removes the rest of a UTF-8 character that was cut */
    to[n] = '\0';
}

static void
take_args(mrd_model_load *load, const mrd_drain_process *process, const mrd_event *ev)
{
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        mrd_str key = mrd_catalog_text(process->catalog, arg->key),
                text = mrd_arg_text(mrd_catalog_strings(process->catalog), arg);

        if (mrd_str_is(key, "model_id"))
            load->model_id = (uint64_t) arg->v.i;
        else if (mrd_str_is(key, "size"))
            load->size = (uint64_t) arg->v.i;
        else if (mrd_str_is(key, "vnc"))
            load->core = arg->v.i < 0 ? -1 : arg->v.i;
        else if (mrd_str_is(key, "vnc_count"))
            load->cores = arg->v.i;
        else if (mrd_str_is(key, "hash") && text.len == 64)
            set_text(load->sha256, sizeof(load->sha256), text);
        else if (mrd_str_is(key, "kept") && text.len < sizeof(load->kept))
            set_text(load->kept, sizeof(load->kept), text);
        else if (mrd_str_is(key, "call_thread_id"))
            load->call_thread_id = arg->v.i;
        else if (mrd_str_is(key, "call_from_ns"))
            load->call_from = (mrd_wall_ns){ arg->v.i };
        else if (mrd_str_is(key, "call_to_ns"))
            load->call_to = (mrd_wall_ns){ arg->v.i };
        else if (mrd_str_is(key, "path") && mrd_str_starts(text, "file://"))
            set_text(load->path, sizeof(load->path), (mrd_str){ text.p + 7, text.len - 7 });
    }
}

static entry *
find(mrd_model_table *models, const mrd_drain_process *process, uint64_t number)
{
    for (size_t i = models->n; i-- > 0;)
        if (models->v[i].process == process && models->v[i].m.number == number)
            return &models->v[i];
    return NULL;
}

static bool
is_of(const mrd_model_table *models, const entry *item, const mrd_record_status *st)
{
    if (mrd_local_after(item->m.load, st->stop) ||
        (item->m.unload.ns != 0 && mrd_local_before(item->m.unload, st->start)))
        return false;
    if (item->process != NULL)
        return mrd_record_selects(models->record, st->id, item->process);
    for (size_t i = 0; i < item->n_chosen; i++)
        if (item->chosen[i] == st->id)
            return true;
    return false;
}

/* Returns true if a session may need this load. A loaded model may be needed by any session. An
 * unloaded model is only needed while a session that selects its process exists. */
static bool
wanted(const mrd_model_table *models, const entry *item)
{
    mrd_record_status st;

    if (item->m.unload.ns == 0)
        return true;
    for (size_t i = 0; i < mrd_record_sessions(models->record); i++) {
        mrd_record_get(models->record, i, &st);
        if (st.start.ns != INT64_MAX && is_of(models, item, &st))
            return true;
    }
    return false;
}

static void
remove_at(mrd_model_table *models, size_t i)
{
    memmove(&models->v[i], &models->v[i + 1], (models->n - i - 1) * sizeof(*models->v));
    models->n--;
    models->version++;
}

/* Returns a new slot at the end of the table. If the table is full, removes an unloaded model
 * first. Returns NULL if out of memory, or if all models of a full table are loaded. */
static entry *
place(mrd_model_table *models)
{
    if (models->n == MRD_MODELS_MAX) {
        size_t i = 0;

        while (i < models->n && models->v[i].m.unload.ns == 0)
            i++;
        models->left_out += i == models->n || wanted(models, &models->v[i]);
        if (i == models->n)
            return NULL;
        remove_at(models, i);
    }
    if (!MRD_VEC_ROOM_MAX(models->v, models->n, models->cap, 1, MRD_MODELS_MAX))
        return NULL;
    models->v[models->n] = (entry){ .m = { .runtime_id = MRD_NONE, .core = -1 } };
    return &models->v[models->n++];
}

void
mrd_model_table_seen(mrd_model_table *models, const mrd_drain_process *process)
{
    for (size_t i = 0; i < models->n; i++)
        if (models->v[i].process == NULL && models->v[i].m.unload.ns == 0 &&
            models->v[i].m.pid == process->ident.pid &&
            models->v[i].m.start_ticks == process->ident.start_ticks) {
            models->v[i].process = process;
            models->version++;
        }
}

/* ---- Matching the runtime's events with loads ---- */

/* Returns true if the runtime's event lies inside of the call that loaded the model. It is enough
 * if more than half of the event lies inside, because the two times come from different readings of
 * the clock. */
static bool
inside(const entry *item, const runtime_load *load)
{
    mrd_wall_ns from = mrd_wall_max(load->from, item->m.call_from);
    mrd_wall_ns to = mrd_wall_min(load->to, item->m.call_to);

    if (item->process != load->process || item->process == NULL || item->m.call_thread_id == 0 ||
        mrd_wall_before(to, from))
        return false;
    return load->to.ns == load->from.ns ||
           mrd_wall_diff(to, from) > mrd_wall_diff(load->to, load->from) / 2;
}

/* Gives a load the name and number that a runtime's event has. If several events match the load,
 * the event that began first is used, because it contains the others. */
static void
give(mrd_model_table *models, entry *item, runtime_load *load)
{
    load->judged = true;
    if (item->m.runtime_id != MRD_NONE && !mrd_wall_after(item->named_from, load->from))
        return;
    item->m.runtime_id = load->id;
    item->named_from = load->from;
    memcpy(item->m.name, load->name, sizeof(item->m.name));
    models->version++;
}

/* Gives a load its name from a runtime event that was read before the load, on the same thread. */
static void
take_told(mrd_model_table *models, entry *item)
{
    for (size_t i = 0; i < models->n_told; i++)
        if (models->told[i].thread_id == item->m.call_thread_id && inside(item, &models->told[i]))
            give(models, item, &models->told[i]);
}

/* Gives a load its name from a runtime event whose thread number differs from the load's thread.
 * Does this only if no other load matches the event, and no other event matches the load. */
static void
judge(mrd_model_table *models, runtime_load *load)
{
    entry *only = NULL;

    load->judged = true;
    for (size_t i = 0; i < models->n; i++) {
        entry *item = &models->v[i];

        if (item->process != load->process || item->m.call_thread_id == 0)
            continue;
        if (item->m.call_thread_id == load->thread_id)
            /* This runtime uses the system's thread numbers. So the event belongs to another call
             * of the same thread, which was not recorded. */
            return;
        if (!inside(item, load))
            continue;
        if (only != NULL)
            return;
        only = item;
    }
    if (only == NULL || only->m.runtime_id != MRD_NONE)
        return;
    for (size_t i = 0; i < models->n_told; i++)
        if (&models->told[i] != load && inside(only, &models->told[i]))
            return;
    give(models, only, load);
}

static void
judge_all(mrd_model_table *models, mrd_local_ns now)
{
    for (size_t i = 0; i < models->n_told; i++) {
        runtime_load *load = &models->told[i];

        if (!load->judged && mrd_local_diff(now, load->read) >= MRD_WAIT_MODEL_READ)
            judge(models, load);
    }
}

/* Returns true if the event reports the same load again. If a ring is read again by the next agent,
 * times are converted slightly differently, so the times of the two reports may differ. */
static bool
is_same_load(const entry *item, const mrd_event *ev)
{
    mrd_dur_ns apart = mrd_local_diff((mrd_local_ns){ ev->ts.ns }, item->m.load);

    return apart < SAME_LOAD && apart > -SAME_LOAD;
}

void
mrd_model_table_event(mrd_model_table *models, const mrd_drain_process *process, uint64_t number,
                      bool load, const mrd_event *ev)
{
    entry *item;

    item = find(models, process, number);
    if (!load) {
        if (item != NULL && item->m.unload.ns == 0) {
            item->m.unload = (mrd_local_ns){ ev->ts.ns };
            models->version++;
        }
        return;
    }
    if (item != NULL && is_same_load(item, ev))
        return; /* the event was read again from its ring */
    if (item != NULL &&
        /* After exec, the program numbers its loads from the start. The model that had this number
         * before is no longer loaded. */
        item->m.unload.ns == 0)
        item->m.unload = (mrd_local_ns){ ev->ts.ns };
    if ((item = place(models)) == NULL)
        return; /* the table has no room, so the load is only counted */
    item->process = process;
    item->m.pid = process->ident.pid;
    item->m.start_ticks = process->ident.start_ticks;
    item->m.number = number;
    item->m.load = (mrd_local_ns){ ev->ts.ns };
    take_args(&item->m, process, ev);
    take_told(models, item);
    models->version++;
}

static void
take_runtime(mrd_model_table *models, const runtime_load *told)
{
    runtime_load *load;

    if (models->n_told < MRD_MODELS_MAX) {
        if (!MRD_VEC_ROOM_MAX(models->told, models->n_told, models->cap_told, 1, MRD_MODELS_MAX))
            return;
        load = &models->told[models->n_told++];
    } else {
        load = &models->told[models->next_told++ % MRD_MODELS_MAX];
    }
    *load = *told;
    for (size_t i = 0; i < models->n; i++)
        if (models->v[i].m.call_thread_id == load->thread_id && inside(&models->v[i], load))
            give(models, &models->v[i], load);
}

/* Handles a load event of the runtime. This is not inlined, because its buffer on the stack would
 * cost time for every event. */
__attribute__((noinline)) static void
take_load(mrd_model_table *models, const mrd_drain_process *process, const mrd_event *ev)
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
        take_runtime(models, &r);
}

void
mrd_model_table_name(mrd_model_table *models, const mrd_drain_process *process, unsigned clock,
                     const mrd_event *ev)
{
    if (clock == MRD_DRAIN_REALTIME && ev->kind == MRD_SPAN && ev->arg_count > 0 && ev->dur_ns >= 0)
        take_load(models, process, ev);
}

void
mrd_model_table_gone(mrd_model_table *models, const mrd_drain_process *process, mrd_local_ns now)
{
    for (size_t i = 0; i < models->n_told; i++)
        if (models->told[i].process == process && !models->told[i].judged)
            judge(models, &models->told[i]);
    for (size_t i = models->n_told; i-- > 0;)
        if (models->told[i].process == process)
            models->told[i] = models->told[--models->n_told];
    for (size_t i = 0; i < models->n; i++) {
        entry *item = &models->v[i];

        if (item->process != process)
            continue;
        for (size_t j = 0;
             j < mrd_record_sessions(models->record) && item->n_chosen < MRD_RECORD_SESSIONS; j++) {
            mrd_record_status st;

            mrd_record_get(models->record, j, &st);
            if (mrd_record_selects(models->record, st.id, process))
                item->chosen[item->n_chosen++] = st.id;
        }
        if (item->m.kept[0] != '\0')
            mrd_neffs_sweep(item->m.kept, process->ident.uid);
        item->process = NULL;
        if (item->m.unload.ns == 0)
            item->m.unload = now;
        models->version++;
    }
}

/* ---- Lists of models for sessions and heartbeats ---- */

size_t
mrd_model_table_get(const mrd_model_table *models, uint64_t session, const mrd_model_load **ret,
                    size_t max, uint64_t *ret_left_out)
{
    mrd_record_status st;
    size_t n = 0;

    *ret_left_out = models->left_out;
    if (session != 0 &&
        (!mrd_record_find(models->record, session, &st) || st.start.ns == INT64_MAX))
        return 0;
    for (size_t i = 0; i < models->n; i++) {
        const entry *item = &models->v[i];

        if (session == 0 ? item->m.unload.ns != 0 || item->process == NULL
                         : !is_of(models, item, &st))
            continue;
        if (n < max)
            ret[n++] = &item->m;
        else
            ++*ret_left_out;
    }
    return n;
}

uint64_t
mrd_model_table_version(const mrd_model_table *models)
{
    return models->version;
}

static bool
was_shipped(const entry *item, uint64_t session)
{
    for (size_t k = 0; k < MRD_COUNT(item->shipped); k++)
        if (item->shipped[k] == session)
            return true;
    return false;
}

/* Returns true if a session that wants the model's bytes has not got them yet. Marks the bytes as
 * sent to all such sessions. */
static bool
is_to_ship(const mrd_model_table *models, entry *item)
{
    bool fresh = false;
    mrd_record_status st;

    for (size_t i = 0; i < mrd_record_sessions(models->record); i++) {
        mrd_record_get(models->record, i, &st);
        if (!mrd_record_is_under_way(st.phase) || was_shipped(item, st.id) ||
            !mrd_record_wants_neffs(models->record, st.id) || !is_of(models, item, &st))
            continue;
        item->shipped[item->n_shipped++ % MRD_COUNT(item->shipped)] = st.id;
        fresh = true;
    }
    return fresh;
}

void
mrd_model_table_ship(mrd_model_table *models,
                     void (*call)(void *self, const mrd_drain_process *process, const char *kept),
                     void *self)
{
    for (size_t i = 0; i < models->n; i++) {
        entry *item = &models->v[i];

        if (item->m.kept[0] != '\0' && item->process != NULL && is_to_ship(models, item))
            call(self, item->process, item->m.kept);
    }
}

/* ---- The file for the next agent (the note) ---- */

typedef struct {
    /* `one` is the size of one load in the file, in bytes. If the size differs, another release
     * wrote the file, and the file is ignored. */
    uint32_t magic, one;
    char boot_id[64];
} note_head;

static void
write_note(mrd_model_table *models)
{
    note_head head = { .magic = NOTE_MAGIC, .one = sizeof(mrd_model_load) };
    mrd_buf text = { 0 };

    if (models->note[0] == '\0' || models->version == models->saved)
        return;
    memcpy(head.boot_id, models->boot_id, sizeof(head.boot_id));
    mrd_buf_add(&text, &head, sizeof(head));
    for (size_t i = 0; i < models->n; i++)
        if (models->v[i].m.unload.ns == 0)
            mrd_buf_add(&text, &models->v[i].m, sizeof(models->v[i].m));
    if (text.err == MRD_OK)
        (void) mrd_write_file(models->note, (mrd_bytes){ text.p, text.len }, 0600, NULL);
    mrd_buf_fini(&text);
    /* a failed write is repeated at the next change */
    models->saved = models->version;
}

/* Restores a load that a previous agent saved, if its process still exists. */
static void
take_note(mrd_model_table *models, const mrd_model_load *load, const char *proc_root)
{
    mrd_ident ident;
    entry *item;

    if (mrd_ident_read(proc_root, load->pid, &ident, NULL) != MRD_OK ||
        ident.start_ticks != load->start_ticks || (item = place(models)) == NULL)
        return;
    item->m = *load;
    item->m.sha256[sizeof(load->sha256) - 1] = item->m.name[sizeof(load->name) - 1] =
        item->m.path[sizeof(load->path) - 1] = '\0';
    item->m.kept[sizeof(load->kept) - 1] = '\0';
    item->m.unload = (mrd_local_ns){ 0 };
}

static void
read_note(mrd_model_table *models, const char *proc_root)
{
    FILE *file = models->note[0] == '\0' ? NULL : fopen(models->note, "re");
    note_head head;
    mrd_model_load load;

    if (file == NULL)
        return;
    if (fread(&head, sizeof(head), 1, file) == 1 && head.magic == NOTE_MAGIC &&
        head.one == sizeof(load) &&
        memcmp(head.boot_id, models->boot_id, sizeof(head.boot_id)) == 0)
        while (models->n < MRD_MODELS_MAX && fread(&load, sizeof(load), 1, file) == 1)
            take_note(models, &load, proc_root);
    fclose(file);
}

void
mrd_model_table_step(mrd_model_table *models, mrd_local_ns now)
{
    /* Write the file in the turn that read a load, because the next agent cannot read this load
     * from the rings. */
    write_note(models);
    if (mrd_local_diff(now, models->swept) < MRD_SEC)
        return;
    models->swept = now;
    judge_all(models, now);
    /* Remove unloaded models that no session wants, but only after some time. A session may arrive
     * late and still have started before the unload. */
    for (size_t i = models->n; i-- > 0;)
        if (models->v[i].m.unload.ns != 0 &&
            mrd_local_before(models->v[i].m.unload, mrd_local_sub(now, MRD_WAIT_MODEL_KEPT)) &&
            !wanted(models, &models->v[i]))
            remove_at(models, i);
}

mrd_err
mrd_model_table_open(const char *note, const char *boot_id, const char *proc_root,
                     mrd_record *record, mrd_model_table **ret_table, mrd_why *why)
{
    mrd_model_table *models = calloc(1, sizeof(*models));

    if (models == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "models");
    models->record = record;
    models->version = models->saved = 1;
    snprintf(models->note, sizeof(models->note), "%s", note == NULL ? "" : note);
    snprintf(models->boot_id, sizeof(models->boot_id), "%s", boot_id);
    read_note(models, proc_root);
    *ret_table = models;
    return MRD_OK;
}

void
mrd_model_table_close(mrd_model_table *models)
{
    if (models == NULL)
        return;
    write_note(models);
    free(models->told);
    free(models->v);
    free(models);
}
