#include "agent/rings/ring_notes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rings/drain_processes.h"
#include "agent/rings/drain_rings.h"
#include "agent/rings/identify.h"
#include "agent/rings/loss_count.h"
#include "base/num.h"
#include "base/vec.h"
#include "capture/ring/ring_note.h"
#include "capture/ring/ring_owner.h"

/* Maximum number of processes that have notes of losses. A user may have half of the slots that
 * other users leave free. */
#define NOTES_MAX 4096u
/* Maximum number of notes of one process that an agent renamed for reading and did not remove
 * yet. */
#define TAKEN_MAX 64u

/* A process that wrote notes of losses. */
struct ring_note {
    unsigned dir;
    char base[MRD_RING_NAME_MAX]; /* file name under which the process writes its note */
    /* name of the note that was renamed for reading and is not removed yet; "" if there is none */
    char file[MRD_RING_NAME_MAX];
    proc *proc;
    uint32_t uid;     /* user that owns the note's file */
    int32_t host_pid; /* pid of the process on this node; 0 means that it was not found */
    uint64_t start_ticks;
    /* Start time of the process as the process sees it, minus its start time as this agent sees it.
     * The difference is not 0 if the process is in another time namespace. */
    mrd_dur_ns start_ahead_ns;
    bool was_said; /* a log message said that the process is not recorded */
    bool waits;    /* the note's losses were emitted and are not part of a commit yet */
};

/* ---- Files of notes -------------------------------------------------------------------------- */

static ring_note *
find_note(mrd_drain *drain, unsigned dir, const char *base)
{
    for (size_t i = 0; i < drain->n_notes; i++)
        if (drain->notes[i]->dir == dir && strcmp(drain->notes[i]->base, base) == 0)
            return drain->notes[i];
    return NULL;
}

/* Takes the note by renaming it, so that the process writes later losses to a new note. Returns
 * false if the note does not exist any more or cannot be renamed. */
static bool
take_file(int dir_fd, const char *base, mrd_ring_note_name *name, char file[MRD_RING_NAME_MAX])
{
    for (name->taken = 1; name->taken <= TAKEN_MAX; name->taken++) {
        mrd_ring_note_print(name, file);
        if (renameat2(dir_fd, base, dir_fd, file, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* ---- The process of a note ------------------------------------------------------------------- */

/* Returns the pid on this node of a process in another pid namespace, or 0 if the process was not
 * found. */
static int32_t
search_process(const mrd_drain *drain, const mrd_ring_info *info)
{
    const struct dirent *entry;
    DIR *dir = opendir(drain->proc_root);
    int32_t found = 0;

    while (dir != NULL && found == 0 && (entry = readdir(dir)) != NULL) {
        int32_t pid = (int32_t) strtol(entry->d_name, NULL, 10);
        char path[300];
        struct stat st;
        mrd_ident id;

        snprintf(path, sizeof(path), "%.240s/%" PRId32 "/ns/pid", drain->proc_root, pid);
        if (pid > 0 && stat(path, &st) == 0 && st.st_ino == info->pid_ns &&
            mrd_ident_read(drain->proc_root, pid, &id, NULL) == MRD_OK &&
            id.container_pid == info->name.pid)
            found = pid;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static bool
is_alive(const mrd_drain *drain, const ring_note *note)
{
    mrd_ring_owner_id owner = { .proc_dir = drain->proc_root,
                                .pid = note->host_pid,
                                .host_pid = note->host_pid,
                                .start_ticks = note->start_ticks,
                                .start_ahead_ns = note->start_ahead_ns };

    return note->host_pid > 0 && mrd_ring_owner_check(&owner, false) != MRD_OWNER_DEAD;
}

static mrd_ring_info
info_of(const mrd_ring_note_name *name, const mrd_ring_note *note, const struct stat *st)
{
    return (mrd_ring_info){ .name = name->process,
                            .pid_ns = note->pid_ns,
                            .file_uid = st->st_uid,
                            .device = st->st_dev,
                            .inode = st->st_ino,
                            .timens_monotonic_ns = note->timens_monotonic_ns,
                            .created = note->first,
                            .ident = note->ident };
}

static bool
has_share(const mrd_drain *drain, uint32_t uid)
{
    size_t own = 0;

    for (size_t i = 0; i < drain->n_notes; i++)
        own += drain->notes[i]->uid == uid;
    return own < NOTES_MAX - drain->n_notes;
}

/* Adds the process of a note whose process is not in the list yet. Errors: DENIED (the note names
 * another user's process), LIMIT, NOMEM. */
static mrd_err
new_note(mrd_drain *drain, unsigned dir, const char *base, const mrd_ring_info *info,
         const mrd_ring_note *note, ring_note **ret_note)
{
    bool ours = info->pid_ns == 0 || info->pid_ns == drain->pid_ns;
    int32_t host_pid = ours ? info->name.pid : search_process(drain, info);
    int64_t monotonic, boottime;
    ring_note *n;
    mrd_ident id;
    proc *pr;

    if (!has_share(drain, info->file_uid))
        return MRD_LIMIT;
    if (mrd_drain_identify(drain, dir, info, NULL, host_pid, &id) != MRD_OK)
        return MRD_DENIED;
    if (!MRD_VEC_ROOM(drain->notes, drain->n_notes, drain->cap_notes, 1) ||
        (n = calloc(1, sizeof(*n))) == NULL)
        return MRD_NOMEM;
    pr = mrd_drain_proc_find(drain, id.pid, info->name.start_ticks);
    if (pr == NULL && (pr = mrd_drain_proc_new(drain, &id, info)) == NULL) {
        free(n);
        return MRD_NOMEM;
    }
    mrd_ring_timens(&monotonic, &boottime);
    n->dir = dir;
    snprintf(n->base, sizeof(n->base), "%s", base);
    n->uid = info->file_uid;
    n->proc = pr;
    n->host_pid = host_pid;
    n->start_ticks = info->name.start_ticks;
    n->start_ahead_ns = note->timens_boottime_ns - boottime;
    /* without a ring, the control and settings files of the process are in the directory of its
     * note */
    if (pr->control[0] == '\0') {
        mrd_ring_control_print(&info->name, pr->control);
        mrd_ring_settings_print(&info->name, pr->settings);
        pr->control_dir = dir;
    }
    pr->n_notes++;
    drain->notes[drain->n_notes++] = n;
    mrd_discover_hold(drain->discover, dir, 1);
    *ret_note = n;
    return MRD_OK;
}

/* Drops the entry of a process that ended. Also removes a note that the process began and did not
 * complete. */
static void
drop_note(mrd_drain *drain, ring_note *note)
{
    char unfinished[MRD_RING_NAME_MAX + 8];
    proc *pr = note->proc;
    size_t i = 0;

    snprintf(unfinished, sizeof(unfinished), "%s.new", note->base);
    (void) unlinkat(mrd_discover_dir_fd(drain->discover, note->dir), unfinished, 0);
    while (drain->notes[i] != note)
        i++;
    drain->notes[i] = drain->notes[--drain->n_notes];
    mrd_discover_hold(drain->discover, note->dir, -1);
    free(note);
    pr->n_notes--;
    mrd_drain_proc_unused(drain, pr);
}

/* ---- The contents of a note ------------------------------------------------------------------ */

static void
give_losses(mrd_drain *drain, ring_note *n, const mrd_ring_note *note)
{
    mrd_local_ns first = { mrd_sat_add(note->first.ns, n->proc->shift_ns) };
    mrd_local_ns last = { mrd_sat_add(note->last.ns, n->proc->shift_ns) };
    const char *reason = mrd_ring_note_reason((int) note->why);
    mrd_event ev = { .ts = { first.ns },
                     .kind = MRD_INSTANT,
                     .flags = drain->o.simulated ? MRD_EV_SIMULATED : 0 };
    char text[256];
    mrd_track track;

    if (!n->was_said) {
        snprintf(text, sizeof(text),
                 "events of this process are lost because it cannot make a ring: %s (error %d)",
                 reason == NULL ? "the system refuses it" : reason, (int) note->why);
        mrd_track_init(&track, n->proc->pub.id, MRD_SRC_MERIDIAN);
        ev.track = mrd_catalog_track(n->proc->pub.catalog, &track);
        ev.name = mrd_catalog_intern(n->proc->pub.catalog, text);
        mrd_drain_notice(drain, n->proc, &ev);
        n->was_said = true;
    }
    mrd_drain_lost(drain, n->proc, MRD_DROP_RING_OTHER, note->count, first, last);
    n->waits = true;
}

/* Removes the file of a note when all its losses are durable. */
static void
end_file(mrd_drain *drain, ring_note *note)
{
    (void) unlinkat(mrd_discover_dir_fd(drain->discover, note->dir), note->file, 0);
    note->file[0] = '\0';
    note->waits = false;
    if (!is_alive(drain, note))
        drop_note(drain, note);
}

static void
read_note(mrd_drain *drain, unsigned dir, const char *base, const char *file,
          const mrd_ring_note_name *name)
{
    char text[MRD_RING_NOTE_MAX + 1];
    int dir_fd = mrd_discover_dir_fd(drain->discover, dir);
    ssize_t len = readlinkat(dir_fd, file, text, sizeof(text));
    ring_note *n = find_note(drain, dir, base);
    mrd_ring_info info;
    mrd_ring_note note;
    struct stat st;
    mrd_err err;

    if (len < 0 || fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !mrd_ring_note_read((mrd_str){ text, (size_t) len }, &note)) {
        mrd_drain_refused(drain, dir, file, "it is no note of losses");
        return;
    }
    info = info_of(name, &note, &st);
    if (n == NULL && (err = new_note(drain, dir, base, &info, &note, &n)) != MRD_OK) {
        drain->counts.rings_refused += err == MRD_DENIED;
        /* the claim about the process is false and stays false, so remove the file */
        if (err == MRD_DENIED)
            (void) unlinkat(dir_fd, file, 0);
        else
            mrd_drain_unread(drain, dir, file, MRD_UNREAD_BEYOND);
        return;
    }
    snprintf(n->file, sizeof(n->file), "%s", file);
    give_losses(drain, n, &note);
    if (!drain->o.hold)
        end_file(drain, n);
}

/* Returns true if the note is of this boot. Losses of an earlier boot belong to no running
 * session. */
static bool
is_of_this_boot(const mrd_drain *drain, const mrd_ring_note_name *name)
{
    uint8_t boot[16];

    return !mrd_ring_boot_id(drain->proc_root, boot) ||
           memcmp(boot, name->process.boot_id, 16) == 0;
}

void
mrd_drain_note_found(mrd_drain *drain, unsigned dir, int dir_fd, const char *file_name)
{
    char base[MRD_RING_NAME_MAX], file[MRD_RING_NAME_MAX];
    mrd_ring_note_name name, untaken;
    const ring_note *known;
    struct stat st;

    if (!mrd_ring_note_parse(file_name, &name))
        return;
    untaken = (mrd_ring_note_name){ .process = name.process };
    mrd_ring_note_print(&untaken, base);
    known = find_note(drain, dir, base);
    if ((known != NULL && known->file[0] != '\0') ||
        fstatat(dir_fd, file_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(st.st_mode) ||
        (drain->o.only_uid >= 0 && (int64_t) st.st_uid != drain->o.only_uid))
        return; /* only one note of a process is handled at a time */
    snprintf(file, sizeof(file), "%s", file_name);
    if (!is_of_this_boot(drain, &name) || (name.taken != 0 && mrd_drain_was_ended(drain, file)))
        (void) unlinkat(dir_fd, file, 0);
    else if (name.taken != 0 || take_file(dir_fd, base, &name, file))
        read_note(drain, dir, base, file, &name);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void
mrd_drain_note_positions(const mrd_drain *drain, const proc *pr,
                         void (*call)(void *self, uint64_t ring, uint64_t read), void *self)
{
    for (size_t i = 0; i < drain->n_notes; i++)
        if (drain->notes[i]->proc == pr && drain->notes[i]->waits)
            call(self, mrd_drain_ring_hash(drain->notes[i]->file) ^ MRD_DRAIN_ENDED, 1);
}

void
mrd_drain_note_release(mrd_drain *drain, const proc *pr)
{
    for (size_t i = drain->n_notes; i-- > 0;)
        if (drain->notes[i]->proc == pr && drain->notes[i]->waits)
            end_file(drain, drain->notes[i]);
}

void
mrd_drain_note_sweep(mrd_drain *drain)
{
    for (size_t i = drain->n_notes; i-- > 0;)
        if (drain->notes[i]->file[0] == '\0' && !is_alive(drain, drain->notes[i]))
            drop_note(drain, drain->notes[i]);
}

void
mrd_drain_notes_fini(mrd_drain *drain)
{
    for (size_t i = 0; i < drain->n_notes; i++)
        free(drain->notes[i]);
    free(drain->notes);
}
