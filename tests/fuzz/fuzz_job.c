/* Fuzzes messages of agents about jobs (Job). Each message of the input has its node and the
 * quarters of a second that passed, two bytes of length, and its body. Each is answered once, the
 * limits of the policy hold, and a session has each part once. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/core/decide/jobs.h"
#include "aggregator/core/model/core.h"

enum { NODES = 3, SESSIONS = 5, OF_USER = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mrd_core_time
at(int64_t ns)
{
    return (mrd_core_time){ .local = { ns }, .wall = { ns } };
}

static void
hello(mrd_core *c, uint32_t conn)
{
    char id[2] = { (char) ('a' + conn), 0 };
    Mrd__Hello h = MRD__HELLO__INIT;
    mrd_msg msg = { .frame = { .type = MRD_FRAME_HELLO, .agent = mrd_agent_key(mrd_str_of(id)) },
                    .u.hello = &h };

    h.wire_major = MRD_WIRE_MAJOR;
    h.instance_id = id;
    h.run = conn;
    mrd_core_hello(c, at(MRD_SEC), conn, conn, &msg);
    while (mrd_core_effect(c) != NULL)
        ;
}

/* Executes all effects in turn. Returns how many are answers to a job. */
static unsigned
carry(mrd_core *c, int64_t now)
{
    uint64_t id[64], version[64];
    unsigned n = 0, replies = 0;
    mrd_effect *e;

    for (unsigned done = 0;; done++) {
        while ((e = mrd_core_effect(c)) != NULL) {
            if (e->kind == MRD_DO_JOB_REPLY) {
                replies++;
                if (e->n_directives > 1 ||
                    (e->n_directives == 1 && (e->err != MRD_OK || e->directives[0].id == 0)))
                    abort();
            }
            if (e->kind == MRD_DO_SAVE && n < 64) {
                id[n] = e->session->id;
                version[n++] = e->version;
            }
        }
        if (done == n)
            return replies;
        mrd_core_saved(c, at(now), id[done], version[done], NULL);
    }
}

static void
check(const mrd_core *c)
{
    unsigned open = 0;

    for (size_t i = 0; i < c->n_sessions; i++) {
        const mrd_session *s = c->sessions[i];
        unsigned of_user = 0;

        for (size_t k = 0; k < c->n_sessions; k++)
            of_user += mrd_session_is_open(c->sessions[k]) &&
                       c->sessions[k]->of_job.key.uid == s->of_job.key.uid;
        open += mrd_session_is_open(s);
        if ((mrd_session_is_open(s) && of_user > OF_USER) || s->n_parts > NODES ||
            s->of_job.owner_keys.n > 64 || s->of_job.nodes > 1000000 ||
            s->of_job.key.text[0] == '\0')
            abort();
        for (size_t a = 0; a < s->n_parts; a++)
            for (size_t b = 0; b < a; b++)
                if (strcmp(s->parts[a]->instance_id, s->parts[b]->instance_id) == 0)
                    abort();
    }
    if (open > SESSIONS)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_core_options o = { .seed = 1 };
    int64_t now = MRD_SEC;
    mrd_core *c;

    o.limits =
        (mrd_core_limits){ .job_default = "stream",
                           .job_allow = "stream,recorder,name,keep,keep-size,device-profiles",
                           .job_sessions = SESSIONS,
                           .job_sessions_user = OF_USER,
                           .max_sessions = 20,
                           .max_open_sessions = 20,
                           .max_nodes = 10,
                           .arm_timeout = MRD_SEC,
                           .lead = MRD_SEC,
                           .flush_timeout = 10 * MRD_SEC,
                           .node_timeout = 60 * MRD_SEC,
                           .node_forget = 3600 * MRD_SEC };
    if ((c = mrd_core_new(&o, at(0))) == NULL)
        return 0;
    for (uint32_t i = 1; i <= NODES; i++)
        hello(c, i);
    while (size > 4) {
        const uint8_t *head = data;
        size_t len = (size_t) head[2] << 8 | head[3];
        mrd_frame f = { .type = MRD_FRAME_JOB };
        mrd_msg msg;

        data += 4, size -= 4;
        len = len < size ? len : size;
        now += head[1] * MRD_SEC / 4;
        if (mrd_msg_unpack_body(&f, (mrd_bytes){ data, len }, &msg, NULL) == MRD_OK) {
            mrd_core_job(c, at(now), 9, c->nodes.v[head[0] % NODES], msg.u.job);
            if (carry(c, now) != 1)
                abort();
            mrd_msg_free(&msg);
        }
        data += len, size -= len;
        mrd_core_tick(c, at(now));
        if (carry(c, now) != 0)
            abort();
        check(c);
    }
    mrd_core_free(c);
    return 0;
}
