/* Makes a core (the decisions of the aggregator, without threads and files) for tests. The tests
 * create sessions and parts directly, and time is a number that they pass. */
#ifndef MRD_TESTS_AGGREGATOR_CORE_MAKE_H
#define MRD_TESTS_AGGREGATOR_CORE_MAKE_H

#include "aggregator/core/model/state.h"
#include "tests/check.h"

static inline mrd_core_time
core_at(int64_t ns)
{
    return (mrd_core_time){ .local = { ns }, .wall = { ns } };
}

static inline void
core_drain(mrd_core *c)
{
    while (mrd_core_effect(c) != NULL)
        ;
}

/* Writes all pending files at once. */
static inline void
core_write_all(mrd_core *c, int64_t now)
{
    mrd_effect *e;
    uint64_t id[64], version[64];
    size_t n = 0;

    for (size_t done = 0;; done++) {
        while ((e = mrd_core_effect(c)) != NULL)
            if (e->kind == MRD_DO_SAVE && n < 64) {
                id[n] = e->session->id;
                version[n++] = e->version;
            }
        if (done == n)
            return;
        mrd_core_saved(c, core_at(now), id[done], version[done], NULL);
    }
}

/* Finds the first effect of this kind and ticket (0 for any), and removes all effects. */
static inline bool
core_find(mrd_core *c, mrd_effect_kind kind, uint64_t ticket, mrd_effect *ret)
{
    mrd_effect *e;
    bool found = false;

    *ret = (mrd_effect){ 0 };
    while ((e = mrd_core_effect(c)) != NULL) {
        if (e->kind == kind && !found && (ticket == 0 || e->ticket == ticket)) {
            *ret = *e;
            found = true;
        }
    }
    return found;
}

/* Counts the log lines with this code from the last input, and copies the last text. Removes all
 * effects. */
static inline unsigned
core_logged(mrd_core *c, const char *code, char text[MRD_WHY_MAX])
{
    mrd_effect *e;
    unsigned n = 0;

    text[0] = '\0';
    while ((e = mrd_core_effect(c)) != NULL) {
        if (e->kind != MRD_DO_LOG || strcmp(e->id, code) != 0)
            continue;
        snprintf(text, MRD_WHY_MAX, "%s", e->text);
        n++;
    }
    return n;
}

/* Counts the effects of inputs, with the last survey. */
typedef struct {
    unsigned n[MRD_DO_KINDS], asked[MRD__CONTROL_TYPE__CONTROL_CHANGE + 1];
    mrd_effect ask, answer;
} core_seen;

/* Removes all effects. Pending files are written and journals are closed at once. */
static inline void
core_take_effects(mrd_core *c, int64_t now, core_seen *x)
{
    uint64_t id[64], version[64]; /* 0: to be closed */
    size_t n = 0;

    for (size_t done = 0;; done++) {
        const mrd_effect *e;

        while ((e = mrd_core_effect(c)) != NULL) {
            x->n[e->kind]++;
            if (e->kind == MRD_DO_ASK) {
                x->ask = *e;
                x->asked[e->directives[0].type]++;
            }
            if (e->kind == MRD_DO_ANSWER)
                x->answer = *e;
            if ((e->kind == MRD_DO_SAVE || e->kind == MRD_DO_CLOSE) && n < 64) {
                id[n] = e->session->id;
                version[n++] = e->kind == MRD_DO_SAVE ? e->version : 0;
            }
        }
        if (done == n)
            return;
        if (version[done] != 0)
            mrd_core_saved(c, core_at(now), id[done], version[done], NULL);
        else
            mrd_core_closed(c, core_at(now), id[done]);
    }
}

static inline core_seen
core_tick(mrd_core *c, int64_t now)
{
    core_seen x = { 0 };

    mrd_core_tick(c, core_at(now));
    core_take_effects(c, now, &x);
    return x;
}

/* Passes an agent's answer to a survey. */
static inline void
core_reply(mrd_core *c, int64_t now, const mrd_effect *ask, const char *id, mrd_err err,
           const char *message)
{
    Mrd__ControlReply r = MRD__CONTROL_REPLY__INIT;
    const mrd_node *n = mrd_nodes_by_id(&c->nodes, id);

    r.instance_id = (char *) (uintptr_t) id;
    r.run = n == NULL ? 0 : n->run;
    r.type = ask->directives[0].type;
    r.selected = true;
    r.phase = err != MRD_OK ? MRD__NODE_PHASE__NODE_REFUSED : MRD__NODE_PHASE__NODE_ARMED;
    r.err = err;
    r.message = (char *) (uintptr_t) message;
    mrd_core_answered(c, core_at(now), ask->survey, &r);
}

static inline mrd_core *
core_make(mrd_core_limits limits)
{
    mrd_core_options o = { .limits = limits, .seed = 1 };
    mrd_core *c;

    o.limits.max_sessions = o.limits.max_open_sessions = 100;
    o.limits.max_nodes = 100;
    o.limits.arm_timeout = 2 * MRD_SEC;
    o.limits.lead = 500 * MRD_MS;
    o.limits.flush_timeout = 60 * MRD_SEC;
    o.limits.node_timeout = 5 * MRD_SEC;
    o.limits.node_forget = 3600 * MRD_SEC;
    c = mrd_core_new(&o, core_at(0));
    CHECK(c != NULL);
    return c;
}

static inline mrd_session *
core_session(mrd_core *c, uint64_t id, int64_t created_ns, mrd_session_state state)
{
    mrd_session *s = calloc(1, sizeof(*s));

    s->id = id;
    mrd_session_id_text(id, s->text);
    CHECK_ERR("params", mrd_session_params_init(&s->params), MRD_OK);
    s->created.ns = created_ns;
    s->state = state;
    s->step = state >= MRD_SESSION_COMPLETE    ? MRD_STEP_OVER
              : state == MRD_SESSION_RECORDING ? MRD_STEP_RECORD
              : state == MRD_SESSION_STOPPING  ? MRD_STEP_FLUSH
                                               : MRD_STEP_CLOSE;
    s->closed = state >= MRD_SESSION_COMPLETE;
    CHECK_ERR("session", mrd_core_add_session(c, s), MRD_OK);
    return s;
}

/* Makes a session request with all defaults except the name. */
static inline mrd_session_request
core_request(const char *name)
{
    mrd_session_request r = { 0 };

    CHECK_ERR("params", mrd_session_params_init(&r.params), MRD_OK);
    CHECK_ERR("name", mrd_session_params_set(&r.params, "name", name, NULL), MRD_OK);
    return r;
}

static inline mrd_part *
core_part(mrd_core *c, mrd_session *s, const char *id, mrd_part_state state)
{
    mrd_node n = { .hello_local = { 5 * MRD_SEC }, .hello_wall = { 1000 * MRD_SEC } };
    mrd_part *p;

    snprintf(n.instance_id, sizeof(n.instance_id), "%s", id);
    p = mrd_core_add_part(c, s, &n);
    p->state = state;
    return p;
}

/* Connects a node with this id. */
static inline void
core_hello(mrd_core *c, int64_t now, const char *id, uint32_t conn)
{
    Mrd__Hello h = MRD__HELLO__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(mrd_str_of(id)) },
                    .u.hello = &h };

    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = (char *) (uintptr_t) id;
    h.run = conn;
    CHECK_ERR(id, mrd_core_hello_check(&msg, NULL), MRD_OK);
    mrd_core_hello(c, core_at(now), 1000 + conn, conn, &msg);
    CHECK(mrd_core_effect(c)->kind == MRD_DO_LOG && mrd_core_effect(c)->kind == MRD_DO_WELCOME);
    core_drain(c);
}

#endif
