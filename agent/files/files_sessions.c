/* agent/files/files_sessions.c - decides which sessions get the files of capture directories. */
#include "agent/files/files_int.h"
#include "trace/model/catalog.h" /* for MRD_NONE */

/* Tolerance when a file's time is compared with the start of a session. Times of files may lag by
 * one tick of the kernel. */
#define STAMP_SLACK (20 * MRD_MS)

bool
mrd_files_have_sessions(const mrd_files *files)
{
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (files->sessions[k].id != 0)
            return true;
    return false;
}

static bool
wants(const mrd_files *files, unsigned k, const mrd_files_whose *whose)
{
    return files->sessions[k].id != 0 &&
           (files->o.wants == NULL || files->o.wants(files->o.self, files->sessions[k].id, whose));
}

/* Returns true if the file was written before the session began. Some file systems round times down
 * to 1 s or 2 s, so the true time may be up to 2 s later than `mtime`. */
static bool
is_of_before(const mrd_files_session *session, mrd_wall_ns mtime)
{
    mrd_dur_ns slack = mtime.ns % MRD_SEC == 0 ? 2 * MRD_SEC : STAMP_SLACK;

    return mrd_wall_before(mtime, mrd_wall_sub(session->start, slack));
}

session_set
mrd_files_takers(const mrd_files *files, const file *one)
{
    const dir *d = &files->dirs[one->dir];
    mrd_files_whose whose = { .pid = d->pid, .by_name = true, .kept = d->any_age };
    session_set takers = 0;
    int64_t nc, pid = MRD_NONE;

    if (d->uid == MRD_OWNED_ANY)
        mrd_files_names(one->rel, &pid, &nc);
    if (pid != MRD_NONE)
        whose.pid = pid;
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        bool wanted =
            d->uid == MRD_OWNED_ANY ? wants(files, k, &whose) : (d->wanted & 1u << k) != 0;

        if (wanted && (one->given & 1u << k) == 0 && files->sessions[k].id != 0 &&
            (d->any_age || !is_of_before(&files->sessions[k], one->mtime)))
            takers |= 1u << k;
    }
    return takers;
}

mrd_files_complete
mrd_files_describe(const mrd_files *files, const file *one)
{
    session_set takers = mrd_files_takers(files, one);
    mrd_files_complete all = { .path = one->path,
                               .rel = one->rel,
                               .pid = files->dirs[one->dir].pid,
                               .uid = files->dirs[one->dir].uid,
                               .fd = -1,
                               .replaced = one->replaced,
                               .grown = one->grown };

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        all.takers[k] = (takers & 1u << k) != 0 ? files->sessions[k].id : 0;
    return all;
}

void
mrd_files_miss(mrd_files *files, file *one, const char *reason)
{
    mrd_files_complete missed;

    if (!mrd_files_is_unread(one) || files->o.missed == NULL || mrd_files_takers(files, one) == 0)
        return;
    missed = mrd_files_describe(files, one);
    one->replaced = 0;
    files->o.missed(files->o.self, &missed, reason);
}

void
mrd_files_ask(mrd_files *files, dir *d, int64_t pid)
{
    mrd_files_whose whose = { .pid = pid, .kept = d->any_age };

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (wants(files, k, &whose))
            d->wanted |= 1u << k;
}

bool
mrd_files_next_taker(mrd_files *files)
{
    session_set takers = mrd_files_takers(files, &files->files[files->at]);

    if (takers == 0)
        return false;
    files->to = (unsigned) __builtin_ctz(takers);
    files->to_id = files->sessions[files->to].id;
    files->stage = ANNOUNCING;
    files->tries = 0;
    files->chunk_len = 0;
    files->again_at = (mrd_local_ns){ 0 };
    return true;
}

/* ---- Begin and end of sessions ---- */

static const mrd_files_session *
find(const mrd_files_session *session, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (session[i].id == id)
            return &session[i];
    return NULL;
}

static void
leave(mrd_files *files, unsigned k)
{
    files->sessions[k].id = 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        files->dirs[i].wanted &= ~(1u << k);
    for (size_t i = 0; i < files->n; i++)
        files->files[i].given &= ~(1u << k);
}

static void
ask_of_all(mrd_files *files)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &files->dirs[i];

        if (!d->used || d->uid == MRD_OWNED_ANY)
            continue;
        for (size_t k = 0; k < d->n_namers; k++)
            mrd_files_ask(files, d, d->namers[k].pid);
        if (d->n_namers == 0)
            mrd_files_ask(files, d, d->pid);
    }
}

static mrd_files_session *
place_of(mrd_files *files, uint64_t id)
{
    mrd_files_session *free_one = NULL;

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        if (files->sessions[k].id == id)
            return &files->sessions[k];
        if (files->sessions[k].id == 0 && free_one == NULL)
            free_one = &files->sessions[k];
    }
    return free_one;
}

void
mrd_files_sessions(mrd_files *files, const mrd_files_session *sessions, size_t n)
{
    bool came = false, left = false;

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (files->sessions[k].id != 0 && find(sessions, n, files->sessions[k].id) == NULL) {
            leave(files, k);
            left = true;
        }
    for (size_t i = 0; i < n; i++) {
        mrd_files_session *session = place_of(files, sessions[i].id);

        if (session == NULL ||
            (session->id != 0 && !mrd_wall_before(sessions[i].start, session->start)))
            continue;
        *session = sessions[i];
        came = true;
    }
    if (!came && !left)
        return;
    if (came) {
        ask_of_all(files);
        mrd_files_judge_again(files);
    }
    files->pick_at = (mrd_local_ns){ 0 };
    mrd_files_look(files);
}

/* ---- Has a session received all its files? ---- */

static bool
may_have_more(const mrd_files *files, const dir *d, unsigned k, mrd_local_ns since)
{
    bool under_way = files->stage != IDLE && &files->dirs[files->files[files->at].dir] == d;

    if (!d->used || (d->uid != MRD_OWNED_ANY && (d->wanted & 1u << k) == 0))
        return false;
    return d->waiting > 0 || under_way ||
           (!d->refused_for_good && !d->hung && !mrd_local_after(d->looked_at, since));
}

bool
mrd_files_idle(const mrd_files *files, uint64_t session, mrd_local_ns since)
{
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        if (files->sessions[k].id != session)
            continue;
        for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
            if (may_have_more(files, &files->dirs[i], k, since))
                return false;
    }
    return true;
}
