/*
 * agent/spool/spool_counts.c - a second record of what was committed and answered for each session. If
 * segments are truncated or removed by others, the counts show how much is missing.
 *
 * The file "counts" has slots of 1,280 bytes, one per session, each with a CRC and written as a
 * whole: at a commit, at an answer, when frames are dropped. After the slots come the extent of the
 * segments, the sums that count when a segment is removed, and a copy of the lock file's contents.
 * At open the segments are compared with it: events that were committed, not answered, and are
 * missing were lost with them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"

#define SLOTS_MAX  64u
#define SLOT_SIZE  1280
#define SLOT_MAGIC 0x4353524du /* "MRSC" */

typedef struct {
    uint32_t magic, crc; /* of what follows */
    uint64_t session, epoch, next, committed, delivered, refused, forced, damaged;
    mrd_ev_ns last, answered_to, damaged_first, damaged_last;
    /* all numbers below are answered; a bit for each answered number of the next 64 */
    uint64_t answered, bits;
    /* overstated: events that the segments count as dropped, and that were withdrawn elsewhere. It
     * is 0 in files of earlier releases. clock: of the times. */
    uint16_t note_len, overstated_high;
    uint8_t clock, overstated_low[3];
    uint8_t note[MRD_SPOOL_NOTE];
} slot;

_Static_assert(sizeof(slot) <= SLOT_SIZE, "a slot of the file");

/* After the slots: the extent of the newest segment when they were written. */
#define EXTENT_MAGIC 0x4553524du /* "MRSE" */

typedef struct {
    uint32_t magic, crc; /* of what follows */
    uint64_t number, len;
} extent;

/* After that: new sums of the sessions in the slots, for the removal of a segment. They count from
 * the removal on, even if the process is killed before it writes them into the slots. */
#define GOING_MAGIC 0x4753524du /* "MRSG" */

typedef struct {
    uint64_t session, delivered, refused, forced;
} going_sums;

typedef struct {
    uint32_t magic, crc; /* of what follows */
    uint64_t number;     /* of the segment */
    going_sums sums[SLOTS_MAX];
} going;

/* After that: the contents of the lock file, in case it is removed. */
#define BOOT_MAGIC 0x4253524du /* "MRSB" */

typedef struct {
    uint32_t magic, crc; /* of what follows */
    char text[MRD_SPOOL_BOOT_TEXT];
} boot_copy;

#define EXTENT_AT ((off_t) SLOTS_MAX * SLOT_SIZE)
#define GOING_AT  (EXTENT_AT + (off_t) sizeof(extent))
#define BOOT_AT   (GOING_AT + (off_t) sizeof(going))

/* The CRC of a record that begins with its magic and its CRC. */
static uint32_t
crc_of(uint32_t magic, const void *record, size_t size)
{
    const size_t head = 2 * sizeof(uint32_t);

    return mrd_spool_crc_of(magic, (mrd_bytes){ (const uint8_t *) record + head, size - head },
                            (mrd_bytes){ 0 });
}

static void
write_extent(const mrd_spool *s)
{
    const segment *last = s->n_segments == 0 ? NULL : &s->segments[s->n_segments - 1];
    extent e = { .magic = EXTENT_MAGIC };

    if (s->counts_fd < 0 || last == NULL)
        return;
    e.number = last->number;
    e.len = last->len;
    e.crc = crc_of(EXTENT_MAGIC, &e, sizeof(e));
    (void) !pwrite(s->counts_fd, &e, sizeof(e), EXTENT_AT);
}

/* Commits in the slots are missing because the end of the segments was lost. A later segment would
 * begin with all of them. */
static bool
is_cut(const mrd_spool *s)
{
    const segment *last = s->n_segments == 0 ? NULL : &s->segments[s->n_segments - 1];
    extent e;

    if (pread(s->counts_fd, &e, sizeof(e), EXTENT_AT) != (ssize_t) sizeof(e) ||
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

/* False: it could not be. */
static bool
write_slot(const mrd_spool *s, const sequence *q)
{
    slot c = { .magic = SLOT_MAGIC,
               .session = q->session,
               .epoch = s->epoch,
               .next = q->committed,
               .committed = q->events,
               .forced = q->tally.forced - q->there,
               .damaged = q->tally.damaged,
               .last = q->last,
               .answered_to = q->answered_to,
               .damaged_first = q->tally.damaged_first,
               .damaged_last = q->tally.damaged_last,
               .note_len = (uint16_t) q->tally.note_len,
               .clock = q->tally.damaged_clock };

    if (s->counts_fd < 0 || q->slot == 0)
        return true;
    put_overstated(&c, q->ahead > 0 ? (uint64_t) q->ahead : 0);
    memcpy(c.note, q->tally.note, q->tally.note_len);
    mrd_spool_known(s, q, true, &c.delivered, &c.refused);
    c.answered = mrd_spool_unanswered(s, q, &c.bits);
    c.crc = crc_of(SLOT_MAGIC, &c, sizeof(c));
    return pwrite(s->counts_fd, &c, sizeof(c), (off_t) (q->slot - 1) * SLOT_SIZE) ==
           (ssize_t) sizeof(c);
}

void
mrd_spool_counts_write(mrd_spool *s, sequence *q)
{
    (void) write_slot(s, q);
}

void
mrd_spool_counts_name_boot(const mrd_spool *s, const char text[MRD_SPOOL_BOOT_TEXT])
{
    boot_copy c = { .magic = BOOT_MAGIC };

    if (s->counts_fd < 0)
        return;
    memcpy(c.text, text, sizeof(c.text));
    c.crc = crc_of(BOOT_MAGIC, &c, sizeof(c));
    (void) !pwrite(s->counts_fd, &c, sizeof(c), BOOT_AT);
}

void
mrd_spool_counts_read_boot(const mrd_spool *s, char text[MRD_SPOOL_BOOT_TEXT])
{
    char path[1024];
    boot_copy c;
    int fd;

    snprintf(path, sizeof(path), "%s/counts", s->dir);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        return;
    if (pread(fd, &c, sizeof(c), BOOT_AT) == (ssize_t) sizeof(c) && c.magic == BOOT_MAGIC &&
        c.crc == crc_of(BOOT_MAGIC, &c, sizeof(c)) && c.text[sizeof(c.text) - 1] == '\0')
        memcpy(text, c.text, sizeof(c.text));
    close(fd);
}

/* Gets the sums of a predecessor if their segment is removed; all zero if it still exists. */
static void
read_going(const mrd_spool *s, going *ret_going)
{
    const segment *seg;

    if (pread(s->counts_fd, ret_going, sizeof(*ret_going), GOING_AT) !=
            (ssize_t) sizeof(*ret_going) ||
        ret_going->magic != GOING_MAGIC ||
        ret_going->crc != crc_of(GOING_MAGIC, ret_going, sizeof(*ret_going))) {
        *ret_going = (going){ 0 };
        return;
    }
    seg = mrd_spool_find_segment(s, ret_going->number);
    if (seg != NULL && seg->len > 0) /* an empty segment could not be removed */
        *ret_going = (going){ 0 };
}

/* Gives a session a slot in the file; a removed session's slot if no other is free. */
static void
take_slot(mrd_spool *s, sequence *q)
{
    for (size_t i = 0; q->slot == 0 && i < s->n_sequences && s->counts_used == UINT64_MAX; i++)
        if (s->sequences[i].forgotten)
            mrd_spool_counts_forget(s, &s->sequences[i]);
    for (uint32_t i = 1; q->slot == 0 && i <= SLOTS_MAX; i++)
        if ((s->counts_used & 1ull << (i - 1)) == 0) {
            q->slot = i;
            s->counts_used |= 1ull << (i - 1);
        }
}

/* Times need a single clock: the clock of the session's first frame with events. */
static void
count_frame(sequence *q, const mrd_spool_item *item)
{
    q->events += item->events;
    if (item->events == 0)
        return;
    if (q->last.ns == 0) {
        q->tally.damaged_clock = item->clock;
        q->answered_to = item->first; /* nothing is missing before it */
    }
    if (item->clock == q->tally.damaged_clock && mrd_ev_after(item->last, q->last))
        q->last = item->last;
}

void
mrd_spool_counts_commit(mrd_spool *s)
{
    size_t i = s->n;

    while (i > 0 && s->entries[s->first + i - 1].item.id >= s->committed_id)
        i--;
    for (; i < s->n; i++) {
        const mrd_spool_item *item = &s->entries[s->first + i].item;
        sequence *q = mrd_spool_find_sequence(s, item->session);

        if (q != NULL)
            count_frame(q, item);
    }
}

void
mrd_spool_counts_forget(mrd_spool *s, sequence *q)
{
    static const slot none;

    if (s->counts_fd < 0 || q->slot == 0)
        return;
    (void) !pwrite(s->counts_fd, &none, sizeof(none), (off_t) (q->slot - 1) * SLOT_SIZE);
    s->counts_used &= ~(1ull << (q->slot - 1));
    q->slot = 0;
}

static void
write_going(const mrd_spool *s, const going *g)
{
    if (s->counts_fd >= 0)
        (void) !pwrite(s->counts_fd, g, sizeof(*g), GOING_AT);
}

void
mrd_spool_counts_going(mrd_spool *s, uint64_t number)
{
    going g = { .magic = GOING_MAGIC, .number = number };

    for (size_t i = 0; i < s->n_sequences; i++) {
        const sequence *q = &s->sequences[i];
        going_sums sums = { .session = q->session, .forced = q->tally.forced - q->there };

        mrd_spool_known(s, q, true, &sums.delivered, &sums.refused);
        if (q->slot != 0)
            g.sums[q->slot - 1] = sums;
    }
    g.crc = crc_of(GOING_MAGIC, &g, sizeof(g));
    write_going(s, &g);
    s->going = true;
}

void
mrd_spool_counts_write_all(mrd_spool *s)
{
    static const going none;
    bool ok = true;

    for (size_t i = 0; i < s->n_sequences && s->counts_fd >= 0; i++) {
        /* A new slot would declare existing frames as completed, without counting them. */
        if (!s->sequences[i].forgotten && s->sequences[i].there == 0)
            take_slot(s, &s->sequences[i]);
        ok = write_slot(s, &s->sequences[i]) && ok;
    }
    if (ok && s->going) {
        write_going(s, &none);
        s->going = false;
    }
    write_extent(s);
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

/* Completes frames with an answer that was lost with the end of the segments. The slot has no
 * answers of frames that were committed later. */
static void
complete_answered(mrd_spool *s, const slot *c)
{
    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->entries[s->first + i];
        uint64_t ahead = e->item.seq - c->answered;

        if (e->done || e->item.session != c->session || e->item.epoch != c->epoch ||
            e->item.seq >= c->next)
            continue;
        if (e->item.seq < c->answered || (ahead < MRD_SPOOL_TOLD && (c->bits >> ahead & 1) != 0))
            e->cut = true;
        if (e->cut)
            mrd_spool_complete(s, e);
    }
}

/* Returns the session's events in the queue and their latest time. */
static uint64_t
in_queue(const mrd_spool *s, uint64_t session, uint32_t clock, int64_t *ret_last_ns)
{
    uint64_t events = 0;

    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[s->first + i];

        if (e->done || e->item.session != session)
            continue;
        events += e->item.events;
        if (e->item.events > 0 && e->item.clock == clock && e->item.last.ns > *ret_last_ns)
            *ret_last_ns = e->item.last.ns;
    }
    return events;
}

/* The counts were written just before an answer that the segments have, and other answers are in
 * the counts only. So neither has all of them. */
static void
add_recorded(const mrd_spool *s, const slot *c, uint64_t *delivered, uint64_t *refused)
{
    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->entries[s->first + i];
        uint64_t ahead = e->item.seq - c->answered;

        if (e->recorded == 0 || e->item.session != c->session || e->item.epoch != c->epoch ||
            e->item.seq < c->answered)
            continue;
        if (e->item.seq >= c->next || (ahead < MRD_SPOOL_TOLD && (c->bits >> ahead & 1) == 0))
            *(e->recorded == ANSWER_REFUSED + 1 ? refused : delivered) += e->item.events;
    }
}

/* Decides whether to use the losses in the slot's note. The losses of a note must count once,
 * because the rings were released after it. A commit writes the segments before the counts, so the
 * counts may have the older note. They have the newer one if the segments have no note of the
 * session, if the segments' end after the note was lost, or if they name a lost frame. This is
 * certain for a kill at any time. After a power failure there is no known order. */
static bool
takes_note(const mrd_spool *s, const slot *c, const sequence *q)
{
    bool cut = s->cut || (c->epoch == s->found_epoch && c->next > q->found);

    return c->note_len > 0 && (q->tally.note_len == 0 || (cut && !s->rebooted));
}

/* Returns the newer of the sums for a removed segment and the sums in the slot. The total only
 * grows, and the answer of a dropped frame moves events from `forced` to the others. */
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

/* Compares a session's counts with the contents of the segments. */
static mrd_err
compare(mrd_spool *s, const slot *c, uint32_t place, const going *g)
{
    const going_sums sums = youngest(c, &g->sums[place - 1]);
    int64_t last_ns = c->answered_to.ns;
    uint64_t delivered = sums.delivered, refused = sums.refused, there;
    sequence *q;
    mrd_err err = mrd_spool_take_sequence(s, c->session, &q);
    bool newer_note;

    if (err != MRD_OK)
        return err;
    newer_note = takes_note(s, c, q);
    if (c->epoch == s->epoch) { /* numbers are not reused */
        q->next = most(q->next, c->next);
        q->committed = most(q->committed, c->next);
    }
    /* also if a later segment has the same number, because it does not say which */
    complete_answered(s, c);
    if (newer_note) {
        memcpy(q->tally.note, c->note, c->note_len);
        q->tally.note_len = c->note_len;
    }
    add_recorded(s, c, &delivered, &refused);
    q->tally.delivered = most(q->tally.delivered, delivered);
    q->tally.refused = most(q->tally.refused, refused);
    q->tally.forced -= least(q->tally.forced, get_overstated(c));
    q->tally.forced = most(q->tally.forced, sums.forced);
    q->tally.damaged = c->damaged;
    q->tally.damaged_first = c->damaged_first;
    q->tally.damaged_last = c->damaged_last;
    q->last = c->last;
    q->answered_to = c->answered_to;
    q->slot = place;
    s->counts_used |= 1ull << (place - 1);
    there = q->tally.delivered + q->tally.refused + q->tally.forced +
            in_queue(s, c->session, c->clock, &last_ns);
    q->events = there;
    q->tally.damaged_clock = (uint8_t) c->clock;
    if (c->committed <= there)
        return MRD_OK;
    s->stats.damaged_events += c->committed - there;
    /* some may have been delivered; the aggregator finds out, see mrd_spool_base */
    if (s->rebooted) {
        q->missing = c->committed - there;
        return MRD_OK;
    }
    if (q->tally.damaged == 0)
        q->tally.damaged_first =
            (mrd_ev_ns){ last_ns != 0 && last_ns < c->last.ns ? last_ns : c->last.ns };
    q->tally.damaged_last = c->last;
    q->tally.damaged += c->committed - there;
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
    /* O_NONBLOCK: a FIFO in its place must not block. */
    if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        return 0;
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (pread(fd, &c, sizeof(c), (off_t) i * SLOT_SIZE) == (ssize_t) sizeof(c) && is_whole(&c))
            sum += c.damaged;
    close(fd);
    return sum;
}

mrd_err
mrd_spool_counts_open(mrd_spool *s, mrd_why *why)
{
    char path[1024];
    mrd_err err = MRD_OK;
    going g;
    slot c;

    snprintf(path, sizeof(path), "%s/counts", s->dir);
    s->counts_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    s->cut = s->counts_fd >= 0 && is_cut(s);
    read_going(s, &g);
    s->going = true; /* until the slots have it; also reserves room in a new file */
    for (uint32_t i = 1; i <= SLOTS_MAX && s->counts_fd >= 0 && err == MRD_OK; i++) {
        if (pread(s->counts_fd, &c, sizeof(c), (off_t) (i - 1) * SLOT_SIZE) != (ssize_t) sizeof(c))
            break;
        if (is_whole(&c) && c.note_len <= MRD_SPOOL_NOTE)
            err = compare(s, &c, i, &g);
    }
    for (size_t i = 0; i < s->n_sequences;
         i++) { /* it may get a slot, which then has the existing values */
        sequence *q = &s->sequences[i];
        int64_t last_ns = 0;

        if (q->slot == 0)
            q->events = q->tally.delivered + q->tally.refused + q->tally.forced +
                        in_queue(s, q->session, 0, &last_ns);
    }
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "spool '%s'", path);
}
