/*
 * aggregator/loop/messages.h - encodes effects of the core as messages of proto/meridian.proto
 *
 * Threads  Any thread may call the functions. Only one thread at a time may use an
 *          mrd_control_message.
 */
#ifndef MRD_AGGREGATOR_LOOP_MESSAGES_H
#define MRD_AGGREGATOR_LOOP_MESSAGES_H

#include "aggregator/core/model/effects.h"

/* The message of a directive (a command for a node). Its strings belong to the session. It contains
 * pointers into itself, so it must not be copied. */
typedef struct {
    Mrd__Control control;
    Mrd__Selection select;
    Mrd__Trigger trigger;
    Mrd__Pause pauses[MRD_PAUSES_MAX], *pause_list[MRD_PAUSES_MAX];
    mrd_session_labels labels;
    int64_t *numbers[MRD_SELECT_NUMBER_LISTS];
} mrd_control_message;

/* The directives (commands for a node) in one Welcome or Ack message. */
typedef struct {
    mrd_control_message v[MRD_DIRECTIVES_MAX];
    Mrd__Control *list[MRD_DIRECTIVES_MAX];
    unsigned n;
} mrd_control_messages;

void mrd_control_messages_init(mrd_control_messages *messages, const mrd_effect *effect);
void mrd_control_messages_fini(mrd_control_messages *messages);

/* Encodes the question of a survey (MRD_DO_ASK) as a frame. Errors: NOMEM, LIMIT. */
mrd_err mrd_survey_frame(const mrd_effect *effect, mrd_buf *to);

#endif
