/*
 * agent/files/files.h - sends the files of capture directories: finds complete files, hashes them,
 * and sends each once per cluster. Files are sent in chunks. A transfer resumes where an earlier
 * attempt ended. A file goes to every session that selects its process and began before the file
 * was written.
 *
 * Complete  A file is complete when its size and change time are unchanged for `stable`, and no
 *           process has it open for writing. The latter is checked by a file lease (fcntl
 *           F_SETLEASE) where the kernel allows it.
 * Searches  Directories are watched by inotify and searched periodically. Where inotify does not
 *           work (network file systems) they are searched more often.
 * Owner     A directory that a workload's process named is opened in the root directory of that
 *           process. Only files of the user who owns the process's rings are sent
 *           (agent/guard/safe_open.h), and only known kinds of files. Other files are counted and
 *           reported.
 * Thread    A thread searches, opens, hashes and reads in slices, so that the caller never waits
 *           for a file system. The thread is started with the first directory. Users have equal
 *           shares of the thread's time and of the table of files.
 * Removal   A directory is dropped when no process that named it remains and none of its files is
 *           pending.
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
    const char *path, *rel; /* `path` is for logs, `rel` is the path below the capture directory */
    const char *sha256;
    int64_t pid; /* pid of the process that wrote the file, as given to mrd_files_watch */
    int64_t uid; /* user of the file's directory; -1 means that the operator named the directory */
    int fd;      /* descriptor of the file that was checked and hashed; borrowed */
    /* Only for a trace file: how many earlier versions were seen that were replaced before they
     * were complete. There may have been more. */
    uint32_t replaced;
    /* the file begins with the contents of an earlier version that was passed to `complete` */
    bool grown;
    /* ids of the sessions that get the file; 0 marks an unused slot */
    uint64_t takers[MRD_FILES_SESSIONS];
} mrd_files_complete;

/* A directory whose files are sent to sessions: all files, or only the file with a given name. */
typedef struct {
    /* path in the root directory of the process that named it; absolute, unless the operator named
     * the directory */
    const char *path;
    const char *label; /* unique name for logs; NULL means path */
    const char *name;  /* name of the only file to take; NULL means all files */
    /* pid of the process that the files belong to; MRD_NONE means that the names of subdirectories
     * identify the process */
    int64_t pid;
    const mrd_safe_open_claim
        /* claim by which the process that named the directory is verified; NULL means that the
         * operator named it */
        *claim;
    /* True if files that were written before a session started are taken as well. Such files are
     * sent again for each new session. */
    bool any_age;
    /* True if the files were written for a session. A file is then removed when it is delivered.
     * Empty directories are removed when no process that named the directory is capturing. A
     * process counts as capturing from when it first names the directory, or from when it names it
     * with `captures`, until mrd_files_captured. */
    bool remove;
    bool captures;
} mrd_files_place;

/* A session that receives files. */
typedef struct {
    uint64_t id;
    /* start of the session; files written before it belong to an earlier session and are not
     * taken */
    mrd_wall_ns start;
} mrd_files_session;

/* The process of a file, as passed to mrd_files_options.wants. */
typedef struct {
    int64_t pid; /* pid of the process; MRD_NONE means unknown */
    /* the pid comes from a directory name, so it may be the pid inside a container */
    bool by_name;
    bool kept; /* the file is in a directory that was added with any_age set */
} mrd_files_whose;

typedef struct {
    const char *proc_root; /* root of procfs; NULL means "/proc" */
    mrd_dur_ns stable;     /* time without changes after which a file is complete; 0 means 2 s */
    /* maximum size of a file in bytes; larger files are not sent and are counted in left_out. 0
     * means no limit */
    uint64_t max_bytes;
    /* maximum number of files in the table, including finished ones that still exist; 0 means
     * MRD_FILES_MAX */
    size_t max_files;
    /* If an operation of the thread takes longer than this, its file system counts as hanging. 0
     * means 10 s. */
    mrd_dur_ns hang;
    uint64_t agent; /* key of this agent, for the frames that are sent */
    /* Sends a frame. The caller must pass the answer to mrd_files_answer. AGAIN means that the
     * frame cannot be sent now and must be sent later. */
    mrd_err (*send)(void *self, uint64_t tag, mrd_bytes frame);
    /* Returns true if this session takes files of this process. Called when the sessions change,
     * when a process names a directory, and for each file of a directory that the operator named.
     * NULL means that every session takes all files. */
    bool (*wants)(void *self, uint64_t session, const mrd_files_whose *whose);
    /* Returns true if the process of a file belongs to this node. `instance` and `pid` come from
     * the file's path. `uid` is the user of the file's directory, or MRD_OWNED_ANY. Called for each
     * new file with a process in its path. NULL means that all files belong to this node. */
    bool (*is_ours)(void *self, mrd_str instance, int64_t pid, int64_t uid);
    /* Reports that a file was delivered to all sessions that want it. If the file failed, `message`
     * is the reason, otherwise "". May be NULL. */
    void (*finished)(void *self, const char *path, const char *sha256, const char *message);
    /* Reports a file that is complete and hashed, before it is announced to the aggregator. Called
     * once for each version of a file. May be NULL. */
    void (*complete)(void *self, const mrd_files_complete *file);
    /* Reports a trace file that cannot be read, although sessions wanted its events. file->sha256
     * is NULL and file->fd is -1. May be NULL. */
    void (*missed)(void *self, const mrd_files_complete *file, const char *reason);
    void *self;
} mrd_files_options;

typedef struct {
    /* numbers of capture files; duplicates are files that the cluster already had */
    uint64_t found, delivered, duplicates, failed, left_out;
    uint64_t bytes_sent;
    uint64_t waiting; /* files that were found and still have to be sent */
    /* files that were found but not sent, because the table already had max_files files */
    uint64_t beyond;
    uint64_t refused; /* links and files of other users, which are never sent */
    uint64_t ignored; /* files of unknown kinds, which are never sent */
    /* files of processes of other nodes, which the agents on those nodes send */
    uint64_t elsewhere;
    unsigned dirs;
    unsigned hung; /* directories on a file system that does not answer at the moment */
    /* directories with another owner than the user of the process that named them */
    unsigned foreign;
    /* Directories that were refused, because their user has too many. They count while the
     * processes that named them run, up to 1,024. */
    unsigned refused_dirs;
} mrd_files_stats;

mrd_err mrd_files_open(const mrd_files_options *options, mrd_files **ret_files, mrd_why *why);
void mrd_files_close(mrd_files *files);
/* Begins to take files of a directory, which need not exist yet. Does nothing for a known
 * directory. At most MRD_FOLDER_NAMES files can be named in one directory. Further names are
 * reported as failed files (options.finished). Errors: INVALID (no path, or a relative one), LIMIT
 * (the user has its maximum of directories), NOMEM. */
mrd_err mrd_files_watch(mrd_files *files, const mrd_files_place *place);
/* Handles the end of a process. A directory that only this process named is dropped when its files
 * are finished. */
void mrd_files_gone(mrd_files *files, int64_t pid);
/* Handles that a process has finished its capture. Must be called after the files of the capture
 * were written. */
void mrd_files_captured(mrd_files *files, int64_t pid);
/* Sets the sessions that receive files, at most MRD_FILES_SESSIONS. Files wait while there are no
 * sessions. A file that is older than all sessions waits for a session with an earlier start. */
void mrd_files_sessions(mrd_files *files, const mrd_files_session *sessions, size_t n);
/* Returns true if the session need not wait for files. No file for the session is then pending or
 * being sent, and all its directories were searched after the RAW time `since`. */
bool mrd_files_idle(const mrd_files *files, uint64_t session, mrd_local_ns since);
/* Makes the next step begin a search of all directories. */
void mrd_files_look(mrd_files *files);
void mrd_files_step(mrd_files *files, mrd_local_ns now);
/* Handles the aggregator's answer to the frame with this tag. If there was no answer, `msg` is NULL
 * and the file is announced again. */
void mrd_files_answer(mrd_files *files, uint64_t tag, const mrd_msg *msg);
/* Returns a descriptor that is readable when a step is due; -1 if there is none. */
int mrd_files_fd(const mrd_files *files);
mrd_local_ns mrd_files_next_ns(const mrd_files *files);
/* Gets the statistics; all are zero if `files` is NULL. */
void mrd_files_get_stats(const mrd_files *files, mrd_files_stats *ret_stats);
/* Returns the kind of a file by its name: "NTFF", "NEFF", "ntrace.pb" and so on, or "file" for an
 * unknown kind. */
const char *mrd_files_kind(const char *name);
/* Finds the instance (node) and pid of a process in a path, such as
 * "i-0ab_pid_77/1700/profile_nc_3_session_0.ntff". If several components name a process, the last
 * one counts. Returns false if none does. */
bool mrd_files_owner(const char *rel, mrd_str *ret_instance, int64_t *ret_pid);
/* Gets the pid (as mrd_files_owner does) and the core that a path names. A value is MRD_NONE if the
 * path does not name it. */
void mrd_files_names(const char *rel, int64_t *ret_pid, int64_t *ret_nc);

#endif
