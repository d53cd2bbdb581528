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

/* One session's request to one process to capture device profiles. */
typedef struct entry {
    struct entry *next;
    uint64_t session, seq;
    mrd_drain_process *process; /* NULL after the process has ended */
    int64_t pid;
    mrd_local_ns deadline;
    entry_phase phase;
    /* version of the table of models (models.h) when the request was last sent */
    uint64_t models_seen;
    uint64_t chosen; /* hash of the models that the request selected when it was last sent */
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
    /* id of the session for which the log last said that its list of results is full */
    uint64_t full;
    struct {
        uint64_t session;
        mrd_local_ns at;
        /* when the process's newest file for this session was reported */
    } told[MRD_RECORD_SESSIONS];
    /* true if there are new processes that were not yet checked for requests of a previous agent */
    bool fresh;
};

/* ---- Results ---- */

/* Returns the result for a process, or for one of its cores, and adds it if needed. Returns NULL if
 * out of memory, or if the session's list is full. A full list is logged once. */
static result *
result_of(mrd_devprof *prof, const entry *item, int64_t core)
{
    size_t of_session = 0;

    for (size_t i = 0; i < prof->n_results; i++) {
        of_session += prof->results[i].session == item->session;
        if (prof->results[i].session == item->session && prof->results[i].pid == item->pid &&
            prof->results[i].core == core)
            return &prof->results[i];
    }
    if (of_session >= MRD_DEVPROF_RESULTS) {
        if (prof->full != item->session)
            mrd_log(MRD_LOG_WARN, "AGT-DEVPROF-MAX",
                    "More processes and cores answer about device profiles than the manifest lists "
                    "of a node; the others are left out: session=%016" PRIx64 " limit=%d",
                    item->session, MRD_DEVPROF_RESULTS);
        prof->full = item->session;
        return NULL;
    }
    if (!MRD_VEC_ROOM(prof->results, prof->n_results, prof->cap_results, 1))
        return NULL;
    prof->results[prof->n_results] =
        (result){ .session = item->session, .pid = item->pid, .core = core };
    return &prof->results[prof->n_results++];
}

static void
note(mrd_devprof *prof, const entry *item, int64_t core, const char *state, mrd_str message)
{
    result *res = result_of(prof, item, core);

    if (strcmp(state, "refused") == 0)
        mrd_log(MRD_LOG_WARN, "AGT-DEVPROF",
                "A device profile was refused: pid=%lld core=%lld reason=" MRD_STR_FMT,
                (long long) item->pid, (long long) core, MRD_STR_ARG(message));
    if (res == NULL)
        return;
    if (strcmp(state, "ended") == 0 && res->state != NULL && strcmp(res->state, "refused") == 0)
        return; /* keep the state "refused" and its message, which says why there is no profile */
    res->state = state;
    res->count += strcmp(state, "written") == 0;
    snprintf(res->message, sizeof(res->message), MRD_STR_FMT, MRD_STR_ARG(message));
}

static void
refuse(mrd_devprof *prof, entry *item, const char *message)
{
    note(prof, item, MRD_NONE, "refused", mrd_str_of(message));
    if (item->process != NULL && item->seq > 0)
        mrd_control_file_drop(prof->drain, item->process);
    item->phase = OVER;
}

/* ---- Requests ---- */

static void
put_list(mrd_buf *text, const char *key, const mrd_strlist *list)
{
    mrd_buf_fmt(text, "%s=", key);
    for (size_t i = 0; i < list->n; i++)
        /* a text with a newline is left out, because it would begin another line of the control
         * file */
        if (strchr(list->v[i], '\n') == NULL)
            mrd_buf_fmt(text, "%s%s", i == 0 ? "" : ",", list->v[i]);
    mrd_buf_text(text, "\n");
}

static bool
is_hash(const char *word)
{
    size_t n = strspn(word, "0123456789abcdef");

    return word[n] == '\0' && n >= 6 && n <= 64;
}

/* Appends the numbers of the process's loaded models that the selection matches. Each word of the
 * selection is the name of a model, the beginning of its hash, or "id:" and a number. */
static void
put_models(const mrd_devprof *prof, const entry *item, const mrd_strlist *words, mrd_buf *text)
{
    const mrd_model_load *loads[MRD_MODELS_SENT];
    bool listed[MRD_MODELS_SENT] = { false };
    uint64_t left_out;
    size_t n = mrd_model_table_get(prof->models, 0, loads, MRD_MODELS_SENT, &left_out);

    /* The list begins with 0, which is the number of no model, because an empty list would select
     * all models. Models that are loaded later may match the selection. */
    mrd_buf_text(text, "models=0");
    for (size_t k = 0; k < words->n; k++) {
        const char *word = words->v[k];

        if (strncmp(word, "id:", 3) == 0 && strspn(word + 3, "0123456789") == strlen(word + 3))
            mrd_buf_fmt(text, ",%s", word + 3);
        else if (is_hash(word))
            mrd_buf_fmt(text, ",#%s", word);
        for (size_t i = 0; i < n; i++)
            if (loads[i]->pid == item->pid && loads[i]->name[0] != '\0' && !listed[i] &&
                fnmatch(word, loads[i]->name, 0) == 0) {
                mrd_buf_fmt(text, ",%" PRIu64, loads[i]->model_id);
                listed[i] = true;
            }
    }
    mrd_buf_text(text, "\n");
}

/* Appends the session's selection of models and cores for this process, as lines of the control
 * file. */
static void
put_choice(const mrd_devprof *prof, const entry *item, const mrd_session_params *params,
           mrd_buf *text)
{
    const mrd_strlist *cores, *types;

    mrd_record_choice(prof->record, item->session, &cores, &types);
    put_list(text, "cores", cores);
    if (params->inspect.n > 0) {
        put_list(text, "activities", &params->inspect);
        put_list(text, "types", types);
        mrd_buf_fmt(text, "on_fail=%d\nevents=%" PRId64 "\n",
                    params->device_profiles == MRD_PROFILES_ON_FAIL, params->inspect_events);
    }
    if (params->profile_models.n > 0)
        put_models(prof, item, &params->profile_models, text);
    mrd_buf_fmt(text, "execution=%" PRId64 "\nwarmup=%" PRId64 "\n", params->profile_execution,
                params->profile_warmup);
}

/* Returns an error if libmeridian could not parse this text of a control file. libmeridian would
 * not answer such a request. */
static mrd_err
check(const char *text, mrd_why *why)
{
    char copy[MRD_CONTROL_MAX + 1];
    mrd_control *control = malloc(sizeof(*control));
    size_t n = strlen(text);
    bool good = control != NULL && n < sizeof(copy);

    if (good) {
        memcpy(copy, text, n + 1);
        good = mrd_control_parse(copy, control);
    }
    free(control);
    return good ? MRD_OK
                : mrd_why_set(why, MRD_LIMIT, 0,
                              "more models, cores, event types or activities are chosen than a "
                              "request to a process can list: choose fewer");
}

static mrd_err
tell(mrd_devprof *prof, entry *item, const char *verb, mrd_why *why)
{
    const mrd_session_params *params = mrd_record_params(prof->record, item->session);
    char word[MRD_PARAM_WORD_TEXT];
    mrd_buf text = { 0 };
    size_t choice;
    mrd_err err;

    if (params == NULL)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "its session is over");
    mrd_buf_fmt(
        &text,
        "request=%" PRIu64 "\nseq=%" PRIu64 "\ntag=%" PRId32 "\ninstance=%s\ndo=%s\nmode=%s\n",
        item->session, ++item->seq, mrd_session_tag(item->session), prof->instance_id, verb,
        params->inspect.n > 0
            ? "inspect"
            : mrd_session_param_word(&mrd_session_param_table[MRD_PARAM_INDEX_device_profiles],
                                     params->device_profiles, word));
    choice = text.len;
    put_choice(prof, item, params, &text);
    if (text.err == MRD_OK)
        item->chosen = mrd_hash64(text.p + choice, text.len - choice, 1);
    item->models_seen = mrd_model_table_version(prof->models);
    err = mrd_buf_cstr(&text)[0] == '\0' ? mrd_why_set(why, text.err, 0, "device profiles")
                                         : check(mrd_buf_cstr(&text), why);
    if (err == MRD_OK)
        err = mrd_control_file_put(prof->drain, item->process, mrd_buf_cstr(&text), why);
    mrd_buf_fini(&text);
    item->deadline = mrd_local_add(mrd_local_now(), MRD_WAIT_DEVICE_PROFILE);
    return err;
}

/* Sends the request again if the selection matches other models now, because models were loaded or
 * got a name. */
static void
choose_again(mrd_devprof *prof, entry *item)
{
    const mrd_session_params *params = mrd_record_params(prof->record, item->session);
    mrd_buf text = { 0 };
    mrd_why why = { 0 };

    if ((item->phase != ARMED && item->phase != ASKED) || item->process == NULL || params == NULL ||
        params->profile_models.n == 0 || item->models_seen == mrd_model_table_version(prof->models))
        return;
    item->models_seen = mrd_model_table_version(prof->models);
    put_choice(prof, item, params, &text);
    if (text.err == MRD_OK && mrd_hash64(text.p, text.len, 1) != item->chosen &&
        tell(prof, item, "arm", &why) != MRD_OK)
        note(prof, item, MRD_NONE, "refused", mrd_str_of(why.text));
    mrd_buf_fini(&text);
}

static const entry *
busy_with(const mrd_devprof *prof, const mrd_drain_process *process)
{
    for (const entry *item = prof->entries; item != NULL; item = item->next)
        if (item->process == process && item->phase != OVER)
            return item;
    return NULL;
}

static void
begin(mrd_devprof *prof, uint64_t session, mrd_drain_process *process)
{
    const entry *other = busy_with(prof, process);
    entry *item = calloc(1, sizeof(*item));
    mrd_why why = { 0 };
    char text[96];

    if (item == NULL)
        return; /* the control file was not written; the next turn tries again */
    *item = (entry){ .next = prof->entries,
                     .session = session,
                     .process = process,
                     .pid = process->ident.pid,
                     .phase = ASKED };
    prof->entries = item;
    if (other != NULL) {
        snprintf(text, sizeof(text), "another session (%016" PRIx64 ") profiles this process",
                 other->session);
        refuse(prof, item, text);
    } else if (process->ident.uid != MRD_NONE && geteuid() != 0 &&
               process->ident.uid != (int64_t) geteuid()) {
        refuse(prof, item, "the agent runs neither as root nor as the user of this process");
    } else if (tell(prof, item, "arm", &why) != MRD_OK) {
        refuse(prof, item, why.text);
    } else {
        note(prof, item, MRD_NONE, "asked", MRD_STR(""));
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

    for (const entry *item = s->d->entries; item != NULL; item = item->next)
        if (item->session == s->session && item->process == process)
            return;
    if (mrd_record_selects(s->d->record, s->session, process))
        begin(s->d, s->session, process);
}

static void
stop(mrd_devprof *prof, entry *item)
{
    mrd_why why = { 0 };

    if (item->phase == OVER || item->phase == STOPPING)
        return;
    if (item->process == NULL || tell(prof, item, "stop", &why) != MRD_OK)
        refuse(prof, item, item->process == NULL ? "the process has ended" : why.text);
    else
        item->phase = STOPPING;
}

void
mrd_devprof_save(mrd_devprof *prof, uint64_t session, mrd_local_ns now)
{
    (void) now;
    for (entry *item = prof->entries; item != NULL; item = item->next)
        if (item->session == session && item->process != NULL &&
            (item->phase == ARMED || item->phase == SAVING)) {
            mrd_why why = { 0 };

            if (tell(prof, item, "save", &why) != MRD_OK)
                refuse(prof, item, why.text);
            else
                item->phase = SAVING;
        }
}

/* ---- Turns: sending requests and checking deadlines ---- */

static void
forget(mrd_devprof *prof, entry **at)
{
    entry *item = *at;
    size_t kept = 0;

    if (item->phase != OVER && item->process != NULL)
        mrd_control_file_drop(prof->drain, item->process);
    for (size_t i = 0; i < prof->n_results; i++)
        if (prof->results[i].session != item->session || prof->results[i].pid != item->pid)
            prof->results[kept++] = prof->results[i];
    prof->n_results = kept;
    *at = item->next;
    free(item);
}

static void
overdue(mrd_devprof *prof, entry *item, mrd_local_ns now)
{
    if (mrd_local_before(now, item->deadline) || item->phase == ARMED || item->phase == OVER)
        return;
    if (item->phase == SAVING)
        /* the request stays active, because only writing the files now was not answered in time */
        item->phase = ARMED;
    else
        refuse(prof, item,
               item->phase == ASKED
                   ? "the process does not answer: it runs without libmeridian, has not opened the "
                     "Neuron runtime, or does not record the system trace (MERIDIAN_CAPTURE)"
                   : "the process does not answer the request to end its device profile");
}

void
mrd_devprof_seen(mrd_devprof *prof)
{
    prof->fresh = true;
}

static void
withdraw(void *self, mrd_drain_process *process)
{
    mrd_devprof *prof = self;
    mrd_record_status st;

    if (busy_with(prof, process) != NULL)
        return;
    for (size_t i = 0; i < mrd_record_sessions(prof->record); i++) {
        mrd_record_get(prof->record, i, &st);
        if (mrd_record_asks_runtime(prof->record, st.id) &&
            mrd_record_selects(prof->record, st.id, process))
            return;
    }
    mrd_control_file_drop(prof->drain, process);
}

void
mrd_devprof_step(mrd_devprof *prof, mrd_local_ns now)
{
    mrd_record_status st;

    for (size_t i = 0; i < mrd_record_sessions(prof->record); i++) {
        mrd_record_get(prof->record, i, &st);
        if (!mrd_record_asks_runtime(prof->record, st.id) || mrd_local_before(now, st.start))
            continue;
        if (st.phase == MRD__NODE_PHASE__NODE_RECORDING && mrd_local_before(now, st.stop))
            mrd_drain_each(prof->drain, take, &(each){ prof, st.id });
        for (entry *item = prof->entries; item != NULL && !mrd_local_before(now, st.stop);
             item = item->next)
            if (item->session == st.id)
                stop(prof, item);
    }
    if (prof->fresh)
        mrd_drain_each(prof->drain, withdraw, prof);
    prof->fresh = false;
    for (entry **at = &prof->entries; *at != NULL;) {
        choose_again(prof, *at);
        overdue(prof, *at, now);
        if (mrd_record_find(prof->record, (*at)->session, &st))
            at = &(*at)->next;
        else
            forget(prof, at);
    }
}

void
mrd_devprof_gone(mrd_devprof *prof, const mrd_drain_process *process)
{
    for (entry *item = prof->entries; item != NULL; item = item->next) {
        if (item->process != process)
            continue;
        if (item->phase != OVER)
            note(prof, item, MRD_NONE, item->phase == ASKED ? "refused" : "ended",
                 MRD_STR("the process has ended"));
        mrd_control_file_drop(prof->drain, item->process);
        item->process = NULL;
        item->phase = OVER;
    }
}

/* ---- Answers of processes ---- */

static void
told(mrd_devprof *prof, uint64_t session, mrd_local_ns now)
{
    size_t i = 0;

    mrd_record_status st;

    while (i < MRD_RECORD_SESSIONS && prof->told[i].session != session)
        i++;
    /* the table is full: replace the entry of a session that has ended */
    if (i == MRD_RECORD_SESSIONS)
        for (i = 0; i + 1 < MRD_RECORD_SESSIONS &&
                    mrd_record_find(prof->record, prof->told[i].session, &st);)
            i++;
    prof->told[i].session = session;
    prof->told[i].at = now;
}

static void
answer(mrd_devprof *prof, entry *item, mrd_str name, int64_t core, mrd_str why, mrd_local_ns now)
{
    if (mrd_str_is(name, "device profiles armed")) {
        note(prof, item, MRD_NONE, "armed", why);
        item->phase = item->phase == ASKED ? ARMED : item->phase;
    } else if (mrd_str_is(name, "device profile written")) {
        note(prof, item, core, "written", why);
        told(prof, item->session, now);
    } else if (mrd_str_is(name, "device profile refused")) {
        note(prof, item, core, "refused", why);
        if (item->phase == ASKED && core == MRD_NONE) {
            mrd_control_file_drop(prof->drain, item->process);
            item->phase = OVER;
        }
    } else if (mrd_str_is(name, "device profiles ended") ||
               mrd_str_is(name, "device profiles given up")) {
        note(prof, item, MRD_NONE, mrd_str_is(name, "device profiles ended") ? "ended" : "refused",
             why);
        mrd_control_file_drop(prof->drain, item->process);
        item->phase = OVER;
    }
}

bool
mrd_devprof_notice(mrd_devprof *prof, mrd_drain_process *process, const mrd_event *ev,
                   mrd_local_ns now)
{
    static const char about[] = "device profile";
    mrd_str name = mrd_catalog_text(process->catalog, ev->name), why = MRD_STR("");
    uint64_t session = 0;
    int64_t core = MRD_NONE;

    if (name.len < sizeof(about) - 1 || memcmp(name.p, about, sizeof(about) - 1) != 0)
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        mrd_str key = mrd_catalog_text(process->catalog, arg->key);

        if (mrd_str_is(key, "request") && mrd_arg_is_int(arg))
            session = (uint64_t) arg->v.i;
        else if (mrd_str_is(key, "lnc_idx") && mrd_arg_is_int(arg))
            core = arg->v.i;
        else if (mrd_str_is(key, "why"))
            why = mrd_arg_text(mrd_catalog_strings(process->catalog), arg);
    }
    for (entry *item = prof->entries; item != NULL; item = item->next)
        if (item->session == session && item->process == process && item->phase != OVER)
            answer(prof, item, name, core, why, now);
    return true;
}

bool
mrd_devprof_pending(const mrd_devprof *prof, uint64_t session, int64_t *ret_since)
{
    bool pending = false;

    *ret_since = 0;
    for (size_t i = 0; i < MRD_RECORD_SESSIONS; i++)
        if (prof->told[i].session == session)
            *ret_since = prof->told[i].at.ns;
    for (const entry *item = prof->entries; item != NULL; item = item->next)
        pending = pending || (item->session == session && item->phase != OVER);
    return pending;
}

bool
mrd_devprof_get(const mrd_devprof *prof, uint64_t session, size_t at,
                mrd_devprof_result *ret_result)
{
    for (size_t i = 0; prof != NULL && i < prof->n_results; i++) {
        const result *res = &prof->results[i];

        if (res->session != session || at-- > 0)
            continue;
        *ret_result = (mrd_devprof_result){ .pid = res->pid,
                                            .core = res->core,
                                            .state = res->state,
                                            .count = res->count,
                                            .message = res->message };
        return true;
    }
    return false;
}

mrd_err
mrd_devprof_open(mrd_record *record, mrd_drain *drain, const mrd_model_table *models,
                 const char *instance_id, mrd_devprof **ret_devprof, mrd_why *why)
{
    mrd_devprof *prof = calloc(1, sizeof(*prof));

    if (prof == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "device profiles");
    prof->record = record;
    prof->drain = drain;
    prof->models = models;
    prof->instance_id = instance_id;
    *ret_devprof = prof;
    return MRD_OK;
}

void
mrd_devprof_close(mrd_devprof *prof)
{
    if (prof == NULL)
        return;
    while (prof->entries != NULL) {
        entry *item = prof->entries;

        prof->entries = item->next;
        free(item);
    }
    free(prof->results);
    free(prof);
}
