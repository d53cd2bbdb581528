/* agent/dir_name.h - a key of a directory's number and a name in it (base/index.h) */
#ifndef MRD_AGENT_DIR_NAME_H
#define MRD_AGENT_DIR_NAME_H

#include <string.h>

#include "base/hash.h"

typedef struct {
    unsigned dir;
    const char *name;
} mrd_dir_name;

static inline uint64_t
mrd_dir_name_hash(unsigned dir, const char *name)
{
    return mrd_hash64(name, strlen(name), mrd_hash_seed() + dir);
}

static inline bool
mrd_dir_name_is(const mrd_dir_name *key, unsigned dir, const char *name)
{
    return key->dir == dir && strcmp(key->name, name) == 0;
}

#endif
