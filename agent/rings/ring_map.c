#include "agent/rings/ring_map.h"

#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

static _Thread_local mrd_ring_map *maps;
/* size of the rings that all threads of this process have mapped, in bytes */
static _Atomic size_t mapped;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static size_t page;

/* Handles SIGBUS in a mapped ring: replaces the missing page by a private page of zeros, which the
 * file's owner cannot remove. */
static void
on_bus(int signal, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;

    (void) context;
    for (mrd_ring_map *map = maps; map != NULL; map = map->next)
        if (at >= map->p && at < map->p + map->len &&
            mmap(at - (uintptr_t) at % page, page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
            map->cut = 1;
            return;
        }
    /* The address is not in a ring, or a process sent the signal. Raise it again for the previous
     * handler. */
    (void) sigaction(signal, &before, NULL);
    (void) raise(signal);
}

static void
install(void)
{
    struct sigaction act = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

    page = (size_t) sysconf(_SC_PAGESIZE);
    sigemptyset(&act.sa_mask);
    (void) sigaction(SIGBUS, &act, &before);
}

void
mrd_ring_map_open(mrd_ring_map *map, mrd_ring_reader *reader)
{
    uint64_t len;
    int fd = mrd_ring_file(reader, &len);
    struct statfs fs;
    void *p;

    if (fd < 0 || fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return;
    if (atomic_fetch_add(&mapped, len) + len > MRD_RING_MAP_MAX ||
        (p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        atomic_fetch_sub(&mapped, len);
        return;
    }
    /* a child process would inherit the mapping and hold the file's lock */
    (void) madvise(p, len, MADV_DONTFORK);
    pthread_once(&once, install);
    map->p = p;
    map->len = len;
    map->next = maps;
    maps = map;
    mrd_ring_in_place(reader, p, &map->cut);
}

void
mrd_ring_map_rest(mrd_ring_map *map)
{
    if (map->p != NULL && !map->cut)
        (void) madvise(map->p, map->len, MADV_DONTNEED);
}

void
mrd_ring_map_close(mrd_ring_map *map)
{
    mrd_ring_map **at = &maps;

    if (map->p == NULL)
        return;
    while (*at != map)
        at = &(*at)->next;
    *at = map->next;
    (void) munmap(map->p, map->len);
    atomic_fetch_sub(&mapped, map->len);
    map->p = NULL;
}
