/*
 * trace/analysis/gather.h - brings the parts of one collective together: which cores took part, when each
 * came. For "who was last" in the overview and in reports.
 *
 * Parts of one collective are the spans of one group, job, operation and size at different cores
 * that overlap, for in a synchronising collective nobody leaves before all have entered. So nothing
 * has to be counted from the start: a lost event spoils one collective, and any slice of a session
 * can be looked at. A part that begins after another has ended, or comes from a core that is
 * already in, begins the next collective. Whether SendRecv kernels count, the host's names decide
 * (mrd_collectives_all_to_all). Ends that clocks put before the last begin (by less than
 * their bound) still count as overlap. The runtime's cc_exec_barrier does not say its group: it is
 * taken as a barrier of all cores of the job.
 *
 * The size of a group: as its events say. Where they say none (cc_running, cc_exec_barrier, kernels of
 * old PyTorch), a group of a job of which the profile lacks ranks is taken to lack members; of other jobs,
 * and where nothing says how many ranks a job has, those who took part are taken to be all.
 *
 * Memory   one open collective per group, at most MRD_GATHER_GROUPS groups.
 * Threads  belongs to one thread.
 * Source   overlap instead of index: an index breaks after one dropped event.
 */
#ifndef MRD_TRACE_GATHER_H
#define MRD_TRACE_GATHER_H

#include "trace/analysis/collectives.h"

#define MRD_GATHER_GROUPS 65536u
#define MRD_REPORT_NOISE  100        /* ns: what two stamps of one instant may differ by */
#define MRD_GATHER_MORE   UINT32_MAX /* members: more than took part, nobody says how many */

typedef struct {
    uint32_t core;        /* the caller's number */
    uint32_t bound_ns;    /* of its begin */
    int64_t mark;         /* the caller's */
    mrd_ev_ns begin, end; /* session ns */
} mrd_gather_part;

/* A collective that is over; parts in the order of their begins. Borrowed for the call. */
typedef struct {
    mrd_sid name;   /* of the first part's event */
    uint64_t id;    /* of this collective in its profile */
    uint32_t group; /* number of its group, for mrd_gather_takers */
    int64_t size;
    uint64_t bytes;   /* the most that a part says, 0 unknown */
    uint32_t members; /* of the group: as its events say, else those who took part so far */
    uint32_t
        absent; /* of these, how many took part in nothing so far; 1 when only that some are is known */
    mrd_cc_traffic traffic;
    bool is_tie; /* the last two begin within MRD_REPORT_NOISE: nobody came last */
    /* Nobody came to it any more: it is the last of its group, or others of the group began another one
     * while it ran. */
    bool is_left;
    size_t n;
    const mrd_gather_part *parts;
} mrd_gathered;

typedef void (*mrd_gather_done)(void *self, const mrd_gathered *c);

typedef struct mrd_gather mrd_gather;

mrd_gather *mrd_gather_new(const mrd_catalog *cat, mrd_gather_done done, void *self); /* or NULL */
void mrd_gather_free(mrd_gather *g); /* NULL is fine; what is open is not told */
/* Called also when the last of those who took part in anything of the group so far has begun: at its
 * begin, and again when a member not seen before comes later. The parts' ends are known. With `absent`
 * somebody whose parts are not in the profile may come later still. */
void mrd_gather_on_met(mrd_gather *g, mrd_gather_done met);
/*
 * One part, a finished span that mrd_collectives_see named so (what does not synchronise is
 * ignored); spans come in the order of time. May call done for the one before. Errors: NOMEM.
 */
mrd_err mrd_gather_add(mrd_gather *g, mrd_cc_kind kind, const mrd_cc *what, const mrd_event *ev,
                       uint32_t core, int64_t mark);
/* Tells what is still open. */
void mrd_gather_finish(mrd_gather *g);
/*
 * How many cores took part in anything of a group so far. A collective with fewer parts lacks some:
 * who came last is then not known. *ret_members: how many the group says it has, 0 unknown,
 * MRD_GATHER_MORE: the profile lacks ranks of the job; with
 * fewer takers than that, some are not in the profile; with more it is several groups of one name,
 * and parts may be mixed up.
 */
uint32_t mrd_gather_takers(const mrd_gather *g, uint32_t group, uint32_t *ret_members);
/* In the call of done for a collective of that group: whether the core took part in earlier ones of the
 * group, and not in this one. */
bool mrd_gather_lacks(const mrd_gather *g, uint32_t group, uint32_t core);
/* Parts of groups beyond MRD_GATHER_GROUPS: not looked at. */
uint64_t mrd_gather_left_out(const mrd_gather *g);

#endif
