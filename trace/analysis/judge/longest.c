#include "trace/analysis/judge/longest.h"

#include <string.h>

void *
mrd_longest_place(void *list, size_t size, size_t at_dur, size_t *n, size_t most, int64_t dur)
{
    char *v = list;
    size_t at = *n;

    while (at > 0) {
        int64_t other;

        memcpy(&other, v + (at - 1) * size + at_dur, sizeof(other));
        if (other >= dur)
            break;
        at--;
    }
    if (at == most)
        return NULL;
    if (*n < most)
        (*n)++;
    memmove(v + (at + 1) * size, v + at * size, (*n - 1 - at) * size);
    return v + at * size;
}
