/*
 * aggregator/loop/surveys.h - sends the questions of surveys to all agents and collects the
 * answers. Each survey waits for its answers on a thread of its own, so that surveys do not delay
 * each other.
 *
 * Threads  Only one thread may call mrd_surveys_ask. `answered` is called on the survey's thread,
 *          and must not wait for this thread.
 */
#ifndef MRD_AGGREGATOR_LOOP_SURVEYS_H
#define MRD_AGGREGATOR_LOOP_SURVEYS_H

#include "proto/link.h"
#include "proto/wire.h"

typedef struct mrd_surveys mrd_surveys;

typedef struct {
    mrd_server *server;
    /* Receives the answer of one agent, and frees the message. Returns false if no more answers are
     * needed. */
    bool (*answered)(void *self, uint64_t survey, mrd_msg *reply);
    void *self;
} mrd_surveys_options;

mrd_err mrd_surveys_open(const mrd_surveys_options *options, mrd_surveys **ret_surveys,
                         mrd_why *why);
/* Closes the control channel and cancels the surveys. Call it before the server is closed. Does
 * nothing for NULL. */
void mrd_surveys_close(mrd_surveys *surveys);
/* Starts a survey with the question in `frame`, and takes ownership of the frame. The survey ends
 * after `expect` answers or at the timeout. */
void mrd_surveys_ask(mrd_surveys *surveys, uint64_t survey, mrd_buf *frame, unsigned expect,
                     mrd_dur_ns timeout);

#endif
