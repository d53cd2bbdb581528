/*
 * Measures the stack that each function of meridian.h uses, because programs annotate in signal
 * handlers on small alternate stacks and on the stacks of coroutines. Every function is called in a
 * separate process on a stack filled with a pattern. The overwritten part of the pattern is the
 * stack that it used. Annotations are measured twice: as the first event of the process, which
 * makes its ring, and as a later one.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/capture/api_start.h"

#define STACK (256u << 10)
#define MOST  4096u /* maximum bytes of stack that a call may use */
#define FILES 8192u /* maximum for a call that makes, reads and writes many files */
#define PAINT 0xa5
#define ARGS  64

static mrd_task *task;
static mrd_user_event *event;
static mrd_frame *frame;
static mrd_counter *counter;
static mrd_marker *marker;
static mrd_models *models;
static mrd_counters *counters;
static mrd_region region;
static mrd_scope scope;
static mrd_kv args[ARGS];
static char keys[ARGS][8], *text;
static uint64_t span;
static FILE *out;

/* ---- entries ---------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    void (*before)(void); /* prepares the call on the usual stack, or NULL */
    void (*call)(void);
    bool annotates; /* the call records an event, which may be the first of its process */
    size_t most;
} entry;

/* How the process of a call begins. */
typedef enum { LATER, FIRST, WITHOUT_RING, WAYS } way;
static const char *const ways[] = { "", ", the first event", ", without a ring" };

static void
begin_scope(void)
{
    mrd_scope_begin(&scope, domain, "scope");
}

static void
push(void)
{
    mrd_push(domain, "push");
}

static void
begin_span(void)
{
    span = mrd_span_begin(domain, "span", NULL, 0);
}

static void
start_task(void)
{
    (void) mrd_task_start(task);
}

static void
start_event(void)
{
    (void) mrd_event_start(event);
}

static void
start_frame(void)
{
    (void) mrd_frame_start(frame);
}

static void
start_region(void)
{
    (void) mrd_region_start(&region);
}

static void
start_regions(void)
{
    (void) mrd_regions_start_by_name(&region, 1, "region");
}

static void
allocate(void)
{
    mrd_memory_allocated(&region, 100);
}

/* Makes names, statistics, memory and a model, as contents of dumps and statistics. */
static void
work(void)
{
    (void) mrd_set_config("aggregate_stats", "1");
    begin_scope();
    allocate();
    mrd_scope_end_args(&scope, args, ARGS);
    (void) mrd_counter_set(counter, 3);
    (void) mrd_model_loaded(1, NULL, "model", 5, 0, 1);
    begin_scope();
}

static void
open_file(void)
{
    out = fopen("/dev/null", "w");
}

static void
make_counters(void)
{
    const char *names[] = { "host_cpu_percent*", "host_mem*" };

    (void) mrd_counters_create(names, MRD_COUNT(names), -1, -1, &counters);
}

static void
start_counters(void)
{
    make_counters();
    (void) mrd_counters_start(counters, 1000000000);
}

static void
make_models(void)
{
    (void) mrd_models_create(MRD_MODELS_ALL, 0, &models);
}

static void
start_models(void)
{
    make_models();
    (void) mrd_models_start(models);
    (void) mrd_model_loaded(2, "/proc/self/exe", NULL, 0, 0, 1);
}

static void
load_model(void)
{
    (void) mrd_model_loaded(3, NULL, "model", 5, 0, 1);
}

#define CALL(name, ...)                                                                            \
    static void call_##name(void)                                                                  \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
#define ENTRIES(ANNOTATION, OTHER, FILE)                                                           \
    ANNOTATION(scope_begin_site_, NULL, static mrd_site site = MRD_SITE("site");                   \
               mrd_scope_begin_site(&scope, domain, &site))                                        \
    ANNOTATION(scope_begin_text_, NULL, mrd_scope_begin(&scope, domain, "text"))                   \
    OTHER(scope_end_, begin_scope, mrd_scope_end_args(&scope, args, ARGS))                         \
    ANNOTATION(push_, NULL, mrd_push(domain, "push"))                                              \
    OTHER(pop_, push, mrd_pop_args(args, ARGS))                                                    \
    ANNOTATION(span_begin, NULL, (void) mrd_span_begin(domain, "span", args, ARGS))                \
    OTHER(span_end, begin_span, mrd_span_end(span, args, ARGS))                                    \
    ANNOTATION(span, NULL, mrd_span(domain, "whole", mrd_now() - 9, mrd_now(), args, ARGS))        \
    ANNOTATION(now, NULL, (void) mrd_now())                                                        \
    ANNOTATION(ticks_ns, NULL, (void) mrd_ticks_ns(mrd_now()))                                     \
    ANNOTATION(instant_, NULL, mrd_instant(domain, "instant", MRD_SCOPE_TASK, args, ARGS))         \
    ANNOTATION(instant_site_, NULL, MRD_INSTANT(domain, "site", MRD_SCOPE_THREAD))                 \
    ANNOTATION(flow_new, NULL, (void) mrd_flow_new())                                              \
    ANNOTATION(flow_, NULL, mrd_flow_begin(domain, "flow", 7))                                     \
    ANNOTATION(thread_name, NULL, mrd_thread_name("a thread"))                                     \
    OTHER(task_create, NULL, (void) mrd_task_create(domain, "new"))                                \
    ANNOTATION(task_start, NULL, start_task())                                                     \
    OTHER(task_stop, start_task, (void) mrd_task_stop(task))                                       \
    OTHER(task_destroy, NULL, mrd_task_destroy(task))                                              \
    OTHER(frame_create, NULL, (void) mrd_frame_create(domain, "new"))                              \
    ANNOTATION(frame_start, NULL, start_frame())                                                   \
    OTHER(frame_stop, start_frame, (void) mrd_frame_stop(frame))                                   \
    OTHER(frame_count, NULL, (void) mrd_frame_count(frame))                                        \
    OTHER(frame_rate, NULL, (void) mrd_frame_rate(frame))                                          \
    OTHER(frame_destroy, NULL, mrd_frame_destroy(frame))                                           \
    OTHER(event_create, NULL, (void) mrd_event_create("new"))                                      \
    ANNOTATION(event_start, NULL, start_event())                                                   \
    OTHER(event_stop, start_event, (void) mrd_event_stop(event))                                   \
    OTHER(event_destroy, NULL, mrd_event_destroy(event))                                           \
    OTHER(counter_create, NULL, (void) mrd_counter_create(domain, "new", "bytes", 1))              \
    ANNOTATION(counter_set, NULL, (void) mrd_counter_set(counter, 7))                              \
    ANNOTATION(counter_add, NULL, (void) mrd_counter_add(counter, 7))                              \
    OTHER(counter_get, NULL, (void) mrd_counter_get(counter))                                      \
    ANNOTATION(counter_sample, NULL, (void) mrd_counter_sample(counter, 0.5))                      \
    OTHER(counter_destroy, NULL, mrd_counter_destroy(counter))                                     \
    OTHER(marker_create, NULL, (void) mrd_marker_create(domain, "new"))                            \
    ANNOTATION(marker_mark, NULL, (void) mrd_marker_mark(marker, MRD_SCOPE_GLOBAL))                \
    OTHER(marker_destroy, NULL, mrd_marker_destroy(marker))                                        \
    ANNOTATION(memory_allocated_, NULL, allocate())                                                \
    OTHER(memory_freed_, allocate, mrd_memory_freed(&region))                                      \
    OTHER(set_config, NULL, (void) mrd_set_config("dump_period", "nonsense"))                      \
    OTHER(set_state, push, (void) mrd_set_state(0))                                                \
    OTHER(pause, push, (void) mrd_pause())                                                         \
    OTHER(resume, push, (void) mrd_resume())                                                       \
    OTHER(status_text, NULL, (void) mrd_status_text())                                             \
    OTHER(lost, push, (void) mrd_lost())                                                           \
    FILE(dump, work, (void) mrd_dump(1))                                                           \
    OTHER(dumps, work, (void) mrd_dumps(1, "json", "total", 0, &text))                             \
    OTHER(region_init, NULL, (void) mrd_region_init(&region, NULL))                                \
    OTHER(region_release, NULL, (void) mrd_region_release(&region))                                \
    ANNOTATION(region_start_, NULL, start_region())                                                \
    OTHER(region_stop_, start_region, (void) mrd_region_stop(&region))                             \
    OTHER(region_print, open_file, (void) mrd_region_print(&region, out))                          \
    OTHER(regions_init, NULL, (void) mrd_regions_init(&region, 1, NULL))                           \
    OTHER(regions_release, NULL, (void) mrd_regions_release(&region, 1))                           \
    OTHER(regions_clear, NULL, (void) mrd_regions_clear(&region, 1))                               \
    OTHER(regions_start_by_name, NULL, start_regions())                                            \
    OTHER(regions_stop_by_name, start_regions,                                                     \
          (void) mrd_regions_stop_by_name(&region, 1, "region"))                                   \
    OTHER(regions_print_all, open_file, (void) mrd_regions_print_all(&region, 1, out))             \
    OTHER(regions_print_to_buf, NULL, (void) mrd_regions_print_to_buf(NULL, 0, &region, 1))        \
    OTHER(domain_create, NULL, (void) mrd_domain_create("new"))                                    \
    FILE(counters_create, NULL, make_counters())                                                   \
    OTHER(counters_count, make_counters, (void) mrd_counters_count(counters))                      \
    OTHER(counters_start, make_counters, (void) mrd_counters_start(counters, 1000000000))          \
    OTHER(counters_poll, start_counters, static mrd_counter_value v[4096];                         \
          (void) mrd_counters_poll(counters, 0, 1000000000, v, MRD_COUNT(v)))                      \
    OTHER(counters_stop, start_counters, (void) mrd_counters_stop(counters))                       \
    OTHER(counters_destroy, start_counters, mrd_counters_destroy(counters))                        \
    OTHER(models_create, NULL, make_models())                                                      \
    OTHER(models_start, make_models, (void) mrd_models_start(models))                              \
    OTHER(models_stop, start_models, (void) mrd_models_stop(models))                               \
    OTHER(models_get, start_models, static mrd_model_list list;                                    \
          (void) mrd_models_get(models, &list))                                                    \
    OTHER(models_free, start_models, (void) mrd_models_free(models))                               \
    OTHER(model_loaded, start_models, (void) mrd_model_loaded(4, "/proc/self/exe", NULL, 0, 0, 1)) \
    OTHER(model_unloaded, load_model, (void) mrd_model_unloaded(3))                                \
    OTHER(error_text, NULL, (void) mrd_error_text(4))                                              \
    OTHER(last_error, NULL, (void) mrd_last_error())                                               \
    OTHER(version, NULL, (void) mrd_version())                                                     \
    OTHER(free, NULL, mrd_free(NULL))

#define DEFINE(name, before, ...) CALL(name, __VA_ARGS__)
ENTRIES(DEFINE, DEFINE, DEFINE)
#define ANNOTATION_ROW(name, before, ...) { "mrd_" #name, before, call_##name, true, MOST },
#define OTHER_ROW(name, before, ...)      { "mrd_" #name, before, call_##name, false, MOST },
#define FILE_ROW(name, before, ...)       { "mrd_" #name, before, call_##name, false, FILES },
static const entry entries[] = { ENTRIES(ANNOTATION_ROW, OTHER_ROW, FILE_ROW) };

/* ---- measuring -------------------------------------------------------------------------------- */

static uint8_t *stack;
static void (*volatile under_test)(void);
static volatile uintptr_t called_at;

static __attribute__((noinline)) void
on_signal(int sig)
{
    uint8_t here[16];

    (void) sig;
    called_at = (uintptr_t) here;
    under_test();
}

/* Returns the bytes of stack that the call uses on an alternate stack. */
static size_t
measure(void (*call)(void))
{
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
    stack_t alternate = { .ss_sp = stack, .ss_size = STACK };
    size_t gone = 0;

    memset(stack, PAINT, STACK);
    under_test = call;
    if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGUSR1, &act, NULL) != 0 ||
        raise(SIGUSR1) != 0)
        return SIZE_MAX;
    while (gone < STACK && stack[gone] == PAINT)
        gone++;
    return called_at - (uintptr_t) stack - gone;
}

static void
make_objects(void)
{
    start();
    task = mrd_task_create(domain, "task");
    event = mrd_event_create("event");
    frame = mrd_frame_create(domain, "frame");
    counter = mrd_counter_create(domain, "counter", "bytes", 1);
    marker = mrd_marker_create(domain, "marker");
    (void) mrd_region_init(&region, "region");
    for (size_t i = 0; i < ARGS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key%zu", i);
        args[i] = i % 2 == 0 ? mrd_kv_text(keys[i], "text") : mrd_kv_u64(keys[i], i);
    }
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void) mrd_set_config("filename", "/dev/null");
}

/* Measures in a separate process, because the library initialises itself only once per process. */
static size_t
measured(const entry *e, way how)
{
    const struct rlimit none = { 0, 0 };
    int end[2];
    size_t used = SIZE_MAX;
    pid_t pid;

    if (pipe(end) != 0)
        return SIZE_MAX;
    if ((pid = fork()) == 0) {
        if (how == WITHOUT_RING)
            (void) setrlimit(RLIMIT_FSIZE, &none);
        if (how == LATER)
            MRD_INSTANT(domain, "before", MRD_SCOPE_THREAD);
        if (e->before != NULL)
            e->before();
        used = measure(e->call);
        _exit(write(end[1], &used, sizeof(used)) != sizeof(used));
    }
    close(end[1]);
    if (read(end[0], &used, sizeof(used)) != sizeof(used))
        used = SIZE_MAX;
    close(end[0]);
    waitpid(pid, NULL, 0);
    return used;
}

static void
check_entry(const entry *e, way how)
{
    size_t used = measured(e, how);
    char row[100];

    snprintf(row, sizeof(row), "%s%s: %zu bytes of stack", e->name, ways[how], used);
    if (getenv("MRD_TEST_SHOW") != NULL)
        printf("%s\n", row);
    CHECK_ROW(row, used <= e->most);
}

TEST(every_entry_takes_little_stack)
{
    make_objects();
    for (size_t i = 0; i < MRD_COUNT(entries); i++)
        for (way how = LATER; how < (entries[i].annotates ? WAYS : FIRST); how++)
            check_entry(&entries[i], how);
}

/* A function that is added to the header needs a row. */
TEST(every_entry_is_measured)
{
    char path[4096], line[512], name[100];
    const char *source = getenv("MERIDIAN_SOURCE");
    FILE *f;
    size_t n = 0;

    if (source == NULL)
        SKIP("MERIDIAN_SOURCE is not set");
    snprintf(path, sizeof(path), "%s/capture/meridian.h", source);
    REQUIRE((f = fopen(path, "re")) != NULL);
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *at = strncmp(line, "MRD_API ", 8) == 0 ? strstr(line, "mrd_") : NULL;
        bool known = false;

        for (; at != NULL && at[strspn(at, "abcdefghijklmnopqrstuvwxyz_")] != '(';)
            at = strstr(at + 4, "mrd_"); /* a type before the name */
        if (at == NULL)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int) strcspn(at, "("), at);
        for (size_t i = 0; i < MRD_COUNT(entries); i++)
            known = known || strcmp(entries[i].name, name) == 0;
        CHECK_ROW(name, known);
        n++;
    }
    fclose(f);
    CHECK_INT(n, MRD_COUNT(entries));
}

int
main(int argc, char **argv)
{
    return api_main(argc, argv);
}
