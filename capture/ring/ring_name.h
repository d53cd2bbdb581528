/* capture/ring/ring_name.h - names of ring files, of the other files next to them, and of their
 * directory. */
#ifndef MRD_CAPTURE_RING_RING_NAME_H
#define MRD_CAPTURE_RING_RING_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "capture/ring/ring.h"

/* The parts of a ring file's name: meridian.<boot>.<pid>.<start>.<tid>[.<n>].ring */
typedef struct {
    uint8_t boot_id[16];
    int32_t pid, tid;
    uint64_t start_ticks;
    /* number n in the name; above 0 if another program ran in this process before an exec and left
     * a ring of the same name */
    uint32_t serial;
} mrd_ring_name;

/* Parses `file_name`, which has no directory. Returns false if it is not the name of a ring. */
bool mrd_ring_name_parse(const char *file_name, mrd_ring_name *ret_name);
/* Writes the ring's file name. `text` has MRD_RING_NAME_MAX bytes. */
void mrd_ring_name_print(const mrd_ring_name *name, char *text);
/* Write the file name of the control file or the settings file of the ring's process. Both lie in
 * the directory of the ring (docs/reference/nrt.md). `text` has MRD_RING_NAME_MAX bytes. */
void mrd_ring_control_print(const mrd_ring_name *name, char *text);
/* Like mrd_ring_control_print, for the settings file. */
void mrd_ring_settings_print(const mrd_ring_name *name, char *text);

/* The parts of the file name of a note of lost events (capture/ring/ring_note.h). */
typedef struct {
    mrd_ring_name process; /* tid and serial are 0 */
    /* 0 while the process may still change the note. k if a reader has renamed the note, and it was
     * the k-th note of the process. */
    uint32_t taken;
} mrd_ring_note_name;

/* Parses or prints the name of a note: meridian.<boot>.<pid>.<start>.lost, with .<k> appended after
 * a reader has taken the note. */
bool mrd_ring_note_parse(const char *file_name, mrd_ring_note_name *ret_name);
/* `text` has MRD_RING_NAME_MAX bytes. */
void mrd_ring_note_print(const mrd_ring_note_name *name, char *text);
/* Returns the value of the line "key=value\n" in `lines`, or an empty text if there is no such
 * line. */
mrd_str mrd_ring_ident_value(mrd_str lines, const char *key);
/* Returns the directory of rings, which is MERIDIAN_RING_DIR or else /dev/shm. */
const char *mrd_ring_dir(void);

#endif
