/* agent/record/record_notes.c - saves this node's sessions as notes in a file, from which the next
 * agent resumes the sessions at once. */
#include <stdio.h>

#include "agent/record/record_int.h"
#include "base/sys/file.h"
#include "base/sys/out.h"

#define NOTE_MAX (1u << 20)
/* Flag in the member `phase` of a saved session. It means that a note_changes and the session's
 * pauses follow the control message. */
#define NOTE_CHANGED (1u << 16)

typedef struct {
    char boot_id[64];
    uint64_t session;
    mrd_local_ns start, reported, stop;
    mrd_dur_ns bound_ns;
    uint32_t phase, control_len;
} note;

typedef struct {
    uint32_t revision, n_pauses;
} note_changes;

static void
put_changes(const session *sess, mrd_buf *text)
{
    note_changes changes = { sess->st.revision, (uint32_t) sess->n_pauses };

    mrd_buf_add(text, &changes, sizeof(changes));
    mrd_buf_add(text, sess->pauses, sess->n_pauses * sizeof(*sess->pauses));
}

/* Saves all sessions for the next agent. If this fails, the next agent waits until the aggregator
 * lists the sessions, which is slower but correct. */
void
mrd_record_write_notes(const mrd_record *record)
{
    mrd_buf text = { 0 };

    if (record->o.state_path == NULL)
        return;
    for (size_t i = 0; i < record->n_sessions; i++) {
        const session *sess = &record->sessions[i];
        note n = { .session = sess->st.id,
                   .start = sess->st.start,
                   .reported = sess->st.reported,
                   .stop = sess->st.stop,
                   .bound_ns = sess->st.start_bound_ns,
                   .phase = (uint32_t) sess->st.phase,
                   .control_len = (uint32_t) sess->control.len };

        snprintf(n.boot_id, sizeof(n.boot_id), "%.63s", record->o.boot_id);
        if (sess->control.len == 0 || sess->st.phase == MRD__NODE_PHASE__NODE_FLUSHED)
            continue;
        if (sess->st.revision > 0)
            n.phase |= NOTE_CHANGED;
        mrd_buf_add(&text, &n, sizeof(n));
        mrd_buf_add(&text, sess->control.p, sess->control.len);
        if (sess->st.revision > 0)
            put_changes(sess, &text);
    }
    if (text.err == MRD_OK)
        (void) mrd_write_file(record->o.state_path, (mrd_bytes){ text.p, text.len }, 0600, NULL);
    mrd_buf_fini(&text);
}

/* Copies the first n bytes of *rest to `to` and removes them from *rest. Returns false if there are
 * fewer. */
static bool
take_bytes(mrd_bytes *rest, void *to, size_t n)
{
    if (n > rest->len)
        return false;
    if (n > 0)
        memcpy(to, rest->p, n);
    rest->p += n;
    rest->len -= n;
    return true;
}

/* Reads the first saved session of *rest and removes it. Passes it to `resume` if it is of this
 * boot. Returns false at the end, or at invalid data. */
static bool
take_note(mrd_record *record, mrd_bytes *rest, mrd_record_resume resume)
{
    mrd_record_pause pauses[MRD_RECORD_PAUSES];
    note_changes changes = { 0 };
    note n;
    mrd_msg msg = { 0 };

    if (!take_bytes(rest, &n, sizeof(n)) || n.control_len > rest->len ||
        mrd_msg_unpack((mrd_bytes){ rest->p, n.control_len }, &msg, NULL) != MRD_OK)
        return false;
    n.boot_id[sizeof(n.boot_id) - 1] = '\0';
    rest->p += n.control_len;
    rest->len -= n.control_len;
    if ((n.phase & NOTE_CHANGED) != 0 &&
        (!take_bytes(rest, &changes, sizeof(changes)) || changes.n_pauses > MRD_RECORD_PAUSES ||
         !take_bytes(rest, pauses, changes.n_pauses * sizeof(*pauses)))) {
        mrd_msg_free(&msg);
        return false;
    }
    if (strcmp(n.boot_id, record->o.boot_id) == 0 && msg.frame.type == MRD_FRAME_CONTROL)
        resume(record, &(mrd_record_note){ .session = n.session,
                                           .control = msg.u.control,
                                           .start = n.start,
                                           .reported = n.reported,
                                           .stop = n.stop,
                                           .bound_ns = n.bound_ns,
                                           .phase = (Mrd__NodePhase) (n.phase & ~NOTE_CHANGED),
                                           .revision = changes.revision,
                                           .pauses = pauses,
                                           .n_pauses = changes.n_pauses });
    mrd_msg_free(&msg);
    return true;
}

void
mrd_record_read_notes(mrd_record *record, mrd_record_resume resume)
{
    const char *path = record->o.state_path;
    mrd_buf text = { 0 };
    mrd_bytes rest;

    if (path != NULL)
        /* a file that cannot be read is treated as missing */
        (void) mrd_file_read(path, NOTE_MAX, &text, NULL);
    rest = (mrd_bytes){ text.p, text.len };
    /* cleared meanwhile, because `resume` must not write the file before all sessions are read */
    record->o.state_path = NULL;
    while (take_note(record, &rest, resume))
        ;
    record->o.state_path = path;
    mrd_buf_fini(&text);
}
