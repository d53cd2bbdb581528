/* agent/files/files_dirs.c - handles the capture directories: their owners, their searches, and the
 * table of their files. */
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
files_max(const mrd_files *files)
{
    return files->o.max_files == 0 ? MRD_FILES_MAX : files->o.max_files;
}

/* Returns true if the table has room for another file of this user. A user may not have more files
 * in the table than there are free slots, so that other users have room. The operator's directories
 * have no such limit. */
static bool
has_share(const mrd_files *files, int64_t uid)
{
    size_t own = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS && uid != MRD_OWNED_ANY; i++)
        own += files->dirs[i].used && files->dirs[i].uid == uid ? files->dirs[i].n_files : 0;
    return files->n < files_max(files) &&
           (uid == MRD_OWNED_ANY || own < files_max(files) - files->n);
}

static bool
room(mrd_files *files, int64_t uid)
{
    return has_share(files, uid) && MRD_VEC_ROOM(files->files, files->n, files->cap, 1);
}

/* Returns true if a file's entry can be removed. Either the file is finished and does not exist any
 * more, or the directory `leaving` is being dropped and the file is in it. */
static bool
is_gone(const mrd_files *files, const file *one, unsigned leaving)
{
    return one->dir == leaving || (one->look != files->dirs[one->dir].look && one->state >= DONE &&
                                   !files->dirs[one->dir].looking);
}

/* Removes the entries of files that are not needed any more. `leaving` is the index of a directory
 * that is being dropped with all its files, or MRD_FILES_DIRS. */
static void
forget_files(mrd_files *files, unsigned leaving)
{
    size_t left = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        files->dirs[i].first = 0;
        files->dirs[i].n_files = 0;
    }
    for (size_t i = 0; i < files->n; i++) {
        dir *d = &files->dirs[files->files[i].dir];
        bool under_way = files->stage != IDLE && files->at == i;

        if (!under_way && is_gone(files, &files->files[i], leaving)) {
            files->stats.waiting -= files->files[i].state < DONE;
            free(files->files[i].path);
            continue;
        }
        if (under_way)
            files->at = left;
        files->files[left] = files->files[i];
        files->files[left++].next = d->first;
        d->first = (uint32_t) left;
        d->n_files++;
    }
    files->n = left;
    mrd_index_clear(&files->by_path);
    /* cannot fail, because the cleared hash index has room for these entries */
    for (uint32_t i = 0; i < files->n; i++)
        (void) mrd_index_add(&files->by_path,
                             mrd_dir_name_hash(files->files[i].dir, files->files[i].path), i);
}

/* Returns true if the file was replaced by another one since an earlier search. A file that grew
 * and still begins with its earlier contents is not replaced. */
static bool
is_replaced(const file *one, const mrd_folder_file *met)
{
    return met->size < one->size || (one->marks.size != 0 && met->marks.size != 0 &&
                                     !mrd_file_marks_grew(&one->marks, &met->marks));
}

/* Returns true if the file is unchanged since an earlier search. Size and mtime are not enough,
 * because a replaced file can have the same values. Its change time (ctime) then differs. */
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
meet_again(mrd_files *files, file *one, const mrd_folder_file *met, mrd_local_ns now)
{
    one->look = files->dirs[one->dir].look;
    if (is_unchanged(one, met))
        return;
    if (files->stage != IDLE &&
        /* the file is being sent, so its entry must keep the version that is sent */
        one == &files->files[files->at]) {
        files->changed = true;
        return;
    }
    if (one->state == SEEN && one->is_trace && !one->passed && is_replaced(one, met) &&
        mrd_files_takers(files, one) != 0)
        one->replaced++;
    one->grown = (one->passed || one->grown) && mrd_file_marks_grew(&one->marks, &met->marks);
    if (one->state >= DONE)
        mrd_files_wait(files, one);
    take_version(one, met, now);
    one->state = SEEN;
    one->told = one->had = one->passed = false;
    one->given = 0;
    files->pick_at = (mrd_local_ns){ 0 };
}

/* Returns true if the file belongs to this node. Several nodes may share a directory. A file that a
 * process of this node named explicitly belongs to this node. */
static bool
is_ours(const mrd_files *files, const dir *d, const char *rel)
{
    mrd_str instance;
    int64_t pid;

    return files->o.is_ours == NULL || !d->whole || !mrd_files_owner(rel, &instance, &pid) ||
           files->o.is_ours(files->o.self, instance, pid, d->uid);
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
meet_first(mrd_files *files, unsigned at, const mrd_folder_file *met, mrd_local_ns now,
           uint64_t hash)
{
    dir *d = &files->dirs[at];
    char *path = NULL;
    file *one;

    if (!is_ours(files, d, met->rel)) {
        leave_to_its_node(d, met->rel);
        return;
    }
    if (!room(files, d->uid) || (path = strdup(mrd_buf_cstr(&files->path))) == NULL ||
        mrd_index_add(&files->by_path, hash, (uint32_t) files->n) != MRD_OK) {
        d->beyond++;
        free(path);
        return;
    }
    one = &files->files[files->n];
    *one = (file){ .path = path,
                   .rel = path + strlen(d->label) + 1,
                   .dir = at,
                   .next = d->first,
                   .look = d->look };
    take_version(one, met, now);
    d->first = (uint32_t) ++files->n;
    d->n_files++;
    files->stats.found++;
    mrd_files_wait(files, one);
}

/* Finds the file "<rel><ending>" of directory `at` in the table. Returns its index, or
 * MRD_INDEX_NONE. In both cases, the file's path is in files->path. */
static uint32_t
find_file(mrd_files *files, unsigned at, const char *rel, const char *ending, uint64_t *ret_hash)
{
    const char *path;

    mrd_buf_reset(&files->path);
    mrd_buf_fmt(&files->path, "%s/%s%s", files->dirs[at].label, rel, ending);
    path = mrd_buf_cstr(&files->path);
    *ret_hash = mrd_dir_name_hash(at, path);
    return mrd_index_find(&files->by_path, *ret_hash, same_file, files,
                          &(mrd_dir_name){ at, path });
}

/* Handles a file that a search of its directory found. The file may be new, changed or
 * unchanged. */
static void
meet(mrd_files *files, unsigned at, const mrd_folder_file *met, mrd_local_ns now)
{
    uint64_t hash;
    uint32_t known = find_file(files, at, met->rel, "", &hash);

    if (files->path.err != MRD_OK)
        files->dirs[at].beyond++;
    else if (known != MRD_INDEX_NONE)
        meet_again(files, &files->files[known], met, now);
    else
        meet_first(files, at, met, now, hash);
}

/* ---- Directories ---- */

void
mrd_files_poll(mrd_files *files, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    if (files->polled < 0)
        files->polled = epoll_create1(EPOLL_CLOEXEC);
    if (files->polled >= 0)
        (void) epoll_ctl(files->polled, EPOLL_CTL_ADD, fd, &ev);
}

/* Drops the directory and the entries of its files. */
void
mrd_files_drop(mrd_files *files, unsigned at)
{
    dir *d = &files->dirs[at];

    forget_files(files, at);
    mrd_strlist_fini(&d->names);
    if (!d->hung) /* a hanging thread still uses the folder */
        mrd_folder_free(d->folder, files->inotify);
    free(d->label);
    free(d->namers);
    *d = (dir){ 0 };
    files->stats.dirs--;
}

/* Returns true if the directory can be dropped: all processes that named it have ended, it was
 * searched after that, and no session wants a file in it. */
static bool
may_go(const mrd_files *files, unsigned at)
{
    const dir *d = &files->dirs[at];
    bool busy = (files->stage != IDLE && files->files[files->at].dir == at) ||
                (files->work->kind == LOOK && files->work->dir == at);

    return d->used && d->uid != MRD_OWNED_ANY && d->n_namers == 0 && !busy && !d->looking &&
           (d->refused_for_good || d->hung || !mrd_local_before(d->looked_at, d->ended_at)) &&
           (d->waiting == 0 || !mrd_files_have_sessions(files));
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
mrd_files_sum(mrd_files *files)
{
    uint64_t before = files->stats.beyond;

    files->stats.beyond = files->stats.refused = files->stats.ignored = files->stats.elsewhere = 0;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        files->stats.beyond += files->dirs[i].beyond;
        files->stats.refused += files->dirs[i].refused;
        files->stats.elsewhere += files->dirs[i].elsewhere;
        files->stats.ignored += files->dirs[i].ignored + files->dirs[i].not_traces;
    }
    if (files->stats.beyond > 0 && before == 0)
        mrd_log(MRD_LOG_WARN, "AGT-FILES-MAX",
                "There are more files than --advanced.files-max; raise it or empty the capture "
                "directories: "
                "left_out=%llu",
                (unsigned long long) files->stats.beyond);
}

/* ---- Removed files ---- */

/* A hash index of the files that the last search of a directory found. The key is the
 * size, the modification time and the last bytes of a file. */
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

/* Adds to the index the files that the last search of the directory found. If out of memory, some
 * files are left out. If such a file was renamed, its old name counts as a removed file. */
static void
index_contents(const mrd_files *files, const dir *d, contents *to)
{
    to->made = true;
    for (uint32_t i = d->first; i != 0; i = files->files[i - 1].next) {
        const file *one = &files->files[i - 1];
        uint64_t hash = contents_hash(one);

        if (one->look == d->look && one->marks.size != 0 &&
            mrd_index_find(&to->index, hash, same_contents, files, one) == MRD_INDEX_NONE)
            (void) mrd_index_add(&to->index, hash, i - 1);
    }
}

/* Returns true if a file that the search did not find still exists under another name. It was
 * renamed within its directory, or compressed. */
static bool
is_there(mrd_files *files, const file *gone, contents *found)
{
    uint64_t hash;
    uint32_t packed = find_file(files, gone->dir, gone->rel, ".gz", &hash);

    if (packed != MRD_INDEX_NONE && files->files[packed].look == files->dirs[gone->dir].look)
        return true;
    if (!found->made)
        index_contents(files, &files->dirs[gone->dir], found);
    return mrd_index_find(&found->index, contents_hash(gone), same_contents, files, gone) !=
           MRD_INDEX_NONE;
}

static void
lose(mrd_files *files, file *one, contents *found)
{
    static const char reason[] =
        "it was removed, or replaced by a link or a folder, before it could be read";
    bool wanted = mrd_files_takers(files, one) != 0;

    if (wanted && mrd_files_is_unread(one) && is_there(files, one, found))
        wanted = false;
    if (wanted)
        mrd_files_miss(files, one, reason);
    if (mrd_files_lost(files, one) && wanted && files->o.finished != NULL)
        files->o.finished(files->o.self, one->path, "", reason);
}

/* Handles known files that this search did not find. Returns how many of them do not exist any
 * more. Pending files among them count as lost. An unread trace file may have been renamed during
 * the search. Then *ret_again is set, and it counts as lost only if the next search does not find
 * it either. */
static size_t
look_for_gone(mrd_files *files, const dir *d, bool *ret_again)
{
    contents found = { 0 };
    size_t gone = 0;

    for (uint32_t i = d->first; i != 0; i = files->files[i - 1].next) {
        file *one = &files->files[i - 1];

        if (one->look == d->look || (files->stage != IDLE && files->at == i - 1))
            continue;
        if (one->state < DONE && mrd_files_is_unread(one) && one->look + 1 == d->look) {
            *ret_again = true;
            continue;
        }
        if (one->state < DONE)
            lose(files, one, &found);
        gone++;
    }
    mrd_index_fini(&found.index);
    return gone;
}

void
mrd_files_give_up(mrd_files *files, unsigned at, const char *message)
{
    for (uint32_t i = files->dirs[at].first; i != 0; i = files->files[i - 1].next) {
        file *one = &files->files[i - 1];

        if (one->state >= DONE)
            continue;
        mrd_files_miss(files, one, message);
        mrd_files_finish(files, one, GIVEN_UP);
        files->stats.failed++;
        if (files->o.finished != NULL)
            files->o.finished(files->o.self, one->path, "", message);
    }
}

static void
end_look(mrd_files *files, unsigned at, const mrd_folder_state *st, mrd_local_ns now)
{
    dir *d = &files->dirs[at];
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
    gone = look_for_gone(files, d, &again);
    if (gone > 0 && beyond > 0) /* the table now has room for files that did not fit before */
        again = true;
    if ((gone > 0 && beyond > 0) || gone > files->n / 2)
        forget_files(files, MRD_FILES_DIRS);
    if (mrd_local_before(d->looked_at, d->ended_at))
        /* The process may have written its last files to directories after the search had read
         * them. */
        again = true;
    d->look_at = mrd_local_add(now, (again            ? 0
                                     : d->waiting > 0 ? MRD_WAIT_FILES_BUSY
                                     : d->blind       ? MRD_WAIT_FILES_BLIND
                                                      : MRD_WAIT_FILES_WATCHED));
    mrd_files_sum(files);
    mrd_files_say(d);
}

void
mrd_files_looked(mrd_files *files, mrd_local_ns now)
{
    const work *w = files->work;
    dir *d = &files->dirs[w->dir];
    const mrd_folder_file *found;
    size_t n;

    found = mrd_folder_found(d->folder, &n);
    for (size_t i = 0; i < n; i++)
        meet(files, w->dir, &found[i], now);
    d->took_ns += w->took_ns;
    say_state(d, &w->look);
    d->refused_for_good = w->look.lost;
    if (w->look.over)
        end_look(files, w->dir, &w->look, now);
}

/* Returns when the directory may be searched next. Searches of a directory take at most a fifth of
 * the time, so that a long search is followed by a long pause. */
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

/* Returns in which turn the thread last worked for a user, as the number of the turn. If `looks` is
 * true, only searches count, otherwise only work on files. */
uint64_t
mrd_files_served(const mrd_files *files, int64_t uid, bool looks)
{
    uint64_t last = 0;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &files->dirs[i];
        uint64_t turn = looks ? d->looks_turn : d->files_turn;

        if (d->used && d->uid == uid && turn > last)
            last = turn;
    }
    return last;
}

/* Chooses the directory to search next. Takes the user whose directories were not searched for the
 * longest time, and this user's directory with the oldest search. Returns false if no directory is
 * due. */
bool
mrd_files_choose(const mrd_files *files, mrd_local_ns now, unsigned *ret_at)
{
    uint64_t best_user = UINT64_MAX, best = UINT64_MAX;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        const dir *d = &files->dirs[i];
        uint64_t user;

        if (!d->used || mrd_local_after(mrd_files_due(d), now))
            continue;
        user = mrd_files_served(files, d->uid, true);
        if (user < best_user || (user == best_user && d->looks_turn < best)) {
            best_user = user;
            best = d->looks_turn;
            *ret_at = i;
        }
    }
    return best_user != UINT64_MAX;
}

/* Reports that a file is not sent although a process named it, because the list of names is
 * full. */
static void
leave_name(mrd_files *files, dir *d, const char *name)
{
    char path[2048];

    files->stats.failed++;
    if (d->said_names)
        return;
    d->said_names = true;
    snprintf(path, sizeof(path), "%s/%s", d->label, name);
    if (files->o.finished != NULL)
        files->o.finished(
            files->o.self, path, "",
            "more files of its directory are named one by one than are looked for; this "
            "one and those that follow are left out");
}

/* Passes names that processes added to the folder that searches the directory. The names were kept
 * in d->names while the thread could use the folder. */
void
mrd_files_tell(mrd_files *files, dir *d)
{
    if (d->whole)
        mrd_folder_whole(d->folder);
    for (size_t i = 0; i < d->names.n && !d->whole; i++)
        if (mrd_folder_name(d->folder, d->names.v[i]) != MRD_OK)
            leave_name(files, d, d->names.v[i]);
    mrd_strlist_fini(&d->names);
}

void
mrd_files_forget_dirs(mrd_files *files)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (may_go(files, i))
            mrd_files_drop(files, i);
}

/* ---- Directories that processes and the operator name ---- */

static dir *
find_dir(mrd_files *files, mrd_str label, int64_t uid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        if (files->dirs[i].used && files->dirs[i].uid == uid &&
            mrd_str_eq(mrd_str_of(files->dirs[i].label), label))
            return &files->dirs[i];
    return NULL;
}

static dir *
free_dir(mrd_files *files, int64_t uid)
{
    unsigned own = 0, used = 0;
    dir *d = NULL;

    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        used += files->dirs[i].used;
        own += files->dirs[i].used && files->dirs[i].uid == uid;
        if (!files->dirs[i].used)
            d = &files->dirs[i];
    }
    return uid == MRD_OWNED_ANY || own < MRD_FILES_DIRS - used ? d : NULL;
}

/* Adds a process that named the directory. If delivered files of the directory are removed, the
 * process also counts as capturing. Its capture may have begun before this agent started. */
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
add_name(mrd_files *files, dir *d, const char *name)
{
    if (mrd_strlist_has(&d->names, mrd_str_of(name)))
        return MRD_OK;
    if (d->names.n < MRD_FOLDER_NAMES)
        return mrd_strlist_add(&d->names, mrd_str_of(name));
    leave_name(files, d, name);
    return MRD_OK;
}

static mrd_err
new_dir(mrd_files *files, const mrd_files_place *place, mrd_str label, int64_t uid, dir **ret_dir)
{
    mrd_folder_options fo = { files->o.proc_root, place->path, place->claim };
    dir *d = free_dir(files, uid);

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
    files->stats.dirs++;
    *ret_dir = d;
    return MRD_OK;
}

/* Makes a finished file with this name pending again, because a later session needs it too. */
static void
announce_again(mrd_files *files, const dir *d, const char *name)
{
    for (uint32_t i = d->first; i != 0; i = files->files[i - 1].next) {
        file *one = &files->files[i - 1];

        if (strcmp(one->rel, name) != 0 || one->state < DONE)
            continue;
        one->state = SEEN;
        mrd_files_wait(files, one);
    }
}

mrd_err
mrd_files_watch(mrd_files *files, const mrd_files_place *place)
{
    mrd_str label = mrd_str_of(place->label != NULL ? place->label : place->path);
    int64_t uid = place->claim == NULL ? MRD_OWNED_ANY : (int64_t) place->claim->uid;
    mrd_err err = MRD_OK;
    dir *d;

    if (place->path[0] == '\0' || (place->claim != NULL && place->path[0] != '/'))
        return MRD_INVALID;
    while (label.len > 1 && label.p[label.len - 1] == '/')
        label.len--;
    d = find_dir(files, label, uid);
    if (d == NULL && (err = new_dir(files, place, label, uid, &d)) != MRD_OK) {
        if (err == MRD_LIMIT && place->claim != NULL &&
            files->stats.refused_dirs < MRD_COUNT(files->refused_pids))
            files->refused_pids[files->stats.refused_dirs++] = place->pid;
        return err;
    }
    if (place->claim != NULL && (err = add_namer(d, place)) != MRD_OK)
        return err;
    if (place->name == NULL && !d->whole) {
        d->whole = true;
        d->look_at = (mrd_local_ns){ 0 };
    } else if (place->name != NULL && !d->whole) {
        err = add_name(files, d, place->name);
        d->look_at = (mrd_local_ns){ 0 };
    }
    d->any_age = d->any_age || place->any_age;
    d->remove = d->remove || place->remove;
    if (place->claim != NULL)
        mrd_files_ask(files, d, place->pid);
    if (place->any_age && place->name != NULL)
        announce_again(files, d, place->name);
    return err;
}

/* Requests another search of the directory now. A process or its capture has just ended, and may
 * have written its last files after the previous search. */
static void
look_again(dir *d)
{
    d->ended_at = mrd_local_now();
    d->look_at = (mrd_local_ns){ 0 };
}

void
mrd_files_gone(mrd_files *files, int64_t pid)
{
    for (unsigned i = 0; i < files->stats.refused_dirs;)
        if (files->refused_pids[i] == pid)
            files->refused_pids[i] = files->refused_pids[--files->stats.refused_dirs];
        else
            i++;
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++) {
        dir *d = &files->dirs[i];

        for (size_t k = 0; k < d->n_namers; k++)
            if (d->namers[k].pid == pid) {
                d->namers[k--] = d->namers[--d->n_namers];
                look_again(d);
            }
    }
}

void
mrd_files_captured(mrd_files *files, int64_t pid)
{
    for (unsigned i = 0; i < MRD_FILES_DIRS; i++)
        for (size_t k = 0; k < files->dirs[i].n_namers; k++) {
            namer *n = &files->dirs[i].namers[k];

            if (n->pid != pid || !n->captures)
                continue;
            n->captures = false;
            look_again(&files->dirs[i]);
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
