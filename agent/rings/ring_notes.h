/*
 * agent/rings/ring_notes.h - reads notes of losses (capture/ring/ring_note.h). A process that
 * cannot make a ring writes the number of its lost events to a file, its note.
 *
 * The agent renames a note before it reads the note, so that the process writes later losses to a
 * new note. The agent emits the losses like losses of a ring, and removes the file when they are
 * committed. An agent may find a note that an earlier agent renamed. If the last commit contains
 * the losses of this note, the agent removes the note, otherwise it reads the note. The process
 * stays in the list while it runs, with or without rings.
 *
 * Threads   Only the drain's thread calls these functions.
 */
#ifndef MRD_AGENT_RINGS_RING_NOTES_H
#define MRD_AGENT_RINGS_RING_NOTES_H

#include "agent/rings/drain_int.h"

/* Handles a file in directory `dir` that has the name of a note of losses. */
void mrd_drain_note_found(mrd_drain *drain, unsigned dir, int dir_fd, const char *file_name);
/* These functions do for the process's notes of losses what mrd_drain_positions and
 * mrd_drain_release do for its rings. mrd_drain_note_release may free the process. */
void mrd_drain_note_positions(const mrd_drain *drain, const proc *pr,
                              void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
void mrd_drain_note_release(mrd_drain *drain, const proc *pr);
/* Removes processes that have ended and have no rings. */
void mrd_drain_note_sweep(mrd_drain *drain);
void mrd_drain_notes_fini(mrd_drain *drain);

#endif
