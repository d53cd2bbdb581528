/*
 * aggregator/messages.h - effects of the core that are sent to nodes, as messages of proto/meridian.proto.
 * Threads: stateless; a mrd_control_message belongs to one.
 */
#ifndef MRD_AGGREGATOR_MESSAGES_H
#define MRD_AGGREGATOR_MESSAGES_H

#include "aggregator/core/effects.h"

/* A directive; its strings borrow from the session. Points into itself: not to be copied. */
typedef struct {
    Mrd__Control control;
    Mrd__Selection select;
    Mrd__Trigger trigger;
    Mrd__Pause pauses[MRD_PAUSES_MAX], *pause_list[MRD_PAUSES_MAX];
    mrd_session_labels labels;
    int64_t *numbers[MRD_SELECT_NUMBER_LISTS];
} mrd_control_message;

/* Several of them, for a Welcome or an Ack. */
typedef struct {
    mrd_control_message v[MRD_DIRECTIVES_MAX];
    Mrd__Control *list[MRD_DIRECTIVES_MAX];
    unsigned n;
} mrd_control_messages;

void mrd_control_messages_init(mrd_control_messages *m, const mrd_effect *e);
void mrd_control_messages_fini(mrd_control_messages *m);

/* The frame of a survey. Errors: NOMEM, LIMIT. */
mrd_err mrd_survey_frame(const mrd_effect *e, mrd_buf *to);

#endif
