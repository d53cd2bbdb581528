/* Decides which rank, if any, is the cause of a job's standstill, the time in which the job makes
 * no progress. A verdict on a job names this cause. */
#include "aggregator/core/hang/hang_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/obj.h"
#include "base/vec.h"

#define FLOOR MRD_SEC /* shortest deadline of an operation */
/* deadline of an operation = FACTOR x the 99.9th percentile of the durations of its calls */
#define FACTOR 5
/* The end of a process may be the cause of the standstill if it happened before the last rank began
 * to wait, or at most AT_ONCE later. The same is true for other events. */
#define AT_ONCE (2 * MRD_SEC)
/* A rank that ended much earlier than the standstill is not the cause, because the other ranks
 * continued without it. Much earlier means LONG_GONE plus the deadline of the operation. */
#define LONG_GONE (10 * MRD_SEC)
/* If the ranks of a disconnected node took part in at least this many calls after the connection
 * ended, the end of the connection is not the cause. */
#define WENT_ON 3
/* How long ranks must wait before a verdict "cannot tell" is given because reports are missing.
 * Until then, a rank whose reports are incomplete may be writing a checkpoint. */
#define BLIND (60 * MRD_SEC)

/* What the functions below share while they decide about one job. */
typedef struct {
    mrd_hang *h;
    mrd_local_ns now;
    hang_member *m;
    /* number of ranks in `m`, from which ended ranks that cannot be the cause are removed */
    size_t n;
    size_t all; /* number of all ranks of the job */
    /* the operation in which most ranks wait, with its deadline `limit`. The number of its newest
     * call is in `entered` */
    mrd_hang_op front;
    mrd_dur_ns limit;
    bool *ret_unsure;
    mrd_hang_verdict *v;
} look;

/* ---- The ranks of the job ---- */

static uint64_t
entered(const hang_member *member, const mrd_hang_op *op)
{
    const mrd_hang_op *hang_op = mrd_hang_op_of(member->r, op);

    return hang_op == NULL ? 0 : hang_op->entered;
}

/* Returns the index of the operation `op` in the array `ops` with n entries. Returns n if it is not
 * in the array. */
static size_t
find_op(const mrd_hang_op *ops, size_t n, const mrd_hang_op *op)
{
    size_t at = 0;

    while (at < n && (ops[at].group != op->group || strcmp(ops[at].name, op->name) != 0))
        at++;
    return at;
}

static int
by_rank(const void *a, const void *b)
{
    const hang_member *member = a, *y = b;

    if (member->r->rank != y->r->rank)
        return member->r->rank < y->r->rank ? -1 : 1;
    /* If two processes have the same rank, the process that has not ended comes first. Otherwise
     * the process whose node sent the newer message comes first. */
    if (mrd_hang_is_gone(member) != mrd_hang_is_gone(y))
        return mrd_hang_is_gone(member) ? 1 : -1;
    return (member->node->seen.ns < y->node->seen.ns) - (member->node->seen.ns > y->node->seen.ns);
}

/* Collects the job's processes that have entered an operation. This leaves out helper processes,
 * which inherit the rank of their parent. Returns false if out of memory. */
static bool
collect(look *l, const hang_job *job)
{
    mrd_hang *hang = l->h;

    if (!MRD_VEC_ROOM(hang->members, 0, hang->cap_members, job->n + 1))
        return false;
    l->m = hang->members;
    for (size_t i = 0; i < job->n_nodes; i++) {
        const hang_node *node = &hang->nodes[job->nodes[i]];
        bool unseen = node->gone.ns != 0 || mrd_local_diff(l->now, node->seen) > hang->o.unseen;

        if (node->n > 0 && !unseen && mrd_local_diff(l->now, node->seen) > hang->o.stale)
            *l->ret_unsure = true;
        for (size_t k = 0; k < node->n && l->n < job->n; k++)
            if (node->processes[k].job == job && node->processes[k].r.n_ops > 0)
                l->m[l->n++] = (hang_member){ &node->processes[k].r, node, unseen };
    }
    qsort(l->m, l->n, sizeof(*l->m), by_rank);
    return true;
}

/* ---- The text of the verdict ---- */

static void
name(look *l, const hang_member *member)
{
    mrd_hang_verdict *verdict = l->v;

    verdict->n_culprits++;
    if (verdict->n_named == MRD_HANG_NAMED)
        return;
    verdict->named[verdict->n_named].rank = member->r->rank;
    verdict->named[verdict->n_named].pid = member->r->pid;
    verdict->named[verdict->n_named].state = member->r->state;
    snprintf(verdict->named[verdict->n_named].node, sizeof(verdict->named[0].node), "%s",
             member->node->name);
    snprintf(verdict->named[verdict->n_named].inside, sizeof(verdict->named[0].inside), "%s",
             member->r->inside);
    verdict->n_named++;
}

/* Writes the named ranks, such as "rank 3" or "ranks 1, 4, 5 and 9 more". Returns `to`. */
static const char *
ranks_text(const mrd_hang_verdict *verdict, char to[96])
{
    size_t at = (size_t) snprintf(to, 96, verdict->n_culprits == 1 ? "rank" : "ranks");

    for (size_t i = 0; i < verdict->n_named && at < 60; i++)
        at += (size_t) snprintf(to + at, 96 - at, "%s %lld", i == 0 ? "" : ",",
                                (long long) verdict->named[i].rank);
    if (verdict->n_culprits > verdict->n_named)
        snprintf(to + at, 96 - at, " and %zu more", verdict->n_culprits - verdict->n_named);
    return to;
}

static void
decide(look *l, mrd_hang_class cls, const char *what)
{
    char ranks[96];

    l->v->cls = cls;
    snprintf(l->v->reason, sizeof(l->v->reason), "%s %s", ranks_text(l->v, ranks), what);
}

/* Sets the verdict "cannot tell" with the reason `why`, and removes the ranks that were named
 * before. */
static void
refuse(look *l, const char *why)
{
    l->v->cls = MRD_HANG_CANNOT_TELL;
    l->v->n_named = l->v->n_culprits = 0;
    snprintf(l->v->reason, sizeof(l->v->reason), "%s", why);
}

/* ---- Deadlines of operations ---- */

/* Returns the deadline of an operation with too few ended calls to know its usual duration. A load
 * may compile or read large files, and an execution may be an evaluation, so both get more time. */
static mrd_dur_ns
unlearned(const mrd_hang *hang, const mrd_hang_op *op)
{
    mrd_dur_ns d = strstr(op->name, "load") != NULL || strstr(op->name, "init") != NULL
                       ? 1800 * MRD_SEC
                   : strstr(op->name, "execute") != NULL ? 600 * MRD_SEC
                                                         : 60 * MRD_SEC;

    return d < hang->o.unlearned ? d : hang->o.unlearned;
}

static mrd_dur_ns
limit_of(const look *l, const mrd_hang_op *op)
{
    mrd_dur_ns slow = 0;
    bool learned = false;

    for (size_t i = 0; i < l->n; i++) {
        const mrd_hang_op *hang_op = mrd_hang_op_of(l->m[i].r, op);

        if (hang_op == NULL || hang_op->seen < MRD_HANG_LEARN)
            continue;
        learned = true;
        slow = hang_op->slow > slow ? hang_op->slow : slow;
    }
    if (!learned)
        return unlearned(l->h, op);
    return slow * FACTOR > FLOOR ? slow * FACTOR : FLOOR;
}

/* ---- Finding a standstill ---- */

/* Returns true if the rank has certainly waited in the operation for longer than `limit`. The error
 * bound of the reported times is taken into account. */
static bool
is_late(const look *l, const hang_member *member, const mrd_hang_op *op, mrd_dur_ns limit)
{
    const mrd_hang_op *hang_op = mrd_hang_op_of(member->r, op);

    return mrd_hang_is_alive(member) && member->r->quiet.ns != 0 && hang_op != NULL &&
           hang_op->open > 0 && mrd_local_diff(l->now, hang_op->begin) - member->r->bound > limit;
}

static size_t
count_late(const look *l, const mrd_hang_op *op, mrd_dur_ns limit)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += is_late(l, &l->m[i], op, limit);
    return n;
}

/* Finds the operation in which the most ranks have waited longer than its deadline, and stores it
 * in l->front. Returns false if there is no such operation. */
static bool
find_front(look *l)
{
    mrd_hang_op tried[2 * MRD_HANG_OPS];
    size_t n_tried = 0, most = 0;

    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->m[i].r->n_ops; k++) {
            const mrd_hang_op *op = &l->m[i].r->ops[k];
            mrd_dur_ns limit;
            size_t n;

            if (op->open == 0 || find_op(tried, n_tried, op) < n_tried ||
                n_tried == MRD_COUNT(tried))
                continue;
            tried[n_tried++] = *op;
            limit = limit_of(l, op);
            if ((n = count_late(l, op, limit)) <= most)
                continue;
            most = n;
            l->front = *op;
            l->limit = limit;
        }
    return most > 0;
}

/* Fills in the verdict's members that describe where ranks wait. */
static void
describe(look *l)
{
    mrd_hang_verdict *verdict = l->v;

    verdict->ranks = l->n;
    verdict->group = l->front.group;
    verdict->entered = l->front.entered = 0;
    verdict->limit = l->limit;
    memcpy(verdict->op, l->front.name, sizeof(verdict->op));
    for (size_t i = 0; i < l->n; i++) {
        const mrd_hang_op *op = mrd_hang_op_of(l->m[i].r, &l->front);

        if (op == NULL)
            continue;
        if (op->entered > verdict->entered && mrd_hang_is_alive(&l->m[i]))
            verdict->entered = l->front.entered = op->entered;
        if (op->open == 0 || !mrd_hang_is_alive(&l->m[i]))
            continue;
        verdict->waiting++;
        if (op->begin.ns >= verdict->since.ns) {
            verdict->since = op->begin;
            verdict->since_bound = l->m[i].r->bound;
        }
    }
}

/* Removes ended processes that cannot be the cause of the standstill. Such a process had already
 * left the call, or another process has its rank, or it ended long before the standstill
 * (LONG_GONE). */
static void
drop_ended(look *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->n; i++) {
        const hang_member *member = &l->m[i];
        uint64_t e = entered(member, &l->front);
        bool before = e + 1 == l->front.entered && (e > 0 || !member->r->partial);
        bool missed = before || (e == l->front.entered && mrd_hang_is_open(member, &l->front));
        mrd_dur_ns went_on = mrd_local_diff(l->v->since, member->r->state_at);

        if (mrd_hang_is_gone(member) && (!missed || went_on > LONG_GONE + l->limit ||
                                         (kept > 0 && l->m[kept - 1].r->rank == member->r->rank)))
            continue;
        l->m[kept++] = *member;
    }
    l->n = kept;
}

static bool
has_unseen(const look *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->m[i].unseen)
            return true;
    return false;
}

/* Returns true if the job stands still: no rank whose node still sends reports has begun or ended
 * an operation for HANG_QUIET_MIN. */
static bool
stands(const look *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const hang_member *member = &l->m[i];

        if (mrd_hang_is_alive(member) &&
            (member->r->quiet.ns == 0 ||
             mrd_local_diff(l->now, member->r->quiet) - member->r->bound < HANG_QUIET_MIN))
            return false;
    }
    return true;
}

/* ---- Reasons against naming a rank ---- */

static bool
has_twins(const look *l)
{
    for (size_t i = 1; i < l->n; i++)
        if (l->m[i].r->rank == l->m[i - 1].r->rank)
            return true;
    return false;
}

/* Returns why the reports do not cover all ranks completely, NULL if they do. May write the reason
 * into `text`. */
static const char *
incomplete(look *l, char text[128])
{
    int64_t world = MRD_HANG_NONE;

    for (size_t i = 0; i < l->n; i++) {
        const mrd_hang_rank *rank = l->m[i].r;

        if (rank->rank < 0)
            return "a process does not say which rank it is";
        if (rank->lost) {
            snprintf(text, 128, "the calls of rank %lld are not complete here: %s",
                     (long long) rank->rank, rank->lost_why);
            return text;
        }
        if (l->m[i].node->left_out)
            return "a node has more processes than it reports";
        world = rank->world > world ? rank->world : world;
    }
    if (has_twins(l))
        return "two processes say that they are the same rank";
    if (world < 0)
        return "the number of ranks of the job is not known (WORLD_SIZE)";
    for (size_t i = 0; i < l->n; i++)
        if (l->m[i].unseen) {
            snprintf(text, 128, "rank %lld is unseen, and the job went on without a sign of it",
                     (long long) l->m[i].r->rank);
            return text;
        }
    for (int64_t i = 0; i < world; i++)
        if ((size_t) i >= l->n || l->m[i].r->rank != i) {
            snprintf(text, 128, "rank %lld of %lld was not seen on any node", (long long) i,
                     (long long) world);
            return text;
        }
    return NULL;
}

/* Returns why the ranks cannot be compared by their numbers of calls, NULL if they can. May write
 * the reason into `text`. */
static const char *
incomparable(const look *l, char text[160])
{
    for (size_t i = 0; i < l->n; i++) {
        uint64_t e = entered(&l->m[i], &l->front);

        if (e + 1 >= l->front.entered && (e > 0 || !l->m[i].r->partial))
            continue;
        if (e == 0)
            snprintf(text, 160,
                     "rank %lld never entered %s of this model or group; which group "
                     "waits for which is not known",
                     (long long) l->m[i].r->rank, l->front.name);
        else
            snprintf(text, 160,
                     "the ranks do not enter %s equally often: rank %lld %llu times, "
                     "others %llu times",
                     l->front.name, (long long) l->m[i].r->rank, (unsigned long long) e,
                     (unsigned long long) l->front.entered);
        return text;
    }
    return NULL;
}

/* ---- Judging each class of verdicts, in the order of mrd_hang_class ---- */

static bool
did_enter(const look *l, const hang_member *member)
{
    return entered(member, &l->front) == l->front.entered;
}

/* Returns true if the end or stop of a rank may be a consequence of the standstill. For example,
 * the rank exited after a timeout, or a debugger stopped it. This is possible only if the rank
 * ended or stopped more than AT_ONCE after the begin of the standstill. The rank is nevertheless
 * the cause if it is the only one that did not enter the call. */
static bool
may_be_victim(const look *l, const hang_member *member)
{
    if (mrd_local_diff(member->r->state_at, l->v->since) <= AT_ONCE + member->r->bound)
        return false;
    if (did_enter(l, member))
        return true;
    for (size_t i = 0; i < l->n; i++)
        if (&l->m[i] != member && !did_enter(l, &l->m[i]))
            return true;
    return false;
}

static bool
judge_dead(look *l)
{
    bool doubt = false;

    for (size_t i = 0; i < l->n; i++) {
        if (!mrd_hang_is_gone(&l->m[i]))
            continue;
        name(l, &l->m[i]);
        doubt = doubt || may_be_victim(l, &l->m[i]);
    }
    if (l->v->n_culprits == 0)
        return false;
    if (doubt)
        refuse(l, "ranks ended, but only after the job stood still");
    else
        decide(l, MRD_HANG_DEAD, "ended while the others wait");
    return true;
}

/* Adds the stopped ranks to the verdict and returns their number. Sets *ret_doubt if a rank may
 * have been stopped after the job stood still, for example by a debugger. */
static size_t
list_stopped(look *l, bool *ret_doubt)
{
    *ret_doubt = false;
    for (size_t i = 0; i < l->n; i++)
        if (mrd_hang_is_alive(&l->m[i]) && l->m[i].r->state == MRD_HANG_STOPPED) {
            name(l, &l->m[i]);
            *ret_doubt = *ret_doubt || may_be_victim(l, &l->m[i]);
        }
    return l->v->n_culprits;
}

/* Stores in `ops` each operation that any rank reports. The member `entered` of each is the highest
 * number that any rank reported for it. `room` is the size of the array. Returns the number of
 * operations. */
static size_t
newest_calls(const look *l, mrd_hang_op *ops, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->m[i].r->n_ops; k++) {
            const mrd_hang_op *op = &l->m[i].r->ops[k];
            size_t at = find_op(ops, n, op);

            if (at == n && n < room)
                ops[n++] = *op;
            else if (at < n && op->entered > ops[at].entered)
                ops[at].entered = op->entered;
        }
    return n;
}

/* Returns true if the member's rank took part in at least WENT_ON calls after the connection of its
 * node ended. The end of the connection is then not the cause. The number of these calls is not
 * reported, so it is estimated from the calls since the node's last report, in proportion to the
 * time. `newest` has n operations from newest_calls. */
static bool
went_on_without(const look *l, const hang_member *member, const mrd_hang_op *newest, size_t n)
{
    const hang_node *node = member->node;
    mrd_dur_ns since_report = mrd_local_diff(l->v->since, node->reported);
    mrd_dur_ns since_end = mrd_local_diff(l->v->since, node->gone) - l->v->since_bound;
    uint64_t calls = 0;

    for (size_t k = 0; k < member->r->n_ops; k++) {
        const mrd_hang_op *op = &member->r->ops[k];
        size_t at = find_op(newest, n, op);

        if (at < n && newest[at].entered - op->entered > calls)
            calls = newest[at].entered - op->entered;
    }
    return node->gone.ns != 0 && since_end > 0 && since_report > 0 &&
           (double) calls * (double) since_end >= WENT_ON * (double) since_report;
}

/* Judges ranks that count as unseen because their nodes sent no messages. A node that disappeared
 * at about the time when the standstill began is named as the cause. A node that disappeared much
 * earlier or later is not named. */
static bool
judge_unseen(look *l)
{
    mrd_dur_ns most = 2 * l->h->o.stale;
    bool doubt;
    size_t stopped = list_stopped(l, &doubt), n_newest;
    mrd_hang_op newest[2 * MRD_HANG_OPS];

    l->v->n_named = l->v->n_culprits = 0;
    if (!has_unseen(l))
        return false;
    n_newest = newest_calls(l, newest, MRD_COUNT(newest));
    for (size_t i = 0; i < l->n; i++) {
        mrd_dur_ns apart = mrd_local_diff(l->v->since, l->m[i].node->seen);

        if (!l->m[i].unseen)
            continue;
        if (apart > most || apart < -most || went_on_without(l, &l->m[i], newest, n_newest)) {
            l->v->n_named = l->v->n_culprits = 0;
            return false;
        }
        name(l, &l->m[i]);
    }
    if (stopped > 0)
        refuse(l, "ranks are unseen since the job stands still, and another rank is stopped");
    else
        decide(l, MRD_HANG_UNSEEN,
               "left the view when the job stopped: its node or its agent does "
               "not answer");
    return true;
}

static bool
judge_stopped(look *l)
{
    bool doubt;
    size_t n = list_stopped(l, &doubt);

    if (n > 0 && doubt)
        refuse(l, "ranks were stopped, but only after the job stood still");
    else if (n > 0)
        decide(l, MRD_HANG_IS_STOPPED,
               n == 1        ? "is stopped (SIGSTOP, or a debugger)"
               : n == l->all ? "are stopped, which are all ranks (SIGSTOP, or a debugger)"
                             : "are stopped (SIGSTOP, or a debugger)");
    return n > 0;
}

/* Judges the only rank that did not enter the call in which the other ranks wait. It is in a call
 * of another operation `op` instead. */
static void
judge_elsewhere(look *l, const hang_member *member, const mrd_hang_op *op)
{
    size_t left = 0, behind = 0;
    char what[160];

    for (size_t i = 0; i < l->n; i++) {
        uint64_t e = entered(&l->m[i], op);

        if (l->m[i].r == member->r)
            continue;
        left += e == op->entered + 1 || (e == op->entered && !mrd_hang_is_open(&l->m[i], op));
        behind += e < op->entered;
    }
    if (!is_late(l, member, op, limit_of(l, op))) {
        *l->ret_unsure = true; /* the rank may be busy with a long evaluation or load */
        return;
    }
    name(l, member);
    if (behind == l->n - 1) {
        snprintf(what, sizeof(what), "is in %s, the others are in %s", op->name, l->front.name);
        decide(l, MRD_HANG_OTHER, what);
    } else if (left == l->n - 1) {
        snprintf(what, sizeof(what), "does not leave %s, which the others left", op->name);
        decide(l, MRD_HANG_INSIDE, what);
    } else {
        snprintf(what, sizeof(what), "rank %lld is in %s, in which other ranks are, too",
                 (long long) member->r->rank, op->name);
        refuse(l, what);
    }
}

static const mrd_hang_op *
open_op(const mrd_hang_rank *rank)
{
    for (size_t i = 0; i < rank->n_ops; i++)
        if (rank->ops[i].open > 0)
            return &rank->ops[i];
    return NULL;
}

/* Returns true if the name of the rank's open span, such as "save checkpoint", contains a word for
 * work that takes long. */
static bool
says_so(const mrd_hang_rank *rank)
{
    static const char *const words[] = {
        "checkpoint", "save", "saving", "eval", "valid", "compil"
    };
    char lower[sizeof(rank->inside)];

    for (size_t i = 0; i < sizeof(lower); i++)
        lower[i] = (char) (rank->inside[i] >= 'A' && rank->inside[i] <= 'Z' ? rank->inside[i] + 32
                                                                            : rank->inside[i]);
    lower[sizeof(lower) - 1] = '\0';
    for (size_t i = 0; i < MRD_COUNT(words); i++)
        if (strstr(lower, words[i]) != NULL)
            return true;
    return false;
}

/* Returns true if the rank still works, for example on a checkpoint, a compilation or an
 * evaluation. */
static bool
works(const look *l, const hang_member *member)
{
    return (member->r->idle.ns == 0 || member->r->state == MRD_HANG_DISK_WAIT ||
            says_so(member->r) ||
            mrd_local_diff(l->now, member->r->idle) - member->r->bound < FLOOR) &&
           mrd_local_diff(l->now, member->r->quiet) < l->h->o.busy;
}

/* Finds the rank R for which all other ranks wait, directly or indirectly. R is the only rank that
 * neither entered the call nor waits in another call. Every other rank that did not enter the call
 * waits in a call that R did not enter either. Returns NULL if there is no such rank. */
static const hang_member *
blocker(const look *l)
{
    const hang_member *found = NULL;
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        if (!did_enter(l, &l->m[i]) && open_op(l->m[i].r) == NULL) {
            found = &l->m[i];
            n++;
        }
    for (size_t i = 0; i < l->n && n == 1; i++) {
        const mrd_hang_op *op = open_op(l->m[i].r);

        if (!did_enter(l, &l->m[i]) && op != NULL && entered(found, op) + 1 != op->entered)
            n = 0;
    }
    return n == 1 ? found : NULL;
}

/* Returns true if a rank that did not enter the call is in another call, and the deadline of that
 * call has not passed yet. */
static bool
may_go_on(const look *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const mrd_hang_op *op = open_op(l->m[i].r);

        if (!did_enter(l, &l->m[i]) && op != NULL && !is_late(l, &l->m[i], op, limit_of(l, op)))
            return true;
    }
    return false;
}

/* Judges ranks that did not enter the call. Returns false if all ranks entered it. */
static bool
judge_not_entered(look *l)
{
    const hang_member *missing = NULL;
    size_t count = 0, inside = 0;
    char what[160];

    for (size_t i = 0; i < l->n; i++) {
        inside += did_enter(l, &l->m[i]) && mrd_hang_is_open(&l->m[i], &l->front);
        if (did_enter(l, &l->m[i]))
            continue;
        missing = &l->m[i];
        count++;
    }
    if (count == 0)
        return false;
    if (count > 1)
        missing = blocker(l);
    if (missing == NULL || 2 * inside <= l->n) {
        if (may_go_on(l)) {
            *l->ret_unsure = true;
            return true;
        }
        snprintf(what, sizeof(what), "%zu of %zu ranks are in %s, %zu did not enter it", inside,
                 l->n, l->front.name, count);
        refuse(l, what);
        return true;
    }
    if (open_op(missing->r) != NULL) {
        judge_elsewhere(l, missing, open_op(missing->r));
        return true;
    }
    if (works(l, missing)) {
        *l->ret_unsure = true;
        return true;
    }
    name(l, missing);
    snprintf(what, sizeof(what), "did not enter %s, in which the others wait", l->front.name);
    decide(l, MRD_HANG_NOT_ENTERED, what);
    return true;
}

/* Judges the case that all ranks are in the call. If exactly one rank uses another size than in its
 * previous call, this rank is the cause. Returns false otherwise. */
static bool
judge_size(look *l)
{
    const hang_member *other = NULL;
    size_t changed = 0;

    for (size_t i = 0; i < l->n; i++) {
        const mrd_hang_op *op = mrd_hang_op_of(l->m[i].r, &l->front);

        if (op->bytes == 0 || op->open != 1 || op->bytes_before == 0)
            return false;
        if (op->bytes == op->bytes_before)
            continue;
        changed++;
        other = &l->m[i];
    }
    if (changed != 1 || l->n < 3)
        return false;
    name(l, other);
    decide(l, MRD_HANG_OTHER, "has another size in this call than before, the others do not");
    return true;
}

/* Returns true if an event of this type runs in the process. `type` has `len` bytes. */
static bool
runs(const mrd_hang_rank *rank, const char *type, size_t len)
{
    for (const char *at = rank->running; *at != '\0';) {
        size_t n = strcspn(at, ",");

        if (n == len && memcmp(at, type, len) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* Returns true if an event of this type runs in all processes but one. Stores the index of that
 * process. */
static bool
lacks_one(const look *l, const char *type, size_t len, size_t *ret_one)
{
    size_t lack = 0;

    for (size_t i = 0; i < l->n; i++)
        if (!runs(l->m[i].r, type, len)) {
            *ret_one = i;
            lack++;
        }
    return lack == 1;
}

/* Appends to the reason what the runtime's trace shows if all ranks are in the same execution. In
 * this trace, one rank may not be in a collective that all others are in. That rank either did not
 * enter the collective or has left it already. So the trace proves nothing, and the verdict does
 * not name the rank as the cause. */
static void
add_trace(const look *l, char *what, size_t size)
{
    size_t at = strlen(what), one, len;

    if (strstr(l->front.name, "execute") == NULL)
        return;
    for (size_t i = 0; i < l->n; i++)
        if (l->m[i].r->running[0] == '\0') {
            snprintf(what + at, size - at,
                     "; whether a rank lacks in a collective is unknown, because the runtime's "
                     "trace of rank %lld %s",
                     (long long) l->m[i].r->rank,
                     l->m[i].r->traced ? "does not show this call" : "is not recorded");
            return;
        }
    /* an event type that runs in all processes but one runs in at least one of the first two, so
     * only their types are tried */
    for (size_t i = 0; i < 2 && i < l->n && l->n > 2; i++)
        for (const char *type = l->m[i].r->running; *type != '\0';
             type += len + (type[len] == ',')) {
            len = strcspn(type, ",");
            if (!lacks_one(l, type, len, &one))
                continue;
            snprintf(what + at, size - at, "; in the runtime's trace all but rank %lld are in %.*s",
                     (long long) l->m[one].r->rank, (int) len, type);
            return;
        }
}

static void
judge_inside(look *l)
{
    const hang_member *in = NULL;
    size_t inside = 0;
    char what[250];

    for (size_t i = 0; i < l->n; i++)
        if (mrd_hang_is_open(&l->m[i], &l->front)) {
            in = &l->m[i];
            inside++;
        }
    if (inside == l->n) {
        if (judge_size(l))
            return;
        snprintf(what, sizeof(what), "all %zu ranks are in %s, and none leaves it", l->n,
                 l->front.name);
        add_trace(l, what, sizeof(what));
        refuse(l, what);
        l->v->cls = MRD_HANG_ALL_STUCK;
        return;
    }
    snprintf(what, sizeof(what), "%zu of %zu ranks do not leave %s, which the others left", inside,
             l->n, l->front.name);
    if (inside > 1) {
        refuse(l, what);
        return;
    }
    for (size_t i = 0; i < l->n; i++)
        if (&l->m[i] != in && works(l, &l->m[i])) {
            *l->ret_unsure = true;
            return;
        }
    name(l, in);
    snprintf(what, sizeof(what), "does not leave %s, which the others left", l->front.name);
    decide(l, MRD_HANG_INSIDE, what);
}

/* ---- The judgement of a job ---- */

/* Judges a job that has no verdict yet. The caller adds the stacks. */
static bool
judge(look *l)
{
    char text[160];
    const char *why;

    if (!find_front(l))
        return !*l->ret_unsure;
    describe(l);
    l->all = l->n;
    drop_ended(l);
    l->v->ranks = l->n;
    if (!stands(l))
        return true;
    if (*l->ret_unsure)
        /* no judgement yet, because the last report of a node is outdated, and the node's next
         * report is needed */
        return false;
    if (judge_dead(l) || judge_unseen(l) || judge_stopped(l))
        return true;
    if ((why = incomplete(l, text)) != NULL || (why = incomparable(l, text)) != NULL) {
        if (mrd_local_diff(l->now, l->v->since) <
            (BLIND < l->h->o.unlearned ? BLIND : l->h->o.unlearned))
            return true;
        refuse(l, why);
        return true;
    }
    if (!judge_not_entered(l))
        judge_inside(l);
    return !*l->ret_unsure || l->v->cls != MRD_HANG_NO_VERDICT;
}

bool
mrd_hang_judge(mrd_hang *hang, hang_job *job, mrd_local_ns now, mrd_hang_verdict *ret_verdict)
{
    bool unsure = false;
    look l = { .h = hang, .now = now, .v = ret_verdict, .ret_unsure = &unsure };
    bool is_judged;

    ret_verdict->cls = MRD_HANG_NO_VERDICT;
    if (!collect(&l, job))
        return false;
    if (job->verdict.cls != MRD_HANG_NO_VERDICT && mrd_hang_is_over(l.m, l.n, &job->verdict))
        return true;
    is_judged = judge(&l);
    if (job->verdict.cls != MRD_HANG_NO_VERDICT && ret_verdict->cls == MRD_HANG_NO_VERDICT)
        return false;
    if (is_judged && ret_verdict->cls != MRD_HANG_NO_VERDICT)
        mrd_hang_choose_stacks(l.m, l.n, &l.front, l.v);
    return is_judged;
}
