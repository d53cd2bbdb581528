#include "agent/record/job_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/num.h"
#include "base/obj.h"

#define TEXT_MAX 4096
/* Assumed resolution of a file's modification time, for the file systems with the coarsest
 * times. */
#define TICK MRD_SEC

typedef struct {
    char name[256]; /* name of the job file; empty means that the slot is free */
    void *job;      /* the caller's handle of the job */
    mrd_jobid id;
    mrd_job_key key;
    char component[32];
    bool ended, present;
} job_file;

struct mrd_job_files {
    mrd_job_files_options o;
    job_file v[MRD_JOB_FILES_MAX];
    mrd_local_ns scan_at;
    struct timespec changed; /* modification time that the directory had at the last search */
    bool said_dir, looking;
};

mrd_err
mrd_job_files_open(const mrd_job_files_options *options, mrd_job_files **ret_files, mrd_why *why)
{
    mrd_job_files *files = calloc(1, sizeof(*files));

    if (files == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "files of jobs");
    files->o = *options;
    *ret_files = files;
    return MRD_OK;
}

void
mrd_job_files_close(mrd_job_files *files)
{
    free(files);
}

/* Finds the slot of a file name, or a free slot if the name is empty. Returns NULL if there is
 * none. */
static job_file *
find_file(mrd_job_files *files, const char *name)
{
    for (size_t i = 0; i < MRD_JOB_FILES_MAX; i++)
        if (strcmp(files->v[i].name, name) == 0)
            return &files->v[i];
    return NULL;
}

bool
mrd_job_files_has(const mrd_job_files *files, const void *job)
{
    for (size_t i = 0; i < MRD_JOB_FILES_MAX; i++)
        if (files->v[i].name[0] != '\0' && files->v[i].job == job)
            return true;
    return false;
}

/* ---- One job file ---- */

static bool
is_trusted(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Gets the value of the first line "key=value" with this key. Returns false if no line has it. */
static bool
line_of(mrd_str text, const char *key, mrd_str *ret_value)
{
    size_t n = strlen(key);

    while (text.len > 0) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t) (end - text.p);

        if (len > n && memcmp(text.p, key, n) == 0 && text.p[n] == '=') {
            *ret_value = (mrd_str){ text.p + n + 1, len - n - 1 };
            return true;
        }
        text.p += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
    return false;
}

static bool
copy_line(mrd_str text, const char *key, char *to, size_t size)
{
    mrd_str value = { "", 0 };
    bool found = line_of(text, key, &value);

    snprintf(to, size, MRD_STR_FMT, MRD_STR_ARG(value));
    return found;
}

/* Reads the lines of a job file. Returns false if the file names no job. */
static bool
parse(mrd_str text, mrd_job_told *ret_told)
{
    static const char *const ours[] = { "request", "owner_key", "component", "ended", NULL };
    mrd_job_told told = { .asks = false };
    mrd_jobid nothing = { "" };
    char ended[2];
    int64_t uid;

    mrd_jobid_parse(&told.id, text);
    mrd_jobid_correct(&told.id, &nothing, ours);
    if (mrd_num_i64(mrd_jobid_get(&told.id, "uid"), &uid) != MRD_OK)
        return false;
    mrd_job_key_of(&told.id, uid, &told.key);
    told.asks = copy_line(text, "request", told.request, sizeof(told.request));
    (void) copy_line(text, "owner_key", told.owner_key, sizeof(told.owner_key));
    (void) copy_line(text, "component", told.component, sizeof(told.component));
    told.ended = copy_line(text, "ended", ended, sizeof(ended)) && strcmp(ended, "1") == 0;
    *ret_told = told;
    return told.key.text[0] != '\0';
}

static void
end_job(mrd_job_files *files, job_file *file, mrd_local_ns now)
{
    bool ended = file->ended;

    file->ended = true;
    if (!ended)
        files->o.end(files->o.self, file->job, now);
}

static void
forget(mrd_job_files *files, job_file *file, mrd_local_ns now)
{
    end_job(files, file, now);
    file->name[0] = '\0';
}

/* Adds the job of a new job file. Returns NULL if the callback `begin` did not accept the job. */
static job_file *
begin_job(mrd_job_files *files, const char *name, const mrd_job_told *told, mrd_local_ns now)
{
    job_file *file = find_file(files, "");

    if (file == NULL)
        return NULL;
    /* The slot is filled before the callback, because the callback may look up this job for
     * existing processes. */
    *file = (job_file){ .id = told->id, .key = told->key };
    snprintf(file->name, sizeof(file->name), "%s", name);
    snprintf(file->component, sizeof(file->component), "%s", told->component);
    if ((file->job = files->o.begin(files->o.self, told, now)) == NULL) {
        file->name[0] = '\0';
        return NULL;
    }
    return file;
}

static bool
has_same(const job_file *file, const mrd_job_told *told, const char *key)
{
    return mrd_str_eq(mrd_jobid_get(&file->id, key), mrd_jobid_get(&told->id, key));
}

/* Returns true if the job file is about the same run of the same job as before. A later version of
 * the file may add keys that identify the run, such as its cluster. */
static bool
is_same_run(const job_file *file, const mrd_job_told *told)
{
    return has_same(file, told, "job") && has_same(file, told, "uid") &&
           has_same(file, told, "restart") && (told->ended || !file->ended);
}

static void
take_file(mrd_job_files *files, const char *name, const mrd_job_told *told, mrd_local_ns now)
{
    job_file *file = find_file(files, name);

    if (file != NULL && !is_same_run(file, told)) {
        /* the old version of the file was about another job or an earlier run */
        forget(files, file, now);
        file = NULL;
    }
    if (file == NULL && (file = begin_job(files, name, told, now)) == NULL)
        return;
    file->present = true;
    if (told->ended)
        end_job(files, file, now);
    else
        files->o.change(files->o.self, file->job, told, now);
}

static void
read_file(mrd_job_files *files, int dir, const char *name, mrd_local_ns now)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[TEXT_MAX];
    mrd_job_told told;
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_trusted(&st) &&
        (n = read(fd, text, sizeof(text))) > 0 && parse((mrd_str){ text, (size_t) n }, &told)) {
        told.written = (mrd_wall_ns){ st.st_mtim.tv_sec * MRD_SEC + st.st_mtim.tv_nsec };
        take_file(files, name, &told, now);
    }
    close(fd);
}

/* ---- The directory of job files ---- */

static void
read_dir(mrd_job_files *files, int fd, mrd_local_ns now)
{
    DIR *dir = fdopendir(fd); /* the stream owns fd from now on */
    struct dirent *entry;

    if (dir == NULL) {
        close(fd);
        return;
    }
    for (size_t i = 0; i < MRD_JOB_FILES_MAX; i++)
        files->v[i].present = false;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof(files->v[0].name))
            read_file(files, dirfd(dir), entry->d_name, now);
    for (size_t i = 0; i < MRD_JOB_FILES_MAX; i++)
        if (files->v[i].name[0] != '\0' && !files->v[i].present)
            forget(files, &files->v[i], now);
    closedir(dir);
}

/* Returns true if the directory's modification time shows that no file was renamed since the last
 * search. A modification time less than TICK ago is not reliable, because a second change in the
 * same tick would not alter it. */
static bool
is_as_before(const mrd_job_files *files, const struct stat *st)
{
    mrd_wall_ns changed = { st->st_mtim.tv_sec * MRD_SEC + st->st_mtim.tv_nsec };
    mrd_dur_ns age = mrd_wall_diff(mrd_wall_now(), changed);

    return st->st_mtim.tv_sec == files->changed.tv_sec &&
           st->st_mtim.tv_nsec == files->changed.tv_nsec && (age < 0 || age > TICK);
}

/* Searches the directory only after its modification time changed. Files are created and changed by
 * rename, which changes this time. */
void
mrd_job_files_step(mrd_job_files *files, mrd_local_ns now, bool at_once)
{
    struct stat st;
    int fd;

    if (files->o.dir == NULL || files->looking ||
        (!at_once && mrd_local_before(now, files->scan_at)))
        return;
    files->scan_at = mrd_local_add(now, MRD_WAIT_JOB_DIR);
    if ((fd = open(files->o.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return;
    if (fstat(fd, &st) != 0 || !is_trusted(&st)) {
        if (!files->said_dir)
            mrd_log(MRD_LOG_WARN, "AGT-JOBS-DIR",
                    "The folder of job requests is not read because users other than root can "
                    "write to it: path=%s",
                    files->o.dir);
        files->said_dir = true;
        close(fd);
        return;
    }
    files->scan_at = mrd_local_add(now, MRD_WAIT_JOB_FILES);
    if (is_as_before(files, &st)) {
        close(fd);
        return;
    }
    files->changed = st.st_mtim;
    files->looking = true; /* prevents a nested search, because the callbacks may request one */
    read_dir(files, fd, now);
    files->looking = false;
}

mrd_local_ns
mrd_job_files_next_ns(const mrd_job_files *files)
{
    return files->o.dir == NULL ? ((mrd_local_ns){ INT64_MAX }) : files->scan_at;
}

/* ---- Jobs that processes claim ---- */

/* Returns the job file with this job name that belongs to the user. If there is none, returns the
 * file of another user with this job name, NULL if there is no such file either. */
static const job_file *
find_word(const mrd_job_files *files, mrd_str name, int64_t uid)
{
    const job_file *found = NULL;

    for (size_t i = 0; i < MRD_JOB_FILES_MAX && name.len > 0; i++) {
        const job_file *file = &files->v[i];

        if (file->name[0] != '\0' &&
            (mrd_str_eq(name, mrd_jobid_get(&file->id, "job")) ||
             mrd_str_is(name, file->component)) &&
            (found == NULL || file->key.uid == uid))
            found = file;
    }
    return found;
}

void
mrd_job_files_correct(mrd_job_files *files, mrd_ident *ident)
{
    /* these keys identify jobs and their owners, so their values must come from the job file and
     * not from the process */
    static const char *const words[] = { "job", "cluster", "namespace", "restart", "user", NULL };
    mrd_str name = mrd_jobid_get(&ident->jobid, "job");
    mrd_jobid nothing = { "" };
    const job_file *file;
    int64_t uid;

    if (name.len == 0 || mrd_num_i64(mrd_jobid_get(&ident->jobid, "uid"), &uid) != MRD_OK)
        return;
    if (find_word(files, name, uid) == NULL)
        /* searches once more, because the job's file may have been written just now */
        mrd_job_files_step(files, mrd_local_now(), true);
    if ((file = find_word(files, name, uid)) != NULL)
        mrd_jobid_correct(&ident->jobid, file->key.uid == uid ? &file->id : &nothing, words);
    if ((file = find_word(files, mrd_str_of(ident->job), uid)) != NULL && file->key.uid != uid)
        ident->job[0] = '\0';
}
