/*
 * capture/ring/ring_note.h - a note of losses. A process that cannot make a ring writes into it how
 * many events it lost (docs/reference/ring.md, section 7).
 *
 * The note is a symbolic link next to the rings, and its target is the text. A link needs no
 * descriptor, and no disk block if the text has at most MRD_RING_NOTE_SHORT bytes. Limits of file
 * sizes do not apply to links. So a link can still be made when a ring cannot. Readers read the
 * link's target and never follow the link.
 *
 * Each loss is in one note only. The process adds to its note until a reader takes the note by
 * renaming it. Then the process makes another note.
 */
#ifndef MRD_CAPTURE_RING_RING_NOTE_H
#define MRD_CAPTURE_RING_RING_NOTE_H

#include "base/buf.h"
#include "base/clock.h"
#include "capture/ring/ring_name.h"

#define MRD_RING_NOTE_MAX 4095u /* maximum length of the text in bytes */
/* longest text that a tmpfs stores in the link's inode, in bytes */
#define MRD_RING_NOTE_SHORT 127u

typedef struct {
    uint64_t count; /* number of lost events */
    /* times of the first and last loss, in the process's own time namespace */
    mrd_local_ns first, last;
    uint64_t why;    /* errno value of the last failed attempt to make a ring */
    uint64_t pid_ns; /* pid_ns and the next two members have the same meaning as in mrd_ring_hdr */
    mrd_dur_ns timens_monotonic_ns, timens_boottime_ns;
    mrd_str ident; /* the lines "key=value\n" of the process's identity that fit into the note */
} mrd_ring_note;

/*
 * Adds the losses to the note of the process in `dir`, or makes the note. Returns 0 or an errno
 * value. After an error, the note contains none of these losses. Only one thread of a process may
 * call it at a time. The function is safe in a signal handler and uses little stack.
 */
int mrd_ring_note_add(const char *dir, const mrd_ring_name *process, const mrd_ring_note *losses);
/* Parses the text of a note, which is the link's target. ret_note->ident points into `text`.
 * Returns false if the text is not a note. */
bool mrd_ring_note_read(mrd_str text, mrd_ring_note *ret_note);
/* Returns why no ring could be made, as part of a sentence. `why` is an errno value. Returns NULL
 * if this function has no text for it. The text is static. */
const char *mrd_ring_note_reason(int why);

#endif
