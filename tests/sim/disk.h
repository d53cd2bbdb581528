/*
 * tests/sim/disk.h - disks of simulated machines, in memory, for unmodified code. In a program that
 * is linked with mrd_sim_disk (CMake), calls on paths below /sim/<machine>/ are handled here, and
 * all others by the system.
 *
 * Model    Each file has its written contents and its contents on the medium. Each directory has
 *          its visible names and its names on the medium. fsync and fdatasync of a file make its
 *          bytes and size durable, but not its name. fsync of a directory makes its names durable,
 *          and a rename atomically. syncfs makes everything durable. Hard links, symbolic links
 *          (not followed), locks, holes, and files removed while open follow POSIX. There is no
 *          mmap (ENODEV), no permissions, and no times except the last change. Duplicated
 *          descriptors have separate positions. A disk has space for `quota` bytes: the sizes of
 *          files, and 256 for each name.
 *
 * Faults   `before` is called before each call that changes, syncs or lists something. Its verdict
 *          determines the result: the call fails, is short, or is the machine's last one. All later
 *          calls of a dead machine fail with EIO until sim_disk_kill or sim_disk_cut_power. A
 *          failed fsync loses the unwritten data of its file, as on Linux: readers see it until the
 *          cache drops it, and a later fsync succeeds, but it is not on the medium. After a failed
 *          syncfs, the next fsync of each open descriptor reports it once.
 *
 * Threads: one. All random choices come from the seed.
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
    SIM_DISK_LIST,   /* readdir, which returns the next name or the end */
    SIM_DISK_CALLS
} sim_disk_call;

typedef struct {
    sim_disk *disk;
    sim_disk_call call;
    const char *path; /* below /sim/<machine>; "" is its root */
    size_t len;       /* number of bytes of a WRITE, or the new size for SIZE */
    uint64_t at;      /* WRITE: offset, ignored for descriptors that append */
} sim_disk_op;

/* How a call ends. If all members are zero, the call succeeds. */
typedef struct {
    int err;        /* errno with which the call fails; 0 means that it does not fail */
    bool limited;   /* a WRITE accepts at most `at_most` bytes */
    size_t at_most; /* 0 means that the WRITE fails with err or EIO */
    /* The machine dies in this call. A write has written at_most bytes then, any other call has no
     * effect. */
    bool dies;
    bool lies; /* a sync call succeeds without effect */
} sim_disk_verdict;

typedef struct {
    uint64_t seed;
    uint64_t quota; /* in bytes; 0 for no limit */
    void (*before)(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict); /* or NULL */
    void *self;
    long type; /* statfs: f_type */
} sim_disk_options;

/* Creates a disk at /sim/<machine>. Aborts if the name is in use or memory is short, because it is
 * a test. */
sim_disk *sim_disk_new(const char *machine, const sim_disk_options *options);
void sim_disk_free(sim_disk *d); /* NULL is fine */

/* From now on, calls on the path `from` act on the path `to` below /sim. Tests use it for files such
 * as /proc/.../boot_id, which describe the real machine. Both texts are borrowed. If `to` is NULL,
 * the mapping ends. */
void sim_disk_redirect(const char *from, const char *to);
/* From now on all calls fail with EIO, as after a verdict with `dies`. */
void sim_disk_die(sim_disk *d);
/* Ends the process that used the disk: files are closed and locks released. Written data remains,
 * but data of files with a failed sync is sometimes lost. Calls succeed again. */
void sim_disk_kill(sim_disk *d);

/* Which part of the unsynced data is on the medium after a power failure. */
typedef enum {
    SIM_DISK_NOTHING, /* no unsynced data survives */
    SIM_DISK_ALL,
    SIM_DISK_PREFIX, /* the first names, and a prefix of each file cut at any byte */
    SIM_DISK_ANY,    /* any subset of names and of sectors of 512 bytes; the rest is zero */
    SIM_DISK_KEEPS
} sim_disk_keep;

/* The machine loses its power. This also ends the process that used the disk. */
void sim_disk_cut_power(sim_disk *d, sim_disk_keep keep);

void sim_disk_set_before(sim_disk *d,
                         void (*before)(void *self, const sim_disk_op *op,
                                        sim_disk_verdict *ret_verdict),
                         void *self);
bool sim_disk_is_dead(const sim_disk *d);
void sim_disk_set_quota(sim_disk *d, uint64_t quota);
uint64_t sim_disk_used(const sim_disk *d);
/* Creates another disk with the durable contents of a directory ("" for all), as after the worst
 * power failure. It is empty if there are none. `only` restricts it to one file, NULL for all. */
sim_disk *sim_disk_durable_copy(const sim_disk *d, const char *path, const char *only,
                                const char *machine);
/* Returns the last durable name of the directory that sorts before this one (NULL for the last of
 * all). NULL if there is none. Borrowed. */
const char *sim_disk_durable_name(const sim_disk *d, const char *path, const char *before);
/* Returns a hash of all calls with their bytes and results. */
uint64_t sim_disk_hash(const sim_disk *d);
unsigned sim_disk_open_files(const sim_disk *d);

#endif
