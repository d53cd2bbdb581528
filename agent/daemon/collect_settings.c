/*
 * agent/daemon/collect_settings.c - passes the sessions' selections to the runtimes. A settings
 * file next to the rings of each process contains the cores and event types that all sessions
 * together select (capture/nrt/nrt_settings.h). So the runtime does not even produce events that no
 * session wants. The file also starts the recording of processes that wait for this, and stops it
 * while all sessions that select the process are paused.
 *
 * The runtime of a process that no session selects records only the types in LOADS. A session
 * starts half a second after the agent receives it, and the runtime normally records all types by
 * then. libmeridian reports the time of this change. If it is after the start of the session, the
 * session counts the time in between as lost, with the cause "started-late".
 */
#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "agent/rings/control_file.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/hash.h"

/* Event types that a runtime records even without a session. They contain the names of models, so a
 * session also gets the names of models that were loaded before (agent/neuron/models.h). */
#define LOADS "nrt_load,nrt_load_collectives"

typedef struct entry {
    struct entry *next;
    mrd_drain_process *process;
    /* when the process's runtime last began to record more event types than LOADS; 0 means never */
    mrd_local_ns whole;
    uint64_t written; /* hash of the text in the settings file; 0 means that there is no file */
    bool failed;
} entry;

typedef struct {
    mrd_agent *agent;
    entry *entries;
    mrd_local_ns looked_at;
} settings;

static mrd_err
open_settings(mrd_agent *agent, void **ret_self, mrd_why *why)
{
    settings *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "settings of processes");
    s->agent = agent;
    *ret_self = s;
    return MRD_OK;
}

static void
close_settings(void *self)
{
    settings *s = self;

    while (s->entries != NULL) {
        entry *item = s->entries;

        s->entries = item->next;
        free(item);
    }
    free(s);
}

/* ---- The union of all sessions
 * ----------------------------------------------------------------- */

typedef struct {
    mrd_strlist cores, types;
    bool all_cores, all_types, any;
} want;

static bool
has_exclusion(const mrd_strlist *words)
{
    for (size_t i = 0; i < words->n; i++)
        if (words->v[i][0] == '^')
            return true;
    return false;
}

static bool
same_list(const mrd_strlist *a, const mrd_strlist *b)
{
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return false;
    return a->n == b->n;
}

static void
add_all(mrd_strlist *to, const mrd_strlist *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!mrd_strlist_has(to, mrd_str_of(from->v[i])))
            (void) mrd_strlist_add(to, mrd_str_of(from->v[i]));
}

/* Adds the selection of one session to the union of all sessions' selections. Lists of types with
 * exclusions are merged only if they are equal. If they differ, the union is all types. */
static void
join(want *w, const mrd_strlist *cores, const mrd_strlist *types)
{
    w->all_cores = w->all_cores || cores->n == 0;
    w->all_types = w->all_types || types->n == 0 ||
                   (w->any && !same_list(&w->types, types) &&
                    (has_exclusion(types) || has_exclusion(&w->types)));
    add_all(&w->cores, cores);
    add_all(&w->types, types);
    w->any = true;
}

static void
put_list(mrd_buf *text, const char *key, const mrd_strlist *list, bool all)
{
    mrd_buf_fmt(text, "%s=", key);
    for (size_t i = 0; i < list->n && !all; i++)
        mrd_buf_fmt(text, "%s%s", i == 0 ? "" : ",", list->v[i]);
    mrd_buf_text(text, "\n");
}

/* Makes the settings text for a process. An empty text means that everything is recorded. Returns
 * true if a session selects the process. A preloaded program that waits to be switched on records
 * only while the text contains `recording=on`. This line is removed when its sessions have received
 * the events. */
static bool
wanted(const settings *s, const entry *item, mrd_local_ns now, mrd_buf *text)
{
    const mrd_drain_process *process = item->process;
    mrd_record *record = s->agent->record;
    want w = { 0 };
    bool on = false, paused = true; /* paused: all sessions that select the process are paused */

    for (size_t i = 0; i < mrd_record_sessions(record); i++) {
        const mrd_strlist *cores, *types;
        mrd_record_status st;

        mrd_record_get(record, i, &st);
        if (st.phase == MRD__NODE_PHASE__NODE_FLUSHED ||
            !mrd_record_selects(record, st.id, process))
            continue;
        on = true;
        mrd_record_untraced(record, st.id, item->whole);
        paused = paused && mrd_record_is_paused(record, st.id, now) &&
                 mrd_record_is_paused(record, st.id, mrd_local_add(now, MRD_WAIT_SETTINGS_AHEAD));
        if (mrd_local_after(now, st.stop))
            continue;
        mrd_record_choice(record, st.id, &cores, &types);
        join(&w, cores, types);
    }
    if (on)
        mrd_buf_text(text, paused ? "recording=off\n" : "recording=on\n");
    if (w.any && (!w.all_cores || !w.all_types)) {
        put_list(text, "trace_cores", &w.cores, w.all_cores);
        put_list(text, "trace_types", &w.types, w.all_types);
    }
    /* The agent may not read the rings of a process until it knows which sessions select the
     * process. Until then the process records everything. A program without a Neuron runtime needs
     * no file. */
    on = on || mrd_drain_is_held(s->agent->drain, process);
    if (!on && mrd_drain_has_runtime(process))
        mrd_buf_text(text, "trace_types=" LOADS "\n");
    mrd_strlist_fini(&w.cores);
    mrd_strlist_fini(&w.types);
    return on;
}

/* ---- Turns: writing the settings files ---- */

static bool
may_write(const mrd_drain_process *process)
{
    return geteuid() == 0 || process->ident.uid == MRD_NONE ||
           process->ident.uid == (int64_t) geteuid();
}

static void
tell(settings *s, entry *item, mrd_buf *text)
{
    uint64_t hash = text->len == 0 ? 0 : mrd_hash64(text->p, text->len, 1);
    mrd_why why = { 0 };

    if (hash == item->written || !may_write(item->process))
        return;
    item->written = hash;
    if (hash == 0) {
        mrd_settings_file_drop(s->agent->drain, item->process);
    } else if (mrd_settings_file_put(s->agent->drain, item->process, mrd_buf_cstr(text), &why) !=
                   MRD_OK &&
               !item->failed) {
        /* This is not fatal. Without a settings file, the runtime records more events than the
         * sessions select, and the agent discards the others. */
        item->failed = true;
        mrd_log(MRD_LOG_WARN, "AGT-SETTINGS",
                "A process does not receive its capture filters: pid=%lld reason=%s",
                (long long) item->process->ident.pid, why.text);
    }
}

static void
step_settings(void *self, mrd_local_ns now)
{
    settings *s = self;

    if (mrd_local_before(now, mrd_local_add(s->looked_at, MRD_WAIT_SETTINGS)))
        return;
    s->looked_at = now;
    for (entry *item = s->entries; item != NULL; item = item->next) {
        mrd_buf text = { 0 };

        mrd_drain_want_process(s->agent->drain, item->process, wanted(s, item, now, &text));
        if (text.err == MRD_OK)
            tell(s, item, &text);
        mrd_buf_fini(&text);
    }
}

static void
process_of_settings(void *self, mrd_drain_process *process)
{
    settings *s = self;
    entry **at = &s->entries, *item;

    while (*at != NULL && (*at)->process != process)
        at = &(*at)->next;
    if (process->gone) {
        if ((item = *at) == NULL)
            return;
        *at = item->next;
        mrd_settings_file_drop(s->agent->drain, process);
        free(item);
    } else if (*at == NULL && (item = calloc(1, sizeof(*item))) != NULL) {
        /* 1 means that the contents of the file are unknown. So the first turn replaces or removes
         * a settings file that a previous agent left. */
        *item = (entry){ .next = s->entries, .process = process, .written = 1 };
        s->entries = item;
        s->looked_at = (mrd_local_ns){ 0 };
    }
}

/* Stores the time when the runtime of a process changed from recording only LOADS to recording
 * more. */
static void
notice_of_settings(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    settings *s = self;
    bool had_loads = false;

    if (!mrd_str_is(mrd_catalog_text(process->catalog, ev->name), MRD_NOTICE_TYPES))
        return;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        had_loads =
            had_loads ||
            (mrd_str_is(mrd_catalog_text(process->catalog, ev->args[i].key), "before") &&
             mrd_str_is(mrd_arg_text(mrd_catalog_strings(process->catalog), &ev->args[i]), LOADS));
    if (!had_loads)
        return;
    for (entry *item = s->entries; item != NULL; item = item->next)
        if (item->process == process)
            item->whole = (mrd_local_ns){ ev->ts.ns };
    s->looked_at = (mrd_local_ns){ 0 };
}

/* Returns 0 (due now) if looked_at was reset. A session starts soon after it was created, so its
 * settings must reach the processes at once. */
static mrd_local_ns
next_of_settings(const void *self)
{
    const settings *s = self;

    return (mrd_local_ns){ s->looked_at.ns == 0 ? 0 : INT64_MAX };
}

static mrd_err
begin_settings(void *self, uint64_t session, mrd_why *why)
{
    settings *s = self;

    (void) session;
    (void) why;
    s->looked_at = (mrd_local_ns){ 0 };
    return MRD_OK;
}

const mrd_collector mrd_collector_settings = {
    .name = "settings",
    .open = open_settings,
    .step = step_settings,
    .next_ns = next_of_settings,
    .begin = begin_settings,
    .notice = notice_of_settings,
    .process = process_of_settings,
    .close = close_settings,
};
