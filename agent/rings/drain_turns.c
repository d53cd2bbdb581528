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

/* Returns the longest time before a ring is polled again. It is half of the time in which a million
 * events a second fill it, or more if the ring or its process has been silent for long. The first
 * event of a process wakes all its rings. */
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

/* A ring that fills slowly may fill up. It is polled again after a quarter of the longest time, or
 * when a million events a second would fill an eighth of it. */
static int64_t
poll_next(const ring *r, uint64_t n, mrd_local_ns now)
{
    int64_t max = poll_max(r, now);

    if (n > 0) {
        if (n * MRD_RING_UNIT > mrd_ring_borrow_info(r->reader)->data_len / 8)
            return MRD_WAIT_POLL_MIN;
        max = max / 4 < MRD_WAIT_POLL_MIN    ? MRD_WAIT_POLL_MIN
              : max / 4 < MRD_WAIT_POLL_BUSY ? max / 4
                                             : MRD_WAIT_POLL_BUSY;
    }
    return r->poll_ns * 2 < max ? r->poll_ns * 2 : max;
}

/* Sets the next poll. Times are multiples of the interval, so that rings share wake-ups. */
static void
plan(ring *r, uint64_t n, uint32_t budget, mrd_local_ns now)
{
    if (n > 0) {
        if (mrd_local_diff(now, r->proc->active_at) > MRD_WAIT_POLL_SLOW)
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
    r->poll_ns = poll_next(r, n, now);
    r->poll_at = (mrd_local_ns){ r->ended      ? INT64_MAX
                                 : n >= budget ? now.ns
                                               : (now.ns / r->poll_ns + 1) * r->poll_ns };
}

/* Reads the part that a predecessor processed, for spans that are still open there. */
static uint64_t
read_again(mrd_drain *p, ring *r, uint32_t budget, mrd_ring_step *ret_step, mrd_why *why)
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
        mrd_drain_again(p, r, &rec);
        *ret_step = MRD_RING_MORE;
        n++;
    }
}

/* Stores until when the owner was alive. */
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

/* Reads one ring, at most `budget` records. Returns their number. Sets *ret_gone if the ring was
 * removed. */
static uint64_t
drain(mrd_drain *p, ring *r, uint32_t budget, mrd_local_ns now, bool *ret_gone)
{
    mrd_ring_step step = MRD_RING_MORE;
    mrd_ring_event rec;
    mrd_why why = { 0 };
    uint64_t n = 0;

    *ret_gone = false;
    if (r->safe != 0)
        n = read_again(p, r, budget, &step, &why);
    /* The end is emitted in one turn, so that a commit contains all or none of it. */
    while (r->safe == 0 && (step == MRD_RING_MORE || step == MRD_RING_LOST) &&
           (mrd_ring_is_ending(r->reader) || (n += mrd_drain_plain(p, r, budget - n)) < budget)) {
        step = mrd_ring_next(r->reader, &rec, &why);
        if (step == MRD_RING_MORE)
            mrd_drain_record(p, r, &rec);
        else if (step == MRD_RING_LOST)
            mrd_drain_loss(p, r, &rec);
        else
            break;
        n++;
    }
    r->waits = r->waits || n > 0;
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
        return n;
    }
    r->ended = step == MRD_RING_END;
    save_last_use(r, step);
    r->caught_up = n < budget;
    if (r->ended)
        mrd_drain_blob_end(p, r);
    if (!p->o.hold && r->waits) {
        (void) mrd_ring_release(r->reader);
        r->waits = false;
    }
    if (r->ended && !r->waits) {
        mrd_drain_ring_remove(p, r);
        *ret_gone = true;
        return n;
    }
    if (n >= budget)
        p->more = true;
    plan(r, n, budget, now);
    return n;
}

/* Returns true if the ring's user has time left in this turn. At least one ring of a user is read,
 * however long it takes. */
static bool
has_time(mrd_drain *p, const ring *r)
{
    return p->users[r->user].spent_ns < MRD_DRAIN_TURN / (p->users_now == 0 ? 1 : p->users_now);
}

/* Returns true if the ring continues other rings of the process, and is read after them. */
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
drain_timed(mrd_drain *p, ring *r, uint32_t budget, mrd_local_ns now, int64_t *at, uint64_t *n)
{
    unsigned user = r->user;
    int64_t before = *at;
    bool gone = false;

    *n += drain(p, r, budget, now, &gone);
    *at = mrd_local_now().ns;
    p->users[user].spent_ns += *at - before;
    return gone;
}

void
mrd_drain_hold_process(mrd_drain *p, mrd_drain_process *process, bool hold)
{
    proc *pr = (proc *) process;

    (void) p;
    pr->held = hold;
    for (ring *r = pr->rings; r != NULL && !hold; r = r->next_of_proc)
        r->poll_at = (mrd_local_ns){ r->ended ? INT64_MAX : 0 };
}

void
mrd_drain_hold(mrd_drain *p, bool hold)
{
    for (size_t i = 0; i < p->n_rings && p->held && !hold; i++)
        p->rings[i]->poll_at = (mrd_local_ns){ p->rings[i]->ended ? INT64_MAX : 0 };
    p->held = hold;
}

/* Reads each ring once. The first one rotates, so that none is always last. A user without time
 * left continues in the next turn where it stopped. */
static uint64_t
drain_all(mrd_drain *p, mrd_local_ns now)
{
    uint32_t budget = p->o.budget == 0 ? BUDGET_DEFAULT : p->o.budget;
    size_t left = p->n_rings, i = p->n_rings == 0 ? 0 : p->turn++ % p->n_rings;
    int64_t at = mrd_local_now().ns;
    uint64_t n = 0;
    bool cut = false;

    p->more = false;
    for (unsigned u = 0; u < p->n_users; u++)
        p->users[u].spent_ns = 0;
    for (; left > 0 && p->n_rings > 0; left--) {
        bool gone = false;

        if (i >= p->n_rings)
            i = 0;
        if (p->held || p->rings[i]->proc->held) {
            p->rings[i]->poll_at = mrd_local_add(now, MRD_WAIT_RING_HELD);
        } else if (!mrd_local_after(p->rings[i]->poll_at, now) && comes_later(p->rings[i])) {
            ;
        } else if (!mrd_local_after(p->rings[i]->poll_at, now) && has_time(p, p->rings[i])) {
            gone = drain_timed(p, p->rings[i], budget, now, &at, &n);
        } else if (!mrd_local_after(p->rings[i]->poll_at, now) && !cut) {
            cut = p->more = true;
            p->turn = i;
        }
        if (!gone)
            i++; /* otherwise the last ring moved into its slot */
    }
    return n;
}

static void
sweep(mrd_drain *p, mrd_local_ns now)
{
    if (mrd_local_before(now, mrd_local_add(p->swept_at, MRD_WAIT_RING_SWEEP)))
        return;
    p->swept_at = now;
    mrd_drain_note_sweep(p);
    for (proc *pr = p->procs; pr != NULL; pr = pr->next)
        mrd_drain_sweep(p, pr, now, MRD_WAIT_SPAN_START);
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
mrd_drain_step(mrd_drain *p)
{
    mrd_local_ns now = mrd_local_now();

    mrd_drain_cross_step(p, now);
    (void) mrd_drain_lock(p, now);
    mrd_discover_step(p->discover, now, file_found, p);
    sweep(p, now);
    mrd_drain_open_step(p, now, mrd_drain_proc_orphan);
    for (proc *pr = p->procs; pr != NULL; pr = pr->next)
        mrd_drain_runtime_report_gaps(pr, now);
    return drain_all(p, now);
}

int64_t
mrd_drain_wait_ns(const mrd_drain *p)
{
    mrd_local_ns now = mrd_local_now(), next = mrd_discover_next(p->discover);

    if (p->more)
        return 0;
    if (mrd_local_before(mrd_local_add(p->swept_at, MRD_WAIT_RING_SWEEP), next))
        next = mrd_local_add(p->swept_at, MRD_WAIT_RING_SWEEP);
    for (size_t i = 0; i < p->n_rings; i++)
        if (mrd_local_before(p->rings[i]->poll_at, next))
            next = p->rings[i]->poll_at;
    return mrd_local_after(next, now) ? mrd_local_diff(next, now) : 0;
}

void
mrd_drain_finish(mrd_drain *p)
{
    mrd_local_ns end = mrd_local_add(mrd_local_now(), MRD_WAIT_RING_FINISH);
    uint64_t n, removed;
    size_t beyond;

    (void) mrd_drain_lock(p, mrd_local_now());
    mrd_drain_cross(p);
    do { /* completely read rings make room for rings that could not be open at the same time */
        beyond = p->rings_beyond;
        removed = p->counts.rings_removed;
        mrd_discover_all(p->discover, file_found, p);
        for (size_t i = 0; i < p->n_rings; i++)
            if (mrd_ring_owner(p->rings[i]->reader, NULL) == MRD_OWNER_DEAD)
                mrd_ring_assume_dead(p->rings[i]->reader);
        do {
            for (size_t i = 0; i < p->n_rings; i++)
                p->rings[i]->poll_at = (mrd_local_ns){ p->rings[i]->ended ? INT64_MAX : 0 };
            n = drain_all(p, mrd_local_now());
        } while (n > 0 || (p->more && mrd_local_before(mrd_local_now(), end)));
    } while (p->rings_beyond != beyond && p->counts.rings_removed != removed);
    for (proc *pr = p->procs; pr != NULL; pr = pr->next) {
        if (!p->o.hold)
            mrd_drain_runtime_flush(p, pr);
        for (ring *r = pr->rings; r != NULL && p->o.hold; r = r->next_of_proc)
            mrd_drain_text_end(p, r);
        if (p->log == NULL) /* otherwise a successor continues them */
            mrd_drain_flush_open(p, pr);
    }
}

static uint64_t
unsaved(const proc *pr)
{
    return pr->open.n - pr->open.n_saved;
}

void
mrd_drain_release(mrd_drain *p, mrd_drain_process *process)
{
    proc *pr = (proc *) process;

    bool has_rings = pr->rings != NULL;

    mrd_drain_note_release(p, pr); /* may free a process without rings */
    for (ring *r = has_rings ? pr->rings : NULL, *next; r != NULL; r = next) {
        next = r->next_of_proc;
        if (r->waits || (r->next_of_proc == NULL && pr->reported_unsaved != unsaved(pr)))
            mrd_drain_text_release(p, r);
        r->waits = false;
        if (r->ended)
            mrd_drain_ring_remove(p, r); /* the last ring removes the process as well */
    }
}

void
mrd_drain_positions(const mrd_drain *p, const mrd_drain_process *process,
                    void (*call)(void *self, uint64_t ring, uint64_t read), void *self)
{
    const proc *pr = (const proc *) process;

    mrd_drain_note_positions(p, pr, call, self);
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

            mrd_drain_text_left(p, (ring *) (uintptr_t) r, &left, &st.read);
            call(self, mrd_drain_ring_hash(r->file_name) ^ MRD_DRAIN_GAPS, left.gaps_done);
        }
    }
}

void
mrd_drain_unreported(const mrd_drain *p, const mrd_drain_process *process,
                     void (*call)(void *self, mrd_drop_cause cause, uint64_t n, mrd_local_ns first,
                                  mrd_local_ns last),
                     void *self)
{
    const proc *pr = (const proc *) process;

    (void) p;
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

    while (r != NULL && r->next_of_proc != NULL) /* the oldest ring, usually the main thread's */
        r = r->next_of_proc;
    return r == NULL ? pr->first
                     : (mrd_safe_open_claim){ process->ident.pid,
                                              mrd_ring_borrow_info(r->reader)->file_uid, r->device,
                                              r->inode };
}

double
mrd_drain_pressure(const mrd_drain *p, const mrd_drain_process *process)
{
    const proc *pr = (const proc *) process;
    double most = 0;

    (void) p;
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_stats st;
        double full;

        if (!r->waits)
            continue;
        mrd_ring_get_stats(r->reader, &st);
        if (r->given_back > st.tail) /* records that are kept for a successor do not count */
            st.tail = r->given_back;
        full = (double) (st.head - st.tail) / (double) mrd_ring_borrow_info(r->reader)->data_len;
        most = full > most ? full : most;
    }
    return most;
}

/* ---- Open, close, counts ---- */

/* Each ring is an open file. Half of the allowed files are for other uses. */
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
    mrd_drain *p = calloc(1, sizeof(*p));
    mrd_ident self;
    struct stat st;
    mrd_err err = MRD_NOMEM;

    if (p == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "drain");
    p->o = *options;
    p->rings_max = rings_max();
    p->instance_id = strdup(options->instance_id == NULL ? "unknown" : options->instance_id);
    p->lock_fd = -1;
    p->ring_dir = strdup(options->ring_dir == NULL ? mrd_ring_dir() : options->ring_dir);
    p->job = strdup(options->job == NULL ? "" : options->job);
    p->proc_root = strdup(options->proc_root == NULL ? "/proc" : options->proc_root);
    if (stat("/proc/self/ns/pid", &st) == 0)
        p->pid_ns = st.st_ino;
    if (mrd_ident_read(NULL, getpid(), &self, NULL) == MRD_OK)
        p->timens_ns = self.timens_monotonic_ns;
    if (p->instance_id != NULL && p->job != NULL && p->ring_dir != NULL && p->proc_root != NULL &&
        (err = mrd_drain_owners_init(p)) == MRD_OK && (err = mrd_drain_cross_init(p)) == MRD_OK)
        err = mrd_drain_open_begin(p, why);
    if (err == MRD_OK)
        err = mrd_discover_open(options->ring_dir == NULL ? mrd_ring_dir() : options->ring_dir,
                                p->proc_root, options->containers, &p->discover, why);
    if (err != MRD_OK) {
        mrd_drain_close(p);
        return mrd_why_set(why, err, 0, "drain");
    }
    *ret_drain = p;
    return MRD_OK;
}

void
mrd_drain_close(mrd_drain *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n_rings; i++) {
        mrd_ring_close(p->rings[i]->reader);
        mrd_ring_map_close(&p->rings[i]->map);
        mrd_drain_ring_forget(p->rings[i]);
        free(p->rings[i]);
    }
    for (proc *pr = p->procs, *next; pr != NULL; pr = next) {
        next = pr->next;
        mrd_drain_proc_free(p, pr);
    }
    mrd_drain_notes_fini(p);
    mrd_discover_close(p->discover);
    mrd_drain_open_end(p);
    mrd_drain_unlock(p);
    free(p->ring_dir);
    mrd_drain_owners_fini(p);
    mrd_args_free(p->args);
    free(p->rings);
    mrd_index_fini(&p->by_name);
    free(p->users);
    mrd_drain_cross_fini(p);
    free(p->instance_id);
    free(p->job);
    free(p->proc_root);
    free(p);
}

/* Losses that a live ring has counted without a record yet are included in the sums. */
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
mrd_drain_counts(const mrd_drain *p, mrd_drain_tally *ret_counts)
{
    *ret_counts = p->counts;
    for (size_t i = 0; i < p->n_rings; i++)
        ret_counts->begun += unreported(p->rings[i], ret_counts->dropped);
    for (const proc *pr = p->procs; pr != NULL; pr = pr->next)
        ret_counts->held += mrd_drain_runtime_held(pr);
}

bool
mrd_drain_stands_back(const mrd_drain *p)
{
    return p->stands_back;
}

int
mrd_drain_fd(const mrd_drain *p)
{
    return mrd_discover_fd(p->discover);
}

void
mrd_drain_each(const mrd_drain *p, void (*call)(void *self, mrd_drain_process *process), void *self)
{
    for (proc *pr = p->procs, *next; pr != NULL; pr = next) {
        next = pr->next;
        call(self, &pr->pub);
    }
}

void
mrd_drain_say(const mrd_drain *p, void (*say)(void *self, const char *message), void *self)
{
    unsigned denied = mrd_discover_denied(p->discover), env = 0;
    char text[512];

    for (const proc *pr = p->procs; pr != NULL; pr = pr->next)
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
    if (p->foreign_uid > 0) {
        snprintf(text, sizeof(text),
                 "%u ring%s removed: the process that it names belongs to another user",
                 p->foreign_uid, mrd_plural(p->foreign_uid));
        say(self, text);
    }
    if (p->counts.files_refused > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu64 " file%s with the name of a ring refused, the last: %.400s",
                 p->counts.files_refused, mrd_plural(p->counts.files_refused), p->last_refused);
        say(self, text);
    }
    if (p->rings_beyond > 0) {
        snprintf(text, sizeof(text),
                 "more rings exist than the agent, or one user beside others, may have open (%zu "
                 "at one time); %zu time%s one was not opened and its events were not recorded: "
                 "allow the agent more open files (ulimit -n)",
                 p->rings_max, p->rings_beyond, mrd_plural(p->rings_beyond));
        say(self, text);
    }
    if (p->counts.rings_bad > 0) {
        snprintf(text, sizeof(text), "%" PRIu64 " damaged ring%s retired, the first: %s",
                 p->counts.rings_bad, mrd_plural(p->counts.rings_bad), p->first_bad);
        say(self, text);
    }
}
