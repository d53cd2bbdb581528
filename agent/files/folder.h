/*
 * agent/files/folder.h - a capture directory, and a search through it in slices. Finds only files
 * of the directory's user (agent/guard/safe_open.h) and of known kinds; the others are counted.
 *
 * The directory stays open, so that it can be read after its process and container ended. Threads:
 * one at a time.
 */
#ifndef MRD_AGENT_FILES_FOLDER_H
#define MRD_AGENT_FILES_FOLDER_H

#include "agent/files/file_marks.h"
#include "agent/guard/safe_open.h"
#include "base/clock.h"

#define MRD_FOLDER_DEPTH   12u
#define MRD_FOLDER_SLICE   256u         /* maximum number of files in one slice */
#define MRD_FOLDER_TIME    (5 * MRD_MS) /* maximum time of one slice */
#define MRD_FOLDER_ENTRIES (1u << 20)   /* maximum number of entries of any kind in one search */
#define MRD_FOLDER_NAMES   1024u        /* maximum number of files that are searched by name */
/* maximum number of watched subdirectories; others are only searched */
#define MRD_FOLDER_WATCHES 256u

typedef struct mrd_folder mrd_folder;

typedef struct {
    const char *proc_root;
    const char *path; /* path in the root of the process */
    /* NULL means that the operator named the directory, in our root */
    const mrd_safe_open_claim *claim;
} mrd_folder_options;

typedef struct {
    const char *rel; /* path below the capture directory */
    uint64_t size;
    mrd_wall_ns mtime, ctime;
    /* the file has the name of a trace file, and its contents if they were read */
    bool is_trace;
    /* marks of a trace file that changed recently; other files are not read */
    mrd_file_marks marks;
} mrd_folder_file;

typedef struct {
    bool over;   /* the search ended with this slice */
    bool there;  /* the directory exists */
    bool blind;  /* inotify does not watch all of it */
    mrd_err err; /* DENIED if the directory is refused (for good if `lost`); message in `why` */
    /* the directory's process cannot be verified, or ended before the directory was opened */
    bool lost;
    const char *why;
    uint64_t refused;  /* number of files of other users, links and similar in this search */
    uint64_t ignored;  /* number of files of unknown kinds in this search */
    uint64_t left_out; /* 1 if there are more entries than the limit */
    uint64_t deep; /* number of directories deeper than MRD_FOLDER_DEPTH, which are not searched */
    const char *ignored_name; /* name of the first ignored file; "" if none */
    const char *refused_name;
} mrd_folder_state;

mrd_folder *mrd_folder_new(const mrd_folder_options *options); /* Returns NULL if out of memory. */
void mrd_folder_free(mrd_folder *folder, int inotify);
/* Searches only files with this name. Without any name, searches all. Errors: LIMIT, NOMEM. */
mrd_err mrd_folder_name(mrd_folder *folder, const char *name);
void mrd_folder_whole(mrd_folder *folder);
/* Continues a search, or begins one. `inotify` is the descriptor for watches; -1 means none. */
void mrd_folder_slice(mrd_folder *folder, int inotify, mrd_folder_state *ret_state);
/* Returns the files that the last slice found; borrowed until the next slice. */
const mrd_folder_file *mrd_folder_found(const mrd_folder *folder, size_t *ret_n);
/* Opens a file of the directory; errors as mrd_safe_open_file. */
mrd_err mrd_folder_open(mrd_folder *folder, const char *rel, int *ret_fd, struct stat *ret_st,
                        mrd_why *why);

/* Removes the file if the name still refers to the open file `fd`. Its directories stay until
 * mrd_folder_tidy. */
void mrd_folder_remove(mrd_folder *folder, const char *rel, int fd);
/* Removes the directories from which mrd_folder_remove has removed files, including this one, if
 * they are empty and belong to the user. */
void mrd_folder_tidy(mrd_folder *folder);

/* Returns "NTFF", "NEFF", "ntrace.pb", ... from a file's name; NULL for unknown kinds. */
const char *mrd_folder_kind(const char *name);
/* Returns true if this is the name of a trace file. The agent reads the events of trace files
 * (agent/daemon/traces.h). */
bool mrd_folder_is_trace(const char *name);
/* Returns true if the file was named explicitly, so that it is taken whatever its kind. */
bool mrd_folder_is_named(const mrd_folder *folder, const char *rel);
/* Returns true if the content of a JSON file is of a format that an importer reads. For other kinds
 * the name decides. */
bool mrd_folder_content(int fd, const char *name);

#endif
