/*
 * Records the runtime's system trace: a thread fetches the trace from the runtime as JSON text and
 * writes the text to the thread's ring.
 *
 * A fetch removes events from the runtime, so only one consumer can fetch at a time:
 *   OURS   This library started the trace, and its thread fetches.
 *   APP    The application started a trace. The library's own trace is stopped before it and
 *          started again after it. Only the application fetches, and it gets exactly what it would
 *          get without this library. The thread gets a copy of each text. When the application
 *          stops its trace, the thread fetches the remaining events.
 * If the application calls stop or fetch without a start, it must get the same status as without
 * this library. Therefore the library's own trace is stopped during such a call.
 *
 * The thread fetches often enough that the runtime's rings do not overflow. The pause between
 * fetches halves if a fetch returned much and doubles if it returned little. After a full portion
 * there is no pause. The thread does not fetch while its ring has no room for the result, for
 * example because no agent runs. The runtime's rings hold a million events per core, and the
 * thread's ring holds 8 MiB of text.
 *
 * `lock` protects the state of this file. It is held during calls of the trace interface, but never
 * while text waits for room in the ring. Between fetches, without the lock, the thread handles
 * requests for device profiles (nrt_request.c).
 */
#include "capture/nrt/nrt_hook.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sys/threads.h"
#include "capture/nrt/models.h"
#include "capture/nrt/nrt_async.h"
#include "capture/nrt/nrt_call.h"
#include "capture/nrt/nrt_request.h"
#include "capture/nrt/nrt_settings.h"
#include "capture/nrt/nrt_text.h"
#include "capture/nrt/nrt_types.h"
#include "capture/nrt/nrt_wait.h"
#include "capture/process.h"

#define PORTION       4000u /* maximum events per core of one fetch */
#define PORTION_MIN   64u
#define PORTION_FIRST 500u
#define EVENT_BYTES   150u /* least number of bytes of text for one event, approximately */
#define PAUSE_MIN     (2 * MRD_MS)
/* maximum pause between fetches; a SIGKILL loses the events of one pause */
#define PAUSE_MAX (100 * MRD_MS)
/* pause while asynchronous requests are in flight, so that their ends are observed in time */
#define ASYNC_PAUSE (5 * MRD_MS)
#define MUCH        (256u << 10) /* a fetch with more bytes halves the pause */
#define QUEUE_MAX   (64u << 20)  /* maximum bytes of copies that wait for the thread */
#define RETRIES     8u           /* number of refused fetches after which the trace ends */
/* maximum bytes of the extra ring that is made when the process ends */
#define REST_BYTES (30u << 20)
#define RING_BYTES (8u << 20)
/* Turning recording off waits at most this long for the runtime's last events. */
#define FLUSH_WAIT MRD_SEC
#define ROOM_PAUSE (5 * MRD_MS)   /* time until the ring's room is checked again */
#define LOOK_PAUSE (100 * MRD_MS) /* time between two reads of the settings file */
/* ns until the thread, if it has no ring yet, tries again to get one */
#define RING_PAUSE 999999999L

typedef enum { OFF, OURS, APP } trace_owner;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake, room; /* initialized with the thread */
static pthread_t thread;
static bool runs, stopping, fork_ready;
static bool switched_off; /* true if turning recording off has stopped the trace */
static bool refused;      /* the trace could not begin with the current settings */
static trace_owner owner;
static mrd_sys_texts texts; /* texts that wait for room in the ring */
static unsigned flushes_wanted, flushes_done;
static size_t lost_texts;
static nrt_sys_trace_fetch_options_t *portion;
static unsigned portion_events;
/* a fetch with more bytes than this halves the pause; MUCH, or less if the runtime's rings are
 * small */
static size_t much;

/* ---- calls of the runtime; the caller holds the lock ----------------------------------------- */

static void
env_filters(nrt_sys_trace_config_t *config)
{
    const char *max = getenv("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC");
    __typeof__(nrt_sys_trace_config_set_max_events_per_nc) *set =
        MRD_NRT_REAL(nrt_sys_trace_config_set_max_events_per_nc);

    much = MUCH;
    if (max == NULL || set == NULL || strtoull(max, NULL, 10) == 0)
        return;
    set(config, strtoull(max, NULL, 10));
    /* the runtime's rings are small: a text with half a ring of events already halves the pause */
    if (strtoull(max, NULL, 10) < MUCH / EVENT_BYTES)
        much = (size_t) strtoull(max, NULL, 10) * EVENT_BYTES / 2;
}

#define FILTER_NC "NEURON_RT_INSPECT_EVENT_FILTER_NC"

/* the merged requests of all sessions */
static mrd_nrt_settings asked = { .any_core = true, .recording = -1 };

static bool
leave_out(void *config, const char *type)
{
    return MRD_NRT_REAL(nrt_sys_trace_config_set_capture_enabled_for_event_type)(
               config, type, false) == NRT_SUCCESS;
}

/* Enables the event types in `list`, which are separated by commas. "" means all types. */
static const char *
choose_types(nrt_sys_trace_config_t *config, const char *list, bool strict, char why[300])
{
    if (list != NULL && *list != '\0' &&
        MRD_NRT_REAL(nrt_sys_trace_config_set_capture_enabled_for_event_type) == NULL)
        return MRD_NRT_FILTER_TYPE ": this runtime library cannot choose event types";
    return mrd_nrt_types_choose(list, strict, leave_out, config, why);
}

/* Disables the trace of cores that the sessions do not choose. */
static const char *
choose_cores(nrt_sys_trace_config_t *config, const bool core[MRD_CONTROL_CORES])
{
    __typeof__(nrt_sys_trace_config_set_capture_enabled_for_nc) *enable =
        MRD_NRT_REAL(nrt_sys_trace_config_set_capture_enabled_for_nc);
    uint32_t n = mrd_nrt_cores(MRD_CONTROL_CORES);

    if (enable == NULL)
        return FILTER_NC ": this runtime library cannot choose cores";
    for (uint32_t i = 0; i < n; i++)
        if (!core[i])
            enable(config, i, false);
    return NULL;
}

/* Configures the cores and event types of the trace. Only events are recorded that both the
 * runtime's own environment variables and the settings of the sessions allow. */
static const char *
choose(nrt_sys_trace_config_t *config, char why[300])
{
    const char *list = getenv(FILTER_NC), *unfit = NULL;
    bool core[MRD_CONTROL_CORES] = { false }, any = true;

    if (list != NULL && *list != '\0' && !mrd_control_cores(list, &any, core)) {
        snprintf(why, 300, FILTER_NC ": '%.100s' is not a list of cores: write 0,2,4-7", list);
        return why;
    }
    if (!any)
        unfit = choose_cores(config, core);
    if (unfit == NULL)
        unfit = choose_types(config, getenv(MRD_NRT_FILTER_TYPE), true, why);
    if (unfit == NULL && !asked.any_core)
        unfit = choose_cores(config, asked.core);
    return unfit != NULL ? unfit : choose_types(config, asked.types, false, why);
}

/* Begins the library's own trace. Returns NULL, or the reason why it cannot begin. */
static const char *
start_ours(char why[300])
{
    __typeof__(nrt_sys_trace_config_allocate) *make = MRD_NRT_REAL(nrt_sys_trace_config_allocate);
    __typeof__(nrt_sys_trace_config_free) *drop = MRD_NRT_REAL(nrt_sys_trace_config_free);
    __typeof__(nrt_sys_trace_start) *start = MRD_NRT_REAL(nrt_sys_trace_start);
    nrt_sys_trace_config_t *config = NULL;
    const char *unfit;
    NRT_STATUS status;

    if (make == NULL || drop == NULL || start == NULL ||
        MRD_NRT_REAL(nrt_sys_trace_fetch_events) == NULL ||
        MRD_NRT_REAL(nrt_sys_trace_buffer_free) == NULL || MRD_NRT_REAL(nrt_sys_trace_stop) == NULL)
        return "this runtime library is older than the fetch interface";
    if ((status = make(&config)) != NRT_SUCCESS)
        return mrd_nrt_status_name(status);
    env_filters(config);
    unfit = choose(config, why);
    status = unfit == NULL ? start(config) : NRT_INVALID;
    drop(config);
    if (unfit != NULL)
        return unfit;
    if (status != NRT_SUCCESS)
        return mrd_nrt_status_name(status);
    owner = OURS;
    return NULL;
}

static void
arm(void)
{
    char reason[300] = "", message[360];
    const char *why = start_ours(reason);

    refused = why != NULL;
    if (why == NULL)
        return;
    snprintf(message, sizeof(message), "cannot arm the system trace: %s", why);
    mrd_rec_notice(message, NULL, 0);
}

/* Adds a copy of a text to the queue, for the thread to record. If the queue stays full for a
 * second, drops the text. The loss then shows as a gap in the event numbers, or is reported. */
static void
enqueue(const char *p, size_t len)
{
    struct timespec until = mrd_cond_deadline(MRD_SEC);

    while (runs && !stopping && texts.bytes > 0 && texts.bytes + len > QUEUE_MAX)
        if (pthread_cond_timedwait(&room, &lock, &until) == ETIMEDOUT)
            break;
    if (!runs || (texts.bytes > 0 && texts.bytes + len > QUEUE_MAX) ||
        !mrd_sys_texts_add(&texts, p, len))
        lost_texts++;
    else
        pthread_cond_signal(&wake);
}

/* Fetches one portion of events as text. Returns NULL if the runtime refuses. The caller frees the
 * text with the runtime's own function. */
static char *
fetch(size_t *ret_len, NRT_STATUS *ret_status)
{
    char *p = NULL;

    *ret_len = 0;
    *ret_status = MRD_NRT_REAL(nrt_sys_trace_fetch_events)(&p, ret_len, portion);
    return *ret_status == NRT_SUCCESS ? p : NULL;
}

/* Returns true if a text contains events. Other texts are not recorded. */
static bool
has_events(const char *p, size_t len)
{
    return len > 256 || (p != NULL && memmem(p, len, "\"event_type\"", 12) != NULL);
}

/* Returns true if the runtime may have more events than it gave. */
static bool
is_full(size_t len)
{
    return len > (size_t) portion_events * EVENT_BYTES;
}

/* Moves events from the runtime to the queue, until the queue has `limit` bytes or the runtime has
 * no more events. `steadily` means that the program keeps producing events, so that the first
 * portion that is not full ends the loop. Returns false if the runtime has no more events. */
static bool
take_rest(size_t limit, bool steadily)
{
    NRT_STATUS status = NRT_SUCCESS;
    unsigned failures = 0;
    bool more = true;
    size_t len;
    char *p;

    while (more && failures < RETRIES && texts.bytes < limit) {
        if ((p = fetch(&len, &status)) == NULL) {
            failures++;
            continue;
        }
        if ((more = has_events(p, len)))
            enqueue(p, len);
        more = more && !(steadily && !is_full(len));
        MRD_NRT_REAL(nrt_sys_trace_buffer_free)(p);
    }
    if (failures == RETRIES) {
        mrd_rec_arg arg = mrd_nrt_text(MRD_NRT_KEY_status_text, mrd_nrt_status_name(status));

        mrd_rec_notice("system trace lost: the runtime did not hand out its last events", &arg, 1);
    }
    return more && failures < RETRIES;
}

static void
stop_ours(void)
{
    (void) take_rest(SIZE_MAX, false);
    (void) MRD_NRT_REAL(nrt_sys_trace_stop)();
    owner = OFF;
}

/* ---- the thread that fetches the trace ------------------------------------------------------- */

/* Records the queued texts. The caller holds the lock, which is released while a text is recorded.
 * Returns false if some texts still wait for room. */
static bool
record_queued(void)
{
    bool done = true;

    while (texts.first != NULL && done) {
        mrd_sys_text *text = texts.first;

        pthread_mutex_unlock(&lock);
        done = mrd_sys_text_put(text);
        pthread_mutex_lock(&lock);
        if (done)
            mrd_sys_texts_drop_first(&texts);
        pthread_cond_signal(&room);
    }
    if (lost_texts > 0) {
        mrd_rec_arg arg = mrd_nrt_u64(MRD_NRT_KEY_count, lost_texts);

        lost_texts = 0;
        mrd_rec_notice("system trace lost: texts that the application fetched faster than they "
                       "could be passed on",
                       &arg, 1);
    }
    return done;
}

/* Limits a fetch to `events` events per core. */
static void
set_portion(unsigned events)
{
    __typeof__(nrt_sys_trace_fetch_options_set_max_events_per_nc) *set =
        MRD_NRT_REAL(nrt_sys_trace_fetch_options_set_max_events_per_nc);

    if (portion == NULL || set == NULL || events == portion_events)
        return;
    portion_events = events;
    set(portion, events);
}

/* Adapts the number of events per fetch to the size of the last text. That size cannot be
 * predicted, because the limit applies to each core and it is unknown how many cores have
 * events. */
static void
learn_portion(size_t len)
{
    size_t max = mrd_rec_blob_max();

    if (len > max / 2 && portion_events > PORTION_MIN)
        set_portion(portion_events / 2);
    else if (len < max / 8 && portion_events < PORTION)
        set_portion(portion_events * 2 < PORTION ? portion_events * 2 : PORTION);
}

/* Fetches once. `pause` is the time that was waited before this fetch. Returns the time to wait
 * before the next one. The caller holds the lock. */
static long
turn(long pause)
{
    NRT_STATUS status;
    size_t len = 0;
    bool full;
    char *p;

    if (!record_queued())
        return ROOM_PAUSE;
    if (owner != OURS)
        return PAUSE_MAX;
    if (mrd_rec_blob_max() == 0)
        return RING_PAUSE;
    if (!mrd_rec_blob_fits(mrd_rec_blob_max() / 2))
        return ROOM_PAUSE; /* until there is room, the runtime keeps its events */
    if ((p = fetch(&len, &status)) == NULL)
        /* A refused fetch leaves the events in the runtime, so a later fetch gets them. */
        return PAUSE_MAX;
    if (has_events(p, len) && !mrd_sys_text_put_whole(p, len))
        enqueue(p, len);
    MRD_NRT_REAL(nrt_sys_trace_buffer_free)(p);
    full = is_full(len);
    learn_portion(len);
    if (full)
        return 0; /* a full portion: the runtime has more */
    pause = len > much ? pause / 2 : pause * 2;
    return pause < PAUSE_MIN ? PAUSE_MIN : pause > PAUSE_MAX ? PAUSE_MAX : pause;
}

/* Records the remaining texts. The trace thread calls it at its end. If a text does not fit into
 * the thread's ring, mrd_sys_texts_rest() handles it and all later texts. */
static void
finish(void)
{
    bool more = owner != OFF, fits = true;

    do {
        more = more && take_rest(REST_BYTES, false);
        fits = fits && record_queued();
        if (!fits)
            mrd_sys_texts_rest(&texts);
    } while (more);
    if (owner == OURS)
        (void) MRD_NRT_REAL(nrt_sys_trace_stop)();
    owner = OFF;
}

/* Fetches the events that are still in the runtime, before recording is turned off. Texts that do
 * not fit into the ring stay in the queue and are written even after recording is off. If the queue
 * exceeds REST_BYTES, its events are counted as lost. The caller holds the lock. */
static void
flush(void)
{
    bool more;

    do {
        more = owner == OURS && take_rest(REST_BYTES, true);
        if (!record_queued() && more)
            mrd_sys_texts_lose(&texts);
    } while (more);
}

static void
flush_as_wanted(void)
{
    unsigned wanted = flushes_wanted;

    if (wanted == flushes_done)
        return;
    flush();
    flushes_done = wanted;
    pthread_cond_broadcast(&room);
}

/* Stops the library's own trace temporarily, and records the remaining texts for which there is
 * room. Does nothing if this trace is not running. The caller holds the lock. */
static void
pause_ours(void)
{
    if (owner != OURS)
        return;
    stop_ours();
    (void) record_queued();
}

/* Starts or stops the library's own trace after recording was turned on or off. The caller holds
 * the lock. */
static void
switch_trace(void)
{
    /* a pause of the recording does not end the trace, because a pause may be short */
    bool off = !mrd_rec_on(MRD_CAP_SYS) && !mrd_proc_paused();

    if (owner == OURS && off) {
        pause_ours();
    } else if (owner == OFF && mrd_rec_on(MRD_CAP_SYS) && switched_off) {
        mrd_sys_text_apart();
        arm();
    }
    switched_off = owner == OFF && off;
}

/* Reports that the trace changed its event types from `before` to the current ones. The agent
 * learns from which time on a session gets all its events. "" means all types. */
static void
report_types(const char *before)
{
    mrd_rec_arg args[] = { mrd_nrt_text(MRD_NRT_KEY_event_types, asked.types),
                           mrd_nrt_text(MRD_NRT_KEY_before, before) };

    if (owner == OURS && strcmp(before, asked.types) != 0)
        mrd_rec_notice("the system trace has other event types", args,
                       sizeof(args) / sizeof(args[0]));
}

/* Applies new settings: fetches the events that are still in the runtime and restarts the trace
 * with the new settings. The caller holds the lock. */
static void
settings_changed(const mrd_nrt_settings *fresh)
{
    char before[sizeof(asked.types)];
    bool same = fresh->any_core == asked.any_core && strcmp(fresh->types, asked.types) == 0 &&
                memcmp(fresh->core, asked.core, sizeof(asked.core)) == 0;

    /* Before recording starts, the trace already has the settings of the session. Before recording
     * stops, the last events of the session are fetched. */
    if (fresh->recording == 0) {
        flush();
        pause_ours();
    }
    (void) mrd_proc_set_asked(fresh->recording);
    memcpy(before, asked.types, sizeof(before));
    asked = *fresh;
    if (same || (owner != OURS && !(owner == OFF && refused)))
        return;
    if (owner == OURS)
        stop_ours();
    (void) record_queued();
    mrd_sys_text_apart(); /* the runtime numbers events from 0 again */
    arm();
    report_types(before);
}

/* Returns true if it is time to check the files of the agent again. They are checked a few times
 * per second, even if fetches are more frequent. */
static bool
now_and_then(struct timespec *looked)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if ((now.tv_sec - looked->tv_sec) * 1000000000L + now.tv_nsec - looked->tv_nsec < LOOK_PAUSE)
        return false;
    *looked = now;
    return true;
}

static void *
work(void *arg)
{
    long pause = PAUSE_MIN;
    mrd_nrt_settings fresh = { .any_core = true, .recording = -1 };
    mrd_nrt_settings_seen seen = { 0 };
    struct timespec looked = { 0 };
    bool under_way, changed;

    (void) arg;
    mrd_nrt_ours_begin();
    mrd_rec_thread_ring_size(RING_BYTES);
    mrd_rec_thread_name(MRD_NRT_TEXT_THREAD);
    pthread_mutex_lock(&lock);
    while (!stopping) {
        struct timespec until;

        flush_as_wanted();
        pause = turn(pause);
        pthread_mutex_unlock(&lock);
        mrd_nrt_request_poll();
        under_way = mrd_nrt_async_poll();
        changed = now_and_then(&looked) && mrd_nrt_settings_poll(&seen, &fresh);
        pthread_mutex_lock(&lock);
        if (changed)
            settings_changed(&fresh);
        switch_trace();
        if (changed) {
            pthread_mutex_unlock(&lock);
            mrd_models_tell();
            pthread_mutex_lock(&lock);
        }
        if (under_way && pause > ASYNC_PAUSE)
            pause = ASYNC_PAUSE;
        if (pause == 0) {
            pause = PAUSE_MIN;
            continue;
        }
        until = mrd_cond_deadline(pause);
        if (!stopping && flushes_wanted == flushes_done &&
            (texts.first == NULL || pause == ROOM_PAUSE))
            pthread_cond_timedwait(&wake, &lock, &until);
    }
    finish();
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void
start_thread(void)
{
    mrd_cond_init(&wake);
    mrd_cond_init(&room);
    stopping = false;
    runs = mrd_masked_thread(&thread, NULL, work, NULL) == 0;
}

/* ---- fork: the child has no thread and no device --------------------------------------------- */

static void
fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

static void
fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void
fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    runs = stopping = switched_off = false;
    owner = OFF;
    texts = (mrd_sys_texts){ 0 }; /* the parent writes these texts */
    lost_texts = 0;
    flushes_wanted = flushes_done = 0;
    portion = NULL;
    /* the runtime's event numbers continue after the parent's numbers, which is not a loss */
    mrd_sys_text_apart();
    mrd_nrt_request_forked();
    asked = (mrd_nrt_settings){ .any_core = true, .recording = -1 };
}

/* ---- starting and stopping the thread and the trace ------------------------------------------ */

static void
make_portion(void)
{
    __typeof__(nrt_sys_trace_fetch_options_allocate) *make =
        MRD_NRT_REAL(nrt_sys_trace_fetch_options_allocate);
    __typeof__(nrt_sys_trace_fetch_options_set_max_events_per_nc) *set =
        MRD_NRT_REAL(nrt_sys_trace_fetch_options_set_max_events_per_nc);

    if (portion == NULL && make != NULL && set != NULL && make(&portion) == NRT_SUCCESS)
        set_portion(PORTION_FIRST);
}

void
mrd_nrt_trace_begin(void)
{
    if (!mrd_rec_on(MRD_CAP_SYS))
        return;
    pthread_mutex_lock(&lock);
    mrd_nrt_ours_begin();
    if (!fork_ready) {
        fork_ready = true;
        pthread_atfork(fork_prepare, fork_parent, fork_child);
        atexit(mrd_nrt_trace_end);
        /* If registration fails, quick_exit loses the last events, as SIGKILL does. */
        (void) at_quick_exit(mrd_nrt_trace_end);
    }
    if (!runs && owner == OFF) {
        make_portion();
        start_thread();
        if (runs)
            arm();
        else
            mrd_rec_notice("cannot arm the system trace: no thread could be made", NULL, 0);
    }
    if (runs)
        switch_trace();
    mrd_nrt_ours_end();
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_trace_end(void)
{
    bool join;

    mrd_nrt_wait_end(); /* ends the thread of nrt_wait.c, which could start the trace again */
    mrd_nrt_request_end();
    pthread_mutex_lock(&lock);
    join = runs;
    stopping = true;
    if (join)
        pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    if (join)
        pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    mrd_nrt_ours_begin();
    runs = false;
    if (portion != NULL && MRD_NRT_REAL(nrt_sys_trace_fetch_options_free) != NULL)
        MRD_NRT_REAL(nrt_sys_trace_fetch_options_free)(portion);
    portion = NULL;
    mrd_nrt_ours_end();
    pthread_mutex_unlock(&lock);
}

void
mrd_nrt_trace_flush(void)
{
    struct timespec until = mrd_cond_deadline(FLUSH_WAIT);
    unsigned mine;

    if (!mrd_rec_on(MRD_CAP_SYS))
        return;
    pthread_mutex_lock(&lock);
    if (runs && !stopping) {
        mine = ++flushes_wanted;
        pthread_cond_signal(&wake);
        while (runs && !stopping && (int) (flushes_done - mine) < 0 &&
               pthread_cond_timedwait(&room, &lock, &until) != ETIMEDOUT)
            ;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- calls of the trace interface by the application ----------------------------------------- */

NRT_STATUS
mrd_nrt_trace_app_start(nrt_sys_trace_config_t *config)
{
    NRT_STATUS status;

    pthread_mutex_lock(&lock);
    if (owner == OURS)
        stop_ours();
    status = MRD_NRT_REAL(nrt_sys_trace_start)(config);
    if (runs && status == NRT_SUCCESS)
        owner = APP;
    else if (runs && owner == OFF)
        arm();
    pthread_mutex_unlock(&lock);
    return status;
}

NRT_STATUS
mrd_nrt_trace_app_stop(void)
{
    NRT_STATUS status;

    pthread_mutex_lock(&lock);
    if (owner == OURS)
        stop_ours();
    else if (owner == APP)
        (void) take_rest(SIZE_MAX, false);
    status = MRD_NRT_REAL(nrt_sys_trace_stop)();
    if (owner == APP && status == NRT_SUCCESS)
        owner = OFF;
    if (runs && owner == OFF)
        arm();
    pthread_mutex_unlock(&lock);
    return status;
}

NRT_STATUS
mrd_nrt_trace_app_fetch(char **buffer, size_t *written,
                        const nrt_sys_trace_fetch_options_t *options)
{
    NRT_STATUS status;

    pthread_mutex_lock(&lock);
    if (owner == OURS)
        stop_ours();
    status = MRD_NRT_REAL(nrt_sys_trace_fetch_events)(buffer, written, options);
    if (runs && status == NRT_SUCCESS && has_events(*buffer, *written))
        enqueue(*buffer, *written);
    if (runs && owner == OFF)
        arm();
    pthread_mutex_unlock(&lock);
    return status;
}
