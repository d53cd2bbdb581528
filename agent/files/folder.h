/*
 * agent/files/folder.h - searches a capture directory in slices. Returns only files of the
 * directory's user (agent/guard/safe_open.h) and of known kinds. Other files are counted.
 *
 * The directory stays open, so that it can be read after the process that named it and the
 * process's container ended. Only one thread at a time may use a folder.
 */
#ifndef MRD_AGENT_FILES_FOLDER_H
#define MRD_AGENT_FILES_FOLDER_H

#include "agent/files/file_marks.h"
#include "agent/guard/safe_open.h"
#include "base/clock.h"

#define MRD_FOLDER_DEPTH 12u
/* maximum number of files that one slice of a search returns */
#define MRD_FOLDER_SLICE 256u
#define MRD_FOLDER_TIME  (5 * MRD_MS) /* maximum time that one slice of a search takes */
/* maximum number of entries, of any kind, that one search reads */
#define MRD_FOLDER_ENTRIES (1u << 20)
/* maximum number of explicitly named files in one directory */
#define MRD_FOLDER_NAMES 1024u
/* Maximum number of subdirectories with an inotify watch. In further subdirectories, only the
 * periodic search finds changes. */
#define MRD_FOLDER_WATCHES 256u

typedef struct mrd_folder mrd_folder;

typedef struct {
    const char *proc_root;
    const char *path; /* path in the root of the process */
    /* claim of the process that named the directory; NULL means that the operator named it, as a
     * path in the agent's own root */
    const mrd_safe_open_claim *claim;
} mrd_folder_options;

typedef struct {
    const char *rel; /* path below the capture directory */
    uint64_t size;
    mrd_wall_ns mtime, ctime;
    /* The file is a trace file: its name is one of a trace file. If its contents were read, they
     * also have a known format. */
    bool is_trace;
    /* Marks of the contents. They are only computed for a trace file that changed recently;
     * otherwise marks.size is 0. */
    mrd_file_marks marks;
} mrd_folder_file;

typedef struct {
    bool over;  /* the search of the directory is complete with this slice */
    bool there; /* the directory exists */
    bool blind; /* some parts of the directory have no inotify watch */
    /* MRD_DENIED if the directory is refused, with the reason in `why`. If `lost` is also true, the
     * refusal is permanent. */
    mrd_err err;
    /* the process that named the directory cannot be verified, or ended before it was opened */
    bool lost;
    const char *why;
    /* number of files in this search that are links or belong to other users */
    uint64_t refused;
    uint64_t ignored;  /* number of files of unknown kinds in this search */
    uint64_t left_out; /* 1 if the directory has more entries than MRD_FOLDER_ENTRIES */
    /* number of directories that are not searched, because they are deeper than MRD_FOLDER_DEPTH */
    uint64_t deep;
    const char *ignored_name; /* name of the first ignored file; "" if none */
    const char *refused_name;
} mrd_folder_state;

mrd_folder *mrd_folder_new(const mrd_folder_options *options); /* Returns NULL if out of memory. */
void mrd_folder_free(mrd_folder *folder, int inotify);
/* Adds the name of a file that a search looks for. Without any name, a search finds all files of
 * the directory. Errors: LIMIT, NOMEM. */
mrd_err mrd_folder_name(mrd_folder *folder, const char *name);
void mrd_folder_whole(mrd_folder *folder);
/* Continues the current search of the directory for one slice, or begins a search. `inotify` is the
 * descriptor for watches; -1 means that there is none. */
void mrd_folder_slice(mrd_folder *folder, int inotify, mrd_folder_state *ret_state);
/* Returns the files that the last slice found; borrowed until the next slice. */
const mrd_folder_file *mrd_folder_found(const mrd_folder *folder, size_t *ret_n);
/* Opens a file of the directory. Errors: as for mrd_safe_open_file. */
mrd_err mrd_folder_open(mrd_folder *folder, const char *rel, int *ret_fd, struct stat *ret_st,
                        mrd_why *why);

/* Removes the file if the name `rel` still refers to the open file `fd`. Its directories stay until
 * mrd_folder_tidy. */
void mrd_folder_remove(mrd_folder *folder, const char *rel, int fd);
/* Removes the directories from which mrd_folder_remove has removed files, and the capture directory
 * itself, if they are empty and belong to the user. */
void mrd_folder_tidy(mrd_folder *folder);

/* Returns the kind of a file by its name: "NTFF", "NEFF", "ntrace.pb" and so on, or NULL for an
 * unknown kind. */
const char *mrd_folder_kind(const char *name);
/* Returns true if a file with this name is a trace file. The agent reads the events of such files
 * (agent/daemon/traces.h). */
bool mrd_folder_is_trace(const char *name);
/* Returns true if a process named this file explicitly. Such a file is returned even if its kind is
 * unknown. */
bool mrd_folder_is_named(const mrd_folder *folder, const char *rel);
/* Returns true if the contents of a JSON file have a format that an importer reads. Returns true
 * for files of other kinds, because for these the name decides. */
bool mrd_folder_content(int fd, const char *name);

#endif
