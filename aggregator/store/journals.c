#include "aggregator/store/journals.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "aggregator/core/common/limits.h"
#include "base/clock.h"
#include "base/conf/log.h"
#include "base/map.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "base/vec.h"

#define GROUP_MAX    MRD_PENDING_MAX
#define GROUP_ENOUGH 8 /* frames that an agent has in flight */
#define GROUP_WAIT   (3 * MRD_MS)

typedef struct item {
    struct item *next;
    mrd_journals_frame f;
    char *instance_id; /* of a new journal */
    bool close;        /* closes the session's journals; there is no frame */
    mrd_local_ns came;
    struct journal *of;
    uint64_t place; /* number of its frame in the journal, from 1. 0 means not appended */
} item;

typedef struct journal {
    uint64_t number, session;
    char *dir, *instance_id;
    mrd_journal *j; /* NULL: not open */
    mrd_why unwritten, unsynced;
    bool in_group;
} journal;

struct mrd_journals {
    mrd_journals_options o;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the queue and closing; a leaf lock */
    pthread_cond_t news;
    item *first, **last;
    size_t waiting;
    bool closing;
    uint64_t syncs; /* atomic */
    /* The writer's alone. */
    mrd_journal_syncer *syncer;
    journal **v;
    size_t n, cap;
    mrd_map by_number; /* index into v */
    item *group[GROUP_MAX];
    size_t n_group;
    journal *touched[GROUP_MAX];
    size_t n_touched;
    mrd_journal_chunk chunks[GROUP_MAX];
    size_t chunk_at[GROUP_MAX];
    mrd_journal *dirty[GROUP_MAX];
    mrd_why whys[GROUP_MAX];
    mrd_why gone; /* the store is not there */
};

static void
item_free(item *i)
{
    free(i->f.dir);
    free(i->f.owned);
    free(i->instance_id);
    free(i);
}

/* ---- Journals ---- */

static void
journal_free(mrd_journals *w, size_t at)
{
    journal *j = w->v[at];
    mrd_why why = { 0 };

    if (mrd_journal_close(j->j, &why) != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-CLOSE",
                "A journal's segment was closed without its index: path=%s reason=%s", j->dir,
                why.text);
    mrd_map_remove(&w->by_number, (mrd_map_key){ .a = j->number });
    w->v[at] = w->v[--w->n];
    if (at < w->n)
        (void) mrd_map_put(&w->by_number, (mrd_map_key){ .a = w->v[at]->number }, (uint32_t) at);
    free(j->dir);
    free(j->instance_id);
    free(j);
}

static journal *
journal_new(mrd_journals *w, item *i)
{
    journal *j = calloc(1, sizeof(*j));

    if (j == NULL || !MRD_VEC_ROOM(w->v, w->n, w->cap, 1) ||
        mrd_map_put(&w->by_number, (mrd_map_key){ .a = i->f.journal }, (uint32_t) w->n) != MRD_OK) {
        free(j);
        return NULL;
    }
    *j = (journal){ .number = i->f.journal,
                    .session = i->f.session,
                    .dir = i->f.dir,
                    .instance_id = i->instance_id };
    i->f.dir = i->instance_id = NULL;
    w->v[w->n++] = j;
    return j;
}

static journal *
journal_of(mrd_journals *w, item *i)
{
    uint32_t at = mrd_map_get(&w->by_number, (mrd_map_key){ .a = i->f.journal });

    if (at != MRD_MAP_NONE)
        return w->v[at];
    return i->f.dir == NULL ? NULL : journal_new(w, i);
}

static void
close_session(mrd_journals *w, uint64_t session)
{
    for (size_t i = w->n; i-- > 0;) {
        if (w->v[i]->session == session)
            journal_free(w, i);
    }
    w->o.closed(w->o.self, session);
}

/* ---- A group ---- */

/* Writes a part of the frames that wait for a journal, at most the amount that may stay unsynced.
 * Returns the number of chunks, 0 if they failed. */
static size_t
write_some(mrd_journals *w, journal *j, size_t from, size_t n)
{
    bool group = w->o.store->sync == MRD_SYNC_GROUP;
    size_t end = from, bytes = 0, written;
    uint64_t place = mrd_journal_appended(j->j);

    while (end < n &&
           (end == from || !group || bytes + w->chunks[end].data.len <= MRD_JOURNAL_TAIL))
        bytes += w->chunks[end++].data.len;
    written = mrd_journal_append_many(j->j, w->chunks + from, end - from, &j->unwritten);
    for (size_t i = from; i < from + written; i++)
        w->group[w->chunk_at[i]]->place = ++place;
    if (written == end - from && end < n && mrd_journal_sync(j->j, &j->unwritten) != MRD_OK) {
        for (size_t i = from; i < end; i++) {
            item *of = w->group[w->chunk_at[i]];

            of->place = of->place <= mrd_journal_durable(j->j) ? of->place : 0;
        }
        return 0;
    }
    return written == end - from ? written : 0;
}

static void
write_journal(mrd_journals *w, journal *j)
{
    size_t n = 0, did;

    if (j->j == NULL && mrd_journal_open(j->dir, mrd_str_of(j->instance_id), j->session, &j->j,
                                         &j->unwritten) != MRD_OK)
        return;
    for (size_t i = 0; i < w->n_group; i++) {
        if (w->group[i]->of != j)
            continue;
        w->chunks[n] = (mrd_journal_chunk){ &w->group[i]->f.frame, w->group[i]->f.data };
        w->chunk_at[n++] = i;
    }
    for (size_t i = 0; i < n; i += did) {
        if ((did = write_some(w, j, i, n)) == 0)
            break;
    }
}

static void
sync_group(mrd_journals *w)
{
    journal *open[GROUP_MAX];
    size_t n = 0, calls;

    for (size_t i = 0; i < w->n_touched; i++) {
        if (w->touched[i]->j == NULL)
            continue;
        w->whys[n] = (mrd_why){ 0 };
        open[n] = w->touched[i];
        w->dirty[n++] = w->touched[i]->j;
    }
    if (w->o.store->sync == MRD_SYNC_GROUP && n > 0) {
        calls = mrd_journal_sync_many(w->syncer, w->dirty, n, w->whys);
        __atomic_add_fetch(&w->syncs, calls, __ATOMIC_RELAXED);
    } else {
        for (size_t i = 0; i < n; i++)
            (void) mrd_journal_check(w->dirty[i], &w->whys[i]);
    }
    for (size_t i = 0; i < n; i++)
        open[i]->unsynced = w->whys[i];
}

/* Its journal's sync failed, but its segment was full and had been synced before. */
static bool
is_durable(const item *i)
{
    return i->of->j != NULL && i->place <= mrd_journal_durable(i->of->j);
}

static void
report(mrd_journals *w, item *i)
{
    mrd_why nomem = { .err = MRD_NOMEM, .text = "out of memory" };
    const mrd_why *failed = w->gone.err != MRD_OK                             ? &w->gone
                            : i->of == NULL                                   ? &nomem
                            : i->place == 0                                   ? &i->of->unwritten
                            : i->of->unsynced.err != MRD_OK && !is_durable(i) ? &i->of->unsynced
                                                                              : NULL;

    w->o.stored(w->o.self, i->f.ticket, failed);
    item_free(i);
}

/* Group commit: writes all waiting frames, makes them durable, and then reports each frame. */
static void
commit(mrd_journals *w)
{
    w->n_touched = 0;
    w->gone = (mrd_why){ 0 };
    (void) mrd_session_store_check(w->o.store, &w->gone);
    for (size_t i = 0; i < w->n_group && w->gone.err == MRD_OK; i++) {
        journal *j = w->group[i]->of = journal_of(w, w->group[i]);

        if (j == NULL || j->in_group)
            continue;
        j->in_group = true;
        j->unwritten = j->unsynced = (mrd_why){ 0 };
        w->touched[w->n_touched++] = j;
    }
    for (size_t i = 0; i < w->n_touched; i++)
        write_journal(w, w->touched[i]);
    sync_group(w);
    for (size_t i = 0; i < w->n_touched; i++)
        w->touched[i]->in_group = false;
    for (size_t i = 0; i < w->n_group; i++)
        report(w, w->group[i]);
    w->n_group = 0;
}

/* ---- The thread ---- */

/* A sync costs the same for one frame and for many, so a few frames wait briefly for more. Lock
 * held. */
static void
wait_for_company(mrd_journals *w)
{
    mrd_local_ns until = mrd_local_add(w->first->came, GROUP_WAIT);

    while (w->waiting < GROUP_ENOUGH && !w->closing && w->o.store->sync == MRD_SYNC_GROUP) {
        int64_t left = mrd_local_diff(until, mrd_local_now());
        struct timespec end;

        if (left <= 0)
            return;
        end = mrd_cond_deadline(left);
        pthread_cond_timedwait(&w->news, &w->lock, &end);
    }
}

/* Takes the next items: a group of frames, or one order to close. Lock held. */
static item *
take(mrd_journals *w)
{
    while (w->first != NULL && !w->first->close && w->n_group < GROUP_MAX) {
        w->group[w->n_group++] = w->first;
        w->first = w->first->next;
        w->waiting--;
    }
    if (w->first != NULL && w->n_group == 0) {
        item *i = w->first;

        w->first = i->next;
        w->waiting--;
        if (w->first == NULL)
            w->last = &w->first;
        return i;
    }
    if (w->first == NULL)
        w->last = &w->first;
    return NULL;
}

static void *
run(void *arg)
{
    mrd_journals *w = arg;

    pthread_mutex_lock(&w->lock);
    while (w->first != NULL || !w->closing) {
        item *order;

        if (w->first == NULL) {
            pthread_cond_wait(&w->news, &w->lock);
            continue;
        }
        if (!w->first->close)
            wait_for_company(w);
        order = take(w);
        pthread_mutex_unlock(&w->lock);
        if (order != NULL) {
            close_session(w, order->f.session);
            item_free(order);
        } else {
            commit(w);
        }
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    while (w->n > 0)
        journal_free(w, w->n - 1);
    return NULL;
}

static void
put(mrd_journals *w, item *i)
{
    i->came = mrd_local_now();
    pthread_mutex_lock(&w->lock);
    *w->last = i;
    w->last = &i->next;
    w->waiting++;
    pthread_cond_signal(&w->news);
    pthread_mutex_unlock(&w->lock);
}

mrd_err
mrd_journals_append(mrd_journals *w, const mrd_journals_frame *f)
{
    item *i = calloc(1, sizeof(*i));

    if (i == NULL ||
        (f->dir != NULL && (i->instance_id = mrd_str_dup(mrd_str_of(f->instance_id))) == NULL)) {
        free(i);
        free(f->dir);
        free(f->owned);
        return MRD_NOMEM;
    }
    i->f = *f;
    put(w, i);
    return MRD_OK;
}

void
mrd_journals_close_session(mrd_journals *w, uint64_t session)
{
    item *i = calloc(1, sizeof(*i));

    if (i == NULL) { /* they stay open until the end, which loses nothing */
        w->o.closed(w->o.self, session);
        return;
    }
    i->close = true;
    i->f.session = session;
    put(w, i);
}

uint64_t
mrd_journals_syncs(const mrd_journals *w)
{
    return __atomic_load_n(&w->syncs, __ATOMIC_RELAXED);
}

mrd_err
mrd_journals_open(const mrd_journals_options *o, mrd_journals **ret_journals, mrd_why *why)
{
    mrd_journals *w = calloc(1, sizeof(*w));
    mrd_err err;

    if (w == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journals");
    w->o = *o;
    w->last = &w->first;
    if ((err = mrd_journal_syncer_open(o->store->dir, &w->syncer, why)) != MRD_OK) {
        free(w);
        return err;
    }
    pthread_mutex_init(&w->lock, NULL);
    mrd_cond_init(&w->news);
    if ((errno = pthread_create(&w->thread, NULL, run, w)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the thread that writes journals");
        mrd_journal_syncer_close(w->syncer);
        free(w);
        return MRD_IO;
    }
    *ret_journals = w;
    return MRD_OK;
}

void
mrd_journals_close(mrd_journals *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->news);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    mrd_journal_syncer_close(w->syncer);
    mrd_map_fini(&w->by_number);
    pthread_cond_destroy(&w->news);
    pthread_mutex_destroy(&w->lock);
    free(w->v);
    free(w);
}
