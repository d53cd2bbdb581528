/* A core for tests: sessions and parts made by hand, time that is a number. */
#ifndef MRD_TESTS_AGGREGATOR_CORE_MAKE_H
#define MRD_TESTS_AGGREGATOR_CORE_MAKE_H

#include "aggregator/core/state.h"
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

/* What a session is asked for, all by default but its name. */
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

/* A node with this id connects. */
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
