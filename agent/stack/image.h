/*
 * agent/stack/image.h - reads the memory of another process, and finds the names of its functions.
 *
 * Everything is read from the memory of the process (/proc/PID/mem), including the symbol tables of
 * its libraries. So no file of the workload is opened, no process is stopped, and a later process
 * with the same pid is never read. All contents are untrusted.
 *
 * Rights   The caller needs the right to attach to the process: as the same user, or with
 *          CAP_SYS_PTRACE.
 * Memory   Symbols take at most MRD_SPACE_SYMBOLS bytes per process. If the symbols of a library do
 *          not fit, its addresses have no name.
 * Threads  Different threads may use different mrd_space objects at the same time.
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
    /* address in the process minus the address in the file; valid if `dynamic` is not 0 */
    uint64_t bias;
    /* addresses of the dynamic section and of .eh_frame_hdr in the process; 0 if the file has
     * none */
    uint64_t dynamic, eh_frame_hdr;
    char name[64]; /* last component of the file's path */
    bool was_read, has_symbols;
    Elf64_Sym *symbols;
    size_t n_symbols;
    char *names; /* names of the symbols; the last byte is NUL */
    size_t names_len;
} mrd_image;

typedef struct {
    uint64_t begin, end;
} mrd_space_range;

/* The memory of one process. */
typedef struct {
    int proc, mem;         /* descriptors of the directory /proc/PID and of its file "mem" */
    mrd_local_ns deadline; /* time after which all reads fail */
    /* Ranges of addresses that are not read, in ascending order. They map files on FUSE, which a
     * program serves. If it does not answer, the kernel blocks a reader, and not even SIGKILL ends
     * it. */
    mrd_space_range *unread;
    size_t n_unread, cap_unread;
    mrd_image *images;
    size_t n, cap, symbol_bytes;
} mrd_space;

/* Opens the memory of a process of user `uid`. The process must have started at start_ticks; -1
 * accepts any start. Errors: NOTFOUND (the process ended), STATE (the process now has the rights of
 * another user), DENIED, NOMEM. */
mrd_err mrd_space_open(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid,
                       mrd_local_ns deadline, mrd_space *ret_space);
/* Returns false if the process now has the rights of another user, for example because it executed
 * a set-uid program. The user that started the process may then not see its memory. */
bool mrd_space_is_of(const mrd_space *space, int64_t uid);
void mrd_space_close(mrd_space *space);
/* Reads `size` bytes at this address of the process. Returns false if they cannot be read. */
bool mrd_space_read(const mrd_space *space, uint64_t at, void *to, size_t size);
/* Reads the text of a file below /proc/PID, such as "task/7/stat", without its last line end.
 * Returns false if the file cannot be read. */
bool mrd_space_text(const mrd_space *space, const char *path, char *to, size_t size);
/* Returns the library or program that is mapped at this address of the process. NULL if there is
 * none. */
mrd_image *mrd_space_image(mrd_space *space, uint64_t at);
/* Returns the address of an exported symbol in the first image with `image` in its name; 0 if there
 * is none. */
uint64_t mrd_space_find(mrd_space *space, const char *image, const char *symbol);
/* Returns the exported function that contains this address. NULL if there is none. */
const char *mrd_space_function(mrd_space *space, mrd_image *image, uint64_t at);

#endif
