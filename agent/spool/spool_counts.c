/*
 * agent/spool/spool_counts.c - keeps the file "counts". It is a second record of what was committed
 * and answered for each session. If another program truncates or removes segments, it shows how
 * many events are missing.
 *
 * The file has one slot of 1,280 bytes per session, each with a CRC. A slot is rewritten at a
 * commit, at an answer, and when frames are dropped. Three more parts follow the slots:
 *   - the extent: number and length of the newest segment
 *   - the sums that become valid when a segment is removed
 *   - a copy of the lock file's contents
 *
 * At open, the segments are compared with the slots. Events that were committed and not answered,
 * but are in no segment, were lost.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"

#define SLOTS_MAX  64u
#define SLOT_SIZE  1280
#define SLOT_MAGIC 0x4353524du /* the bytes "MRSC" */

typedef struct {
    uint32_t magic, crc; /* crc: checksum of the bytes that follow */
    uint64_t session, epoch, next, committed, delivered, refused, forced, damaged;
    mrd_ev_ns last, answered_to, damaged_first, damaged_last;
    /* All frames with sequence numbers below `answered` have an answer. The frame with number
     * `answered` + i has an answer if bit i of `bits` is set. */
    uint64_t answered, bits;
    /* overstated_low and overstated_high: number of answered events that the segments still count
     * as dropped; 0 in files of earlier releases. clock: the clock of the times `last` and
     * `answered_to`. */
    uint16_t note_len, overstated_high;
    uint8_t clock, overstated_low[3];
    uint8_t note[MRD_SPOOL_NOTE];
} slot;

_Static_assert(sizeof(slot) <= SLOT_SIZE, "a slot of the file");

/* The part after the slots: number and length of the newest segment when the slots were written. */
#define EXTENT_MAGIC 0x4553524du /* the bytes "MRSE" */

typedef struct {
    uint32_t magic, crc; /* crc: checksum of the bytes that follow */
    uint64_t number, len;
} extent;

/* The part after the extent: new sums of the sessions' delivered, refused and dropped events,
 * written before a segment is removed. The removal of the segment makes these sums valid, even if
 * this process is killed before it writes them into the slots. */
#define GOING_MAGIC 0x4753524du /* the bytes "MRSG" */

typedef struct {
    uint64_t session, delivered, refused, forced;
} going_sums;

typedef struct {
    uint32_t magic, crc; /* crc: checksum of the bytes that follow */
    uint64_t number;     /* number of the segment that is removed */
    going_sums sums[SLOTS_MAX];
} going;

/* The part after the sums: a copy of the lock file's contents, in case the lock file is removed. */
#define BOOT_MAGIC 0x4253524du /* the bytes "MRSB" */

typedef struct {
    uint32_t magic, crc; /* crc: checksum of the bytes that follow */
    char text[MRD_SPOOL_BOOT_TEXT];
} boot_copy;

#define EXTENT_AT ((off_t) SLOTS_MAX * SLOT_SIZE)
#define GOING_AT  (EXTENT_AT + (off_t) sizeof(extent))
#define BOOT_AT   (GOING_AT + (off_t) sizeof(going))

/* Computes the CRC of a part of the file "counts". Each part begins with its magic number and its
 * CRC. */
static uint32_t
crc_of(uint32_t magic, const void *record, size_t size)
{
    const size_t head = 2 * sizeof(uint32_t);

    return mrd_spool_crc_of(magic, (mrd_bytes){ (const uint8_t *) record + head, size - head },
                            (mrd_bytes){ 0 });
}

static void
write_extent(const mrd_spool *spool)
{
    const segment *last = spool->n_segments == 0 ? NULL : &spool->segments[spool->n_segments - 1];
    extent e = { .magic = EXTENT_MAGIC };

    if (spool->counts_fd < 0 || last == NULL)
        return;
    e.number = last->number;
    e.len = last->len;
    e.crc = crc_of(EXTENT_MAGIC, &e, sizeof(e));
    (void) !pwrite(spool->counts_fd, &e, sizeof(e), EXTENT_AT);
}

/* Returns true if the newest segment is missing or shorter than the extent says. The slots then
 * have commits that no segment has. */
static bool
is_cut(const mrd_spool *spool)
{
    const segment *last = spool->n_segments == 0 ? NULL : &spool->segments[spool->n_segments - 1];
    extent e;

    if (pread(spool->counts_fd, &e, sizeof(e), EXTENT_AT) != (ssize_t) sizeof(e) ||
        e.magic != EXTENT_MAGIC || e.crc != crc_of(EXTENT_MAGIC, &e, sizeof(e)))
        return false;
    return last == NULL || last->number < e.number ||
           (last->number == e.number && last->len < e.len);
}

static bool
is_whole(const slot *c)
{
    return c->magic == SLOT_MAGIC && c->crc == crc_of(SLOT_MAGIC, c, sizeof(*c));
}

#define OVERSTATED_MAX ((1ull << 40) - 1)

static void
put_overstated(slot *c, uint64_t overstated)
{
    overstated = overstated < OVERSTATED_MAX ? overstated : OVERSTATED_MAX;
    c->overstated_high = (uint16_t) (overstated >> 24);
    for (unsigned i = 0; i < 3; i++)
        c->overstated_low[i] = (uint8_t) (overstated >> 8 * i);
}

static uint64_t
get_overstated(const slot *c)
{
    return (uint64_t) c->overstated_high << 24 | (uint64_t) c->overstated_low[2] << 16 |
           (uint64_t) c->overstated_low[1] << 8 | c->overstated_low[0];
}

/* Writes the session's slot. Returns false if it could not be written. */
static bool
write_slot(const mrd_spool *spool, const sequence *seq)
{
    slot c = { .magic = SLOT_MAGIC,
               .session = seq->session,
               .epoch = spool->epoch,
               .next = seq->committed,
               .committed = seq->events,
               .forced = seq->tally.forced - seq->there,
               .damaged = seq->tally.damaged,
               .last = seq->last,
               .answered_to = seq->answered_to,
               .damaged_first = seq->tally.damaged_first,
               .damaged_last = seq->tally.damaged_last,
               .note_len = (uint16_t) seq->tally.note_len,
               .clock = seq->tally.damaged_clock };

    if (spool->counts_fd < 0 || seq->slot == 0)
        return true;
    put_overstated(&c, seq->ahead > 0 ? (uint64_t) seq->ahead : 0);
    memcpy(c.note, seq->tally.note, seq->tally.note_len);
    mrd_spool_known(spool, seq, true, &c.delivered, &c.refused);
    c.answered = mrd_spool_unanswered(spool, seq, &c.bits);
    c.crc = crc_of(SLOT_MAGIC, &c, sizeof(c));
    return pwrite(spool->counts_fd, &c, sizeof(c), (off_t) (seq->slot - 1) * SLOT_SIZE) ==
           (ssize_t) sizeof(c);
}

void
mrd_spool_counts_write(mrd_spool *spool, sequence *seq)
{
    (void) write_slot(spool, seq);
}

void
mrd_spool_counts_name_boot(const mrd_spool *spool, const char text[MRD_SPOOL_BOOT_TEXT])
{
    boot_copy copy = { .magic = BOOT_MAGIC };

    if (spool->counts_fd < 0)
        return;
    memcpy(copy.text, text, sizeof(copy.text));
    copy.crc = crc_of(BOOT_MAGIC, &copy, sizeof(copy));
    (void) !pwrite(spool->counts_fd, &copy, sizeof(copy), BOOT_AT);
}

void
mrd_spool_counts_read_boot(const mrd_spool *spool, char text[MRD_SPOOL_BOOT_TEXT])
{
    char path[1024];
    boot_copy copy;
    int fd;

    snprintf(path, sizeof(path), "%s/counts", spool->dir);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        return;
    if (pread(fd, &copy, sizeof(copy), BOOT_AT) == (ssize_t) sizeof(copy) &&
        copy.magic == BOOT_MAGIC && copy.crc == crc_of(BOOT_MAGIC, &copy, sizeof(copy)) &&
        copy.text[sizeof(copy.text) - 1] == '\0')
        memcpy(text, copy.text, sizeof(copy.text));
    close(fd);
}

/* Gets the sums that a previous agent wrote before it removed a segment. If that segment still
 * exists, the sums are not valid, and all are set to 0. */
static void
read_going(const mrd_spool *spool, going *ret_going)
{
    const segment *seg;

    if (pread(spool->counts_fd, ret_going, sizeof(*ret_going), GOING_AT) !=
            (ssize_t) sizeof(*ret_going) ||
        ret_going->magic != GOING_MAGIC ||
        ret_going->crc != crc_of(GOING_MAGIC, ret_going, sizeof(*ret_going))) {
        *ret_going = (going){ 0 };
        return;
    }
    seg = mrd_spool_find_segment(spool, ret_going->number);
    /* an agent truncates a segment to length 0 if it cannot remove the file */
    if (seg != NULL && seg->len > 0)
        *ret_going = (going){ 0 };
}

/* Gives a session a slot in the file. If all slots are in use, frees those of removed sessions
 * first. */
static void
take_slot(mrd_spool *spool, sequence *seq)
{
    for (size_t i = 0; seq->slot == 0 && i < spool->n_sequences && spool->counts_used == UINT64_MAX;
         i++)
        if (spool->sequences[i].forgotten)
            mrd_spool_counts_forget(spool, &spool->sequences[i]);
    for (uint32_t i = 1; seq->slot == 0 && i <= SLOTS_MAX; i++)
        if ((spool->counts_used & 1ull << (i - 1)) == 0) {
            seq->slot = i;
            spool->counts_used |= 1ull << (i - 1);
        }
}

/* Adds a frame to its session's counts. Frames with times of another clock than the session's first
 * frame do not change the session's times. */
static void
count_frame(sequence *seq, const mrd_spool_item *item)
{
    seq->events += item->events;
    if (item->events == 0)
        return;
    if (seq->last.ns == 0) {
        seq->tally.damaged_clock = item->clock;
        /* later frames have later times, so events that are found to be missing cannot be earlier
         * than this */
        seq->answered_to = item->first;
    }
    if (item->clock == seq->tally.damaged_clock && mrd_ev_after(item->last, seq->last))
        seq->last = item->last;
}

void
mrd_spool_counts_commit(mrd_spool *spool)
{
    size_t i = spool->n;

    while (i > 0 && spool->entries[spool->first + i - 1].item.id >= spool->committed_id)
        i--;
    for (; i < spool->n; i++) {
        const mrd_spool_item *item = &spool->entries[spool->first + i].item;
        sequence *seq = mrd_spool_find_sequence(spool, item->session);

        if (seq != NULL)
            count_frame(seq, item);
    }
}

void
mrd_spool_counts_forget(mrd_spool *spool, sequence *seq)
{
    static const slot none;

    if (spool->counts_fd < 0 || seq->slot == 0)
        return;
    (void) !pwrite(spool->counts_fd, &none, sizeof(none), (off_t) (seq->slot - 1) * SLOT_SIZE);
    spool->counts_used &= ~(1ull << (seq->slot - 1));
    seq->slot = 0;
}

static void
write_going(const mrd_spool *spool, const going *g)
{
    if (spool->counts_fd >= 0)
        (void) !pwrite(spool->counts_fd, g, sizeof(*g), GOING_AT);
}

void
mrd_spool_counts_going(mrd_spool *spool, uint64_t number)
{
    going g = { .magic = GOING_MAGIC, .number = number };

    for (size_t i = 0; i < spool->n_sequences; i++) {
        const sequence *seq = &spool->sequences[i];
        going_sums sums = { .session = seq->session, .forced = seq->tally.forced - seq->there };

        mrd_spool_known(spool, seq, true, &sums.delivered, &sums.refused);
        if (seq->slot != 0)
            g.sums[seq->slot - 1] = sums;
    }
    g.crc = crc_of(GOING_MAGIC, &g, sizeof(g));
    write_going(spool, &g);
    spool->going = true;
}

void
mrd_spool_counts_write_all(mrd_spool *spool)
{
    static const going none;
    bool ok = true;

    for (size_t i = 0; i < spool->n_sequences && spool->counts_fd >= 0; i++) {
        /* Gives no slot to a session with events in `there`. The slot would show their frames as
         * answered, although the sums do not include them yet. */
        if (!spool->sequences[i].forgotten && spool->sequences[i].there == 0)
            take_slot(spool, &spool->sequences[i]);
        ok = write_slot(spool, &spool->sequences[i]) && ok;
    }
    if (ok && spool->going) {
        write_going(spool, &none);
        spool->going = false;
    }
    write_extent(spool);
}

static uint64_t
most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Completes frames that are answered according to the slot, although the end of the segments with
 * the records of these answers was lost. The slot knows only sequence numbers below c->next. */
static void
complete_answered(mrd_spool *spool, const slot *c)
{
    for (size_t i = 0; i < spool->n; i++) {
        entry *ent = &spool->entries[spool->first + i];
        uint64_t ahead = ent->item.seq - c->answered;

        if (ent->done || ent->item.session != c->session || ent->item.epoch != c->epoch ||
            ent->item.seq >= c->next)
            continue;
        if (ent->item.seq < c->answered || (ahead < MRD_SPOOL_TOLD && (c->bits >> ahead & 1) != 0))
            ent->cut = true;
        if (ent->cut)
            mrd_spool_complete(spool, ent);
    }
}

/* Returns how many events of the session are in the queue. Raises *ret_last_ns to the latest time
 * of these events in `clock`. */
static uint64_t
in_queue(const mrd_spool *spool, uint64_t session, uint32_t clock, int64_t *ret_last_ns)
{
    uint64_t events = 0;

    for (size_t i = 0; i < spool->n; i++) {
        const entry *ent = &spool->entries[spool->first + i];

        if (ent->done || ent->item.session != session)
            continue;
        events += ent->item.events;
        if (ent->item.events > 0 && ent->item.clock == clock && ent->item.last.ns > *ret_last_ns)
            *ret_last_ns = ent->item.last.ns;
    }
    return events;
}

/* Adds the events of those answers of the aggregator that are in the segments, but not in the slot (one of the two copies of the counts). Slots and segments are written separately, so each can lack an answer that the other has. */
static void
add_recorded(const mrd_spool *spool, const slot *c, uint64_t *delivered, uint64_t *refused)
{
    for (size_t i = 0; i < spool->n; i++) {
        const entry *ent = &spool->entries[spool->first + i];
        uint64_t ahead = ent->item.seq - c->answered;

        if (ent->recorded == 0 || ent->item.session != c->session || ent->item.epoch != c->epoch ||
            ent->item.seq < c->answered)
            continue;
        if (ent->item.seq >= c->next || (ahead < MRD_SPOOL_TOLD && (c->bits >> ahead & 1) == 0))
            *(ent->recorded == ANSWER_REFUSED + 1 ? refused : delivered) += ent->item.events;
    }
}

/*
 * Returns true if the session's note in the slot is newer than the note in the segments. A note
 * contains the session's losses. They must count exactly once, because the rings that reported them
 * are released after the note is written.
 *
 * A commit writes the segments before the counts, so normally the segments have the newer note. The
 * slot has the newer note in three cases: the segments have no note of the session, the end of the
 * segments was lost, or the slot has later sequence numbers. After a power failure, the order of
 * the writes is unknown, and only the first case counts.
 */
static bool
takes_note(const mrd_spool *spool, const slot *c, const sequence *seq)
{
    bool cut = spool->cut || (c->epoch == spool->found_epoch && c->next > seq->found);

    return c->note_len > 0 && (seq->tally.note_len == 0 || (cut && !spool->rebooted));
}

/* Returns the newer of two versions of a session's sums: those in the slot, and those that were
 * written before the removal of a segment. The newer version has the larger total. If the totals
 * are equal, it has more answered events, because the answer to a dropped frame moves its events
 * from dropped (`forced`) to answered. */
static going_sums
youngest(const slot *c, const going_sums *gone)
{
    going_sums of = { c->session, c->delivered, c->refused, c->forced };
    uint64_t answered = c->delivered + c->refused, gone_answered = gone->delivered + gone->refused;

    if (gone->session != c->session || answered + c->forced > gone_answered + gone->forced ||
        (answered + c->forced == gone_answered + gone->forced && answered > gone_answered))
        return of;
    return *gone;
}

/* Compares the session's slot `c` with the segments, and stores how many committed events are
 * missing. `place` is the number of the slot, from 1. */
static mrd_err
compare(mrd_spool *spool, const slot *c, uint32_t place, const going *g)
{
    const going_sums sums = youngest(c, &g->sums[place - 1]);
    int64_t last_ns = c->answered_to.ns;
    uint64_t delivered = sums.delivered, refused = sums.refused, there;
    sequence *seq;
    mrd_err err = mrd_spool_take_sequence(spool, c->session, &seq);
    bool newer_note;

    if (err != MRD_OK)
        return err;
    newer_note = takes_note(spool, c, seq);
    /* sequence numbers below those in the slot must not be used again */
    if (c->epoch == spool->epoch) {
        seq->next = most(seq->next, c->next);
        seq->committed = most(seq->committed, c->next);
    }
    /* The slot may have answers that the segments lack. */
    complete_answered(spool, c);
    if (newer_note) {
        memcpy(seq->tally.note, c->note, c->note_len);
        seq->tally.note_len = c->note_len;
    }
    add_recorded(spool, c, &delivered, &refused);
    seq->tally.delivered = most(seq->tally.delivered, delivered);
    seq->tally.refused = most(seq->tally.refused, refused);
    seq->tally.forced -= least(seq->tally.forced, get_overstated(c));
    seq->tally.forced = most(seq->tally.forced, sums.forced);
    seq->tally.damaged = c->damaged;
    seq->tally.damaged_first = c->damaged_first;
    seq->tally.damaged_last = c->damaged_last;
    seq->last = c->last;
    seq->answered_to = c->answered_to;
    seq->slot = place;
    spool->counts_used |= 1ull << (place - 1);
    there = seq->tally.delivered + seq->tally.refused + seq->tally.forced +
            in_queue(spool, c->session, c->clock, &last_ns);
    seq->events = there;
    seq->tally.damaged_clock = (uint8_t) c->clock;
    if (c->committed <= there)
        return MRD_OK;
    spool->stats.damaged_events += c->committed - there;
    /* After a reboot, the aggregator may have stored some of the missing events. The aggregator
     * computes how many (mrd_spool_base), so the missing events do not count as damaged here. */
    if (spool->rebooted) {
        seq->missing = c->committed - there;
        return MRD_OK;
    }
    if (seq->tally.damaged == 0)
        seq->tally.damaged_first =
            (mrd_ev_ns){ last_ns != 0 && last_ns < c->last.ns ? last_ns : c->last.ns };
    seq->tally.damaged_last = c->last;
    seq->tally.damaged += c->committed - there;
    return MRD_OK;
}

uint64_t
mrd_spool_damage_in(const char *dir)
{
    char path[1024];
    uint64_t sum = 0;
    int fd;
    slot c;

    snprintf(path, sizeof(path), "%s/counts", dir);
    /* O_NONBLOCK is set because open() would otherwise block if the file is a FIFO. */
    if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        return 0;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (pread(fd, &c, sizeof(c), (off_t) i * SLOT_SIZE) == (ssize_t) sizeof(c) && is_whole(&c))
            sum += c.damaged;
    close(fd);
    return sum;
}

bool
mrd_spool_counts_lack(const mrd_spool *spool)
{
    char path[1024];
    size_t missing = 0;
    slot c;
    int fd;

    for (size_t i = 0; i < spool->n_sequences; i++)
        missing += spool->sequences[i].unanswered;
    if (missing == 0)
        return false;
    snprintf(path, sizeof(path), "%s/counts", spool->dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    for (uint32_t i = 0; i < SLOTS_MAX && fd >= 0; i++) {
        const sequence *seq;

        if (pread(fd, &c, sizeof(c), (off_t) i * SLOT_SIZE) == (ssize_t) sizeof(c) && is_whole(&c))
            missing -= (seq = mrd_spool_find_sequence(spool, c.session)) != NULL && seq->unanswered;
    }
    if (fd >= 0)
        close(fd);
    return missing > 0;
}

mrd_err
mrd_spool_counts_open(mrd_spool *spool, mrd_why *why)
{
    char path[1024];
    mrd_err err = MRD_OK;
    going g;
    slot c;

    snprintf(path, sizeof(path), "%s/counts", spool->dir);
    spool->counts_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    spool->cut = spool->counts_fd >= 0 && is_cut(spool);
    read_going(spool, &g);
    /* This makes the next write of all slots also write the part for the sums, with zeros. In a new
     * file this reserves disk space for the sums. */
    spool->going = true;
    for (uint32_t i = 1; i <= SLOTS_MAX && spool->counts_fd >= 0 && err == MRD_OK; i++) {
        if (pread(spool->counts_fd, &c, sizeof(c), (off_t) (i - 1) * SLOT_SIZE) !=
            (ssize_t) sizeof(c))
            break;
        if (is_whole(&c) && c.note_len <= MRD_SPOOL_NOTE)
            err = compare(spool, &c, i, &g);
    }
    for (size_t i = 0; i < spool->n_sequences;
         /* Set these counts in all sessions. A session without a slot may get one later. */
         i++) {
        sequence *seq = &spool->sequences[i];
        int64_t last_ns = 0;

        if (seq->slot == 0)
            seq->events = seq->tally.delivered + seq->tally.refused + seq->tally.forced +
                          in_queue(spool, seq->session, 0, &last_ns);
    }
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "spool '%s'", path);
}
