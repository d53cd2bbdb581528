/*
 * agent/files/folder.h - a capture directory, and a search through it in slices. Finds only files of the
 * directory's user (agent/guard/safe_open.h) and of known kinds; the others are counted.
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
#define MRD_FOLDER_SLICE   256u         /* files of one slice */
#define MRD_FOLDER_TIME    (5 * MRD_MS) /* of one slice */
#define MRD_FOLDER_ENTRIES (1u << 20)   /* of one search, of any kind */
#define MRD_FOLDER_NAMES   1024u        /* files named one by one */
#define MRD_FOLDER_WATCHES 256u         /* watched subdirectories; others are searched */

typedef struct mrd_folder mrd_folder;

typedef struct {
    const char *proc_root;
    const char *path;                 /* in the root of its process */
    const mrd_safe_open_claim *claim; /* NULL means that the operator named it, in our root */
} mrd_folder_options;

typedef struct {
    const char *rel; /* below the folder */
    uint64_t size;
    mrd_wall_ns mtime, ctime;
    /* has the name of a trace file and, if it was read, the contents */
    bool is_trace;
    mrd_file_marks marks; /* of a trace file that changed of late; others are not read */
} mrd_folder_file;

typedef struct {
    bool over;   /* the search ended with this slice */
    bool there;  /* the folder is */
    bool blind;  /* inotify does not watch all of it */
    mrd_err err; /* DENIED if it is refused, for good if `lost`; with the reason */
    bool lost;   /* its process cannot be verified, or ended before the directory was opened */
    const char *why;
    uint64_t refused;  /* in this search: files of other users, links, ... */
    uint64_t ignored;  /* ... files of unknown kinds */
    uint64_t left_out; /* ... 1 if there are more entries than the limit */
    uint64_t deep;     /* ... directories deeper than MRD_FOLDER_DEPTH, which are not searched */
    const char *ignored_name; /* the first one; "" */
    const char *refused_name;
} mrd_folder_state;

mrd_folder *mrd_folder_new(const mrd_folder_options *options); /* NULL: no memory */
void mrd_folder_free(mrd_folder *folder, int inotify);
/* Searches only files with this name. Without any name, searches all. Errors: LIMIT, NOMEM. */
mrd_err mrd_folder_name(mrd_folder *folder, const char *name);
void mrd_folder_whole(mrd_folder *folder);
/* Continues a search, or begins one. inotify -1 means none. */
void mrd_folder_slice(mrd_folder *folder, int inotify, mrd_folder_state *ret_state);
/* Returns the files that the last slice found; borrowed until the next slice. */
const mrd_folder_file *mrd_folder_found(const mrd_folder *folder, size_t *ret_n);
/* As mrd_safe_open_file. */
mrd_err mrd_folder_open(mrd_folder *folder, const char *rel, int *ret_fd, struct stat *ret_st,
                        mrd_why *why);

/* Removes the file if the name still belongs to the open file `fd`. Its directories stay until
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
