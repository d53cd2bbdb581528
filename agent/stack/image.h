/*
 * agent/stack/image.h - the memory of another process, and the names of its functions.
 *
 * Everything is read from the memory of the process (/proc/PID/mem), also the symbol tables of its
 * libraries. So no file of the workload is opened, no process is stopped, and another process that
 * gets the same pid is never read. All contents are untrusted.
 *
 * Rights   those to attach to the process: the same user, or CAP_SYS_PTRACE.
 * Memory   MRD_SPACE_SYMBOLS bytes of symbols per process. Without room, addresses have no name.
 * Threads  stateless.
 */
#ifndef MRD_AGENT_STACK_IMAGE_H
#define MRD_AGENT_STACK_IMAGE_H

#include <elf.h>

#include "base/buf.h"
#include "base/clock.h"

#define MRD_SPACE_IMAGES  2048u
#define MRD_SPACE_SYMBOLS (32u << 20)

/* A library or program that is mapped into the process. */
typedef struct {
    uint64_t begin, end, inode;
    uint64_t bias; /* added to addresses of the file; valid if `dynamic` is not 0 */
    uint64_t dynamic, eh_frame_hdr; /* addresses of its tables; 0 if it has none */
    char name[64];                  /* last part of the path */
    bool was_read, has_symbols;
    Elf64_Sym *symbols;
    size_t n_symbols;
    char *names; /* terminated by NUL */
    size_t names_len;
} mrd_image;

/* The memory of one process. */
typedef struct {
    int proc, mem;         /* the directory /proc/PID, and its file "mem" */
    mrd_local_ns deadline; /* reads fail after this time */
    mrd_image *images;
    size_t n, cap, symbol_bytes;
} mrd_space;

/* Opens a process of user `uid` that began at start_ticks (-1: at any time). Errors: NOTFOUND (it
 * ended), STATE (mrd_space_is_of), DENIED, NOMEM. */
mrd_err mrd_space_open(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid,
                       mrd_local_ns deadline, mrd_space *ret_space);
/* Returns false if the process has the rights of another user now, for example because it executed
 * a set-uid program. Its user may not see such a process. */
bool mrd_space_is_of(const mrd_space *space, int64_t uid);
void mrd_space_close(mrd_space *space);
/* Reads `size` bytes at this address. Returns false if they cannot be read. */
bool mrd_space_read(const mrd_space *space, uint64_t at, void *to, size_t size);
/* Reads the text of a file below /proc/PID, such as "task/7/stat", without its last line end.
 * Returns false if the file cannot be read. */
bool mrd_space_text(const mrd_space *space, const char *path, char *to, size_t size);
/* Returns the image at this address. NULL if there is none. */
mrd_image *mrd_space_image(mrd_space *space, uint64_t at);
/* Returns the address of an exported symbol in the first image whose name contains `image`; 0 if
 * there is none. */
uint64_t mrd_space_find(mrd_space *space, const char *image, const char *symbol);
/* Returns the exported function that contains this address. NULL if there is none. */
const char *mrd_space_function(mrd_space *space, mrd_image *image, uint64_t at);

#endif
