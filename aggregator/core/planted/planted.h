/*
 * aggregator/core/planted/planted.h - bugs that the simulation must find. They exist only in the copy of the
 * core, the journals, the store and the loop that is compiled with MRD_PLANT (tests/sim); in the aggregator
 * every MRD_PLANTED is false.
 */
#ifndef MRD_AGGREGATOR_CORE_PLANTED_PLANTED_H
#define MRD_AGGREGATOR_CORE_PLANTED_PLANTED_H

typedef enum {
    MRD_PLANT_NONE,
    MRD_PLANT_LOST_ACK,         /* now and then a frame is stored and its sender gets no answer */
    MRD_PLANT_EARLY_ACK,        /* acknowledged when it is handed to the journal */
    MRD_PLANT_DOUBLE_APPEND,    /* a repetition of a frame under way is stored as well */
    MRD_PLANT_NO_DEDUP,         /* frames that were stored before a restart are stored again */
    MRD_PLANT_FORGOTTEN_WAKEUP, /* a session does not continue after one failure of its manifest */
    MRD_PLANT_EARLY_START,      /* a start is sent with heartbeats before it is on disk */
    MRD_PLANT_STALE_TIMELINE,   /* a trigger told late has the time of telling */
    MRD_PLANT_LEFT_SURVEY,      /* questions are not ended */
    MRD_PLANT_HELD_TWICE,       /* events that a lost agent held are counted as lost and held */
    MRD_PLANT_NARROW_BOUND,     /* the bound of a clock is a tenth of what it should be */
    MRD_PLANT_REMOVED_IN_USE,   /* a deleted session goes while it is merged */
    MRD_PLANT_LOST_PART,        /* nodes that only the journal knows are forgotten at a restart */
    /* of journals and the store */
    MRD_PLANT_NO_FILE_SYNC,       /* a segment is not synced */
    MRD_PLANT_NO_NAME_SYNC,       /* nor is its folder */
    MRD_PLANT_NO_FOLDER_SYNC,     /* nor are those above it */
    MRD_PLANT_NAME_SYNC_FAILED,   /* a sync of folders that failed is passed over */
    MRD_PLANT_SYNC_FAILED,        /* a sync of a segment that failed is passed over */
    MRD_PLANT_REPORT_BEFORE_SYNC, /* frames are reported when they are written */
    MRD_PLANT_SHORT_WRITE,        /* a write that was cut short counts as whole */
    MRD_PLANT_TORN_TAIL,          /* a frame at the end of a segment counts though it is torn */
    MRD_PLANT_APPEND_TO_OLD,      /* the successor writes on in the last segment, from its begin */
    /* frames that a killed process left in the cache count as stored */
    MRD_PLANT_RECOVERED_UNSYNCED,
    /* was: frames that a failed sync left in the cache count as stored */
    MRD_PLANT_RECOVERED_AS_READ,
    MRD_PLANT_MANIFEST_UNSYNCED, /* manifests are not synced */
    /* of exports and retention */
    MRD_PLANT_RETIRED_UNCOPIED,    /* an old session is removed though it was not exported */
    MRD_PLANT_REMOVED_IN_COPY,     /* a deleted session goes while it is copied */
    MRD_PLANT_COPY_ONCE,           /* a session that is merged again is not copied again */
    MRD_PLANT_COPY_GIVEN_UP,       /* an export that failed is not tried again */
    MRD_PLANT_COPY_TAKEN_FOR_DONE, /* one that was under way is done after a restart */
    MRD_PLANT_MERGE_UNSAVED, /* was: a merge begins while the manifest says that the copy is done */
    /* of the loop and its threads; found with real agents */
    MRD_PLANT_LOST_ITEM,        /* now and then what a thread reports does not reach the loop */
    MRD_PLANT_FILE_UNSYNCED,    /* a file is answered before its bytes are on disk */
    MRD_PLANT_FILES_FOLDER,     /* was: the folder of all files is not synced */
    MRD_PLANT_FILE_SYNC_FAILED, /* a sync of a file that failed is passed over */
    MRD_PLANT_FILE_UNPROVEN,    /* a file counts as whole whatever its bytes are */
    MRD_PLANT_FILE_UNLOGGED,    /* that a session has it is answered before it is on disk */
    MRD_PLANT_MERGE_CUT,        /* a merge that fails counts as done */
    MRD_PLANT_MERGE_UNSYNCED,   /* was: a merge is done before its files are on disk */
    MRD_PLANT_MERGE_NARROW,     /* bounds in the profile are a thousandth of what they should be */
    MRD_PLANT_SYMMETRIC,        /* both ways of a probe count as equally long: no bound is left */
    MRD_PLANT_OLD_TIMELINE,     /* the time server answers by the timeline of an earlier boot */
    MRD_PLANT_FILES_UNWEIGHED,  /* files do not count to the size of their session */
    MRD_PLANT_RATE_SAVED,       /* the unused part of an agent's rate adds up */
    MRD_PLANT_COPY_UNSYNCED,    /* a file of an export is not synced */
    MRD_PLANT_COPY_BY_NAME,     /* a file that an earlier attempt copied is not compared */
    MRD_PLANTS
} mrd_plant;

#ifdef MRD_PLANT
extern unsigned mrd_planted;
#define MRD_PLANTED(bug) (mrd_planted == (bug))
#else
#define MRD_PLANTED(bug) false
#endif

#endif
