/*
 * agent/planted/planted.h - bugs of the agent that the simulation must find. They exist only in the copy of
 * the agent that is compiled with MRD_PLANT (tests/sim); in the agent every MRD_AGENT_PLANTED is
 * false. Those marked "was" are bugs that the simulation found.
 */
#ifndef MRD_AGENT_PLANTED_PLANTED_H
#define MRD_AGENT_PLANTED_PLANTED_H

typedef enum {
    MRD_AGENT_PLANT_NONE,
    MRD_AGENT_PLANT_LOST_ACK,         /* occasionally an acknowledged frame stays in the spool */
    MRD_AGENT_PLANT_FORGOTTEN_WAKEUP, /* frames that were not stored are not sent again */
    MRD_AGENT_PLANT_STALE_TIMELINE,   /* the estimate of an earlier aggregator stays in use */
    MRD_AGENT_PLANT_NUMBERS_AGAIN,    /* sequence numbers are reused after a restart */
    MRD_AGENT_PLANT_FREED_EARLY,      /* a frame leaves the spool when it is sent */
    MRD_AGENT_PLANT_SENT_EARLY,       /* a frame is sent before its commit */
    MRD_AGENT_PLANT_WRONG_WINDOW,     /* a window's session time is used as local time */
    /* frames that the spool dropped count again after a restart */
    MRD_AGENT_PLANT_LOST_TWICE,
    MRD_AGENT_PLANT_NO_NOTES,       /* a stop is not noted for a successor */
    MRD_AGENT_PLANT_FILES_UNSEALED, /* was: a commit for a note leaves batches of files open */
    MRD_AGENT_PLANT_COUNTS_AHEAD,   /* was: counts confirm numbers that they do not contain */
    MRD_AGENT_PLANT_ANSWER_TWICE,   /* was: an answer that only the counts contain counts twice */
    /* was: counts are written before the answer that they include */
    MRD_AGENT_PLANT_COUNTS_FIRST,
    MRD_AGENT_PLANT_RATE_FOLLOWED, /* was: an unknown clock rate is used */
    MRD_AGENT_PLANT_OTHERS_ANSWER, /* an answer is assigned to the last pending request */
    /* was: a clock that was stopped is used until the aggregator corrects it */
    MRD_AGENT_PLANT_SLEPT,
    MRD_AGENT_PLANT_SPINS, /* was: the loop does not wait while all slots are in use */
    /* was: dropped frames count again after a kill before their segment was removed */
    MRD_AGENT_PLANT_FORCED_AGAIN,
    MRD_AGENT_PLANT_FORCED_THERE, /* was: the same if the list of frames is full */
    /* was: the answer of a dropped frame did not fit, so the segments count it as lost, the counts
     * as delivered */
    MRD_AGENT_PLANT_NOT_TAKEN_BACK,
    /* was: the sums contain an answer that neither segments nor counts report */
    MRD_AGENT_PLANT_UNREPORTED,
    MRD_AGENT_PLANT_FILE_ONE_SESSION, /* was: only one of the recording sessions gets a file */
    MRD_AGENT_PLANT_FILE_GROWS, /* was: a file that grows while it is sent is not sent again */
    /* was: the sums contain such an answer if its frame leaves the queue before its segment */
    MRD_AGENT_PLANT_UNTOLD_LEAVES,
    /* was: the larger of the sums of answers in records and in counts is used */
    MRD_AGENT_PLANT_RECORDED_APART,
    /* a successor knows that a session was changed, but not its pauses */
    MRD_AGENT_PLANT_PAUSES_FORGOTTEN,
    MRD_AGENT_PLANTS
} mrd_agent_plant;

#ifdef MRD_PLANT
extern unsigned mrd_agent_planted;
#define MRD_AGENT_PLANTED(bug) (mrd_agent_planted == (bug))
#else
#define MRD_AGENT_PLANTED(bug) false
#endif

#endif
