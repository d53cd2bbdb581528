/*
 * agent/files/files_int.h - internals of agent/files/files.h:
 *
 *   files.c           hashes and sends one file at a time, and has the work of the thread
 *   files_dirs.c      directories and the table of their files
 *   files_sessions.c  which sessions receive the files
 *   files_state.c     pending files
 */
#ifndef MRD_AGENT_FILES_FILES_INT_H
#define MRD_AGENT_FILES_FILES_INT_H

#include <sys/stat.h>

#include "agent/files/files.h"
#include "agent/files/folder.h"
#include "agent/guard/job_thread.h"
#include "base/hash.h"
#include "base/index.h"

/*
 * State of a file. In all states after SEEN, no session waits for the file.
 *
 *   SEEN      the file is pending
 *   DONE      all sessions that wanted the file received it
 *   GIVEN_UP  the file could not be read
 *   REFUSED   a session refused the file, but another one may take it
 *   EARLIER   no session takes the file
 *   IGNORED   the file's kind is unknown, or the file was removed after a session received it
 */
typedef enum { SEEN, DONE, GIVEN_UP, REFUSED, EARLIER, IGNORED } file_state;

/* a set of sessions; bit i stands for the session mrd_files.sessions[i] */
typedef uint32_t session_set;

typedef struct {
    char *path;
    const char *rel; /* the part of `path` below the capture directory; points into `path` */
    unsigned dir;
    /* next file of the same directory, as its index in mrd_files.files plus 1; 0 means none */
    uint32_t next;
    uint64_t size;
    mrd_wall_ns mtime, ctime;
    /* marks (hashes of small parts) of this version of the file, see mrd_folder_file */
    mrd_file_marks marks;
    bool is_trace;
    bool passed; /* this version of the file was passed to options.complete */
    /* the file begins with the contents of a version that was passed to options.complete */
    bool grown;
    /* number of earlier versions that a session wanted and that were replaced before they were
     * read; only for trace files */
    uint32_t replaced;
    mrd_local_ns still_since;
    file_state state;
    /* options.complete was called for this version; false again if the version is sent to new
     * sessions */
    bool told;
    bool had;          /* at least one session received this version */
    session_set given; /* sessions that received this version, or refused it permanently */
    /* number of the last search of the directory (dir.look) that found the file */
    uint64_t look;
} file;

/* A process that named a directory. */
typedef struct {
    int64_t pid;
    bool captures; /* the process is capturing, so its runtime may need empty directories */
} namer;

typedef struct {
    bool used;
    /* path of the directory, or the path through which a container's directory is reached */
    char *label;
    mrd_folder *folder;
    /* user and process of the files in the directory; MRD_OWNED_ANY and MRD_NONE mean any */
    int64_t uid, pid;
    /* processes that named the directory; it is dropped when none is left */
    namer *namers;
    size_t n_namers, cap_namers;
    bool whole;           /* all files of the directory are searched, not only named ones */
    bool any_age, remove; /* same meaning as in mrd_files_place */
    /* sessions that select a process that named the directory, so they want its files */
    session_set wanted;
    mrd_strlist names; /* names of single files that were added since the directory's last search */
    /* the process cannot be verified, so the directory is never searched again */
    bool refused_for_good;
    bool hung; /* the directory is skipped until its file system answers again */
    /* first file of the directory, as its index in mrd_files.files plus 1; 0 means none */
    uint32_t first;
    size_t n_files, waiting;
    uint64_t look; /* number of the directory's current or last search */
    bool looking, blind;
    mrd_local_ns look_at, began_at, looked_at;
    /* when a process that named the directory last ended, or last ended a capture */
    mrd_local_ns ended_at;
    mrd_dur_ns took_ns;
    /* Numbers of the thread's turns in which it last searched this directory, and last worked on a
     * file of it. The user whose last turn is the oldest is served next. */
    uint64_t looks_turn, files_turn;
    uint64_t beyond, refused, ignored, deep, not_traces, elsewhere;
    bool said_refused, said_ignored, said_deep, said_names, said_elsewhere;
    char said[MRD_WHY_MAX];
} dir;

typedef enum { IDLE, OPENING, HASHING, ANNOUNCING, SENDING, FINISHING, REMOVING } stage;

typedef enum { NOTHING, LOOK, OPEN, HASH, READ, REMOVE } work_kind;

/* An operation of the thread with its data. Only the thread may use the data until the operation
 * has finished. */
typedef struct {
    work_kind kind;
    mrd_folder *folder;
    unsigned dir;
    bool may_tidy; /* empty directories may be removed, because no running capture needs them */
    int inotify;
    mrd_folder_state look;
    const char *rel;
    int fd;
    uint64_t offset, n;
    mrd_dur_ns took_ns;
    mrd_sha256 *sha;
    uint8_t *chunk;
    struct stat st;
    bool writing, known;
    mrd_err err;
    mrd_why why;
} work;

/* An operation that hangs because its file system does not answer. Its data must be kept until its
 * thread returns. */
#define MRD_FILES_HUNG 8u
typedef struct {
    mrd_job_thread *worker;
    work *work;
    /* path of the file on which the operation hangs; NULL means that it searches a directory */
    char *path;
    int64_t uid;
    /* name of the directory for the log; a copy, because the directory may be dropped meanwhile */
    char *label;
} hung;

struct mrd_files {
    mrd_files_options o;
    dir dirs[MRD_FILES_DIRS];
    file *files;
    size_t n, cap;
    mrd_index by_path; /* finds a file by directory and path */
    int inotify, polled;
    uint64_t turn;
    bool file_next;       /* the thread's next operation works on a file instead of a search */
    mrd_local_ns pick_at; /* time before which no pending file can be complete */
    mrd_files_session
        /* a session keeps its slot while it exists; id 0 marks a free slot */
        sessions[MRD_FILES_SESSIONS];
    mrd_job_thread *worker;
    bool worker_polled;
    work *work;
    mrd_local_ns posted_at;
    int64_t refused_pids[1024]; /* pids of the processes that named the refused directories */
    hung hung[MRD_FILES_HUNG];
    size_t n_hung;
    /* The members from here on are about the file that is being hashed or sent. */
    stage stage;
    size_t at;
    /* the file changed while it was sent; its new version is sent afterwards */
    bool changed;
    int fd;
    mrd_sha256 *sha;
    char hex[MRD_SHA256_HEX];
    uint64_t offset;
    size_t chunk_len; /* length of the chunk that was read but not sent yet */
    /* slot in `sessions` of the session that receives the file, set from the stage ANNOUNCING on */
    unsigned to;
    uint64_t to_id;  /* id of the session that receives the file */
    mrd_why refused; /* why a session refused the file; empty if none did */
    bool asked;      /* a request about the file was sent and not answered yet */
    uint64_t tag;
    mrd_local_ns again_at;
    unsigned tries;
    mrd_buf frame;
    mrd_buf path; /* buffer for the path of a file that a search found */
    uint8_t *chunk;
    mrd_files_stats stats;
};

/* ---- files_state.c ---- */

/* Counts the file as pending. */
void mrd_files_wait(mrd_files *files, file *one);
/* Marks a pending file as no longer pending. `state` is the new state, one of DONE and after. */
void mrd_files_finish(mrd_files *files, file *one, file_state state);
/* Handles the removal of a pending file. Returns true if no session had the file, so that the file
 * counts as lost. */
bool mrd_files_lost(mrd_files *files, file *one);
/* Fills a description of the file, for options.complete or options.missed. */
mrd_files_complete mrd_files_describe(const mrd_files *files, const file *one);
/* Returns true if the file is a trace file and its current version was not passed to
 * options.complete. */
bool mrd_files_is_unread(const file *one);
/* Handles a file that cannot be read any more. Reports it (options.missed) if sessions wanted its
 * events and did not get them. */
void mrd_files_miss(mrd_files *files, file *one, const char *reason);
/* Makes files in the states DONE, REFUSED and EARLIER pending if a session wants them now. Call it
 * when there is a new session, or one with another start. */
void mrd_files_judge_again(mrd_files *files);

/* ---- files_dirs.c ---- */

/* Makes mrd_files_fd readable when this descriptor is readable. */
void mrd_files_poll(mrd_files *files, int fd);
/* Handles the result of a slice of a directory search, when the thread has finished it. */
void mrd_files_looked(mrd_files *files, mrd_local_ns now);
/* mrd_files_due returns when the directory may be searched; INT64_MAX means never. mrd_files_choose
 * gets the directory to search next, and returns false if none is due. */
mrd_local_ns mrd_files_due(const dir *d);
bool mrd_files_choose(const mrd_files *files, mrd_local_ns now, unsigned *ret_at);
/* Returns true if a process that named the directory is capturing. */
bool mrd_files_is_captured_into(const dir *d);
/* Passes names that processes added to the folder that searches the directory. They are kept in
 * d->names while the thread may use the folder. */
void mrd_files_tell(mrd_files *files, dir *d);
/* Returns the number of the turn in which the thread last worked for a user. This decides which
 * user is next. If `looks` is true, only searches count, otherwise only files. */
uint64_t mrd_files_served(const mrd_files *files, int64_t uid, bool looks);
/* Ends all pending files of the directory as failed, because they cannot be read. */
void mrd_files_give_up(mrd_files *files, unsigned at, const char *message);
void mrd_files_sum(mrd_files *files);
void mrd_files_say(dir *d); /* Logs the problems of the directory, each once. */
/* mrd_files_drop drops a directory with its files. mrd_files_forget_dirs drops all directories that
 * are not needed any more. */
void mrd_files_drop(mrd_files *files, unsigned at);
void mrd_files_forget_dirs(mrd_files *files);

/* ---- files_sessions.c ---- */

/* Returns true if there is at least one session that receives files. */
bool mrd_files_have_sessions(const mrd_files *files);
/* Returns the sessions that should get the file and do not have it yet. */
session_set mrd_files_takers(const mrd_files *files, const file *one);
/* Finds the sessions that want files of the directory. Call it when a process has named the
 * directory. */
void mrd_files_ask(mrd_files *files, dir *d, int64_t pid);
/* Chooses the next session that should get the current file. Returns false if there is none. */
bool mrd_files_next_taker(mrd_files *files);

#endif
