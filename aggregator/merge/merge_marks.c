#include "aggregator/merge/merge_marks.h"

#include <stdlib.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"

typedef struct {
    mrd_source base;
    size_t n, at;
    mrd_event v[MRD_GAPS_MAX + MRD_PAUSES_MAX];
} marks;

/* ---- The source that returns the loss events ---- */

static mrd_step
marks_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    marks *m = (marks *) self;

    (void) why;
    if (m->at == m->n)
        return MRD_END;
    *ret_event = &m->v[m->at++];
    return MRD_MORE;
}

static void
marks_close(mrd_source *self)
{
    free(self);
}

/* ---- Choosing the losses and their times ---- */

/* Maximum time between a batch's last event and the closing of the batch. Agents usually close a
 * batch sooner after its last event. */
#define OPEN_FOR (250 * MRD_MS)

/* Finds the RAW times of a batch's first and last event. Returns false if the batch has no events,
 * is from another boot, or has unknown times. */
static bool
batch_times(const mrd_frame *frame, int64_t sealed, uint32_t boot, mrd_gap *ret)
{
    int64_t dur;

    if (frame->type != MRD_FRAME_BATCH || frame->boot != boot || frame->events == 0)
        return false;
    *ret = (mrd_gap){ .first = (mrd_local_ns){ frame->first.ns },
                      .last = (mrd_local_ns){ frame->last.ns } };
    if (frame->clock == MRD__CLOCK_KIND__CLOCK_RAW)
        return true;
    if (sealed == INT64_MAX || __builtin_sub_overflow(frame->last.ns, frame->first.ns, &dur))
        return false;
    ret->first = (mrd_local_ns){ mrd_sat_sub(mrd_sat_sub(sealed, dur), OPEN_FOR) };
    ret->last = (mrd_local_ns){ sealed };
    return true;
}

static int
by_begin(const void *a, const void *b)
{
    const mrd_gap *x = a, *y = b;

    return mrd_local_after(x->first, y->first) - mrd_local_before(x->first, y->first);
}

/* Returns the time ranges of this boot's batches, sorted by begin. NULL if out of memory. */
static mrd_gap *
covered(const mrd_journal_index *index, const int64_t *sealed, uint32_t boot, size_t *ret_n)
{
    mrd_gap *gap = malloc((index->n + 1) * sizeof(*gap));
    size_t n = 0;

    for (size_t i = 0; i < index->n && gap != NULL; i++)
        n += batch_times(&index->entries[i].frame, sealed[i], boot, &gap[n]);
    if (n > 1)
        qsort(gap, n, sizeof(*gap), by_begin);
    *ret_n = n;
    return gap;
}

/* Shortens *gap to the part of its time that no stored batch covers, from the first such time to
 * the last. Returns false if batches cover all of it. */
static bool
cut_to_between(mrd_gap *gap, const mrd_gap *batches, size_t n)
{
    mrd_local_ns first = { INT64_MAX }, last = { INT64_MIN }, end;

    if (n == 0)
        return false;
    end = batches[0].last;
    for (size_t i = 1; i < n; i++) {
        mrd_local_ns from = mrd_local_after(end, gap->first) ? end : gap->first;
        mrd_local_ns to =
            mrd_local_before(batches[i].first, gap->last) ? batches[i].first : gap->last;

        if (mrd_local_before(from, to)) {
            first = mrd_local_before(from, first) ? from : first;
            last = mrd_local_after(to, last) ? to : last;
        }
        end = mrd_local_after(batches[i].last, end) ? batches[i].last : end;
    }
    gap->first = first;
    gap->last = last;
    return mrd_local_before(first, last);
}

static mrd_track_id
mark_track(const merge_node *node, uint32_t clock, mrd_catalog *cat)
{
    mrd_process process;
    mrd_proc_id id;
    mrd_track track;

    mrd_process_init(&process);
    process.instance_id = mrd_catalog_intern(cat, node->instance_id);
    process.name = mrd_catalog_intern(cat, "node");
    process.process_id = 0;
    process.flags = MRD_PROC_NODE;
    id = mrd_catalog_process(cat, &process);
    mrd_catalog_borrow_process(cat, id)->clock = clock;
    mrd_track_init(&track, id, MRD_SRC_MERIDIAN);
    track.name = mrd_catalog_intern(cat, "losses");
    return mrd_catalog_track(cat, &track);
}

static void
mark(marks *m, const mrd_merge_marks_of *of, const mrd_gap *gap, const char *cause,
     mrd_catalog *cat)
{
    int64_t dur;

    if (__builtin_sub_overflow(gap->last.ns, gap->first.ns, &dur))
        return;
    m->v[m->n] = (mrd_event){ .kind = MRD_LOSS,
                              .ts = { gap->first.ns },
                              .dur_ns = dur,
                              .ivalue = gap->count > INT64_MAX ? INT64_MAX : (int64_t) gap->count,
                              .name = mrd_catalog_intern(cat, cause),
                              .track = mark_track(of->node, of->clock, cat),
                              .seq = m->n };
    m->n++;
}

static int
event_order(const void *a, const void *b)
{
    return mrd_event_order(a, b);
}

mrd_err
mrd_merge_marks_open(const mrd_merge_marks_of *of, mrd_catalog *cat, mrd_source **ret_source,
                     size_t *ret_n, mrd_why *why)
{
    const merge_node *node = of->node;
    marks *m = calloc(1, sizeof(*m));
    size_t n = 0;
    mrd_gap *batches = m == NULL ? NULL : covered(of->index, of->sealed, of->boot, &n);

    if (batches == NULL) {
        free(m);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    }
    m->base = (mrd_source){ .next = marks_next, .close = marks_close };
    for (size_t i = 0; i < node->n_gaps; i++) {
        mrd_gap gap = node->gaps[i];

        if (strcmp(node->causes[gap.cause], mrd_drop_text(MRD_DROP_WINDOW)) != 0 ||
            cut_to_between(&gap, batches, n))
            mark(m, of, &gap, node->causes[gap.cause], cat);
    }
    for (size_t i = 0; i < node->n_pauses; i++)
        mark(m, of, &node->pauses[i], mrd_drop_text(MRD_DROP_PAUSED), cat);
    free(batches);
    if (m->n > 1)
        qsort(m->v, m->n, sizeof(m->v[0]), event_order);
    *ret_n = m->n;
    *ret_source = m->n > 0 ? &m->base : NULL;
    if (m->n == 0)
        free(m);
    return MRD_OK;
}
