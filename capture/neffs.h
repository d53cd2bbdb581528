/*
 * capture/neffs.h - keeps the bytes of models that were loaded from memory, for sessions that ask for them
 * later (MERIDIAN_NEFFS). Internal.
 *
 * In <MERIDIAN_DEVICE_PROFILES>/meridian-profiles-<uid>/neffs, each once for all processes of the user:
 * neff_<sha256>.neff. Every process that keeps some holds a shared lock on `.lock` there; the last one to end
 * removes them. What processes that were killed left is removed by the next, or by the agent.
 */
#ifndef MRD_CAPTURE_NEFFS_H
#define MRD_CAPTURE_NEFFS_H

#include <stdbool.h>
#include <stddef.h>

#define MRD_NEFFS_PATH 480

/* Keeps it. False: not asked for, more than MERIDIAN_NEFFS in all, or it cannot be written. Threads: under
 * the process's lock of models, or any other that its callers share. */
bool mrd_neffs_keep(const void *neff, size_t size, const char sha256[65],
                    char ret_path[MRD_NEFFS_PATH]);

#endif
