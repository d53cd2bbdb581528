/*
 * agent/record/trigger.h - detects events for which a flight recorder should keep its window: error
 * statuses of the runtime, numerical errors, a step that is much slower than earlier ones, and a
 * collective that took too long.
 *
 * A collective is checked only when the agent reads its end, or emits it as an unfinished span.
 * Only one thread at a time may use a watch. Memory is bounded by MRD_TRIGGER_STEPS step names.
 */
#ifndef MRD_AGENT_RECORD_TRIGGER_H
#define MRD_AGENT_RECORD_TRIGGER_H

#include "agent/rings/drain.h"

/* maximum number of pairs (process, step name) with stored durations */
#define MRD_TRIGGER_STEPS   64
#define MRD_TRIGGER_HISTORY 32 /* number of step durations that are stored for each pair */
/* a step's duration is compared with the median of the stored durations only if at least this many
 * are stored */
#define MRD_TRIGGER_LEARN 8

typedef struct {
    bool errors; /* error statuses of the runtime and numerical errors are triggers */
    /* A step is slow from this duration on, in percent of the running median of steps with this
     * name. 0 means off. */
    int64_t slow_step_percent;
    /* fnmatch pattern for the names of spans that are steps; borrowed. NULL or "" means
     * "*step*". */
    const char *step_name;
    mrd_dur_ns collective_ns; /* a collective is slow from this duration on; 0 means off */
    /* minimum time between two reports of the same cause for one job; 0 means 10 s */
    mrd_dur_ns quiet_ns;
} mrd_trigger_options;

typedef struct mrd_trigger_watch mrd_trigger_watch;

mrd_err mrd_trigger_open(const mrd_trigger_options *options, mrd_trigger_watch **ret_trigger,
                         mrd_why *why);
void mrd_trigger_close(mrd_trigger_watch *watch);
/* Records that a flight recorder starts at this RAW time. It did not receive earlier reports, so
 * quiet_ns does not suppress the next report. */
void mrd_trigger_session(mrd_trigger_watch *watch, mrd_local_ns start);
/* Checks one event. Returns true if the event is a trigger, and stores a message in `reason`
 * (truncated to its size). */
bool mrd_trigger_event(mrd_trigger_watch *watch, const mrd_drain_process *process,
                       const mrd_event *ev, char reason[256]);

#endif
