/*
 * agent/ring_notes.h - notes of losses (capture/ring_note.h): processes that cannot make a ring say in them how many events they
 * lost.
 *
 * A note is taken by renaming it, so that its process begins another one, and is read then. Its losses are given like those of a
 * ring. When they are committed the file is removed. A successor that finds a taken note removes it if the last commit has it,
 * else reads it. The process is known as long as it lives, with or without rings.
 * Threads  the drain's.
 */
#ifndef MRD_AGENT_RING_NOTES_H
#define MRD_AGENT_RING_NOTES_H

#include "agent/drain_int.h"

/* A file with the name of a note was found in a directory that may be read. */
void mrd_drain_note_found(mrd_drain *p, unsigned dir, int dir_fd, const char *file_name);
/* As mrd_drain_positions and mrd_drain_release, for the notes of the process. The release may free the process. */
void mrd_drain_note_positions(const mrd_drain *p, const proc *pr,
                              void (*call)(void *self, uint64_t ring, uint64_t read), void *self);
void mrd_drain_note_release(mrd_drain *p, const proc *pr);
/* Forgets processes without rings that have ended. */
void mrd_drain_note_sweep(mrd_drain *p);
void mrd_drain_notes_fini(mrd_drain *p);

#endif
