/*
 * agent/neuron/neffs.h - removes the directory of models that a program kept (capture/nrt/neffs.h),
 * if its last process was killed and could not do so. Threads: any.
 */
#ifndef MRD_AGENT_NEURON_NEFFS_H
#define MRD_AGENT_NEURON_NEFFS_H

#include <stdint.h>

/* Removes models and lock from the directory of the file `kept`, then this directory and its parent
 * if they are empty. Does nothing unless the directory belongs to the user and no process holds its
 * lock. */
void mrd_neffs_sweep(const char *kept, int64_t uid);

#endif
