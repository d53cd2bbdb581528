#include "aggregator/loop/surveys.h"

#include <stdlib.h>

#include "aggregator/core/common/limits.h"
#include "base/conf/log.h"
#include "base/sys/pool.h"

struct mrd_surveys {
    mrd_surveys_options o;
    mrd_pool *worker;
    bool closing; /* accessed atomically */
};

typedef struct {
    mrd_surveys *of;
    uint64_t id;
    mrd_buf frame;
    unsigned expect;
    int timeout_ms;
} job;

static bool
on_reply(void *self, mrd_bytes data)
{
    job *j = self;
    mrd_msg msg;

    if (__atomic_load_n(&j->of->closing, __ATOMIC_RELAXED))
        return false;
    if (mrd_msg_unpack(data, &msg, NULL) != MRD_OK)
        return true;
    if (msg.frame.type == MRD_FRAME_CONTROL_REPLY)
        return j->of->o.answered(j->of->o.self, j->id, &msg);
    mrd_msg_free(&msg);
    return true;
}

static void
run(void *self, void *arg)
{
    mrd_surveys *surveys = self;
    job *j = arg;
    mrd_why why = { 0 };

    if (!__atomic_load_n(&surveys->closing, __ATOMIC_RELAXED) &&
        mrd_server_ask(surveys->o.server, (mrd_bytes){ j->frame.p, j->frame.len }, j->expect,
                       j->timeout_ms, on_reply, j, &why) != MRD_OK &&
        !__atomic_load_n(&surveys->closing, __ATOMIC_RELAXED))
        mrd_log(MRD_LOG_WARN, "AGG-SURVEY", "The agents could not be asked: reason=%s", why.text);
    mrd_buf_fini(&j->frame);
    free(j);
}

void
mrd_surveys_ask(mrd_surveys *surveys, uint64_t survey, mrd_buf *frame, unsigned expect,
                mrd_dur_ns timeout)
{
    job *j = calloc(1, sizeof(*j));

    if (j != NULL) {
        *j = (job){ .of = surveys,
                    .id = survey,
                    .frame = *frame,
                    .expect = expect,
                    .timeout_ms = (int) (timeout / MRD_MS) };
        *frame = (mrd_buf){ 0 };
    }
    if (j != NULL && mrd_pool_put(surveys->worker, run, surveys, j))
        return;
    if (j != NULL)
        mrd_buf_fini(&j->frame);
    free(j);
    mrd_log(MRD_LOG_WARN, "AGG-SURVEY", "The agents could not be asked: reason=out of memory");
}

mrd_err
mrd_surveys_open(const mrd_surveys_options *options, mrd_surveys **ret_surveys, mrd_why *why)
{
    mrd_surveys *surveys = calloc(1, sizeof(*surveys));
    mrd_err err;

    if (surveys == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "surveys");
    surveys->o = *options;
    err = mrd_pool_open("surveys", MRD_SURVEYS_MAX, MRD_SURVEYS_MAX, &surveys->worker, why);
    if (err != MRD_OK)
        free(surveys);
    else
        *ret_surveys = surveys;
    return err;
}

void
mrd_surveys_close(mrd_surveys *surveys)
{
    if (surveys == NULL)
        return;
    __atomic_store_n(&surveys->closing, true, __ATOMIC_RELAXED);
    mrd_server_close_control(surveys->o.server); /* cancels the running surveys */
    mrd_pool_close(surveys->worker);
    free(surveys);
}
