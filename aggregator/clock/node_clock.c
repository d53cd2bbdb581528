#include "aggregator/clock/node_clock.h"

#include "aggregator/clock/node_clock_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/vec.h"
#include "timesync/follow.h"

#define PROBES_MAX   (16u << 20) /* of one node and session: 6 months at a pair per second */
#define BREAKS_MAX   4096u
#define READINGS_MAX (1u << 20) /* 4 months at one in 10 s */
#define LOOKS_MAX    PROBES_MAX
#define UNKNOWN_NS   1e15 /* a wider bound is as good as none: 11 days */

/* ---- Reading ---- */

static mrd_err
add_break(mrd_boot_clock *c, mrd_epoch_break b)
{
    if (c->n_breaks >= BREAKS_MAX) {
        c->breaks_beyond++;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(c->breaks, c->n_breaks, c->cap_breaks, 1))
        return MRD_NOMEM;
    c->breaks[c->n_breaks++] = b;
    return MRD_OK;
}

static mrd_err
add_look(mrd_boot_clock *c, int64_t raw, mrd_dur_ns asleep)
{
    if (!mrd_time_sane(raw) || !mrd_time_sane(asleep) || c->n_looks >= LOOKS_MAX)
        return MRD_OK;
    if (!MRD_VEC_ROOM(c->looks, c->n_looks, c->cap_looks, 1))
        return MRD_NOMEM;
    c->looks[c->n_looks++] = (mrd_clock_look){ { raw }, asleep };
    return MRD_OK;
}

/* Returns the first probe that was sent between two times, INT64_MAX if there is none. */
static int64_t
first_sent(const mrd_boot_clock *c, size_t first_probe, int64_t from, int64_t to)
{
    int64_t sent = INT64_MAX;

    for (size_t i = first_probe; i < c->n_probes; i++) {
        int64_t a1 = c->probes[i].a1;

        sent = a1 >= from && a1 <= to && a1 < sent ? a1 : sent;
    }
    return sent;
}

/* A frame has the total time that the machine was suspended up to the last of its breaks. A probe
 * before a break was sent with accordingly less. Agents of earlier releases do not report it, which
 * looks like a machine that was never suspended. */
static mrd_err
add_looks(mrd_boot_clock *c, const Mrd__ClockData *data, size_t first_probe)
{
    mrd_dur_ns asleep = data->asleep_ns;
    int64_t until = INT64_MAX - 1;
    mrd_err err = MRD_OK;

    if (asleep <= 0)
        return MRD_OK;
    for (size_t i = data->n_breaks; i-- > 0 && err == MRD_OK;) {
        const Mrd__ClockBreak *b = data->breaks[i];

        if (b->cause != MRD_EPOCH_SUSPEND || !mrd_clock_break_sane(b))
            continue;
        err = add_look(c, first_sent(c, first_probe, b->before_ns, until), asleep);
        if (err == MRD_OK)
            err = add_look(c, b->before_ns, asleep);
        asleep = mrd_sat_sub(asleep, b->lost_ns);
        until = b->after_ns;
        if (err == MRD_OK)
            err = add_look(c, until, asleep);
    }
    return err == MRD_OK ? add_look(c, first_sent(c, first_probe, INT64_MIN, until), asleep) : err;
}

/* Begins a timeline at the first probe that another incarnation of the aggregator answered. */
static mrd_err
begin_incarnation(mrd_boot_clock *c, const char *id, int64_t first)
{
    const mrd_clock_incarnation *last =
        c->n_incarnations == 0 ? NULL : &c->incarnations[c->n_incarnations - 1];
    mrd_epoch_break b = { .cause = MRD_EPOCH_AGGREGATOR, .before = { first } };
    mrd_err err;

    if (*id == '\0' || (last != NULL && strcmp(last->id, id) == 0))
        return MRD_OK;
    if (last != NULL) {
        b.after = last->to;
        b.before.ns = first > b.after.ns ? first : b.after.ns + 1;
        if ((err = add_break(c, b)) != MRD_OK)
            return err;
    }
    if (!MRD_VEC_ROOM(c->incarnations, c->n_incarnations, c->cap_incarnations, 1))
        return MRD_NOMEM;
    c->incarnations[c->n_incarnations] =
        (mrd_clock_incarnation){ .first = c->n_probes, .from = { first }, .to = { first } };
    snprintf(c->incarnations[c->n_incarnations].id, sizeof(c->incarnations[0].id), "%s", id);
    c->n_incarnations++;
    return MRD_OK;
}

static void
extend_incarnation(mrd_boot_clock *c, const mrd_probe *p)
{
    mrd_clock_incarnation *l = &c->incarnations[c->n_incarnations - 1];
    int64_t last = p->a4 > p->a1 ? p->a4 : p->a1, at = p->r2 != 0 ? p->r2 : p->r3;

    l->to = (mrd_local_ns){ last > l->to.ns ? last : l->to.ns };
    if (at <= 0) /* session times read as UTC */
        return;
    l->began = (mrd_sess_ns){ l->began.ns == 0 || at < l->began.ns ? at : l->began.ns };
    l->ended = (mrd_sess_ns){ at > l->ended.ns ? at : l->ended.ns };
}

static mrd_err
add_probes(mrd_boot_clock *c, const Mrd__ClockData *data)
{
    mrd_bytes joined = { data->joined.data, data->joined.len };
    mrd_probe probe;
    size_t at = 0;

    while (at < joined.len && c->n_probes < PROBES_MAX &&
           mrd_probe_decode(joined, &at, &probe) == MRD_OK) {
        if (begin_incarnation(c, data->reference, probe.a1) != MRD_OK ||
            !MRD_VEC_ROOM(c->probes, c->n_probes, c->cap_probes, 1))
            return MRD_NOMEM;
        c->probes[c->n_probes++] = probe;
        if (c->n_incarnations > 0)
            extend_incarnation(c, &probe);
    }
    return MRD_OK;
}

/* Frames of one aggregator repeat its last reading. */
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
add_data(mrd_boot_clock *c, const Mrd__ClockData *data)
{
    size_t first = c->n_probes;
    mrd_err err = add_probes(c, data);

    if (err == MRD_OK)
        err = add_looks(c, data, first);
    for (size_t i = 0; i < data->n_breaks && err == MRD_OK; i++) {
        /* If each frame names its timeline, begin_incarnation is more precise. */
        if (!mrd_clock_break_sane(data->breaks[i]))
            c->absurd++;
        else if (data->breaks[i]->cause != MRD_EPOCH_AGGREGATOR || data->reference[0] == '\0')
            err = add_break(c, mrd_clock_break_of(data->breaks[i]));
    }
    for (size_t i = 0; i < data->n_readings && err == MRD_OK && c->n_readings < READINGS_MAX; i++) {
        mrd_host_reading *r;

        if (!MRD_VEC_ROOM(c->readings, c->n_readings, c->cap_readings, 1))
            return MRD_NOMEM;
        if (mrd_host_reading_take(r = &c->readings[c->n_readings], data->readings[i])) {
            c->n_readings++; /* RAW was read first, and a suspend may follow immediately */
            err = add_look(c, mrd_sat_add(r->raw.ns, MRD_MS), r->boottime.ns - r->monotonic.ns);
        } else {
            c->absurd++;
        }
    }
    return err;
}

static bool
is_told(const mrd_boot_clock *c, size_t told, mrd_local_ns after, mrd_local_ns before)
{
    for (size_t i = 0; i < told; i++) {
        if (c->breaks[i].cause == MRD_EPOCH_SUSPEND &&
            mrd_local_after(c->breaks[i].before, after) &&
            mrd_local_before(c->breaks[i].after, before))
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
 * A break may have been lost together with the agent that observed it. Each observation of the
 * total suspended time also shows it, and the first one shows a break before it at an unknown time.
 * An interrupted observation may show more than the true total, so the minimum of all later ones
 * counts.
 */
static mrd_err
add_slept(mrd_boot_clock *c)
{
    mrd_dur_ns least = INT64_MAX;
    size_t told = c->n_breaks;
    mrd_err err = MRD_OK;

    if (c->n_looks > 1)
        qsort(c->looks, c->n_looks, sizeof(*c->looks), look_order);
    for (size_t i = c->n_looks; i-- > 0 && err == MRD_OK;) {
        const mrd_clock_look *b = &c->looks[i];
        mrd_clock_look a = { { b->raw.ns > 0 ? 0 : b->raw.ns - 1 }, 0 };
        mrd_epoch_break brk = { .cause = MRD_EPOCH_SUSPEND, .keep_rate = true };

        if (i > 0)
            a = b[-1];
        least = b->asleep < least ? b->asleep : least;
        /* the observation may be up to a millisecond older */
        brk.after = mrd_local_add(a.raw, -MRD_MS);
        brk.before = b->raw;
        brk.lost = least - a.asleep;
        if (mrd_local_before(a.raw, b->raw) && brk.lost > MRD_EPOCH_SUSPEND_MIN &&
            !is_told(c, told, a.raw, b->raw))
            err = add_break(c, brk);
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
        mrd_boot_clock *c;
        mrd_bytes body;
        mrd_frame f;
        mrd_msg msg;

        if (index->entries[i].frame.type != MRD_FRAME_CLOCK_DATA)
            continue;
        if ((err = mrd_journal_read(index, &index->entries[i], false, &buf, &f, &body, NULL)) !=
                MRD_OK ||
            (err = mrd_msg_unpack_body(&f, body, &msg, NULL)) != MRD_OK) {
            err = err == MRD_NOMEM ? err : MRD_OK; /* a damaged reading is skipped */
            continue;
        }
        c = mrd_node_clock_of(clock, f.boot);
        err = c == NULL ? MRD_NOMEM : add_data(c, msg.u.clock_data);
        if (err == MRD_OK)
            err = add_server(clock, msg.u.clock_data);
        mrd_msg_free(&msg);
    }
    mrd_buf_fini(&buf);
    /* The journal has no clock data: one clock without any information. */
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

/* ---- Solving ---- */

static void
take_report(mrd_boot_clock *c, const mrd_follow_report *r)
{
    c->checked = r->checked;
    c->reversed = r->reversed;
    c->reversed_max = r->reversed_max;
    c->violations = r->violations;
}

/* Solves a clock. Tables and messages of a further boot show the boot in the name. */
static mrd_err
solve(mrd_node_clock *clock, size_t i, const char *instance_id)
{
    mrd_boot_clock *c = &clock->v[i];
    char name[MRD_ALIGN_NAME_MAX + 1];
    mrd_follow_report report = { 0 };
    mrd_err err = MRD_OK;

    snprintf(name, sizeof(name), i == 0 ? "%s" : "%s boot %zu", instance_id, i + 1);
    if (c->breaks_beyond > 0) { /* a bound across a break that was left out would be false */
        mrd_why_set(&c->why, MRD_LIMIT, 0,
                    "clock of %s: it broke %llu times, more than the %u that are followed", name,
                    (unsigned long long) (c->n_breaks + c->breaks_beyond), BREAKS_MAX);
        return MRD_OK;
    }
    if (c->n_probes == 0)
        mrd_why_set(&c->why, MRD_EMPTY, 0, "clock of %s: no probes were recorded", name);
    else
        err = mrd_follow_offline(&(mrd_follow_input){ .name = name,
                                                      .clock_id = c->boot,
                                                      .probes = c->probes,
                                                      .n_probes = c->n_probes,
                                                      .breaks = c->breaks,
                                                      .n_breaks = c->n_breaks },
                                 &c->align, &report, &c->why);
    if (err != MRD_NOMEM)
        err = mrd_node_absolute_solve(clock, i, name, &report);
    if (c->align != NULL) {
        c->why = (mrd_why){ 0 };
        take_report(c, &report);
    }
    return err;
}

mrd_err
mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                     mrd_node_clock *ret_clock, mrd_why *why)
{
    mrd_node_clock c = { 0 };
    mrd_err err = read_data(&c, index);

    for (size_t i = 0; i < c.n && err == MRD_OK; i++)
        err = solve(&c, i, instance_id);
    if (err != MRD_OK) {
        mrd_node_clock_fini(&c);
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    }
    *ret_clock = c;
    return MRD_OK;
}

/* ---- Tables stored next to the journal ---- */

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

/* Loads the table next to the journal and checks it against the probes. Solves it if there is none. */
static mrd_err
load_one(mrd_node_clock *clock, size_t i, const char *session_dir, const char *instance_id,
         mrd_why *why)
{
    mrd_boot_clock *c = &clock->v[i];
    mrd_follow_report report = { .probes = c->n_probes };
    char *path = mrd_node_clock_path(session_dir, instance_id, clock, i);
    mrd_err err = MRD_OK;

    if (path == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if (access(path, F_OK) == 0)
        err = mrd_align_load(path, &c->align, why);
    free(path);
    if (err == MRD_OK && c->align == NULL && solve(clock, i, instance_id) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    /* a table of an earlier release, which ignored breaks at its ends */
    if (err == MRD_OK && c->align != NULL &&
        mrd_follow_open_ends(&c->align, c->breaks, c->n_breaks) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if (err == MRD_OK && c->align != NULL && c->checked == 0) {
        mrd_follow_check(c->align, c->probes, c->n_probes, &report);
        take_report(c, &report);
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
    mrd_node_clock c = { 0 };
    char *dir = NULL;
    mrd_err err;

    if (asprintf(&dir, "%s/journal/%s", session_dir, instance_id) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if ((err = mrd_journal_scan(dir, &index, why)) == MRD_OK && read_data(&c, &index) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    for (size_t i = 0; i < c.n && err == MRD_OK; i++)
        err = load_one(&c, i, session_dir, instance_id, why);
    free(dir);
    mrd_journal_index_fini(&index);
    if (err != MRD_OK)
        mrd_node_clock_fini(&c);
    else
        *ret_clock = c;
    return err;
}

void
mrd_node_clock_fini(mrd_node_clock *clock)
{
    for (size_t i = 0; i < clock->n; i++) {
        mrd_boot_clock *c = &clock->v[i];

        mrd_align_free(c->align);
        free(c->probes);
        free(c->breaks);
        free(c->readings);
        free(c->incarnations);
        free(c->looks);
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

/* ---- One number for a table ---- */

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
    const mrd_align_segment *s = mrd_align_borrow_segment(align, segment);

    return widest_of(mrd_align_borrow_bins(align) + s->first, s->count);
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
