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
/* interval of searching for the program of a viewer while none is installed */
#define VIEWER_EVERY (10 * MRD_SEC)
/* interval of log lines about connections that use too much memory */
#define UNACCEPTED_EVERY (60 * MRD_SEC)
/* Interval of removing artifacts that no session lists. They are removed periodically, because no
 * event shows that an upload was abandoned. */
#define SWEEP_EVERY (600 * MRD_SEC)
/* interval of attempts to load sessions that could not be read */
#define UNREAD_EVERY (10 * MRD_SEC)
/* maximum number of inbox items that run before the next agent's request is handled */
#define TURN_MAX 256
/* Maximum age of a copy of a session that is given to readers. Then a new copy is made. */
#define VIEW_AGE (100 * MRD_MS)

mrd_core_time
mrd_loop_now(void)
{
    return (mrd_core_time){ .local = mrd_local_now(), .wall = mrd_wall_now() };
}

/* ---- The inbox ---- */

bool
mrd_loop_post(mrd_loop *loop, mrd_loop_item *item)
{
    bool taken;

    item->next = NULL;
    pthread_mutex_lock(&loop->lock);
    if ((taken = !loop->closed)) {
        *loop->last = item;
        loop->last = &item->next;
        if (loop->draining)
            pthread_cond_broadcast(&loop->news);
    }
    pthread_mutex_unlock(&loop->lock);
    if (taken)
        mrd_server_wake(loop->o.server);
    return taken;
}

static mrd_loop_item *
take_item(mrd_loop *loop)
{
    mrd_loop_item *item;

    pthread_mutex_lock(&loop->lock);
    if ((item = loop->first) != NULL && (loop->first = item->next) == NULL)
        loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    return item;
}

/* Runs at most `max` items of the inbox. Returns true if more items may be waiting. */
static bool
run_items(mrd_loop *loop, unsigned max)
{
    mrd_loop_item *item = NULL;

    for (unsigned i = 0; i < max && (item = take_item(loop)) != NULL; i++) {
        item->run(loop, item);
        mrd_loop_carry(loop);
    }
    return item != NULL;
}

/* ---- Commands to the core ---- */

typedef struct {
    mrd_loop_item item;
    mrd_loop_fn *fn;
    void *arg;
    /* If true, the core answers the command, now or later. If false, the waiting thread continues
     * as soon as `fn` has returned. */
    bool answers;
    mrd_loop_waiter waiter;
} call;

void
mrd_loop_answer(mrd_loop *loop, uint64_t ticket, mrd_err err, const char *text, uint64_t value)
{
    pthread_mutex_lock(&loop->lock);
    for (mrd_loop_waiter **at = &loop->waiters; *at != NULL; at = &(*at)->next) {
        mrd_loop_waiter *waiter = *at;

        if (waiter->ticket != ticket)
            continue;
        *at = waiter->next;
        waiter->err = err;
        waiter->value = value;
        mrd_text_set(waiter->text, sizeof(waiter->text), text);
        waiter->done = true;
        pthread_cond_broadcast(&loop->done);
        break;
    }
    pthread_mutex_unlock(&loop->lock);
}

/* Runs the function of a call. Does not free the call, which is on the stack of the waiting
 * thread. */
static void
run_call(mrd_loop *loop, mrd_loop_item *item)
{
    call *c = (call *) item;
    /* The ticket is a multiple of MRD_REQUESTS_MAX, which is never the ticket of an agent's
     * request. */
    uint64_t ticket = ++loop->last_ticket * MRD_REQUESTS_MAX;

    pthread_mutex_lock(&loop->lock);
    c->waiter.ticket = ticket;
    c->waiter.next = loop->waiters;
    loop->waiters = &c->waiter;
    pthread_mutex_unlock(&loop->lock);
    c->fn(loop->core, mrd_loop_now(), ticket, c->arg);
    if (!c->answers)
        mrd_loop_answer(loop, ticket, MRD_OK, "", 0);
}

static mrd_err
wait_for(mrd_loop *loop, call *c)
{
    c->item.run = run_call;
    if (!mrd_loop_post(loop, &c->item)) {
        mrd_text_set(c->waiter.text, sizeof(c->waiter.text), "the aggregator stops");
        return MRD_CLOSED;
    }
    pthread_mutex_lock(&loop->lock);
    while (!c->waiter.done)
        pthread_cond_wait(&loop->done, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
    return c->waiter.err;
}

void
mrd_loop_run(mrd_loop *loop, mrd_loop_fn *fn, void *arg)
{
    call c = { .fn = fn, .arg = arg };

    (void) wait_for(loop, &c);
}

mrd_err
mrd_loop_command(mrd_loop *loop, mrd_loop_fn *fn, void *arg, uint64_t *ret_value, mrd_why *why)
{
    call c = { .fn = fn, .arg = arg, .answers = true };
    mrd_err err = wait_for(loop, &c);

    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "%s", c.waiter.text);
    if (ret_value != NULL)
        *ret_value = c.waiter.value;
    return MRD_OK;
}

/* ---- Copies of sessions and nodes for readers ---- */

typedef struct {
    mrd_loop *l;
    uint64_t id;
    mrd_session_view *session;
    mrd_overview *overview;
} view_request;

static bool
is_fresh(const mrd_core *core, mrd_local_ns made)
{
    return core->now.local.ns - made.ns < VIEW_AGE;
}

static void
keep_view(mrd_loop *loop, mrd_session_view *view, uint64_t version)
{
    unsigned at = loop->next_view++ % MRD_COUNT(loop->views);

    for (unsigned i = 0; i < MRD_COUNT(loop->views); i++) {
        if (loop->views[i] != NULL && loop->views[i]->s->id == view->s->id)
            at = i;
    }
    mrd_session_view_unref(loop->views[at]);
    loop->views[at] = mrd_session_view_ref(view);
    loop->view_versions[at] = version;
}

void
mrd_loop_forget_views(mrd_loop *loop)
{
    for (size_t i = 0; i < MRD_COUNT(loop->views); i++) {
        mrd_session_view_unref(loop->views[i]);
        loop->views[i] = NULL;
    }
    mrd_overview_unref(loop->overview);
    loop->overview = NULL;
}

static void
make_session_view(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    view_request *request = arg;
    const mrd_session *session;

    (void) ticket;
    mrd_core_enter(core, now);
    if ((session = mrd_core_session(core, request->id)) == NULL)
        return;
    for (unsigned i = 0; i < MRD_COUNT(request->l->views); i++) {
        mrd_session_view *view = request->l->views[i];

        if (view != NULL && view->s->id == request->id &&
            request->l->view_versions[i] == session->save.version &&
            view->s->step == session->step && is_fresh(core, view->made)) {
            request->session = mrd_session_view_ref(view);
            return;
        }
    }
    if ((request->session = mrd_session_view_new(core, session)) != NULL)
        keep_view(request->l, request->session, session->save.version);
}

mrd_session_view *
mrd_loop_session(mrd_loop *loop, uint64_t id)
{
    view_request request = { .l = loop, .id = id };

    mrd_loop_run(loop, make_session_view, &request);
    return request.session;
}

static void
make_overview(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    view_request *request = arg;

    (void) ticket;
    mrd_core_enter(core, now);
    if (request->l->overview == NULL || !is_fresh(core, request->l->overview->made)) {
        mrd_overview_unref(request->l->overview);
        request->l->overview = mrd_overview_new(core);
    }
    request->overview =
        request->l->overview == NULL ? NULL : mrd_overview_ref(request->l->overview);
}

mrd_overview *
mrd_loop_overview(mrd_loop *loop)
{
    view_request request = { .l = loop };

    mrd_loop_run(loop, make_overview, &request);
    return request.overview;
}

const mrd_session_store *
mrd_loop_store(const mrd_loop *loop)
{
    return loop->o.store;
}

mrd_server *
mrd_loop_server(const mrd_loop *loop)
{
    return loop->o.server;
}

uint64_t
mrd_loop_syncs(const mrd_loop *loop)
{
    return mrd_journals_syncs(loop->journals);
}

/* ---- The loop's thread ---- */

static void
watch_connections(mrd_loop *loop)
{
    uint64_t refused = mrd_server_refused(loop->o.server);

    for (size_t i = 0; i < loop->core->nodes.n; i++) {
        uint32_t conn = loop->core->nodes.v[i]->conn;

        if (conn == 0 || mrd_server_conn_alive(loop->o.server, conn))
            continue;
        mrd_core_conn_gone(loop->core, mrd_loop_now(), conn);
        mrd_loop_carry(loop);
    }
    if (refused != loop->refused)
        mrd_log(MRD_LOG_WARN, "AGG-CONNECTIONS",
                "Agents beyond --advanced.max-connections were disconnected: closed=%" PRIu64
                " connected=%u limit=%u",
                refused, mrd_server_connections(loop->o.server),
                mrd_server_max_connections(loop->o.server));
    loop->refused = refused;
}

static void
watch_unaccepted(mrd_loop *loop, mrd_local_ns now)
{
    uint64_t closed = mrd_server_unaccepted_closed(loop->o.server);

    if (closed == loop->unaccepted || now.ns < loop->next_unaccepted.ns)
        return;
    mrd_log(
        MRD_LOG_WARN, "AGG-UNACCEPTED",
        "Connections were closed before they were accepted, because together they hold too much "
        "memory or a TLS handshake did not end: closed=%" PRIu64
        " held_mb=%zu. An agent among them comes back by itself; if other programs reach the "
        "data port, block them or use --tls-ca",
        closed - loop->unaccepted, mrd_server_unaccepted_bytes(loop->o.server) >> 20);
    loop->unaccepted = closed;
    loop->next_unaccepted.ns = now.ns + UNACCEPTED_EVERY;
}

static void
tick(mrd_loop *loop, mrd_local_ns now)
{
    loop->next_tick.ns = now.ns + TICK_EVERY;
    watch_connections(loop);
    watch_unaccepted(loop, now);
    if (loop->exporter != NULL)
        mrd_exporter_watch(loop->exporter);
    mrd_core_tick(loop->core, mrd_loop_now());
    mrd_loop_carry(loop);
    if (now.ns >= loop->next_look.ns) {
        loop->next_look.ns = now.ns + LOOK_EVERY;
        mrd_cleaner_look(loop->cleaner);
    }
    if (now.ns >= loop->next_viewer.ns) {
        loop->next_viewer.ns = now.ns + VIEWER_EVERY;
        mrd_converter_look(loop->viewer);
    }
    if (now.ns >= loop->next_unread.ns) {
        loop->next_unread.ns = now.ns + UNREAD_EVERY;
        mrd_core_enter(loop->core, mrd_loop_now());
        mrd_session_store_recover_again(loop->o.store, loop->core);
        mrd_loop_carry(loop);
    }
    if (now.ns >= loop->next_sweep.ns) {
        loop->next_sweep.ns = now.ns + SWEEP_EVERY;
        mrd_artifacts_sweep(loop->artifacts);
    }
}

static bool
is_closing(mrd_loop *loop)
{
    bool closing;

    pthread_mutex_lock(&loop->lock);
    closing = loop->closing;
    pthread_mutex_unlock(&loop->lock);
    return closing;
}

static void
turn(mrd_loop *loop)
{
    bool more = run_items(loop, TURN_MAX);
    int64_t left = loop->next_tick.ns - mrd_local_now().ns;
    mrd_server_request request;

    if (mrd_server_next(loop->o.server, more || left <= 0 ? 0 : (int) (left / MRD_MS) + 1,
                        &request)) {
        mrd_loop_request(loop, &request);
        mrd_loop_carry(loop);
    }
    if (mrd_local_now().ns >= loop->next_tick.ns)
        tick(loop, mrd_local_now());
}

/* Runs items of the inbox until it is empty and close_inbox was called. The other threads have then
 * ended. */
static void
drain(mrd_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->draining = true;
    pthread_cond_broadcast(&loop->news);
    while (loop->first != NULL || !loop->closed) {
        if (loop->first == NULL) {
            pthread_cond_wait(&loop->news, &loop->lock);
            continue;
        }
        pthread_mutex_unlock(&loop->lock);
        (void) run_items(loop, TURN_MAX);
        pthread_mutex_lock(&loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
}

static void *
run(void *arg)
{
    mrd_loop *loop = arg;

    mrd_loop_carry(loop); /* writes the log lines that the recovery made about damaged sessions */
    while (!is_closing(loop))
        turn(loop);
    drain(loop);
    return NULL;
}

/* ---- Opening and closing ---- */

mrd_err
mrd_loop_open(const mrd_loop_options *options, mrd_loop **ret_loop, mrd_why *why)
{
    mrd_loop *loop = calloc(1, sizeof(*loop));
    uint64_t id[2];
    mrd_err err;

    if (loop == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    loop->o = *options;
    mrd_random(id, sizeof(id));
    snprintf(loop->id, sizeof(loop->id), "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
    loop->last = &loop->first;
    pthread_mutex_init(&loop->lock, NULL);
    mrd_cond_init(&loop->done);
    mrd_cond_init(&loop->news);
    if ((loop->core = mrd_core_new(&options->core, mrd_loop_now())) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    else if ((err = mrd_session_store_recover(options->store, loop->core, why)) == MRD_OK)
        err = mrd_loop_open_services(loop, why);
    if (err == MRD_OK && (errno = pthread_create(&loop->thread, NULL, run, loop)) != 0)
        err = mrd_why_set(why, MRD_IO, errno, "cannot start the loop");
    loop->started = err == MRD_OK;
    if (err == MRD_OK)
        *ret_loop = loop;
    else
        mrd_loop_close(loop);
    return err;
}

/* Closes the inbox, and wakes all threads that wait for an answer. These threads and later callers
 * get the error CLOSED. */
static void
close_inbox(mrd_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->closed = true;
    for (mrd_loop_waiter *waiter = loop->waiters; waiter != NULL; waiter = waiter->next) {
        waiter->err = MRD_CLOSED;
        mrd_text_set(waiter->text, sizeof(waiter->text), "the aggregator stops");
        waiter->done = true;
    }
    loop->waiters = NULL;
    pthread_cond_broadcast(&loop->done);
    pthread_cond_broadcast(&loop->news);
    pthread_mutex_unlock(&loop->lock);
}

/* Makes the loop's thread take no more requests and begin no more work, and waits until the thread
 * has noticed this. */
static void
stop_taking(mrd_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->closing = true;
    pthread_mutex_unlock(&loop->lock);
    mrd_server_wake(loop->o.server);
    pthread_mutex_lock(&loop->lock);
    while (loop->started && !loop->draining)
        pthread_cond_wait(&loop->news, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
}

static void
write_last(mrd_loop *loop)
{
    mrd_buf text = { 0 };
    mrd_why why;

    mrd_core_enter(loop->core, mrd_loop_now());
    for (size_t i = 0; i < loop->core->n_sessions; i++) {
        const mrd_session *session = loop->core->sessions[i];
        mrd_session_view *view;

        if (session->deleted || session->step == MRD_STEP_NEW ||
            session->save.durable >= session->save.version ||
            (view = mrd_session_view_new(loop->core, session)) == NULL)
            continue;
        if (mrd_session_store_save(loop->o.store, view, &why) != MRD_OK)
            mrd_log(MRD_LOG_ERROR, "AGG-MANIFEST",
                    "A session's manifest was not written: session=%s reason=%s", session->text,
                    why.text);
        mrd_session_view_unref(view);
    }
    if (loop->core->nodes.n > 0) {
        mrd_core_registry_text(loop->core, &text);
        (void) mrd_session_store_save_nodes(loop->o.store, &text, true, &why);
        mrd_buf_fini(&text);
    }
}

/* First stops the sources of work, then closes the threads that do the work. So all work that was
 * accepted is finished. */
void
mrd_loop_close(mrd_loop *loop)
{
    if (loop == NULL)
        return;
    stop_taking(loop);
    mrd_surveys_close(loop->surveys);
    mrd_merger_close(loop->merger);
    mrd_exporter_close(loop->exporter);
    mrd_converter_close(loop->viewer);
    mrd_artifacts_close(loop->artifacts);
    mrd_journals_close(loop->journals);
    mrd_pool_close(loop->manifests);
    mrd_cleaner_close(loop->cleaner);
    close_inbox(loop);
    if (loop->started) {
        pthread_join(loop->thread, NULL);
        write_last(loop);
    }
    for (size_t i = 0; i < MRD_REQUESTS_MAX; i++) {
        if (loop->requests[i].keep != NULL)
            mrd_server_drop(loop->o.server, &loop->requests[i]);
    }
    mrd_loop_forget_views(loop);
    mrd_core_free(loop->core);
    mrd_buf_fini(&loop->reply);
    mrd_buf_fini(&loop->repacked);
    pthread_cond_destroy(&loop->news);
    pthread_cond_destroy(&loop->done);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}
