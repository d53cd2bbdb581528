/* Tests rings that the agent reads in the mapped file, without a copy. The events must be the same
 * as from a copy, whatever the owner of the file does to it. */
#include "agent/rings/ring_map.h"
#include "tests/agent/ring_make.h"
#include "tests/wait.h"

#include <pthread.h>
#include <sched.h>

#define DATA (64u << 10)

static char home[64];

static void
remove_home(void)
{
    rmdir(home);
}

/* Makes a ring in a tmpfs, with spans and with spans that have bodies of 1 to `body` bytes. */
static maker *
ring_of(size_t data_len, unsigned records, size_t body)
{
    static uint8_t bytes[60000];
    maker *m;

    if (home[0] == '\0') {
        snprintf(home, sizeof(home), "/dev/shm/mrd-test-XXXXXX");
        if (mkdtemp(home) == NULL)
            abort();
        atexit(remove_home);
    }
    m = make_ring(home, getpid(), make_start_ticks(getpid()), 7, data_len);
    memset(bytes, 'b', sizeof(bytes));
    for (unsigned i = 0; i < records; i++) {
        mrd_ring_rec rec = { .kind = i % 5 == 4 ? MRD_REC_COUNTER : MRD_REC_SPAN,
                             .ts = (uint64_t) m->h->created_ns + i,
                             .value = i };
        size_t len = body > 0 && i % 3 == 2 ? 1 + i * 977 % body : 0;

        CHECK(make_rec(m, rec, bytes, len));
    }
    return m;
}

static mrd_ring_reader *
open_as(const maker *m, unsigned flags, mrd_ring_map *map)
{
    mrd_ring_opts opts = { .flags = flags, .expect_uid = -1 };
    mrd_ring_reader *r = NULL;

    CHECK_ERR("open", mrd_ring_open(AT_FDCWD, m->path, &opts, &r, NULL), MRD_OK);
    *map = (mrd_ring_map){ 0 };
    mrd_ring_map_open(map, r);
    return r;
}

static void
drop(maker *m, mrd_ring_reader *r, mrd_ring_map *map)
{
    mrd_ring_close(r);
    mrd_ring_map_close(map);
    unlink(m->path);
    make_free(m);
}

/* Returns a hash of all records of a ring. */
static uint64_t
read_all(mrd_ring_reader *r, uint64_t *ret_n)
{
    mrd_ring_event ev;
    uint64_t sum = 0;

    for (*ret_n = 0; mrd_ring_next(r, &ev, NULL) == MRD_RING_MORE; ++*ret_n) {
        sum = sum * 31 + (uint64_t) ev.ts.ns + (uint64_t) ev.dur_ns + ev.value + ev.body_len;
        for (uint32_t i = 0; i < ev.body_len; i++)
            sum = sum * 31 + ev.body[i];
    }
    return sum;
}

TEST(says_what_a_copy_says)
{
    maker *m = ring_of(1u << 20, 300, 9000);
    mrd_ring_reader *r = NULL;
    mrd_ring_map map;
    uint64_t copied, n, sum;

    CHECK_ERR("open", mrd_ring_open(AT_FDCWD, m->path, NULL, &r, NULL), MRD_OK);
    copied = read_all(r, &n);
    CHECK_INT(n, 300);
    mrd_ring_close(r);
    r = open_as(m, 0, &map);
    REQUIRE(map.p != NULL);
    sum = read_all(r, &n);
    CHECK_INT(n, 300);
    CHECK(sum == copied);
    /* the owner sees the tail, and the lock ends with the mapping */
    CHECK_ERR("release", mrd_ring_release(r), MRD_OK);
    CHECK_INT(atomic_load(&m->h->tail), atomic_load(&m->h->head));
    CHECK_INT(atomic_load(&m->h->tail_check), ~atomic_load(&m->h->head));
    CHECK_ERR("pause", mrd_ring_set_pause(r, true), MRD_OK);
    CHECK_INT(atomic_load(&m->h->pause), 1);
    mrd_ring_close(r);
    mrd_ring_map_close(&map);
    CHECK_ERR("again", mrd_ring_open(AT_FDCWD, m->path, NULL, &r, NULL), MRD_OK);
    drop(m, r, &map);
}

TEST(a_shortened_file_is_an_error_and_no_signal)
{
    static const off_t rows[] = { 0, 300, 4096, 4096 + 65536, 4096 + 65536 + 4096 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        for (unsigned before = 0; before < 200; before += 50) {
            maker *m = ring_of(DATA, 250, 200);
            mrd_ring_map map, other;
            mrd_ring_reader *r = open_as(m, 0, &map), *good;
            mrd_why why = { .text = "" };
            mrd_ring_event ev;
            unsigned n = 0;

            REQUIRE(map.p != NULL);
            while (n < before && mrd_ring_next(r, &ev, &why) == MRD_RING_MORE)
                n++;
            CHECK(truncate(m->path, rows[i]) == 0);
            while (mrd_ring_next(r, &ev, &why) == MRD_RING_MORE && n < 1000)
                n++;
            CHECK_INT(mrd_ring_next(r, &ev, &why), MRD_RING_BAD);
            CHECK(strstr(why.text, "the file changed its size") != NULL);
            CHECK(n < 250);
            (void) mrd_ring_release(r);
            (void) mrd_ring_set_pause(r, true);
            drop(m, r, &map);
            /* the next ring must be read as usual */
            m = ring_of(DATA, 10, 0);
            good = open_as(m, 0, &other);
            for (n = 0; mrd_ring_next(good, &ev, NULL) == MRD_RING_MORE;)
                n++;
            CHECK_INT(n, 10);
            CHECK_INT(other.cut, 0);
            drop(m, good, &other);
        }
}

static void
killed_by_another(int sent)
{
    maker *m = ring_of(DATA, 1, 0);
    mrd_ring_map map;
    mrd_ring_reader *r = open_as(m, 0, &map);
    int status = 0, pid = fork();

    if (pid == 0) {
        volatile uint8_t *foreign = (uint8_t *) m->h; /* a mapping of the test itself */

        (void) signal(SIGALRM, SIG_DFL);
        alarm(20);
        if (sent != 0)
            (void) kill(getpid(), SIGBUS);
        else if (truncate(m->path, 0) == 0)
            (void) foreign[8192];
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0); /* a sanitizer reports it */
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGBUS);
    drop(m, r, &map);
}

/* The agent catches SIGBUS only for its mapped rings. A SIGBUS from another mapping, or sent by a
 * process, still kills it. */
TEST(another_signal_of_the_kind_still_kills)
{
    for (int sent = 0; sent < 2; sent++)
        killed_by_another(sent);
}

typedef struct {
    maker *m;
    atomic_bool over;
} changer;

/* Overwrites the lengths, kinds and bodies of records with random values, again and again in a
 * thread. */
static void *
change(void *arg)
{
    changer *c = arg;
    uint64_t x = strtoull(getenv("MRD_SEED") == NULL ? "1" : getenv("MRD_SEED"), NULL, 10);

    while (!atomic_load(&c->over)) {
        volatile uint64_t *words = (volatile uint64_t *) (volatile void *) c->m->data;

        x = x * 6364136223846793005u + 1442695040888963407u;
        words[(x >> 33) % 512 * 4] =
            (x >> 8 & 63) == 0 ? x
                               : (x >> 16 & 15) | (x >> 20 & 1) << 8 | ((x >> 24 & 3) + 1) << 16;
        if ((x >> 28 & 255) == 0)
            for (unsigned i = 0; i < 512; i++) /* honest again */
                words[i * 4] = MRD_REC_SPAN | 1u << 16;
        if ((x >> 28 & 127) == 0)
            sched_yield(); /* the reader may use the same processor */
    }
    return NULL;
}

static uint64_t
sum_of(const mrd_ring_event *ev)
{
    uint64_t sum = ev->kind;

    for (uint32_t i = 0; i < ev->body_len; i++)
        sum = sum * 31 + ev->body[i];
    return sum;
}

TEST(records_that_change_while_they_are_read)
{
    changer c = { .m = ring_of(DATA, 512, 0) };
    uint64_t given = 0, bad = 0, changed = 0;
    int64_t end = test_deadline();
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, change, &c) == 0);
    /* Repeats until the other thread also got a processor, and at most until the deadline. */
    for (int i = 0; (i < 1000 || given == 0 || bad == 0) && test_in_time(end); i++) {
        mrd_ring_map map;
        mrd_ring_reader *r = open_as(c.m, 0, &map);
        mrd_ring_step step;
        mrd_ring_event ev;
        uint64_t n = 0;

        while ((step = mrd_ring_next(r, &ev, NULL)) == MRD_RING_MORE || step == MRD_RING_LOST) {
            uint64_t sum = sum_of(&ev);

            CHECK(ev.body_len < 512 * 32 && n <= 512);
            sched_yield();
            changed += sum_of(&ev) != sum;
            n++;
        }
        given += n;
        bad += step == MRD_RING_BAD;
        mrd_ring_close(r);
        mrd_ring_map_close(&map);
    }
    atomic_store(&c.over, true);
    pthread_join(thread, NULL);
    CHECK(given > 0 && bad > 0);
    CHECK_INT(changed, 0); /* delivered events do not change */
    unlink(c.m->path);
    make_free(c.m);
}

static uint64_t
blocks(const maker *m)
{
    struct stat st = { 0 };

    CHECK(stat(m->path, &st) == 0);
    return (uint64_t) st.st_blocks;
}

/* Reading a hole of a mapped file allocates a page, which is charged to the reader. */
TEST(holes_in_bodies_stay_holes)
{
    maker *m = ring_of(1u << 20, 0, 0);
    mrd_ring_map map;
    mrd_ring_reader *r;
    mrd_ring_event ev;
    uint64_t before, n = 0;

    for (uint64_t at = 0; at < 1u << 20; at += 32768) {
        mrd_ring_rec rec = { .kind = MRD_REC_SPAN, .flags = MRD_RECF_BODY, .units = 1024 };

        rec.ts = (uint64_t) m->h->created_ns;
        memcpy(m->data + at, &rec, sizeof(rec));
    }
    atomic_store(&m->h->head, 1u << 20);
    r = open_as(m, 0, &map);
    REQUIRE(map.p != NULL);
    before = blocks(m);
    while (mrd_ring_next(r, &ev, NULL) == MRD_RING_MORE)
        n++;
    CHECK_INT(n, 32);
    CHECK_INT(blocks(m), before);
    drop(m, r, &map);
}

static uint64_t
shared_memory(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "RssShmem: %llu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib << 10;
}

TEST(a_silent_ring_is_no_memory_of_the_reader)
{
    maker *m = ring_of(4u << 20, 100000, 0);
    mrd_ring_map map;
    mrd_ring_reader *r = open_as(m, 0, &map);
    uint64_t n, before = shared_memory(), after;

    (void) read_all(r, &n);
    CHECK_INT(n, 100000);
    after = shared_memory();
    CHECK(after >= before + (3u << 20));
    mrd_ring_map_rest(&map);
    CHECK(shared_memory() + (3u << 20) <= after);
    CHECK(make_span(m, 0, m->h->created_ns, 1));
    (void) read_all(r, &n);
    CHECK_INT(n, 1);
    drop(m, r, &map);
}

TEST(beyond_the_bound_and_elsewhere_rings_are_copied)
{
    enum { RINGS = 6 };
    maker *m[RINGS];
    mrd_ring_map map[RINGS];
    mrd_ring_reader *r[RINGS];
    char big[96];
    uint64_t n;

    for (int i = 0; i < RINGS; i++) {
        m[i] = ring_of(64u << 20, 10, 0);
        r[i] = open_as(m[i], 0, &map[i]);
        CHECK((map[i].p != NULL) == (i < 3)); /* the fourth would exceed 256 MiB */
        (void) read_all(r[i], &n);
        CHECK_INT(n, 10);
        /* the name of the ring can be used again */
        snprintf(big, sizeof(big), "%s/kept.%d", home, i);
        CHECK(rename(m[i]->path, big) == 0);
        snprintf(m[i]->path, sizeof(m[i]->path), "%s", big);
    }
    for (int i = 0; i < RINGS; i++)
        drop(m[i], r[i], &map[i]);
    m[0] = ring_of(64u << 20, 10, 0);
    r[0] = open_as(m[0], 0, &map[0]);
    CHECK(map[0].p != NULL);
    drop(m[0], r[0], &map[0]);
}

TEST_MAIN()
