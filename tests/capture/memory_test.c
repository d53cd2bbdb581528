/*
 * Tests the memory in use by scope (C-22 in docs/dev/seeds.md). Several threads open and close
 * nested scopes at random, and allocate and free memory in them. The test computes the expected
 * memory of each scope from its list of operations. It compares this with the output of mrd_dumps,
 * with the counters in the rings and, for tensors, with the runtime's own value.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/nrt/nrt_abi.h"
#include "capture/ring/ring_read.h"
#include "tests/capture/api_start.h"

#define THREADS  4
#define SHOWN    30 /* maximum number of open scopes in the header of a ring (MRD_RING_OPEN_MAX) */
#define OPEN_MAX 40
#define HELD_MAX 400
#define NAMES    6
#define STEPS    6000
#define ROWS_MAX 64
#define NO_SCOPE (-1)

/* ---- the expected accounts ------------------------------------------------ */

typedef struct {
    char name[64];
    bool device, any;
    uint64_t count, current, peak, allocated, freed;
} row;

/* Names 0 to NAMES - 1 are pushes without a domain. Later ones are scopes of the domain "test". */
static row model[2 * NAMES + 1][2];
static struct {
    int name[SHOWN]; /* names of the thread's open scopes, the outermost first */
    bool ended[SHOWN];
    int depth, deep;
} shown[THREADS];
static struct {
    uint64_t bytes;
    nrt_tensor_t *tensor; /* NULL for memory of the program */
    int name, place;
    bool used, booked;
} held[HELD_MAX];

static row *
row_of(int name, int place)
{
    return &model[name == NO_SCOPE ? 2 * NAMES : name][place];
}

static int
innermost(int thread)
{
    for (int i = shown[thread].depth; i > 0; i--)
        if (!shown[thread].ended[i - 1])
            return shown[thread].name[i - 1];
    return NO_SCOPE;
}

static void
model_add(size_t i, int thread, int place, uint64_t bytes)
{
    row *r;

    held[i].name = innermost(thread);
    held[i].place = place;
    r = row_of(held[i].name, place);
    r->any = true;
    r->count++;
    r->allocated += bytes;
    r->current += bytes;
    r->peak = r->current > r->peak ? r->current : r->peak;
}

static void
model_end(size_t i)
{
    row *r = row_of(held[i].name, held[i].place);

    r->current -= held[i].bytes;
    r->freed += held[i].bytes;
}

static void
model_reset(void)
{
    for (int n = 0; n <= 2 * NAMES; n++)
        for (int p = 0; p < 2; p++) {
            row *r = &model[n][p];

            r->peak = r->allocated = r->current;
            r->freed = r->count = 0;
        }
    for (size_t i = 0; i < HELD_MAX; i++)
        if (held[i].used && held[i].booked)
            row_of(held[i].name, held[i].place)->count++;
}

/* ---- threads that execute one step (a call of the library) at a time, as the test says ------- */

typedef enum { OPEN, CLOSE, TAKE, GIVE, STOP } step_kind;
typedef struct {
    step_kind kind;
    int name;
    size_t at;
    uint64_t bytes;
    int place;
} step;

typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    step todo;
    bool has, done;
    mrd_scope scopes[OPEN_MAX];
    int names[OPEN_MAX], slot[OPEN_MAX]; /* slot: in the header, -1 if deeper */
    bool live[OPEN_MAX];
    int n;
} worker;
static worker workers[THREADS];

static const char *
name_text(int name, char text[64])
{
    snprintf(text, 64, "%s%d", name < NAMES ? "plain " : "scope ", name % NAMES);
    return text;
}

static void
do_step(worker *w, const step *s)
{
    char text[64];

    switch (s->kind) {
    case OPEN:
        mrd_scope_begin(&w->scopes[s->at], s->name < NAMES ? NULL : domain,
                        name_text(s->name, text));
        break;
    case CLOSE:
        mrd_scope_end(&w->scopes[s->at]);
        break;
    case TAKE:
        if (s->place == 0)
            mrd_memory_allocated(&held[s->at], s->bytes);
        else
            CHECK_INT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, s->bytes, "t",
                                          &held[s->at].tensor),
                      NRT_SUCCESS);
        break;
    case GIVE:
        if (held[s->at].tensor == NULL)
            mrd_memory_freed(&held[s->at]);
        else
            nrt_tensor_free(&held[s->at].tensor);
        break;
    case STOP:
        break;
    }
}

static void *
work(void *arg)
{
    worker *w = arg;
    step s;

    do {
        pthread_mutex_lock(&w->lock);
        while (!w->has)
            pthread_cond_wait(&w->changed, &w->lock);
        s = w->todo;
        do_step(w, &s);
        w->has = false;
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->lock);
    } while (s.kind != STOP);
    return NULL;
}

static void
tell(int thread, step s)
{
    worker *w = &workers[thread];

    pthread_mutex_lock(&w->lock);
    w->todo = s;
    w->has = true;
    pthread_cond_signal(&w->changed);
    while (w->has)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void
workers_start(void)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_cond_init(&workers[i].changed, NULL);
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
}

static void
workers_stop(void)
{
    for (int i = 0; i < THREADS; i++) {
        tell(i, (step){ .kind = STOP });
        pthread_join(workers[i].thread, NULL);
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t
roll(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

static void
open_one(int t)
{
    worker *w = &workers[t];
    int at = 0, name = (int) roll(2 * NAMES);

    while (at < OPEN_MAX && w->live[at])
        at++;
    if (at == OPEN_MAX)
        return;
    tell(t, (step){ .kind = OPEN, .name = name, .at = (size_t) at });
    w->live[at] = true;
    w->slot[at] = -1;
    if (shown[t].depth < SHOWN) {
        w->slot[at] = shown[t].depth;
        shown[t].name[shown[t].depth] = name;
        shown[t].ended[shown[t].depth++] = false;
    }
}

/* Closes any of the open scopes, not always the innermost. */
static void
close_one(int t)
{
    worker *w = &workers[t];
    int at = (int) roll(OPEN_MAX);

    if (!w->live[at])
        return;
    tell(t, (step){ .kind = CLOSE, .at = (size_t) at });
    w->live[at] = false;
    if (w->slot[at] < 0)
        return;
    shown[t].ended[w->slot[at]] = true;
    while (shown[t].depth > 0 && shown[t].ended[shown[t].depth - 1])
        shown[t].depth--;
}

static bool recording; /* not paused */

static void
take_one(int t)
{
    size_t at = (size_t) roll(HELD_MAX);
    bool again = held[at].used && held[at].tensor == NULL && roll(4) == 0;
    int place = again ? 0 : (int) roll(2);
    uint64_t bytes = 1 + roll(roll(2) == 0 ? 100000 : 100);

    if (held[at].used && !again)
        return;
    if (again && held[at].booked && recording)
        model_end(at); /* a second report of the same address ends the first allocation */
    if (again && !recording)
        return;
    tell(t, (step){ .kind = TAKE, .at = at, .bytes = bytes, .place = place });
    held[at].used = true;
    held[at].bytes = bytes;
    held[at].booked = recording;
    if (recording)
        model_add(at, t, place, bytes);
}

static void
give_one(int t)
{
    size_t at = (size_t) roll(HELD_MAX);

    if (!held[at].used)
        return;
    tell(t, (step){ .kind = GIVE, .at = at });
    held[at].tensor = NULL;
    held[at].used = false;
    if (held[at].booked) /* also while recording is off */
        model_end(at);
}

/* ---- the library's output ------------------------------------------------------------------- */

static size_t
said(row *rows, uint64_t *ret_untracked)
{
    char *text = NULL, *p;
    size_t n = 0;

    CHECK_INT(mrd_dumps(0, "json", "total", 0, &text), MERIDIAN_OK);
    CHECK(strstr(text, "\"Scopes\":[") != NULL);
    p = text;
    while (n < ROWS_MAX && (p = strstr(p, "{\"Name\":")) != NULL) {
        char place[16];

        memset(&rows[n], 0, sizeof(rows[n]));
        CHECK_INT(sscanf(p,
                         "{\"Name\":\"%63[^\"]\",\"Place\":\"%15[^\"]\",\"Count\":%" SCNu64
                         ",\"Current\":%" SCNu64 ",\"Peak\":%" SCNu64 ",\"Allocated\":%" SCNu64
                         ",\"Freed\":%" SCNu64 "}",
                         rows[n].name, place, &rows[n].count, &rows[n].current, &rows[n].peak,
                         &rows[n].allocated, &rows[n].freed),
                  7);
        rows[n].device = strcmp(place, "device") == 0;
        n++;
        p++;
    }
    p = strstr(text, "\"Untracked\":");
    CHECK(p != NULL);
    *ret_untracked = p == NULL ? UINT64_MAX : strtoull(p + strlen("\"Untracked\":"), NULL, 10);
    mrd_free(text);
    return n;
}

static void
model_name(int name, char text[96])
{
    char plain[64];

    snprintf(text, 96, "%s%s", name >= NAMES && name < 2 * NAMES ? "test/" : "",
             name == 2 * NAMES ? "(no scope)" : name_text(name, plain));
}

static void
compare(void)
{
    row rows[ROWS_MAX];
    uint64_t untracked, device = 0;
    size_t n = said(rows, &untracked), want = 0;
    nrt_vnc_memory_stats_t stats = { 0 };
    size_t size = 0;

    for (int m = 0; m <= 2 * NAMES; m++)
        for (int p = 0; p < 2; p++) {
            const row *w = &model[m][p], *got = NULL;
            char name[96];

            if (!w->any)
                continue;
            want++;
            model_name(m, name);
            for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, name) == 0 && rows[i].device == (p == 1))
                    got = &rows[i];
            CHECK_ROW(name, got != NULL);
            if (got == NULL)
                continue;
            CHECK_ROW(name, got->count == w->count && got->current == w->current);
            CHECK_ROW(name, got->peak == w->peak && got->allocated == w->allocated);
            CHECK_ROW(name, got->freed == w->freed && w->allocated - w->freed == w->current);
            device += p == 1 ? got->current : 0;
        }
    CHECK_INT(n, want);
    CHECK_INT(untracked, 0);
    for (size_t i = 0; i < HELD_MAX; i++) /* tensors from pauses are not counted */
        device += held[i].used && held[i].tensor != NULL && !held[i].booked ? held[i].bytes : 0;
    CHECK_INT(nrt_get_vnc_memory_stats(0, &stats, sizeof(stats), &size), NRT_SUCCESS);
    CHECK_INT(device, stats.bytes_used);
}

static void
begin_seed(void)
{
    const char *text = getenv("MRD_SEED");

    seed = text != NULL ? strtoull(text, NULL, 10) : 1;
    printf("MRD_SEED=%" PRIu64 "\n", seed);
}

TEST(random_nests_of_four_threads)
{
    begin_seed();
    start();
    recording = true;
    CHECK_INT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "1", "2"), NRT_SUCCESS);
    workers_start();
    for (int i = 0; i < STEPS; i++) {
        int t = (int) roll(THREADS);
        uint64_t what = roll(100);

        if (what < 30 && recording)
            open_one(t);
        else if (what < 55)
            close_one(t);
        else if (what < 80)
            take_one(t);
        else
            give_one(t);
        if (i % 500 == 499)
            compare();
        if (i % 1000 == 600) {
            recording = !recording;
            CHECK_INT(recording ? mrd_resume() : mrd_pause(), MERIDIAN_OK);
        }
        if (i == STEPS / 2) {
            char *text = NULL;

            CHECK_INT(mrd_dumps(1, "json", "total", 0, &text), MERIDIAN_OK);
            mrd_free(text);
            model_reset();
        }
    }
    compare();
    workers_stop();
    CHECK_INT(mrd_lost(), 0);
}

/* ---- the counters of the profile
 * -------------------------------------------------------------- */

typedef struct {
    char name[240];
    uint64_t value, samples;
    int64_t ts;
    char unit[16];
} series;
static series counters[4 * ROWS_MAX];
static size_t n_counters;

static void
counter(const mrd_ring_reader *r, const mrd_ring_event *ev)
{
    const mrd_ring_track_info *track = mrd_ring_track_of(r, ev->track);
    char name[240];
    size_t i = 0;

    if (ev->kind != MRD_REC_COUNTER || track == NULL)
        return;
    snprintf(name, sizeof(name), MRD_STR_FMT, MRD_STR_ARG(track->name));
    while (i < n_counters && strcmp(counters[i].name, name) != 0)
        i++;
    if (i == n_counters && n_counters++ < 4 * ROWS_MAX) {
        snprintf(counters[i].name, sizeof(counters[i].name), "%s", name);
        snprintf(counters[i].unit, sizeof(counters[i].unit), MRD_STR_FMT,
                 MRD_STR_ARG(mrd_ring_text(r, track->def.unit)));
        counters[i].ts = INT64_MIN;
    }
    counters[i].samples++;
    if (ev->ts.ns >= counters[i].ts) { /* the latest of all rings */
        counters[i].ts = ev->ts.ns;
        counters[i].value = ev->value;
    }
}

static void
read_rings(void)
{
    const char *dir = getenv("MERIDIAN_RING_DIR");
    char command[400], path[600], line[400];
    FILE *list;

    snprintf(command, sizeof(command), "ls '%s' | grep '[.]%d[.][0-9]*[.][0-9]*[.]ring'", dir,
             (int) getpid());
    list = popen(command, "r");
    while (fgets(line, sizeof(line), list) != NULL) {
        mrd_ring_reader *r = NULL;
        mrd_ring_event ev;
        mrd_why why = { .text = "" };

        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof(path), "%s/%s", dir, line);
        CHECK_ERR(why.text, mrd_ring_open(AT_FDCWD, path, NULL, &r, &why), MRD_OK);
        while (r != NULL && mrd_ring_next(r, &ev, &why) == MRD_RING_MORE)
            counter(r, &ev);
        mrd_ring_close(r);
    }
    pclose(list);
}

static void
check_counter(const char *place, const char *what, const char *scope, uint64_t want)
{
    char name[160];

    snprintf(name, sizeof(name), "memory.%s.%s/%s", place, what, scope);
    for (size_t i = 0; i < n_counters; i++)
        if (strcmp(counters[i].name, name) == 0) {
            CHECK_ROW(name, counters[i].value == want);
            CHECK_TEXT(counters[i].unit, strcmp(what, "allocations") == 0 ? "count" : "bytes");
            return;
        }
    CHECK_ROW(name, want == 0);
}

static pthread_barrier_t meet; /* all threads must have their own rings before one ends */

static void *
hammer(void *arg)
{
    char *base = arg, text[32];

    mrd_instant(NULL, "here", MRD_SCOPE_THREAD, NULL, 0);
    pthread_barrier_wait(&meet);

    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), "work %d", i % 3);
        mrd_push(NULL, text);
        mrd_memory_allocated(base + i % 16, 10);
        mrd_pop();
        if (i % 16 >= 8)
            mrd_memory_freed(base + i % 16);
    }
    return NULL;
}

/* Threads use the same scopes concurrently. The last sample of each counter equals its account. */
TEST(counters_of_threads_at_once)
{
    static char memory[THREADS][16];
    pthread_t threads[THREADS];
    row rows[ROWS_MAX];
    uint64_t untracked, count = 0, current = 0;
    size_t n;

    start();
    pthread_barrier_init(&meet, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, hammer, memory[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    n = said(rows, &untracked);
    CHECK_INT(n, 3);
    CHECK_INT(untracked, 0);
    CHECK_INT(mrd_lost(), 0);
    read_rings();
    for (size_t i = 0; i < n; i++) {
        check_counter("host", "current", rows[i].name, rows[i].current);
        check_counter("host", "peak", rows[i].name, rows[i].peak);
        check_counter("host", "allocated", rows[i].name, rows[i].allocated);
        check_counter("host", "allocations", rows[i].name, rows[i].count);
        CHECK_INT(rows[i].allocated, rows[i].count * 10);
        CHECK(rows[i].peak >= rows[i].current);
        count += rows[i].count;
        current += rows[i].current;
    }
    CHECK_INT(count, THREADS * 2000);
    CHECK_INT(current, THREADS * 8 * 10); /* eight of the sixteen slots of each are never freed */
}

/* ---- limits ---------------------------------------------------------------------------------- */

TEST(more_scopes_than_accounts)
{
    uint64_t further = 0;
    char text[64], *all = NULL, *p;
    size_t n = 0;

    start();
    for (uintptr_t i = 0; i < 600; i++) {
        snprintf(text, sizeof(text), "one of many %d", (int) i);
        mrd_push(domain, text);
        mrd_memory_allocated((void *) (i + 1), 3);
        mrd_pop();
    }
    CHECK_INT(mrd_dumps(0, "json", "total", 0, &all), MERIDIAN_OK);
    for (p = all; (p = strstr(p, "\"Place\":")) != NULL; p++)
        n++;
    CHECK_INT(n, 65);
    p = strstr(all, "{\"Name\":\"(further scopes)\",\"Place\":\"host\",\"Count\":");
    REQUIRE(p != NULL);
    further = strtoull(strstr(p, "Count\":") + 7, NULL, 10);
    CHECK_INT(further, 600 - 64);
    mrd_free(all);
    for (uintptr_t i = 0; i < 600; i++)
        mrd_memory_freed((void *) (i + 1));
    CHECK_INT(mrd_dumps(0, "table", "total", 0, &all), MERIDIAN_OK);
    CHECK(strstr(all, "Memory by scope\n") != NULL);
    mrd_free(all);
}

static size_t
counters_at(const char *begin, uint64_t value)
{
    size_t n = 0;

    for (size_t i = 0; i < n_counters; i++)
        n += strncmp(counters[i].name, begin, strlen(begin)) == 0 && counters[i].value == value;
    return n;
}

/* The names are long and have a common prefix, like those of tensor shapes. Each name must have its
 * own counters. */
TEST(long_names_are_told_apart)
{
    char name[600], memory[3];

    start();
    for (int i = 0; i < 3; i++) {
        memset(name, 'x', sizeof(name));
        memcpy(name + 139, "\xc3\xa9", 2); /* a character that must not be cut in the middle */
        snprintf(name + 590, 10, "%d", i);
        mrd_push(NULL, name);
        mrd_memory_allocated(&memory[i], i == 0 ? 100 : 7);
        mrd_pop();
    }
    mrd_memory_freed(&memory[1]);
    read_rings();
    CHECK_INT(counters_at("memory.host.current/xxx", 100), 1);
    CHECK_INT(counters_at("memory.host.current/xxx", 7), 1);
    CHECK_INT(counters_at("memory.host.current/xxx", 0), 1);
    CHECK_INT(counters_at("memory.host.allocated/xxx", 7), 2);
    for (size_t i = 0; i < n_counters; i++)
        CHECK(strstr(counters[i].name, "x...") != NULL);
}

TEST(more_allocations_than_are_kept)
{
    row rows[ROWS_MAX] = { 0 };
    uint64_t untracked = 0;

    start();
    mrd_push(NULL, "many");
    mrd_pause(); /* the samples would fill the ring and are not tested here */
    mrd_resume();
    for (uintptr_t i = 0; i < (1u << 20) + 1000; i++)
        mrd_memory_allocated((void *) (i * 64 + 1), 1);
    mrd_pop();
    CHECK_INT(said(rows, &untracked), 1);
    CHECK_INT(rows[0].current, 1 << 20);
    CHECK_INT(untracked, 1000);
    for (uintptr_t i = 0; i < (1u << 20) + 1000; i++)
        mrd_memory_freed((void *) (i * 64 + 1));
    CHECK_INT(said(rows, &untracked), 1);
    CHECK_INT(rows[0].current, 0);
    CHECK_INT(rows[0].freed, 1 << 20);
}

/* When the runtime is closed, all memory of its tensors counts as freed. The program's own memory
 * does not. */
TEST(tensors_end_with_the_runtime)
{
    static char own[16];
    static nrt_tensor_t *left[2][300]; /* never freed, because the closed runtime held them */
    row rows[ROWS_MAX] = { 0 };
    uint64_t untracked = 0, device = 0;
    size_t n;

    start();
    for (int turn = 0; turn < 2; turn++) {
        CHECK_INT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "1", "2"), NRT_SUCCESS);
        for (int i = 0; i < 300; i++) {
            mrd_scope scope;

            mrd_scope_begin(&scope, NULL, i % 3 == 0 ? "one" : "other");
            CHECK_INT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 10, "t", &left[turn][i]),
                      NRT_SUCCESS);
            mrd_memory_allocated(own + turn * 8, 3);
            mrd_scope_end(&scope);
        }
        nrt_close();
    }
    n = said(rows, &untracked);
    for (size_t i = 0; i < n; i++) {
        CHECK_ROW(rows[i].name, !rows[i].device || rows[i].current == 0);
        device += rows[i].device ? rows[i].freed : 0;
        CHECK_ROW(rows[i].name,
                  rows[i].device || rows[i].current + rows[i].freed == 3 * rows[i].count);
    }
    CHECK_INT(device, 6000);
    mrd_memory_freed(own);
    mrd_memory_freed(own + 8);
    n = said(rows, &untracked);
    for (size_t i = 0; i < n; i++)
        CHECK_ROW(rows[i].name, rows[i].current == 0);
}

TEST(off_means_off)
{
    row rows[ROWS_MAX] = { 0 };
    uint64_t untracked = 0;

    mrd_memory_allocated(&untracked, 100);
    mrd_memory_freed(&untracked);
    CHECK_INT(said(rows, &untracked), 0);
    start();
    CHECK_INT(mrd_set_config("profile_memory", "0"), MERIDIAN_OK);
    mrd_memory_allocated(&untracked, 100);
    CHECK_INT(said(rows, &untracked), 0);
    CHECK_INT(mrd_set_config("profile_memory", "1"), MERIDIAN_OK);
    mrd_memory_allocated(&untracked, 100);
    CHECK_INT(said(rows, &untracked), 1);
    CHECK_TEXT(rows[0].name, "(no scope)");
}

/* Exits without ThreadSanitizer's checks, which would report the parent's thread as not joined by
 * this child. */
static void
end_child(int status)
{
    (void) syscall(SYS_exit_group, status);
}

/* A child of fork starts with empty accounts, even if it was forked while other threads
 * allocate. */
TEST(child_of_fork)
{
    static char memory[16];
    pthread_t thread;
    row rows[ROWS_MAX] = { 0 };
    uint64_t untracked = 0;

    start();
    pthread_barrier_init(&meet, NULL, 1);
    mrd_memory_allocated(&untracked, 5);
    REQUIRE(pthread_create(&thread, NULL, hammer, memory) == 0);
    for (int i = 0; i < 20; i++) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            if (said(rows, &untracked) != 0)
                end_child(1);
            mrd_memory_freed(&untracked); /* allocated by the parent, so it is untracked here */
            mrd_memory_allocated(&i, 7);
            end_child(said(rows, &untracked) == 1 && rows[0].current == 7 ? 0 : 2);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_INT(status, 0);
    }
    pthread_join(thread, NULL);
}

int
main(int argc, char **argv)
{
    return api_main(argc, argv);
}
