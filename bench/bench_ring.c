/*
 * bench/bench_ring.c - measures the cost of recording an event, and compares it with limits of this
 * machine.
 *
 * The limit functions (kernels) do only what every recorder must do: read the clock and store 32
 * bytes. Each kernel is a noinline loop, and the rounds of all kernels are interleaved. The result
 * is the thread's CPU time per iteration. Prints the median of the rounds, and its ratio to the
 * limit of its row. The ring is emptied between batches, and this time is not counted. If LTTng-UST
 * was found when configuring, a tracepoint with the same payload is measured in the same rounds.
 * The tracepoint needs a session that records it, which bench_ring.py starts.
 *
 *     bench_ring [rounds] [million iterations]
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/api/record.h"
#include "capture/meridian.h"
#include "capture/process.h"
#include "capture/ring/ring_read.h"
#ifndef MRD_BENCH_LTTNG
#define MRD_BENCH_LTTNG 0
#endif
#if MRD_BENCH_LTTNG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "bench/bench_lttng.h"
#pragma GCC diagnostic pop
#endif

#define BATCH      16384 /* number of spans in a batch, which always fit into the ring */
#define MAX_ROUNDS 64

static uint64_t iterations = 4000000;
static volatile uint64_t sink;
static mrd_domain *domain;

static double
cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

/* Marks all records of the ring as read without reading them, because the reader is measured
 * separately. */
static void
empty_ring(void)
{
    mrd_ring_writer *w = mrd_tls_writer;

    if (!w->ready)
        return;
    atomic_store(&w->hdr->tail, w->head);
    atomic_store(&w->hdr->tail_check, ~w->head);
}

/* ---- kernels: run n events --------------------------------------------------------------------
 */

static uint8_t *area;
#define AREA_MASK ((1u << 20) - 1)

typedef struct {
    uint64_t a, b, c, d;
} record32;

__attribute__((noinline)) static void
k_empty(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void
k_clock(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        sink = mrd_rec_now();
        __asm__ volatile("" ::: "memory");
    }
}

__attribute__((noinline)) static void
k_limit_one(uint64_t n)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < n; i++, at += 32) {
        record32 *r = (record32 *) (void *) (area + (at & AREA_MASK));

        *r = (record32){ i, mrd_rec_now(), 1, 2 };
        __asm__ volatile("" ::: "memory");
    }
}

/* The limit for a span: reads the clock twice and stores 32 bytes. The clock is read inline, so
 * there is no function call between the reading and the store. */
__attribute__((noinline)) static void
k_limit_two(uint64_t n)
{
    uint64_t at = 0;
    mrd_ring_clock_id clock = mrd_proc_clock;

    for (uint64_t i = 0; i < n; i++, at += 32) {
        record32 *r = (record32 *) (void *) (area + (at & AREA_MASK));
        uint64_t start = mrd_ring_ticks(clock);

        __asm__ volatile("" ::: "memory");
        *r = (record32){ i, start, mrd_ring_ticks(clock) - start, 2 };
        __asm__ volatile("" ::: "memory");
    }
}

__attribute__((noinline)) static void
k_scope(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        MRD_SCOPE(domain, "scope");
        __asm__ volatile("" ::: "memory");
    }
}

__attribute__((noinline)) static void
k_scope_text(uint64_t n)
{
    char name[] = "runtime name";

    for (uint64_t i = 0; i < n; i++) {
        mrd_scope s;

        mrd_scope_begin(&s, domain, name);
        __asm__ volatile("" ::: "memory");
        mrd_scope_end(&s);
    }
}

__attribute__((noinline)) static void
k_push_pop(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        mrd_push(domain, "pushed");
        mrd_pop();
    }
}

__attribute__((noinline)) static void
k_instant(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        MRD_INSTANT(domain, "instant", MRD_SCOPE_THREAD);
}

__attribute__((noinline)) static void
k_instant_text(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        mrd_instant(domain, "runtime name", MRD_SCOPE_THREAD, NULL, 0);
}

static mrd_counter *counter;

__attribute__((noinline)) static void
k_counter(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        (void) mrd_counter_set(counter, i);
}

__attribute__((noinline)) static void
k_args(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        mrd_kv kv[] = { mrd_kv_u64("i", i), mrd_kv_f64("loss", 0.5) };
        mrd_scope s;

        mrd_scope_begin(&s, domain, "with arguments");
        mrd_scope_end_args(&s, kv, 2);
    }
}

static mrd_region region = MRD_REGION_INIT("region");
static mrd_task *task;

__attribute__((noinline)) static void
k_region(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        (void) mrd_region_start(&region);
        (void) mrd_region_stop(&region);
    }
}

__attribute__((noinline)) static void
k_task(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        (void) mrd_task_start(task);
        (void) mrd_task_stop(task);
    }
}

__attribute__((noinline)) static void
k_span(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        mrd_span_end(mrd_span_begin(domain, "span", NULL, 0), NULL, 0);
}

#if MRD_BENCH_LTTNG
/* Record spans as LTTng-UST tracepoints with 24 bytes of payload, like our record without its time.
 * The second function uses two tracepoints for begin and end. */
__attribute__((noinline)) static void
k_lttng(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        lttng_ust_tracepoint(meridian_bench, span, i, 1, 2, i);
}
__attribute__((noinline)) static void
k_lttng_pair(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        lttng_ust_tracepoint(meridian_bench, span, i, 1, 2, i);
        lttng_ust_tracepoint(meridian_bench, span, i, 3, 4, i);
    }
}
#endif

static bool
peer_records(void)
{
#if MRD_BENCH_LTTNG
    return lttng_ust_tracepoint_enabled(meridian_bench, span) != 0;
#else
    return false;
#endif
}

/* ---- rounds -----------------------------------------------------------------------------------
 */

typedef struct {
    const char *name;
    void (*run)(uint64_t n);
    bool off;  /* measured with annotations off */
    int limit; /* index of its reference row */
    double v[MAX_ROUNDS], median;
} row;

enum { ROW_EMPTY, ROW_CLOCK, ROW_ONE, ROW_TWO };

static row rows[] = {
    [ROW_EMPTY] = { "empty loop", k_empty, false, ROW_ONE, { 0 }, 0 },
    [ROW_CLOCK] = { "clock read (call)", k_clock, false, ROW_ONE, { 0 }, 0 },
    [ROW_ONE] = { "limit: clock + 32 bytes", k_limit_one, false, ROW_ONE, { 0 }, 0 },
    [ROW_TWO] = { "limit: 2 clocks + 32 bytes", k_limit_two, false, ROW_TWO, { 0 }, 0 },
    { "scope, literal", k_scope, false, ROW_TWO, { 0 }, 0 },
    { "scope, runtime name", k_scope_text, false, ROW_TWO, { 0 }, 0 },
    { "scope, 2 arguments", k_args, false, ROW_TWO, { 0 }, 0 },
    { "push + pop", k_push_pop, false, ROW_TWO, { 0 }, 0 },
    { "instant, literal", k_instant, false, ROW_ONE, { 0 }, 0 },
    { "instant, runtime name", k_instant_text, false, ROW_ONE, { 0 }, 0 },
    { "counter", k_counter, false, ROW_ONE, { 0 }, 0 },
    { "scope, off", k_scope, true, ROW_ONE, { 0 }, 0 },
    { "instant, off", k_instant, true, ROW_ONE, { 0 }, 0 },
    { "push + pop, off", k_push_pop, true, ROW_ONE, { 0 }, 0 },
    { "counter, off", k_counter, true, ROW_ONE, { 0 }, 0 },
    { "region, off", k_region, true, ROW_ONE, { 0 }, 0 },
    { "task, off", k_task, true, ROW_ONE, { 0 }, 0 },
    { "span begin + end, off", k_span, true, ROW_ONE, { 0 }, 0 },
#if MRD_BENCH_LTTNG
    { "LTTng-UST tracepoint", k_lttng, false, ROW_ONE, { 0 }, 0 },
    { "LTTng-UST tracepoint pair", k_lttng_pair, false, ROW_TWO, { 0 }, 0 },
#endif
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static double
run_row(const row *r)
{
    double spent = 0;

    if (r->off)
        (void) mrd_pause();
    for (uint64_t done = 0; done < iterations; done += BATCH / 4) {
        double before;

        empty_ring();
        before = cpu_ns();
        r->run(BATCH / 4);
        spent += cpu_ns() - before;
    }
    if (r->off)
        (void) mrd_resume();
    return spent / (double) (iterations / (BATCH / 4) * (BATCH / 4));
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
median(double *v, int n)
{
    qsort(v, (size_t) n, sizeof(*v), compare);
    return v[n / 2];
}

/* ---- two threads ------------------------------------------------------------------------------
 */

static pthread_barrier_t barrier;

static void *
scope_thread(void *arg)
{
    row r = { "", k_scope, false, 0, { 0 }, 0 };

    pthread_barrier_wait(&barrier);
    *(double *) arg = run_row(&r);
    return NULL;
}

static double
threads(unsigned n)
{
    pthread_t t[2];
    double ns[2], worst = 0;

    pthread_barrier_init(&barrier, NULL, n);
    for (unsigned i = 0; i < n; i++)
        pthread_create(&t[i], NULL, scope_thread, &ns[i]);
    for (unsigned i = 0; i < n; i++) {
        pthread_join(t[i], NULL);
        worst = ns[i] > worst ? ns[i] : worst;
    }
    pthread_barrier_destroy(&barrier);
    return worst;
}

/* ---- draining ---------------------------------------------------------------------------------
 */

/* Returns the CPU time in ns for reading the newest `len` bytes of the ring from its file, in
 * chunks that fit into a cache. A reader that does not map the file cannot be faster. */
static double
read_newest(int fd, const mrd_ring_hdr *h, uint8_t *to, uint64_t len)
{
    const uint64_t chunk = 128u << 10, data = h->header_len + h->dict_len;
    uint64_t pos = h->head - len;
    double before = cpu_ns();

    while (pos < h->head) {
        uint64_t off = pos & (h->data_len - 1), n = h->head - pos;

        n = n < chunk ? n : chunk;
        n = n < h->data_len - off ? n : h->data_len - off;
        if (pread(fd, to, n, (off_t) (data + off)) != (ssize_t) n) {
            fprintf(stderr, "the ring cannot be read\n");
            return -1;
        }
        pos += n;
    }
    return cpu_ns() - before;
}

static double
drain(bool in_place, double *ret_read)
{
    static uint8_t copy[128u << 10];
    static const volatile sig_atomic_t never_cut;
    mrd_ring_writer *w = mrd_tls_writer;
    mrd_ring_name name = { .pid = w->hdr->pid, .tid = w->hdr->tid };
    mrd_ring_reader *r = NULL;
    mrd_ring_event ev;
    mrd_ring_step step;
    mrd_why why;
    char path[4096];
    double spent = 0, reading = 0;
    uint64_t events = 0, sum = 0, len;
    void *mapping = MAP_FAILED;
    int file;

    name.start_ticks = w->hdr->start_ticks;
    name.serial = w->name_serial;
    memcpy(name.boot_id, w->hdr->boot_id, 16);
    snprintf(path, sizeof(path), "%s/", mrd_ring_dir());
    mrd_ring_name_print(&name, path + strlen(path));
    empty_ring();
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || mrd_ring_open(AT_FDCWD, path, NULL, &r, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", file < 0 ? path : why.text);
        return -1;
    }
    if (in_place) {
        int fd = mrd_ring_file(r, &len);

        mapping = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapping == MAP_FAILED) {
            perror(path);
            return -1;
        }
        mrd_ring_in_place(r, mapping, &never_cut);
    }
    while (events < iterations) {
        double before;

        k_scope(BATCH);
        reading += read_newest(file, w->hdr, copy, (uint64_t) BATCH * MRD_RING_UNIT);
        before = cpu_ns();
        do { /* as the agent does */
            mrd_ring_window win = *mrd_ring_borrow_window(r);
            mrd_ring_rec rec;
            int64_t ts_ns, dur_ns;

            while (mrd_ring_plain(&win, &rec, &ts_ns, &dur_ns)) {
                sum += (uint64_t) ts_ns + (uint64_t) dur_ns + rec.name;
                events++;
            }
            *mrd_ring_borrow_window(r) = win;
            step = mrd_ring_next(r, &ev, &why);
            events += step == MRD_RING_MORE;
        } while (step == MRD_RING_MORE);
        mrd_ring_release(r);
        spent += cpu_ns() - before;
        if (step == MRD_RING_BAD || step == MRD_RING_END) {
            fprintf(stderr, "%s\n", step == MRD_RING_END ? "ring ended" : why.text);
            return -1;
        }
    }
    sink = sum;
    mrd_ring_close(r);
    if (in_place)
        munmap(mapping, len);
    close(file);
    *ret_read = reading / (double) events;
    return spent / (double) events;
}

static void
clean(const char *dir)
{
    char command[4200];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", dir);
}

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    double one[MAX_ROUNDS], two[MAX_ROUNDS];
    double drained[2][MAX_ROUNDS], reads[2][MAX_ROUNDS];
    char dir[] = "/dev/shm/mrd-bench-XXXXXX";

    /* Run this program again with the variables set, because the library reads its environment when
     * it is loaded. */
    if (getenv("MRD_BENCH_CHILD") == NULL) {
        char *const *self = argv;

        if (mkdtemp(dir) == NULL || setenv("MERIDIAN_RING_DIR", dir, 1) != 0 ||
            setenv("MERIDIAN_ENABLE", "1", 1) != 0 || setenv("MRD_BENCH_CHILD", "1", 1) != 0)
            return 1;
        execv("/proc/self/exe", self);
        return 1;
    }
    if (argc > 2)
        iterations = (uint64_t) atoll(argv[2]) * 1000000;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    area = mmap(NULL, AREA_MASK + 1, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    domain = mrd_domain_create("bench");
    task = mrd_task_create(domain, "task");
    counter = mrd_counter_create(domain, "counter", "count", 0);
    k_scope(1);
    if (area == MAP_FAILED || !mrd_tls_writer->ready) {
        fprintf(stderr, "bench_ring: capture is %s\n", mrd_status_text());
        return 1;
    }
    for (int i = 0; i < rounds; i++) {
        for (size_t k = 0; k < ROWS; k++)
            rows[k].v[i] = run_row(&rows[k]);
        one[i] = threads(1);
        two[i] = threads(2);
        for (int place = 0; place < 2; place++)
            drained[place][i] = drain(place == 1, &reads[place][i]);
    }
    printf("clock: %s; %d rounds of %llu; CPU ns per event, median\n",
           mrd_proc_clock == MRD_RING_CLOCK_TSC ? "tsc" : "raw", rounds,
           (unsigned long long) iterations);
    for (size_t k = 0; k < ROWS; k++)
        rows[k].median = median(rows[k].v, rounds);
    for (size_t k = 0; k < ROWS; k++)
        printf("%-28s %8.2f  %6.2f x %s%s\n", rows[k].name, rows[k].median,
               rows[k].median / rows[rows[k].limit].median, rows[rows[k].limit].name,
               strncmp(rows[k].name, "LTTng", 5) == 0 && !peer_records()
                   ? "   (off: no session of LTTng records it)"
                   : "");
    if (!MRD_BENCH_LTTNG)
        printf("LTTng-UST tracepoint: skipped, built without LTTng-UST (Debian package "
               "liblttng-ust-dev)\n");
    printf("%-28s %8.2f  %6.2f x one thread (%.2f)\n", "scope, two threads", median(two, rounds),
           median(two, rounds) / median(one, rounds), median(one, rounds));
    for (int place = 0; place < 2; place++) {
        double read = median(reads[place], rounds), all = median(drained[place], rounds);

        printf("%-28s %8.2f\n", "limit: read the file", read);
        printf("%-28s %8.2f  %6.2f x limit: read the file\n",
               place == 1 ? "drain in place, per event" : "drain by copy, per event", all,
               all / read);
    }
    if (mrd_lost() != 0)
        printf("lost: %llu (the benchmark is wrong)\n", (unsigned long long) mrd_lost());
    clean(getenv("MERIDIAN_RING_DIR"));
    return 0;
}
