/*
 * hw/session.c - counter sessions. A session reads a list of counters from several backends.
 *
 * If reads of a backend can hang, a helper thread reads it, one request at a time. The thread is
 * detached. The session drops a thread that hangs. The thread then frees its own data when the
 * kernel lets the read return.
 */
#include "hw/hw_int.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/sys/threads.h"
#include "base/vec.h"

typedef struct {
    /* Guards the members below. It is not held during a read, and no other lock is taken while it
     * is held. */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* uses CLOCK_MONOTONIC */
    unsigned refs;       /* number of users of this helper: the session and the thread */
    bool quit;
    uint64_t asked, done;
    mrd_local_ns deadline;
    mrd_err err;
    mrd_why why;
    mrd_hw *hw; /* reference that keeps the backends open */
    mrd_hw_unit *unit;
    uint32_t *want;
    mrd_hw_value *values;
    size_t n;
} helper;

/* The counters that a session reads from one backend. */
typedef struct {
    mrd_hw_unit *unit;
    uint32_t *want;
    mrd_hw_value *values;
    size_t n, cap;
    helper *helper;
} part;

struct mrd_hw_session {
    mrd_hw *hw;
    part parts[MRD_HW_UNITS];
    mrd_hw_counter *counters; /* counters of all backends, in the order of `parts` */
    mrd_hw_value *base;       /* values at the start of the session */
    mrd_hw_value *last;       /* values at the stop, valid if has_last */
    size_t n, cap;
    mrd_dur_ns timeout; /* timeout of the start, which is also used at the stop */
    bool started, has_last;
};

/* ---- The helper thread ---- */

static void
helper_unref(helper *h)
{
    unsigned left;

    pthread_mutex_lock(&h->lock);
    left = --h->refs;
    pthread_mutex_unlock(&h->lock);
    if (left > 0)
        return;
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    mrd_hw_close(h->hw);
    free(h->want);
    free(h->values);
    free(h);
}

static void *
helper_run(void *arg)
{
    helper *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->quit) {
        uint64_t asked = h->asked;
        mrd_local_ns deadline = h->deadline;
        mrd_why why = { 0 };
        mrd_err err;

        if (asked == h->done) {
            pthread_cond_wait(&h->wake, &h->lock);
            continue;
        }
        pthread_mutex_unlock(&h->lock);
        pthread_mutex_lock(&h->unit->lock);
        err = h->unit->ops->sample(h->unit->state, h->want, h->n, h->values, deadline, &why);
        pthread_mutex_unlock(&h->unit->lock);
        pthread_mutex_lock(&h->lock);
        h->err = err;
        h->why = why;
        h->done = asked;
        pthread_cond_broadcast(&h->wake);
    }
    pthread_mutex_unlock(&h->lock);
    helper_unref(h);
    return NULL;
}

static mrd_err
helper_start(part *p, mrd_hw *hw, mrd_why *why)
{
    helper *h = calloc(1, sizeof(*h));
    pthread_attr_t detached;
    pthread_t thread;
    int sys;

    if (h == NULL || (h->want = malloc(p->n * sizeof(*h->want))) == NULL ||
        (h->values = calloc(p->n, sizeof(*h->values))) == NULL) {
        if (h != NULL)
            free(h->want);
        free(h);
        return mrd_why_set(why, MRD_NOMEM, 0, "counter session on '%s'", p->unit->name);
    }
    memcpy(h->want, p->want, p->n * sizeof(*h->want));
    h->n = p->n;
    h->unit = p->unit;
    h->hw = mrd_hw_ref(hw);
    h->refs = 2;
    pthread_mutex_init(&h->lock, NULL);
    mrd_cond_init(&h->wake);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 256u << 10);
    sys = mrd_masked_thread(&thread, &detached, helper_run, h);
    pthread_attr_destroy(&detached);
    if (sys != 0) {
        h->refs = 1;
        helper_unref(h);
        return mrd_why_set(why, MRD_IO, sys, "thread for the counters of '%s'", p->unit->name);
    }
    p->helper = h;
    return MRD_OK;
}

/* Waits until the helper has finished request number `seq`, or until the time `until`. Returns true
 * if the request is finished. The caller holds h->lock. */
static bool
helper_wait(helper *h, uint64_t seq, const struct timespec *until)
{
    while (h->done < seq)
        if (pthread_cond_timedwait(&h->wake, &h->lock, until) != 0)
            return h->done >= seq;
    return true;
}

static mrd_err
helper_sample(part *p, mrd_local_ns deadline, mrd_why *why)
{
    helper *h = p->helper;
    struct timespec until = mrd_cond_deadline(deadline.ns - mrd_local_now().ns);
    mrd_err err;

    pthread_mutex_lock(&h->lock);
    if (!helper_wait(h, h->asked, &until)) {
        err = mrd_why_set(why, MRD_TIMEOUT, 0,
                          "counters of '%s': an earlier read still hangs in the device",
                          p->unit->name);
    } else {
        h->deadline = deadline;
        h->asked++;
        pthread_cond_broadcast(&h->wake);
        if (!helper_wait(h, h->asked, &until)) {
            err = mrd_why_set(why, MRD_TIMEOUT, 0, "counters of '%s': no answer in time",
                              p->unit->name);
        } else {
            err = h->err;
            if (err == MRD_OK)
                memcpy(p->values, h->values, p->n * sizeof(*p->values));
            else if (why != NULL)
                *why = h->why;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return err;
}

/* ---- Creating a session ---- */

static bool
is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

static bool
in_scope(const mrd_hw_counter *counter, mrd_hw_scope scope)
{
    return (scope.device_idx == MRD_NONE || scope.device_idx == counter->device_idx) &&
           (scope.core_idx == MRD_NONE || scope.core_idx == counter->core_idx);
}

static mrd_err
part_add(part *p, size_t index)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->want[i] == index)
            return MRD_OK;
    if (!MRD_VEC_ROOM(p->want, p->n, p->cap, 1))
        return MRD_NOMEM;
    p->want[p->n++] = (uint32_t) index;
    return MRD_OK;
}

/* Adds the counters of one backend that match the name to the session. Sets *found if there are
 * any. */
static mrd_err
part_match(part *p, const char *name, mrd_hw_scope scope, bool *found)
{
    const mrd_hw_backend *ops = p->unit->ops;
    void *state = p->unit->state;
    bool pattern = is_pattern(name);
    size_t index;

    for (size_t i = 0; i < ops->count(state); i++) {
        const mrd_hw_counter *counter = ops->at(state, i);

        if (!in_scope(counter, scope) ||
            (pattern ? fnmatch(name, counter->name, 0) != 0 : strcmp(name, counter->name) != 0))
            continue;
        *found = true;
        if (part_add(p, i) != MRD_OK)
            return MRD_NOMEM;
        if (!pattern)
            return MRD_OK;
    }
    if (pattern || *found || ops->resolve == NULL ||
        ops->resolve(state, mrd_str_of(name), &index) != MRD_OK)
        return MRD_OK;
    *found = true;
    return part_add(p, index);
}

/* Returns how similar two names are: the number of equal bytes at their starts plus the number of
 * equal bytes at their ends. */
static size_t
alike(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), head = 0, tail = 0;
    size_t most = la < lb ? la : lb;

    while (head < most && a[head] == b[head])
        head++;
    while (tail < most - head && a[la - 1 - tail] == b[lb - 1 - tail])
        tail++;
    return head + tail;
}

typedef struct {
    const char *word, *best;
    size_t score;
} nearest;

static void
nearer(void *self, const mrd_hw_counter *counter)
{
    nearest *n = self;
    size_t score = alike(n->word, counter->name);

    if (score > n->score) {
        n->score = score;
        n->best = counter->name;
    }
}

typedef struct {
    mrd_hw_scope scope;
    bool device, core; /* true if the node has a counter of the scope's device, or of its core */
} presence;

static void
note_presence(void *self, const mrd_hw_counter *counter)
{
    presence *p = self;
    bool same = counter->device_idx == p->scope.device_idx;

    p->device |= same;
    p->core |= (same || p->scope.device_idx == MRD_NONE) && counter->core_idx == p->scope.core_idx;
}

/* Returns NOTFOUND with the reason why no counter matches the name: the device or core does not
 * exist, or the name is unknown. */
static mrd_err
unknown(const mrd_hw *hw, const char *name, mrd_hw_scope scope, mrd_why *why)
{
    static const char list[] = "'meridian doctor --counters' lists the counters of this node";
    nearest near = { .word = name, .score = strlen(name) / 2 };
    presence present = { .scope = scope };
    char where[64] = "", hint[MRD_HW_NAME_MAX + 32] = "";

    if (scope.device_idx != MRD_NONE)
        snprintf(where, sizeof(where), " on device %lld", (long long) scope.device_idx);
    if (scope.core_idx != MRD_NONE)
        snprintf(where + strlen(where), sizeof(where) - strlen(where), " core %lld",
                 (long long) scope.core_idx);
    mrd_hw_each(hw, note_presence, &present);
    if ((scope.device_idx != MRD_NONE && !present.device) ||
        (scope.core_idx != MRD_NONE && !present.core))
        return mrd_why_set(why, MRD_NOTFOUND, 0, "counter '%.128s': no counters%s here; %s", name,
                           where, list);
    mrd_hw_each(hw, nearer, &near);
    if (near.best != NULL && strcmp(near.best, name) != 0)
        snprintf(hint, sizeof(hint), "nearest is '%s'; ", near.best);
    return mrd_why_set(why, MRD_NOTFOUND, 0, "counter '%.128s' is unknown%s; %s%s", name, where,
                       hint, list);
}

static mrd_err
match_all(mrd_hw_session *session, const char *name, mrd_hw_scope scope, bool *found, mrd_why *why)
{
    for (size_t i = 0; i < session->hw->n; i++) {
        part *p = &session->parts[i];
        mrd_err err;

        if (session->hw->at[i].ops == NULL)
            continue;
        p->unit = &session->hw->at[i];
        if (pthread_mutex_trylock(&p->unit->lock) != 0) {
            if (strncmp(name, p->unit->name, strlen(p->unit->name)) != 0)
                continue; /* another backend may have the name */
            return mrd_why_set(why, MRD_BUSY, 0, "counters of '%s': a read is still under way",
                               p->unit->name);
        }
        err = part_match(p, name, scope, found);
        pthread_mutex_unlock(&p->unit->lock);
        if (err != MRD_OK)
            return mrd_why_set(why, err, 0, "counter session");
        if (*found && !is_pattern(name))
            break;
    }
    return MRD_OK;
}

/* Builds the session's list of counters and allocates their values. Starts a helper thread for each
 * backend with reads that may hang. */
static mrd_err
allocate(mrd_hw_session *session, mrd_why *why)
{
    size_t at = 0;

    for (size_t i = 0; i < MRD_HW_UNITS; i++)
        session->n += session->parts[i].n;
    session->counters = calloc(session->n + 1, sizeof(*session->counters));
    session->base = calloc(session->n + 1, sizeof(*session->base));
    session->last = calloc(session->n + 1, sizeof(*session->last));
    if (session->counters == NULL || session->base == NULL || session->last == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "counter session");
    for (size_t i = 0; i < MRD_HW_UNITS; i++) {
        part *p = &session->parts[i];
        mrd_err err;

        if (p->n == 0)
            continue;
        if ((p->values = calloc(p->n, sizeof(*p->values))) == NULL)
            return mrd_why_set(why, MRD_NOMEM, 0, "counter session");
        for (size_t k = 0; k < p->n; k++)
            session->counters[at++] = *p->unit->ops->at(p->unit->state, p->want[k]);
        if (p->unit->ops->may_block && (err = helper_start(p, session->hw, why)) != MRD_OK)
            return err;
    }
    return MRD_OK;
}

mrd_err
mrd_hw_session_create(mrd_hw *hw, const char *const *names, size_t n, mrd_hw_scope scope,
                      bool lenient, mrd_hw_session **ret_session, mrd_why *why)
{
    mrd_hw_session *session = calloc(1, sizeof(*session));
    mrd_err err = MRD_OK;

    if (session == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "counter session");
    session->hw = mrd_hw_ref(hw);
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        bool found = false;

        if ((err = match_all(session, names[i], scope, &found, why)) == MRD_OK && !found &&
            !lenient)
            err = unknown(hw, names[i], scope, why);
    }
    if (err == MRD_OK)
        err = allocate(session, why);
    if (err != MRD_OK) {
        mrd_hw_session_destroy(session);
        return err;
    }
    *ret_session = session;
    return MRD_OK;
}

void
mrd_hw_session_destroy(mrd_hw_session *session)
{
    if (session == NULL)
        return;
    for (size_t i = 0; i < MRD_HW_UNITS; i++) {
        helper *h = session->parts[i].helper;

        if (h != NULL) {
            pthread_mutex_lock(&h->lock);
            h->quit = true;
            pthread_cond_broadcast(&h->wake);
            pthread_mutex_unlock(&h->lock);
            helper_unref(h);
        }
        free(session->parts[i].want);
        free(session->parts[i].values);
    }
    free(session->counters);
    free(session->base);
    free(session->last);
    mrd_hw_close(session->hw);
    free(session);
}

size_t
mrd_hw_session_count(const mrd_hw_session *session)
{
    return session->n;
}

const mrd_hw_counter *
mrd_hw_session_counter(const mrd_hw_session *session, size_t i)
{
    return &session->counters[i];
}

/* ---- Starting, polling and stopping a session ---- */

static mrd_err
part_sample(part *p, mrd_local_ns deadline, mrd_why *why)
{
    mrd_err err;

    if (p->helper != NULL)
        return helper_sample(p, deadline, why);
    pthread_mutex_lock(&p->unit->lock);
    err = p->unit->ops->sample(p->unit->state, p->want, p->n, p->values, deadline, why);
    pthread_mutex_unlock(&p->unit->lock);
    return err;
}

static mrd_err
read_all(mrd_hw_session *session, mrd_dur_ns timeout, mrd_hw_value *values, mrd_why *why)
{
    mrd_local_ns deadline = { mrd_local_now().ns + timeout };
    size_t at = 0;

    for (size_t i = 0; i < MRD_HW_UNITS; i++) {
        mrd_err err;

        if (session->parts[i].n > 0 &&
            (err = part_sample(&session->parts[i], deadline, why)) != MRD_OK)
            return err;
    }
    for (size_t i = 0; i < MRD_HW_UNITS; i++) {
        if (session->parts[i].n > 0)
            memcpy(values + at, session->parts[i].values, session->parts[i].n * sizeof(*values));
        at += session->parts[i].n;
    }
    return MRD_OK;
}

mrd_err
mrd_hw_session_start(mrd_hw_session *session, mrd_dur_ns timeout, mrd_why *why)
{
    mrd_err err;

    if (session->started)
        return mrd_why_set(why, MRD_STATE, 0, "the counter session is started already");
    if ((err = read_all(session, timeout, session->base, why)) != MRD_OK)
        return err;
    session->timeout = timeout;
    session->started = true;
    session->has_last = false;
    return MRD_OK;
}

static mrd_hw_value
since(const mrd_hw_counter *counter, mrd_hw_value now, mrd_hw_value base)
{
    if ((counter->flags & MRD_HW_CUMULATIVE) == 0 || now.state != MRD_HW_OK)
        return now;
    if (base.state != MRD_HW_OK)
        return now; /* the counter began at 0, because at the start it did not exist or was 0 */
    if ((counter->flags & MRD_HW_DOUBLE) != 0)
        now.d -= base.d;
    else
        now.i = (int64_t) ((uint64_t) now.i - (uint64_t) base.i);
    return now;
}

mrd_err
mrd_hw_session_poll(mrd_hw_session *session, mrd_dur_ns timeout, mrd_hw_value *values,
                    mrd_hw_value *since_start, size_t n, mrd_why *why)
{
    mrd_err err;

    if (!session->started && !session->has_last)
        return mrd_why_set(why, MRD_STATE, 0, "the counter session is not started");
    if (n < session->n)
        return mrd_why_set(why, MRD_LIMIT, 0, "room for %zu values, the session has %zu", n,
                           session->n);
    if (!session->started)
        memcpy(values, session->last, session->n * sizeof(*values));
    else if ((err = read_all(session, timeout, values, why)) != MRD_OK)
        return err;
    for (size_t i = 0; i < session->n && since_start != NULL; i++)
        since_start[i] = since(&session->counters[i], values[i], session->base[i]);
    return MRD_OK;
}

mrd_err
mrd_hw_session_stop(mrd_hw_session *session, mrd_why *why)
{
    mrd_err err;

    if (!session->started)
        return mrd_why_set(why, MRD_STATE, 0, "the counter session is not started");
    err = read_all(session, session->timeout, session->last, why);
    session->started = false;
    session->has_last = err == MRD_OK;
    return err;
}
