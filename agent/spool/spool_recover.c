/* agent/spool/spool_recover.c - reads a previous agent's segments: frames, answers, commits and the
 * states of sessions. */
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
take_frame(mrd_spool *spool, segment *seg, const uint8_t *payload, uint32_t len, uint64_t at)
{
    mrd_frame frame;
    entry ent = { .segment = seg->number, .at = at + sizeof(record_head) + 8 };

    if (len < 8 || mrd_frame_get((mrd_bytes){ payload + 8, len - 8 }, &frame, NULL) != MRD_OK)
        return MRD_CORRUPT;
    memcpy(&ent.item.events, payload, 8);
    ent.item.id = spool->next_id;
    mrd_spool_describe(&ent, &frame);
    ent.item.len = len - 8;
    if (!mrd_spool_push_entry(spool, &ent))
        return MRD_NOMEM;
    spool->next_id++;
    seg->live++;
    return MRD_OK;
}

/* Reads the sessions' notes at the end of a commit. Errors: CORRUPT, LIMIT, NOMEM. */
static mrd_err
take_notes(mrd_spool *spool, const uint8_t *bytes, size_t len, uint32_t n)
{
    for (; n > 0; n--) {
        note_head head;
        sequence *seq;
        mrd_err err;

        if (len < sizeof(head))
            return MRD_CORRUPT;
        memcpy(&head, bytes, sizeof(head));
        if (head.len > MRD_SPOOL_NOTE || head.len > len - sizeof(head))
            return MRD_CORRUPT;
        if ((err = mrd_spool_take_sequence(spool, head.session, &seq)) != MRD_OK)
            return err;
        memcpy(seq->tally.note, bytes + sizeof(head), head.len);
        seq->tally.note_len = head.len;
        bytes += sizeof(head) + head.len;
        len -= sizeof(head) + head.len;
    }
    return len == 0 ? MRD_OK : MRD_CORRUPT;
}

/* Handles a commit record, which makes the frames since the previous commit valid. */
static mrd_err
take_commit(mrd_spool *spool, const segment *seg, const uint8_t *payload, uint32_t len)
{
    commit_head head;
    size_t size;
    mrd_spool_position *positions;
    mrd_err err = MRD_OK;

    if (len < sizeof(head))
        return MRD_CORRUPT;
    memcpy(&head, payload, sizeof(head));
    if (head.positions > MRD_SPOOL_POSITIONS)
        return MRD_CORRUPT;
    size = head.positions * sizeof(*positions);
    if (size > len - sizeof(head))
        return MRD_CORRUPT;
    if ((positions = malloc(size + 1)) == NULL)
        return MRD_NOMEM;
    memcpy(positions, payload + sizeof(head), size);
    free(spool->positions);
    spool->positions = positions;
    spool->n_positions = head.positions;
    spool->positions_segment = seg->number;
    err = take_notes(spool, payload + sizeof(head) + size, len - sizeof(head) - size, head.notes);
    for (size_t i = 0; i < spool->n && err == MRD_OK; i++) {
        const mrd_spool_item *item = &spool->entries[spool->first + i].item;

        if (item->id >= spool->committed_id && item->epoch == spool->epoch)
            err = mrd_spool_set_sequence(spool, item->session, item->seq + 1);
    }
    mrd_spool_commit_sequences(spool);
    return err;
}

static mrd_err
take_answer(mrd_spool *spool, const answer_record *record)
{
    mrd_err err = mrd_spool_count_answer(spool, record);

    for (size_t i = 0; i < spool->n; i++) {
        entry *ent = &spool->entries[spool->first + i];

        if (!ent->done && ent->item.seq == record->seq && ent->item.session == record->session &&
            ent->item.epoch == record->epoch) {
            ent->recorded =
                /* an answer with 0 events only completes the frame, whose events are already in the
                 * session's sums */
                record->events > 0 ? (uint8_t) (record->stored + 1) : 0;
            mrd_spool_complete(spool, ent);
            break;
        }
    }
    return err;
}

/* Reads the state of a session from a record. A later record of the same session replaces it. */
static mrd_err
take_session(mrd_spool *spool, const uint8_t *payload, uint32_t len)
{
    session_record record;
    sequence *seq;
    bool is_known;
    mrd_err err;

    if (len < sizeof(record) || len - sizeof(record) > MRD_SPOOL_NOTE)
        return MRD_CORRUPT;
    memcpy(&record, payload, sizeof(record));
    mrd_spool_set_epoch(spool, record.epoch);
    if (record.session == 0 && record.next == 0)
        return MRD_OK;
    is_known = mrd_spool_find_sequence(spool, record.session) != NULL;
    if ((err = mrd_spool_take_sequence(spool, record.session, &seq)) != MRD_OK)
        return err;
    /* The sums in this record include answers whose own records were not found. Because records
     * before this record are missing, the records of the answers were lost. Otherwise a full disk
     * could have prevented them. */
    if (is_known && spool->holed &&
        record.delivered + record.refused > seq->tally.delivered + seq->tally.refused)
        seq->unanswered = true;
    seq->next = seq->next < record.next ? record.next : seq->next;
    seq->committed = seq->committed < record.next ? record.next : seq->committed;
    seq->tally.delivered = record.delivered;
    seq->tally.refused = record.refused;
    seq->tally.forced = record.forced;
    seq->tally.note_len = len - (uint32_t) sizeof(record);
    memcpy(seq->tally.note, payload + sizeof(record), seq->tally.note_len);
    return MRD_OK;
}

static mrd_err
take_clock(mrd_spool *spool, const clock_record *record)
{
    sequence *seq;
    mrd_err err = mrd_spool_take_sequence(spool, record->session, &seq);

    if (err == MRD_OK)
        seq->clock_lost = record->lost;
    return err;
}

static mrd_err
take_base(mrd_spool *spool, const uint8_t *payload, uint32_t len)
{
    mrd_spool_base base = { 0 };
    base_record record;
    sequence *seq;
    mrd_err err;

    if (len < sizeof(record) || len - sizeof(record) > MRD_SPOOL_NOTE)
        return MRD_CORRUPT;
    memcpy(&record, payload, sizeof(record));
    base.begun = record.begun;
    base.held = record.held;
    base.known = record.known;
    base.tally.delivered = record.delivered;
    base.tally.refused = record.refused;
    base.tally.forced = record.forced;
    base.tally.damaged = record.damaged;
    base.tally.note_len = len - (uint32_t) sizeof(record);
    memcpy(base.tally.note, payload + sizeof(record), base.tally.note_len);
    err = mrd_spool_take_sequence(spool, record.session, &seq);
    return err == MRD_OK ? mrd_spool_set_base(seq, &base) : err;
}

static mrd_err
take_record(mrd_spool *spool, segment *seg, const record_head *head, const uint8_t *payload,
            uint64_t at)
{
    answer_record record;
    clock_record c;

    switch (head->kind) {
    case KIND_FRAME:
        return take_frame(spool, seg, payload, head->len, at);
    case KIND_SEQ:
        return take_session(spool, payload, head->len);
    case KIND_ACK:
        if (head->len != sizeof(record))
            return MRD_CORRUPT;
        memcpy(&record, payload, sizeof(record));
        return take_answer(spool, &record);
    case KIND_COMMIT:
        return take_commit(spool, seg, payload, head->len);
    case KIND_CLOCK:
        if (head->len != sizeof(c))
            return MRD_CORRUPT;
        memcpy(&c, payload, sizeof(c));
        return take_clock(spool, &c);
    case KIND_BASE:
        return take_base(spool, payload, head->len);
    case KIND_BOOT:
        for (size_t i = 0; i < spool->n; i++)
            spool->entries[spool->first + i].item.earlier = true;
        return MRD_OK;
    case KIND_VOID:
        (void) mrd_spool_discard_uncommitted(spool);
        return MRD_OK;
    default:
        return MRD_CORRUPT;
    }
}

/* Reads records until the end of the segment, or until the first incomplete record. */
static mrd_err
scan(mrd_spool *spool, segment *seg, uint64_t size)
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
        err = take_record(spool, seg, &head, data.p, at);
        if (err == MRD_CORRUPT) {
            err = MRD_OK;
            break;
        }
        at += sizeof(head) + head.len;
    }
    seg->len = at;
    spool->stats.torn_bytes += size - at;
    if (size > at && ftruncate(seg->fd, (off_t) at) != 0)
        err = err == MRD_OK ? MRD_IO : err;
    mrd_buf_fini(&data);
    return err;
}

static mrd_err
recover_one(mrd_spool *spool, const char *name, mrd_why *why)
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
    mrd_spool_path_of(spool, number, path);
    if (!MRD_VEC_NEXT(spool->segments, spool->n_segments))
        return mrd_why_set(why, MRD_NOMEM, 0, "spool");
    seg = &spool->segments[spool->n_segments];
    *seg = (segment){ .number = number, .fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) };
    if (seg->fd < 0 || fstat(seg->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        err = mrd_why_set(why, MRD_IO, errno, "spool '%s'", path);
        if (seg->fd >= 0)
            close(seg->fd);
        return err;
    }
    spool->holed = spool->holed || spool->stats.torn_bytes > 0 ||
                   (spool->n_segments > 0 && seg[-1].number + 1 != number);
    spool->n_segments++;
    err = scan(spool, seg, (uint64_t) st.st_size);
    spool->stats.file_bytes += seg->len;
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, errno, "spool '%s'", path);
}

static int
is_segment(const struct dirent *e)
{
    return strncmp(e->d_name, "spool-", 6) == 0 && mrd_str_ends(mrd_str_of(e->d_name), ".mrs");
}

mrd_err
mrd_spool_recover(mrd_spool *spool, mrd_why *why)
{
    struct dirent **names = NULL;
    mrd_err err = MRD_OK;
    int n = scandir(spool->dir, &names, is_segment, alphasort);

    for (int i = 0; i < n; i++) {
        if (err == MRD_OK)
            err = recover_one(spool, names[i]->d_name, why);
        free(names[i]);
    }
    free(names);
    if (n < 0)
        return mrd_why_set(why, MRD_IO, errno, "spool folder '%s'", spool->dir);
    return err;
}
