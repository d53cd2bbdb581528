/*
 * tests/agent/ring_make.h - writes honest and hostile ring files by hand, following docs/reference/ring.md,
 * so that tests of the reader need no workload. Times are of the RAW clock and given by the caller.
 */
#ifndef MRD_TESTS_AGENT_RING_MAKE_H
#define MRD_TESTS_AGENT_RING_MAKE_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/ring/ring_read.h"
#include "tests/check.h"

typedef struct {
    mrd_ring_hdr *h;
    uint8_t *dict, *data;
    size_t len;
    char path[1024];
    uint64_t written, lost; /* records written; records that found no space */
    uint32_t next_id;
    void *next_maker;
} maker;

static maker *make_all; /* makers that live until the process exits */

static inline void
make_boot(uint8_t id[16])
{
    char text[64] = "", *p = text;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (f == NULL || fgets(text, sizeof(text), f) == NULL)
        abort();
    fclose(f);
    for (int i = 0; i < 16; i++) {
        unsigned v;

        if (*p == '-')
            p++;
        sscanf(p, "%2x", &v);
        id[i] = (uint8_t) v;
        p += 2;
    }
}

static inline uint64_t
make_start_ticks(int pid)
{
    char path[64], text[1024] = "";
    unsigned long long v = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    if (fgets(text, sizeof(text), f) == NULL)
        text[0] = '\0';
    fclose(f);
    if (strrchr(text, ')') != NULL)
        sscanf(strrchr(text, ')') + 2,
               "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &v);
    return v;
}

/* Returns the pid of an exited process, and the start time that it had. */
static inline int
make_dead_pid(uint64_t *ret_start)
{
    int pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    *ret_start = make_start_ticks(pid);
    kill(pid, 9);
    waitpid(pid, NULL, 0);
    return pid;
}

static inline maker *
make_ring(const char *dir, int pid, uint64_t start, int tid, size_t data_len)
{
    maker *m = calloc(1, sizeof(*m));
    struct stat ns;
    mrd_ring_name name = { .pid = pid, .tid = tid, .start_ticks = start };
    char file[MRD_RING_NAME_MAX];
    mrd_ring_cal cal;
    int fd;

    make_boot(name.boot_id);
    mrd_ring_name_print(&name, file);
    snprintf(m->path, sizeof(m->path), "%s/%s", dir, file);
    m->len = MRD_RING_HEADER_LEN + 65536 + data_len;
    fd = open(m->path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, (off_t) m->len) != 0)
        abort();
    m->h = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    m->dict = (uint8_t *) m->h + MRD_RING_HEADER_LEN;
    m->data = m->dict + 65536;
    m->h->abi = MRD_RING_ABI;
    m->h->header_len = MRD_RING_HEADER_LEN;
    m->h->dict_len = 65536;
    m->h->clock = MRD_RING_CLOCK_RAW;
    m->h->data_len = data_len;
    m->h->start_ticks = start;
    m->h->pid = pid;
    m->h->tid = tid;
    m->h->uid = getuid();
    if (stat("/proc/self/ns/pid", &ns) == 0)
        m->h->pid_ns = ns.st_ino;
    memcpy(m->h->boot_id, name.boot_id, 16);
    m->h->created_ns = mrd_local_now().ns;
    cal = (mrd_ring_cal){ (uint64_t) m->h->created_ns, m->h->created_ns, mrd_wall_now().ns, 50 };
    m->h->cal[0] = m->h->cal[1] = cal;
    atomic_store(&m->h->state, MRD_RING_LIVE);
    memcpy(m->h->magic, MRD_RING_MAGIC, 8);
    m->next_id = 1;
    m->next_maker = make_all;
    make_all = m;
    return m;
}

static inline void
make_free(maker *m)
{
    munmap(m->h, m->len);
    m->h = NULL; /* the struct stays in the list */
}

static inline void
make_ident(maker *m, const char *text)
{
    m->h->ident_len = (uint32_t) strlen(text);
    memcpy(m->h->ident, text, strlen(text));
}

static inline uint32_t
make_entry(maker *m, int type, uint32_t id, const void *fixed, size_t fixed_len, const char *text)
{
    uint64_t at = atomic_load(&m->h->dict_head);
    mrd_ring_dict e = { .type = (uint8_t) type,
                        .text_len = (uint16_t) strlen(text),
                        .len =
                            (uint32_t) ((sizeof(e) + fixed_len + strlen(text) + 7) & ~(size_t) 7),
                        .id = id };

    memcpy(m->dict + at, &e, sizeof(e));
    if (fixed_len > 0)
        memcpy(m->dict + at + sizeof(e), fixed, fixed_len);
    memcpy(m->dict + at + sizeof(e) + fixed_len, text, strlen(text));
    atomic_store(&m->h->dict_head, at + e.len);
    return id;
}

/* The following records belong to this thread. */
static inline void
make_thread(maker *m, int tid, const char *name)
{
    mrd_ring_dict *e = (mrd_ring_dict *) (void *) (m->dict + atomic_load(&m->h->dict_head));

    (void) make_entry(m, MRD_DICT_THREAD, (uint32_t) tid, NULL, 0, name);
    e->pos = atomic_load(&m->h->head);
}

static inline uint32_t
make_text(maker *m, const char *text)
{
    return make_entry(m, MRD_DICT_TEXT, m->next_id++, NULL, 0, text);
}

/* Writes a record with a body of len bytes. Returns false if the ring is full, which counts as a
 * loss. */
static inline bool
make_rec(maker *m, mrd_ring_rec rec, const void *body, size_t len)
{
    uint64_t head = atomic_load(&m->h->head), tail = atomic_load(&m->h->tail);
    size_t size = (sizeof(rec) + len + 31) & ~(size_t) 31, off = head & (m->h->data_len - 1);
    size_t pad = off + size > m->h->data_len ? m->h->data_len - off : 0;

    if (size + pad > m->h->data_len - (head - tail)) {
        mrd_ring_loss *l = &m->h->lost[MRD_RING_LOST_FULL];

        if (atomic_load(&l->first) == 0)
            atomic_store(&l->first, rec.ts);
        atomic_store(&l->last, rec.ts);
        atomic_fetch_add(&l->count, 1);
        m->lost++;
        return false;
    }
    if (pad > 0) {
        mrd_ring_rec filler = { .kind = MRD_REC_PAD, .units = (uint16_t) (pad / 32) };

        memcpy(m->data + off, &filler, sizeof(filler));
        head += pad;
        off = 0;
    }
    rec.units = (uint16_t) (size / 32);
    if (len > 0)
        rec.flags |= MRD_RECF_BODY;
    memset(m->data + off, 0, size);
    memcpy(m->data + off, &rec, sizeof(rec));
    if (len > 0)
        memcpy(m->data + off + sizeof(rec), body, len);
    atomic_store(&m->h->head, head + size);
    m->written++;
    return true;
}

/* Runtime JSON in chunks. */
static inline void
make_blob(maker *m, uint32_t name, uint32_t number, const char *text, size_t len, size_t chunk,
          bool whole)
{
    for (size_t at = 0; at < len; at += chunk) {
        size_t n = len - at < chunk ? len - at : chunk;
        uint8_t flags = (uint8_t) ((at == 0 ? MRD_RECF_FIRST : 0) |
                                   (at + n == len ? (whole ? MRD_RECF_LAST : MRD_RECF_CUT) : 0));

        make_rec(m,
                 (mrd_ring_rec){ .kind = MRD_REC_BLOB,
                                 .flags = flags,
                                 .name = name,
                                 .ts = (uint64_t) mrd_local_now().ns,
                                 .value = at,
                                 .domain = number,
                                 .track = (uint32_t) n },
                 text + at, n);
    }
}

static inline bool
make_span(maker *m, uint32_t name, int64_t ts, int64_t dur)
{
    return make_rec(
        m,
        (mrd_ring_rec){
            .kind = MRD_REC_SPAN, .name = name, .ts = (uint64_t) ts, .value = (uint64_t) dur },
        NULL, 0);
}

/* Writes one item into a body and returns its length. */
static inline size_t
make_item(uint8_t *to, mrd_item_type type, uint32_t key, const void *value, size_t len)
{
    mrd_ring_item item = { .type = (uint8_t) type, .len = (uint16_t) len, .key = key };

    memset(to, 0, sizeof(item) + ((len + 7) & ~(size_t) 7));
    memcpy(to, &item, sizeof(item));
    memcpy(to + sizeof(item), value, len);
    return sizeof(item) + ((len + 7) & ~(size_t) 7);
}

/* Starts a process of another user. It ends with the test. */
static inline int
make_user_process(uid_t user)
{
    int ends[2], pid;

    if (getuid() != 0)
        SKIP("only root can be another user");
    if (pipe(ends) != 0)
        abort();
    if ((pid = fork()) == 0) {
        char byte;

        close(ends[1]);
        if (setgid(user) != 0 || setuid(user) != 0)
            abort();
        (void) !read(ends[0], &byte, 1);
        _exit(0);
    }
    close(ends[0]);
    return pid;
}

#endif
