#include "aggregator/core/common/text.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

void
mrd_text_set(char *to, size_t size, const char *from)
{
    size_t len = from == NULL ? 0 : strnlen(from, size - 1);

    memcpy(to, from == NULL ? "" : from, len);
    to[len] = '\0';
}

int64_t
mrd_time_checked(int64_t ns)
{
    return ns > -(1LL << 62) && ns < 1LL << 62 ? ns : 0;
}

uint64_t
mrd_count_checked(uint64_t n)
{
    return n < MRD_COUNT_MAX ? n : MRD_COUNT_MAX;
}

mrd_map_key
mrd_id_key(const char *instance_id)
{
    size_t len = strlen(instance_id);

    return (mrd_map_key){ .a = mrd_hash64(instance_id, len, 1),
                          .b = mrd_hash64(instance_id, len, 2),
                          .c = len };
}

mrd_err
mrd_id_put(mrd_map *map, const char *instance_id, size_t at)
{
    mrd_map_key key = mrd_id_key(instance_id);

    return mrd_map_get(map, key) != MRD_MAP_NONE ? MRD_OK : mrd_map_put(map, key, (uint32_t) at);
}

unsigned
mrd_text_index(const char *const *names, unsigned n, const char *text, unsigned otherwise)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    return otherwise;
}
