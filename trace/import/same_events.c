/* Compares the events of inputs. All inputs are read together in order of time. So only events with
 * the same begin (an "instant") are in memory. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/tournament.h"
#include "base/vec.h"
#include "trace/import/same_data_int.h"

/* Maximum number of events of one input that begin at the same time. An input with more counts as
 * different from all others. */
#define INSTANT_MOST ((size_t) 1 << 16)
/* maximum number of pairs of events with the same begin that are compared for one input */
#define STEPS_MOST ((size_t) 1 << 22)

/* An event prepared for comparison. Two events are equal if `key` and `detail` are equal and
 * lines_agree() accepts their tracks. */
typedef struct {
    /* hash of the name and other properties that an event has from its begin */
    uint64_t key;
    uint64_t detail; /* hash of the duration and the arguments */
    mrd_track_id track;
    bool unfinished;
    /* A limit replaced a name of the event by a placeholder. Such an event never counts as equal to
     * another. */
    bool is_unsure;
    /* For events of the larger input: index + 1 of the smaller input that has an equal event, 0 if
     * none has. With comparison.together, 1 stands for any smaller input. */
    uint32_t used_by;
} item;

typedef struct {
    item *v;
    size_t n, cap;
    bool overflow; /* more than INSTANT_MOST events begin at this time */
} items;

typedef struct {
    mrd_source *source;
    const mrd_event *ev; /* the next event; NULL at the end */
} reader;

typedef struct {
    const mrd_catalog *cat;
    mrd_events_part *parts;
    reader *readers;     /* readers of the parts */
    mrd_tournament next; /* finds the part with the earliest next event */
    reader whole;
    /* events that begin at the current time: `ours` of the larger input, `theirs` of one smaller
     * input */
    items ours, theirs;
    size_t steps;
    bool by_name; /* compare only time, duration, name and process, because the formats differ */
    /* true: test if the parts together have the events of the whole (mrd_events_are_merged). false:
     * test for each part if the whole has its events (mrd_events_find_parts). */
    bool together;
    bool missing; /* result with `together`: an event of the whole is in no part */
    bool twice;   /* result with `together`: an event of the whole is in several parts */
} comparison;

/* ---- Keys ---- */

static uint64_t
text_hash(const mrd_catalog *cat, const mrd_arg *arg)
{
    mrd_str text = { arg->v.text, arg->len };

    if (arg->type == MRD_ARG_STR)
        text = mrd_catalog_text(cat, arg->v.sid);
    return mrd_hash64(text.p, text.len, 0);
}

/* Returns a hash of the arguments that does not depend on their order. Sets *ret_is_unsure if a
 * limit removed a name or text. */
static uint64_t
args_hash(const mrd_catalog *cat, const mrd_event *ev, bool *ret_is_unsure)
{
    uint64_t sum = ev->arg_count;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];
        bool is_text =
            arg->type == MRD_ARG_STR || arg->type == MRD_ARG_TEXT || arg->type == MRD_ARG_JSON;
        uint64_t pair[] = { (uint64_t) arg->key << 1 | is_text,
                            is_text ? text_hash(cat, arg) : arg->v.u };

        *ret_is_unsure = *ret_is_unsure || arg->key == MRD_SID_FULL ||
                         (arg->type == MRD_ARG_STR && arg->v.sid == MRD_SID_FULL);
        sum += mrd_hash64(pair, sizeof(pair), 0);
    }
    return sum;
}

/* Prepares an event for comparison. Ids of flow arrows are left out, because the reader made them
 * from the input's number. */
static item
item_of(const mrd_catalog *cat, const mrd_event *ev, bool by_name)
{
    const mrd_track *track = mrd_catalog_borrow_track(cat, ev->track);
    bool is_unsure = ev->name == MRD_SID_FULL || ev->category == MRD_SID_FULL ||
                     track->name == MRD_SID_FULL || mrd_catalog_is_full(cat, ev->track);
    const uint64_t key[] = { (uint64_t) ev->name << 8 | ev->kind,
                             ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS ? (uint64_t) ev->ivalue
                                                                             : 0,
                             ev->flags,
                             ev->flow_dir,
                             ev->category,
                             ev->kind == MRD_FLOW ? 0 : ev->id,
                             track->kind,
                             (uint64_t) track->thread_id,
                             (uint64_t) track->lnc_idx,
                             (uint64_t) track->pcore_idx };
    const uint64_t detail[] = { (uint64_t) ev->dur_ns, by_name ? 0 : args_hash(cat, ev, &is_unsure),
                                by_name ? 0 : ev->flow_count };

    return (item){ .key = mrd_hash64(key, by_name ? 2 * sizeof(*key) : sizeof(key), 0),
                   .detail = mrd_hash64(detail, sizeof(detail), 0),
                   .track = ev->track,
                   .unfinished = ev->kind == MRD_SPAN && ev->dur_ns < 0,
                   .is_unsure = is_unsure };
}

/* Orders events by key and detail. Finished spans precede unfinished ones with the same key, so
 * that use_equal finds them first. */
static int
item_order(const void *a, const void *b)
{
    const item *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->unfinished != y->unfinished)
        return x->unfinished - y->unfinished;
    if (x->detail != y->detail)
        return x->detail < y->detail ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

/* ---- Readers ---- */

static mrd_err
reader_next(reader *r)
{
    mrd_why why = { 0 };
    mrd_step step = r->source->next(r->source, &r->ev, &why);

    if (step == MRD_MORE)
        return MRD_OK;
    r->ev = NULL;
    return step == MRD_END ? MRD_OK : mrd_why_err(&why);
}

static mrd_err
reader_open(reader *r, mrd_stream *stream)
{
    mrd_err err = mrd_stream_open_pushed(stream, &r->source, NULL);

    return err == MRD_OK ? reader_next(r) : err;
}

static void
reader_close(reader *r)
{
    if (r->source != NULL)
        r->source->close(r->source);
    *r = (reader){ 0 };
}

/* Reads all events that begin at the time `at`, and sorts them. Errors: NOMEM, and errors of the
 * store. */
static mrd_err
read_instant(const comparison *cmp, reader *r, mrd_ev_ns at, items *ret_items)
{
    mrd_err err = MRD_OK;

    ret_items->n = 0;
    ret_items->overflow = false;
    while (err == MRD_OK && r->ev != NULL && r->ev->ts.ns == at.ns) {
        if (ret_items->n == INSTANT_MOST)
            ret_items->overflow = true;
        else if (!MRD_VEC_ROOM(ret_items->v, ret_items->n, ret_items->cap, 1))
            return MRD_NOMEM;
        else
            ret_items->v[ret_items->n++] = item_of(cmp->cat, r->ev, cmp->by_name);
        err = reader_next(r);
    }
    if (ret_items->n > 1)
        qsort(ret_items->v, ret_items->n, sizeof(*ret_items->v), item_order);
    return err;
}

/* ---- Parts, ordered by their next event ---- */

/* Decides between parts a and b whose next events have the same time. A part at its end comes
 * last. */
static bool
precedes(const void *self, uint64_t a, uint64_t b)
{
    const comparison *cmp = self;
    bool has_a = cmp->readers[a].ev != NULL, has_b = cmp->readers[b].ev != NULL;

    return has_a != has_b ? has_a : a < b;
}

/* Updates the position of a part in the tournament, which orders the parts by the time of their
 * next event. */
static void
place_part(const comparison *cmp, size_t part)
{
    const reader *r = &cmp->readers[part];

    mrd_tournament_set(&cmp->next, cmp->next.k + part, r->ev == NULL ? INT64_MAX : r->ev->ts.ns,
                       part, precedes, cmp);
}

/* Returns the reader of the part with the earliest next event. If all parts have ended, `ev` of the
 * reader is NULL. */
static reader *
earliest_part(const comparison *cmp)
{
    return &cmp->readers[cmp->next.tag[1]];
}

/* ---- Comparison ---- */

/* Returns true if two names can mean the same track. One file may show the track in another
 * process. Its name then begins with the process's name, as in "GPU 0 stream 7". */
static bool
names_agree(mrd_str str, mrd_str b)
{
    mrd_str more = str.len > b.len ? str : b, less = str.len > b.len ? b : str;
    size_t before = more.len - less.len;

    return memcmp(more.p + before, less.p, less.len) == 0 &&
           (before == 0 || (less.len > 0 && more.p[before - 1] == ' '));
}

/* Returns what the track's process states about its identity. A pid of the track itself replaces
 * the process's pid. */
static mrd_whose
whose_line(const mrd_catalog *cat, const mrd_track *track)
{
    const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);
    mrd_whose owner = mrd_whose_process(cat, process);

    if (process->container_pid != MRD_NONE)
        owner.pid = process->container_pid;
    if (track->source_pid != MRD_NONE)
        owner.pid = track->source_pid;
    return owner;
}

/* Returns true if the events' tracks, one of a part and one of the whole, can be the same. Names of
 * threads may differ. Sets states_more or states_less of the part if one of the processes states
 * more facts. */
static bool
lines_agree(const comparison *cmp, mrd_events_part *part, mrd_track_id theirs, mrd_track_id ours)
{
    const mrd_track *track = mrd_catalog_borrow_track(cmp->cat, theirs);
    const mrd_track *o = mrd_catalog_borrow_track(cmp->cat, ours);
    mrd_whose their, our;

    if (track == o)
        return true;
    if (!cmp->by_name && track->thread_id == MRD_NONE && track->name != o->name &&
        !names_agree(mrd_catalog_text(cmp->cat, track->name), mrd_catalog_text(cmp->cat, o->name)))
        return false;
    their = whose_line(cmp->cat, track);
    our = whose_line(cmp->cat, o);
    if (mrd_whose_contradict(&their, &our))
        return false;
    part->states_more = part->states_more || mrd_whose_states_more(&their, &our);
    part->states_less = part->states_less || mrd_whose_states_more(&our, &their);
    return true;
}

/* Finds an event of the whole that equals `their`, an event of this part, and that no event of this
 * part has used. Marks it as used. The search begins at *from, which is set to the index after the
 * result. Returns false if there is none. */
static bool
use_equal(comparison *cmp, size_t part, const item *their, size_t *from)
{
    const uint32_t user = cmp->together ? 1 : (uint32_t) part + 1;
    bool is_used = false;

    for (size_t i = *from; i < cmp->ours.n && cmp->ours.v[i].key == their->key; i++) {
        item *our = &cmp->ours.v[i];
        bool is_open = cmp->together ? our->unfinished : their->unfinished;

        if (++cmp->steps > STEPS_MOST)
            break;
        if ((our->detail != their->detail && !is_open) || our->is_unsure || their->is_unsure ||
            !lines_agree(cmp, &cmp->parts[part], their->track, our->track))
            continue;
        if (our->used_by != user) {
            our->used_by = user;
            cmp->parts[part].is_used = true;
            cmp->parts[part].lacks_ends |= our->detail != their->detail;
            *from = i + 1;
            return true;
        }
        is_used = true;
    }
    cmp->twice = cmp->twice || is_used;
    return false;
}

/* Looks in the whole for all events that the part has at the current time. Returns false if an
 * event is missing. */
static bool
compare_instant(comparison *cmp, size_t part)
{
    bool all = !cmp->theirs.overflow && !cmp->ours.overflow;
    /* Both index the events of the whole. first: first event with the same key as `their`. from:
     * where the search for an equal event continues. */
    size_t first = 0, from = 0;

    cmp->steps = 0;
    for (size_t i = 0; i < cmp->theirs.n && (all || cmp->together); i++) {
        const item *their = &cmp->theirs.v[i], *before = i > 0 ? their - 1 : NULL;
        bool same = before != NULL && before->key == their->key &&
                    before->detail == their->detail && before->track == their->track;

        while (first < cmp->ours.n && cmp->ours.v[first].key < their->key)
            first++;
        from = same && !cmp->together ? from : first;
        all = use_equal(cmp, part, their, &from) && all;
    }
    return all;
}

/* Skips the events of the whole that begin before `at`, and reads those that begin at `at`. */
static mrd_err
read_whole(comparison *cmp, mrd_ev_ns at)
{
    mrd_err err = MRD_OK;

    while (err == MRD_OK && cmp->whole.ev != NULL && mrd_ev_before(cmp->whole.ev->ts, at))
        err = reader_next(&cmp->whole);
    return err == MRD_OK ? read_instant(cmp, &cmp->whole, at, &cmp->ours) : err;
}

/* Compares the events of all parts with the events of the whole at the next instant. */
static mrd_err
next_instant(comparison *cmp)
{
    mrd_ev_ns at = cmp->together ? cmp->whole.ev->ts : earliest_part(cmp)->ev->ts;
    mrd_err err = read_whole(cmp, at);
    reader *r;

    while (err == MRD_OK && (r = earliest_part(cmp))->ev != NULL && !mrd_ev_after(r->ev->ts, at)) {
        size_t part = (size_t) (r - cmp->readers);

        if (mrd_ev_before(r->ev->ts, at)) {
            err = reader_next(r);
        } else if ((err = read_instant(cmp, r, at, &cmp->theirs)) == MRD_OK) {
            bool all = compare_instant(cmp, part);

            if (!all && !cmp->together) {
                cmp->parts[part].differs = true;
                reader_close(r);
            }
        }
        place_part(cmp, part);
    }
    cmp->missing = cmp->missing || cmp->ours.overflow;
    for (size_t i = 0; i < cmp->ours.n; i++)
        cmp->missing = cmp->missing || cmp->ours.v[i].used_by == 0;
    return err;
}

/* Reads the whole and its `count` parts, and sets the results of all parts. `count` is at least
 * 1. */
static mrd_err
compare(comparison *cmp, const mrd_read_input *whole, size_t count)
{
    mrd_err err = MRD_NOMEM;

    cmp->readers = calloc(count, sizeof(*cmp->readers));
    if (cmp->readers != NULL && mrd_tournament_init(&cmp->next, count))
        err = reader_open(&cmp->whole, whole->stream);
    for (size_t i = 0; i < count && err == MRD_OK; i++) {
        cmp->parts[i] = (mrd_events_part){ .read = cmp->parts[i].read };
        err = reader_open(&cmp->readers[i], cmp->parts[i].read->stream);
        cmp->next.key[count + i] =
            cmp->readers[i].ev == NULL ? INT64_MAX : cmp->readers[i].ev->ts.ns;
        cmp->next.tag[count + i] = i;
    }
    if (err == MRD_OK)
        mrd_tournament_build(&cmp->next, precedes, cmp);
    if (cmp->together)
        while (err == MRD_OK && cmp->whole.ev != NULL && !cmp->missing && !cmp->twice)
            err = next_instant(cmp);
    else
        while (err == MRD_OK && earliest_part(cmp)->ev != NULL)
            err = next_instant(cmp);
    for (size_t i = 0; i < count && cmp->readers != NULL; i++)
        reader_close(&cmp->readers[i]);
    reader_close(&cmp->whole);
    free(cmp->readers);
    mrd_tournament_fini(&cmp->next);
    free(cmp->ours.v);
    free(cmp->theirs.v);
    return err;
}

mrd_err
mrd_events_find_parts(const mrd_catalog *cat, const mrd_read_input *whole, mrd_events_part *parts,
                      size_t n, bool by_name)
{
    comparison cmp = { .cat = cat, .parts = parts, .by_name = by_name };

    return compare(&cmp, whole, n);
}

mrd_err
mrd_events_are_merged(const mrd_catalog *cat, const mrd_read_input *whole, mrd_events_part *parts,
                      size_t n, bool *ret_is_merged)
{
    comparison cmp = { .cat = cat, .parts = parts, .together = true };
    mrd_err err = compare(&cmp, whole, n);
    bool keeps = true;

    for (size_t i = 0; i < n; i++)
        keeps = keeps && !parts[i].states_less;
    *ret_is_merged = err == MRD_OK && keeps && !cmp.missing && !cmp.twice;
    return err;
}
