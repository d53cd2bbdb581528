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

#define GROUP_MAX MRD_PENDING_MAX
/* If this number of frames is queued, the thread writes them without waiting for more. It is the
 * number of frames that one agent sends before it waits for an acknowledgement. */
#define GROUP_ENOUGH 8
#define GROUP_WAIT   (3 * MRD_MS)

typedef struct item {
    struct item *next;
    mrd_journals_frame f;
    char *instance_id; /* id of the node, if the frame is the first one of a new journal */
    /* true if the item has no frame but is an order to close the session's journals */
    bool close;
    mrd_local_ns came;
    struct journal *of;
    /* number of the frame in its journal, counted from 1; 0 if the frame was not written */
    uint64_t place;
} item;

typedef struct journal {
    uint64_t number, session;
    char *dir, *instance_id;
    mrd_journal *j; /* the open journal; NULL if it is not open */
    mrd_why unwritten, unsynced;
    bool in_group;
} journal;

struct mrd_journals {
    mrd_journals_options o;
    pthread_t thread;
    /* guards the queue and `closing`; no other lock is taken while it is held */
    pthread_mutex_t lock;
    pthread_cond_t news;
    item *first, **last;
    size_t waiting;
    bool closing;
    uint64_t syncs; /* accessed atomically */
    /* The members below are used by the writer's thread only. */
    mrd_journal_syncer *syncer;
    journal **v;
    size_t n, cap;
    mrd_map by_number; /* maps the number of a journal to its index in `v` */
    item *group[GROUP_MAX];
    size_t n_group;
    journal *touched[GROUP_MAX];
    size_t n_touched;
    mrd_journal_chunk chunks[GROUP_MAX];
    size_t chunk_at[GROUP_MAX];
    mrd_journal *dirty[GROUP_MAX];
    mrd_why whys[GROUP_MAX];
    /* why nothing was written: the path of the store leads to another directory or does not
     * exist */
    mrd_why gone;
};

static void
item_free(item *i)
{
    free(i->f.dir);
    free(i->f.owned);
    free(i->instance_id);
    free(i);
}

/* ---- The open journals ---- */

static void
journal_free(mrd_journals *journals, size_t at)
{
    journal *jnl = journals->v[at];
    mrd_why why = { 0 };

    if (mrd_journal_close(jnl->j, &why) != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-CLOSE",
                "A journal's segment was closed without its index: path=%s reason=%s", jnl->dir,
                why.text);
    mrd_map_remove(&journals->by_number, (mrd_map_key){ .a = jnl->number });
    journals->v[at] = journals->v[--journals->n];
    if (at < journals->n)
        (void) mrd_map_put(&journals->by_number, (mrd_map_key){ .a = journals->v[at]->number },
                           (uint32_t) at);
    free(jnl->dir);
    free(jnl->instance_id);
    free(jnl);
}

static journal *
journal_new(mrd_journals *journals, item *i)
{
    journal *jnl = calloc(1, sizeof(*jnl));

    if (jnl == NULL || !MRD_VEC_ROOM(journals->v, journals->n, journals->cap, 1) ||
        mrd_map_put(&journals->by_number, (mrd_map_key){ .a = i->f.journal },
                    (uint32_t) journals->n) != MRD_OK) {
        free(jnl);
        return NULL;
    }
    *jnl = (journal){ .number = i->f.journal,
                      .session = i->f.session,
                      .dir = i->f.dir,
                      .instance_id = i->instance_id };
    i->f.dir = i->instance_id = NULL;
    journals->v[journals->n++] = jnl;
    return jnl;
}

static journal *
journal_of(mrd_journals *journals, item *i)
{
    uint32_t at = mrd_map_get(&journals->by_number, (mrd_map_key){ .a = i->f.journal });

    if (at != MRD_MAP_NONE)
        return journals->v[at];
    return i->f.dir == NULL ? NULL : journal_new(journals, i);
}

static void
close_session(mrd_journals *journals, uint64_t session)
{
    for (size_t i = journals->n; i-- > 0;) {
        if (journals->v[i]->session == session)
            journal_free(journals, i);
    }
    journals->o.closed(journals->o.self, session);
}

/* ---- Writing a group of frames ---- */

/* Writes the group's frames for one journal, from chunks[from] on, at most MRD_JOURNAL_TAIL bytes.
 * Syncs the journal if more frames follow. Returns the number of frames written, or 0 after an
 * error. */
static size_t
write_some(mrd_journals *journals, journal *jnl, size_t from, size_t n)
{
    bool group = journals->o.store->sync == MRD_SYNC_GROUP;
    size_t end = from, bytes = 0, written;
    uint64_t place = mrd_journal_appended(jnl->j);

    while (end < n &&
           (end == from || !group || bytes + journals->chunks[end].data.len <= MRD_JOURNAL_TAIL))
        bytes += journals->chunks[end++].data.len;
    written = mrd_journal_append_many(jnl->j, journals->chunks + from, end - from, &jnl->unwritten);
    for (size_t i = from; i < from + written; i++)
        journals->group[journals->chunk_at[i]]->place = ++place;
    if (written == end - from && end < n && mrd_journal_sync(jnl->j, &jnl->unwritten) != MRD_OK) {
        for (size_t i = from; i < end; i++) {
            item *of = journals->group[journals->chunk_at[i]];

            of->place = of->place <= mrd_journal_durable(jnl->j) ? of->place : 0;
        }
        return 0;
    }
    return written == end - from ? written : 0;
}

static void
write_journal(mrd_journals *journals, journal *jnl)
{
    size_t n = 0, did;

    if (jnl->j == NULL && mrd_journal_open(jnl->dir, mrd_str_of(jnl->instance_id), jnl->session,
                                           &jnl->j, &jnl->unwritten) != MRD_OK)
        return;
    for (size_t i = 0; i < journals->n_group; i++) {
        if (journals->group[i]->of != jnl)
            continue;
        journals->chunks[n] =
            (mrd_journal_chunk){ &journals->group[i]->f.frame, journals->group[i]->f.data };
        journals->chunk_at[n++] = i;
    }
    for (size_t i = 0; i < n; i += did) {
        if ((did = write_some(journals, jnl, i, n)) == 0)
            break;
    }
}

static void
sync_group(mrd_journals *journals)
{
    journal *open[GROUP_MAX];
    size_t count = 0, calls;

    for (size_t i = 0; i < journals->n_touched; i++) {
        if (journals->touched[i]->j == NULL)
            continue;
        journals->whys[count] = (mrd_why){ 0 };
        open[count] = journals->touched[i];
        journals->dirty[count++] = journals->touched[i]->j;
    }
    if (journals->o.store->sync == MRD_SYNC_GROUP && count > 0) {
        calls = mrd_journal_sync_many(journals->syncer, journals->dirty, count, journals->whys);
        __atomic_add_fetch(&journals->syncs, calls, __ATOMIC_RELAXED);
    } else {
        for (size_t i = 0; i < count; i++)
            (void) mrd_journal_check(journals->dirty[i], &journals->whys[i]);
    }
    for (size_t i = 0; i < count; i++)
        open[i]->unsynced = journals->whys[i];
}

/* Returns true if the frame is durable although the last sync of its journal failed. The frame is
 * then in an earlier segment, which was synced when it was full. */
static bool
is_durable(const item *i)
{
    return i->of->j != NULL && i->place <= mrd_journal_durable(i->of->j);
}

static void
report(mrd_journals *journals, item *i)
{
    mrd_why nomem = { .err = MRD_NOMEM, .text = "out of memory" };
    const mrd_why *failed = journals->gone.err != MRD_OK                      ? &journals->gone
                            : i->of == NULL                                   ? &nomem
                            : i->place == 0                                   ? &i->of->unwritten
                            : i->of->unsynced.err != MRD_OK && !is_durable(i) ? &i->of->unsynced
                                                                              : NULL;

    journals->o.stored(journals->o.self, i->f.ticket, failed);
    item_free(i);
}

/* Commits a group of frames: writes all frames, syncs their journals once, and then reports each
 * frame. */
static void
commit(mrd_journals *journals)
{
    journals->n_touched = 0;
    journals->gone = (mrd_why){ 0 };
    (void) mrd_session_store_check(journals->o.store, &journals->gone);
    for (size_t i = 0; i < journals->n_group && journals->gone.err == MRD_OK; i++) {
        journal *jnl = journals->group[i]->of = journal_of(journals, journals->group[i]);

        if (jnl == NULL || jnl->in_group)
            continue;
        jnl->in_group = true;
        jnl->unwritten = jnl->unsynced = (mrd_why){ 0 };
        journals->touched[journals->n_touched++] = jnl;
    }
    for (size_t i = 0; i < journals->n_touched; i++)
        write_journal(journals, journals->touched[i]);
    sync_group(journals);
    for (size_t i = 0; i < journals->n_touched; i++)
        journals->touched[i]->in_group = false;
    for (size_t i = 0; i < journals->n_group; i++)
        report(journals, journals->group[i]);
    journals->n_group = 0;
}

/* ---- The writer's thread ---- */

/* Waits until GROUP_ENOUGH frames are queued, or until GROUP_WAIT has passed since the first frame
 * was queued. A sync takes equally long for many frames as for one, so the thread collects frames.
 * The caller holds the lock. */
static void
wait_for_company(mrd_journals *journals)
{
    mrd_local_ns until = mrd_local_add(journals->first->came, GROUP_WAIT);

    while (journals->waiting < GROUP_ENOUGH && !journals->closing &&
           journals->o.store->sync == MRD_SYNC_GROUP) {
        int64_t left = mrd_local_diff(until, mrd_local_now());
        struct timespec end;

        if (left <= 0)
            return;
        end = mrd_cond_deadline(left);
        pthread_cond_timedwait(&journals->news, &journals->lock, &end);
    }
}

/* Takes all frames at the head of the queue into `group`. If the head of the queue is an order to
 * close journals, takes and returns this order instead. Otherwise returns NULL. The caller holds
 * the lock. */
static item *
take(mrd_journals *journals)
{
    while (journals->first != NULL && !journals->first->close && journals->n_group < GROUP_MAX) {
        journals->group[journals->n_group++] = journals->first;
        journals->first = journals->first->next;
        journals->waiting--;
    }
    if (journals->first != NULL && journals->n_group == 0) {
        item *i = journals->first;

        journals->first = i->next;
        journals->waiting--;
        if (journals->first == NULL)
            journals->last = &journals->first;
        return i;
    }
    if (journals->first == NULL)
        journals->last = &journals->first;
    return NULL;
}

static void *
run(void *arg)
{
    mrd_journals *journals = arg;

    pthread_mutex_lock(&journals->lock);
    while (journals->first != NULL || !journals->closing) {
        item *order;

        if (journals->first == NULL) {
            pthread_cond_wait(&journals->news, &journals->lock);
            continue;
        }
        if (!journals->first->close)
            wait_for_company(journals);
        order = take(journals);
        pthread_mutex_unlock(&journals->lock);
        if (order != NULL) {
            close_session(journals, order->f.session);
            item_free(order);
        } else {
            commit(journals);
        }
        pthread_mutex_lock(&journals->lock);
    }
    pthread_mutex_unlock(&journals->lock);
    while (journals->n > 0)
        journal_free(journals, journals->n - 1);
    return NULL;
}

static void
put(mrd_journals *journals, item *i)
{
    i->came = mrd_local_now();
    pthread_mutex_lock(&journals->lock);
    *journals->last = i;
    journals->last = &i->next;
    journals->waiting++;
    pthread_cond_signal(&journals->news);
    pthread_mutex_unlock(&journals->lock);
}

mrd_err
mrd_journals_append(mrd_journals *journals, const mrd_journals_frame *frame)
{
    item *i = calloc(1, sizeof(*i));

    if (i == NULL || (frame->dir != NULL &&
                      (i->instance_id = mrd_str_dup(mrd_str_of(frame->instance_id))) == NULL)) {
        free(i);
        free(frame->dir);
        free(frame->owned);
        return MRD_NOMEM;
    }
    i->f = *frame;
    put(journals, i);
    return MRD_OK;
}

void
mrd_journals_close_session(mrd_journals *journals, uint64_t session)
{
    item *i = calloc(1, sizeof(*i));

    /* If out of memory, the journals stay open until the aggregator ends. No data is lost. */
    if (i == NULL) {
        journals->o.closed(journals->o.self, session);
        return;
    }
    i->close = true;
    i->f.session = session;
    put(journals, i);
}

uint64_t
mrd_journals_syncs(const mrd_journals *journals)
{
    return __atomic_load_n(&journals->syncs, __ATOMIC_RELAXED);
}

mrd_err
mrd_journals_open(const mrd_journals_options *options, mrd_journals **ret_journals, mrd_why *why)
{
    mrd_journals *journals = calloc(1, sizeof(*journals));
    mrd_err err;

    if (journals == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "journals");
    journals->o = *options;
    journals->last = &journals->first;
    if ((err = mrd_journal_syncer_open(options->store->dir, &journals->syncer, why)) != MRD_OK) {
        free(journals);
        return err;
    }
    pthread_mutex_init(&journals->lock, NULL);
    mrd_cond_init(&journals->news);
    if ((errno = pthread_create(&journals->thread, NULL, run, journals)) != 0) {
        mrd_why_set(why, MRD_IO, errno, "cannot start the thread that writes journals");
        mrd_journal_syncer_close(journals->syncer);
        free(journals);
        return MRD_IO;
    }
    *ret_journals = journals;
    return MRD_OK;
}

void
mrd_journals_close(mrd_journals *journals)
{
    if (journals == NULL)
        return;
    pthread_mutex_lock(&journals->lock);
    journals->closing = true;
    pthread_cond_signal(&journals->news);
    pthread_mutex_unlock(&journals->lock);
    pthread_join(journals->thread, NULL);
    mrd_journal_syncer_close(journals->syncer);
    mrd_map_fini(&journals->by_number);
    pthread_cond_destroy(&journals->news);
    pthread_mutex_destroy(&journals->lock);
    free(journals->v);
    free(journals);
}
