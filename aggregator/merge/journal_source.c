/* Reads the event batches of one process and clock from a journal, and returns their events in
 * order of time. A heap has the batches whose time ranges contain the time of the next event.
 * Batches are decoded event by event. */
#include "aggregator/journal/journal.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"

#define OPEN_USUAL 8

typedef struct {
    mrd_ev_ns first;
    /* Index of the batch in the list of the journal's frames, which is sorted by (epoch, seq). If
     * batches begin at the same time, the lower index comes first. */
    size_t entry;
} planned;

/* A batch from which events are being returned. */
typedef struct {
    size_t entry;
    /* reader of the batch. NULL if the batch is parked: its reader was needed for another batch,
     * and the batch is opened again later */
    mrd_batch_reader *reader;
    uint32_t given; /* number of the batch's events that were returned */
    uint32_t ready; /* number of decoded events at `head` that were not returned yet */
    /* the next event of the batch, in the reader's memory; in `parked` if the batch is parked */
    mrd_event *head;
    mrd_event parked; /* copy of a parked batch's next event, without arguments */
} cursor;

typedef struct {
    mrd_source source;
    mrd_journal_source_options o;
    mrd_catalog *cat;
    planned *plan;
    size_t n, next;
    /* heap of open and parked batches, ordered by their next event */
    cursor **heap;
    size_t n_heap, heap_cap, n_open;
    mrd_batch_reader **spare;
    size_t n_spare;
    /* number of events of the batch heap[0] that the latest call returned and the next call has to
     * skip */
    uint32_t given;
    bool starved; /* memory ran out while a batch was decoded */
    mrd_run left; /* decoded events of a run that jsource_next has not returned yet */
} jsource;

static bool
wanted(const mrd_journal_source_options *options, const mrd_frame *frame)
{
    return frame->type == MRD_FRAME_BATCH && frame->process_id == options->process_id &&
           frame->clock == options->clock && frame->boot == options->boot &&
           (mrd_ev_before(frame->first, options->end) || options->end.ns == INT64_MAX) &&
           !mrd_ev_before(frame->last, options->start);
}

static int
plan_order(const void *a, const void *b)
{
    const planned *x = a, *y = b;

    if (x->first.ns != y->first.ns)
        return mrd_ev_before(x->first, y->first) ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void
count_bad(jsource *source, size_t entry, uint32_t given, const mrd_why *why)
{
    mrd_journal_bad *bad = source->o.bad;

    if (bad == NULL || source->o.index->entries[entry].frame.events == given)
        return;
    bad->events += source->o.index->entries[entry].frame.events - given;
    bad->batches++;
    if (bad->first.err == MRD_OK)
        bad->first = *why;
}

/* ---- The heap of batches ---- */

static void
sift_down(jsource *source, size_t at)
{
    cursor *moving = source->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= source->n_heap)
            break;
        if (child + 1 < source->n_heap &&
            mrd_event_order(source->heap[child + 1]->head, source->heap[child]->head) < 0)
            child++;
        if (mrd_event_order(source->heap[child]->head, moving->head) >= 0)
            break;
        source->heap[at] = source->heap[child];
        at = child;
    }
    source->heap[at] = moving;
}

static void
sift_up(jsource *source, size_t at)
{
    cursor *moving = source->heap[at];

    while (at > 0 && mrd_event_order(moving->head, source->heap[(at - 1) / 2]->head) < 0) {
        source->heap[at] = source->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    source->heap[at] = moving;
}

/* ---- Readers of batches ---- */

static void
give_back(jsource *source, cursor *c)
{
    source->spare[source->n_spare++] = c->reader;
    c->reader = NULL;
    source->n_open--;
}

static void
park(jsource *source, cursor *c)
{
    c->parked = *c->head;
    c->head = &c->parked;
    c->ready = 1;
    give_back(source, c);
}

/* Returns a reader for another batch: an unused one, or a new one. At the limit of open readers,
 * parks the batch whose next event is the latest, and takes its reader. */
static mrd_batch_reader *
reader_take(jsource *source)
{
    if (source->n_spare == 0 && source->n_open >= source->o.open_max) {
        cursor *last = NULL;

        for (size_t i = 0; i < source->n_heap; i++) {
            if (source->heap[i]->reader != NULL &&
                (last == NULL || mrd_event_order(source->heap[i]->head, last->head) > 0))
                last = source->heap[i];
        }
        MRD_ASSERT(last != NULL);
        park(source, last);
    }
    if (source->n_spare > 0)
        return source->spare[--source->n_spare];
    return mrd_batch_reader_new(source->o.codec);
}

/* Skips the events of the batch that were already returned. Returns false if none are left. */
static bool
step_over(mrd_batch_reader *reader, cursor *c, mrd_why *why)
{
    for (uint32_t left = c->given;; left -= c->ready) {
        if (mrd_batch_peek(reader, &c->head, &c->ready, why) != MRD_MORE)
            return false;
        mrd_batch_take(reader, left < c->ready ? left : c->ready);
        if (left < c->ready) {
            c->head += left;
            c->ready -= left;
            return true;
        }
    }
}

/* Opens a batch, also after it was parked, and skips the events that were already returned. Returns
 * MRD_EMPTY if no events are left, or if the batch is damaged. Damaged batches are counted. Returns
 * MRD_NOMEM if out of memory, which is not counted. */
static mrd_err
cursor_open(jsource *source, cursor *c)
{
    mrd_batch_reader *reader = reader_take(source);
    mrd_batch_info info;
    mrd_frame frame;
    mrd_bytes body;
    mrd_why why = { 0 };
    mrd_err err = reader == NULL
                      ? MRD_NOMEM
                      : mrd_journal_read(source->o.index, &source->o.index->entries[c->entry],
                                         false, source->o.frame, &frame, &body, &why);

    if (err == MRD_OK) {
        /* replaces the sequence number, which is unique only within an epoch, by a number that
         * identifies the batch in this source */
        frame.seq = c->entry;
        mrd_batch_reader_of(reader, source->o.instance_id);
        if (source->o.names_refused)
            (void) mrd_strtab_allow(mrd_catalog_strings(source->cat), 0);
        err = mrd_batch_open(reader, &frame, body, source->cat, &info, &why);
        /* New strings are allowed again, because records about nodes add some. */
        if (source->o.names_refused)
            (void) mrd_strtab_allow(mrd_catalog_strings(source->cat), MRD_STRTAB_ANY);
    }
    if (err == MRD_OK && !step_over(reader, c, &why))
        err = why.err != MRD_OK
                  ? why.err
                  : mrd_why_set(&why, MRD_CORRUPT, 0, "fewer events than the frame states");
    if (err != MRD_OK) {
        if (err != MRD_NOMEM)
            count_bad(source, c->entry, c->given, &why);
        if (reader != NULL)
            source->spare[source->n_spare++] = reader;
        return err == MRD_NOMEM ? MRD_NOMEM : MRD_EMPTY;
    }
    c->reader = reader;
    source->n_open++;
    return MRD_OK;
}

/* Advances an open batch by n events. Returns false at the end of the batch. */
static bool
cursor_advance(jsource *source, cursor *c, uint32_t n)
{
    mrd_why why = { 0 };
    mrd_step step;

    c->given += n;
    mrd_batch_take(c->reader, n);
    step = mrd_batch_peek(c->reader, &c->head, &c->ready, &why);
    if (step == MRD_MORE)
        return true;
    if (step == MRD_BAD && why.err == MRD_NOMEM)
        source->starved = true;
    else if (step == MRD_BAD)
        count_bad(source, c->entry, c->given, &why);
    give_back(source, c);
    return false;
}

static void
heap_drop_first(jsource *source)
{
    free(source->heap[0]);
    source->heap[0] = source->heap[--source->n_heap];
    if (source->n_heap > 0)
        sift_down(source, 0);
}

/* Opens all batches that begin at or before the next event of the source. */
static mrd_err
open_due(jsource *source)
{
    while (source->next < source->n &&
           (source->n_heap == 0 ||
            !mrd_ev_after(source->plan[source->next].first, source->heap[0]->head->ts))) {
        cursor *c;
        mrd_err err;

        if (!MRD_VEC_ROOM(source->heap, source->n_heap, source->heap_cap, 1))
            return MRD_NOMEM;
        if ((c = calloc(1, sizeof(*c))) == NULL)
            return MRD_NOMEM;
        c->entry = source->plan[source->next++].entry;
        if ((err = cursor_open(source, c)) != MRD_OK) {
            free(c);
            if (err == MRD_NOMEM)
                return err;
            continue;
        }
        source->heap[source->n_heap++] = c;
        sift_up(source, source->n_heap - 1);
    }
    return MRD_OK;
}

/* Returns how many events of the batch heap[0] precede the next event of all other batches, at
 * least 1. These events can be returned together. */
static uint32_t
run_length(const jsource *source)
{
    const cursor *c = source->heap[0];
    mrd_ev_ns until =
        source->next < source->n ? source->plan[source->next].first : (mrd_ev_ns){ INT64_MAX };
    uint32_t n = 1;

    if (source->next == source->n && source->n_heap == 1)
        return c->ready;
    for (size_t i = 1; i < source->n_heap && i < 3; i++)
        until = mrd_ev_before(source->heap[i]->head->ts, until) ? source->heap[i]->head->ts : until;
    if (mrd_ev_before(c->head[c->ready - 1].ts, until))
        return c->ready;
    while (n < c->ready && mrd_ev_before(c->head[n].ts, until))
        n++;
    return n;
}

static mrd_step
starved(const jsource *source, mrd_why *why)
{
    mrd_why_set(why, MRD_NOMEM, 0, "journal of process %lld", (long long) source->o.process_id);
    return MRD_BAD;
}

static mrd_step
jsource_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    jsource *source = (jsource *) self;
    mrd_err err;

    if (source->given > 0) {
        if (!cursor_advance(source, source->heap[0], source->given))
            heap_drop_first(source);
        else if (source->n_heap > 1)
            sift_down(source, 0);
        source->given = 0;
        if (source->starved)
            return starved(source, why);
    }
    for (;;) {
        if (open_due(source) != MRD_OK)
            return starved(source, why);
        if (source->n_heap == 0)
            return MRD_END;
        if (source->heap[0]->reader != NULL)
            break;
        /* A parked batch has its next event only without arguments. The arguments are needed now,
         * so the batch is decoded again. */
        err = cursor_open(source, source->heap[0]);
        if (err == MRD_OK)
            break;
        if (err == MRD_NOMEM)
            return starved(source, why);
        heap_drop_first(source);
    }
    source->given = run_length(source);
    *ret_events = source->heap[0]->head;
    *ret_n = source->given;
    return MRD_MORE;
}

static mrd_step
jsource_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    return mrd_run_next(self, &((jsource *) self)->left, ret_event, why);
}

static void
jsource_close(mrd_source *self)
{
    jsource *source = (jsource *) self;

    for (size_t i = 0; i < source->n_heap; i++) {
        mrd_batch_reader_free(source->heap[i]->reader);
        free(source->heap[i]);
    }
    for (size_t i = 0; i < source->n_spare; i++)
        mrd_batch_reader_free(source->spare[i]);
    free(source->heap);
    free(source->spare);
    free(source->plan);
    free(source);
}

static mrd_err
jsource_plan(jsource *source)
{
    const mrd_journal_index *journal_index = source->o.index;

    if ((source->plan = calloc(journal_index->n + 1, sizeof(*source->plan))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < journal_index->n; i++) {
        if (wanted(&source->o, &journal_index->entries[i].frame))
            source->plan[source->n++] =
                (planned){ { journal_index->entries[i].frame.first.ns }, i };
    }
    qsort(source->plan, source->n, sizeof(*source->plan), plan_order);
    return MRD_OK;
}

mrd_err
mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                   mrd_source **ret_source, mrd_why *why)
{
    jsource *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journal source");
    source->source = (mrd_source){
        .next = jsource_next, .close = jsource_close, .key = options->key, .run = jsource_run
    };
    source->o = *options;
    if (source->o.open_max == 0)
        source->o.open_max = OPEN_USUAL;
    source->cat = cat;
    source->spare = calloc(source->o.open_max + 1, sizeof(*source->spare));
    if (source->spare == NULL || jsource_plan(source) != MRD_OK) {
        jsource_close(&source->source);
        return mrd_why_set(why, MRD_NOMEM, 0, "journal source");
    }
    *ret_source = &source->source;
    return MRD_OK;
}
