/* Implements the tasks, frames, events, counters and markers of meridian.h. */
#include "capture/api/api.h"

#include <stdlib.h>

#include "capture/api/memory.h"
#include "capture/process.h"

#define NS_PER_S 1e9

struct mrd_task {
    mrd_rec_what what;
};
struct mrd_user_event {
    mrd_rec_what what;
};
struct mrd_marker {
    mrd_rec_what what;
};
struct mrd_frame {
    mrd_rec_what what;
    /* 0 if not running, 1 if running but its begin was not recorded, else the id of its span */
    _Atomic uint64_t open;
    _Atomic uint64_t start, count;
    _Atomic uint32_t process; /* the process that set `open`, as its number from mrd_proc_mark */
    _Atomic int64_t first_ns, last_ns;
};
struct mrd_counter {
    mrd_rec_what what;
    _Atomic uint64_t value;
    mrd_stat_series series;
};

/* Fills *what with name and domain. Returns false if the name is NULL or empty. */
static bool
describe(mrd_rec_what *what, const mrd_domain *domain, const char *name)
{
    if (name == NULL || *name == '\0')
        return false;
    *what = (mrd_rec_what){ .name = mrd_api_name(name), .domain = mrd_domain_id(domain) };
    return true;
}

/* ---- tasks and events: durations of one thread ----------------------------------------------- */

static int
duration_start(const void *object, const mrd_rec_what *what)
{
    if (object == NULL)
        return mrd_fail(MERIDIAN_INVALID, "start of an object that does not exist");
    if (!mrd_on())
        return MERIDIAN_OK;
    return mrd_thread_begin(object, what) ? MERIDIAN_OK
                                          : mrd_fail(MERIDIAN_NOMEM, "no memory to start");
}

static int
duration_stop(const void *object, const char *kind)
{
    mrd_rec_what what;
    uint64_t ticks;

    if (object == NULL)
        return mrd_fail(MERIDIAN_INVALID, "stop of a %s that does not exist", kind);
    if (!mrd_was_on())
        return MERIDIAN_OK;
    if (!mrd_thread_end(object, NULL, 0, &ticks, &what))
        return mrd_on() ? mrd_fail(MERIDIAN_STATE, "%s was not started in this thread", kind)
                        : MERIDIAN_OK;
    if (what.name != 0)
        mrd_api_finished(&what, ticks);
    return MERIDIAN_OK;
}

mrd_task *
mrd_task_create(const mrd_domain *domain, const char *name)
{
    mrd_task *task = calloc(1, sizeof(*task));

    if (task != NULL && !describe(&task->what, domain, name)) {
        free(task);
        return NULL;
    }
    return task;
}

int
mrd_task_start(mrd_task *task)
{
    return duration_start(task, task == NULL ? NULL : &task->what);
}

int
mrd_task_stop(mrd_task *task)
{
    return duration_stop(task, "task");
}

void
mrd_task_destroy(mrd_task *task)
{
    free(task);
}

mrd_user_event *
mrd_event_create(const char *name)
{
    mrd_user_event *event = calloc(1, sizeof(*event));

    if (event != NULL && !describe(&event->what, NULL, name)) {
        free(event);
        return NULL;
    }
    return event;
}

int
mrd_event_start(mrd_user_event *event)
{
    return duration_start(event, event == NULL ? NULL : &event->what);
}

int
mrd_event_stop(mrd_user_event *event)
{
    return duration_stop(event, "event");
}

void
mrd_event_destroy(mrd_user_event *event)
{
    free(event);
}

/* ---- frames ---------------------------------------------------------------------------------- */

mrd_frame *
mrd_frame_create(const mrd_domain *domain, const char *name)
{
    mrd_frame *frame = calloc(1, sizeof(*frame));

    if (frame == NULL || !describe(&frame->what, domain, name)) {
        free(frame);
        return NULL;
    }
    frame->what.flags = MRD_RECF_FRAME;
    frame->what.track =
        mrd_rec_track(MRD_RING_TRACK_FRAMES, name, frame->what.domain, -1, -1, -1, 0);
    return frame;
}

/* Marks the frame as stopped if it was started before a fork, because it then runs in the parent
 * only. */
static void
forget_parents_start(mrd_frame *frame)
{
    uint64_t open = atomic_load(&frame->open);

    if (__builtin_expect(atomic_load(&frame->process) == mrd_proc_mark(), 1))
        return;
    (void) atomic_compare_exchange_strong(&frame->open, &open, 0);
    atomic_store(&frame->process, mrd_proc_mark());
}

int
mrd_frame_start(mrd_frame *frame)
{
    uint64_t idle = 0, id;

    if (frame == NULL)
        return mrd_fail(MERIDIAN_INVALID, "start of a frame that does not exist");
    if (!mrd_on())
        return MERIDIAN_OK;
    forget_parents_start(frame);
    if (!atomic_compare_exchange_strong(&frame->open, &idle, 1))
        return mrd_fail(MERIDIAN_STATE, "frame is running already");
    atomic_store(&frame->start, mrd_rec_now());
    if (atomic_load(&frame->first_ns) == 0)
        atomic_store(&frame->first_ns, mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW));
    if ((id = mrd_rec_begin(&frame->what, NULL, 0)) != 0)
        atomic_store(&frame->open, id);
    return MERIDIAN_OK;
}

int
mrd_frame_stop(mrd_frame *frame)
{
    uint64_t id;

    if (frame == NULL)
        return mrd_fail(MERIDIAN_INVALID, "stop of a frame that does not exist");
    if (!mrd_was_on())
        return MERIDIAN_OK;
    forget_parents_start(frame);
    if ((id = atomic_exchange(&frame->open, 0)) == 0)
        return mrd_on() ? mrd_fail(MERIDIAN_STATE, "frame is not running") : MERIDIAN_OK;
    mrd_rec_end(id == 1 ? 0 : id, NULL, 0);
    atomic_fetch_add(&frame->count, 1);
    atomic_store(&frame->last_ns, mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW));
    mrd_api_finished(&frame->what, mrd_rec_now() - atomic_load(&frame->start));
    return MERIDIAN_OK;
}

uint64_t
mrd_frame_count(const mrd_frame *frame)
{
    return frame == NULL ? 0 : atomic_load(&frame->count);
}

double
mrd_frame_rate(const mrd_frame *frame)
{
    int64_t span;

    if (frame == NULL)
        return 0;
    span = atomic_load(&frame->last_ns) - atomic_load(&frame->first_ns);
    return span <= 0 ? 0 : (double) atomic_load(&frame->count) * NS_PER_S / (double) span;
}

void
mrd_frame_destroy(mrd_frame *frame)
{
    free(frame);
}

/* ---- counters -------------------------------------------------------------------------------- */

mrd_counter *
mrd_counter_create(const mrd_domain *domain, const char *name, const char *unit, uint64_t value)
{
    mrd_counter *counter = calloc(1, sizeof(*counter));

    if (counter == NULL || !describe(&counter->what, domain, name)) {
        free(counter);
        return NULL;
    }
    counter->what.track = mrd_rec_track(MRD_RING_TRACK_COUNTER, name, counter->what.domain, -1, -1,
                                        -1, unit == NULL || *unit == '\0' ? 0 : mrd_rec_name(unit));
    atomic_init(&counter->value, value);
    counter->series.domain = counter->what.domain;
    counter->series.name = counter->what.name;
    counter->series.bytes = unit != NULL && strcmp(unit, "bytes") == 0;
    mrd_stats_enlist(&counter->series);
    return counter;
}

static void
counter_record(mrd_counter *counter, mrd_rec_number type, uint64_t bits, double value)
{
    mrd_rec_what what = counter->what;

    if (!mrd_on() || (counter->series.bytes && !mrd_memory_wanted()))
        return;
    what.flags = (uint8_t) ((unsigned) type << MRD_RECF_SHIFT);
    mrd_rec_counter(&what, bits);
    if ((mrd_extra_now() & MRD_EXTRA_STATS) != 0)
        mrd_stats_sample(&counter->series.stat, value);
}

int
mrd_counter_set(mrd_counter *counter, uint64_t value)
{
    if (counter == NULL)
        return mrd_fail(MERIDIAN_INVALID, "counter does not exist");
    atomic_store_explicit(&counter->value, value, memory_order_relaxed);
    counter_record(counter, MRD_REC_U64, value, (double) value);
    return MERIDIAN_OK;
}

int
mrd_counter_add(mrd_counter *counter, int64_t delta)
{
    uint64_t now;

    if (counter == NULL)
        return mrd_fail(MERIDIAN_INVALID, "counter does not exist");
    now = atomic_fetch_add_explicit(&counter->value, (uint64_t) delta, memory_order_relaxed) +
          (uint64_t) delta;
    counter_record(counter, MRD_REC_U64, now, (double) now);
    return MERIDIAN_OK;
}

uint64_t
mrd_counter_get(const mrd_counter *counter)
{
    return counter == NULL ? 0 : atomic_load_explicit(&counter->value, memory_order_relaxed);
}

int
mrd_counter_sample(mrd_counter *counter, double value)
{
    uint64_t bits;

    if (counter == NULL)
        return mrd_fail(MERIDIAN_INVALID, "counter does not exist");
    memcpy(&bits, &value, sizeof(bits));
    counter_record(counter, MRD_REC_F64, bits, value);
    return MERIDIAN_OK;
}

void
mrd_counter_destroy(mrd_counter *counter)
{
    if (counter == NULL)
        return;
    mrd_stats_delist(&counter->series);
    free(counter);
}

/* ---- markers --------------------------------------------------------------------------------- */

mrd_marker *
mrd_marker_create(const mrd_domain *domain, const char *name)
{
    mrd_marker *marker = calloc(1, sizeof(*marker));

    if (marker != NULL && !describe(&marker->what, domain, name)) {
        free(marker);
        return NULL;
    }
    return marker;
}

int
mrd_marker_mark(mrd_marker *marker, mrd_scope_of scope)
{
    mrd_rec_what what;

    if (marker == NULL || (unsigned) scope > MRD_SCOPE_TASK)
        return mrd_fail(MERIDIAN_INVALID,
                        marker == NULL ? "marker does not exist" : "unknown scope of a marker");
    if (!mrd_on())
        return MERIDIAN_OK;
    what = marker->what;
    what.flags = (uint8_t) ((unsigned) scope << MRD_RECF_SHIFT);
    mrd_rec_instant(&what, 0, NULL, 0);
    mrd_api_finished(&what, UINT64_MAX);
    return MERIDIAN_OK;
}

void
mrd_marker_destroy(mrd_marker *marker)
{
    free(marker);
}
