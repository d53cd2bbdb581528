/*
 * agent/rings/ring_notes.h - reads notes of losses (capture/ring/ring_note.h). A process that
 * cannot make a ring writes the number of its lost events to a file, its note.
 *
 * The agent takes a note by renaming it, so that its process starts another one, and then reads it.
 * It emits the losses like losses of a ring. After they are committed it removes the file. An agent
 * may find a note that an earlier agent took. It removes the note if the last commit contains the
 * losses, and otherwise reads the note. The process stays in the list while it runs, with or
 * without rings.
 *
 * Threads   The drain's thread only.
 */
#ifndef MRD_AGENT_RINGS_RING_NOTES_H
#define MRD_AGENT_RINGS_RING_NOTES_H

#include "agent/rings/drain_int.h"

/* Handles a file in directory `dir` that has the name of a note of losses. */
void mrd_drain_note_found(mrd_drain *drain, unsigned dir, int dir_fd, const char *file_name);
/* Like mrd_drain_positions and mrd_drain_release, for the process's notes of losses.
 * mrd_drain_note_release may free the process. */
void mrd_drain_note_positions(const mrd_drain *drain, const proc *pr,
                              void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
void mrd_drain_note_release(mrd_drain *drain, const proc *pr);
/* Removes processes that have ended and have no rings. */
void mrd_drain_note_sweep(mrd_drain *drain);
void mrd_drain_notes_fini(mrd_drain *drain);

#endif
