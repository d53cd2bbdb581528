/*
 * agent/files.h - capture directories: finds files that are complete, hashes them, and ships each
 * once per cluster in chunks that resume where an earlier attempt ended; every session that selects
 * the process of a file and began before it was written gets it.
 *
 * Complete: size and time of change stood still for `stable`, and no process has the file open for
 * writing (asked of the kernel by a lease where that is allowed). Directories are watched by
 * inotify and looked through again now and then; where inotify does not work (network file
 * systems) only the latter, more often.
 * Whose: a directory that a workload named is opened in that process's own root, and only files of
 * the user that its ring belongs to are taken (agent/owned.h); of any directory, only kinds of
 * files that are known. The rest is counted and said.
 * Work: a thread looks, opens, hashes and reads, in slices; the loop never waits for a file system.
 * Users have equal shares of it, and of what is known at one time. A directory is forgotten when
 * no process is left that named it and nothing of it waits.
 * Threads: the caller's, and one once there is a directory.
 */
#ifndef MRD_AGENT_FILES_H
#define MRD_AGENT_FILES_H

#include "agent/owned.h"
#include "base/buf.h"
#include "base/clock.h"
#include "proto/wire.h"

#define MRD_FILES_DIRS 256 /* capture directories */
#define MRD_FILES_MAX  65536

typedef struct mrd_files mrd_files;

typedef struct {
    const char *path, *rel; /* as logs call it; below its capture directory */
    const char *sha256;
    int64_t pid; /* as given to watch */
    int64_t uid; /* whose file it is; -1: the operator named the directory */
    int fd;      /* the file that was checked and hashed; borrowed */
} mrd_files_complete;

/* A directory to watch, or one file of it. */
typedef struct {
    const char *path;             /* in the root of its process; absolute, unless the operator's */
    const char *label;            /* as logs call it, and tells it from others; NULL: path */
    const char *name;             /* this file only; NULL: all */
    int64_t pid;                  /* whose it is; MRD_NONE: the folder names tell */
    const mrd_owned_claim *claim; /* of the process that named it; NULL: the operator did */
    bool any_age; /* files of before the session, too, and for each session that watches them */
    /* They were written for a session: a file is removed when it is delivered, and empty folders as soon as no process that named
     * the directory captures. A process captures from when it first names the directory, or `captures`, to mrd_files_captured. */
    bool remove;
    bool captures;
} mrd_files_place;

/* A session that takes files. */
typedef struct {
    uint64_t id;
    mrd_wall_ns start; /* what was written before is of an earlier run */
} mrd_files_session;

/* Whose files a session may want. */
typedef struct {
    int64_t pid;  /* MRD_NONE: nothing tells */
    bool by_name; /* folder names tell it: it may be that of the process's container */
    bool kept;    /* a place with any_age */
} mrd_files_whose;

typedef struct {
    const char *proc_root; /* NULL: "/proc" */
    mrd_dur_ns stable;     /* 0: 2 s */
    uint64_t max_bytes;    /* larger files are listed as left out; 0: no bound */
    size_t max_files;      /* known at one time, finished ones too as long as they are there; 0:
                           MRD_FILES_MAX */
    mrd_dur_ns hang;       /* a task that takes longer hangs; 0: 10 s */
    uint64_t agent;        /* of the frames */
    /* Sends a frame; its answer comes to mrd_files_answer. AGAIN: later. */
    mrd_err (*send)(void *self, uint64_t tag, mrd_bytes frame);
    /* This session takes files of this process. Asked when the sessions change, when a process names
     * a directory, and for each file of an operator's. NULL: every session takes all. */
    bool (*wants)(void *self, uint64_t session, const mrd_files_whose *whose);
    /* Returns true if the process of a file belongs to this node. `instance` and `pid` are what the file's path names, `uid` is the
     * user of its directory or MRD_OWNED_ANY. Called for each new file whose path names a process. NULL: all files belong to it. */
    bool (*is_ours)(void *self, mrd_str instance, int64_t pid, int64_t uid);
    /* A file was delivered to all that want it, or given up (message says why). May be NULL. */
    void (*finished)(void *self, const char *path, const char *sha256, const char *message);
    /* A file is complete and hashed, before it is announced; once for each version. May be NULL. */
    void (*complete)(void *self, const mrd_files_complete *file);
    void *self;
} mrd_files_options;

typedef struct {
    uint64_t found, delivered, duplicates, failed, left_out; /* duplicates: the cluster had it */
    uint64_t bytes_hashed, bytes_sent;
    uint64_t waiting;   /* found, not finished */
    uint64_t beyond;    /* there, but more than max_files: not known */
    uint64_t refused;   /* there, but of others, or links: never taken */
    uint64_t ignored;   /* there, of unknown kinds: never taken */
    uint64_t elsewhere; /* there, but of processes of other nodes: left to their agents */
    unsigned dirs;
    unsigned hung;    /* of them, on a file system that does not answer now */
    unsigned foreign; /* of them, not of the user of the process that named them */
    unsigned
        refused_dirs; /* beyond their user's share, of processes that are there; 1,024 at most */
} mrd_files_stats;

mrd_err mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why);
void mrd_files_close(mrd_files *f);
/* Watches a directory, which need not exist yet. Known ones are MRD_OK; of one, at most MRD_FOLDER_NAMES files are looked
 * for by name, further ones fail (finished). Errors: INVALID (no path, or a relative one), LIMIT (as many as its user may
 * have), NOMEM. */
mrd_err mrd_files_watch(mrd_files *f, const mrd_files_place *place);
/* The process has ended: what it alone named is forgotten when it is finished. */
void mrd_files_gone(mrd_files *f, int64_t pid);
/* The process's capture has ended, and its files are written. */
void mrd_files_captured(mrd_files *f, int64_t pid);
/* The sessions that take files, at most MRD_FILES_SESSIONS; none: files wait. A file that none takes
 * waits for one that began before it was written, or for the same one with an earlier start. */
#define MRD_FILES_SESSIONS 16
void mrd_files_sessions(mrd_files *f, const mrd_files_session *sessions, size_t n);
/* Nothing that the session wants is waiting, being hashed or sent, and the directories that it wants
 * files of were looked through since `since` (RAW). */
bool mrd_files_idle(const mrd_files *f, uint64_t session, mrd_local_ns since);
/* Looks through the directories at the next step. */
void mrd_files_look(mrd_files *f);
void mrd_files_step(mrd_files *f, mrd_local_ns now);
/* The answer to `tag`; msg NULL: none came, it is sent again. */
void mrd_files_answer(mrd_files *f, uint64_t tag, const mrd_msg *msg);
int mrd_files_fd(const mrd_files *f); /* -1: nothing to wait for */
mrd_local_ns mrd_files_next_ns(const mrd_files *f);
/* NULL: nothing was counted. */
void mrd_files_get_stats(const mrd_files *f, mrd_files_stats *ret_stats);
/* "NTFF", "NEFF", "ntrace.pb", ... from a file's name; "file" for others. */
const char *mrd_files_kind(const char *name);
/* Finds the process in a path, "i-0ab_pid_77/1700/profile_nc_3_session_0.ntff"; if several components name one, the last counts.
 * Returns false if none does. */
bool mrd_files_owner(const char *rel, mrd_str *ret_instance, int64_t *ret_pid);
/* The pid and core in such a path; MRD_NONE if it names none. */
void mrd_files_names(const char *rel, int64_t *ret_pid, int64_t *ret_nc);

#endif
