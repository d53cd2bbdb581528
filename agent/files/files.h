/*
 * agent/files/files.h - capture directories: finds complete files, hashes them, and sends each once
 * per cluster, in chunks that resume where an earlier attempt ended. A file goes to every session
 * that selects its process and began before the file was written.
 *
 * Complete: size and change time are unchanged for `stable`, and no process has the file open for
 * writing (checked by a lease where that is allowed). Directories are watched by inotify and
 * searched periodically. Where inotify does not work (network file systems) they are searched more
 * often. Owner: a directory that a workload named is opened in that process's own root, and only
 * files of the user of its ring are taken (agent/guard/safe_open.h). Only known kinds of files are
 * taken. Other files are counted and reported. Work: a thread searches, opens, hashes and reads, in
 * slices, so that the loop never waits for a file system. Users have equal shares of the thread and
 * of the known files. A directory is dropped when no process that named it remains and no file of
 * it is pending. Threads: the caller's, and one more once there is a directory.
 */
#ifndef MRD_AGENT_FILES_FILES_H
#define MRD_AGENT_FILES_FILES_H

#include "agent/guard/safe_open.h"
#include "base/buf.h"
#include "base/clock.h"
#include "proto/wire.h"

#define MRD_FILES_DIRS     256 /* maximum number of capture directories */
#define MRD_FILES_MAX      65536
#define MRD_FILES_SESSIONS 16

typedef struct mrd_files mrd_files;

typedef struct {
    const char *path, *rel; /* path for logs; path below its capture directory */
    const char *sha256;
    int64_t pid; /* pid of the process, as given to mrd_files_watch */
    int64_t uid; /* user of the file; -1 means that the operator named the directory */
    int fd;      /* the file that was checked and hashed; borrowed */
    /* for a trace file: minimum number of earlier versions that were replaced before they were
     * complete */
    uint32_t replaced;
    bool grown; /* the file begins with the contents of an earlier version that was complete */
    /* ids of the sessions that get the file; 0 marks an unused slot */
    uint64_t takers[MRD_FILES_SESSIONS];
} mrd_files_complete;

/* A directory to watch, or one file in it. */
typedef struct {
    /* path in the root of its process; absolute, unless the operator named it */
    const char *path;
    const char *label; /* unique name for logs; NULL means path */
    const char *name;  /* name of the only file to take; NULL means all files */
    /* pid of the process that the files belong to; MRD_NONE means that names of subdirectories
     * identify it */
    int64_t pid;
    const mrd_safe_open_claim
        /* claim of the process that named the directory; NULL means that the operator named it */
        *claim;
    /* takes also files from before the session, and sends them again for each session that watches
     * them */
    bool any_age;
    /* The files were written for a session. A file is removed when it is delivered. Empty
     * directories are removed as soon as no process that named the directory captures. A process
     * captures from when it first names the directory, or from `captures`, until
     * mrd_files_captured. */
    bool remove;
    bool captures;
} mrd_files_place;

/* A session that takes files. */
typedef struct {
    uint64_t id;
    mrd_wall_ns start; /* earlier files belong to an earlier run */
} mrd_files_session;

/* The process of a file, for the decision whether a session wants it. */
typedef struct {
    int64_t pid;  /* MRD_NONE means that the process is unknown */
    bool by_name; /* identified by directory names; it may be the pid inside of a container */
    bool kept;    /* the file is in a directory with any_age */
} mrd_files_whose;

typedef struct {
    const char *proc_root; /* root of procfs; NULL means "/proc" */
    mrd_dur_ns stable;     /* time without changes after which a file is complete; 0 means 2 s */
    uint64_t max_bytes;    /* larger files are listed as left out; 0 means no limit */
    /* known files, including finished ones that still exist; 0 means MRD_FILES_MAX */
    size_t max_files;
    mrd_dur_ns hang; /* a longer task counts as hanging; 0 means 10 s */
    uint64_t agent;  /* agent id in the frames */
    /* Sends a frame. The answer must be passed to mrd_files_answer. AGAIN means to try later. */
    mrd_err (*send)(void *self, uint64_t tag, mrd_bytes frame);
    /* Returns true if this session takes files of this process. Called when the sessions change,
     * when a process names a directory, and for each file of an operator's directory. NULL means
     * that every session takes all files. */
    bool (*wants)(void *self, uint64_t session, const mrd_files_whose *whose);
    /* Returns true if the process of a file belongs to this node. `instance` and `pid` are what the
     * file's path names, `uid` is the user of its directory or MRD_OWNED_ANY. Called for each new
     * file with a process in its path. NULL means that all files belong to this node. */
    bool (*is_ours)(void *self, mrd_str instance, int64_t pid, int64_t uid);
    /* Reports that a file was delivered to all sessions that want it, or failed (`message` has the
     * reason). May be NULL. */
    void (*finished)(void *self, const char *path, const char *sha256, const char *message);
    /* Reports a file that is complete and hashed, before it is announced to the aggregator; once
     * for each version. May be NULL. */
    void (*complete)(void *self, const mrd_files_complete *file);
    /* Reports that the events of a trace file that sessions wanted cannot be read. The file's
     * sha256 is NULL and its fd is -1. May be NULL. */
    void (*missed)(void *self, const mrd_files_complete *file, const char *reason);
    void *self;
} mrd_files_options;

typedef struct {
    /* duplicates: files that the cluster already had */
    uint64_t found, delivered, duplicates, failed, left_out;
    uint64_t bytes_sent;
    uint64_t waiting;   /* files that were found and are not finished */
    uint64_t beyond;    /* files that were found beyond max_files and not taken */
    uint64_t refused;   /* files of other users, or links, which are never taken */
    uint64_t ignored;   /* files of unknown kinds, which are never taken */
    uint64_t elsewhere; /* files of processes of other nodes; the agents there take them */
    unsigned dirs;
    unsigned hung; /* directories on a file system that does not answer now */
    /* directories that do not belong to the user of the process that named them */
    unsigned foreign;
    /* directories of existing processes that exceed their user's share; at most 1,024 */
    unsigned refused_dirs;
} mrd_files_stats;

mrd_err mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why);
void mrd_files_close(mrd_files *files);
/* Watches a directory, which need not exist yet. Returns MRD_OK for a known directory. In one
 * directory at most MRD_FOLDER_NAMES files are searched by name; further ones fail (finished).
 * Errors: INVALID (no path, or a relative one), LIMIT (the user's maximum), NOMEM. */
mrd_err mrd_files_watch(mrd_files *files, const mrd_files_place *place);
/* Call it when a process has ended. Directories that only this process named are dropped when they
 * are finished. */
void mrd_files_gone(mrd_files *files, int64_t pid);
/* Call it when the capture of a process has ended, and its files are written. */
void mrd_files_captured(mrd_files *files, int64_t pid);
/* Sets the sessions that take files, at most MRD_FILES_SESSIONS. Without sessions files wait. A
 * file that no session takes waits for one that began before it was written, or for the same
 * session with an earlier start. */
void mrd_files_sessions(mrd_files *files, const mrd_files_session *sessions, size_t n);
/* Returns true if no file for the session is pending, being hashed or sent, and its directories
 * were searched since `since` (RAW). */
bool mrd_files_idle(const mrd_files *files, uint64_t session, mrd_local_ns since);
/* Makes the next step search the directories. */
void mrd_files_look(mrd_files *files);
void mrd_files_step(mrd_files *files, mrd_local_ns now);
/* Takes the answer to the frame with this tag. `msg` is NULL if there was none; then the frame is
 * sent again. */
void mrd_files_answer(mrd_files *files, uint64_t tag, const mrd_msg *msg);
/* Returns a descriptor to wait for; -1 if there is none. */
int mrd_files_fd(const mrd_files *files);
mrd_local_ns mrd_files_next_ns(const mrd_files *files);
/* Gets the statistics; all are zero if `files` is NULL. */
void mrd_files_get_stats(const mrd_files *files, mrd_files_stats *ret_stats);
/* Returns "NTFF", "NEFF", "ntrace.pb", ... from a file's name; "file" for others. */
const char *mrd_files_kind(const char *name);
/* Finds the instance and pid in a path, such as "i-0ab_pid_77/1700/profile_nc_3_session_0.ntff". If
 * several components name a process, the last one counts. Returns false if none does. */
bool mrd_files_owner(const char *rel, mrd_str *ret_instance, int64_t *ret_pid);
/* Gets the pid and core in a path as in mrd_files_owner; MRD_NONE if the path names none. */
void mrd_files_names(const char *rel, int64_t *ret_pid, int64_t *ret_nc);

#endif
