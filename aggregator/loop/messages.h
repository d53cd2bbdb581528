/*
 * aggregator/loop/messages.h - encodes effects of the core as messages of proto/meridian.proto
 *
 * Threads: stateless. An mrd_control_message belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_LOOP_MESSAGES_H
#define MRD_AGGREGATOR_LOOP_MESSAGES_H

#include "aggregator/core/model/effects.h"

/* A directive. Its strings borrow from the session. It contains pointers into itself, so it must
 * not be copied. */
typedef struct {
    Mrd__Control control;
    Mrd__Selection select;
    Mrd__Trigger trigger;
    Mrd__Pause pauses[MRD_PAUSES_MAX], *pause_list[MRD_PAUSES_MAX];
    mrd_session_labels labels;
    int64_t *numbers[MRD_SELECT_NUMBER_LISTS];
} mrd_control_message;

/* The directives in one Welcome or Ack. */
typedef struct {
    mrd_control_message v[MRD_DIRECTIVES_MAX];
    Mrd__Control *list[MRD_DIRECTIVES_MAX];
    unsigned n;
} mrd_control_messages;

void mrd_control_messages_init(mrd_control_messages *messages, const mrd_effect *effect);
void mrd_control_messages_fini(mrd_control_messages *messages);

/* Encodes the frame of a survey. Errors: NOMEM, LIMIT. */
mrd_err mrd_survey_frame(const mrd_effect *effect, mrd_buf *to);

#endif
