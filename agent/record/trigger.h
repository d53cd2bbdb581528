/*
 * agent/record/trigger.h - detects events for which a flight recorder should keep its window. They are
 * error statuses of the runtime, numerical errors, a step that is much slower than earlier ones, a
 * collective that took too long
 *
 * A collective is judged when its end is read, or when it is emitted as unfinished, because a start
 * alone is not an event here yet. Threads: one. Memory: MRD_TRIGGER_STEPS step names.
 */
#ifndef MRD_AGENT_RECORD_TRIGGER_H
#define MRD_AGENT_RECORD_TRIGGER_H

#include "agent/rings/drain.h"

#define MRD_TRIGGER_STEPS   64 /* (process, name) pairs with remembered durations */
#define MRD_TRIGGER_HISTORY 32 /* remembered durations of each pair */
#define MRD_TRIGGER_LEARN   8  /* a median is used from this number of durations on */

typedef struct {
    bool errors; /* error statuses of the runtime and numerical errors are triggers */
    /* threshold, in percent of the running median of steps with this name; 0 means off */
    int64_t slow_step_percent;
    /* fnmatch pattern of span names that are steps, borrowed. NULL or "" means "*step*". */
    const char *step_name;
    mrd_dur_ns collective_ns; /* threshold for the duration of a collective; 0 means off */
    /* minimum time between two reports of one cause for one job; 0 means 10 s */
    mrd_dur_ns quiet_ns;
} mrd_trigger_options;

typedef struct mrd_trigger_watch mrd_trigger_watch;

mrd_err mrd_trigger_open(const mrd_trigger_options *options, mrd_trigger_watch **ret_trigger,
                         mrd_why *why);
void mrd_trigger_close(mrd_trigger_watch *watch);
/* Notes that a flight recorder starts at this time (RAW). It did not receive earlier triggers, so
 * quiet_ns does not suppress the next one. */
void mrd_trigger_session(mrd_trigger_watch *watch, mrd_local_ns start);
/* Checks one event. Returns true if it is a trigger; `reason` is a message (truncated at its
 * size). */
bool mrd_trigger_event(mrd_trigger_watch *watch, const mrd_drain_process *process,
                       const mrd_event *ev, char reason[256]);

#endif
