/*
 * agent/neffs.h - models that programs keep (capture/neffs.h): their folder is tidied up when the last
 * process that kept some was killed and could not do so itself.
 * Threads: any.
 */
#ifndef MRD_AGENT_NEFFS_H
#define MRD_AGENT_NEFFS_H

#include <stdint.h>

/* The folder of the file `kept`, when it is the user's own and no process holds its lock any more: its
 * models, its lock and, where they are empty then, it and the folder above are removed. */
void mrd_neffs_sweep(const char *kept, int64_t uid);

#endif
