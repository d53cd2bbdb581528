/* agent/guard/dir_name.h - a key for hash tables (base/index.h) that consists of a directory's
 * number and the name of a file in it. */
#ifndef MRD_AGENT_GUARD_DIR_NAME_H
#define MRD_AGENT_GUARD_DIR_NAME_H

#include <string.h>

#include "base/hash.h"

typedef struct {
    unsigned directory;
    const char *name;
} mrd_dir_name;

static inline uint64_t
mrd_dir_name_hash(unsigned directory, const char *name)
{
    return mrd_hash64(name, strlen(name), mrd_hash_seed() + directory);
}

static inline bool
mrd_dir_name_is(const mrd_dir_name *key, unsigned directory, const char *name)
{
    return key->directory == directory && strcmp(key->name, name) == 0;
}

#endif
