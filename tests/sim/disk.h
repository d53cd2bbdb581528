/*
 * tests/sim/disk.h - disks of simulated machines, in memory, used by unmodified code: a program that
 * is linked with mrd_sim_disk (CMake) has its calls on paths below /sim/<machine>/ answered here,
 * all others by the system.
 *
 * Model    Each file has what is written and what is on the medium, each folder the names it shows
 *          and those on the medium. fsync and fdatasync of a file make its bytes and size durable,
 *          not its name; fsync of a folder makes its names durable, a rename as one; syncfs all of
 *          it. Hard links, symbolic links (not followed), locks, holes and files that were removed
 *          while open are as POSIX has them. No mmap (ENODEV), no permissions, no times but of
 *          the last change; descriptors that are duplicated have positions of their own.
 *          A disk has room for `quota` bytes: sizes of files and 256 for each name.
 *
 * Faults   `before` is asked before each call that changes, syncs or lists something. What it answers is
 *          what happens: the call fails, is short, or is the last one of its machine, whose calls
 *          all fail with EIO from then on, until sim_disk_kill or sim_disk_cut_power. A file whose
 *          fsync failed has lost what was not written (as Linux does): its readers see it until the
 *          cache forgets it, a later fsync succeeds, and it is not on the medium. Where a syncfs
 *          lost it, the next fsync of each descriptor that was open says so, once.
 *
 * Threads: one. Everything random comes from the seed.
 */
#ifndef MRD_TESTS_SIM_DISK_H
#define MRD_TESTS_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_disk sim_disk;

typedef enum {
    SIM_DISK_CREATE, /* open that makes a file */
    SIM_DISK_WRITE,
    SIM_DISK_SIZE, /* ftruncate, fallocate, open with O_TRUNC */
    SIM_DISK_SYNC,
    SIM_DISK_SYNC_FOLDER,
    SIM_DISK_SYNC_ALL,
    SIM_DISK_RENAME,
    SIM_DISK_REMOVE, /* unlink, rmdir */
    SIM_DISK_FOLDER, /* mkdir */
    SIM_DISK_LINK,   /* link, symlink */
    SIM_DISK_LIST,   /* readdir: the next name, or the end */
    SIM_DISK_CALLS
} sim_disk_call;

typedef struct {
    sim_disk *disk;
    sim_disk_call call;
    const char *path; /* below /sim/<machine>; "" is its root */
    size_t len;       /* WRITE: bytes; SIZE: the new size */
    uint64_t at;      /* WRITE: where they begin, but for descriptors that append */
} sim_disk_op;

/* All zero: it is done. */
typedef struct {
    int err;        /* it fails with this errno */
    bool limited;   /* WRITE: no more than `at_most` bytes are taken; */
    size_t at_most; /* of 0 the call fails, with err or EIO */
    bool dies;      /* so much is done of a write, of other calls nothing, and nothing after it */
    bool lies;      /* a sync that says yes and does nothing */
} sim_disk_verdict;

typedef struct {
    uint64_t seed;
    uint64_t quota; /* bytes; 0: without end */
    void (*before)(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict); /* or NULL */
    void *self;
    long type; /* statfs: f_type */
} sim_disk_options;

/* At /sim/<machine>. Aborts when the name is taken or memory is short: it is a test. */
sim_disk *sim_disk_new(const char *machine, const sim_disk_options *options);
void sim_disk_free(sim_disk *d); /* NULL is fine */

/* A path outside of /sim that leads to one below it: what the system says of the machine. Both are
 * borrowed; to NULL: no more. */
void sim_disk_redirect(const char *from, const char *to);
/* From now on all calls fail with EIO, as after a verdict that says so. */
void sim_disk_die(sim_disk *d);
/* The process that used it ended: files are closed, locks given back; what was written is there,
 * but of files whose sync failed now and then not what was lost. Calls succeed again. */
void sim_disk_kill(sim_disk *d);

/* What is there of what was not synced. */
typedef enum {
    SIM_DISK_NOTHING, /* of it */
    SIM_DISK_ALL,
    SIM_DISK_PREFIX, /* of names and of each file from its begin, cut at any byte */
    SIM_DISK_ANY,    /* any set of names and of sectors of 512 bytes; the rest is zeros */
    SIM_DISK_KEEPS
} sim_disk_keep;

/* The machine lost its power. Ends the process as well. */
void sim_disk_cut_power(sim_disk *d, sim_disk_keep keep);

void sim_disk_set_before(sim_disk *d,
                         void (*before)(void *self, const sim_disk_op *op,
                                        sim_disk_verdict *ret_verdict),
                         void *self);
bool sim_disk_is_dead(const sim_disk *d);
void sim_disk_set_quota(sim_disk *d, uint64_t quota);
uint64_t sim_disk_used(const sim_disk *d);
/* Another disk that holds what is on the medium of a folder of this one ("": of all), as after the
 * worst power failure; empty where that is none. only: of this file in it; NULL: of all. */
sim_disk *sim_disk_durable_copy(const sim_disk *d, const char *path, const char *only,
                                const char *machine);
/* The last of the folder's names on the medium that sort before this one (NULL: of all of them);
 * NULL: there is none. Borrowed. */
const char *sim_disk_durable_name(const sim_disk *d, const char *path, const char *before);
/* Of all calls so far with their bytes and results. */
uint64_t sim_disk_hash(const sim_disk *d);
unsigned sim_disk_open_files(const sim_disk *d);

#endif
