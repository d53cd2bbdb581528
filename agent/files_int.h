/*
 * agent/files_int.h - inside of files: files.c (one file through, and the thread's work),
 * files_dirs.c (directories and the table of their files), files_sessions.c (which sessions get them),
 * files_state.c (what waits).
 */
#ifndef MRD_AGENT_FILES_INT_H
#define MRD_AGENT_FILES_INT_H

#include <sys/stat.h>

#include "agent/files.h"
#include "agent/folder.h"
#include "agent/job_thread.h"
#include "base/hash.h"
#include "base/index.h"

/* REFUSED: by a session, and another one may take it; EARLIER: no session takes it; IGNORED: of an
 * unknown kind, or gone since a session had it. From DONE on nothing waits for it. */
typedef enum { SEEN, DONE, GIVEN_UP, REFUSED, EARLIER, IGNORED } file_state;

typedef uint32_t session_set; /* bits of places in mrd_files.sessions */

typedef struct {
    char *path;
    const char *rel; /* inside path: below the capture directory */
    unsigned dir;
    uint32_t next; /* of the same directory: index + 1 */
    uint64_t size;
    mrd_wall_ns mtime;
    mrd_local_ns still_since;
    file_state state;
    bool told;         /* to options.complete */
    bool had;          /* by a session, as it is */
    session_set given; /* these have it, or refused it for good */
    uint64_t look;     /* number of the directory's last look that met it */
} file;

/* A process that named a directory. */
typedef struct {
    int64_t pid;
    bool captures; /* the runtime may write into folders that it has made there */
} namer;

typedef struct {
    bool used;
    char *label; /* its path, or how a container's is reached */
    mrd_folder *folder;
    int64_t uid, pid; /* whose; MRD_OWNED_ANY, MRD_NONE */
    namer *namers;    /* Processes that named the directory. It is dropped when there are none. */
    size_t n_namers, cap_namers;
    bool whole;           /* not only files that were named */
    bool any_age, remove; /* as in mrd_files_place */
    session_set wanted;   /* by these, since a process that they select named it */
    char **names;         /* named since its last look */
    size_t n_names, cap_names;
    bool refused_for_good; /* its process is not who its ring says */
    bool hung;             /* its file system does not answer: it is left alone until it does */
    uint32_t first;        /* of its files: index + 1 */
    size_t n_files, waiting;
    uint64_t look; /* number of the look under way or the last one */
    bool looking, blind;
    mrd_local_ns look_at, began_at, looked_at;
    mrd_local_ns ended_at; /* when a process here, or its capture, ended last */
    mrd_dur_ns took_ns;
    uint64_t looks_turn, files_turn; /* when its user had a slice, a file */
    uint64_t beyond, refused, ignored, deep, not_traces, elsewhere;
    bool said_refused, said_ignored, said_deep, said_names, said_elsewhere;
    char said[MRD_WHY_MAX];
} dir;

typedef enum { IDLE, OPENING, HASHING, ANNOUNCING, SENDING, FINISHING, REMOVING } stage;

typedef enum { NOTHING, LOOK, OPEN, HASH, READ, REMOVE } work_kind;

/* A task, and all it touches: the worker's while it is under way. */
typedef struct {
    work_kind kind;
    mrd_folder *folder;
    unsigned dir;
    bool may_tidy; /* no capture is open that needs the folders */
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

/* A task on a file system that does not answer, with all it touches, until it does. */
#define MRD_FILES_HUNG 8u
typedef struct {
    mrd_job_thread *worker;
    work *work;
    char *path; /* of the file; NULL: a look */
    int64_t uid;
    char *label; /* of the directory, which may be dropped meanwhile */
} hung;

struct mrd_files {
    mrd_files_options o;
    dir dirs[MRD_FILES_DIRS];
    file *files;
    size_t n, cap;
    mrd_index by_path; /* by directory and path */
    int inotify, polled;
    uint64_t turn;
    bool file_next;       /* a file's work comes before a look's */
    mrd_local_ns pick_at; /* no file stands still for long enough before */
    mrd_files_session
        sessions[MRD_FILES_SESSIONS]; /* each in one place while it is there; id 0: free */
    mrd_job_thread *worker;
    bool worker_polled;
    work *work;
    mrd_local_ns posted_at;
    int64_t refused_pids[1024]; /* of directories that were refused */
    hung hung[MRD_FILES_HUNG];
    size_t n_hung;
    /* The file under way. */
    stage stage;
    size_t at;
    bool changed; /* since it was begun: what comes is taken when this version is through */
    int fd;
    mrd_sha256 *sha;
    char hex[MRD_SHA256_HEX];
    uint64_t offset;
    size_t chunk_len; /* read and not sent */
    unsigned to;      /* place of the session that it is for, from ANNOUNCING on */
    uint64_t to_id;   /* which session had that place */
    mrd_why refused;  /* why one of its sessions did not take it; empty: none refused */
    bool asked;       /* a request is out */
    uint64_t tag;
    mrd_local_ns again_at;
    unsigned tries;
    mrd_buf frame;
    uint8_t *chunk;
    mrd_files_stats stats;
};

/* ---- files_state.c ---- */

/* From here on it waits; from here on it does not (state: from DONE on). */
void mrd_files_wait(mrd_files *f, file *one);
void mrd_files_finish(mrd_files *f, file *one, file_state state);
/* It waited, and is not there any more. True: no session had it, so it is lost, and counted. */
bool mrd_files_lost(mrd_files *f, file *one);
/* What is DONE, REFUSED or EARLIER is judged again: another session is there, or one with another start. */
void mrd_files_judge_again(mrd_files *f);

/* ---- files_dirs.c ---- */

/* Waits for this descriptor, too. */
void mrd_files_poll(mrd_files *f, int fd);
/* A slice of a look is done. */
void mrd_files_looked(mrd_files *f, mrd_local_ns now);
/* When the directory may be looked at, INT64_MAX never; the one to go on with, false: none. */
mrd_local_ns mrd_files_due(const dir *d);
bool mrd_files_choose(const mrd_files *f, mrd_local_ns now, unsigned *ret_at);
/* A process captures into the directory. */
bool mrd_files_is_captured_into(const dir *d);
/* Hands the folder what was asked for while the thread may have had it. */
void mrd_files_tell(mrd_files *f, dir *d);
/* When a user had its last slice (looks), or its last file. */
uint64_t mrd_files_served(const mrd_files *f, int64_t uid, bool looks);
/* Files of the directory that wait are given up: what is written there cannot be read. */
void mrd_files_give_up(mrd_files *f, unsigned at, const char *message);
void mrd_files_sum(mrd_files *f);
void mrd_files_say(dir *d); /* once for each directory */
/* A directory with what is known of its files; those that are not needed any more. */
void mrd_files_drop(mrd_files *f, unsigned at);
void mrd_files_forget_dirs(mrd_files *f);

/* ---- files_sessions.c ---- */

/* There is one at least. */
bool mrd_files_have_sessions(const mrd_files *f);
/* Who is to get the file and does not have it. */
session_set mrd_files_takers(const mrd_files *f, const file *one);
/* A process has named the directory: who wants its files? */
void mrd_files_ask(mrd_files *f, dir *d, int64_t pid);
/* The file under way goes to the next session that is to get it; false: there is none. */
bool mrd_files_next_taker(mrd_files *f);

#endif
