/*
 * trace/analysis/gather.h - combines the parts of one collective: which cores took part, and when
 * each part began. The overview and the reports use this to find the core that came last.
 *
 * The parts of one collective are overlapping spans of one group, job, operation and size at
 * different cores. They overlap because in a collective that synchronises no part ends before all
 * have begun. Parts are not matched by counting them from the start of the recording. So a lost
 * event damages only one collective, and any slice of a session can be analysed. A part begins the
 * next collective if it begins after another part has ended, or if its core already has a part. The
 * host's annotations decide whether SendRecv kernels count (mrd_collectives_all_to_all). Clock
 * errors can place the end of a part before the last begin. If the distance is below the bound of
 * these errors, the parts still count as overlapping. The runtime's cc_exec_barrier does not name
 * its group, so it counts as a barrier of all cores of the job.
 *
 * Collectives of a group may run concurrently if threads of the host execute them (mrd_cc.ordered).
 * Their parts are matched by order: the next part of a core belongs to the collective after the
 * core's last one. If that collective has another operation or size, or if one of its parts has
 * ended already, the core's events are incomplete. Then the part belongs to the next collective
 * that fits. So a lost event damages the matches only until all cores pause.
 *
 * The size of a group comes from its events. Some events do not state a size: cc_running,
 * cc_exec_barrier, kernels of old PyTorch. Their group counts as incomplete if the profile lacks
 * ranks of the job. Otherwise, or if the number of the job's ranks is unknown, the group consists
 * of the cores that took part.
 *
 * Memory   one open collective per group, at most MRD_GATHER_GROUPS groups.
 * Threads  belongs to one thread.
 * Source   parts are matched by overlap instead of an index, because an index is wrong after one
 *          dropped event.
 */
#ifndef MRD_TRACE_GATHER_H
#define MRD_TRACE_GATHER_H

#include "trace/analysis/collectives.h"

#define MRD_GATHER_GROUPS 65536u
/* number of collectives of an ordered group to which a new part may belong */
#define MRD_GATHER_LANES 8u
#define MRD_REPORT_NOISE 100 /* ns by which two timestamps of one instant may differ */
/* value of *ret_members in mrd_gather_takers if the group has members that never took part, and
 * their number is unknown */
#define MRD_GATHER_MORE UINT32_MAX
#define MRD_GATHER_OPEN INT64_MIN /* value of `mark` for a part that has not ended */

typedef struct {
    uint32_t core;     /* number of the core, chosen by the caller of mrd_gather_add */
    uint32_t bound_ns; /* error bound of the clock at `begin` */
    bool device_bound; /* bound_ns includes the error of the device's clock */
    /* the argument `mark` of mrd_gather_add, not interpreted except MRD_GATHER_OPEN */
    int64_t mark;
    mrd_ev_ns begin, end; /* begin and end of the part, in ns of session time */
} mrd_gather_part;

/* A collective operation, such as one all-reduce, as passed to mrd_gather_done. A part is the span
 * of this operation at one core. `parts` is sorted by begin. The struct is valid only during the
 * call. */
typedef struct {
    mrd_sid name;   /* name of the first part's event */
    uint64_t id;    /* identifies the collective in its profile */
    uint32_t group; /* number of the group of cores, for mrd_gather_takers */
    uint64_t op;    /* identifies the operation in its group */
    int64_t size;
    uint64_t bytes; /* the largest number of bytes that a part states; 0 if unknown */
    /* number of members that the events of the group state, else number of cores that took part */
    uint32_t members;
    /* number of members that never took part; 1 if some are missing but not known how many */
    uint32_t absent;
    mrd_cc_traffic traffic;
    bool is_tie; /* the last two parts begin within MRD_REPORT_NOISE, so none counts as the last */
    /* True if no further part can come. Either this is the last collective of the group, or a
     * member that did not take part began the next one before any part had ended. */
    bool is_left;
    size_t n_open; /* number of parts that have not ended */
    size_t n;
    const mrd_gather_part *parts;
} mrd_gathered;

typedef void (*mrd_gather_done)(void *self, const mrd_gathered *c);

typedef struct mrd_gather mrd_gather;

/* Creates a gatherer, which calls `done` with `self` for each complete collective. Returns NULL if
 * out of memory. */
mrd_gather *mrd_gather_new(const mrd_catalog *cat, mrd_gather_done done, void *self);
void mrd_gather_free(mrd_gather *gather); /* accepts NULL; does not report open collectives */
/* Sets the function `met`. It is called when the collective has met: all cores that ever took part
 * in the group have a part in the current collective. It is called again if a new member joins
 * later. The ends of the parts are valid at that time. If mrd_gathered.absent is not 0, a member
 * that is not in the profile may begin even later. */
void mrd_gather_on_met(mrd_gather *gather, mrd_gather_done met);
/*
 * Adds one part: a span for which mrd_collectives_see returned this kind. Kinds that do not
 * synchronise are ignored. Spans come in order of time. The mark of a span that has not ended is
 * MRD_GATHER_OPEN, and its end any later time. Then its collective is not passed to the function of
 * mrd_gather_on_met. May call `done` for the previous collective. Errors: NOMEM.
 */
mrd_err mrd_gather_add(mrd_gather *gather, mrd_cc_kind kind, const mrd_cc *what,
                       const mrd_event *ev, uint32_t core, int64_t mark);
/* Reports all open collectives to `done`. Call after the last event. */
void mrd_gather_finish(mrd_gather *gather);
/*
 * Returns how many cores ever took part in the group. If a collective has fewer parts, some are
 * missing, and its last core is unknown. *ret_members is set to the number of the group's members,
 * 0 if unknown, MRD_GATHER_MORE if the profile lacks ranks of the job. If this number is larger
 * than the number of cores, some members are not in the profile. If it is smaller, several groups
 * share this name, and their parts may be mixed up.
 */
uint32_t mrd_gather_takers(const mrd_gather *gather, uint32_t group, uint32_t *ret_members);
/* Returns the number of the last collective of this group in which the core took part. Numbers begin
 * with 1, and the low half of mrd_gathered.id has them. 0 if the core took part in none. */
uint32_t mrd_gather_joined(const mrd_gather *gather, uint32_t group, uint32_t core);
/* Returns how many parts of collectives were ignored because they belong to groups of cores beyond
 * the first MRD_GATHER_GROUPS. */
uint64_t mrd_gather_left_out(const mrd_gather *gather);

#endif
