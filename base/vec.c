#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* A new array has at least this many bytes and at least FIRST_ITEMS items. */
#define FIRST_BYTES 128
#define FIRST_ITEMS 4

void *
mrd_vec_grow(void *v, size_t size, size_t n, size_t *cap, size_t more, size_t max)
{
    size_t most = PTRDIFF_MAX / size, want = *cap;
    void *grown;

    most = most < max ? most : max;
    if (n > most || more > most - n)
        return NULL;
    if (want == 0)
        want = size > FIRST_BYTES / FIRST_ITEMS ? FIRST_ITEMS : FIRST_BYTES / size;
    else
        want = want > most / 2 ? most : want * 2;
    want = want < n + more ? n + more : want;
    want = want > most ? most : want;
    if (want <= *cap && v != NULL)
        return v;
    if ((grown = realloc(v, want * size)) != NULL)
        *cap = want;
    return grown;
}

void *
mrd_vec_reach(void *v, size_t size, size_t *n, size_t at, size_t max)
{
    size_t cap = *n;
    void *grown;

    if (at < *n)
        return v;
    if (at == SIZE_MAX || (grown = mrd_vec_grow(v, size, 0, &cap, at + 1, max)) == NULL)
        return NULL;
    memset((char *) grown + *n * size, 0, (cap - *n) * size);
    *n = cap;
    return grown;
}

void *
mrd_vec_next(void *v, size_t size, size_t n)
{
    size_t want = n == 0 ? 1 : 2 * n;

    if (n > PTRDIFF_MAX / 2 / size)
        return NULL;
    return n > 0 && (n & (n - 1)) != 0 ? v : realloc(v, want * size);
}
