#include "capture/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "capture/identity.h"
#include "capture/ring/print.h"
#include "capture/ring/ring_note.h"

/* Ticks until a thread without a ring tries again to get one. This is about a second or less,
 * because a tick is at most about a nanosecond. */
#define RETRY_TICKS (1ull << 30)
#define NOTE_TICKS  (1ull << 30) /* minimum ticks between two notes of lost events (ring_note.h) */
#define BUT         "recording, but "

/* The state of this process, which a fork must not copy. After a fork, the child reads zeros
 * here. */
typedef struct {
    /* Spin locks of the process's rings and of its list of models. Each holds the tid of the thread
     * that has the lock, or 0 if it is free. */
    _Atomic uint32_t lock, models_lock;
    uint32_t pid;           /* 0 if not initialized in this process */
    _Atomic uint32_t owner; /* pid of the process that uses this memory, 0 if unknown */
    uint32_t ids_from; /* serial number of the process's first ring; the ids of spans contain it */
    /* number of this process as returned by mrd_proc_mark; 0 before its first call */
    _Atomic uint32_t mark;
    mrd_ring_writer *all, *idle;
    /* ring in whose header threads without a ring count lost events */
    _Atomic(mrd_ring_hdr *) first;
    /* `unringed` is the number of lost events that neither the ring `first` nor a note
     * (ring_note.h) counts. `unringed_ticks` is the time of the first of them. */
    _Atomic uint64_t unringed, unringed_ticks;
    _Atomic uint64_t noted; /* lost events that notes on disk already count */
    uint64_t noted_last;    /* tick of the last note */
    _Atomic bool note_failed;
    _Atomic int no_ring;        /* errno value of the reason why the process has no ring at all */
    uint64_t retired_lost;      /* lost events of rings that were closed */
    _Atomic uint64_t said_lost; /* last result of mrd_proc_lost, which must never decrease */
    uint64_t total;             /* total size of the process's rings in bytes */
    mrd_own_identity id;
} process;

/* the writer of threads without a ring; its `ready` is always 0 */
static mrd_ring_writer no_writer;

_Thread_local mrd_ring_writer *mrd_tls_writer = &no_writer;
static _Thread_local bool tls_attaching __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t tls_retry __attribute__((tls_model("initial-exec")));
/* pid (proc->owner) for which tls_retry was set, so that a child of fork does not wait for its
 * parent's retry */
static _Thread_local uint32_t tls_retry_of __attribute__((tls_model("initial-exec")));
static _Thread_local size_t tls_want __attribute__((tls_model("initial-exec")));
static _Thread_local bool tls_rest __attribute__((tls_model("initial-exec")));

uint32_t mrd_gate;
mrd_ring_clock_id mrd_proc_clock = MRD_RING_CLOCK_RAW;
mrd_settings mrd_proc_settings;
mrd_proc_late_calls mrd_proc_late;
void (*mrd_proc_thread_leaves)(void);

static process before_init; /* used before the constructor has run, and if it ran out of memory */
static process *proc = &before_init;
/* A child of fork continues both counters, so that its ids differ from the ids of the parent's
 * spans. */
static uint32_t ring_count;
static _Atomic uint32_t marks;
static mrd_ring_cal load_cal;
static pthread_key_t exit_key;
static bool exit_key_made;
static unsigned sources;
static bool possible; /* true unless the environment forbids capture */
static _Atomic bool running, paused, gave_up;
static _Atomic bool stopped;   /* the program called the API to stop recording */
static _Atomic int asked = -1; /* the agent's request, see mrd_proc_set_asked */
static char gave_up_why[256], no_ring_why[300];

/* ---- the locks of the process, and memory from the system ------------------------------------ */

static uint32_t
own_tid(void)
{
    return (uint32_t) syscall(SYS_gettid);
}

static bool
take_lock(_Atomic uint32_t *lock)
{
    uint32_t tid = own_tid(), seen = 0;

    /* The acquire order pairs with the release store in unlock. */
    while (!atomic_compare_exchange_weak_explicit(lock, &seen, tid, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (seen == tid)
            return false;
        if (seen != 0)
            sched_yield();
        seen = 0;
    }
    return true;
}

bool
mrd_proc_lock(void)
{
    return take_lock(&proc->lock);
}

void
mrd_proc_unlock(void)
{
    atomic_store_explicit(&proc->lock, 0, memory_order_release);
}

bool
mrd_proc_lock_models(void)
{
    return take_lock(&proc->models_lock);
}

void
mrd_proc_unlock_models(void)
{
    atomic_store_explicit(&proc->models_lock, 0, memory_order_release);
}

void *
mrd_proc_map(size_t len, bool wipe)
{
    int saved = errno;
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p != MAP_FAILED && wipe && madvise(p, len, MADV_WIPEONFORK) != 0) {
        munmap(p, len);
        p = MAP_FAILED;
    }
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

/* ---- switching recording on and off ---------------------------------------------------------- */

static bool
is_on(void)
{
    return !paused && !gave_up && asked != 0 && (running || (asked == 1 && !stopped));
}

static void
set_gate(void)
{
    static _Atomic uint32_t was_on;
    uint32_t gate = is_on() ? sources : 0;

    if (gate != 0)
        was_on = MRD_PROC_WAS_ON;
    gate |= was_on;
    __atomic_store_n(&mrd_gate, gate, __ATOMIC_RELAXED);
}

void
mrd_proc_set_running(bool on)
{
    running = on;
    stopped = !on;
    set_gate();
}

bool
mrd_proc_set_asked(int now)
{
    int before = atomic_exchange(&asked, now);

    set_gate();
    return before != now;
}

void
mrd_proc_set_paused(bool on)
{
    paused = on;
    set_gate();
}

void
mrd_proc_set_sources(unsigned bits)
{
    sources = bits;
    set_gate();
}

unsigned
mrd_proc_get_sources(void)
{
    return sources;
}

bool
mrd_proc_gave_up(void)
{
    return gave_up;
}

bool
mrd_proc_paused(void)
{
    return paused;
}

/* Disables capture permanently and stores the reason. */
static void
proc_give_up(const char *why)
{
    mrd_print print;

    if (!atomic_exchange(&gave_up, true)) {
        print = mrd_print_to(gave_up_why, sizeof(gave_up_why));
        mrd_print_text(&print, "off: ");
        mrd_print_text(&print, why);
    }
    set_gate();
}

const char *
mrd_proc_status(void)
{
    bool on = is_on();
    bool has_ring = atomic_load_explicit(&proc->first, memory_order_relaxed) != NULL;
    const char *lacks = on && mrd_proc_late.lacks != NULL ? mrd_proc_late.lacks() : NULL;

    if (lacks != NULL)
        return lacks;
    return gave_up                                         ? gave_up_why
           : paused                                        ? "paused"
           : asked == 0                                    ? "paused by a session"
           : !on                                           ? "stopped"
           : !has_ring && atomic_load(&proc->no_ring) != 0 ? no_ring_why
                                                           : "recording";
}

bool
mrd_proc_possible(void)
{
    return !gave_up && possible;
}

/* ---- rings of threads ------------------------------------------------------------------------ */

/* Adds events that were lost before the first ring existed to the counters of that ring. */
static void
move_unringed(mrd_ring_hdr *first)
{
    uint64_t n = atomic_exchange_explicit(&proc->unringed, 0, memory_order_acq_rel);

    if (n > 0) {
        uint64_t since = atomic_load_explicit(&proc->unringed_ticks, memory_order_relaxed);

        mrd_ring_lose(first, MRD_RING_LOST_NORING, since, n);
        mrd_ring_lose(first, MRD_RING_LOST_NORING, mrd_ring_ticks(mrd_proc_clock), 0);
    }
}

static void
count_unringed(void)
{
    mrd_ring_hdr *first = atomic_load_explicit(&proc->first, memory_order_acquire);
    uint64_t now = mrd_ring_ticks(mrd_proc_clock), never = 0;

    if (first != NULL) {
        mrd_ring_lose(first, MRD_RING_LOST_NORING, now, 1);
        return;
    }
    (void) atomic_compare_exchange_strong(&proc->unringed_ticks, &never, now);
    (void) atomic_fetch_add(&proc->unringed, 1);
    /* Another thread may have made the first ring meanwhile, and called move_unringed before this
     * event was counted. */
    if ((first = atomic_load(&proc->first)) != NULL)
        move_unringed(first);
}

static void
add_losses(void *ctx, mrd_ring_writer *writer)
{
    uint64_t *sum = ctx;

    for (size_t i = 0; i < MRD_RING_LOST_CAUSES; i++)
        *sum += atomic_load_explicit(&writer->hdr->lost[i].count, memory_order_relaxed);
}

static uint64_t
round_up_pow2(uint64_t v)
{
    uint64_t p = MRD_RING_DATA_MIN;

    while (p < v && p < MRD_RING_DATA_MAX)
        p *= 2;
    return p;
}

static uint32_t
round_up_page(int64_t v)
{
    return (uint32_t) ((v + 4095) & ~4095ll);
}

/* Reads the identity of the process, for the header of its first ring. The caller holds the
 * lock. */
static void
begin_process(void)
{
    if (proc->pid != 0)
        return;
    mrd_identity_read(&proc->id);
    proc->id.claim.clock = mrd_proc_clock;
    proc->id.claim.load_cal = load_cal;
    proc->pid = (uint32_t) proc->id.claim.pid;
    atomic_store_explicit(&proc->owner, proc->pid, memory_order_relaxed);
    proc->ids_from = ring_count + 1;
}

/* Writes to the ring's dictionary which thread makes the following records. Uses the thread's name
 * in the kernel. */
static bool
name_thread(mrd_ring_writer *writer, int32_t tid)
{
    char name[17] = "";

    (void) prctl(PR_GET_NAME, name);
    return mrd_ring_define_thread(writer, tid, name, strlen(name));
}

/* Retires a ring with a full dictionary, so no thread uses it again. The caller holds the
 * lock. */
static void
retire_ring(mrd_ring_writer *writer)
{
    mrd_ring_writer **link = &proc->all;

    if (atomic_load_explicit(&proc->first, memory_order_relaxed) == writer->hdr)
        return; /* threads without a ring count their lost events in this ring's header */
    if (atomic_load_explicit(&writer->hdr->reader_pid, memory_order_relaxed) != 0)
        proc->total -= writer->map_len; /* the ring's reader removes it */
    while (*link != NULL && *link != writer)
        link = &(*link)->next_all;
    if (*link == writer)
        *link = writer->next_all;
    add_losses(&proc->retired_lost, writer);
    mrd_ring_finish(writer);
    munmap(writer, sizeof(*writer));
}

/* Takes a ring from the list of idle rings. If `data_len` is above the ordinary ring size, the ring
 * has at least this size. Returns NULL if there is no such ring. The caller holds the lock. */
static mrd_ring_writer *
take_idle(uint64_t data_len, int32_t tid)
{
    uint64_t ordinary = round_up_pow2((uint64_t) mrd_proc_settings.ring_size);
    mrd_ring_writer **link = &proc->idle, *writer;

    while ((writer = *link) != NULL) {
        if (data_len > ordinary && writer->mask + 1 < data_len) {
            link = &writer->next_free;
            continue;
        }
        *link = writer->next_free;
        if (name_thread(writer, tid)) {
            atomic_store_explicit(&writer->hdr->state, MRD_RING_LIVE, memory_order_relaxed);
            return writer;
        }
        retire_ring(writer);
    }
    return NULL;
}

static void
say_no_ring(int err)
{
    mrd_print print = mrd_print_to(no_ring_why, sizeof(no_ring_why));
    const char *reason = mrd_ring_note_reason(err);

    mrd_print_text(&print, BUT "cannot make rings in ");
    mrd_print_bytes(&print, mrd_proc_settings.ring_dir, strnlen(mrd_proc_settings.ring_dir, 100));
    mrd_print_text(&print, ": ");
    mrd_print_text(&print, reason == NULL ? "error " : reason);
    if (reason == NULL)
        mrd_print_u64(&print, (uint64_t) err);
}

/* Returns true if the error is temporary, so that a later attempt to make a ring may succeed. After
 * any other error, the process records nothing any more. */
static bool
may_pass(int err)
{
    return err == ENOSPC || err == EDQUOT || err == EFBIG || err == EMFILE || err == ENFILE ||
           err == ENOMEM || err == ENOBUFS;
}

/* Writes the number of lost events to a note next to the rings (ring_note.h), because this process
 * has no ring for it. The caller holds the lock. */
static void
note_losses(void)
{
    const mrd_ring_owner_claim *claim = &proc->id.claim;
    mrd_ring_name name = { .pid = claim->pid, .start_ticks = claim->start_ticks };
    uint64_t since = atomic_exchange(&proc->unringed_ticks, 0);
    mrd_ring_note note = { .count = atomic_exchange(&proc->unringed, 0),
                           .why = (uint64_t) atomic_load(&proc->no_ring),
                           .pid_ns = claim->pid_ns,
                           .timens_monotonic_ns = claim->timens_monotonic_ns,
                           .timens_boottime_ns = claim->timens_boottime_ns,
                           .ident = { claim->ident, claim->ident_len } };
    mrd_ring_cal now;
    int64_t ago;

    if (note.count == 0)
        return;
    mrd_ring_cal_read(mrd_proc_clock, &now);
    since = since != 0 ? since : proc->noted_last;
    ago = mrd_proc_ticks_ns((int64_t) (now.ticks - since), &now);
    note.last.ns = now.raw_ns;
    note.first.ns = ago < 0 ? now.raw_ns : ago > now.raw_ns ? 0 : now.raw_ns - ago;
    memcpy(name.boot_id, claim->boot_id, sizeof(name.boot_id));
    atomic_store(&proc->note_failed,
                 mrd_ring_note_add(mrd_proc_settings.ring_dir, &name, &note) != 0);
    if (!atomic_load(&proc->note_failed)) {
        (void) atomic_fetch_add(&proc->noted, note.count);
    } else {
        (void) atomic_fetch_add(&proc->unringed, note.count);
        atomic_store(&proc->unringed_ticks, since);
    }
    proc->noted_last = now.ticks;
}

/* Makes a ring. The caller holds the lock. Returns 0 or an errno value; ENOBUFS means that the
 * rings of the process have reached their memory limit. */
static int
make_ring(uint64_t data_len, int32_t tid, mrd_ring_writer **ret_writer)
{
    uint32_t dict_len = round_up_page(mrd_proc_settings.ring_dict);
    uint64_t len = MRD_RING_HEADER_LEN + dict_len + data_len;
    mrd_ring_owner_claim *claim = &proc->id.claim;
    mrd_ring_writer *writer;
    int err;

    if (proc->total + len > (uint64_t) mrd_proc_settings.ring_total)
        return ENOBUFS;
    if ((writer = mrd_proc_map(sizeof(*writer), true)) == NULL)
        return ENOMEM;
    claim->rest = tls_rest;
    err = mrd_ring_create(writer, mrd_proc_settings.ring_dir, claim, tid, data_len, dict_len);
    if (err != 0) {
        munmap(writer, sizeof(*writer));
        return err;
    }
    (void) name_thread(writer, tid);
    proc->total += writer->map_len;
    writer->serial = ++ring_count;
    writer->ids_from = (uint64_t) proc->ids_from << 44;
    writer->next_all = proc->all;
    proc->all = writer;
    *ret_writer = writer;
    return 0;
}

/* Returns true if the number of lost events has doubled since the last note. If the program is
 * killed, the note then has at least half of the number. */
static bool
owes_note(void)
{
    return atomic_load_explicit(&proc->no_ring, memory_order_relaxed) != 0 &&
           !atomic_load_explicit(&proc->note_failed, memory_order_relaxed) &&
           atomic_load_explicit(&proc->unringed, memory_order_relaxed) >
               atomic_load_explicit(&proc->noted, memory_order_relaxed);
}

/* Stores the reason why the process has no ring at all, and from time to time writes a note with
 * the number of lost events. The caller holds the lock. */
static void
do_without_rings(int err, uint64_t now)
{
    bool is_first = atomic_exchange(&proc->no_ring, err) == 0;

    if (is_first)
        say_no_ring(err);
    if (!may_pass(err))
        proc_give_up(no_ring_why + sizeof(BUT) - 1);
    if (is_first || !may_pass(err) || now - proc->noted_last > NOTE_TICKS)
        note_losses();
}

static mrd_ring_writer *
get_ring(uint64_t now)
{
    uint64_t data_len =
        round_up_pow2(tls_want != 0 ? tls_want : (uint64_t) mrd_proc_settings.ring_size);
    int32_t tid = (int32_t) own_tid();
    mrd_ring_writer *writer = NULL;
    int err = 0;

    begin_process();
    if (tls_rest || (writer = take_idle(data_len, tid)) == NULL)
        err = make_ring(data_len, tid, &writer);
    if (writer == NULL)
        count_unringed();
    if (writer == NULL && proc->all == NULL)
        do_without_rings(err, now);
    if (writer != NULL && atomic_load_explicit(&proc->first, memory_order_relaxed) == NULL) {
        atomic_store(&proc->first, writer->hdr);
        move_unringed(writer->hdr);
    }
    return writer;
}

/* Returns true in the child of a vfork. Such a child runs in its parent's memory, and the parent
 * later continues there with the child's changes. A ring that the child made would have the wrong
 * owner. */
static bool
is_in_parents_memory(void)
{
    uint32_t owner = atomic_load_explicit(&proc->owner, memory_order_relaxed);

    return owner != 0 && owner != (uint32_t) getpid();
}

mrd_ring_writer *
mrd_proc_attach(void)
{
    uint64_t now = mrd_ring_ticks(mrd_proc_clock);
    int saved = errno;
    mrd_ring_writer *writer = NULL;
    bool was_counted = false, may_ask = now >= tls_retry || tls_retry_of != proc->owner;

    if (!tls_attaching && !gave_up && (may_ask || owes_note()) && !is_in_parents_memory()) {
        tls_attaching = true;
        mrd_ring_fence();
        /* mrd_proc_lock fails in a signal handler that interrupted the holder. The next event tries
         * again. */
        if (mrd_proc_lock()) {
            if (may_ask)
                writer = get_ring(now);
            else if (proc->all == NULL)
                note_losses();
            mrd_proc_unlock();
            was_counted = writer == NULL && may_ask;
            tls_retry = was_counted ? now + RETRY_TICKS : tls_retry;
            tls_retry_of = proc->owner;
        }
        if (writer != NULL) {
            mrd_tls_writer = writer;
            mrd_proc_at_thread_exit();
        }
        mrd_ring_fence();
        tls_attaching = false;
    }
    if (writer == NULL && !was_counted)
        count_unringed();
    errno = saved;
    return writer;
}

/* Called when the program exits normally. Writes the events lost since the last note to a note. */
__attribute__((destructor)) static void
note_last_losses(void)
{
    if (proc->pid == 0 || is_in_parents_memory() || !mrd_proc_lock())
        return;
    if (proc->all == NULL)
        note_losses();
    mrd_proc_unlock();
}

/* Called when a thread ends. Records the scopes that the thread left open, because the next thread
 * that gets this ring needs their slots in the header. */
static void
close_scopes(mrd_ring_writer *writer)
{
    for (uint32_t i = 0; i < writer->depth && i < MRD_RING_OPEN_MAX; i++) {
        const mrd_ring_scope *scope = &writer->hdr->open[i];
        uint64_t ts = atomic_load_explicit(&scope->ts, memory_order_relaxed);
        uint64_t nd = atomic_load_explicit(&scope->name_domain, memory_order_relaxed);
        uint64_t tf = atomic_load_explicit(&scope->track_flags, memory_order_relaxed);
        mrd_ring_rec *rec = ts == 0 ? NULL : mrd_ring_reserve(writer, ts);

        if (rec == NULL)
            continue;
        *rec = (mrd_ring_rec){ .kind = MRD_REC_BEGIN, .flags = (uint8_t) tf, .units = 1 };
        rec->name = (uint32_t) (nd >> 32);
        rec->ts = ts;
        rec->value = mrd_rec_next_id(writer);
        rec->domain = (uint32_t) nd;
        rec->track = (uint32_t) (tf >> 32);
        mrd_ring_commit(writer, MRD_RING_UNIT);
    }
    writer->depth = 0;
    atomic_store_explicit(&writer->hdr->depth, 0, memory_order_relaxed);
}

static void
leave_ring(mrd_ring_writer *writer)
{
    mrd_tls_writer = &no_writer;
    mrd_ring_fence();
    close_scopes(writer);
    atomic_store_explicit(&writer->hdr->state, MRD_RING_IDLE, memory_order_relaxed);
    if (mrd_proc_lock()) {
        writer->next_free = proc->idle;
        proc->idle = writer;
        mrd_proc_unlock();
    }
}

/* Called when a thread ends. Makes its ring available to another thread. A child of fork has no
 * rings to release. */
static void
thread_exit(void *arg)
{
    (void) arg;
    if (mrd_proc_thread_leaves != NULL)
        mrd_proc_thread_leaves();
    if (mrd_tls_writer->ready)
        leave_ring(mrd_tls_writer);
}

void
mrd_proc_at_thread_exit(void)
{
    if (exit_key_made)
        (void) pthread_setspecific(exit_key, &no_writer);
}

void
mrd_proc_each_ring(void (*fn)(void *ctx, mrd_ring_writer *writer), void *ctx)
{
    if (!mrd_proc_lock())
        return;
    for (mrd_ring_writer *writer = proc->all; writer != NULL; writer = writer->next_all)
        if (writer->ready)
            fn(ctx, writer);
    mrd_proc_unlock();
}

/* Adds up the lost events of all rings. The sum may miss events that move_unringed moves at this
 * moment. In a signal handler that cannot take the lock, it also misses the losses of rings. The
 * result still never decreases, because the highest result so far is stored. */
uint64_t
mrd_proc_lost(void)
{
    uint64_t sum = 0, said = atomic_load_explicit(&proc->said_lost, memory_order_relaxed);

    if (mrd_proc_lock()) {
        sum = proc->retired_lost;
        for (mrd_ring_writer *writer = proc->all; writer != NULL; writer = writer->next_all)
            if (writer->ready)
                add_losses(&sum, writer);
        sum += atomic_load(&proc->unringed) + atomic_load(&proc->noted);
        mrd_proc_unlock();
    }
    while (sum > said &&
           !atomic_compare_exchange_weak_explicit(&proc->said_lost, &said, sum,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return sum > said ? sum : said;
}

const mrd_ring_owner_claim *
mrd_proc_claim(void)
{
    return &proc->id.claim;
}

uint32_t
mrd_proc_pid(void)
{
    return proc->pid;
}

uint32_t
mrd_proc_mark(void)
{
    uint32_t mark = atomic_load_explicit(&proc->mark, memory_order_relaxed), next;

    if (__builtin_expect(mark != 0, 1))
        return mark;
    next = atomic_fetch_add(&marks, 1) + 1;
    return atomic_compare_exchange_strong(&proc->mark, &mark, next) ? next : mark;
}

size_t
mrd_proc_ring_room(void)
{
    uint64_t total = (uint64_t) mrd_proc_settings.ring_total, room, p = MRD_RING_DATA_MIN;

    if (!mrd_proc_lock())
        return 0;
    room = total > proc->total ? total - proc->total : 0;
    mrd_proc_unlock();
    room = room > MRD_RING_HEADER_LEN + (uint64_t) round_up_page(mrd_proc_settings.ring_dict)
               ? room - MRD_RING_HEADER_LEN - round_up_page(mrd_proc_settings.ring_dict)
               : 0;
    while (p * 2 <= room && p * 2 <= MRD_RING_DATA_MAX)
        p *= 2;
    return p <= room ? p : 0;
}

void
mrd_proc_want_ring_rest(void)
{
    tls_rest = true;
}

void
mrd_proc_want_ring_size(size_t bytes)
{
    tls_want = bytes;
}

void
mrd_proc_thread_name(const char *name)
{
    mrd_ring_writer *writer = mrd_proc_writer();

    if (writer == NULL || !mrd_ring_enter(writer))
        return;
    (void) mrd_ring_define_thread(writer, (int32_t) own_tid(), name, strlen(name));
    mrd_ring_leave(writer);
}

int64_t
mrd_proc_ticks_ns(int64_t ticks, const mrd_ring_cal *now)
{
    uint64_t base = now->ticks - load_cal.ticks;
    int64_t ns = now->raw_ns - load_cal.raw_ns;

    if (mrd_proc_clock == MRD_RING_CLOCK_RAW || base == 0)
        return ticks;
    return (int64_t) ((__int128) ticks * ns / (__int128) base);
}

/* ---- initialization when the library is loaded ----------------------------------------------- */

/* Returns true if the CPU reports a TSC of constant rate, the kernel itself uses the TSC as its
 * clock, and this process may read it. */
static bool
tsc_trusted(void)
{
#if defined(__x86_64__)
    char text[16] = "";
    unsigned a, b, c, d;
    int mode = PR_TSC_ENABLE, fd;
    ssize_t n;

    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || (d & 1u << 8) == 0) /* bit 8: invariant TSC */
        return false;
    if (prctl(PR_GET_TSC, &mode) == 0 && mode != PR_TSC_ENABLE)
        return false;
    fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
              O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n >= 3 && memcmp(text, "tsc", 3) == 0 && (text[3] == '\n' || text[3] == '\0');
#else
    return false;
#endif
}

static bool forgets; /* true if the kernel wipes `proc` in a child of fork */

static void
child_of_fork(void)
{
    if (!forgets) {
        mrd_tls_writer = &no_writer;
        memset(proc, 0, sizeof(*proc));
    }
    atomic_store_explicit(&proc->owner, (uint32_t) getpid(), memory_order_relaxed);
}

static void
choose_sources(void)
{
    const mrd_settings *settings = &mrd_proc_settings;
    int64_t all = MRD_CAP_API | MRD_CAP_SYS | MRD_CAP_ANNOTATE | MRD_CAP_MODEL | MRD_CAP_NOTICE;

    sources = (unsigned) (settings->sources >= 0 ? settings->sources : all);
    running = settings->enable == 1 || (settings->enable < 0 && settings->sources > 0);
    possible = sources != 0;
}

__attribute__((constructor(101))) static void
begin(void)
{
    int saved = errno;
    process *p = mrd_proc_map(sizeof(*p), true);

    mrd_settings_read(&mrd_proc_settings);
    if (strcmp(mrd_proc_settings.clock, "raw") != 0 && tsc_trusted())
        mrd_proc_clock = MRD_RING_CLOCK_TSC;
    mrd_ring_cal_read(mrd_proc_clock, &load_cal);
    forgets = p != NULL;
    if (p != NULL)
        proc = p;
    atomic_store_explicit(&proc->owner, (uint32_t) getpid(), memory_order_relaxed);
    if (pthread_atfork(NULL, NULL, child_of_fork) != 0 && !forgets)
        proc_give_up("no way to notice a fork");
    exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0;
    if (mrd_proc_settings.errors > 0)
        proc_give_up(mrd_proc_settings.error);
    else if (getauxval(AT_SECURE) != 0)
        proc_give_up("the program runs with privileges of another user");
    else if (mrd_proc_settings.enable == 0)
        proc_give_up("MERIDIAN_ENABLE=0");
    choose_sources();
    set_gate();
    errno = saved;
}
