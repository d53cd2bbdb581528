#include "aggregator/node_clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "timesync/follow.h"

#define PROBES_MAX (16u << 20) /* of one node and session: 6 months at a pair per second */
#define BREAKS_MAX 4096
#define UNKNOWN_NS 1e15 /* a bound this wide is none: 11 days */

mrd_epoch_break
mrd_clock_break_of(const Mrd__ClockBreak *b)
{
    return (mrd_epoch_break){ .cause = (mrd_epoch_cause) b->cause,
                              .after = { b->after_ns },
                              .before = { b->before_ns },
                              .keep_rate = b->keep_rate,
                              .lost = b->lost_ns };
}

static mrd_err
add_data(mrd_node_clock *c, const Mrd__ClockData *data)
{
    mrd_bytes joined = { data->joined.data, data->joined.len };
    mrd_probe probe;
    size_t at = 0;

    while (at < joined.len && c->n_probes < PROBES_MAX &&
           mrd_probe_decode(joined, &at, &probe) == MRD_OK) {
        if (c->n_probes == c->cap_probes) {
            size_t cap = c->cap_probes == 0 ? 256 : c->cap_probes * 2;
            void *v = realloc(c->probes, cap * sizeof(*c->probes));

            if (v == NULL)
                return MRD_NOMEM;
            c->probes = v;
            c->cap_probes = cap;
        }
        c->probes[c->n_probes++] = probe;
    }
    for (size_t i = 0; i < data->n_breaks && c->n_breaks < BREAKS_MAX; i++) {
        if (c->breaks == NULL && (c->breaks = calloc(BREAKS_MAX, sizeof(*c->breaks))) == NULL)
            return MRD_NOMEM;
        if (data->breaks[i]->cause < MRD_EPOCH_CAUSES)
            c->breaks[c->n_breaks++] = mrd_clock_break_of(data->breaks[i]);
    }
    return MRD_OK;
}

static int
break_order(const void *a, const void *b)
{
    const mrd_epoch_break *x = a, *y = b;

    return x->after.ns < y->after.ns ? -1 : x->after.ns > y->after.ns;
}

static mrd_err
read_data(mrd_node_clock *c, const mrd_journal_index *index)
{
    mrd_buf buf = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < index->n && err == MRD_OK; i++) {
        mrd_bytes body;
        mrd_frame f;
        mrd_msg msg;

        if (index->entries[i].frame.type != MRD_FRAME_CLOCK_DATA ||
            mrd_journal_read(index, &index->entries[i], false, &buf, &f, &body, NULL) != MRD_OK ||
            mrd_msg_unpack_body(&f, body, &msg, NULL) != MRD_OK)
            continue;
        err = add_data(c, msg.u.clock_data);
        mrd_msg_free(&msg);
    }
    mrd_buf_fini(&buf);
    if (c->n_breaks > 1)
        qsort(c->breaks, c->n_breaks, sizeof(*c->breaks), break_order);
    return err;
}

static void
take_report(mrd_node_clock *c, const mrd_follow_report *r)
{
    c->checked = r->checked;
    c->reversed = r->reversed;
    c->reversed_max = r->reversed_max;
    c->violations = r->violations;
}

static mrd_err
solve(mrd_node_clock *c, const char *instance_id)
{
    mrd_follow_report report;
    mrd_err err;

    if (c->n_probes == 0) {
        mrd_why_set(&c->why, MRD_EMPTY, 0, "clock of %s: no probes were recorded", instance_id);
        return MRD_OK;
    }
    err = mrd_follow_offline(instance_id, 0, c->probes, c->n_probes, c->breaks, c->n_breaks,
                            &mrd_follow_defaults, &c->align, &report, &c->why);
    if (err == MRD_OK)
        take_report(c, &report);
    return err == MRD_NOMEM ? err : MRD_OK;
}

mrd_err
mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                     mrd_node_clock *ret_clock, mrd_why *why)
{
    mrd_node_clock c = { 0 };

    if (read_data(&c, index) != MRD_OK || solve(&c, instance_id) != MRD_OK) {
        mrd_node_clock_fini(&c);
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    }
    *ret_clock = c;
    return MRD_OK;
}

/* The table beside the journal; NULL when there is none. */
static mrd_err
load_table(const char *session_dir, const char *instance_id, mrd_align **ret_align, mrd_why *why)
{
    char *path;
    mrd_err err = MRD_OK;

    if (asprintf(&path, "%s/" MRD_CLOCKS_DIR "/%s.align", session_dir, instance_id) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    *ret_align = NULL;
    if (access(path, F_OK) == 0)
        err = mrd_align_load(path, ret_align, why);
    free(path);
    return err;
}

mrd_err
mrd_node_clock_load(const char *session_dir, const char *instance_id, mrd_node_clock *ret_clock,
                    mrd_why *why)
{
    mrd_journal_index index = { 0 };
    mrd_node_clock c = { 0 };
    char *dir = NULL;
    mrd_err err = load_table(session_dir, instance_id, &c.align, why);

    if (err != MRD_OK)
        return err;
    if (asprintf(&dir, "%s/journal/%s", session_dir, instance_id) < 0)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    else if ((err = mrd_journal_scan(dir, &index, why)) == MRD_OK &&
             read_data(&c, &index) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    if (err == MRD_OK && c.align == NULL && solve(&c, instance_id) != MRD_OK)
        err = mrd_why_set(why, MRD_NOMEM, 0, "clock of %s", instance_id);
    else if (err == MRD_OK && c.align != NULL && c.checked == 0) {
        mrd_follow_report report = { .probes = c.n_probes };

        mrd_follow_check(c.align, c.probes, c.n_probes, &report);
        take_report(&c, &report);
    }
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
    mrd_align_free(clock->align);
    free(clock->probes);
    free(clock->breaks);
    memset(clock, 0, sizeof(*clock));
}

mrd_dur_ns
mrd_align_widest(const mrd_align *align)
{
    const mrd_align_bin *bins = mrd_align_borrow_bins(align);
    size_t n = mrd_align_bin_count(align);
    double widest = n == 0 ? INFINITY : 0;

    for (size_t i = 0; i < n; i++)
        widest = fmax(widest, bins[i].quality == MRD_ALIGN_UNALIGNED
                                  ? INFINITY
                                  : fmax(bins[i].hi - bins[i].est, bins[i].est - bins[i].lo));
    return widest < UNKNOWN_NS ? (mrd_dur_ns) ceil(widest) : -1;
}

void
mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source)
{
    const mrd_align_bin *bins = mrd_align_borrow_bins(align);
    size_t n = mrd_align_bin_count(align);
    unsigned quality = n == 0 ? MRD_ALIGN_UNALIGNED : MRD_ALIGN_GOOD;
    unsigned source = n == 0 ? MRD_STAMP_NONE : MRD_STAMP_UDP_KERNEL;

    for (size_t i = 0; i < n; i++) {
        quality = bins[i].quality < quality ? bins[i].quality : quality;
        source = bins[i].source < source ? bins[i].source : source;
    }
    *ret_quality = quality;
    *ret_source = source;
}
