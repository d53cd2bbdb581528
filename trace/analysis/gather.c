#include "trace/analysis/gather.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

/* The current collective of a group of cores. */
typedef struct {
    uint64_t op;
    /* number of the current collective in this group, from 1; 0 before the first */
    uint64_t number;
    int64_t size;
    mrd_ev_ns first_end;
    uint64_t bytes;
    uint32_t takers, members;
    bool world;
    bool lacks; /* the group's job has ranks that are not in the profile */
    mrd_sid name;
    mrd_cc_traffic traffic;
    mrd_gather_part *parts;
    size_t n, cap;
    size_t n_open; /* number of entries in `parts` without an end */
} group_now;

/* The latest collectives of a group whose parts are matched by order. */
typedef struct {
    uint64_t newest; /* number of the newest collective, from 1; 0 before the first */
    struct {
        uint64_t op;
        int64_t size;
        mrd_ev_ns first_end;   /* earliest end of a part */
    } lanes[MRD_GATHER_LANES]; /* indexed by the collective's number modulo MRD_GATHER_LANES */
} group_order;

/* Number of ranks of a job: `ranks` are in the profile, `world` is the size that processes
 * state. */
typedef struct {
    uint64_t job;
    uint32_t ranks;
    int64_t world; /* largest world size that a process of the job states */
} job_ranks;

struct mrd_gather {
    const mrd_catalog *cat;
    job_ranks *jobs;
    size_t n_jobs, cap_jobs;
    mrd_gather_done done, met;
    void *self;
    bool all_to_all;
    mrd_map group_of; /* maps a group's hash combined with its job to an index in `groups` */
    /* maps a group's index and a core to the number of the last collective that the core joined
     * (only the low 31 bits of the number) */
    mrd_map part_of;
    group_now *groups;
    size_t n, cap;
    /* Maps the hash and the job of an ordered group to an index in `orders`. Maps such an index and
     * a core to the number of the core's last collective (only its low 31 bits). */
    mrd_map order_of, order_part_of;
    group_order *orders;
    size_t n_orders, cap_orders;
    uint64_t left_out;
};

static job_ranks *
job_find(const mrd_gather *gather, uint64_t job)
{
    for (size_t i = 0; i < gather->n_jobs; i++) {
        if (gather->jobs[i].job == job)
            return &gather->jobs[i];
    }
    return NULL;
}

/* Counts the ranks of each job. Errors: NOMEM. */
static mrd_err
count_ranks(mrd_gather *gather)
{
    mrd_map seen = { 0 };
    mrd_err err = MRD_OK;

    for (mrd_proc_id id = 0; id < mrd_catalog_processes(gather->cat) && err == MRD_OK; id++) {
        const mrd_process *process = mrd_catalog_borrow_process(gather->cat, id);
        mrd_map_key key = { process->job, (uint64_t) process->rank, 0 };
        job_ranks *job = job_find(gather, process->job);

        if (process->profile != 0 || process->rank == MRD_NONE)
            continue;
        if (job == NULL && !MRD_VEC_ROOM(gather->jobs, gather->n_jobs, gather->cap_jobs, 1)) {
            err = MRD_NOMEM;
            break;
        }
        if (job == NULL) {
            job = &gather->jobs[gather->n_jobs++];
            *job = (job_ranks){ .job = process->job };
        }
        job->world = process->world_size > job->world ? process->world_size : job->world;
        if (mrd_map_get(&seen, key) == MRD_MAP_NONE) {
            job->ranks++;
            err = mrd_map_put(&seen, key, 0);
        }
    }
    mrd_map_fini(&seen);
    return err;
}

mrd_gather *
mrd_gather_new(const mrd_catalog *cat, mrd_gather_done done, void *self)
{
    mrd_gather *gather = calloc(1, sizeof(*gather));

    if (gather == NULL)
        return NULL;
    gather->cat = cat;
    gather->done = done;
    gather->self = self;
    gather->all_to_all = mrd_collectives_all_to_all(cat);
    if (count_ranks(gather) != MRD_OK) {
        mrd_gather_free(gather);
        return NULL;
    }
    return gather;
}

void
mrd_gather_free(mrd_gather *gather)
{
    if (gather == NULL)
        return;
    for (size_t i = 0; i < gather->n; i++)
        free(gather->groups[i].parts);
    free(gather->groups);
    free(gather->jobs);
    mrd_map_fini(&gather->group_of);
    mrd_map_fini(&gather->part_of);
    mrd_map_fini(&gather->order_of);
    mrd_map_fini(&gather->order_part_of);
    free(gather->orders);
    free(gather);
}

/* Finds a group of cores, or adds it. Errors: LIMIT if there are too many groups, NOMEM. */
static mrd_err
group_find(mrd_gather *gather, uint64_t group, uint64_t job, uint32_t *ret_index)
{
    mrd_map_key key = { group, job, 0 };
    uint32_t i = mrd_map_get(&gather->group_of, key);
    const job_ranks *of;

    if (i == MRD_MAP_NONE) {
        if (gather->n == MRD_GATHER_GROUPS)
            return MRD_LIMIT;
        if (!MRD_VEC_ROOM(gather->groups, gather->n, gather->cap, 1))
            return MRD_NOMEM;
        i = (uint32_t) gather->n;
        if (mrd_map_put(&gather->group_of, key, i) != MRD_OK)
            return MRD_NOMEM;
        of = job_find(gather, job);
        gather->groups[gather->n++] = (group_now){ .lacks = of != NULL && of->ranks < of->world };
    }
    *ret_index = i;
    return MRD_OK;
}

/* Finds an ordered group, or adds it. Errors: LIMIT if there are too many groups, NOMEM. */
static mrd_err
order_find(mrd_gather *gather, uint64_t group, uint64_t job, uint32_t *ret_index)
{
    mrd_map_key key = { group, job, 0 };
    uint32_t i = mrd_map_get(&gather->order_of, key);

    if (i == MRD_MAP_NONE) {
        if (gather->n_orders == MRD_GATHER_GROUPS)
            return MRD_LIMIT;
        if (!MRD_VEC_ROOM(gather->orders, gather->n_orders, gather->cap_orders, 1))
            return MRD_NOMEM;
        i = (uint32_t) gather->n_orders;
        if (mrd_map_put(&gather->order_of, key, i) != MRD_OK)
            return MRD_NOMEM;
        gather->orders[gather->n_orders++] = (group_order){ 0 };
    }
    *ret_index = i;
    return MRD_OK;
}

/* Returns true if collective `number` of an ordered group can contain this part. */
static bool
order_fits(const group_order *order, uint64_t number, const mrd_event *ev, const mrd_cc *what)
{
    unsigned lane = (unsigned) (number % MRD_GATHER_LANES);
    int64_t slack = ev->bound_ns == MRD_BOUND_UNKNOWN ? 0 : ev->bound_ns, limit;

    return order->lanes[lane].op == what->op && order->lanes[lane].size == what->size &&
           (__builtin_add_overflow(order->lanes[lane].first_end.ns, slack, &limit) ||
            ev->ts.ns <= limit);
}

/*
 * Replaces the group of a part by one of MRD_GATHER_LANES groups. Collectives of an ordered group
 * are dealt to these groups in turn, so that concurrent collectives are in different ones. Errors:
 * LIMIT, NOMEM.
 */
static mrd_err
order_lane(mrd_gather *gather, const mrd_cc *what, const mrd_event *ev, uint64_t job, uint32_t core,
           uint64_t *group)
{
    uint32_t index, joined;
    group_order *order;
    uint64_t number;
    unsigned lane;
    mrd_err err = order_find(gather, what->group, job, &index);

    if (err != MRD_OK)
        return err;
    order = &gather->orders[index];
    joined = mrd_map_get(&gather->order_part_of, (mrd_map_key){ index, core, 0 });
    number = order->newest < MRD_GATHER_LANES ? 1 : order->newest - MRD_GATHER_LANES + 1;
    if (joined != MRD_MAP_NONE) {
        uint64_t behind = (order->newest - joined) & INT32_MAX;

        number = behind < MRD_GATHER_LANES ? order->newest - behind + 1 : number;
    }
    while (number <= order->newest && !order_fits(order, number, ev, what))
        number++;
    lane = (unsigned) (number % MRD_GATHER_LANES);
    if (number > order->newest) {
        order->newest = number;
        order->lanes[lane].op = what->op;
        order->lanes[lane].size = what->size;
        order->lanes[lane].first_end = (mrd_ev_ns){ INT64_MAX };
    }
    order->lanes[lane].first_end = mrd_ev_min(order->lanes[lane].first_end, mrd_event_end(ev));
    *group = mrd_hash64(&lane, sizeof(lane), what->group);
    return mrd_map_put(&gather->order_part_of, (mrd_map_key){ index, core, 0 },
                       (uint32_t) (number & INT32_MAX));
}

/* Returns true if the event belongs to the current collective of its group. `number` is the last
 * collective that the event's core joined. A core joins a collective only once. */
static bool
belongs(const group_now *now, const mrd_event *ev, const mrd_cc *what, uint32_t number)
{
    int64_t slack = ev->bound_ns == MRD_BOUND_UNKNOWN ? 0 : ev->bound_ns, limit;

    if (now->number == 0 || now->op != what->op || now->size != what->size ||
        number == (uint32_t) (now->number & INT32_MAX))
        return false;
    return __builtin_add_overflow(now->first_end.ns, slack, &limit) || ev->ts.ns <= limit;
}

/* Returns the number of a group's members. Special values: 0 if unknown, MRD_GATHER_MORE if the
 * profile lacks ranks of the job. With `world`, `members` is the number of ranks. There may be more
 * cores than that, because a rank may have several devices. */
static uint32_t
members_of(const group_now *now)
{
    bool said = now->members > 0 && (!now->world || now->takers < now->members ||
                                     (now->takers == now->members && !now->lacks));

    return said ? now->members : now->lacks ? MRD_GATHER_MORE : 0;
}

static void
tell(mrd_gather *gather, const group_now *now, mrd_gather_done whom, bool is_left)
{
    uint32_t members = members_of(now);
    mrd_gathered group = {
        .name = now->name,
        .id = (uint64_t) (now - gather->groups) << 32 | (uint32_t) now->number,
        .group = (uint32_t) (now - gather->groups),
        .op = now->op,
        .size = now->size,
        .bytes = now->bytes,
        .members = members > 0 && members != MRD_GATHER_MORE ? members : now->takers,
        .absent = members == MRD_GATHER_MORE ? 1
                  : members > now->takers    ? members - now->takers
                                             : 0,
        .traffic = now->traffic,
        .is_tie = now->n > 1 && mrd_ev_diff(now->parts[now->n - 1].begin,
                                            now->parts[now->n - 2].begin) <= MRD_REPORT_NOISE,
        .is_left = is_left,
        .n_open = now->n_open,
        .n = now->n,
        .parts = now->parts
    };

    if (now->n > 0)
        whom(gather->self, &group);
}

static mrd_err
part_add(group_now *now, const mrd_event *ev, uint32_t core, int64_t mark)
{
    mrd_ev_ns end = mrd_event_end(ev);

    if (!MRD_VEC_ROOM(now->parts, now->n, now->cap, 1))
        return MRD_NOMEM;
    now->parts[now->n++] =
        (mrd_gather_part){ .core = core,
                           .bound_ns = ev->bound_ns,
                           .device_bound = (ev->flags & MRD_EV_DEVICE_BOUND) != 0,
                           .mark = mark,
                           .begin = ev->ts,
                           .end = end };
    now->first_end = mrd_ev_before(end, now->first_end) ? end : now->first_end;
    return MRD_OK;
}

mrd_err
mrd_gather_add(mrd_gather *gather, mrd_cc_kind kind, const mrd_cc *what, const mrd_event *ev,
               uint32_t core, int64_t mark)
{
    const mrd_track *track = mrd_catalog_borrow_track(gather->cat, ev->track);
    uint64_t job = mrd_catalog_borrow_process(gather->cat, track->process)->job,
             group = what->group;
    uint32_t index, before;
    group_now *now;
    mrd_err err = MRD_OK;

    if (kind != MRD_CC_SYNC && kind != MRD_CC_BARRIER &&
        !(kind == MRD_CC_SENDRECV && gather->all_to_all))
        return MRD_OK;
    if (what->ordered)
        err = order_lane(gather, what, ev, job, core, &group);
    if (err == MRD_OK)
        err = group_find(gather, group, job, &index);
    if (err == MRD_LIMIT) {
        gather->left_out++;
        return MRD_OK;
    }
    if (err != MRD_OK)
        return err;
    now = &gather->groups[index];
    before = mrd_map_get(&gather->part_of, (mrd_map_key){ index, core, 0 });
    now->takers += before == MRD_MAP_NONE;
    now->members = what->members;
    now->world = what->world;
    if (!belongs(now, ev, what, before)) {
        tell(gather, now, gather->done,
             before != (uint32_t) (now->number & INT32_MAX) &&
                 (now->n_open == now->n || mrd_ev_before(ev->ts, now->first_end)));
        now->op = what->op;
        now->size = what->size;
        now->bytes = 0;
        now->traffic = what->traffic;
        now->name = ev->name;
        now->number++;
        now->first_end = (mrd_ev_ns){ INT64_MAX };
        now->n = now->n_open = 0;
    }
    now->bytes = what->bytes > now->bytes ? what->bytes : now->bytes;
    now->n_open += mark == MRD_GATHER_OPEN;
    if ((err = part_add(now, ev, core, mark)) != MRD_OK ||
        (err = mrd_map_put(&gather->part_of, (mrd_map_key){ index, core, 0 },
                           (uint32_t) (now->number & INT32_MAX))) != MRD_OK)
        return err;
    if (gather->met != NULL && now->n_open == 0 && now->n > 1 && now->n >= now->takers)
        tell(gather, now, gather->met, false);
    return MRD_OK;
}

void
mrd_gather_on_met(mrd_gather *gather, mrd_gather_done met)
{
    gather->met = met;
}

void
mrd_gather_finish(mrd_gather *gather)
{
    for (size_t i = 0; i < gather->n; i++) {
        tell(gather, &gather->groups[i], gather->done, true);
        gather->groups[i].n = 0;
    }
}

uint32_t
mrd_gather_takers(const mrd_gather *gather, uint32_t group, uint32_t *ret_members)
{
    *ret_members = members_of(&gather->groups[group]);
    return gather->groups[group].takers;
}

uint32_t
mrd_gather_joined(const mrd_gather *gather, uint32_t group, uint32_t core)
{
    uint32_t number = mrd_map_get(&gather->part_of, (mrd_map_key){ group, core, 0 });

    return number == MRD_MAP_NONE ? 0 : number;
}

uint64_t
mrd_gather_left_out(const mrd_gather *gather)
{
    return gather->left_out;
}
