#include "capture/ring/ring_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/num.h"
#include "capture/ring/print.h"

#define VERSION 1u
/* Maximum attempts to write a note. An attempt fails if a reader takes the old note meanwhile. */
#define TRIES    3
#define EXCHANGE (1u << 1) /* RENAME_EXCHANGE, which older headers lack */

/* ---- the text of a note ---------------------------------------------------------------------- */

static void
print_number(mrd_print *print, int64_t v)
{
    if (v < 0)
        mrd_print_text(print, "-");
    mrd_print_u64(print, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
    mrd_print_text(print, " ");
}

/* Prints the lines of the identity by which sessions select a process. Leaves out lines that do not
 * fit into the remaining `room` bytes. */
static void
print_most_important(mrd_print *print, mrd_str ident, size_t room)
{
    static const char *const keys[] = { "MERIDIAN_JOB", "SLURM_JOB_ID",  "POD_UID",
                                        "RANK",         "SLURM_PROCID",  "MERIDIAN_SESSION",
                                        "POD_NAME",     "POD_NAMESPACE", "SLURM_STEP_ID",
                                        "host" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        mrd_str value = mrd_ring_ident_value(ident, keys[i]);
        size_t len = strlen(keys[i]) + 1 + value.len + 1;

        if (value.len == 0 || len > room)
            continue;
        mrd_print_bytes(print, value.p - strlen(keys[i]) - 1, len); /* prints the whole line */
        room -= len;
    }
}

/* Prints the text of a note, at most `max` bytes. The numbers come first. The part of the identity
 * that fits follows. */
static void
print_note(const mrd_ring_note *note, size_t max, char text[MRD_RING_NOTE_MAX + 1])
{
    mrd_print print = mrd_print_to(text, MRD_RING_NOTE_MAX + 1);
    size_t used, room;

    mrd_print_u64(&print, VERSION);
    mrd_print_text(&print, " ");
    mrd_print_u64(&print, note->count);
    mrd_print_text(&print, " ");
    print_number(&print, note->first.ns);
    print_number(&print, note->last.ns);
    print_number(&print, (int64_t) note->why);
    print_number(&print, (int64_t) note->pid_ns);
    print_number(&print, note->timens_monotonic_ns);
    print_number(&print, note->timens_boottime_ns);
    mrd_print_text(&print, "\n");
    used = (size_t) (print.at - text);
    room = max > used ? max - used : 0;
    if (note->ident.len <= room)
        mrd_print_bytes(&print, note->ident.p, note->ident.len);
    else
        print_most_important(&print, note->ident, room);
}

/* Parses the next number of the note's first line, which must be at least `min`. */
static bool
take_number(mrd_str *line, int64_t min, int64_t *ret_v)
{
    const char *blank = memchr(line->p, ' ', line->len);
    size_t len = blank == NULL ? 0 : (size_t) (blank - line->p);
    int64_t v;

    if (len == 0 || mrd_num_i64((mrd_str){ line->p, len }, &v) != MRD_OK || v < min)
        return false;
    line->p += len + 1;
    line->len -= len + 1;
    *ret_v = v;
    return true;
}

bool
mrd_ring_note_read(mrd_str text, mrd_ring_note *ret_note)
{
    const char *nl = memchr(text.p, '\n', text.len);
    mrd_str line = { text.p, nl == NULL ? 0 : (size_t) (nl - text.p) };
    int64_t version, count, why, pid_ns;
    mrd_ring_note note;

    if (!take_number(&line, VERSION, &version) || version != VERSION ||
        !take_number(&line, 1, &count) || !take_number(&line, 0, &note.first.ns) ||
        !take_number(&line, note.first.ns, &note.last.ns) || !take_number(&line, 0, &why) ||
        !take_number(&line, 0, &pid_ns) ||
        !take_number(&line, -MRD_RING_TIMENS_MAX, &note.timens_monotonic_ns) ||
        !take_number(&line, -MRD_RING_TIMENS_MAX, &note.timens_boottime_ns) ||
        note.timens_monotonic_ns > MRD_RING_TIMENS_MAX ||
        note.timens_boottime_ns > MRD_RING_TIMENS_MAX || !mrd_time_sane(note.last.ns))
        return false;
    note.count = (uint64_t) count;
    note.why = (uint64_t) why;
    note.pid_ns = (uint64_t) pid_ns;
    note.ident = (mrd_str){ nl + 1, text.len - (size_t) (nl + 1 - text.p) };
    if (note.ident.len > MRD_RING_IDENT_MAX)
        return false;
    *ret_note = note;
    return true;
}

const char *
mrd_ring_note_reason(int why)
{
    switch (why) {
    case ENOENT:
    case ENOTDIR:
        return "there is no such folder";
    case EACCES:
    case EPERM:
        return "no permission to create files there";
    case EROFS:
        return "it is on a file system that is mounted read-only";
    case ENOSPC:
        return "there is no room";
    case EDQUOT:
        return "the user's quota there is used up";
    case EFBIG:
        return "the limit of file sizes (ulimit -f) is below the size of a ring";
    case EMFILE:
    case ENFILE:
        return "too many files are open (ulimit -n)";
    case ENOSYS:
    case EOPNOTSUPP:
        return "room cannot be reserved there (fallocate): another file system can, as a tmpfs "
               "does";
    case ENOMEM:
        return "there is no memory to map them";
    case ENOBUFS:
        return "MERIDIAN_RING_TOTAL is below the size of a ring";
    case ENAMETOOLONG:
    case ELOOP:
        return "its name cannot be used";
    default:
        return NULL;
    }
}

/* ---- the symbolic link that contains the text ------------------------------------------------ */

/* These buffers are static, because a signal handler may have a small stack. The caller prevents
 * concurrent use. */
static struct {
    char path[4096], fresh[4096]; /* the note, and the new note that replaces it */
    char text[MRD_RING_NOTE_MAX + 1], old[MRD_RING_NOTE_MAX + 1];
} buf;

static int
errno_of(int status)
{
    return status == 0 ? 0 : errno;
}

/* Makes the note's link with the whole identity, or a short note if the file system has no block
 * left. */
static int
make_link(const mrd_ring_note *note, const char *at)
{
    int err;

    print_note(note, MRD_RING_NOTE_MAX, buf.text);
    if ((err = errno_of(symlink(buf.text, at))) != ENOSPC && err != EDQUOT)
        return err;
    print_note(note, MRD_RING_NOTE_SHORT, buf.text);
    return errno_of(symlink(buf.text, at));
}

/* Replaces the existing note. Returns ENOENT if a reader has already taken that note. */
static int
replace_link(const mrd_ring_note *note)
{
    int err = make_link(note, buf.fresh);

    /* buf.fresh may exist already. A program that this process ran before may have made it and then
     * called exec before the rename below. */
    if (err == EEXIST) {
        (void) unlink(buf.fresh);
        err = make_link(note, buf.fresh);
    }
    if (err != 0)
        return err;
    err = errno_of((int) syscall(SYS_renameat2, AT_FDCWD, buf.fresh, AT_FDCWD, buf.path, EXCHANGE));
    (void) unlink(buf.fresh); /* removes the previous note, or the new one if the exchange failed */
    return err;
}

static mrd_ring_note
sum_of(const mrd_ring_note *losses, const mrd_ring_note *old)
{
    mrd_ring_note sum = *losses;

    sum.count = mrd_sat_count(sum.count, old->count);
    sum.first.ns = old->first.ns < sum.first.ns ? old->first.ns : sum.first.ns;
    sum.last.ns = old->last.ns > sum.last.ns ? old->last.ns : sum.last.ns;
    return sum;
}

static bool
print_path(char path[4096], const char *dir, const char *file, const char *suffix)
{
    mrd_print print = mrd_print_to(path, 4096);

    mrd_print_text(&print, dir);
    mrd_print_text(&print, "/");
    mrd_print_text(&print, file);
    mrd_print_text(&print, suffix);
    return !print.was_cut;
}

int
mrd_ring_note_add(const char *dir, const mrd_ring_name *process, const mrd_ring_note *losses)
{
    mrd_ring_note_name name = { .process = *process };
    char file[MRD_RING_NAME_MAX];
    int err = EEXIST;

    mrd_ring_note_print(&name, file);
    if (!print_path(buf.path, dir, file, "") || !print_path(buf.fresh, dir, file, ".new"))
        return ENAMETOOLONG;
    for (int i = 0; i < TRIES && (err == EEXIST || err == ENOENT); i++) {
        ssize_t n = readlink(buf.path, buf.old, sizeof(buf.old));
        mrd_ring_note sum = *losses, old;

        if (n < 0) {
            err = errno == ENOENT ? make_link(losses, buf.path) : errno;
            if (err == ENOENT)
                break; /* the directory does not exist */
            continue;
        }
        if (mrd_ring_note_read((mrd_str){ buf.old, (size_t) n }, &old))
            sum = sum_of(losses, &old);
        err = replace_link(&sum);
    }
    return err;
}
