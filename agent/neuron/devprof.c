#include "agent/neuron/devprof.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/rings/control_file.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/vec.h"
#include "capture/nrt/nrt_control.h"

typedef enum { ASKED, ARMED, SAVING, STOPPING, OVER } entry_phase;

/* One process in one session. */
typedef struct entry {
    struct entry *next;
    uint64_t session, seq;
    mrd_drain_process *process; /* NULL: gone */
    int64_t pid;
    mrd_local_ns deadline;
    entry_phase phase;
    uint64_t models_seen, chosen; /* version of the table, and hash of the models that were sent */
} entry;

typedef struct {
    uint64_t session;
    int64_t pid, core;
    const char *state;
    uint32_t count;
    char message[160];
} result;

struct mrd_devprof {
    mrd_record *record;
    mrd_drain *drain;
    const mrd_model_table *models;
    const char *instance_id;
    entry *entries;
    result *results;
    size_t n_results, cap_results;
    uint64_t full; /* the session for which a full list was last logged */
    struct {
        uint64_t session;
        mrd_local_ns at;
    } told[MRD_RECORD_SESSIONS]; /* newest file */
    bool fresh;                  /* there are processes that were not checked yet */
};

/* ---- Results ---- */

/* Returns the answer of a process, or of one of its cores, and adds it if needed. NULL if out of
 * memory, or if the session's list is full, which is logged once. */
static result *
result_of(mrd_devprof *d, const entry *e, int64_t core)
{
    size_t of_session = 0;

    for (size_t i = 0; i < d->n_results; i++) {
        of_session += d->results[i].session == e->session;
        if (d->results[i].session == e->session && d->results[i].pid == e->pid &&
            d->results[i].core == core)
            return &d->results[i];
    }
    if (of_session >= MRD_DEVPROF_RESULTS) {
        if (d->full != e->session)
            mrd_log(MRD_LOG_WARN, "AGT-DEVPROF-MAX",
                    "More processes and cores answer about device profiles than the manifest lists "
                    "of a node; the others are left out: session=%016" PRIx64 " limit=%d",
                    e->session, MRD_DEVPROF_RESULTS);
        d->full = e->session;
        return NULL;
    }
    if (!MRD_VEC_ROOM(d->results, d->n_results, d->cap_results, 1))
        return NULL;
    d->results[d->n_results] = (result){ .session = e->session, .pid = e->pid, .core = core };
    return &d->results[d->n_results++];
}

static void
note(mrd_devprof *d, const entry *e, int64_t core, const char *state, mrd_str message)
{
    result *r = result_of(d, e, core);

    if (strcmp(state, "refused") == 0)
        mrd_log(MRD_LOG_WARN, "AGT-DEVPROF",
                "A device profile was refused: pid=%lld core=%lld reason=" MRD_STR_FMT,
                (long long) e->pid, (long long) core, MRD_STR_ARG(message));
    if (r == NULL)
        return;
    if (strcmp(state, "ended") == 0 && r->state != NULL && strcmp(r->state, "refused") == 0)
        return; /* keep the reason of the failure */
    r->state = state;
    r->count += strcmp(state, "written") == 0;
    snprintf(r->message, sizeof(r->message), MRD_STR_FMT, MRD_STR_ARG(message));
}

static void
refuse(mrd_devprof *d, entry *e, const char *message)
{
    note(d, e, MRD_NONE, "refused", mrd_str_of(message));
    if (e->process != NULL && e->seq > 0)
        mrd_control_file_drop(d->drain, e->process);
    e->phase = OVER;
}

/* ---- Requests ---- */

static void
put_list(mrd_buf *text, const char *key, const mrd_strlist *list)
{
    mrd_buf_fmt(text, "%s=", key);
    for (size_t i = 0; i < list->n; i++)
        if (strchr(list->v[i], '\n') == NULL) /* it would begin another line */
            mrd_buf_fmt(text, "%s%s", i == 0 ? "" : ",", list->v[i]);
    mrd_buf_text(text, "\n");
}

static bool
is_hash(const char *word)
{
    size_t n = strspn(word, "0123456789abcdef");

    return word[n] == '\0' && n >= 6 && n <= 64;
}

/* Appends the models of this process that the selection matches: numbers of loads by name, or by
 * the beginning of the hash. */
static void
put_models(const mrd_devprof *d, const entry *e, const mrd_strlist *words, mrd_buf *text)
{
    const mrd_model_load *loads[MRD_MODELS_SENT];
    bool listed[MRD_MODELS_SENT] = { false };
    uint64_t left_out;
    size_t n = mrd_model_table_get(d->models, 0, loads, MRD_MODELS_SENT, &left_out);

    mrd_buf_text(text, "models=0"); /* no load matches yet, but one may be loaded later */
    for (size_t k = 0; k < words->n; k++) {
        const char *word = words->v[k];

        if (strncmp(word, "id:", 3) == 0 && strspn(word + 3, "0123456789") == strlen(word + 3))
            mrd_buf_fmt(text, ",%s", word + 3);
        else if (is_hash(word))
            mrd_buf_fmt(text, ",#%s", word);
        for (size_t i = 0; i < n; i++)
            if (loads[i]->pid == e->pid && loads[i]->name[0] != '\0' && !listed[i] &&
                fnmatch(word, loads[i]->name, 0) == 0) {
                mrd_buf_fmt(text, ",%" PRIu64, loads[i]->model_id);
                listed[i] = true;
            }
    }
    mrd_buf_text(text, "\n");
}

/* Appends the selection for this process as lines of the control file. */
static void
put_choice(const mrd_devprof *d, const entry *e, const mrd_session_params *p, mrd_buf *text)
{
    const mrd_strlist *cores, *types;

    mrd_record_choice(d->record, e->session, &cores, &types);
    put_list(text, "cores", cores);
    if (p->inspect.n > 0) {
        put_list(text, "activities", &p->inspect);
        put_list(text, "types", types);
        mrd_buf_fmt(text, "on_fail=%d\nevents=%" PRId64 "\n",
                    p->device_profiles == MRD_PROFILES_ON_FAIL, p->inspect_events);
    }
    if (p->profile_models.n > 0)
        put_models(d, e, &p->profile_models, text);
    mrd_buf_fmt(text, "execution=%" PRId64 "\nwarmup=%" PRId64 "\n", p->profile_execution,
                p->profile_warmup);
}

/* Refuses a text that libmeridian would not understand, because it would not answer. */
static mrd_err
check(const char *text, mrd_why *why)
{
    char copy[MRD_CONTROL_MAX + 1];
    mrd_control *c = malloc(sizeof(*c));
    size_t n = strlen(text);
    bool good = c != NULL && n < sizeof(copy);

    if (good) {
        memcpy(copy, text, n + 1);
        good = mrd_control_parse(copy, c);
    }
    free(c);
    return good ? MRD_OK
                : mrd_why_set(why, MRD_LIMIT, 0,
                              "more models, cores, event types or activities are chosen than a "
                              "request to a process can list: choose fewer");
}

static mrd_err
tell(mrd_devprof *d, entry *e, const char *verb, mrd_why *why)
{
    const mrd_session_params *p = mrd_record_params(d->record, e->session);
    char word[MRD_PARAM_WORD_TEXT];
    mrd_buf text = { 0 };
    size_t choice;
    mrd_err err;

    if (p == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "its session is over");
    mrd_buf_fmt(
        &text,
        "request=%" PRIu64 "\nseq=%" PRIu64 "\ntag=%" PRId32 "\ninstance=%s\ndo=%s\nmode=%s\n",
        e->session, ++e->seq, mrd_session_tag(e->session), d->instance_id, verb,
        p->inspect.n > 0
            ? "inspect"
            : mrd_session_param_word(&mrd_session_param_table[MRD_PARAM_INDEX_device_profiles],
                                     p->device_profiles, word));
    choice = text.len;
    put_choice(d, e, p, &text);
    if (text.err == MRD_OK)
        e->chosen = mrd_hash64(text.p + choice, text.len - choice, 1);
    e->models_seen = mrd_model_table_version(d->models);
    err = mrd_buf_cstr(&text)[0] == '\0' ? mrd_why_set(why, text.err, 0, "device profiles")
                                         : check(mrd_buf_cstr(&text), why);
    if (err == MRD_OK)
        err = mrd_control_file_put(d->drain, e->process, mrd_buf_cstr(&text), why);
    mrd_buf_fini(&text);
    e->deadline = mrd_local_add(mrd_local_now(), MRD_WAIT_DEVICE_PROFILE);
    return err;
}

/* Models were loaded or named, so a selection by name may match another set. */
static void
choose_again(mrd_devprof *d, entry *e)
{
    const mrd_session_params *p = mrd_record_params(d->record, e->session);
    mrd_buf text = { 0 };
    mrd_why why = { 0 };

    if ((e->phase != ARMED && e->phase != ASKED) || e->process == NULL || p == NULL ||
        p->profile_models.n == 0 || e->models_seen == mrd_model_table_version(d->models))
        return;
    e->models_seen = mrd_model_table_version(d->models);
    put_choice(d, e, p, &text);
    if (text.err == MRD_OK && mrd_hash64(text.p, text.len, 1) != e->chosen &&
        tell(d, e, "arm", &why) != MRD_OK)
        note(d, e, MRD_NONE, "refused", mrd_str_of(why.text));
    mrd_buf_fini(&text);
}

static const entry *
busy_with(const mrd_devprof *d, const mrd_drain_process *process)
{
    for (const entry *e = d->entries; e != NULL; e = e->next)
        if (e->process == process && e->phase != OVER)
            return e;
    return NULL;
}

static void
begin(mrd_devprof *d, uint64_t session, mrd_drain_process *process)
{
    const entry *other = busy_with(d, process);
    entry *e = calloc(1, sizeof(*e));
    mrd_why why = { 0 };
    char text[96];

    if (e == NULL)
        return; /* the next turn tries again */
    *e = (entry){ .next = d->entries,
                  .session = session,
                  .process = process,
                  .pid = process->ident.pid,
                  .phase = ASKED };
    d->entries = e;
    if (other != NULL) {
        snprintf(text, sizeof(text), "another session (%016" PRIx64 ") profiles this process",
                 other->session);
        refuse(d, e, text);
    } else if (process->ident.uid != MRD_NONE && geteuid() != 0 &&
               process->ident.uid != (int64_t) geteuid()) {
        refuse(d, e, "the agent runs neither as root nor as the user of this process");
    } else if (tell(d, e, "arm", &why) != MRD_OK) {
        refuse(d, e, why.text);
    } else {
        note(d, e, MRD_NONE, "asked", MRD_STR(""));
    }
}

typedef struct {
    mrd_devprof *d;
    uint64_t session;
} each;

static void
take(void *self, mrd_drain_process *process)
{
    const each *s = self;

    for (const entry *e = s->d->entries; e != NULL; e = e->next)
        if (e->session == s->session && e->process == process)
            return;
    if (mrd_record_selects(s->d->record, s->session, process))
        begin(s->d, s->session, process);
}

static void
stop(mrd_devprof *d, entry *e)
{
    mrd_why why = { 0 };

    if (e->phase == OVER || e->phase == STOPPING)
        return;
    if (e->process == NULL || tell(d, e, "stop", &why) != MRD_OK)
        refuse(d, e, e->process == NULL ? "the process has ended" : why.text);
    else
        e->phase = STOPPING;
}

void
mrd_devprof_save(mrd_devprof *d, uint64_t session, mrd_local_ns now)
{
    (void) now;
    for (entry *e = d->entries; e != NULL; e = e->next)
        if (e->session == session && e->process != NULL &&
            (e->phase == ARMED || e->phase == SAVING)) {
            mrd_why why = { 0 };

            if (tell(d, e, "save", &why) != MRD_OK)
                refuse(d, e, why.text);
            else
                e->phase = SAVING;
        }
}

/* ---- Turns ---- */

static void
forget(mrd_devprof *d, entry **at)
{
    entry *e = *at;
    size_t kept = 0;

    if (e->phase != OVER && e->process != NULL)
        mrd_control_file_drop(d->drain, e->process);
    for (size_t i = 0; i < d->n_results; i++)
        if (d->results[i].session != e->session || d->results[i].pid != e->pid)
            d->results[kept++] = d->results[i];
    d->n_results = kept;
    *at = e->next;
    free(e);
}

static void
overdue(mrd_devprof *d, entry *e, mrd_local_ns now)
{
    if (mrd_local_before(now, e->deadline) || e->phase == ARMED || e->phase == OVER)
        return;
    if (e->phase == SAVING)
        e->phase = ARMED; /* written profiles were reported; others may follow */
    else
        refuse(d, e,
               e->phase == ASKED
                   ? "the process does not answer: it runs without libmeridian, has not opened the "
                     "Neuron runtime, or does not record the system trace (MERIDIAN_CAPTURE)"
                   : "the process does not answer the request to end its device profile");
}

void
mrd_devprof_seen(mrd_devprof *d)
{
    d->fresh = true;
}

static void
withdraw(void *self, mrd_drain_process *process)
{
    mrd_devprof *d = self;
    mrd_record_status st;

    if (busy_with(d, process) != NULL)
        return;
    for (size_t i = 0; i < mrd_record_sessions(d->record); i++) {
        mrd_record_get(d->record, i, &st);
        if (mrd_record_asks_runtime(d->record, st.id) &&
            mrd_record_selects(d->record, st.id, process))
            return;
    }
    mrd_control_file_drop(d->drain, process);
}

void
mrd_devprof_step(mrd_devprof *d, mrd_local_ns now)
{
    mrd_record_status st;

    for (size_t i = 0; i < mrd_record_sessions(d->record); i++) {
        mrd_record_get(d->record, i, &st);
        if (!mrd_record_asks_runtime(d->record, st.id) || mrd_local_before(now, st.start))
            continue;
        if (st.phase == MRD__NODE_PHASE__NODE_RECORDING && mrd_local_before(now, st.stop))
            mrd_drain_each(d->drain, take, &(each){ d, st.id });
        for (entry *e = d->entries; e != NULL && !mrd_local_before(now, st.stop); e = e->next)
            if (e->session == st.id)
                stop(d, e);
    }
    if (d->fresh)
        mrd_drain_each(d->drain, withdraw, d);
    d->fresh = false;
    for (entry **at = &d->entries; *at != NULL;) {
        choose_again(d, *at);
        overdue(d, *at, now);
        if (mrd_record_find(d->record, (*at)->session, &st))
            at = &(*at)->next;
        else
            forget(d, at);
    }
}

void
mrd_devprof_gone(mrd_devprof *d, const mrd_drain_process *process)
{
    for (entry *e = d->entries; e != NULL; e = e->next) {
        if (e->process != process)
            continue;
        if (e->phase != OVER)
            note(d, e, MRD_NONE, e->phase == ASKED ? "refused" : "ended",
                 MRD_STR("the process has ended"));
        mrd_control_file_drop(d->drain, e->process);
        e->process = NULL;
        e->phase = OVER;
    }
}

/* ---- Answers ---- */

static void
told(mrd_devprof *d, uint64_t session, mrd_local_ns now)
{
    size_t i = 0;

    mrd_record_status st;

    while (i < MRD_RECORD_SESSIONS && d->told[i].session != session)
        i++;
    if (i == MRD_RECORD_SESSIONS) /* one entry per session */
        for (i = 0;
             i + 1 < MRD_RECORD_SESSIONS && mrd_record_find(d->record, d->told[i].session, &st);)
            i++;
    d->told[i].session = session;
    d->told[i].at = now;
}

static void
answer(mrd_devprof *d, entry *e, mrd_str name, int64_t core, mrd_str why, mrd_local_ns now)
{
    if (mrd_str_is(name, "device profiles armed")) {
        note(d, e, MRD_NONE, "armed", why);
        e->phase = e->phase == ASKED ? ARMED : e->phase;
    } else if (mrd_str_is(name, "device profile written")) {
        note(d, e, core, "written", why);
        told(d, e->session, now);
    } else if (mrd_str_is(name, "device profile refused")) {
        note(d, e, core, "refused", why);
        if (e->phase == ASKED && core == MRD_NONE) {
            mrd_control_file_drop(d->drain, e->process);
            e->phase = OVER;
        }
    } else if (mrd_str_is(name, "device profiles ended") ||
               mrd_str_is(name, "device profiles given up")) {
        note(d, e, MRD_NONE, mrd_str_is(name, "device profiles ended") ? "ended" : "refused", why);
        mrd_control_file_drop(d->drain, e->process);
        e->phase = OVER;
    }
}

bool
mrd_devprof_notice(mrd_devprof *d, mrd_drain_process *process, const mrd_event *ev,
                   mrd_local_ns now)
{
    static const char about[] = "device profile";
    mrd_str name = mrd_catalog_text(process->catalog, ev->name), why = MRD_STR("");
    uint64_t session = 0;
    int64_t core = MRD_NONE;

    if (name.len < sizeof(about) - 1 || memcmp(name.p, about, sizeof(about) - 1) != 0)
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *a = &ev->args[i];
        mrd_str key = mrd_catalog_text(process->catalog, a->key);

        if (mrd_str_is(key, "request") && mrd_arg_is_int(a))
            session = (uint64_t) a->v.i;
        else if (mrd_str_is(key, "lnc_idx") && mrd_arg_is_int(a))
            core = a->v.i;
        else if (mrd_str_is(key, "why"))
            why = mrd_arg_text(mrd_catalog_strings(process->catalog), a);
    }
    for (entry *e = d->entries; e != NULL; e = e->next)
        if (e->session == session && e->process == process && e->phase != OVER)
            answer(d, e, name, core, why, now);
    return true;
}

bool
mrd_devprof_pending(const mrd_devprof *d, uint64_t session, int64_t *ret_since)
{
    bool pending = false;

    *ret_since = 0;
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (d->told[i].session == session)
            *ret_since = d->told[i].at.ns;
    for (const entry *e = d->entries; e != NULL; e = e->next)
        pending = pending || (e->session == session && e->phase != OVER);
    return pending;
}

bool
mrd_devprof_get(const mrd_devprof *d, uint64_t session, size_t at, mrd_devprof_result *ret_result)
{
    for (size_t i = 0; d != NULL && i < d->n_results; i++) {
        const result *r = &d->results[i];

        if (r->session != session || at-- > 0)
            continue;
        *ret_result = (mrd_devprof_result){ .pid = r->pid,
                                            .core = r->core,
                                            .state = r->state,
                                            .count = r->count,
                                            .message = r->message };
        return true;
    }
    return false;
}

mrd_err
mrd_devprof_open(mrd_record *record, mrd_drain *drain, const mrd_model_table *models,
                 const char *instance_id, mrd_devprof **ret_devprof, mrd_why *why)
{
    mrd_devprof *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "device profiles");
    d->record = record;
    d->drain = drain;
    d->models = models;
    d->instance_id = instance_id;
    *ret_devprof = d;
    return MRD_OK;
}

void
mrd_devprof_close(mrd_devprof *d)
{
    if (d == NULL)
        return;
    while (d->entries != NULL) {
        entry *e = d->entries;

        d->entries = e->next;
        free(e);
    }
    free(d->results);
    free(d);
}
