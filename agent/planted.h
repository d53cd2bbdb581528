/*
 * agent/planted.h - bugs of the agent that the simulation must find. They exist only in the copy of
 * the agent that is compiled with MRD_PLANT (tests/sim); in the agent every MRD_AGENT_PLANTED is
 * false. Those marked "was" are bugs that the simulation found.
 */
#ifndef MRD_AGENT_PLANTED_H
#define MRD_AGENT_PLANTED_H

typedef enum {
    MRD_AGENT_PLANT_NONE,
    MRD_AGENT_PLANT_LOST_ACK,         /* now and then an acknowledged frame stays in the spool */
    MRD_AGENT_PLANT_FORGOTTEN_WAKEUP, /* what was not stored is not sent again */
    MRD_AGENT_PLANT_STALE_TIMELINE,   /* what an earlier aggregator said of the clock goes on */
    MRD_AGENT_PLANT_NUMBERS_AGAIN,    /* numbers are given once more after a restart */
    MRD_AGENT_PLANT_FREED_EARLY,      /* a frame leaves the spool when it is sent */
    MRD_AGENT_PLANT_SENT_EARLY,       /* a frame is sent before its commit */
    MRD_AGENT_PLANT_WRONG_WINDOW,     /* a window's session time is taken for local time */
    MRD_AGENT_PLANT_LOST_TWICE,       /* what the spool forced out counts again after a restart */
    MRD_AGENT_PLANT_NO_NOTES,         /* a stop is not noted for a successor */
    MRD_AGENT_PLANT_FILES_UNSEALED,   /* was: a commit for a note leaves files' batches open */
    MRD_AGENT_PLANT_COUNTS_AHEAD,     /* was: counts answer numbers that they do not know */
    MRD_AGENT_PLANT_ANSWER_TWICE,     /* was: an answer that only the counts have counts twice */
    MRD_AGENT_PLANT_COUNTS_FIRST,     /* was: counts are written before the answer they include */
    MRD_AGENT_PLANT_RATE_FOLLOWED,    /* was: a clock's rate is followed that is not known */
    MRD_AGENT_PLANT_OTHERS_ANSWER,    /* an answer is taken for the last request that waits */
    MRD_AGENT_PLANT_SLEPT, /* was: a clock that stood is believed until the aggregator knows */
    MRD_AGENT_PLANT_SPINS, /* was: the loop does not wait while all slots are taken */
    MRD_AGENT_PLANT_FORCED_AGAIN,   /* was: what was forced out counts again after a kill before its
                                     segment went */
    MRD_AGENT_PLANT_FORCED_THERE,   /* was: the same, where there is no room to say which frames */
    MRD_AGENT_PLANT_NOT_TAKEN_BACK, /* was: an answer of what was forced out that found no room: the
                                       segments count it as lost, the counts as delivered */
    MRD_AGENT_PLANT_UNREPORTED, /* was: an answer that neither segments nor counts tell is in the sums */
    MRD_AGENT_PLANT_FILE_ONE_SESSION, /* was: of the sessions that record, only one gets a file */
    MRD_AGENT_PLANT_FILE_GROWS, /* was: a file that grows while it is sent is not looked at again */
    MRD_AGENT_PLANT_UNTOLD_LEAVES, /* was: such an answer is in the sums when its frame leaves the queue
                                      before its segment */
    MRD_AGENT_PLANT_RECORDED_APART, /* was: of answers in records and in counts the larger sum counts */
    MRD_AGENT_PLANT_PAUSES_FORGOTTEN, /* a successor knows that a session was changed, not its pauses */
    MRD_AGENT_PLANTS
} mrd_agent_plant;

#ifdef MRD_PLANT
extern unsigned mrd_agent_planted;
#define MRD_AGENT_PLANTED(bug) (mrd_agent_planted == (bug))
#else
#define MRD_AGENT_PLANTED(bug) false
#endif

#endif
