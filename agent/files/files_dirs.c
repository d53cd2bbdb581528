/* agent/files/files_dirs.c - capture directories: their owners, their searches, and the table of their
 * files */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/files/files_int.h"
#include "agent/guard/dir_name.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/obj.h"
#include "base/vec.h"

/* ---- The table of files ---- */

static bool
same_file(const void *self, uint32_t at, const void *key)
{
    const file *one = &((const mrd_files *) self)->files[at];

    return mrd_dir_name_is(key, one->dir, one->path);
}

static size_t
files_max(const mrd_files *f)
{
    return f->o.max_files == 0 ? MRD_FILES_MAX : f->o.max_files;
}

/* A user may use all slots that other users leave free. The operator's directories have no
 * limit. */
static bool
has_share(const mrd_files *f, int64_t uid)
{
    size_t own = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS && uid != MRD_OWNED_ANY; i++)
        own += f->dirs[i].used && f->dirs[i].uid == uid ? f->dirs[i].n_files : 0;
    return f->n < files_max(f) && (uid == MRD_OWNED_ANY || own < files_max(f) - f->n);
}

static bool
room(mrd_files *f, int64_t uid)
{
    return has_share(f, uid) && MRD_VEC_ROOM(f->files, f->n, f->cap, 1);
}

/* Returns true if the file is finished and was removed, or if its directory is dropped. */
static bool
is_gone(const mrd_files *f, const file *one, unsigned leaving)
{
    return one->dir == leaving || (one->look != f->dirs[one->dir].look && one->state >= DONE &&
                                   !f->dirs[one->dir].looking);
}

/* Makes room. `leaving` is a directory that is dropped with its files; MRD_FILES_DIRS means
 * none. */
static void
forget_files(mrd_files *f, unsigned leaving)
{
    size_t left = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        f->dirs[i].first = 0;
        f->dirs[i].n_files = 0;
    }
    for (size_t i = 0; i < f->n; i++) {
        dir *d = &f->dirs[f->files[i].dir];
        bool under_way = f->stage != IDLE && f->at == i;

        if (!under_way && is_gone(f, &f->files[i], leaving)) {
            f->stats.waiting -= f->files[i].state < DONE;
            free(f->files[i].path);
            continue;
        }
        if (under_way)
            f->at = left;
        f->files[left] = f->files[i];
        f->files[left++].next = d->first;
        d->first = (uint32_t) left;
        d->n_files++;
    }
    f->n = left;
    mrd_index_clear(&f->by_path);
    for (uint32_t i = 0; i < f->n; i++) /* cannot fail: the entries were in it before */
        (void) mrd_index_add(&f->by_path, mrd_dir_name_hash(f->files[i].dir, f->files[i].path), i);
}

/* Returns true if a file was replaced since an earlier search. A file that only grew still begins
 * with its earlier contents, so it does not count. */
static bool
is_replaced(const file *one, const mrd_folder_file *met)
{
    return met->size < one->size || (one->marks.size != 0 && met->marks.size != 0 &&
                                     !mrd_file_marks_grew(&one->marks, &met->marks));
}

/* The time of change differs also for a replacement that has the size and the date of the file. */
static bool
is_unchanged(const file *one, const mrd_folder_file *met)
{
    return one->size == met->size && one->mtime.ns == met->mtime.ns &&
           one->ctime.ns == met->ctime.ns;
}

static void
take_version(file *one, const mrd_folder_file *met, mrd_local_ns now)
{
    one->size = met->size;
    one->mtime = met->mtime;
    one->ctime = met->ctime;
    one->marks = met->marks;
    one->is_trace = met->is_trace;
    one->still_since = now;
}

static void
meet_again(mrd_files *f, file *one, const mrd_folder_file *met, mrd_local_ns now)
{
    one->look = f->dirs[one->dir].look;
    if (is_unchanged(one, met))
        return;
    if (f->stage != IDLE && one == &f->files[f->at]) { /* its size belongs to its hash */
        f->changed = true;
        return;
    }
    if (one->state == SEEN && one->is_trace && !one->passed && is_replaced(one, met) &&
        mrd_files_takers(f, one) != 0)
        one->replaced++;
    one->grown = (one->passed || one->grown) && mrd_file_marks_grew(&one->marks, &met->marks);
    if (one->state >= DONE)
        mrd_files_wait(f, one);
    take_version(one, met, now);
    one->state = SEEN;
    one->told = one->had = one->passed = false;
    one->given = 0;
    f->pick_at = (mrd_local_ns){ 0 };
}

/* Several nodes may share a directory. A file that a process of this node named one by one belongs to that process. */
static bool
is_ours(const mrd_files *f, const dir *d, const char *rel)
{
    mrd_str instance;
    int64_t pid;

    return f->o.is_ours == NULL || !d->whole || !mrd_files_owner(rel, &instance, &pid) ||
           f->o.is_ours(f->o.self, instance, pid, d->uid);
}

static void
leave_to_its_node(dir *d, const char *rel)
{
    d->elsewhere++;
    if (!d->said_elsewhere)
        mrd_log(MRD_LOG_INFO, "AGT-FILES-ELSEWHERE",
                "Files that name processes of other nodes are left to the agents there: dir=%s "
                "first=%s",
                d->label, rel);
    d->said_elsewhere = true;
}

static void
meet_first(mrd_files *f, unsigned at, const mrd_folder_file *met, mrd_local_ns now, uint64_t hash)
{
    dir *d = &f->dirs[at];
    char *path = NULL;
    file *one;

    if (!is_ours(f, d, met->rel)) {
        leave_to_its_node(d, met->rel);
        return;
    }
    if (!room(f, d->uid) || (path = strdup(mrd_buf_cstr(&f->path))) == NULL ||
        mrd_index_add(&f->by_path, hash, (uint32_t) f->n) != MRD_OK) {
        d->beyond++;
        free(path);
        return;
    }
    one = &f->files[f->n];
    *one = (file){ .path = path,
                   .rel = path + strlen(d->label) + 1,
                   .dir = at,
                   .next = d->first,
                   .look = d->look };
    take_version(one, met, now);
    d->first = (uint32_t) ++f->n;
    d->n_files++;
    f->stats.found++;
    mrd_files_wait(f, one);
}

/* Returns the file below the directory; MRD_INDEX_NONE if it is not known. Its path is then in
 * f->path. */
static uint32_t
find_file(mrd_files *f, unsigned at, const char *rel, const char *ending, uint64_t *ret_hash)
{
    const char *path;

    mrd_buf_reset(&f->path);
    mrd_buf_fmt(&f->path, "%s/%s%s", f->dirs[at].label, rel, ending);
    path = mrd_buf_cstr(&f->path);
    *ret_hash = mrd_dir_name_hash(at, path);
    return mrd_index_find(&f->by_path, *ret_hash, same_file, f, &(mrd_dir_name){ at, path });
}

/* Handles a file that a search found: new, changed, or unchanged. */
static void
meet(mrd_files *f, unsigned at, const mrd_folder_file *met, mrd_local_ns now)
{
    uint64_t hash;
    uint32_t known = find_file(f, at, met->rel, "", &hash);

    if (f->path.err != MRD_OK)
        f->dirs[at].beyond++;
    else if (known != MRD_INDEX_NONE)
        meet_again(f, &f->files[known], met, now);
    else
        meet_first(f, at, met, now, hash);
}

/* ---- Directories ---- */

void
mrd_files_poll(mrd_files *f, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    if (f->polled < 0)
        f->polled = epoll_create1(EPOLL_CLOEXEC);
    if (f->polled >= 0)
        (void) epoll_ctl(f->polled, EPOLL_CTL_ADD, fd, &ev);
}

/* Drops the directory with its files. */
void
mrd_files_drop(mrd_files *f, unsigned at)
{
    dir *d = &f->dirs[at];

    forget_files(f, at);
    mrd_strlist_fini(&d->names);
    if (!d->hung) /* else the thread has it */
        mrd_folder_free(d->folder, f->inotify);
    free(d->label);
    free(d->namers);
    *d = (dir){ 0 };
    f->stats.dirs--;
}

/* Returns true if no process that named it remains, it was searched since, and no file of it is
 * wanted. */
static bool
may_go(const mrd_files *f, unsigned at)
{
    const dir *d = &f->dirs[at];
    bool busy = (f->stage != IDLE && f->files[f->at].dir == at) ||
                (f->work->kind == LOOK && f->work->dir == at);

    return d->used && d->uid != MRD_OWNED_ANY && d->n_namers == 0 && !busy && !d->looking &&
           (d->refused_for_good || d->hung || !mrd_local_before(d->looked_at, d->ended_at)) &&
           (d->waiting == 0 || !mrd_files_have_sessions(f));
}

void
mrd_files_say(dir *d)
{
    if (d->refused > 0 && !d->said_refused)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-REFUSED",
                "Files are not taken because they are links or do not belong to the directory's "
                "user: dir=%s user=%lld files=%llu",
                d->label, (long long) d->uid, (unsigned long long) d->refused);
    if (d->ignored + d->not_traces > 0 && !d->said_ignored)
        mrd_log(MRD_LOG_INFO, "AGT-FILES-IGNORED",
                "Files of unknown kinds stay where they are: dir=%s files=%llu", d->label,
                (unsigned long long) (d->ignored + d->not_traces));
    if (d->deep > 0 && !d->said_deep)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-DEEP",
                "Folders are not looked into because they lie more than %u below their capture "
                "directory: dir=%s folders=%llu",
                MRD_FOLDER_DEPTH, d->label, (unsigned long long) d->deep);
    d->said_deep = d->said_deep || d->deep > 0;
    d->said_refused = d->said_refused || d->refused > 0;
    d->said_ignored = d->said_ignored || d->ignored + d->not_traces > 0;
}

static void
say_state(dir *d, const mrd_folder_state *st)
{
    const char *why = st->err == MRD_OK ? "" : st->why;

    if (*why != '\0' && strcmp(why, d->said) != 0)
        mrd_log(MRD_LOG_WARN, "AGT-WATCH", "A capture directory is not watched: path=%s reason=%s",
                d->label, why);
    snprintf(d->said, sizeof(d->said), "%s", why);
}

void
mrd_files_sum(mrd_files *f)
{
    uint64_t before = f->stats.beyond;

    f->stats.beyond = f->stats.refused = f->stats.ignored = f->stats.elsewhere = 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        f->stats.beyond += f->dirs[i].beyond;
        f->stats.refused += f->dirs[i].refused;
        f->stats.elsewhere += f->dirs[i].elsewhere;
        f->stats.ignored += f->dirs[i].ignored + f->dirs[i].not_traces;
    }
    if (f->stats.beyond > 0 && before == 0)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-MAX",
                "There are more files than --advanced.files-max; raise it or empty the capture "
                "directories: "
                "left_out=%llu",
                (unsigned long long) f->stats.beyond);
}

/* ---- Files that are gone ---- */

/* The files that the last search of a directory found, by their contents. */
typedef struct {
    mrd_index index;
    bool made;
} contents;

static uint64_t
contents_hash(const file *one)
{
    const uint64_t parts[] = { one->size, (uint64_t) one->mtime.ns, one->marks.end };

    return mrd_hash64(parts, sizeof(parts), mrd_hash_seed());
}

static bool
same_contents(const void *self, uint32_t at, const void *key)
{
    const file *one = &((const mrd_files *) self)->files[at], *gone = key;

    return one->size == gone->size && one->mtime.ns == gone->mtime.ns &&
           mrd_file_marks_grew(&gone->marks, &one->marks);
}

/* Adds the files that the last search of the directory found. Without memory some are missing, and
 * a renamed file counts as removed. */
static void
index_contents(const mrd_files *f, const dir *d, contents *to)
{
    to->made = true;
    for (uint32_t i = d->first; i != 0; i = f->files[i - 1].next) {
        const file *one = &f->files[i - 1];
        uint64_t hash = contents_hash(one);

        if (one->look == d->look && one->marks.size != 0 &&
            mrd_index_find(&to->index, hash, same_contents, f, one) == MRD_INDEX_NONE)
            (void) mrd_index_add(&to->index, hash, i - 1);
    }
}

/* Returns true if a missing file was renamed within its directory, or compressed. */
static bool
is_there(mrd_files *f, const file *gone, contents *found)
{
    uint64_t hash;
    uint32_t packed = find_file(f, gone->dir, gone->rel, ".gz", &hash);

    if (packed != MRD_INDEX_NONE && f->files[packed].look == f->dirs[gone->dir].look)
        return true;
    if (!found->made)
        index_contents(f, &f->dirs[gone->dir], found);
    return mrd_index_find(&found->index, contents_hash(gone), same_contents, f, gone) !=
           MRD_INDEX_NONE;
}

static void
lose(mrd_files *f, file *one, contents *found)
{
    static const char reason[] =
        "it was removed, or replaced by a link or a folder, before it could be read";
    bool wanted = mrd_files_takers(f, one) != 0;

    if (wanted && mrd_files_is_unread(one) && is_there(f, one, found))
        wanted = false;
    if (wanted)
        mrd_files_miss(f, one, reason);
    if (mrd_files_lost(f, one) && wanted && f->o.finished != NULL)
        f->o.finished(f->o.self, one->path, "", reason);
}

/* Handles files that were not found: removed before they could be taken, or finished and not needed
 * any more. A trace file may have been renamed during the search, so the next search decides. */
static size_t
look_for_gone(mrd_files *f, const dir *d, bool *ret_again)
{
    contents found = { 0 };
    size_t gone = 0;

    for (uint32_t i = d->first; i != 0; i = f->files[i - 1].next) {
        file *one = &f->files[i - 1];

        if (one->look == d->look || (f->stage != IDLE && f->at == i - 1))
            continue;
        if (one->state < DONE && mrd_files_is_unread(one) && one->look + 1 == d->look) {
            *ret_again = true;
            continue;
        }
        if (one->state < DONE)
            lose(f, one, &found);
        gone++;
    }
    mrd_index_fini(&found.index);
    return gone;
}

void
mrd_files_give_up(mrd_files *f, unsigned at, const char *message)
{
    for (uint32_t i = f->dirs[at].first; i != 0; i = f->files[i - 1].next) {
        file *one = &f->files[i - 1];

        if (one->state >= DONE)
            continue;
        mrd_files_miss(f, one, message);
        mrd_files_finish(f, one, GIVEN_UP);
        f->stats.failed++;
        if (f->o.finished != NULL)
            f->o.finished(f->o.self, one->path, "", message);
    }
}

static void
end_look(mrd_files *f, unsigned at, const mrd_folder_state *st, mrd_local_ns now)
{
    dir *d = &f->dirs[at];
    uint64_t beyond = d->beyond;
    size_t gone;
    bool again = false;

    d->looking = false;
    d->looked_at = d->began_at;
    d->blind = st->blind;
    d->refused = st->refused;
    d->ignored = st->ignored;
    d->deep = st->deep;
    d->beyond += st->left_out;
    gone = look_for_gone(f, d, &again);
    if (gone > 0 && beyond > 0) /* there is room for the others now */
        again = true;
    if ((gone > 0 && beyond > 0) || gone > f->n / 2)
        forget_files(f, MRD_FILES_DIRS);
    if (mrd_local_before(d->looked_at, d->ended_at))
        again = true; /* this search may have missed the last files */
    d->look_at = mrd_local_add(now, (again            ? 0
                                     : d->waiting > 0 ? MRD_WAIT_FILES_BUSY
                                     : d->blind       ? MRD_WAIT_FILES_BLIND
                                                      : MRD_WAIT_FILES_WATCHED));
    mrd_files_sum(f);
    mrd_files_say(d);
}

void
mrd_files_looked(mrd_files *f, mrd_local_ns now)
{
    const work *w = f->work;
    dir *d = &f->dirs[w->dir];
    const mrd_folder_file *found;
    size_t n;

    found = mrd_folder_found(d->folder, &n);
    for (size_t i = 0; i < n; i++)
        meet(f, w->dir, &found[i], now);
    d->took_ns += w->took_ns;
    say_state(d, &w->look);
    d->refused_for_good = w->look.lost;
    if (w->look.over)
        end_look(f, w->dir, &w->look, now);
}

/* Returns when it may be searched. A directory with long searches is searched for at most a fifth
 * of the time. */
mrd_local_ns
mrd_files_due(const dir *d)
{
    int64_t gap = d->took_ns * 4 < MRD_WAIT_FILES_GAP ? MRD_WAIT_FILES_GAP : d->took_ns * 4;

    if (!d->used || d->refused_for_good || d->hung)
        return (mrd_local_ns){ INT64_MAX };
    if (d->looking)
        return (mrd_local_ns){ 0 };
    return d->began_at.ns > 0 &&
                   mrd_local_before(d->look_at,
                                    mrd_local_add(mrd_local_add(d->began_at, d->took_ns), gap))
               ? mrd_local_add(mrd_local_add(d->began_at, d->took_ns), gap)
               : d->look_at;
}

/* Returns when a user last had a slice, or a file. */
uint64_t
mrd_files_served(const mrd_files *f, int64_t uid, bool looks)
{
    uint64_t last = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &f->dirs[i];
        uint64_t turn = looks ? d->looks_turn : d->files_turn;

        if (d->used && d->uid == uid && turn > last)
            last = turn;
    }
    return last;
}

/* Chooses the next directory: of the user, then the directory, that waited longest. */
bool
mrd_files_choose(const mrd_files *f, mrd_local_ns now, unsigned *ret_at)
{
    uint64_t best_user = UINT64_MAX, best = UINT64_MAX;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &f->dirs[i];
        uint64_t user;

        if (!d->used || mrd_local_after(mrd_files_due(d), now))
            continue;
        user = mrd_files_served(f, d->uid, true);
        if (user < best_user || (user == best_user && d->looks_turn < best)) {
            best_user = user;
            best = d->looks_turn;
            *ret_at = i;
        }
    }
    return best_user != UINT64_MAX;
}

/* Reports a named file for which there is no room in the list. */
static void
leave_name(mrd_files *f, dir *d, const char *name)
{
    char path[2048];

    f->stats.failed++;
    if (d->said_names)
        return;
    d->said_names = true;
    snprintf(path, sizeof(path), "%s/%s", d->label, name);
    if (f->o.finished != NULL)
        f->o.finished(f->o.self, path, "",
                      "more files of its directory are named one by one than are looked for; this "
                      "one and those that follow are left out");
}

/* Passes on names that were requested while the thread may have used the directory. */
void
mrd_files_tell(mrd_files *f, dir *d)
{
    if (d->whole)
        mrd_folder_whole(d->folder);
    for (size_t i = 0; i < d->names.n && !d->whole; i++)
        if (mrd_folder_name(d->folder, d->names.v[i]) != MRD_OK)
            leave_name(f, d, d->names.v[i]);
    mrd_strlist_fini(&d->names);
}

void
mrd_files_forget_dirs(mrd_files *f)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (may_go(f, i))
            mrd_files_drop(f, i);
}

/* ---- The watched directories ---- */

static dir *
find_dir(mrd_files *f, mrd_str label, int64_t uid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (f->dirs[i].used && f->dirs[i].uid == uid &&
            mrd_str_eq(mrd_str_of(f->dirs[i].label), label))
            return &f->dirs[i];
    return NULL;
}

static dir *
free_dir(mrd_files *f, int64_t uid)
{
    unsigned own = 0, used = 0;
    dir *d = NULL;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        used += f->dirs[i].used;
        own += f->dirs[i].used && f->dirs[i].uid == uid;
        if (!f->dirs[i].used)
            d = &f->dirs[i];
    }
    return uid == MRD_OWNED_ANY || own < MRD_FILES_DIRS - used ? d : NULL;
}

/* Adds a process that named the directory. Its capture may have begun under an earlier agent, so a
 * place counts as captured into if this agent removes its files. */
static mrd_err
add_namer(dir *d, const mrd_files_place *place)
{
    for (size_t i = 0; i < d->n_namers; i++)
        if (d->namers[i].pid == place->pid) {
            d->namers[i].captures = d->namers[i].captures || place->captures;
            return MRD_OK;
        }
    if (!MRD_VEC_ROOM(d->namers, d->n_namers, d->cap_namers, 1))
        return MRD_NOMEM;
    d->namers[d->n_namers++] = (namer){ place->pid, place->captures || place->remove };
    return MRD_OK;
}

static mrd_err
add_name(mrd_files *f, dir *d, const char *name)
{
    if (mrd_strlist_has(&d->names, mrd_str_of(name)))
        return MRD_OK;
    if (d->names.n < MRD_FOLDER_NAMES)
        return mrd_strlist_add(&d->names, mrd_str_of(name));
    leave_name(f, d, name);
    return MRD_OK;
}

static mrd_err
new_dir(mrd_files *f, const mrd_files_place *place, mrd_str label, int64_t uid, dir **ret_dir)
{
    mrd_folder_options fo = { f->o.proc_root, place->path, place->claim };
    dir *d = free_dir(f, uid);

    if (d == NULL)
        return MRD_LIMIT;
    *d = (dir){
        .label = mrd_str_dup(label), .folder = mrd_folder_new(&fo), .uid = uid, .pid = place->pid
    };
    if (d->label == NULL || d->folder == NULL) {
        free(d->label);
        mrd_folder_free(d->folder, -1);
        *d = (dir){ 0 };
        return MRD_NOMEM;
    }
    d->used = true;
    f->stats.dirs++;
    *ret_dir = d;
    return MRD_OK;
}

/* Announces a file that another session has to this one. */
static void
announce_again(mrd_files *f, const dir *d, const char *name)
{
    for (uint32_t i = d->first; i != 0; i = f->files[i - 1].next) {
        file *one = &f->files[i - 1];

        if (strcmp(one->rel, name) != 0 || one->state < DONE)
            continue;
        one->state = SEEN;
        mrd_files_wait(f, one);
    }
}

mrd_err
mrd_files_watch(mrd_files *f, const mrd_files_place *place)
{
    mrd_str label = mrd_str_of(place->label != NULL ? place->label : place->path);
    int64_t uid = place->claim == NULL ? MRD_OWNED_ANY : (int64_t) place->claim->uid;
    mrd_err err = MRD_OK;
    dir *d;

    if (place->path[0] == '\0' || (place->claim != NULL && place->path[0] != '/'))
        return MRD_INVALID;
    while (label.len > 1 && label.p[label.len - 1] == '/')
        label.len--;
    d = find_dir(f, label, uid);
    if (d == NULL && (err = new_dir(f, place, label, uid, &d)) != MRD_OK) {
        if (err == MRD_LIMIT && place->claim != NULL &&
            f->stats.refused_dirs < MRD_COUNT(f->refused_pids))
            f->refused_pids[f->stats.refused_dirs++] = place->pid;
        return err;
    }
    if (place->claim != NULL && (err = add_namer(d, place)) != MRD_OK)
        return err;
    if (place->name == NULL && !d->whole) {
        d->whole = true;
        d->look_at = (mrd_local_ns){ 0 };
    } else if (place->name != NULL && !d->whole) {
        err = add_name(f, d, place->name);
        d->look_at = (mrd_local_ns){ 0 };
    }
    d->any_age = d->any_age || place->any_age;
    d->remove = d->remove || place->remove;
    if (place->claim != NULL)
        mrd_files_ask(f, d, place->pid);
    if (place->any_age && place->name != NULL)
        announce_again(f, d, place->name);
    return err;
}

/* Requests one more search, because the files that a process wrote just before its end, or the end
 * of its capture, may have been missed. */
static void
look_again(dir *d)
{
    d->ended_at = mrd_local_now();
    d->look_at = (mrd_local_ns){ 0 };
}

void
mrd_files_gone(mrd_files *f, int64_t pid)
{
    for (unsigned i = 0; i < f->stats.refused_dirs;)
        if (f->refused_pids[i] == pid)
            f->refused_pids[i] = f->refused_pids[--f->stats.refused_dirs];
        else
            i++;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &f->dirs[i];

        for (size_t k = 0; k < d->n_namers; k++)
            if (d->namers[k].pid == pid) {
                d->namers[k--] = d->namers[--d->n_namers];
                look_again(d);
            }
    }
}

void
mrd_files_captured(mrd_files *f, int64_t pid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        for (size_t k = 0; k < f->dirs[i].n_namers; k++) {
            namer *n = &f->dirs[i].namers[k];

            if (n->pid != pid || !n->captures)
                continue;
            n->captures = false;
            look_again(&f->dirs[i]);
        }
}

bool
mrd_files_is_captured_into(const dir *d)
{
    for (size_t i = 0; i < d->n_namers; i++)
        if (d->namers[i].captures)
            return true;
    return false;
}
