/*
 * aggregator/surveys.h - questions to all agents under way at one time: each waits for its answers
 * on a thread of its own, so that no question waits for another's.
 *
 * Threads  ask from one thread; `answered` is called on the survey's, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_SURVEYS_H
#define MRD_AGGREGATOR_SURVEYS_H

#include "proto/link.h"
#include "proto/wire.h"

typedef struct mrd_surveys mrd_surveys;

typedef struct {
    mrd_server *server;
    /* The message is the callee's to free. False: no more answers are wanted. */
    bool (*answered)(void *self, uint64_t survey, mrd_msg *reply);
    void *self;
} mrd_surveys_options;

mrd_err mrd_surveys_open(const mrd_surveys_options *options, mrd_surveys **ret_surveys,
                         mrd_why *why);
/* Closes the control channel and ends what is under way. Before the server goes. NULL is fine. */
void mrd_surveys_close(mrd_surveys *s);
/* Asks; takes the frame. expect: as many answers end it, else the timeout does. */
void mrd_surveys_ask(mrd_surveys *s, uint64_t survey, mrd_buf *frame, unsigned expect,
                     mrd_dur_ns timeout);

#endif
