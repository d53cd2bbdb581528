#include "aggregator/clock/node_clock.h"

#include "aggregator/clock/node_clock_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/vec.h"
#include "timesync/follow.h"

/* maximum number of clock probes of one node in one session: 6 months at a pair per second */
#define PROBES_MAX (16u << 20)
#define BREAKS_MAX 4096u
/* maximum number of clock readings of one node: 4 months at one reading in 10 s */
#define READINGS_MAX (1u << 20)
#define LOOKS_MAX    PROBES_MAX
#define UNKNOWN_NS   1e15 /* an error bound wider than 11 days (in ns) counts as no bound */

/* ---- Reading the clock data in a journal ---- */

static mrd_err
add_break(mrd_boot_clock *clock, mrd_epoch_break epoch_break)
{
    if (clock->n_breaks >= BREAKS_MAX) {
        clock->breaks_beyond++;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(clock->breaks, clock->n_breaks, clock->cap_breaks, 1))
        return MRD_NOMEM;
    clock->breaks[clock->n_breaks++] = epoch_break;
    return MRD_OK;
}

static mrd_err
add_look(mrd_boot_clock *clock, int64_t raw, mrd_dur_ns asleep)
{
    if (!mrd_time_sane(raw) || !mrd_time_sane(asleep) || clock->n_looks >= LOOKS_MAX)
        return MRD_OK;
    if (!MRD_VEC_ROOM(clock->looks, clock->n_looks, clock->cap_looks, 1))
        return MRD_NOMEM;
    clock->looks[clock->n_looks++] = (mrd_clock_look){ { raw }, asleep };
    return MRD_OK;
}

/* Returns the send time of the first probe that was sent between `from` and `to`. Returns INT64_MAX
 * if there is none. */
static int64_t
first_sent(const mrd_boot_clock *clock, size_t first_probe, int64_t from, int64_t to)
{
    int64_t sent = INT64_MAX;

    for (size_t i = first_probe; i < clock->n_probes; i++) {
        int64_t a1 = clock->probes[i].a1;

        sent = a1 >= from && a1 <= to && a1 < sent ? a1 : sent;
    }
    return sent;
}

/* Adds entries to `looks`: the total time for which the machine had been suspended, at several
 * times of one frame of clock data. The frame contains the total after its last break. Before each
 * break by a suspend, the total was smaller by the length of that suspend. Agents of earlier
 * releases report a total of 0, which is ignored. */
static mrd_err
add_looks(mrd_boot_clock *clock, const Mrd__ClockData *data, size_t first_probe)
{
    mrd_dur_ns asleep = data->asleep_ns;
    int64_t until = INT64_MAX - 1;
    mrd_err err = MRD_OK;

    if (asleep <= 0)
        return MRD_OK;
    for (size_t i = data->n_breaks; i-- > 0 && err == MRD_OK;) {
        const Mrd__ClockBreak *clock_break = data->breaks[i];

        if (clock_break->cause != MRD_EPOCH_SUSPEND || !mrd_clock_break_sane(clock_break))
            continue;
        err =
            add_look(clock, first_sent(clock, first_probe, clock_break->before_ns, until), asleep);
        if (err == MRD_OK)
            err = add_look(clock, clock_break->before_ns, asleep);
        asleep = mrd_sat_sub(asleep, clock_break->lost_ns);
        until = clock_break->after_ns;
        if (err == MRD_OK)
            err = add_look(clock, until, asleep);
    }
    return err == MRD_OK ? add_look(clock, first_sent(clock, first_probe, INT64_MIN, until), asleep)
                         : err;
}

/* Adds an incarnation of the aggregator, that is, a new timeline `id`. `first` is the node's time
 * of the first probe that this incarnation answered. Does nothing if `id` is empty or equals the
 * last incarnation's id. */
static mrd_err
begin_incarnation(mrd_boot_clock *clock, const char *id, int64_t first)
{
    const mrd_clock_incarnation *last =
        clock->n_incarnations == 0 ? NULL : &clock->incarnations[clock->n_incarnations - 1];
    mrd_epoch_break epoch_break = { .cause = MRD_EPOCH_AGGREGATOR, .before = { first } };
    mrd_err err;

    if (*id == '\0' || (last != NULL && strcmp(last->id, id) == 0))
        return MRD_OK;
    if (last != NULL) {
        epoch_break.after = last->to;
        epoch_break.before.ns = first > epoch_break.after.ns ? first : epoch_break.after.ns + 1;
        if ((err = add_break(clock, epoch_break)) != MRD_OK)
            return err;
    }
    if (!MRD_VEC_ROOM(clock->incarnations, clock->n_incarnations, clock->cap_incarnations, 1))
        return MRD_NOMEM;
    clock->incarnations[clock->n_incarnations] =
        (mrd_clock_incarnation){ .first = clock->n_probes, .from = { first }, .to = { first } };
    snprintf(clock->incarnations[clock->n_incarnations].id, sizeof(clock->incarnations[0].id), "%s",
             id);
    clock->n_incarnations++;
    return MRD_OK;
}

static void
extend_incarnation(mrd_boot_clock *clock, const mrd_probe *probe)
{
    mrd_clock_incarnation *incarnation = &clock->incarnations[clock->n_incarnations - 1];
    int64_t last = probe->a4 > probe->a1 ? probe->a4 : probe->a1,
            at = probe->r2 != 0 ? probe->r2 : probe->r3;

    incarnation->to = (mrd_local_ns){ last > incarnation->to.ns ? last : incarnation->to.ns };
    /* there is no valid probe, because valid session times are close to UTC and therefore
     * positive */
    if (at <= 0)
        return;
    incarnation->began = (mrd_sess_ns){ incarnation->began.ns == 0 || at < incarnation->began.ns
                                            ? at
                                            : incarnation->began.ns };
    incarnation->ended = (mrd_sess_ns){ at > incarnation->ended.ns ? at : incarnation->ended.ns };
}

static mrd_err
add_probes(mrd_boot_clock *clock, const Mrd__ClockData *data)
{
    mrd_bytes joined = { data->joined.data, data->joined.len };
    mrd_probe probe;
    size_t at = 0;

    while (at < joined.len && clock->n_probes < PROBES_MAX &&
           mrd_probe_decode(joined, &at, &probe) == MRD_OK) {
        if (begin_incarnation(clock, data->reference, probe.a1) != MRD_OK ||
            !MRD_VEC_ROOM(clock->probes, clock->n_probes, clock->cap_probes, 1))
            return MRD_NOMEM;
        clock->probes[clock->n_probes++] = probe;
        if (clock->n_incarnations > 0)
            extend_incarnation(clock, &probe);
    }
    return MRD_OK;
}

/* Adds the aggregator's readings of its own clocks. Consecutive frames may contain the same
 * reading, which is added only once. */
static mrd_err
add_server(mrd_node_clock *clock, const Mrd__ClockData *data)
{
    for (size_t i = 0; i < data->n_aggregator && clock->n_server < READINGS_MAX; i++) {
        const mrd_server_reading *last =
            clock->n_server == 0 ? NULL : &clock->server[clock->n_server - 1];
        mrd_server_reading *to;

        if (data->session_offset_ns == 0 ||
            (last != NULL && last->r.raw.ns == data->aggregator[i]->raw_ns))
            continue;
        if (!MRD_VEC_ROOM(clock->server, clock->n_server, clock->cap_server, 1))
            return MRD_NOMEM;
        to = &clock->server[clock->n_server];
        to->session_offset_ns = data->session_offset_ns;
        snprintf(to->id, sizeof(to->id), "%s", data->reference);
        clock->n_server += mrd_time_sane(to->session_offset_ns) &&
                           mrd_host_reading_take(&to->r, data->aggregator[i]) &&
                           mrd_time_sane(mrd_sat_add(to->r.raw.ns, to->session_offset_ns));
    }
    return MRD_OK;
}

static mrd_err
add_data(mrd_boot_clock *clock, const Mrd__ClockData *data)
{
    size_t first = clock->n_probes;
    mrd_err err = add_probes(clock, data);

    if (err == MRD_OK)
        err = add_looks(clock, data, first);
    for (size_t i = 0; i < data->n_breaks && err == MRD_OK; i++) {
        /* A break may be an agent's report that the aggregator changed. If the frame names its
         * timeline, begin_incarnation finds the time of the change more precisely, and the report
         * is ignored. */
        if (!mrd_clock_break_sane(data->breaks[i]))
            clock->absurd++;
        else if (data->breaks[i]->cause != MRD_EPOCH_AGGREGATOR || data->reference[0] == '\0')
            err = add_break(clock, mrd_clock_break_of(data->breaks[i]));
    }
    for (size_t i = 0; i < data->n_readings && err == MRD_OK && clock->n_readings < READINGS_MAX;
         i++) {
        mrd_host_reading *reading;

        if (!MRD_VEC_ROOM(clock->readings, clock->n_readings, clock->cap_readings, 1))
            return MRD_NOMEM;
        if (mrd_host_reading_take(reading = &clock->readings[clock->n_readings],
                                  data->readings[i])) {
            /* 1 ms is added to the time, because the machine may be suspended immediately after RAW
             * was read */
            clock->n_readings++;
            err = add_look(clock, mrd_sat_add(reading->raw.ns, MRD_MS),
                           reading->boottime.ns - reading->monotonic.ns);
        } else {
            clock->absurd++;
        }
    }
    return err;
}

static bool
is_told(const mrd_boot_clock *clock, size_t told, mrd_local_ns after, mrd_local_ns before)
{
    for (size_t i = 0; i < told; i++) {
        if (clock->breaks[i].cause == MRD_EPOCH_SUSPEND &&
            mrd_local_after(clock->breaks[i].before, after) &&
            mrd_local_before(clock->breaks[i].after, before))
            return true;
    }
    return false;
}

static int
look_order(const void *a, const void *b)
{
    const mrd_clock_look *x = a, *y = b;

    return x->raw.ns != y->raw.ns ? (x->raw.ns < y->raw.ns ? -1 : 1)
                                  : (x->asleep > y->asleep) - (x->asleep < y->asleep);
}

/*
 * Adds breaks for suspends that no agent reported, for example because the agent was killed. Such a
 * suspend shows in the entries of `looks`: the total suspended time grew from one entry to the
 * next. If already the first entry has a total above 0, the machine was suspended at an unknown
 * earlier time. A suspend between the two clock reads of an entry makes its total too large. So the
 * minimum of an entry and all later ones is used.
 */
static mrd_err
add_slept(mrd_boot_clock *clock)
{
    mrd_dur_ns least = INT64_MAX;
    size_t told = clock->n_breaks;
    mrd_err err = MRD_OK;

    if (clock->n_looks > 1)
        qsort(clock->looks, clock->n_looks, sizeof(*clock->looks), look_order);
    for (size_t i = clock->n_looks; i-- > 0 && err == MRD_OK;) {
        const mrd_clock_look *look = &clock->looks[i];
        mrd_clock_look clock_look = { { look->raw.ns > 0 ? 0 : look->raw.ns - 1 }, 0 };
        mrd_epoch_break brk = { .cause = MRD_EPOCH_SUSPEND, .keep_rate = true };

        if (i > 0)
            clock_look = look[-1];
        least = look->asleep < least ? look->asleep : least;
        /* the break begins 1 ms earlier, because the total may have been read up to 1 ms before the
         * time of its entry */
        brk.after = mrd_local_add(clock_look.raw, -MRD_MS);
        brk.before = look->raw;
        brk.lost = least - clock_look.asleep;
        if (mrd_local_before(clock_look.raw, look->raw) && brk.lost > MRD_EPOCH_SUSPEND_MIN &&
            !is_told(clock, told, clock_look.raw, look->raw))
            err = add_break(clock, brk);
    }
    return err;
}

static int
break_order(const void *a, const void *b)
{
    const mrd_epoch_break *x = a, *y = b;

    return x->after.ns < y->after.ns ? -1 : x->after.ns > y->after.ns;
}

mrd_boot_clock *
mrd_node_clock_of(mrd_node_clock *clock, uint32_t boot)
{
    for (size_t i = 0; i < clock->n; i++) {
        if (clock->v[i].boot == boot)
            return &clock->v[i];
    }
    if (!MRD_VEC_NEXT(clock->v, clock->n))
        return NULL;
    clock->v[clock->n] = (mrd_boot_clock){ .boot = boot };
    return &clock->v[clock->n++];
}

static mrd_err
read_data(mrd_node_clock *clock, const mrd_journal_index *index)
{
    mrd_buf buf = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < index->n && err == MRD_OK; i++) {
        mrd_boot_clock *boot_clock;
        mrd_bytes body;
        mrd_frame frame;
        mrd_msg msg;

        if (index->entries[i].frame.type != MRD_FRAME_CLOCK_DATA)
            continue;
        if ((err = mrd_journal_read(index, &index->entries[i], false, &buf, &frame, &body, NULL)) !=
                MRD_OK ||
            (err = mrd_msg_unpack_body(&frame, body, &msg, NULL)) != MRD_OK) {
            err = err == MRD_NOMEM ? err : MRD_OK; /* a damaged frame is skipped */
            continue;
        }
        boot_clock = mrd_node_clock_of(clock, frame.boot);
        err = boot_clock == NULL ? MRD_NOMEM : add_data(boot_clock, msg.u.clock_data);
        if (err == MRD_OK)
            err = add_server(clock, msg.u.clock_data);
        mrd_msg_free(&msg);
    }
    mrd_buf_fini(&buf);
    /* A journal without clock data has one clock, about which nothing is known. */
    if (err == MRD_OK && clock->n == 0 && mrd_node_clock_of(clock, 0) == NULL)
        err = MRD_NOMEM;
    for (size_t i = 0; i < clock->n; i++) {
        if (err == MRD_OK)
            err = add_slept(&clock->v[i]);
        if (clock->v[i].n_breaks > 1)
            qsort(clock->v[i].breaks, clock->v[i].n_breaks, sizeof(mrd_epoch_break), break_order);
    }
    return err;
}

/* ---- Computing the tables ---- */

static void
take_report(mrd_boot_clock *clock, const mrd_follow_report *report)
{
    clock->checked = report->checked;
    clock->reversed = report->reversed;
    clock->reversed_max = report->reversed_max;
    clock->violations = report->violations;
}

/* Computes the table of clock `i`. If the node had several boots, the clock's name in tables and
 * messages contains the number of the boot. */
static mrd_err
solve(mrd_node_clock *clock, size_t i, const char *instance_id)
{
    mrd_boot_clock *boot_clock = &clock->v[i];
    char name[MRD_ALIGN_NAME_MAX + 1];
    mrd_follow_report report = { 0 };
    mrd_err err = MRD_OK;

    snprintf(name, sizeof(name), i == 0 ? "%s" : "%s boot %zu", instance_id, i + 1);
    /* Without all breaks of the clock, its error bound would be wrong. */
    if (boot_clock->breaks_beyond > 0) {
        mrd_why_set(&boot_clock->why, MRD_LIMIT, 0,
                    "clock of %s: it broke %llu times, more than the %u that are followed", name,
                    (unsigned long long) (boot_clock->n_breaks + boot_clock->breaks_beyond),
                    BREAKS_MAX);
        return MRD_OK;
    }
    if (boot_clock->n_probes == 0)
        mrd_why_set(&boot_clock->why, MRD_EMPTY, 0, "clock of %s: no probes were recorded", name);
    else
        err = mrd_follow_offline(&(mrd_follow_input){ .name = name,
                                                      .clock_id = boot_clock->boot,
                                                      .probes = boot_clock->probes,
                                                      .n_probes = boot_clock->n_probes,
                                                      .breaks = boot_clock->breaks,
                                                      .n_breaks = boot_clock->n_breaks },
                                 &boot_clock->align, &report, &boot_clock->why);
    if (err != MRD_NOMEM)
        err = mrd_node_absolute_solve(clock, i, name, &report);
    if (boot_clock->align != NULL) {
        boot_clock->why = (mrd_why){ 0 };
        take_report(boot_clock, &report);
    }
    return err;
}

mrd_err
mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                     mrd_node_clock *ret_clock, mrd_why *why)
{
    mrd_node_clock clock = { 0 };
    mrd_err err = read_data(&clock, index);

    for (size_t i = 0; i < clock.n && err == MRD_OK; i++)
        err = solve(&clock, i, instance_id);
    if (err != MRD_OK) {
        mrd_node_clock_fini(&clock);
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    }
    *ret_clock = clock;
    return MRD_OK;
}

/* ---- Tables that are saved next to the journal ---- */

char *
mrd_node_clock_path(const char *session_dir, const char *instance_id, const mrd_node_clock *clock,
                    size_t i)
{
    char *path, boot[16] = "";

    if (i > 0)
        snprintf(boot, sizeof(boot), "@%08x", clock->v[i].boot);
    return asprintf(&path, "%s/" MRD_CLOCKS_DIR "/%s%s.align", session_dir, instance_id, boot) < 0
               ? NULL
               : path;
}

/* Loads the saved table of clock `i` and checks it with the probes. If no table was saved, computes
 * it from the probes. */
static mrd_err
load_one(mrd_node_clock *clock, size_t i, const char *session_dir, const char *instance_id,
         mrd_why *why)
{
    mrd_boot_clock *boot_clock = &clock->v[i];
    mrd_follow_report report = { .probes = boot_clock->n_probes };
    char *path = mrd_node_clock_path(session_dir, instance_id, clock, i);
    mrd_err err = MRD_OK;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if (access(path, F_OK) == 0)
        err = mrd_align_load(path, &boot_clock->align, why);
    free(path);
    if (err == MRD_OK && boot_clock->align == NULL && solve(clock, i, instance_id) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    /* Adds the segments at both ends that tables of earlier releases lack. */
    if (err == MRD_OK && boot_clock->align != NULL &&
        mrd_follow_open_ends(&boot_clock->align, boot_clock->breaks, boot_clock->n_breaks) !=
            MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if (err == MRD_OK && boot_clock->align != NULL && boot_clock->checked == 0) {
        mrd_follow_check(boot_clock->align, boot_clock->probes, boot_clock->n_probes, &report);
        take_report(boot_clock, &report);
        if (mrd_node_absolute_check(clock, i) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    }
    return err;
}

mrd_err
mrd_node_clock_load(const char *session_dir, const char *instance_id, mrd_node_clock *ret_clock,
                    mrd_why *why)
{
    mrd_journal_index index = { 0 };
    mrd_node_clock clock = { 0 };
    char *dir = NULL;
    mrd_err err;

    if (asprintf(&dir, "%s/journal/%s", session_dir, instance_id) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if ((err = mrd_journal_scan(dir, &index, why)) == MRD_OK && read_data(&clock, &index) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    for (size_t i = 0; i < clock.n && err == MRD_OK; i++)
        err = load_one(&clock, i, session_dir, instance_id, why);
    free(dir);
    mrd_journal_index_fini(&index);
    if (err != MRD_OK)
        mrd_node_clock_fini(&clock);
    else
        *ret_clock = clock;
    return err;
}

void
mrd_node_clock_fini(mrd_node_clock *clock)
{
    for (size_t i = 0; i < clock->n; i++) {
        mrd_boot_clock *boot_clock = &clock->v[i];

        mrd_align_free(boot_clock->align);
        free(boot_clock->probes);
        free(boot_clock->breaks);
        free(boot_clock->readings);
        free(boot_clock->incarnations);
        free(boot_clock->looks);
    }
    free(clock->server);
    free(clock->v);
    memset(clock, 0, sizeof(*clock));
}

size_t
mrd_boot_clock_disagreements(const mrd_boot_clock *clock, size_t *ret_pairs)
{
    size_t odd = 0;

    *ret_pairs = 0;
    for (size_t k = 0; k < MRD_ABSOLUTES; k++) {
        odd += clock->absolute[k].contradicting;
        *ret_pairs += clock->absolute[k].pairs;
    }
    return odd;
}

/* ---- Summaries of a table ---- */

static mrd_dur_ns
widest_of(const mrd_align_bin *bins, size_t n)
{
    double widest = n == 0 ? INFINITY : 0;

    for (size_t i = 0; i < n; i++)
        widest = fmax(widest, bins[i].quality == MRD_ALIGN_UNALIGNED
                                  ? INFINITY
                                  : fmax(bins[i].hi - bins[i].est, bins[i].est - bins[i].lo));
    return widest < UNKNOWN_NS ? (mrd_dur_ns) ceil(widest) : -1;
}

mrd_dur_ns
mrd_align_widest(const mrd_align *align)
{
    return widest_of(mrd_align_borrow_bins(align), mrd_align_bin_count(align));
}

mrd_dur_ns
mrd_align_segment_widest(const mrd_align *align, size_t segment)
{
    const mrd_align_segment *align_segment = mrd_align_borrow_segment(align, segment);

    return widest_of(mrd_align_borrow_bins(align) + align_segment->first, align_segment->count);
}

void
mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source)
{
    const mrd_align_bin *bins = mrd_align_borrow_bins(align);
    size_t n = mrd_align_bin_count(align);
    unsigned quality = n == 0 ? MRD_ALIGN_UNALIGNED : MRD_ALIGN_GOOD;
    unsigned source = n == 0 ? MRD_STAMP_NONE : MRD_STAMP_SOURCES - 1;

    for (size_t i = 0; i < n; i++) {
        quality = bins[i].quality < quality ? bins[i].quality : quality;
        source = bins[i].source < source ? bins[i].source : source;
    }
    *ret_quality = quality;
    *ret_source = source;
}
