/* Merges the batches of one process and clock into one sorted source: a heap over the batches that
 * overlap the current time, each decoded event by event. */
#include "aggregator/journal/journal.h"

#include <stdlib.h>

#include "base/obj.h"
#include "base/vec.h"

#define OPEN_USUAL 8

typedef struct {
    mrd_ev_ns first;
    size_t entry; /* entries are sorted by (epoch, seq), so this also breaks ties */
} planned;

/* One batch, from its first time until its last event was returned. */
typedef struct {
    size_t entry;
    mrd_batch_reader *reader; /* NULL: parked */
    uint32_t given;           /* events that were returned */
    uint32_t ready;           /* decoded events at head */
    mrd_event *head;          /* the next event: the reader's, or the copy */
    mrd_event parked;         /* without arguments */
} cursor;

typedef struct {
    mrd_source source;
    mrd_journal_source_options o;
    mrd_catalog *cat;
    planned *plan;
    size_t n, next;
    cursor **heap; /* least head first */
    size_t n_heap, heap_cap, n_open;
    mrd_batch_reader **spare;
    size_t n_spare;
    uint32_t given; /* events of heap[0] that were returned last */
    bool starved;   /* memory ran out while decoding a batch */
    mrd_run left;   /* events that next has not taken yet */
} jsource;

static bool
wanted(const mrd_journal_source_options *o, const mrd_frame *f)
{
    return f->type == MRD_FRAME_BATCH && f->process_id == o->process_id && f->clock == o->clock &&
           f->boot == o->boot && (mrd_ev_before(f->first, o->end) || o->end.ns == INT64_MAX) &&
           !mrd_ev_before(f->last, o->start);
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
count_bad(jsource *s, size_t entry, uint32_t given, const mrd_why *why)
{
    mrd_journal_bad *bad = s->o.bad;

    if (bad == NULL || s->o.index->entries[entry].frame.events == given)
        return;
    bad->events += s->o.index->entries[entry].frame.events - given;
    bad->batches++;
    if (bad->first.err == MRD_OK)
        bad->first = *why;
}

/* ---- The heap ---- */

static void
sift_down(jsource *s, size_t at)
{
    cursor *moving = s->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap &&
            mrd_event_order(s->heap[child + 1]->head, s->heap[child]->head) < 0)
            child++;
        if (mrd_event_order(s->heap[child]->head, moving->head) >= 0)
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moving;
}

static void
sift_up(jsource *s, size_t at)
{
    cursor *moving = s->heap[at];

    while (at > 0 && mrd_event_order(moving->head, s->heap[(at - 1) / 2]->head) < 0) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = moving;
}

/* ---- Readers ---- */

static void
give_back(jsource *s, cursor *c)
{
    s->spare[s->n_spare++] = c->reader;
    c->reader = NULL;
    s->n_open--;
}

static void
park(jsource *s, cursor *c)
{
    c->parked = *c->head;
    c->head = &c->parked;
    c->ready = 1;
    give_back(s, c);
}

/* Gets a reader for one more batch: a spare one, a new one, or the reader of the batch that is
 * needed last. */
static mrd_batch_reader *
reader_take(jsource *s)
{
    if (s->n_spare == 0 && s->n_open >= s->o.open_max) {
        cursor *last = NULL;

        for (size_t i = 0; i < s->n_heap; i++) {
            if (s->heap[i]->reader != NULL &&
                (last == NULL || mrd_event_order(s->heap[i]->head, last->head) > 0))
                last = s->heap[i];
        }
        MRD_ASSERT(last != NULL);
        park(s, last);
    }
    if (s->n_spare > 0)
        return s->spare[--s->n_spare];
    return mrd_batch_reader_new(s->o.codec);
}

/* Moves to the first event that was not returned. Returns false if there is none. */
static bool
step_over(mrd_batch_reader *r, cursor *c, mrd_why *why)
{
    for (uint32_t left = c->given;; left -= c->ready) {
        if (mrd_batch_peek(r, &c->head, &c->ready, why) != MRD_MORE)
            return false;
        mrd_batch_take(r, left < c->ready ? left : c->ready);
        if (left < c->ready) {
            c->head += left;
            c->ready -= left;
            return true;
        }
    }
}

/* Decodes the batch, for the first time or again, and skips the events that were returned.
 * MRD_EMPTY: no more events, or damaged and counted. NOMEM is no statement about the batch. */
static mrd_err
cursor_open(jsource *s, cursor *c)
{
    mrd_batch_reader *r = reader_take(s);
    mrd_batch_info info;
    mrd_frame f;
    mrd_bytes body;
    mrd_why why = { 0 };
    mrd_err err = r == NULL ? MRD_NOMEM
                            : mrd_journal_read(s->o.index, &s->o.index->entries[c->entry], false,
                                               s->o.frame, &f, &body, &why);

    if (err == MRD_OK) {
        f.seq = c->entry; /* unique in this source, in all epochs */
        mrd_batch_reader_of(r, s->o.instance_id);
        if (s->o.names_refused)
            (void) mrd_strtab_allow(mrd_catalog_strings(s->cat), 0);
        err = mrd_batch_open(r, &f, body, s->cat, &info, &why);
        if (s->o.names_refused) /* the reserve of names is for records about nodes */
            (void) mrd_strtab_allow(mrd_catalog_strings(s->cat), MRD_STRTAB_ANY);
    }
    if (err == MRD_OK && !step_over(r, c, &why))
        err = why.err != MRD_OK
                  ? why.err
                  : mrd_why_set(&why, MRD_CORRUPT, 0, "fewer events than the frame states");
    if (err != MRD_OK) {
        if (err != MRD_NOMEM)
            count_bad(s, c->entry, c->given, &why);
        if (r != NULL)
            s->spare[s->n_spare++] = r;
        return err == MRD_NOMEM ? MRD_NOMEM : MRD_EMPTY;
    }
    c->reader = r;
    s->n_open++;
    return MRD_OK;
}

/* Moves an open cursor by n events. Returns false at its end. */
static bool
cursor_advance(jsource *s, cursor *c, uint32_t n)
{
    mrd_why why = { 0 };
    mrd_step step;

    c->given += n;
    mrd_batch_take(c->reader, n);
    step = mrd_batch_peek(c->reader, &c->head, &c->ready, &why);
    if (step == MRD_MORE)
        return true;
    if (step == MRD_BAD && why.err == MRD_NOMEM)
        s->starved = true;
    else if (step == MRD_BAD)
        count_bad(s, c->entry, c->given, &why);
    give_back(s, c);
    return false;
}

static void
heap_drop_first(jsource *s)
{
    free(s->heap[0]);
    s->heap[0] = s->heap[--s->n_heap];
    if (s->n_heap > 0)
        sift_down(s, 0);
}

/* Opens every batch with a first time that was reached. */
static mrd_err
open_due(jsource *s)
{
    while (s->next < s->n &&
           (s->n_heap == 0 || !mrd_ev_after(s->plan[s->next].first, s->heap[0]->head->ts))) {
        cursor *c;
        mrd_err err;

        if (!MRD_VEC_ROOM(s->heap, s->n_heap, s->heap_cap, 1))
            return MRD_NOMEM;
        if ((c = calloc(1, sizeof(*c))) == NULL)
            return MRD_NOMEM;
        c->entry = s->plan[s->next++].entry;
        if ((err = cursor_open(s, c)) != MRD_OK) {
            free(c);
            if (err == MRD_NOMEM)
                return err;
            continue;
        }
        s->heap[s->n_heap++] = c;
        sift_up(s, s->n_heap - 1);
    }
    return MRD_OK;
}

/* Returns how many events of the first cursor come before all others, at least one. */
static uint32_t
run_length(const jsource *s)
{
    const cursor *c = s->heap[0];
    mrd_ev_ns until = s->next < s->n ? s->plan[s->next].first : (mrd_ev_ns){ INT64_MAX };
    uint32_t n = 1;

    if (s->next == s->n && s->n_heap == 1)
        return c->ready;
    for (size_t i = 1; i < s->n_heap && i < 3; i++)
        until = mrd_ev_before(s->heap[i]->head->ts, until) ? s->heap[i]->head->ts : until;
    if (mrd_ev_before(c->head[c->ready - 1].ts, until))
        return c->ready;
    while (n < c->ready && mrd_ev_before(c->head[n].ts, until))
        n++;
    return n;
}

static mrd_step
starved(const jsource *s, mrd_why *why)
{
    mrd_why_set(why, MRD_NOMEM, 0, "journal of process %lld", (long long) s->o.process_id);
    return MRD_BAD;
}

static mrd_step
jsource_run(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why)
{
    jsource *s = (jsource *) self;
    mrd_err err;

    if (s->given > 0) {
        if (!cursor_advance(s, s->heap[0], s->given))
            heap_drop_first(s);
        else if (s->n_heap > 1)
            sift_down(s, 0);
        s->given = 0;
        if (s->starved)
            return starved(s, why);
    }
    for (;;) {
        if (open_due(s) != MRD_OK)
            return starved(s, why);
        if (s->n_heap == 0)
            return MRD_END;
        if (s->heap[0]->reader != NULL)
            break;
        err = cursor_open(s, s->heap[0]); /* the arguments of its events are needed now */
        if (err == MRD_OK)
            break;
        if (err == MRD_NOMEM)
            return starved(s, why);
        heap_drop_first(s);
    }
    s->given = run_length(s);
    *ret_events = s->heap[0]->head;
    *ret_n = s->given;
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
    jsource *s = (jsource *) self;

    for (size_t i = 0; i < s->n_heap; i++) {
        mrd_batch_reader_free(s->heap[i]->reader);
        free(s->heap[i]);
    }
    for (size_t i = 0; i < s->n_spare; i++)
        mrd_batch_reader_free(s->spare[i]);
    free(s->heap);
    free(s->spare);
    free(s->plan);
    free(s);
}

static mrd_err
jsource_plan(jsource *s)
{
    const mrd_journal_index *x = s->o.index;

    if ((s->plan = calloc(x->n + 1, sizeof(*s->plan))) == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < x->n; i++) {
        if (wanted(&s->o, &x->entries[i].frame))
            s->plan[s->n++] = (planned){ { x->entries[i].frame.first.ns }, i };
    }
    qsort(s->plan, s->n, sizeof(*s->plan), plan_order);
    return MRD_OK;
}

mrd_err
mrd_journal_source(const mrd_journal_source_options *options, mrd_catalog *cat,
                   mrd_source **ret_source, mrd_why *why)
{
    jsource *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journal source");
    s->source = (mrd_source){
        .next = jsource_next, .close = jsource_close, .key = options->key, .run = jsource_run
    };
    s->o = *options;
    if (s->o.open_max == 0)
        s->o.open_max = OPEN_USUAL;
    s->cat = cat;
    s->spare = calloc(s->o.open_max + 1, sizeof(*s->spare));
    if (s->spare == NULL || jsource_plan(s) != MRD_OK) {
        jsource_close(&s->source);
        return mrd_why_set(why, MRD_NOMEM, 0, "journal source");
    }
    *ret_source = &s->source;
    return MRD_OK;
}
