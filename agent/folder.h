/*
 * agent/folder.h - a capture folder, and a look through it in slices. Only what belongs to the
 * folder's user is seen (agent/owned.h), and only kinds of files that are known; the rest is
 * counted.
 *
 * The folder is kept open, so that it stays readable when its process and container are gone.
 * Threads: one at a time.
 */
#ifndef MRD_AGENT_FOLDER_H
#define MRD_AGENT_FOLDER_H

#include "agent/owned.h"
#include "base/clock.h"

#define MRD_FOLDER_DEPTH   12u
#define MRD_FOLDER_SLICE   256u         /* files of one slice */
#define MRD_FOLDER_TIME    (5 * MRD_MS) /* of one slice */
#define MRD_FOLDER_ENTRIES (1u << 20)   /* of one look, whatever they are */
#define MRD_FOLDER_NAMES   1024u        /* files named one by one */
#define MRD_FOLDER_WATCHES 256u         /* subfolders watched; others are looked through */

typedef struct mrd_folder mrd_folder;

typedef struct {
    const char *proc_root;
    const char *path;             /* in the root of its process */
    const mrd_owned_claim *claim; /* NULL: the operator named it, in our root */
} mrd_folder_options;

typedef struct {
    char *rel; /* below the folder */
    uint64_t size;
    mrd_wall_ns mtime;
} mrd_folder_file;

typedef struct {
    bool over;   /* the look ended with this slice */
    bool there;  /* the folder is */
    bool blind;  /* inotify does not watch all of it */
    mrd_err err; /* DENIED: it is refused, for good when `lost`; the reason */
    bool lost;   /* its process cannot be proved or has ended before it was opened */
    const char *why;
    uint64_t refused;  /* so far in this look: of others, links, ... */
    uint64_t ignored;  /* ... files of unknown kinds */
    uint64_t left_out; /* ... 1 when there are more entries than are looked at */
    uint64_t deep;     /* ... folders that lie deeper than MRD_FOLDER_DEPTH: not looked into */
    const char *ignored_name; /* the first one; "" */
    const char *refused_name;
} mrd_folder_state;

mrd_folder *mrd_folder_new(const mrd_folder_options *options); /* NULL: no memory */
void mrd_folder_free(mrd_folder *f, int inotify);
/* Only files named so; without any name, all. Errors: LIMIT, NOMEM. */
mrd_err mrd_folder_name(mrd_folder *f, const char *name);
void mrd_folder_whole(mrd_folder *f);
/* Goes on with a look, or begins one; inotify -1: none. */
void mrd_folder_slice(mrd_folder *f, int inotify, mrd_folder_state *ret_state);
/* What the last slice found; borrowed until the next. */
const mrd_folder_file *mrd_folder_found(const mrd_folder *f, size_t *ret_n);
/* As mrd_owned_file. */
mrd_err mrd_folder_open(mrd_folder *f, const char *rel, int *ret_fd, struct stat *ret_st,
                        mrd_why *why);

/* Removes the file if the name still belongs to the open file `fd`. Its directories stay until
 * mrd_folder_tidy. */
void mrd_folder_remove(mrd_folder *f, const char *rel, int fd);
/* Removes the folders from which mrd_folder_remove has removed files, this one included, if they are empty and belong to the
 * user. */
void mrd_folder_tidy(mrd_folder *f);

/* "NTFF", "NEFF", "ntrace.pb", ... from a file's name; NULL for kinds that are not known. */
const char *mrd_folder_kind(const char *name);
/* One of the files named one by one: taken whatever its kind. */
bool mrd_folder_is_named(const mrd_folder *f, const char *rel);
/* JSON must be what some importer reads; for other kinds the name decides. */
bool mrd_folder_content(int fd, const char *name);

#endif
