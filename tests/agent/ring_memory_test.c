/* Tests the limits of the agent's memory for rings. A user can make sparse files and texts without
 * an end at no cost. These must not use up the memory that other users need. */
#include "tests/agent/ring_make.h"

#include "agent/rings/drain.h"

#define HOSTILE 1001
#define MEMORY  ((size_t) 64 << 20)
#define DICT    MRD_RING_DICT_MAX
#define RINGS   64

typedef struct {
    uint64_t honest, hostile;
} received;

static mrd_err
take(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev)
{
    received *h = self;

    (void) clock;
    if (ev->kind == MRD_SPAN)
        *(process->ident.pid == getpid() ? &h->honest : &h->hostile) += 1;
    return MRD_OK;
}

static size_t
own_memory(void)
{
    size_t pages = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    CHECK(f != NULL && fscanf(f, "%*u %zu %zu", &pages, &shared) == 2);
    if (f != NULL)
        fclose(f);
    return (pages - shared) * (size_t) sysconf(_SC_PAGESIZE);
}

/* Makes a ring of the hostile process: a large dictionary, of which nearly nothing is written. */
static int
ring_with_holes(int pid, int tid, uint32_t dict_len, uint64_t data_len, mrd_ring_hdr *ret_h)
{
    maker *m = make_ring(test_tmp(), pid, make_start_ticks(pid), tid, 4096);
    int fd = open(m->path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0 && fchown(fd, HOSTILE, HOSTILE) == 0);
    memcpy(ret_h, m->h, sizeof(*ret_h));
    make_free(m);
    CHECK(ftruncate(fd, (off_t) (MRD_RING_HEADER_LEN + dict_len + data_len)) == 0);
    ret_h->dict_len = dict_len;
    ret_h->data_len = data_len;
    return fd;
}

static void
finish_ring(int fd, const mrd_ring_hdr *h)
{
    CHECK(pwrite(fd, h, sizeof(*h), 0) == (ssize_t) sizeof(*h));
    close(fd);
}

static void
hostile_dictionary(int pid, int tid)
{
    /* an unknown type, skipped by the reader */
    mrd_ring_dict e = { .type = 200, .len = DICT, .id = 1 };
    mrd_ring_rec rec = { .kind = MRD_REC_SPAN, .units = 1, .ts = (uint64_t) mrd_local_now().ns };
    mrd_ring_hdr h;
    int fd = ring_with_holes(pid, tid, DICT, 4096, &h);

    CHECK(pwrite(fd, &e, sizeof(e), MRD_RING_HEADER_LEN) == (ssize_t) sizeof(e));
    CHECK(pwrite(fd, &rec, sizeof(rec), MRD_RING_HEADER_LEN + DICT) == (ssize_t) sizeof(rec));
    atomic_store(&h.dict_head, DICT);
    atomic_store(&h.head, sizeof(rec));
    finish_ring(fd, &h);
}

/* Begins a text of nearly 32 MiB that never ends. */
static void
hostile_text(int pid, int tid)
{
    uint64_t len = 32 << 20, at = 0;
    mrd_ring_hdr h;
    int fd = ring_with_holes(pid, tid, 4096, len, &h);
    uint32_t body = MRD_RING_REC_MAX - sizeof(mrd_ring_rec);

    for (unsigned k = 0; at < len; k++, at += MRD_RING_REC_MAX) {
        mrd_ring_rec rec = { .kind = MRD_REC_BLOB,
                             .flags = (uint8_t) (k == 0 ? MRD_RECF_FIRST : 0),
                             .units = MRD_RING_REC_MAX / 32,
                             .ts = (uint64_t) mrd_local_now().ns,
                             .value = (uint64_t) k * body,
                             .domain = 7,
                             .track = body };

        CHECK(pwrite(fd, &rec, sizeof(rec), (off_t) (MRD_RING_HEADER_LEN + 4096 + at)) ==
              (ssize_t) sizeof(rec));
    }
    atomic_store(&h.head, len);
    finish_ring(fd, &h);
}

/* Reads the rings of a hostile user together with an honest ring. Returns the counts. */
static mrd_drain_tally
drain_beside_honest(void (*hostile)(int pid, int tid))
{
    int pid = make_user_process(HOSTILE);
    received h = { 0 };
    mrd_drain_options o = { .instance_id = "i",
                            .ring_dir = test_tmp(),
                            .only_uid = -1,
                            .memory = MEMORY,
                            .event = take,
                            .self = &h };
    maker *own = make_ring(test_tmp(), getpid(), make_start_ticks(getpid()), getpid(), 1 << 16);
    int64_t end = mrd_local_now().ns + 60 * MRD_SEC;
    mrd_drain *p = NULL;
    mrd_drain_tally c;
    size_t before, most = 0;
    uint64_t told = 0;

    mrd_drain_memory_goes_back();
    for (int i = 0; i < RINGS; i++)
        hostile(pid, i + 1);
    make_span(own, make_text(own, "honest"), mrd_local_now().ns, 5);
    before = own_memory();
    CHECK_ERR("open", mrd_drain_open(&o, &p, NULL), MRD_OK);
    do {
        size_t now;

        mrd_drain_step(p);
        now = own_memory() - before;
        most = now > most && now < SIZE_MAX / 2 ? now : most;
        if (h.honest > told) { /* write one more after each one that was read */
            told = h.honest;
            make_span(own, 1, mrd_local_now().ns, 5);
        }
        mrd_drain_counts(p, &c);
    } while ((c.rings_seen < RINGS + 1 || mrd_drain_wait_ns(p) == 0) && mrd_local_now().ns < end);
    CHECK_INT(c.rings_seen, RINGS + 1);
    CHECK(h.honest > 5);
    /* A single user gets half of the memory. Beyond that, one ring at a time and a doubling buffer
     * are allowed. */
    printf("%d rings: %zu MiB\n", RINGS, most >> 20);
#ifdef __SANITIZE_ADDRESS__
    printf("not measured: the address sanitizer keeps what was freed\n");
#else
    CHECK(most < MEMORY + (16 << 20));
#endif
    mrd_drain_close(p);
    return c;
}

TEST(dictionaries_with_holes_do_not_take_the_memory_of_others)
{
    mrd_drain_tally c = drain_beside_honest(hostile_dictionary);

    CHECK(c.rings_bad > 0 && c.rings_bad < RINGS);
    CHECK_INT(c.dropped[MRD_DROP_BAD_RING], c.rings_bad);
}

TEST(texts_that_never_end_do_not_take_the_memory_of_others)
{
    mrd_drain_tally c = drain_beside_honest(hostile_text);

    CHECK_INT(c.dropped[MRD_DROP_BLOB], RINGS);
    CHECK_INT(c.rings_bad, 0);
}

TEST_MAIN()
