/* agent/rings/drain_turns.c - reads the rings of the node in turns (agent/rings/drain.h) */
#include "agent/rings/drain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/rings/blobs.h"
#include "agent/rings/drain_int.h"
#include "agent/rings/drain_processes.h"
#include "agent/rings/drain_rings.h"
#include "agent/rings/identify.h"
#include "agent/rings/loss_count.h"
#include "agent/rings/ring_memory.h"
#include "agent/rings/ring_notes.h"
#include "agent/rings/ring_tracks.h"
#include "base/conf/agent_waits.h"
#include "base/num.h"

#define BUDGET_DEFAULT 8192u
/* ---- Draining ---- */

/* Returns the longest time until a ring is polled again, in ns. At a million events per second, the
 * ring would be half full after this time. The time is longer for a silent ring or process. When a
 * silent process writes an event, all its rings are polled soon. */
static int64_t
poll_max(const ring *r, mrd_local_ns now)
{
    int64_t ns = (int64_t) (mrd_ring_borrow_info(r->reader)->data_len / MRD_RING_UNIT) * 500;

    if (mrd_local_diff(now, r->proc->active_at) > MRD_WAIT_RING_SILENT)
        ns = ns < MRD_WAIT_POLL_SLOW / 8 ? ns * 8 : MRD_WAIT_POLL_SLOW;
    else if (r->read_at.ns == 0 && ns < MRD_WAIT_POLL_QUIET)
        ns = MRD_WAIT_POLL_QUIET;
    return ns < 2 * MRD_WAIT_POLL_MIN ? 2 * MRD_WAIT_POLL_MIN
           : ns > MRD_WAIT_POLL_SLOW  ? MRD_WAIT_POLL_SLOW
                                      : ns;
}

/* Returns the time until a ring that no session wants is polled again, in ns. The time doubles only
 * if the new records filled a small part of the ring. Otherwise a steady stream of records could
 * overrun the ring. */
static int64_t
poll_unwanted(const ring *r, uint64_t n)
{
    bool is_small = n * MRD_RING_UNIT <= mrd_ring_borrow_info(r->reader)->data_len / 32;

    return is_small && r->poll_ns * 2 < MRD_WAIT_POLL_SLOW ? r->poll_ns * 2
           : is_small                                      ? MRD_WAIT_POLL_SLOW
                                                           : r->poll_ns;
}

/* Returns the time until the ring is polled again, in ns. `n` is the number of new records. The
 * time doubles up to a limit:
 * - For a ring without new records, the limit is poll_max().
 * - For a ring with new records, the limit is at most a quarter of poll_max(), because the ring may
 *   fill up.
 * - If the new records fill more than an eighth of the ring, it is polled as soon as possible. */
static int64_t
poll_next(const ring *r, uint64_t n, mrd_local_ns now)
{
    int64_t max = poll_max(r, now);

    if (r->proc->unwanted && n * MRD_RING_UNIT <= mrd_ring_borrow_info(r->reader)->data_len / 8)
        return poll_unwanted(r, n);
    if (n > 0) {
        if (n * MRD_RING_UNIT > mrd_ring_borrow_info(r->reader)->data_len / 8)
            return MRD_WAIT_POLL_MIN;
        max = max / 4 < MRD_WAIT_POLL_MIN    ? MRD_WAIT_POLL_MIN
              : max / 4 < MRD_WAIT_POLL_BUSY ? max / 4
                                             : MRD_WAIT_POLL_BUSY;
    }
    return r->poll_ns * 2 < max ? r->poll_ns * 2 : max;
}

/* Sets the time of the ring's next poll to a multiple of its poll interval, so that rings with the
 * same interval are polled together. */
static void
plan(ring *r, uint64_t count, uint32_t budget, mrd_local_ns now)
{
    if (count > 0) {
        if (mrd_local_diff(now, r->proc->active_at) > MRD_WAIT_POLL_SLOW && !r->proc->unwanted)
            for (ring *other = r->proc->rings; other != NULL; other = other->next_of_proc)
                if (mrd_local_after(other->poll_at, mrd_local_add(now, MRD_WAIT_POLL_MIN)) &&
                    !other->ended) {
                    other->poll_at = mrd_local_add(now, MRD_WAIT_POLL_MIN);
                    other->poll_ns = MRD_WAIT_POLL_MIN;
                }
        r->proc->active_at = r->read_at = now;
    } else {
        if (r->read_at.ns != 0 && mrd_local_diff(now, r->read_at) > MRD_WAIT_RING_SILENT) {
            mrd_ring_map_rest(&r->map);
            r->read_at = (mrd_local_ns){ 0 };
        }
    }
    r->poll_ns = poll_next(r, count, now);
    r->poll_at = (mrd_local_ns){ r->ended          ? INT64_MAX
                                 : count >= budget ? now.ns
                                                   : (now.ns / r->poll_ns + 1) * r->poll_ns };
}

/* Reads the records that a previous agent already processed, to restore the spans that were open in
 * them. */
static uint64_t
read_again(mrd_drain *drain, ring *r, uint32_t budget, mrd_ring_step *ret_step, mrd_why *why)
{
    mrd_ring_event rec;
    mrd_ring_stats st;
    uint64_t n = 0;

    *ret_step = MRD_RING_MORE;
    for (;;) {
        mrd_ring_get_stats(r->reader, &st);
        if (st.read >= r->safe)
            r->safe = 0;
        if (r->safe == 0 || n == budget)
            return n;
        *ret_step = mrd_ring_next(r->reader, &rec, why);
        if (*ret_step != MRD_RING_MORE && *ret_step != MRD_RING_LOST)
            return n;
        mrd_drain_again(drain, r, &rec);
        *ret_step = MRD_RING_MORE;
        n++;
    }
}

/* Stores the time of the newest record in a ring that was read to its end. The process certainly
 * existed at that time. */
static void
save_last_use(ring *r, mrd_ring_step step)
{
    mrd_ring_stats st;
    mrd_local_ns newest;

    r->proc->seen_alive = r->proc->seen_alive || step == MRD_RING_AGAIN;
    if (step != MRD_RING_END)
        return;
    mrd_ring_get_stats(r->reader, &st);
    newest.ns = mrd_sat_add(st.newest.ns, r->proc->shift_ns);
    if (st.newest.ns != 0 && mrd_local_after(newest, r->proc->newest))
        r->proc->newest = newest;
}

/* Reads at most `budget` records of one ring. Returns the number of records read. Sets *ret_gone if
 * the ring was removed. */
static uint64_t
drain(mrd_drain *p, ring *r, uint32_t budget, mrd_local_ns now, bool *ret_gone)
{
    mrd_ring_step step = MRD_RING_MORE;
    mrd_ring_event rec;
    mrd_why why = { 0 };
    uint64_t count = 0;

    *ret_gone = false;
    if (r->safe != 0)
        count = read_again(p, r, budget, &step, &why);
    /* A ring that ends is read without a limit on the number of records. A commit then contains
     * either all of its end or nothing of it. */
    while (r->safe == 0 && (step == MRD_RING_MORE || step == MRD_RING_LOST) &&
           (mrd_ring_is_ending(r->reader) ||
            (count += mrd_drain_plain(p, r, budget - count)) < budget)) {
        step = mrd_ring_next(r->reader, &rec, &why);
        if (step == MRD_RING_MORE)
            mrd_drain_record(p, r, &rec);
        else if (step == MRD_RING_LOST)
            mrd_drain_loss(p, r, &rec);
        else
            break;
        count++;
    }
    r->waits = r->waits || count > 0;
    if (step != MRD_RING_BAD && !mrd_drain_memory_note(p, r)) {
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "%s: what user %u makes the agent keep (names, open spans, texts) exceeds the "
                    "user's part of --advanced.ring-memory",
                    r->file_name, (unsigned) p->users[r->user].uid);
        step = MRD_RING_BAD;
    }
    if (step == MRD_RING_BAD) {
        mrd_drain_ring_retire(p, r, &why);
        *ret_gone = true;
        return count;
    }
    r->ended = step == MRD_RING_END;
    save_last_use(r, step);
    r->caught_up = count < budget;
    if (r->ended)
        mrd_drain_blob_end(p, r);
    if (!p->o.hold && r->waits) {
        (void) mrd_ring_release(r->reader);
        r->waits = false;
    }
    if (r->ended && !r->waits) {
        mrd_drain_ring_remove(p, r);
        *ret_gone = true;
        return count;
    }
    if (count >= budget)
        p->more = true;
    plan(r, count, budget, now);
    return count;
}

/* Returns true if the ring's user has time left in this turn. Callers check this before each ring,
 * so each user gets at least one ring read. */
static bool
has_time(mrd_drain *drain, const ring *r)
{
    return drain->users[r->user].spent_ns <
           MRD_DRAIN_TURN / (drain->users_now == 0 ? 1 : drain->users_now);
}

/* Returns true if the ring must wait for older rings of its process. A ring that continues older
 * ones is read after them. */
static bool
comes_later(ring *r)
{
    int64_t created = mrd_ring_borrow_info(r->reader)->created.ns;

    if (!mrd_ring_borrow_info(r->reader)->rest || r->caught_up)
        return false;
    for (const ring *other = r->proc->rings; other != NULL; other = other->next_of_proc)
        if (other != r && !other->caught_up && !other->ended &&
            mrd_ring_borrow_info(other->reader)->created.ns < created)
            return true;
    return false;
}

static bool
drain_timed(mrd_drain *p, ring *r, uint32_t budget, mrd_local_ns now, int64_t *at,
            uint64_t *records)
{
    unsigned user = r->user;
    int64_t before = *at;
    bool gone = false;

    *records += drain(p, r, budget, now, &gone);
    *at = mrd_local_now().ns;
    p->users[user].spent_ns += *at - before;
    return gone;
}

static void
poll_now(proc *pr)
{
    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        r->poll_at = (mrd_local_ns){ r->ended ? INT64_MAX : 0 };
}

void
mrd_drain_hold_process(mrd_drain *drain, mrd_drain_process *process, bool hold)
{
    proc *pr = (proc *) process;

    (void) drain;
    pr->held = hold;
    if (!hold)
        poll_now(pr);
}

bool
mrd_drain_is_held(const mrd_drain *drain, const mrd_drain_process *process)
{
    return drain->held || ((const proc *) process)->held;
}

void
mrd_drain_want_process(mrd_drain *drain, mrd_drain_process *process, bool want)
{
    proc *pr = (proc *) process;

    (void) drain;
    if (pr->unwanted && want)
        poll_now(pr);
    pr->unwanted = !want;
}

void
mrd_drain_hold(mrd_drain *drain, bool hold)
{
    for (size_t i = 0; i < drain->n_rings && drain->held && !hold; i++)
        drain->rings[i]->poll_at = (mrd_local_ns){ drain->rings[i]->ended ? INT64_MAX : 0 };
    drain->held = hold;
}

bool
mrd_drain_is_unwanted(const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;
    bool ended = pr->rings == NULL;

    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        ended = ended || r->ended;
    return pr->unwanted && !ended;
}

/* Reads each ring once. Each turn begins with another ring, so that no ring is always last. If a
 * user has no time left, the next turn begins with that user's first unread ring. */
static uint64_t
drain_all(mrd_drain *drain, mrd_local_ns now)
{
    uint32_t budget = drain->o.budget == 0 ? BUDGET_DEFAULT : drain->o.budget;
    size_t left = drain->n_rings, i = drain->n_rings == 0 ? 0 : drain->turn++ % drain->n_rings;
    int64_t at = mrd_local_now().ns;
    uint64_t count = 0;
    bool cut = false;

    drain->more = false;
    for (unsigned u = 0; u < drain->n_users; u++)
        drain->users[u].spent_ns = 0;
    for (; left > 0 && drain->n_rings > 0; left--) {
        bool gone = false;

        if (i >= drain->n_rings)
            i = 0;
        if (drain->held || drain->rings[i]->proc->held) {
            drain->rings[i]->poll_at = mrd_local_add(now, MRD_WAIT_RING_HELD);
        } else if (!mrd_local_after(drain->rings[i]->poll_at, now) &&
                   comes_later(drain->rings[i])) {
            ;
        } else if (!mrd_local_after(drain->rings[i]->poll_at, now) &&
                   has_time(drain, drain->rings[i])) {
            gone = drain_timed(drain, drain->rings[i], budget, now, &at, &count);
        } else if (!mrd_local_after(drain->rings[i]->poll_at, now) && !cut) {
            cut = drain->more = true;
            drain->turn = i;
        }
        if (!gone)
            i++; /* otherwise the ring was removed, and the last ring moved into its slot */
    }
    return count;
}

static void
sweep(mrd_drain *drain, mrd_local_ns now)
{
    if (mrd_local_before(now, mrd_local_add(drain->swept_at, MRD_WAIT_RING_SWEEP)))
        return;
    drain->swept_at = now;
    mrd_drain_note_sweep(drain);
    for (proc *pr = drain->procs; pr != NULL; pr = pr->next)
        mrd_drain_sweep(drain, pr, now, MRD_WAIT_SPAN_START);
}

static mrd_err
file_found(void *self, unsigned dir, int dir_fd, const char *file_name)
{
    mrd_err err = mrd_drain_ring_found(self, dir, dir_fd, file_name);

    if (err != MRD_UNSUPPORTED)
        return err;
    mrd_drain_note_found(self, dir, dir_fd, file_name);
    return MRD_OK;
}

uint64_t
mrd_drain_step(mrd_drain *drain)
{
    mrd_local_ns now = mrd_local_now();

    mrd_drain_cross_step(drain, now);
    (void) mrd_drain_lock(drain, now);
    mrd_discover_step(drain->discover, now, file_found, drain);
    sweep(drain, now);
    mrd_drain_open_step(drain, now, mrd_drain_proc_orphan);
    for (proc *pr = drain->procs; pr != NULL; pr = pr->next)
        mrd_drain_runtime_report_gaps(pr, now);
    return drain_all(drain, now);
}

int64_t
mrd_drain_wait_ns(const mrd_drain *drain)
{
    mrd_local_ns now = mrd_local_now(), next = mrd_discover_next(drain->discover);

    if (drain->more)
        return 0;
    if (mrd_local_before(mrd_local_add(drain->swept_at, MRD_WAIT_RING_SWEEP), next))
        next = mrd_local_add(drain->swept_at, MRD_WAIT_RING_SWEEP);
    for (size_t i = 0; i < drain->n_rings; i++)
        if (mrd_local_before(drain->rings[i]->poll_at, next))
            next = drain->rings[i]->poll_at;
    return mrd_local_after(next, now) ? mrd_local_diff(next, now) : 0;
}

void
mrd_drain_finish(mrd_drain *drain)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), MRD_WAIT_RING_FINISH);
    uint64_t count, removed;
    size_t beyond;

    (void) mrd_drain_lock(drain, mrd_local_now());
    mrd_drain_cross(drain);
    do { /* repeat, because each removed ring makes room for a ring that was beyond the limit */
        beyond = drain->rings_beyond;
        removed = drain->counts.rings_removed;
        mrd_discover_all(drain->discover, file_found, drain);
        for (size_t i = 0; i < drain->n_rings; i++)
            if (mrd_ring_owner(drain->rings[i]->reader, NULL) == MRD_OWNER_DEAD)
                mrd_ring_assume_dead(drain->rings[i]->reader);
        do {
            for (size_t i = 0; i < drain->n_rings; i++)
                drain->rings[i]->poll_at = (mrd_local_ns){ drain->rings[i]->ended ? INT64_MAX : 0 };
            count = drain_all(drain, mrd_local_now());
        } while (count > 0 || (drain->more && mrd_local_before(mrd_local_now(), end)));
    } while (drain->rings_beyond != beyond && drain->counts.rings_removed != removed);
    for (proc *pr = drain->procs; pr != NULL; pr = pr->next) {
        if (!drain->o.hold)
            mrd_drain_runtime_flush(drain, pr);
        for (ring *r = pr->rings; r != NULL && drain->o.hold; r = r->next_of_proc)
            mrd_drain_text_end(drain, r);
        /* if there is a log of open spans, the next agent continues these spans */
        if (drain->log == NULL)
            mrd_drain_flush_open(drain, pr);
    }
}

static uint64_t
unsaved(const proc *pr)
{
    return pr->open.n - pr->open.n_saved;
}

void
mrd_drain_release(mrd_drain *drain, mrd_drain_process *process)
{
    proc *pr = (proc *) process;

    bool has_rings = pr->rings != NULL;

    /* this call may free a process without rings, which is then not used below */
    mrd_drain_note_release(drain, pr);
    for (ring *r = has_rings ? pr->rings : NULL, *next; r != NULL; r = next) {
        next = r->next_of_proc;
        if (r->waits || (r->next_of_proc == NULL && pr->reported_unsaved != unsaved(pr)))
            mrd_drain_text_release(drain, r);
        r->waits = false;
        if (r->ended)
            mrd_drain_ring_remove(drain, r); /* removing the last ring frees the process as well */
    }
}

void
mrd_drain_positions(const mrd_drain *drain, const mrd_drain_process *process,
                    void (*call)(void *self, uint64_t ring, uint64_t read), void *self)
{
    const proc *pr = (const proc *) process;

    mrd_drain_note_positions(drain, pr, call, self);
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_stats st;

        if (!r->waits)
            continue;
        mrd_ring_get_stats(r->reader, &st);
        call(self, mrd_drain_ring_hash(r->file_name), st.read);
        if (r->ended)
            call(self, mrd_drain_ring_hash(r->file_name) ^ MRD_DRAIN_ENDED, 1);
        if (r->texts != NULL) {
            mrd_ring_left left;

            mrd_drain_text_left(drain, (ring *) (uintptr_t) r, &left, &st.read);
            call(self, mrd_drain_ring_hash(r->file_name) ^ MRD_DRAIN_GAPS, left.gaps_done);
        }
    }
}

void
mrd_drain_unreported(const mrd_drain *drain, const mrd_drain_process *process,
                     void (*call)(void *self, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                                  mrd_local_ns last),
                     void *self)
{
    const proc *pr = (const proc *) process;

    (void) drain;
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        for (unsigned cause = 0; cause < MRD_RING_LOST_CAUSES; cause++) {
            int64_t first, last;
            uint64_t n = mrd_ring_unreported(r->reader, cause, &first, &last);

            if (n > 0)
                call(self, mrd_drain_cause(cause), n,
                     (mrd_local_ns){ mrd_sat_add(first, pr->shift_ns) },
                     (mrd_local_ns){ mrd_sat_add(last, pr->shift_ns) });
        }
}

mrd_safe_open_claim
mrd_drain_claim(const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;
    const ring *r = pr->rings;

    /* find the oldest ring, which is usually the ring of the main thread */
    while (r != NULL && r->next_of_proc != NULL)
        r = r->next_of_proc;
    return r == NULL ? pr->first
                     : (mrd_safe_open_claim){ process->ident.pid,
                                              mrd_ring_borrow_info(r->reader)->file_uid, r->device,
                                              r->inode };
}

double
mrd_drain_pressure(const mrd_drain *drain, const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;
    double most = 0;

    (void) drain;
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_stats st;
        double full;

        if (!r->waits)
            continue;
        mrd_ring_get_stats(r->reader, &st);
        /* records that are kept only for the next agent do not count as unread */
        if (r->given_back > st.tail)
            st.tail = r->given_back;
        full = (double) (st.head - st.tail) / (double) mrd_ring_borrow_info(r->reader)->data_len;
        most = full > most ? full : most;
    }
    return most;
}

/* ---- Open, close, counts ---- */

/* Returns the maximum number of rings. Each ring takes an open file, and half of the process's
 * files are left for other uses. */
static size_t
rings_max(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur / 2 > MRD_DRAIN_RINGS_MAX)
        return MRD_DRAIN_RINGS_MAX;
    return lim.rlim_cur / 2;
}

mrd_err
mrd_drain_open(const mrd_drain_options *options, mrd_drain **ret_drain, mrd_why *why)
{
    mrd_drain *drain = calloc(1, sizeof(*drain));
    mrd_ident self;
    struct stat st;
    mrd_err err = MRD_NOMEM;

    if (drain == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "drain");
    drain->o = *options;
    drain->rings_max = rings_max();
    drain->instance_id = strdup(options->instance_id == NULL ? "unknown" : options->instance_id);
    drain->lock_fd = -1;
    drain->ring_dir = strdup(options->ring_dir == NULL ? mrd_ring_dir() : options->ring_dir);
    drain->job = strdup(options->job == NULL ? "" : options->job);
    drain->proc_root = strdup(options->proc_root == NULL ? "/proc" : options->proc_root);
    if (stat("/proc/self/ns/pid", &st) == 0)
        drain->pid_ns = st.st_ino;
    if (mrd_ident_read(NULL, getpid(), &self, NULL) == MRD_OK)
        drain->timens_ns = self.timens_monotonic_ns;
    if (drain->instance_id != NULL && drain->job != NULL && drain->ring_dir != NULL &&
        drain->proc_root != NULL && (err = mrd_drain_owners_init(drain)) == MRD_OK &&
        (err = mrd_drain_cross_init(drain)) == MRD_OK)
        err = mrd_drain_open_begin(drain, why);
    if (err == MRD_OK)
        err = mrd_discover_open(options->ring_dir == NULL ? mrd_ring_dir() : options->ring_dir,
                                drain->proc_root, options->containers, &drain->discover, why);
    if (err != MRD_OK) {
        mrd_drain_close(drain);
        return mrd_why_set(why, err, 0, "drain");
    }
    *ret_drain = drain;
    return MRD_OK;
}

void
mrd_drain_close(mrd_drain *drain)
{
    if (drain == NULL)
        return;
    for (size_t i = 0; i < drain->n_rings; i++) {
        mrd_ring_close(drain->rings[i]->reader);
        mrd_ring_map_close(&drain->rings[i]->map);
        mrd_drain_ring_forget(drain->rings[i]);
        free(drain->rings[i]);
    }
    for (proc *pr = drain->procs, *next; pr != NULL; pr = next) {
        next = pr->next;
        mrd_drain_proc_free(drain, pr);
    }
    mrd_drain_notes_fini(drain);
    mrd_discover_close(drain->discover);
    mrd_drain_open_end(drain);
    mrd_drain_unlock(drain);
    free(drain->ring_dir);
    mrd_drain_owners_fini(drain);
    mrd_args_free(drain->args);
    free(drain->rings);
    mrd_index_fini(&drain->by_name);
    free(drain->users);
    mrd_drain_cross_fini(drain);
    free(drain->instance_id);
    free(drain->job);
    free(drain->proc_root);
    free(drain);
}

/* Adds the losses that a ring has counted in its header and not yet reported in a record. Returns
 * their sum. */
static uint64_t
unreported(const ring *r, uint64_t dropped[MRD_DROP_CAUSES])
{
    mrd_ring_stats st;

    mrd_ring_get_stats(r->reader, &st);
    if (st.lost_total <= st.reported)
        return 0;
    dropped[MRD_DROP_RING_FULL] += st.lost_total - st.reported;
    return st.lost_total - st.reported;
}

void
mrd_drain_counts(const mrd_drain *drain, mrd_drain_tally *ret_counts)
{
    *ret_counts = drain->counts;
    for (size_t i = 0; i < drain->n_rings; i++)
        ret_counts->begun += unreported(drain->rings[i], ret_counts->dropped);
    for (const proc *pr = drain->procs; pr != NULL; pr = pr->next)
        ret_counts->held += mrd_drain_runtime_held(pr);
}

bool
mrd_drain_stands_back(const mrd_drain *drain)
{
    return drain->stands_back;
}

int
mrd_drain_fd(const mrd_drain *drain)
{
    return mrd_discover_fd(drain->discover);
}

void
mrd_drain_each(const mrd_drain *drain, void (*call)(void *self, mrd_drain_process *process),
               void *self)
{
    for (proc *pr = drain->procs, *next; pr != NULL; pr = next) {
        next = pr->next;
        call(self, &pr->pub);
    }
}

void
mrd_drain_say(const mrd_drain *drain, void (*say)(void *self, const char *message), void *self)
{
    unsigned denied = mrd_discover_denied(drain->discover), env = 0;
    char text[512];

    for (const proc *pr = drain->procs; pr != NULL; pr = pr->next)
        env += pr->pub.ident.env_denied;
    if (denied > 0) {
        snprintf(text, sizeof(text),
                 "%u process%s could not be searched for rings: permission denied (needs the same "
                 "user or CAP_SYS_PTRACE)",
                 denied, denied == 1 ? "" : "es");
        say(self, text);
    }
    if (env > 0) {
        snprintf(text, sizeof(text),
                 "the environment of %u process%s cannot be read: rank and job are taken from its "
                 "rings only",
                 env, env == 1 ? "" : "es");
        say(self, text);
    }
    if (drain->foreign_uid > 0) {
        snprintf(text, sizeof(text),
                 "%u ring%s removed: the process that it names belongs to another user",
                 drain->foreign_uid, mrd_plural(drain->foreign_uid));
        say(self, text);
    }
    if (drain->counts.files_refused > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu64 " file%s with the name of a ring refused, the last: %.400s",
                 drain->counts.files_refused, mrd_plural(drain->counts.files_refused),
                 drain->last_refused);
        say(self, text);
    }
    if (drain->rings_beyond > 0) {
        snprintf(text, sizeof(text),
                 "more rings exist than the agent, or one user beside others, may have open (%zu "
                 "at one time); %zu time%s one was not opened and its events were not recorded: "
                 "allow the agent more open files (ulimit -n)",
                 drain->rings_max, drain->rings_beyond, mrd_plural(drain->rings_beyond));
        say(self, text);
    }
    if (drain->counts.rings_bad > 0) {
        snprintf(text, sizeof(text), "%" PRIu64 " damaged ring%s retired, the first: %s",
                 drain->counts.rings_bad, mrd_plural(drain->counts.rings_bad), drain->first_bad);
        say(self, text);
    }
}
