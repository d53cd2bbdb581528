/* tests/sim/disk_int.h - internals of the simulated disks: disk_medium.c (written and durable
 * contents), disk.c (files and paths), disk_calls.c (replaced system calls). */
#ifndef MRD_TESTS_SIM_DISK_INT_H
#define MRD_TESTS_SIM_DISK_INT_H

#include "tests/sim/disk.h"

#include <sys/stat.h>
#include <sys/types.h>

#define SIM_ROOT     "/sim/"
#define SIM_PATH_MAX 1024

typedef enum { NODE_FILE, NODE_FOLDER, NODE_LINK } node_kind;

typedef struct inode inode;

typedef struct {
    char *name;
    uint32_t hash;
    inode *to;
} dir_entry;

typedef struct {
    dir_entry *v;
    size_t n, cap;
} dir_table;

typedef struct {
    size_t from, to;
} dirty_range;

struct inode {
    sim_disk *disk;
    uint64_t number;
    /* references from this simulation, visible names, and open descriptors */
    unsigned refs, names, opens;
    bool given_back; /* the file has no name and is not open, so its bytes are freed */
    node_kind kind;
    unsigned mode;
    int64_t mtime;          /* CLOCK_REALTIME of the last write; not on the medium */
    uint8_t *data, *medium; /* written and durable bytes of a file, or the target of a link */
    size_t len, cap, medium_len, medium_cap;
    dirty_range *dirty; /* in order, apart */
    size_t n_dirty, cap_dirty;
    bool resized;    /* the size changed since the last sync */
    bool unsure;     /* a sync failed, so data and medium differ */
    unsigned errors; /* number of failed syncs */
    bool told;       /* the last failure was already reported by a sync of this file */
    dir_table shown, kept;
    struct open_file *lock;
};

typedef struct open_file {
    sim_disk *disk;
    inode *at;
    int flags;
    uint64_t pos;
    /* number of the file's failed syncs that need not be reported to this descriptor: syncs before
     * it was opened, and those already reported */
    unsigned errors;
    char path[SIM_PATH_MAX];
    int fd;
} open_file;

#define NAME_COST 256u /* bytes of the quota */

/* A change of a name in a directory. The name refers to the inode `to` afterwards, or to none if
 * `to` is NULL. */
typedef struct {
    inode *folder; /* NULL if a later change replaces it */
    char *name;
    inode *to;
} name_change;

/* A change of names by one call, not on the medium yet. A rename has two parts. */
typedef struct {
    name_change part[2];
    unsigned n;
} name_op;

struct sim_disk {
    char machine[64];
    sim_disk_options o;
    uint64_t rng, used, hash, last_number;
    unsigned opens; /* files */
    bool dead;
    inode *root;
    inode **nodes; /* all of them, oldest first */
    size_t n_nodes, cap_nodes;
    name_op *ops;
    size_t n_ops, cap_ops;
};

/* ---- disk_medium.c: aborts if memory runs out ---- */

void sim_must(bool ok);
uint64_t sim_disk_below(sim_disk *d, uint64_t n);
inode *sim_inode_new(sim_disk *d, node_kind kind, unsigned mode);
inode *sim_inode_ref(inode *x);
void sim_inode_unref(inode *x);
void sim_inode_give_back(inode *x); /* frees its bytes when it is no longer reachable */
dir_entry *sim_table_find(const dir_table *t, const char *name);
void sim_table_put(dir_table *t, const char *name, inode *to); /* NULL: removes it */
void sim_table_copy(dir_table *to, const dir_table *from);
void sim_inode_set_len(inode *x, size_t len);
void sim_inode_set_medium_len(inode *x, size_t len);
void sim_inode_mark_dirty(inode *x, size_t from, size_t to);
bool sim_inode_is_dirty(const inode *x);
void sim_inode_sync(inode *x);
void sim_inode_sync_some(inode *x, bool any_size);
void sim_inode_sync_prefix(inode *x);
void sim_inode_forget_cache(inode *x); /* the visible contents become the contents of the medium */
/* Changes a name as part of op. The change is visible at once. */
void sim_names_set(sim_disk *d, name_op *op, inode *folder, const char *name, inode *to);
void sim_names_add(sim_disk *d, const name_op *op);
void sim_names_apply(sim_disk *d, size_t at); /* onto the medium */
void sim_names_remove(sim_disk *d, size_t at);
void sim_names_sync(sim_disk *d, const inode *folder); /* NULL: all */

/* ---- disk.c: results as of the system, -1 and errno ---- */

/* Returns the disk of a path and the rest of the path. NULL if it is not on a simulated disk. */
sim_disk *sim_disk_of(const char *path, const char **ret_rest);
open_file *sim_disk_file(int fd); /* returns NULL if `fd` is not an open simulated file */
/* true if `fd` is in the range of simulated descriptors, open or not */
bool sim_disk_is_fd(int fd);

int sim_disk_open(sim_disk *d, const char *path, int flags, unsigned mode);
int sim_disk_open_again(int fd, int flags); /* of the same file */
int sim_disk_close(int fd);
ssize_t sim_disk_read(int fd, void *to, size_t len, uint64_t at);
ssize_t sim_disk_write(int fd, const void *from, size_t len, uint64_t at);
int sim_disk_resize(int fd, uint64_t len);
int sim_disk_sync(int fd); /* syncs a file or a directory */
int sim_disk_sync_all(sim_disk *d);
int sim_disk_list(int fd); /* called before each name; returns -1 with errno, or 0 */
int sim_disk_rename(sim_disk *d, const char *from, const char *to);
int sim_disk_remove(sim_disk *d, const char *path, bool folder);
int sim_disk_mkdir(sim_disk *d, const char *path);
int sim_disk_link(sim_disk *d, const char *from, const char *to);
int sim_disk_symlink(sim_disk *d, const char *target, const char *path);
int sim_disk_stat(const inode *at, struct stat *ret);
/* NULL with errno if it does not exist or the machine is dead. Borrowed. */
inode *sim_disk_find(sim_disk *d, const char *path);
uint64_t sim_disk_quota(const sim_disk *d);
long sim_disk_type(const sim_disk *d);

#endif
