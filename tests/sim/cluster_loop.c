/*
 * The real aggregator of a simulated cluster: its loop with all threads (aggregator/loop/loop.h). Below
 * it, the server's end of the simulated network replaces NNG's (proto/link.h).
 *
 * The core's inputs are checked on their way (ld's --wrap), but not changed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/loop/loop_int.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* maximum time that any request waits for its answer, even with a slow disk */
#define ANSWER_MAX (10 * MRD_SEC)

/* ---- The server's end of the network ---- */

typedef struct open_request {
    struct open_request *next;
    unsigned node;
    uint64_t request;
    uint32_t conn;
    int64_t came;
    mrd_local_ns at;
    mrd_buf data;
    bool taken; /* by the loop */
} open_request;

typedef struct server_ask {
    struct server_ask *next;
    uint64_t id;
    mrd_buf *answers;
    size_t n, given;
} server_ask;

struct mrd_server {
    world *w;
    pthread_mutex_t lock;
    pthread_cond_t news, answered;
    open_request *open; /* in the order of arrival */
    unsigned n_open;
    uint32_t *conns;
    size_t n_conns;
    server_ask *asks;
    bool woken, closed;
};

static world *of; /* the world of the running aggregator */

static mrd_server *
server_new(world *w)
{
    mrd_server *s = calloc(1, sizeof(*s));

    if (s == NULL)
        abort();
    s->w = w;
    pthread_mutex_init(&s->lock, NULL);
    mrd_cond_init(&s->news);
    mrd_cond_init(&s->answered);
    return s;
}

static void
request_free(mrd_server *s, open_request *r)
{
    open_request **at = &s->open;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    s->n_open--;
    mrd_buf_fini(&r->data);
    free(r);
}

static void
server_free(mrd_server *s)
{
    if (s == NULL)
        return;
    while (s->open != NULL)
        request_free(s, s->open);
    free(s->conns);
    pthread_cond_destroy(&s->news);
    pthread_cond_destroy(&s->answered);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void
loop_conn(world *w, uint32_t conn, bool up)
{
    mrd_server *s = w->server;

    if (s == NULL)
        return;
    if (up) {
        if (!MRD_VEC_NEXT(s->conns, s->n_conns))
            abort();
        s->conns[s->n_conns++] = conn;
        return;
    }
    for (size_t i = 0; i < s->n_conns; i++) {
        if (s->conns[i] == conn)
            s->conns[i--] = s->conns[--s->n_conns];
    }
}

void
loop_frame(world *w, const agent *a, uint32_t conn, uint64_t request, mrd_bytes data)
{
    mrd_server *s = w->server;
    open_request *r, **last;
    mrd_bytes body;
    mrd_frame f;

    if (!w->up || s == NULL || s->closed || s->n_open >= MRD_PENDING_MAX)
        return; /* it comes again */
    if (mrd_frame_check(data, &f, &body, NULL) != MRD_OK)
        sim_fail(w, "a frame of node %s is none", a->id);
    else if (f.type == MRD_FRAME_BATCH || (f.type == MRD_FRAME_CLOCK_DATA && f.session != 0))
        wire_keep(w, a, &f, data);
    if ((r = calloc(1, sizeof(*r))) == NULL)
        abort();
    *r = (open_request){ .node = a->index,
                         .request = request,
                         .conn = conn,
                         .came = w->now,
                         .at = server_now(w).local };
    mrd_buf_add(&r->data, data.p, data.len);
    for (last = &s->open; *last != NULL;)
        last = &(*last)->next;
    *last = r;
    s->n_open++;
    pthread_cond_signal(&s->news);
}

void
loop_answer(world *w, uint64_t survey, mrd_bytes data)
{
    server_ask *a = w->server == NULL ? NULL : w->server->asks;

    while (a != NULL && a->id != survey)
        a = a->next;
    if (a == NULL || !w->up)
        return; /* it is over */
    if (!MRD_VEC_NEXT(a->answers, a->n))
        abort();
    a->answers[a->n] = (mrd_buf){ 0 };
    mrd_buf_add(&a->answers[a->n++], data.p, data.len);
    pthread_cond_broadcast(&w->server->answered);
}

void
loop_check(world *w)
{
    const open_request *r = w->server == NULL ? NULL : w->server->open; /* the oldest */

    if (r != NULL && w->up && w->now - r->came > ANSWER_MAX)
        sim_fail(w, "a request of node %u has had no answer for 10 s", r->node);
}

/* ---- The interface of proto/link.h ---- */

bool
mrd_server_next(mrd_server *s, int timeout_ms, mrd_server_request *ret_request)
{
    struct timespec end = mrd_cond_deadline(timeout_ms * MRD_MS);
    open_request *r;
    int rv = 0;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        for (r = s->open; r != NULL && r->taken;)
            r = r->next;
        if (r != NULL || s->woken || s->closed || timeout_ms == 0 || rv != 0)
            break;
        rv = pthread_cond_timedwait(&s->news, &s->lock, &end);
    }
    s->woken = false;
    pthread_mutex_unlock(&s->lock);
    if (r == NULL || s->closed)
        return false;
    r->taken = true;
    *ret_request = (mrd_server_request){
        .data = { r->data.p, r->data.len }, .conn = r->conn, .at = r->at, .keep = r
    };
    return true;
}

void
mrd_server_wake(mrd_server *s)
{
    s->woken = true;
    pthread_cond_signal(&s->news);
}

void
mrd_server_drop(mrd_server *s, mrd_server_request *request)
{
    if (request->keep != NULL)
        request_free(s, request->keep);
    *request = (mrd_server_request){ 0 };
}

void
mrd_server_reply(mrd_server *s, mrd_server_request *request, mrd_bytes frame)
{
    const open_request *r = request->keep;
    world *w = s->w;

    /* otherwise the process is dead, but its code still runs until its next disk call fails */
    if (w->up && !s->closed) {
        agent *a = &w->agents[r->node];
        unsigned timeline = wire_answer(w, a, (mrd_bytes){ r->data.p, r->data.len }, frame);

        link_reply(a->node, r->conn, r->request, frame, timeline);
    }
    mrd_server_drop(s, request);
}

bool
mrd_server_conn_alive(const mrd_server *s, uint32_t conn)
{
    for (size_t i = 0; i < s->n_conns; i++) {
        if (s->conns[i] == conn)
            return true;
    }
    return false;
}

bool
mrd_server_conn_admit(mrd_server *s, uint32_t conn)
{
    (void) s;
    (void) conn;
    return true;
}

void
mrd_server_conn_accept(mrd_server *s, uint32_t conn)
{
    (void) s;
    (void) conn;
}

bool
mrd_server_peer_is(mrd_server *s, uint32_t conn, const char *name, char *ret_names, size_t size)
{
    (void) s;
    (void) conn;
    (void) name;
    (void) size;
    ret_names[0] = '\0';
    return true;
}

unsigned
mrd_server_connections(const mrd_server *s)
{
    return (unsigned) s->n_conns;
}

unsigned
mrd_server_max_connections(const mrd_server *s)
{
    (void) s;
    return 10000;
}

uint64_t
mrd_server_refused(const mrd_server *s)
{
    (void) s;
    return 0;
}

uint64_t
mrd_server_unaccepted_closed(const mrd_server *s)
{
    (void) s;
    return 0;
}

size_t
mrd_server_unaccepted_bytes(const mrd_server *s)
{
    (void) s;
    return 0;
}

void
mrd_server_close_control(mrd_server *s)
{
    s->closed = true;
    pthread_cond_broadcast(&s->answered);
}

/* Takes the next answer that was not yet returned. The caller holds the lock. */
static bool
take_answer(server_ask *a, mrd_buf *ret)
{
    if (a->given == a->n)
        return false;
    *ret = a->answers[a->given++];
    return true;
}

mrd_err
mrd_server_ask(mrd_server *s, mrd_bytes frame, unsigned expect, int timeout_ms,
               bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why)
{
    struct timespec end = mrd_cond_deadline(timeout_ms * MRD_MS);
    server_ask a = { .next = s->asks, .id = ++s->w->last_request }, **at;
    bool more = !s->closed;
    int rv = 0;
    mrd_buf got;

    (void) why;
    s->w->r->surveys++;
    /* cppcheck-suppress autoVariables ; it is taken out again below */
    s->asks = &a;
    if (more && s->w->up) {
        wire_survey(s->w, frame);
        for (unsigned i = 0; i < s->w->plan->nodes; i++)
            link_survey(s->w->agents[i].node, a.id, frame);
    }
    pthread_mutex_lock(&s->lock);
    while (more && rv == 0 && a.given < expect && !s->closed) {
        if (take_answer(&a, &got)) {
            pthread_mutex_unlock(&s->lock);
            more = on_reply(self, (mrd_bytes){ got.p, got.len });
            mrd_buf_fini(&got);
            pthread_mutex_lock(&s->lock);
        } else {
            rv = pthread_cond_timedwait(&s->answered, &s->lock, &end);
        }
    }
    pthread_mutex_unlock(&s->lock);
    for (at = &s->asks; *at != &a;)
        at = &(*at)->next;
    *at = a.next;
    while (take_answer(&a, &got))
        mrd_buf_fini(&got);
    free(a.answers);
    return s->closed ? MRD_CLOSED : MRD_OK;
}

/* ---- Commands, as from HTTP ---- */

typedef struct {
    mrd_loop_item item;
    mrd_loop_fn *fn;
    uint8_t arg[];
} command_item;

static void
run_command(mrd_loop *l, mrd_loop_item *item)
{
    command_item *c = (command_item *) item;

    c->fn(l->core, mrd_loop_now(), ++l->last_ticket * MRD_REQUESTS_MAX, c->arg);
    free(c);
}

void
loop_command(world *w, mrd_loop_fn *fn, const void *arg, size_t len)
{
    command_item *c = calloc(1, sizeof(*c) + len);

    if (c == NULL)
        abort();
    c->item.run = run_command;
    c->fn = fn;
    memcpy(c->arg, arg, len);
    if (!mrd_loop_post(w->loop, &c->item))
        free(c);
}

extern void __real_mrd_loop_answer(mrd_loop *l, uint64_t ticket, mrd_err err, const char *text,
                                   uint64_t value);
extern void __wrap_mrd_loop_answer(mrd_loop *l, uint64_t ticket, mrd_err err, const char *text,
                                   uint64_t value);
void
__wrap_mrd_loop_answer(mrd_loop *l, uint64_t ticket, mrd_err err, const char *text, uint64_t value)
{
    if (of->up && err == MRD_OK && value != 0)
        server_answered(of, ticket, value);
    __real_mrd_loop_answer(l, ticket, err, text, value);
}

/* ---- Inputs and effects of the core ---- */

static bool
seen(void)
{
    return of != NULL && of->up && of->core != NULL;
}

/* Returns the session, even if it is deleted. NULL if it does not exist or no core is observed. */
static const mrd_session *
session_of(uint64_t id)
{
    for (size_t i = 0; seen() && i < of->core->n_sessions; i++) {
        if (of->core->sessions[i]->id == id)
            return of->core->sessions[i];
    }
    return NULL;
}

extern void __real_mrd_core_stored(mrd_core *c, mrd_core_time now, uint64_t ticket,
                                   const mrd_why *failed);
extern void __wrap_mrd_core_stored(mrd_core *c, mrd_core_time now, uint64_t ticket,
                                   const mrd_why *failed);
void
__wrap_mrd_core_stored(mrd_core *c, mrd_core_time now, uint64_t ticket, const mrd_why *failed)
{
    if (seen()) {
        of->r->stored += failed == NULL;
        of->r->not_stored += failed != NULL;
    }
    __real_mrd_core_stored(c, now, ticket, failed);
}

extern void __real_mrd_core_saved(mrd_core *c, mrd_core_time now, uint64_t session,
                                  uint64_t version, const mrd_why *failed);
extern void __wrap_mrd_core_saved(mrd_core *c, mrd_core_time now, uint64_t session,
                                  uint64_t version, const mrd_why *failed);
void
__wrap_mrd_core_saved(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t version,
                      const mrd_why *failed)
{
    if (seen()) {
        of->r->saves++;
        store_saved(of, session, failed != NULL);
        if (failed == NULL && session_of(session) != NULL)
            merge_saved(of, session_of(session));
    }
    __real_mrd_core_saved(c, now, session, version, failed);
}

extern void __real_mrd_core_exported(mrd_core *c, mrd_core_time now, uint64_t session,
                                     uint64_t files, uint64_t bytes, const mrd_why *failed);
extern void __wrap_mrd_core_exported(mrd_core *c, mrd_core_time now, uint64_t session,
                                     uint64_t files, uint64_t bytes, const mrd_why *failed);
void
__wrap_mrd_core_exported(mrd_core *c, mrd_core_time now, uint64_t session, uint64_t files,
                         uint64_t bytes, const mrd_why *failed)
{
    if (seen() && of->loop != NULL && failed == NULL && session_of(session) != NULL)
        shared_told(of, session_of(session));
    __real_mrd_core_exported(c, now, session, files, bytes, failed);
}

extern void __real_mrd_core_closed(mrd_core *c, mrd_core_time now, uint64_t session);
extern void __wrap_mrd_core_closed(mrd_core *c, mrd_core_time now, uint64_t session);
void
__wrap_mrd_core_closed(mrd_core *c, mrd_core_time now, uint64_t session)
{
    if (seen())
        disk_make(of, session)->closed = true;
    __real_mrd_core_closed(c, now, session);
}

extern mrd_err __real_mrd_journals_append(mrd_journals *j, const mrd_journals_frame *f);
extern mrd_err __wrap_mrd_journals_append(mrd_journals *j, const mrd_journals_frame *f);
mrd_err
__wrap_mrd_journals_append(mrd_journals *j, const mrd_journals_frame *f)
{
    const mrd_session *s = session_of(f->session);

    if (s != NULL)
        store_bad_moment(of, s);
    if (seen() && f->frame.type == MRD_FRAME_BATCH)
        limits_stored(of, f->instance_id, f->data.len);
    return __real_mrd_journals_append(j, f);
}

extern bool __real_mrd_merger_start(mrd_merger *m, uint64_t session, merge_input *input);
extern bool __wrap_mrd_merger_start(mrd_merger *m, uint64_t session, merge_input *input);
bool
__wrap_mrd_merger_start(mrd_merger *m, uint64_t session, merge_input *input)
{
    const mrd_session *s = session_of(session);

    if (s != NULL && (!s->closed || s->deleted))
        sim_fail(of, "a session is merged whose journals are open, or that is deleted");
    return __real_mrd_merger_start(m, session, input);
}

extern void __real_mrd_cleaner_remove(mrd_cleaner *c, uint64_t session, const char *text);
extern void __wrap_mrd_cleaner_remove(mrd_cleaner *c, uint64_t session, const char *text);
void
__wrap_mrd_cleaner_remove(mrd_cleaner *c, uint64_t session, const char *text)
{
    const mrd_session *s = session_of(session);

    if (s != NULL && mrd_session_is_merging(s))
        sim_fail(of, "a session is removed while it is merged");
    if (s != NULL)
        /* from here on the session may be missing after a crash */
        disk_make(of, session)->removed = true;
    __real_mrd_cleaner_remove(c, session, text);
}

/* ---- Start and end ---- */

/* Starts the real aggregator. Returns false if it cannot start now, or if it was killed
 * meanwhile. */
bool
loop_begin(world *w, mrd_session_store *store, const mrd_core_options *core)
{
    mrd_loop_options o = { .store = store, .core = *core };

    of = w;
    udp_server_of(w);
    w->server = o.server = server_new(w);
    if (mrd_clocks_open("tcp://127.0.0.1:7770", 0, &w->scale, &w->clocks, NULL) != MRD_OK)
        return false;
    o.clocks = w->clocks;
    o.core.timescale = w->scale;
    shared_of(w, &o);
    if (mrd_loop_open(&o, &w->loop, NULL) != MRD_OK)
        return false;
    w->core = w->loop->core;
    return w->up;
}

void
loop_end(world *w)
{
    if (w->server != NULL)
        w->server->closed = true;
    mrd_loop_close(w->loop);
    mrd_clocks_close(w->clocks);
    server_free(w->server);
    w->loop = NULL;
    w->clocks = NULL;
    w->server = NULL;
    w->core = NULL;
    of = NULL;
}
