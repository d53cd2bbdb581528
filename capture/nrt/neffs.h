/*
 * capture/nrt/neffs.h - keeps the bytes of models that were loaded from memory, for sessions that
 * request them later (MERIDIAN_NEFFS). Internal.
 *
 * The directory is <MERIDIAN_DEVICE_PROFILES>/meridian-profiles-<uid>/neffs. It has each model once
 * for all processes of the user, as neff_<sha256>.neff. Every process that keeps models holds a
 * shared lock on the file `.lock` in this directory. The last of these processes removes the models
 * when it exits. If processes were killed, the next process or the agent removes their files.
 */
#ifndef MRD_CAPTURE_NRT_NEFFS_H
#define MRD_CAPTURE_NRT_NEFFS_H

#include <stdbool.h>
#include <stddef.h>

#define MRD_NEFFS_PATH 480

/* Writes the model's file and stores its path in ret_path. Returns false if MERIDIAN_NEFFS does not
 * enable this, if the total would exceed MERIDIAN_NEFFS bytes, or if the file cannot be written.
 * All callers must hold the same lock, for example mrd_proc_lock_models. */
bool mrd_neffs_keep(const void *neff, size_t size, const char sha256[65],
                    char ret_path[MRD_NEFFS_PATH]);

#endif
