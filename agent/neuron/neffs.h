/* agent/neuron/neffs.h - removes the directory in which a program kept its models
 * (capture/nrt/neffs.h), if the last process of the program was killed and could not do so itself.
 * All threads may call this function. */
#ifndef MRD_AGENT_NEURON_NEFFS_H
#define MRD_AGENT_NEURON_NEFFS_H

#include <stdint.h>

/* Removes models and lock from the directory of the file `kept`. Then removes that directory and
 * its parent if they are empty. Does nothing if a process holds the lock, or if the directory
 * belongs to another user. */
void mrd_neffs_sweep(const char *kept, int64_t uid);

#endif
