/* agent/files/files_sessions.c - which sessions get the files of capture directories. */
#include "agent/files/files_int.h"
#include "trace/model/catalog.h" /* MRD_NONE */

#define STAMP_SLACK (20 * MRD_MS) /* times of files are the time of the kernel's last tick */

bool
mrd_files_have_sessions(const mrd_files *f)
{
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (f->sessions[k].id != 0)
            return true;
    return false;
}

static bool
wants(const mrd_files *f, unsigned k, const mrd_files_whose *whose)
{
    return f->sessions[k].id != 0 &&
           (f->o.wants == NULL || f->o.wants(f->o.self, f->sessions[k].id, whose));
}

/* Returns true if the file was written before the session began. Some file systems store whole or
 * even seconds, so a time may be up to that much later. */
static bool
is_of_before(const mrd_files_session *s, mrd_wall_ns mtime)
{
    mrd_dur_ns slack = mtime.ns % MRD_SEC == 0 ? 2 * MRD_SEC : STAMP_SLACK;

    return mrd_wall_before(mtime, mrd_wall_sub(s->start, slack));
}

session_set
mrd_files_takers(const mrd_files *f, const file *one)
{
    const dir *d = &f->dirs[one->dir];
    mrd_files_whose whose = { .pid = d->pid, .by_name = true, .kept = d->any_age };
    session_set takers = 0;
    int64_t nc, pid = MRD_NONE;

    if (d->uid == MRD_OWNED_ANY)
        mrd_files_names(one->rel, &pid, &nc);
    if (pid != MRD_NONE)
        whose.pid = pid;
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        bool wanted = d->uid == MRD_OWNED_ANY ? wants(f, k, &whose) : (d->wanted & 1u << k) != 0;

        if (wanted && (one->given & 1u << k) == 0 && f->sessions[k].id != 0 &&
            (d->any_age || !is_of_before(&f->sessions[k], one->mtime)))
            takers |= 1u << k;
    }
    return takers;
}

mrd_files_complete
mrd_files_describe(const mrd_files *f, const file *one)
{
    session_set takers = mrd_files_takers(f, one);
    mrd_files_complete all = { .path = one->path,
                               .rel = one->rel,
                               .pid = f->dirs[one->dir].pid,
                               .uid = f->dirs[one->dir].uid,
                               .fd = -1,
                               .replaced = one->replaced,
                               .grown = one->grown };

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        all.takers[k] = (takers & 1u << k) != 0 ? f->sessions[k].id : 0;
    return all;
}

void
mrd_files_miss(mrd_files *f, file *one, const char *reason)
{
    mrd_files_complete missed;

    if (!mrd_files_is_unread(one) || f->o.missed == NULL || mrd_files_takers(f, one) == 0)
        return;
    missed = mrd_files_describe(f, one);
    one->replaced = 0;
    f->o.missed(f->o.self, &missed, reason);
}

void
mrd_files_ask(mrd_files *f, dir *d, int64_t pid)
{
    mrd_files_whose whose = { .pid = pid, .kept = d->any_age };

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (wants(f, k, &whose))
            d->wanted |= 1u << k;
}

bool
mrd_files_next_taker(mrd_files *f)
{
    session_set takers = mrd_files_takers(f, &f->files[f->at]);

    if (takers == 0)
        return false;
    f->to = (unsigned) __builtin_ctz(takers);
    f->to_id = f->sessions[f->to].id;
    f->stage = ANNOUNCING;
    f->tries = 0;
    f->chunk_len = 0;
    f->again_at = (mrd_local_ns){ 0 };
    return true;
}

/* ---- Begin and end of sessions ---- */

static const mrd_files_session *
find(const mrd_files_session *v, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].id == id)
            return &v[i];
    return NULL;
}

static void
leave(mrd_files *f, unsigned k)
{
    f->sessions[k].id = 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        f->dirs[i].wanted &= ~(1u << k);
    for (size_t i = 0; i < f->n; i++)
        f->files[i].given &= ~(1u << k);
}

static void
ask_of_all(mrd_files *f)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &f->dirs[i];

        if (!d->used || d->uid == MRD_OWNED_ANY)
            continue;
        for (size_t k = 0; k < d->n_namers; k++)
            mrd_files_ask(f, d, d->namers[k].pid);
        if (d->n_namers == 0)
            mrd_files_ask(f, d, d->pid);
    }
}

static mrd_files_session *
place_of(mrd_files *f, uint64_t id)
{
    mrd_files_session *free_one = NULL;

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        if (f->sessions[k].id == id)
            return &f->sessions[k];
        if (f->sessions[k].id == 0 && free_one == NULL)
            free_one = &f->sessions[k];
    }
    return free_one;
}

void
mrd_files_sessions(mrd_files *f, const mrd_files_session *sessions, size_t n)
{
    bool came = false, left = false;

    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++)
        if (f->sessions[k].id != 0 && find(sessions, n, f->sessions[k].id) == NULL) {
            leave(f, k);
            left = true;
        }
    for (size_t i = 0; i < n; i++) {
        mrd_files_session *s = place_of(f, sessions[i].id);

        if (s == NULL || (s->id != 0 && !mrd_wall_before(sessions[i].start, s->start)))
            continue;
        *s = sessions[i];
        came = true;
    }
    if (!came && !left)
        return;
    if (came) {
        ask_of_all(f);
        mrd_files_judge_again(f);
    }
    f->pick_at = (mrd_local_ns){ 0 };
    mrd_files_look(f);
}

/* ---- Completeness of a session ---- */

static bool
may_have_more(const mrd_files *f, const dir *d, unsigned k, mrd_local_ns since)
{
    bool under_way = f->stage != IDLE && &f->dirs[f->files[f->at].dir] == d;

    if (!d->used || (d->uid != MRD_OWNED_ANY && (d->wanted & 1u << k) == 0))
        return false;
    return d->waiting > 0 || under_way ||
           (!d->refused_for_good && !d->hung && !mrd_local_after(d->looked_at, since));
}

bool
mrd_files_idle(const mrd_files *f, uint64_t session, mrd_local_ns since)
{
    for (unsigned k = 0; k < MRD_FILES_SESSIONS; k++) {
        if (f->sessions[k].id != session)
            continue;
        for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
            if (may_have_more(f, &f->dirs[i], k, since))
                return false;
    }
    return true;
}
