#include "aggregator/loop/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "aggregator/loop/loop_int.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/threads.h"

#define TICK_EVERY (200 * MRD_MS)
#define LOOK_EVERY MRD_SEC
/* interval of searching for a viewer while none is installed */
#define VIEWER_EVERY (10 * MRD_SEC)
/* interval of log lines about connections that use too much memory */
#define UNACCEPTED_EVERY (60 * MRD_SEC)
/* interval of sweeps without another reason, because abandoned uploads expire */
#define SWEEP_EVERY  (600 * MRD_SEC)
#define UNREAD_EVERY (10 * MRD_SEC) /* interval of reading sessions that could not be read */
#define TURN_MAX     256            /* items of the inbox before the next request */
#define VIEW_AGE     (100 * MRD_MS) /* readers within this time share a snapshot */

mrd_core_time
mrd_loop_now(void)
{
    return (mrd_core_time){ .local = mrd_local_now(), .wall = mrd_wall_now() };
}

/* ---- The inbox ---- */

bool
mrd_loop_post(mrd_loop *l, mrd_loop_item *item)
{
    bool taken;

    item->next = NULL;
    pthread_mutex_lock(&l->lock);
    if ((taken = !l->closed)) {
        *l->last = item;
        l->last = &item->next;
        if (l->draining)
            pthread_cond_broadcast(&l->news);
    }
    pthread_mutex_unlock(&l->lock);
    if (taken)
        mrd_server_wake(l->o.server);
    return taken;
}

static mrd_loop_item *
take_item(mrd_loop *l)
{
    mrd_loop_item *item;

    pthread_mutex_lock(&l->lock);
    if ((item = l->first) != NULL && (l->first = item->next) == NULL)
        l->last = &l->first;
    pthread_mutex_unlock(&l->lock);
    return item;
}

/* Returns false if the inbox is empty. */
static bool
run_items(mrd_loop *l, unsigned max)
{
    mrd_loop_item *item = NULL;

    for (unsigned i = 0; i < max && (item = take_item(l)) != NULL; i++) {
        item->run(l, item);
        mrd_loop_carry(l);
    }
    return item != NULL;
}

/* ---- Commands ---- */

typedef struct {
    mrd_loop_item item;
    mrd_loop_fn *fn;
    void *arg;
    bool answers; /* the core will answer it, now or later */
    mrd_loop_waiter waiter;
} call;

void
mrd_loop_answer(mrd_loop *l, uint64_t ticket, mrd_err err, const char *text, uint64_t value)
{
    pthread_mutex_lock(&l->lock);
    for (mrd_loop_waiter **at = &l->waiters; *at != NULL; at = &(*at)->next) {
        mrd_loop_waiter *w = *at;

        if (w->ticket != ticket)
            continue;
        *at = w->next;
        w->err = err;
        w->value = value;
        mrd_text_set(w->text, sizeof(w->text), text);
        w->done = true;
        pthread_cond_broadcast(&l->done);
        break;
    }
    pthread_mutex_unlock(&l->lock);
}

/* The call is on the stack of the waiting thread. */
static void
run_call(mrd_loop *l, mrd_loop_item *item)
{
    call *c = (call *) item;
    uint64_t ticket = ++l->last_ticket * MRD_REQUESTS_MAX; /* no request has it */

    pthread_mutex_lock(&l->lock);
    c->waiter.ticket = ticket;
    c->waiter.next = l->waiters;
    l->waiters = &c->waiter;
    pthread_mutex_unlock(&l->lock);
    c->fn(l->core, mrd_loop_now(), ticket, c->arg);
    if (!c->answers)
        mrd_loop_answer(l, ticket, MRD_OK, "", 0);
}

static mrd_err
wait_for(mrd_loop *l, call *c)
{
    c->item.run = run_call;
    if (!mrd_loop_post(l, &c->item)) {
        mrd_text_set(c->waiter.text, sizeof(c->waiter.text), "the aggregator stops");
        return MRD_CLOSED;
    }
    pthread_mutex_lock(&l->lock);
    while (!c->waiter.done)
        pthread_cond_wait(&l->done, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return c->waiter.err;
}

void
mrd_loop_run(mrd_loop *l, mrd_loop_fn *fn, void *arg)
{
    call c = { .fn = fn, .arg = arg };

    (void) wait_for(l, &c);
}

mrd_err
mrd_loop_command(mrd_loop *l, mrd_loop_fn *fn, void *arg, uint64_t *ret_value, mrd_why *why)
{
    call c = { .fn = fn, .arg = arg, .answers = true };
    mrd_err err = wait_for(l, &c);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "%s", c.waiter.text);
    if (ret_value != NULL)
        *ret_value = c.waiter.value;
    return MRD_OK;
}

/* ---- Views ---- */

typedef struct {
    mrd_loop *l;
    uint64_t id;
    mrd_session_view *session;
    mrd_overview *overview;
} view_request;

static bool
is_fresh(const mrd_core *c, mrd_local_ns made)
{
    return c->now.local.ns - made.ns < VIEW_AGE;
}

static void
keep_view(mrd_loop *l, mrd_session_view *v, uint64_t version)
{
    unsigned at = l->next_view++ % MRD_COUNT(l->views);

    for (unsigned i = 0; i < MRD_COUNT(l->views); i++) {
        if (l->views[i] != NULL && l->views[i]->s->id == v->s->id)
            at = i;
    }
    mrd_session_view_unref(l->views[at]);
    l->views[at] = mrd_session_view_ref(v);
    l->view_versions[at] = version;
}

void
mrd_loop_forget_views(mrd_loop *l)
{
    for (size_t i = 0; i < MRD_COUNT(l->views); i++) {
        mrd_session_view_unref(l->views[i]);
        l->views[i] = NULL;
    }
    mrd_overview_unref(l->overview);
    l->overview = NULL;
}

static void
make_session_view(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    view_request *w = arg;
    const mrd_session *s;

    (void) ticket;
    mrd_core_enter(c, now);
    if ((s = mrd_core_session(c, w->id)) == NULL)
        return;
    for (unsigned i = 0; i < MRD_COUNT(w->l->views); i++) {
        mrd_session_view *v = w->l->views[i];

        if (v != NULL && v->s->id == w->id && w->l->view_versions[i] == s->save.version &&
            v->s->step == s->step && is_fresh(c, v->made)) {
            w->session = mrd_session_view_ref(v);
            return;
        }
    }
    if ((w->session = mrd_session_view_new(c, s)) != NULL)
        keep_view(w->l, w->session, s->save.version);
}

mrd_session_view *
mrd_loop_session(mrd_loop *l, uint64_t id)
{
    view_request w = { .l = l, .id = id };

    mrd_loop_run(l, make_session_view, &w);
    return w.session;
}

static void
make_overview(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    view_request *w = arg;

    (void) ticket;
    mrd_core_enter(c, now);
    if (w->l->overview == NULL || !is_fresh(c, w->l->overview->made)) {
        mrd_overview_unref(w->l->overview);
        w->l->overview = mrd_overview_new(c);
    }
    w->overview = w->l->overview == NULL ? NULL : mrd_overview_ref(w->l->overview);
}

mrd_overview *
mrd_loop_overview(mrd_loop *l)
{
    view_request w = { .l = l };

    mrd_loop_run(l, make_overview, &w);
    return w.overview;
}

const mrd_session_store *
mrd_loop_store(const mrd_loop *l)
{
    return l->o.store;
}

mrd_server *
mrd_loop_server(const mrd_loop *l)
{
    return l->o.server;
}

uint64_t
mrd_loop_syncs(const mrd_loop *l)
{
    return mrd_journals_syncs(l->journals);
}

/* ---- The thread ---- */

static void
watch_connections(mrd_loop *l)
{
    uint64_t refused = mrd_server_refused(l->o.server);

    for (size_t i = 0; i < l->core->nodes.n; i++) {
        uint32_t conn = l->core->nodes.v[i]->conn;

        if (conn == 0 || mrd_server_conn_alive(l->o.server, conn))
            continue;
        mrd_core_conn_gone(l->core, mrd_loop_now(), conn);
        mrd_loop_carry(l);
    }
    if (refused != l->refused)
        mrd_log(MRD_LOG_WARN, "AGG-CONNECTIONS",
                "Agents beyond --advanced.max-connections were disconnected: closed=%" PRIu64
                " connected=%u limit=%u",
                refused, mrd_server_connections(l->o.server),
                mrd_server_max_connections(l->o.server));
    l->refused = refused;
}

static void
watch_unaccepted(mrd_loop *l, mrd_local_ns now)
{
    uint64_t closed = mrd_server_unaccepted_closed(l->o.server);

    if (closed == l->unaccepted || now.ns < l->next_unaccepted.ns)
        return;
    mrd_log(
        MRD_LOG_WARN, "AGG-UNACCEPTED",
        "Connections were closed before they were accepted, because together they hold too much "
        "memory or a TLS handshake did not end: closed=%" PRIu64
        " held_mb=%zu. An agent among them comes back by itself; if other programs reach the "
        "data port, block them or use --tls-ca",
        closed - l->unaccepted, mrd_server_unaccepted_bytes(l->o.server) >> 20);
    l->unaccepted = closed;
    l->next_unaccepted.ns = now.ns + UNACCEPTED_EVERY;
}

static void
tick(mrd_loop *l, mrd_local_ns now)
{
    l->next_tick.ns = now.ns + TICK_EVERY;
    watch_connections(l);
    watch_unaccepted(l, now);
    if (l->exporter != NULL)
        mrd_exporter_watch(l->exporter);
    mrd_core_tick(l->core, mrd_loop_now());
    mrd_loop_carry(l);
    if (now.ns >= l->next_look.ns) {
        l->next_look.ns = now.ns + LOOK_EVERY;
        mrd_cleaner_look(l->cleaner);
    }
    if (now.ns >= l->next_viewer.ns) {
        l->next_viewer.ns = now.ns + VIEWER_EVERY;
        mrd_converter_look(l->viewer);
    }
    if (now.ns >= l->next_unread.ns) {
        l->next_unread.ns = now.ns + UNREAD_EVERY;
        mrd_core_enter(l->core, mrd_loop_now());
        mrd_session_store_recover_again(l->o.store, l->core);
        mrd_loop_carry(l);
    }
    if (now.ns >= l->next_sweep.ns) {
        l->next_sweep.ns = now.ns + SWEEP_EVERY;
        mrd_artifacts_sweep(l->artifacts);
    }
}

static bool
is_closing(mrd_loop *l)
{
    bool closing;

    pthread_mutex_lock(&l->lock);
    closing = l->closing;
    pthread_mutex_unlock(&l->lock);
    return closing;
}

static void
turn(mrd_loop *l)
{
    bool more = run_items(l, TURN_MAX);
    int64_t left = l->next_tick.ns - mrd_local_now().ns;
    mrd_server_request request;

    if (mrd_server_next(l->o.server, more || left <= 0 ? 0 : (int) (left / MRD_MS) + 1, &request)) {
        mrd_loop_request(l, &request);
        mrd_loop_carry(l);
    }
    if (mrd_local_now().ns >= l->next_tick.ns)
        tick(l, mrd_local_now());
}

/* Takes the remaining results of other threads until they have ended. */
static void
drain(mrd_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->draining = true;
    pthread_cond_broadcast(&l->news);
    while (l->first != NULL || !l->closed) {
        if (l->first == NULL) {
            pthread_cond_wait(&l->news, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        (void) run_items(l, TURN_MAX);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

static void *
run(void *arg)
{
    mrd_loop *l = arg;

    mrd_loop_carry(l); /* messages of the recovery about damaged sessions */
    while (!is_closing(l))
        turn(l);
    drain(l);
    return NULL;
}

/* ---- Open and close ---- */

mrd_err
mrd_loop_open(const mrd_loop_options *o, mrd_loop **ret_loop, mrd_why *why)
{
    mrd_loop *l = calloc(1, sizeof(*l));
    uint64_t id[2];
    mrd_err err;

    if (l == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    l->o = *o;
    mrd_random(id, sizeof(id));
    snprintf(l->id, sizeof(l->id), "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    mrd_cond_init(&l->done);
    mrd_cond_init(&l->news);
    if ((l->core = mrd_core_new(&o->core, mrd_loop_now())) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    else if ((err = mrd_session_store_recover(o->store, l->core, why)) == MRD_OK)
        err = mrd_loop_open_services(l, why);
    if (err == MRD_OK && (errno = pthread_create(&l->thread, NULL, run, l)) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot start the loop");
    l->started = err == MRD_OK;
    if (err == MRD_OK)
        *ret_loop = l;
    else
        mrd_loop_close(l);
    return err;
}

/* Answers the waiting callers. No caller can wait after that. */
static void
close_inbox(mrd_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->closed = true;
    for (mrd_loop_waiter *w = l->waiters; w != NULL; w = w->next) {
        w->err = MRD_CLOSED;
        mrd_text_set(w->text, sizeof(w->text), "the aggregator stops");
        w->done = true;
    }
    l->waiters = NULL;
    pthread_cond_broadcast(&l->done);
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
}

/* The thread takes no more requests and starts no work. */
static void
stop_taking(mrd_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_mutex_unlock(&l->lock);
    mrd_server_wake(l->o.server);
    pthread_mutex_lock(&l->lock);
    while (l->started && !l->draining)
        pthread_cond_wait(&l->news, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

static void
write_last(mrd_loop *l)
{
    mrd_buf text = { 0 };
    mrd_why why;

    mrd_core_enter(l->core, mrd_loop_now());
    for (size_t i = 0; i < l->core->n_sessions; i++) {
        const mrd_session *s = l->core->sessions[i];
        mrd_session_view *v;

        if (s->deleted || s->step == MRD_STEP_NEW || s->save.durable >= s->save.version ||
            (v = mrd_session_view_new(l->core, s)) == NULL)
            continue;
        if (mrd_session_store_save(l->o.store, v, &why) != MRD_OK)
            mrd_log(MRD_LOG_ERROR, "AGG-MANIFEST",
                    "A session's manifest was not written: session=%s reason=%s", s->text,
                    why.text);
        mrd_session_view_unref(v);
    }
    if (l->core->nodes.n > 0) {
        mrd_core_registry_text(l->core, &text);
        (void) mrd_session_store_save_nodes(l->o.store, &text, true, &why);
        mrd_buf_fini(&text);
    }
}

/* Closes the sources of work before the threads that do it, so that all accepted work is finished. */
void
mrd_loop_close(mrd_loop *l)
{
    if (l == NULL)
        return;
    stop_taking(l);
    mrd_surveys_close(l->surveys);
    mrd_merger_close(l->merger);
    mrd_exporter_close(l->exporter);
    mrd_converter_close(l->viewer);
    mrd_artifacts_close(l->artifacts);
    mrd_journals_close(l->journals);
    mrd_pool_close(l->manifests);
    mrd_cleaner_close(l->cleaner);
    close_inbox(l);
    if (l->started) {
        pthread_join(l->thread, NULL);
        write_last(l);
    }
    for (size_t i = 0; i < MRD_REQUESTS_MAX; i++) {
        if (l->requests[i].keep != NULL)
            mrd_server_drop(l->o.server, &l->requests[i]);
    }
    mrd_loop_forget_views(l);
    mrd_core_free(l->core);
    mrd_buf_fini(&l->reply);
    mrd_buf_fini(&l->repacked);
    pthread_cond_destroy(&l->news);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
