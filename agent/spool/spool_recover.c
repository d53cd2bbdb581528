/* agent/spool/spool_recover.c - reads a predecessor's segments: frames, answers, commits, tallies */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/spool/spool_int.h"
#include "base/num.h"
#include "base/vec.h"

static mrd_err
take_frame(mrd_spool *s, segment *seg, const uint8_t *payload, uint32_t len, uint64_t at)
{
    mrd_frame f;
    entry e = { .segment = seg->number, .at = at + sizeof(record_head) + 8 };

    if (len < 8 || mrd_frame_get((mrd_bytes){ payload + 8, len - 8 }, &f, NULL) != MRD_OK)
        return MRD_CORRUPT;
    memcpy(&e.item.events, payload, 8);
    e.item.id = s->next_id;
    mrd_spool_describe(&e, &f);
    e.item.len = len - 8;
    if (!mrd_spool_push_entry(s, &e))
        return MRD_NOMEM;
    s->next_id++;
    seg->live++;
    return MRD_OK;
}

/* Takes the notes at the end of a commit. Errors: CORRUPT, LIMIT, NOMEM. */
static mrd_err
take_notes(mrd_spool *s, const uint8_t *p, size_t len, uint32_t n)
{
    for (; n > 0; n--) {
        note_head h;
        sequence *q;
        mrd_err err;

        if (len < sizeof(h))
            return MRD_CORRUPT;
        memcpy(&h, p, sizeof(h));
        if (h.len > MRD_SPOOL_NOTE || h.len > len - sizeof(h))
            return MRD_CORRUPT;
        if ((err = mrd_spool_take_sequence(s, h.session, &q)) != MRD_OK)
            return err;
        memcpy(q->tally.note, p + sizeof(h), h.len);
        q->tally.note_len = h.len;
        p += sizeof(h) + h.len;
        len -= sizeof(h) + h.len;
    }
    return len == 0 ? MRD_OK : MRD_CORRUPT;
}

/* The frames since the last commit, and their numbers, count now. */
static mrd_err
take_commit(mrd_spool *s, const segment *seg, const uint8_t *payload, uint32_t len)
{
    commit_head h;
    size_t size;
    mrd_spool_position *positions;
    mrd_err err = MRD_OK;

    if (len < sizeof(h))
        return MRD_CORRUPT;
    memcpy(&h, payload, sizeof(h));
    if (h.positions > MRD_SPOOL_POSITIONS)
        return MRD_CORRUPT;
    size = h.positions * sizeof(*positions);
    if (size > len - sizeof(h))
        return MRD_CORRUPT;
    if ((positions = malloc(size + 1)) == NULL)
        return MRD_NOMEM;
    memcpy(positions, payload + sizeof(h), size);
    free(s->positions);
    s->positions = positions;
    s->n_positions = h.positions;
    s->positions_segment = seg->number;
    err = take_notes(s, payload + sizeof(h) + size, len - sizeof(h) - size, h.notes);
    for (size_t i = 0; i < s->n && err == MRD_OK; i++) {
        const mrd_spool_item *item = &s->entries[s->first + i].item;

        if (item->id >= s->committed_id && item->epoch == s->epoch)
            err = mrd_spool_set_sequence(s, item->session, item->seq + 1);
    }
    mrd_spool_commit_sequences(s);
    return err;
}

static mrd_err
take_answer(mrd_spool *s, const answer_record *a)
{
    mrd_err err = mrd_spool_count_answer(s, a);

    for (size_t i = 0; i < s->n; i++) {
        entry *e = &s->entries[s->first + i];

        if (!e->done && e->item.seq == a->seq && e->item.session == a->session &&
            e->item.epoch == a->epoch) {
            e->recorded = a->events > 0 ? (uint8_t) (a->stored + 1) : 0; /* else counted before */
            mrd_spool_complete(s, e);
            break;
        }
    }
    return err;
}

/* Later records replace earlier ones. */
static mrd_err
take_session(mrd_spool *s, const uint8_t *payload, uint32_t len)
{
    session_record r;
    sequence *q;
    mrd_err err;

    if (len < sizeof(r) || len - sizeof(r) > MRD_SPOOL_NOTE)
        return MRD_CORRUPT;
    memcpy(&r, payload, sizeof(r));
    mrd_spool_set_epoch(s, r.epoch);
    if (r.session == 0 && r.next == 0)
        return MRD_OK;
    if ((err = mrd_spool_take_sequence(s, r.session, &q)) != MRD_OK)
        return err;
    q->next = q->next < r.next ? r.next : q->next;
    q->committed = q->committed < r.next ? r.next : q->committed;
    q->tally.delivered = r.delivered;
    q->tally.refused = r.refused;
    q->tally.forced = r.forced;
    q->tally.note_len = len - (uint32_t) sizeof(r);
    memcpy(q->tally.note, payload + sizeof(r), q->tally.note_len);
    return MRD_OK;
}

static mrd_err
take_clock(mrd_spool *s, const clock_record *r)
{
    sequence *q;
    mrd_err err = mrd_spool_take_sequence(s, r->session, &q);

    if (err == MRD_OK)
        q->clock_lost = r->lost;
    return err;
}

static mrd_err
take_base(mrd_spool *s, const uint8_t *payload, uint32_t len)
{
    mrd_spool_base base = { 0 };
    base_record r;
    sequence *q;
    mrd_err err;

    if (len < sizeof(r) || len - sizeof(r) > MRD_SPOOL_NOTE)
        return MRD_CORRUPT;
    memcpy(&r, payload, sizeof(r));
    base.begun = r.begun;
    base.held = r.held;
    base.known = r.known;
    base.tally.delivered = r.delivered;
    base.tally.refused = r.refused;
    base.tally.forced = r.forced;
    base.tally.damaged = r.damaged;
    base.tally.note_len = len - (uint32_t) sizeof(r);
    memcpy(base.tally.note, payload + sizeof(r), base.tally.note_len);
    err = mrd_spool_take_sequence(s, r.session, &q);
    return err == MRD_OK ? mrd_spool_set_base(q, &base) : err;
}

static mrd_err
take_record(mrd_spool *s, segment *seg, const record_head *head, const uint8_t *payload,
            uint64_t at)
{
    answer_record a;
    clock_record c;

    switch (head->kind) {
    case KIND_FRAME:
        return take_frame(s, seg, payload, head->len, at);
    case KIND_SEQ:
        return take_session(s, payload, head->len);
    case KIND_ACK:
        if (head->len != sizeof(a))
            return MRD_CORRUPT;
        memcpy(&a, payload, sizeof(a));
        return take_answer(s, &a);
    case KIND_COMMIT:
        return take_commit(s, seg, payload, head->len);
    case KIND_CLOCK:
        if (head->len != sizeof(c))
            return MRD_CORRUPT;
        memcpy(&c, payload, sizeof(c));
        return take_clock(s, &c);
    case KIND_BASE:
        return take_base(s, payload, head->len);
    case KIND_BOOT:
        for (size_t i = 0; i < s->n; i++)
            s->entries[s->first + i].item.earlier = true;
        return MRD_OK;
    case KIND_VOID:
        (void) mrd_spool_discard_uncommitted(s);
        return MRD_OK;
    default:
        return MRD_CORRUPT;
    }
}

/* Reads records until the end, or until the first incomplete one. */
static mrd_err
scan(mrd_spool *s, segment *seg, uint64_t size)
{
    mrd_buf data = { 0 };
    mrd_err err = MRD_OK;
    uint64_t at = 0;

    while (err == MRD_OK && size - at >= sizeof(record_head)) {
        record_head head;

        if (pread(seg->fd, &head, sizeof(head), (off_t) at) != (ssize_t) sizeof(head) ||
            head.magic != RECORD_MAGIC || head.len > MRD_FRAME_MAX + 8 ||
            head.len > size - at - sizeof(head))
            break;
        if (!mrd_buf_room(&data, head.len)) {
            err = MRD_NOMEM;
            break;
        }
        if (pread(seg->fd, data.p, head.len, (off_t) (at + sizeof(head))) != (ssize_t) head.len ||
            mrd_spool_crc_of(head.kind, (mrd_bytes){ data.p, head.len }, (mrd_bytes){ 0 }) !=
                head.crc)
            break;
        err = take_record(s, seg, &head, data.p, at);
        if (err == MRD_CORRUPT) {
            err = MRD_OK;
            break;
        }
        at += sizeof(head) + head.len;
    }
    seg->len = at;
    s->stats.torn_bytes += size - at;
    if (size > at && ftruncate(seg->fd, (off_t) at) != 0)
        err = err == MRD_OK ? MRD_IO : err;
    mrd_buf_fini(&data);
    return err;
}

static mrd_err
recover_one(mrd_spool *s, const char *name, mrd_why *why)
{
    char path[1024];
    uint64_t number;
    struct stat st;
    segment *seg;
    char hex[20];
    mrd_err err;

    snprintf(hex, sizeof(hex), "0x%.16s", name + 6);
    if (strlen(name) != 26 || mrd_num_u64(mrd_str_of(hex), &number) != MRD_OK)
        return MRD_OK;
    mrd_spool_path_of(s, number, path);
    if (!MRD_VEC_NEXT(s->segments, s->n_segments))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    seg = &s->segments[s->n_segments];
    *seg = (segment){ .number = number, .fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) };
    if (seg->fd < 0 || fstat(seg->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        err = mrd_why_set(why, MRD_IO, errno, "spool '%s'", path);
        if (seg->fd >= 0)
            close(seg->fd);
        return err;
    }
    s->n_segments++;
    err = scan(s, seg, (uint64_t) st.st_size);
    s->stats.file_bytes += seg->len;
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, errno, "spool '%s'", path);
}

static int
is_segment(const struct dirent *e)
{
    return strncmp(e->d_name, "spool-", 6) == 0 && mrd_str_ends(mrd_str_of(e->d_name), ".mrs");
}

mrd_err
mrd_spool_recover(mrd_spool *s, mrd_why *why)
{
    struct dirent **names = NULL;
    mrd_err err = MRD_OK;
    int n = scandir(s->dir, &names, is_segment, alphasort);

    for (int i = 0; i < n; i++) {
        if (err == MRD_OK)
            err = recover_one(s, names[i]->d_name, why);
        free(names[i]);
    }
    free(names);
    if (n < 0)
        return mrd_why_set(why, MRD_IO, errno, "spool folder '%s'", s->dir);
    return err;
}
