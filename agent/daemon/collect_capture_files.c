/* agent/daemon/collect_capture_files.c - the collector of files in capture directories
 * (agent/files/files.h). Processes or the operator name these directories. This file decides which
 * sessions get a file, and how long a session waits for its files. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/log.h"
#include "base/obj.h"

/* ---- Which sessions get a file ---- */

typedef struct {
    const mrd_agent *a;
    const mrd_files_whose *whose;
    uint64_t session;
    unsigned known, selected;
} asked;

static bool
may_be_of(const mrd_ident *id, const mrd_files_whose *whose)
{
    return id->pid == whose->pid || (whose->by_name && id->container_pid == whose->pid);
}

static void
ask_ident(asked *q, const mrd_ident *id)
{
    if (!may_be_of(id, q->whose))
        return;
    q->known++;
    q->selected += mrd_record_selects_ident(q->a->record, q->session, id);
}

static void
ask_process(void *self, mrd_drain_process *process)
{
    ask_ident(self, &process->ident);
}

/* Returns true if the session selects the process that wrote a file. If several processes may have
 * the pid, the session must select all of them. A file of an unknown process only goes to sessions
 * that do not select by process. */
static bool
wants_files(void *self, uint64_t session, const mrd_files_whose *whose)
{
    const mrd_agent *agent = self;
    asked q = { .a = agent, .whose = whose, .session = session };
    mrd_ident unknown = { .pid = whose->pid, .rank = MRD_NONE, .uid = MRD_NONE };

    if (whose->kept && !mrd_record_wants_neffs(agent->record, session))
        return false;
    if (whose->pid != MRD_NONE)
        mrd_drain_each(agent->drain, ask_process, &q);
    for (size_t i = 0; i < MRD_COUNT(agent->gone) && q.known == 0 && whose->pid != MRD_NONE; i++)
        if (agent->gone[i] != NULL)
            ask_ident(&q, agent->gone[i]);
    return q.known > 0 ? q.selected == q.known
                       : mrd_record_selects_ident(agent->record, session, &unknown);
}

typedef struct {
    int64_t pid, uid;
    bool found;
} sought;

static void
seek_ident(sought *q, const mrd_ident *id)
{
    bool may_be_user = q->uid == MRD_OWNED_ANY || id->uid == MRD_NONE || id->uid == q->uid;

    q->found |= may_be_user && (id->pid == q->pid || id->container_pid == q->pid);
}

static void
seek_process(void *self, mrd_drain_process *process)
{
    seek_ident(self, &process->ident);
}

/*
 * Returns true if a process of this node wrote the file.
 *
 * Normally a known pid suffices, because a process may use another instance name than the agent.
 * But if the agent has an EC2 instance id, a file with another EC2 instance id is from another
 * node, because the runtime asks the same metadata service. This matters because processes in
 * containers of two nodes often have equal pids.
 */
static bool
is_our_file(void *self, mrd_str instance, int64_t pid, int64_t uid)
{
    const mrd_agent *agent = self;
    sought q = { .pid = pid, .uid = uid };

    if (mrd_str_is(instance, agent->node.instance_id) ||
        mrd_str_is(instance, agent->node.host_name) ||
        mrd_str_is(instance, agent->node.imds.instance_id))
        return true;
    if (agent->node.imds.instance_id[0] != '\0' && mrd_str_starts(instance, "i-"))
        return false;
    mrd_drain_each(agent->drain, seek_process, &q);
    for (size_t i = 0; i < MRD_COUNT(agent->gone); i++)
        if (agent->gone[i] != NULL)
            seek_ident(&q, agent->gone[i]);
    return q.found;
}

/* Remembers a process that ended, because files that it wrote may become complete later. */
static void
note_ended(mrd_agent *agent, const mrd_ident *id)
{
    mrd_ident **at = &agent->gone[agent->n_gone++ % MRD_COUNT(agent->gone)];

    if (*at == NULL)
        *at = malloc(sizeof(**at));
    if (*at != NULL)
        **at = *id;
}

/* ---- Directories ---- */

/* Watches the capture directory that a process named. If `place` is a file, takes only this file.
 * Only files of the user that owns the process's rings are taken. */
static void
watch_named(mrd_agent *agent, const mrd_drain_process *process, mrd_files_place place)
{
    mrd_safe_open_claim claim = mrd_drain_claim(process);
    const char *path = place.path;
    char label[2048];
    mrd_err err;

    place.label = label;
    place.pid = process->ident.pid;
    place.claim = &claim;

    if (!agent->o.watch_inspect)
        return;
    if (mrd_safe_open_is_our_root(agent->proc_root, process->ident.pid))
        snprintf(label, sizeof(label), "%s", path);
    else
        snprintf(label, sizeof(label), "%s/%lld/root%s", agent->proc_root,
                 (long long) process->ident.pid, path);
    err = mrd_files_watch(agent->files, &place);
    if (err != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGT-WATCH", "A capture directory is not watched: path=%s reason=%s",
                label,
                err == MRD_LIMIT ? "its user has as many directories already as one user may have"
                                 : mrd_err_text(err));
}

static void
watch_inspect(mrd_agent *agent, const mrd_drain_process *process)
{
    const mrd_ident *id = &process->ident;
    char path[sizeof(id->cwd) + sizeof(id->inspect_dir) + 2];

    if (id->inspect_dir[0] == '\0' || (id->inspect_dir[0] != '/' && id->cwd[0] != '/'))
        return;
    snprintf(path, sizeof(path), "%s%s%s", id->inspect_dir[0] == '/' ? "" : id->cwd,
             id->inspect_dir[0] == '/' ? "" : "/", id->inspect_dir);
    watch_named(agent, process, (mrd_files_place){ .path = path });
}

/* Handles a notice that says where the runtime writes its output: into a directory, or into a
 * single file. */
static void
watch_noticed(mrd_agent *agent, const mrd_drain_process *process, const mrd_arg *arg,
              mrd_str notice)
{
    mrd_str key = mrd_catalog_text(process->catalog, arg->key),
            text = mrd_arg_text(mrd_catalog_strings(process->catalog), arg);
    bool one_file = mrd_str_is(key, "file");
    char path[1024], *slash;

    if ((!one_file && !mrd_str_is(key, "output_dir")) || text.len == 0 || text.p[0] != '/' ||
        text.len >= sizeof(path) || memchr(text.p, '\0', text.len) != NULL)
        return;
    snprintf(path, sizeof(path), MRD_STR_FMT, MRD_STR_ARG(text));
    if (!one_file) {
        watch_named(agent, process,
                    (mrd_files_place){ .path = path,
                                       .remove = mrd_str_starts(notice, "device profile"),
                                       .captures = mrd_str_is(notice, "device profiles armed") });
        return;
    }
    slash = strrchr(path, '/');
    *slash = '\0';
    watch_named(agent, process,
                (mrd_files_place){ .path = slash == path ? "/" : path, .name = slash + 1 });
}

static void
notice_of_files(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_str notice = mrd_catalog_text(process->catalog, ev->name);
    const mrd_agent *agent = self;

    for (uint32_t i = 0; i < ev->arg_count; i++)
        watch_noticed(self, process, &ev->args[i], notice);
    if (mrd_str_is(notice, "device profiles ended") ||
        mrd_str_is(notice, "device profiles given up"))
        mrd_files_captured(agent->files, process->ident.pid);
}

/* Sends a model file to the sessions that want it. `kept` is the path where the process keeps the
 * file. */
static void
ship_model(void *self, const mrd_drain_process *process, const char *kept)
{
    mrd_agent *agent = self;
    char path[sizeof(((mrd_model_load *) 0)->kept)], *slash;

    snprintf(path, sizeof(path), "%s", kept);
    if ((slash = strrchr(path, '/')) == NULL || slash == path)
        return;
    *slash = '\0';
    watch_named(agent, process,
                (mrd_files_place){ .path = path, .name = slash + 1, .any_age = true });
}

static void
process_of_files(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone) {
        note_ended(agent, &process->ident);
        mrd_files_gone(agent->files, process->ident.pid);
    } else {
        watch_inspect(agent, process);
    }
}

/* ---- Files ---- */

static void
on_file(void *self, const char *path, const char *sha256, const char *message)
{
    (void) self;
    if (*message == '\0')
        mrd_log(MRD_LOG_INFO, "AGT-FILE", "A file was delivered: path=%s sha256=%s", path, sha256);
    else
        mrd_log(MRD_LOG_WARN, "AGT-FILE-FAILED", "A file was not delivered: path=%s reason=%s",
                path, message);
}

static void
on_complete(void *self, const mrd_files_complete *file)
{
    mrd_agent *agent = self;

    mrd_drain_each(agent->drain, mrd_agent_note_process, agent);
    mrd_traces_file(agent->traces, file);
}

static mrd_err
send_file(void *self, uint64_t tag, mrd_bytes frame)
{
    mrd_agent *agent = self;

    return agent->publish == NULL ? MRD_AGAIN : mrd_publish_foreign(agent->publish, tag, frame);
}

static mrd_err
start_files(void *self, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_files_options options = { .proc_root = agent->proc_root,
                                  .stable = agent->o.stable,
                                  .max_bytes = (uint64_t) agent->o.artifact_max,
                                  .max_files = (size_t) agent->o.files_max,
                                  .agent = agent->key,
                                  .send = send_file,
                                  .wants = wants_files,
                                  .is_ours = is_our_file,
                                  .finished = on_file,
                                  .complete = on_complete,
                                  .missed = mrd_agent_trace_missed,
                                  .self = agent };
    mrd_err err = mrd_files_open(&options, &agent->files, why);

    for (size_t i = 0; i < agent->o.watch.n && err == MRD_OK; i++)
        err = mrd_files_watch(agent->files,
                              &(mrd_files_place){ .path = agent->o.watch.v[i], .pid = MRD_NONE });
    return err;
}

/* ---- Sessions ---- */

/* Delays the end of a session until the agent has sent the files that the session's processes write
 * when the session stops. */
static void
hold_for_files(mrd_agent *agent, const mrd_record_status *st)
{
    int64_t since, told;
    bool busy = mrd_devprof_pending(agent->devprof, st->id, &told);

    since = st->stop.ns == INT64_MAX ? 0 : st->stop.ns > told ? st->stop.ns : told;
    busy = busy || !mrd_files_idle(agent->files, st->id, (mrd_local_ns){ since }) ||
           !mrd_traces_idle(agent->traces);
    mrd_record_hold_flush(agent->record, st->id, busy);
    if (busy && mrd_local_after(mrd_local_now(), st->stop))
        mrd_files_look(agent->files);
}

/* Updates the list of sessions that receive files. Called before hold_for_files(), because a
 * session of a previous agent may end in the first turn. */
static void
files_sessions(mrd_agent *agent)
{
    mrd_files_session taking[MRD_FILES_SESSIONS];
    mrd_record_status st[MRD_FILES_SESSIONS];
    size_t n = 0;

    for (size_t i = 0; i < mrd_record_sessions(agent->record) && n < MRD_COUNT(taking); i++) {
        mrd_record_get(agent->record, i, &st[n]);
        if (!mrd_record_is_under_way(st[n].phase))
            continue;
        taking[n].id = st[n].id;
        taking[n].start = mrd_drain_raw_to_wall(agent->drain, st[n].start);
        n++;
    }
    mrd_files_sessions(agent->files, taking, n);
    for (size_t i = 0; i < n; i++)
        hold_for_files(agent, &st[i]);
    mrd_model_table_ship(agent->models, ship_model, agent);
    if (n == 0 && mrd_record_sessions(agent->record) == 0)
        mrd_traces_forget(agent->traces);
}

static void
step_files(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    files_sessions(agent);
    mrd_files_step(agent->files, now);
}

static mrd_local_ns
next_of_files(const void *self)
{
    const mrd_agent *agent = self;

    return mrd_files_next_ns(agent->files);
}

static void
fds_of_files(const void *self, int ret_fds[MRD_COLLECTOR_FDS])
{
    const mrd_agent *agent = self;

    ret_fds[0] = mrd_files_fd(agent->files);
}

static void
stop_files(void *self)
{
    mrd_agent *agent = self;

    mrd_files_close(agent->files);
    agent->files = NULL;
    for (size_t i = 0; i < MRD_COUNT(agent->gone); i++) {
        free(agent->gone[i]);
        agent->gone[i] = NULL;
    }
}

const mrd_collector mrd_collector_capture_files = {
    .name = "capture-files",
    .start = start_files,
    .step = step_files,
    .next_ns = next_of_files,
    .fds = fds_of_files,
    .process = process_of_files,
    .notice = notice_of_files,
    .stop = stop_files,
    .close = stop_files,
};
